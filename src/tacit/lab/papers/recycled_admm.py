"""Zhang, Khalili, Liu, "Recycled ADMM: Improving the Privacy and Accuracy of Distributed Algorithms", section VIII.

Fig. 3 to 5, with noise; `recycled_admm_exact` has the constants, and Fig. 1 and 2; `recycled_admm_output` has section
VII.B. The text does not give the gammas of Fig. 3, the alphas of Fig. 5, how many iterations (100), and the growth of
M-ADMM's penalty (as fast an iteration as MR-ADMM's): we chose them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tacit.algorithms import (
    Algorithm,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    PenaltyPerturbedADMM,
    RecycledADMM,
)
from tacit.algorithms.dual_perturbed_admm import paper_noise
from tacit.algorithms.hyper import at
from tacit.errors import InputError
from tacit.lab.papers.experiment import DELTA, Claim, Figures, Lab, Panel, PaperFigure, Runs, Series, falling, listed
from tacit.lab.papers.recycled_admm_exact import ERROR, ETA_HAT, FIVE, GROWTHS, ITERATIONS, LOSS, fig1, fig2, powers
from tacit.lab.papers.recycled_admm_output import output
from tacit.privacy.events import Pure
from tacit.privacy.plan import calibrate, paper_total

NON_PRIVATE = "ADMM, not private"
FASTEST = 1.04  # MR-ADMM's growth in Fig. 5
DVP, M_ONE, M_EACH, R, MR = "ADMM (DVP)", "M-ADMM, one α", "M-ADMM, α per agent", "R-ADMM", "MR-ADMM"
R_STOPPED, MR_STOPPED = "ADMM, R's noise, stopped", "ADMM, MR's noise, stopped"
DVP_SAME, M_SAME = "ADMM, same (ε, δ)", "M-ADMM, same (ε, δ)"
STOPPED = (R_STOPPED, MR_STOPPED)
PAPERS = (DVP, M_ONE, M_EACH, R, MR)  # the methods of the paper's Fig. 5; the controls are compared with two of them
CONTROLS = (R, MR, *STOPPED, DVP_SAME, M_SAME)
OF = {R_STOPPED: R, MR_STOPPED: MR, DVP_SAME: DVP, M_SAME: "M-ADMM"}  # whose colour a curve has
OWN_ALPHA = np.array([0.8, 0.9, 1.0, 1.1, 1.2])


def fig3(lab: Lab) -> PaperFigure:
    """Private MR-ADMM with several gammas."""
    T, gammas = lab.size.rounds, (0.1, 0.5, 2.0) if lab.size.quick else (0.1, 0.5, 1.0, 2.0, 10.0)
    panels, claims, errors = [], [], []
    for letter, alpha in (("a", 1.0), ("b", 2.0)):
        runs = {g: lab.runs(_mr(alpha, 1.01, gamma=g), FIVE, T) for g in gammas}
        panels.append(_losses(lab, f"α = {alpha:g}", {f"γ = {g:g}": run for g, run in runs.items()}, letter))
        errors.append(Series.of(f"α = {alpha:g}", gammas, _finals(runs, "error"), "o-"))
        for where, what, name in ((f"Fig. 3({letter})", "loss", "loss"), ("Fig. 3(c)", "error", "error rate")):
            every = _finals(runs, what)
            means, widest = every.mean(axis=0), np.ptp(every, axis=0).max()
            spread = np.ptp(every[:, np.array(gammas) <= 2], axis=1)  # of each seed
            text = f"varying γ from 0.1 to 2 does not affect the {name} much (less than chance does), α = {alpha:g}"
            measured = (
                f"mean {name} {listed(means, '.4f')} at γ = {listed(gammas, 'g')}: up to 2, those of one seed "
                f"differ by up to {spread.max():.4f}, the runs of one γ by up to {widest:.4f}"
            )
            claims.append(Claim(where, "paper", text, measured, spread < widest))
    panels.append(Panel("the error rate", "γ", ERROR, errors, log_x=True, letter="c"))
    return PaperFigure("The effect of γ on private MR-ADMM, η(2k-1) = 1.01ᵏ", panels, claims)


def fig4(lab: Lab) -> PaperFigure:
    """Private MR-ADMM with penalties that grow at several speeds, and its privacy bound."""
    T, growths = lab.size.rounds, GROWTHS[::2] if lab.size.quick else GROWTHS
    losses, bounds, errors, claims, gains = [], [], [], [], []
    paper = partial(Claim, "Fig. 4", "paper")
    for letter, alpha in (("a", 2.0), ("b", 1.0)):
        methods = {q: _mr(alpha, q) for q in growths}
        runs = {q: lab.runs(method, FIVE, T) for q, method in methods.items()}
        spent = {q: lab.spending(method, FIVE, T) for q, method in methods.items()}
        losses.append(_losses(lab, f"α = {alpha:g}", {f"q = {q:g}": run for q, run in runs.items()}, letter))
        series = [Series.over_rounds(f"q = {q:g}", P) for q, P in spent.items()]
        below = {"a": "c", "b": "d"}[letter]
        bounds.append(Panel(f"α = {alpha:g}", ITERATIONS, "P(t), the paper's bound", series, letter=below))
        errors.append(Series.of(f"α = {alpha:g}", growths, _finals(runs, "error"), "o-"))
        final = _finals(runs, "loss")
        totals = [P[-1] for P in spent.values()]
        gains.append(final[:, 0] - final[:, -1])
        claims += [
            paper(
                "the faster the penalty grows (1.01 to 1.05), the better the accuracy and the smaller P, "
                f"α = {alpha:g}",
                f"losses {listed(final.mean(axis=0), '.4f')}, P {listed(totals, '.2f')}",
                falling(final) & falling(totals),
            ),
            paper(
                "a growing penalty stabilises: a run is nearer to the mean of the runs at 1.05 than at 1.01, "
                f"α = {alpha:g}",
                f"ranges over the runs {listed(np.ptp(final, axis=0), '.4f')}",
                np.abs(final[:, -1] - final[:, -1].mean()) < np.abs(final[:, 0] - final[:, 0].mean()),
            ),
            Claim(
                "Fig. 4(e)",
                "paper",
                f"the error rate is lower with the fastest penalty than with the slowest, α = {alpha:g}",
                f"mean error rates {listed(_finals(runs, 'error').mean(axis=0), '.4f')} at q = {listed(growths, 'g')}",
                _finals(runs, "error")[:, -1] < _finals(runs, "error")[:, 0],
            ),
        ]
    text = "the improvement is greater with more noise (α = 1 against 2)"
    means = [gain.mean() for gain in gains]
    measured = f"from 1.01 to 1.05 the mean loss falls by {means[1]:.4f} at α = 1 and by {means[0]:.4f} at α = 2"
    claims.append(paper(text, measured, gains[1] > gains[0]))
    panels = [*losses, *bounds, Panel("the error rate", "q", ERROR, errors, letter="e")]
    return PaperFigure("The effect of the penalty's growth η(2k-1) = qᵏ on private MR-ADMM, γ = 0.5", panels, claims)


def fig5(lab: Lab) -> PaperFigure:
    """ADMM (DVP), M-ADMM, R-ADMM and MR-ADMM with the same total of the papers' bounds; and the controls.

    R-ADMM has the alpha in the figure; its P(T) is the target. DVP and M-ADMM get the alpha with which the sum of
    *their* papers' bounds over T iterations is that target for the agent that pays most ("one α") or for every agent
    ("α per agent"). MR-ADMM has R-ADMM's alpha, and so a smaller P.

    The controls ("stopped") are plain ADMM with R-ADMM's noise and penalty, stopped after as many noisy solves as
    R-ADMM does in T iterations. Each solve is the mechanism of R-ADMM's odd step, so (32) bounds it as well.

    "same (ε, δ)": the least noise with which every step costs the same and all of them together cost R-ADMM's tight
    (ε, δ). The papers' bounds are loose by different factors, so this is the fairer match.
    """
    T, K = lab.size.rounds, (lab.size.rounds + 1) // 2
    alphas = (1.0,) if lab.size.quick else (0.5, 1.0, 2.0)
    beyond = () if lab.size.quick else (3.0, 4.0)
    losses: list[Panel] = []
    controls: list[Panel] = []
    bounds: list[Panel] = []
    finals: dict[str, list[np.ndarray]] = {}
    errors: dict[str, list[np.ndarray]] = {}
    epsilons: dict[str, list[float]] = {}
    totals: dict[str, list[float]] = {}
    for alpha in (*alphas, *beyond):
        methods = _compared(lab, alpha, T, K) if alpha in alphas else _stopped_and_recycled(lab, alpha, T, K)
        runs = {name: lab.runs(method, FIVE, rounds) for name, (method, rounds) in methods.items()}
        spent = {name: _spending(lab, name, alpha, method, rounds) for name, (method, rounds) in methods.items()}
        for name, (method, rounds) in methods.items():
            finals.setdefault(name, []).append(runs[name].loss[:, -1])
            errors.setdefault(name, []).append(runs[name].error[:, -1])
            epsilons.setdefault(name, []).append(lab.plan(method, FIVE, rounds).epsilon(DELTA))
            totals.setdefault(name, []).append(np.nan if spent[name] is None else spent[name][-1])  # type: ignore[index]
        if alpha in alphas:
            shown = {name: runs[name] for name in PAPERS}
            losses.append(_losses(lab, f"α = {alpha:g}", shown, "abc"[len(losses)], log_y=True))
            series = [Series.over_rounds(n, runs[n].loss, _line(n), OF.get(n, "")) for n in CONTROLS]
            controls.append(Panel(f"controls, α = {alpha:g}", ITERATIONS, LOSS, series, log_y=True))
            known = {name: P for name in PAPERS if (P := spent[name]) is not None}
            series = [Series.over_rounds(name, P, _line(name), OF.get(name, "")) for name, P in known.items()]
            letter = "def"[len(bounds)]
            bounds.append(Panel(f"α = {alpha:g}", ITERATIONS, "P(t), the papers' bounds", series, letter=letter))
    every = np.array([*alphas, *beyond])

    def panel(
        title: str, label: str, values: dict[str, list], names: tuple[str, ...], log_y: bool = False, letter: str = ""
    ) -> Panel:
        series = [
            Series.of(name, every[: len(v)], np.array(v).T, f"o{_line(name)}", OF.get(name, ""))
            for name, v in ((name, values[name]) for name in names)
        ]
        return Panel(title, "α of R-ADMM", label, series, log_x=True, log_y=log_y, letter=letter)

    ends = [
        panel("the error rate", ERROR, errors, PAPERS, letter="g"),
        panel("what the run costs", f"ε at δ = {DELTA:g}", epsilons, PAPERS),
        panel("the loss in the end", "final loss", finals, PAPERS, log_y=True),
    ]
    last = panel("controls: the loss in the end", "final loss", finals, CONTROLS, log_y=True)
    return PaperFigure(
        f"ADMM (DVP), M-ADMM, R-ADMM and MR-ADMM at the same total, {T} iterations; dashed: stopped after {K} solves",
        [*losses, *bounds, *ends, *controls, last],
        [
            *_comparison_claims(finals, errors, epsilons, totals, alphas),
            _own_settings(lab, T),
            *_control_claims(finals, totals, every, alphas),
        ],
    )


FIGURES: Figures = {"fig1": fig1, "fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5, "output": output}


def _mr(alpha: float, growth: float, gamma: float = 0.5) -> RecycledADMM:
    return RecycledADMM(penalty=powers(growth), gamma=gamma, alpha=alpha)


def _own_settings(lab: Lab, T: int) -> Claim:
    """Section VIII.B: similar results are observed when alpha_i and eta_i vary from node to node; alpha = 1 on average.

    eta_i as in Fig. 1(b), with dual steps of the agents' own, as printed; alpha_i from 0.8 to 1.2. M-ADMM and DVP get
    the alpha_i with which every agent has the largest total of R-ADMM (for DVP, whose bound is alpha, all the same).
    """
    own, fastest = np.tile(OWN_ALPHA, (T, 1)), powers(FASTEST, ETA_HAT)
    recycled = RecycledADMM(penalty=1.0, gamma=0.5, alpha=own)
    target = lab.spending(recycled, FIVE, T)[-1]
    growing = PenaltyPerturbedADMM(penalty=_as_fast(ETA_HAT))
    plain = DualPerturbedADMM(penalty=1.0)
    methods: dict[str, Algorithm] = {
        MR: RecycledADMM(penalty=fastest, gamma=0.5, alpha=own),
        R: recycled,
        M_EACH: replace(growing, alpha=np.tile(matched(lab, lambda a: replace(growing, alpha=a), target, T), (T, 1))),
        DVP: replace(plain, alpha=np.tile(matched(lab, lambda a: replace(plain, alpha=a), target, T), (T, 1))),
    }
    losses = np.array([lab.runs(method, FIVE, T).loss[:, -1] for method in methods.values()])  # (methods, seeds)
    return Claim(
        "Section VIII.B",
        "paper",
        "results are similar when αᵢ and ηᵢ vary from node to node: MR-ADMM has the lowest loss, then R-ADMM, and "
        "M-ADMM and ADMM (DVP) come after them",
        f"mean losses of {', '.join(methods)}: {listed(losses.mean(axis=1), '.4f')} at αᵢ = {listed(OWN_ALPHA, 'g')}, "
        f"η̂ᵢ of Fig. 1(b), P = {target:.2f}",
        (losses[0] < losses[1]) & (losses[1] < losses[2:].min(axis=0)),
    )


def _stopped_and_recycled(lab: Lab, alpha: float, T: int, K: int) -> dict[str, tuple[Algorithm, int]]:
    recycled = {R: RecycledADMM(penalty=1.0, gamma=0.5, alpha=alpha), MR: _mr(alpha, FASTEST)}
    return {
        **{name: (method, T) for name, method in recycled.items()},
        R_STOPPED: (with_noise_of(lab, recycled[R], K), K),
        MR_STOPPED: (with_noise_of(lab, recycled[MR], K), K),
    }


def _compared(lab: Lab, alpha: float, T: int, K: int) -> dict[str, tuple[Algorithm, int]]:
    """All the methods of Fig. 5, and for how many rounds each runs."""
    ours = _stopped_and_recycled(lab, alpha, T, K)
    target = lab.spending(ours[R][0], FIVE, T)[-1]
    epsilon = lab.plan(ours[R][0], FIVE, T).epsilon(DELTA)
    growing = PenaltyPerturbedADMM(penalty=_as_fast())
    plain = DualPerturbedADMM(penalty=1.0)

    def same(make: Callable) -> Algorithm:
        return calibrate(make, lab.problem(FIVE), lab.graph(), T, epsilon=epsilon, delta=DELTA, law=Pure)

    per_agent = matched(lab, lambda a: replace(growing, alpha=a), target, T)
    return {
        DVP: (replace(plain, alpha=float(matched(lab, lambda a: replace(plain, alpha=a), target, T).min())), T),
        M_ONE: (replace(growing, alpha=float(per_agent.min())), T),
        M_EACH: (replace(growing, alpha=np.tile(per_agent, (T, 1))), T),
        **ours,
        DVP_SAME: (same(lambda budget: replace(plain, budget=budget)), T),
        M_SAME: (same(lambda budget: replace(growing, budget=budget)), T),
    }


def _as_fast(first: float | np.ndarray = 1.0) -> Geometric:
    """M-ADMM's penalty: that of MR-ADMM at the same t = 2k - 1, q^((t+1)/2)."""
    return Geometric(first * FASTEST, math.sqrt(FASTEST))


