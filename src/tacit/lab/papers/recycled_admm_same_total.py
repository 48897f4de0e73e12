"""Paper 000, Fig. 5: ADMM (DVP), M-ADMM, R-ADMM and MR-ADMM at the same total; and the controls.

The text does not give the alphas, and the growth of M-ADMM's penalty (as fast an iteration as MR-ADMM's): we chose
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tacit.algorithms import Algorithm, DualPerturbedADMM, Geometric, PenaltyPerturbedADMM, RecycledADMM
from tacit.algorithms.dual_perturbed_admm import paper_noise
from tacit.algorithms.hyper import at
from tacit.errors import InputError
from tacit.lab.papers.experiment import DELTA, Claim, Lab, Panel, PaperFigure, Series, falling, listed
from tacit.lab.papers.recycled_admm_runs import ERROR, ETA_HAT, FIVE, ITERATIONS, LOSS, losses_beside_plain, mr, powers
from tacit.privacy.events import Pure
from tacit.privacy.plan import calibrate, paper_total

FASTEST = 1.04  # MR-ADMM's growth in Fig. 5
DVP, M_ONE, M_EACH, R, MR = "ADMM (DVP)", "M-ADMM, one α", "M-ADMM, α per agent", "R-ADMM", "MR-ADMM"
R_STOPPED, MR_STOPPED = "ADMM, R's noise, stopped", "ADMM, MR's noise, stopped"
DVP_SAME, M_SAME = "ADMM, same (ε, δ)", "M-ADMM, same (ε, δ)"
STOPPED = (R_STOPPED, MR_STOPPED)
PAPERS = (DVP, M_ONE, M_EACH, R, MR)  # the methods of the paper's Fig. 5; the controls are compared with two of them
CONTROLS = (R, MR, *STOPPED, DVP_SAME, M_SAME)
OF = {R_STOPPED: R, MR_STOPPED: MR, DVP_SAME: DVP, M_SAME: "M-ADMM"}  # whose colour a curve has
OWN_ALPHA = np.array([0.8, 0.9, 1.0, 1.1, 1.2])


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
            title, letters = f"α = {alpha:g}", ("ad", "be", "cf")[len(losses)]
            series = [_curve(name, runs[name].loss) for name in PAPERS]
            losses.append(losses_beside_plain(lab, title, series, letters[0], log_y=True))
            series = [_curve(name, runs[name].loss) for name in CONTROLS]
            controls.append(Panel(f"controls, {title}", ITERATIONS, LOSS, series, log_y=True))
            series = [_curve(name, P) for name in PAPERS if (P := spent[name]) is not None]
            bounds.append(Panel(title, ITERATIONS, "P(t), the papers' bounds", series, letter=letters[1]))
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
    recycled = {R: RecycledADMM(penalty=1.0, gamma=0.5, alpha=alpha), MR: mr(alpha, FASTEST)}
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


def _curve(name: str, values: np.ndarray) -> Series:
    return Series.over_rounds(name, values, _line(name), OF.get(name, ""))


def _line(name: str) -> str:
    return "--" if name in STOPPED else ":" if name in (DVP_SAME, M_SAME) else "-." if name == M_ONE else "-"