def matched(lab: Lab, make: Callable[[float], Algorithm], target: float, rounds: int) -> np.ndarray:
    """(N,) the alpha with which each agent's total of the paper's bound is the target; the bounds are affine in it."""
    problem, view = lab.problem(FIVE), lab.graph().view()
    first, second = (paper_total(make(alpha), problem, view, range(rounds)) for alpha in (1.0, 2.0))
    assert first is not None
    assert second is not None
    return 1 + (target - first) / (second - first)


def with_noise_of(lab: Lab, method: RecycledADMM, solves: int) -> DualPerturbedADMM:
    """Plain ADMM whose every solve has the penalty and the noise of R-ADMM's odd step: density exp(-alpha ||e||)."""
    problem, view = lab.problem(FIVE), lab.graph().view()
    assert method.alpha is not None
    alphas = []
    for k in range(solves):
        eta = at("penalty", method.penalty, k, view.ids)
        zeta = at("alpha", method.alpha, k, view.ids) * problem.row_weight  # of C/B e
        plenty = 2 * zeta + 100  # zeta = (alpha - what the Jacobian takes)/2 as long as Phi = 0
        alpha = 2 * zeta + plenty - 2 * paper_noise(problem, eta, view, plenty, as_printed=False)[0]
        if np.any(paper_noise(problem, eta, view, alpha, as_printed=False)[1] > 0):
            raise InputError(f"with alpha = {method.alpha} dual perturbation changes the objective: no fair control")
        alphas.append(alpha[:, 0])
    return DualPerturbedADMM(penalty=method.penalty, alpha=np.array(alphas))


def _spending(lab: Lab, name: str, alpha: float, method: Algorithm, rounds: int) -> np.ndarray | None:
    """P(t); for the stopped controls by (32), which bounds their solves like R-ADMM's odd ones."""
    if name in (DVP_SAME, M_SAME):
        return None
    if name in STOPPED:
        recycled = RecycledADMM(penalty=method.penalty, gamma=0.5, alpha=alpha)  # type: ignore[attr-defined]
        return lab.spending(recycled, FIVE, 2 * rounds)[::2]
    return lab.spending(method, FIVE, rounds)


def _comparison_claims(
    finals: dict[str, list[np.ndarray]],
    errors: dict[str, list[np.ndarray]],
    epsilons: dict[str, list[float]],
    totals: dict[str, list[float]],
    alphas: tuple[float, ...],
) -> list[Claim]:
    """Which method is better, by loss, by error, and by its true cost."""
    shown, one = len(alphas), alphas.index(1.0)
    old = (DVP, M_ONE, M_EACH)

    def mean(values: dict[str, list[np.ndarray]], name: str) -> np.ndarray:
        return np.array([v.mean() for v in values[name][:shown]])

    def below(values: dict[str, list[np.ndarray]], first: str, second: str) -> np.ndarray:
        """Whether the first is below the second at every alpha, for each seed."""
        return np.all(np.array(values[first][:shown]) < np.array(values[second][:shown]), axis=0)

    def best(values: dict[str, list[np.ndarray]]) -> np.ndarray:
        """Whether MR-ADMM is below R-ADMM, and R-ADMM below the older methods, at every alpha, for each seed."""
        return np.all([below(values, MR, R), *(below(values, R, name) for name in old)], axis=0)

    def means(values: dict[str, list[np.ndarray]], names: tuple[str, ...] = (*old, R, MR)) -> str:
        return "; ".join(f"{name} {listed(mean(values, name), '.4f')}" for name in names)

    def each(values: dict[str, list[float]]) -> str:
        return "; ".join(f"{name} {listed(values[name][:shown], '.2f')}" for name in (*old, R, MR))

    same = all(math.isclose(totals[name][i], totals[R][i], rel_tol=1e-9) for name in old for i in range(shown))
    ordered = (MR, R, M_EACH, DVP)
    claims = [
        Claim(
            "Fig. 5(d)-(f)",
            "paper",
            "the totals P(T) are the same (by construction), and MR-ADMM's is the least",
            f"{each(totals)} at α = {listed(alphas, 'g')}",
            same and all(totals[MR][i] < totals[R][i] for i in range(shown)),
        ),
        Claim(
            "Fig. 5(a)-(c)",
            "paper",
            "R-ADMM and MR-ADMM have a lower loss than ADMM (DVP) and M-ADMM, however M-ADMM is calibrated, and "
            "MR-ADMM has the lowest",
            means(finals),
            best(finals),
        ),
        Claim(
            "Fig. 5(g)",
            "paper",
            "R-ADMM and MR-ADMM have a lower test error than ADMM (DVP) and M-ADMM, and MR-ADMM the lowest",
            means(errors),
            best(errors),
        ),
        Claim(
            "Fig. 5(a)",
            "tacit",
            "at α = 1: MR-ADMM < R-ADMM < M-ADMM (α per agent) < DVP in loss",
            _ranges(finals, one, ordered),
            np.all(np.diff([finals[name][one] for name in ordered], axis=0) > 0, axis=0),
        ),
        Claim(
            "Fig. 5",
            "tacit",
            "M-ADMM with one α for all is worse than M-ADMM with an α for each agent, at every α",
            _ranges(finals, one, (M_EACH, M_ONE)),
            below(finals, M_EACH, M_ONE),
        ),
        Claim(
            "Fig. 5",
            "paper, by true cost",
            f"R-ADMM has a lower loss than ADMM and M-ADMM at the same (ε, δ = {DELTA:g}) instead of the same P",
            f"{means(finals, (DVP_SAME, M_SAME, R, MR))} at ε = {listed(epsilons[R][:shown], '.2f')}",
            below(finals, R, DVP_SAME) & below(finals, R, M_SAME),
        ),
        Claim(
            "Fig. 5",
            "tacit",
            f"methods of the same P differ in their true cost (ε at δ = {DELTA:g})",
            each(epsilons),
            not np.allclose([epsilons[name][:shown] for name in old], epsilons[R][:shown], rtol=0.02),
        ),
    ]
    if shown > 1:
        gain = np.array(finals[DVP][:shown]).T - np.array(finals[MR][:shown]).T  # (seeds, alphas)
        text = "the improvement is more significant with a smaller total privacy loss"
        gained = listed(gain.mean(axis=0), ".4f")
        measured = f"loss of ADMM (DVP) minus that of MR-ADMM: {gained} at α = {listed(alphas, 'g')}"
        claims.append(Claim("Fig. 5", "paper", text, measured, falling(gain)))
    return claims


def _control_claims(
    finals: dict[str, list], totals: dict[str, list[float]], alphas: np.ndarray, shown: tuple[float, ...]
) -> list[Claim]:
    """At the alphas that Fig. 5 shows; what was measured beyond them tells where the order turns."""
    claims = []
    for stopped, recycled in ((R_STOPPED, R), (MR_STOPPED, MR)):
        pairs = [(s.mean(), r.mean()) for s, r in zip(finals[stopped], finals[recycled], strict=True)]
        text = (
            f"plain ADMM with {recycled}'s penalty and noise, stopped after as many noisy solves, beats {recycled} at "
            f"α = {listed(shown, 'g')}, with half the messages"
        )
        measured = ", ".join(
            f"{s:.4f} against {r:.4f} (α = {a:g}, P = {P:.1f})"
            for (s, r), a, P in zip(pairs, alphas, totals[recycled], strict=True)
        )
        beats = np.all(
            [s < r for s, r, alpha in zip(finals[stopped], finals[recycled], alphas, strict=True) if alpha in shown],
            axis=0,
        )
        claims.append(Claim("Fig. 5", "tacit", text, measured, beats))
    return claims


def _ranges(finals: dict[str, list], place: int, names: tuple[str, ...]) -> str:
    return "; ".join(f"{n} {finals[n][place].min():.4f} to {finals[n][place].max():.4f}" for n in names)


def _line(name: str) -> str:
    return "--" if name in STOPPED else ":" if name in (DVP_SAME, M_SAME) else "-." if name == M_ONE else "-"


def _losses(lab: Lab, title: str, runs: dict[str, Runs], letter: str, log_y: bool = False) -> Panel:
    """Loss against iterations, with plain ADMM for comparison."""
    plain = lab.runs(ConsensusADMM(penalty=1.0), FIVE, lab.size.rounds)
    series = [Series.over_rounds(NON_PRIVATE, plain.loss)]
    series += [Series.over_rounds(name, run.loss, _line(name), OF.get(name, "")) for name, run in runs.items()]
    return Panel(title, ITERATIONS, LOSS, series, log_y=log_y, letter=letter)


def _finals(runs: dict[float, Runs], what: str) -> np.ndarray:
    """(runs, settings) the last loss or error."""
    return np.stack([getattr(run, what)[:, -1] for run in runs.values()], axis=1)
