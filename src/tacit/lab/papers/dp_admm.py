"""Xu, Shang, Liu, Liu, Shen, Gong, "Differentially Private ADMM Algorithms for Machine Learning", section V.

Graph-guided fused lasso with the logistic loss, (11): lambda = 1e-5, rho = 1, eps from 0.01 to 0.1 at delta = 1e-3, and
at delta = 1e-5, which is below 1/n. a9a comes with tacit; a8a, ijcnn1 and bio_train are read from a folder.

The text does not give these, so we chose them: T = 100; steps of 1/(L_f + rho ||A^T A||); the norm to which rows are
clipped; the graph W. The paper takes W from the private rows by inverse covariance selection. Here W has an edge where
the correlation (about zero) in the test rows is above 0.5: we treat the test rows as public, also for the scales of
bio_train's columns.

The noise is for the whole run of T steps, calibrated by the tight accountant for replacing a record; u_0 = 0. The
momentum of DP-AccADMM is as printed, without restart. Curves show the objective f(x) + g(A x) of the last iterate.
Fig. 1 has CPU time on its axis in the paper, and iterations here: a note says what an iteration of each method costs.

`dp_admm_runs` has the data sets and the runs, `dp_admm_theorem_2` the rounds of Theorem 2, `dp_admm_fusing` the
question whether fusing helps.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

import numpy as np

from tacit.lab.papers.dp_admm_fusing import fusing
from tacit.lab.papers.dp_admm_runs import (
    ALONE,
    ENDS,
    EPSILON,
    FAST,
    METHODS,
    OBJECTIVE,
    PLAIN,
    PRINTED,
    ROWS,
    SAFE,
    CompositeRuns,
    delta_note,
    epsilons,
    fused_lasso,
    least_value,
    names,
    repeated,
    runs,
    step_budget,
    table,
)
from tacit.lab.papers.dp_admm_theorem_2 import theorem2
from tacit.lab.papers.experiment import Claim, Figures, Lab, Panel, PaperFigure, Series, falling, listed
from tacit.lab.theory.dp_admm import paper_sigma
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import Gaussian
from tacit.privacy.noise import SeededNoise
from tacit.privacy.sensitivity import gradient_sensitivity
from tacit.simulation.simulate import simulate

NAMED = (0.02, 0.08)  # where the text compares accuracies
LENGTHS, SWEPT_SEEDS = (0.25, 1.0, 4.0), 3  # of the sweep: the step over 1/(L_f + rho ||A^T A||), and how many seeds
ITERATIONS, GAP, ACCURACY = "iteration t", "objective - least value", "test accuracy"


def fig1(lab: Lab) -> PaperFigure:
    """The objective gap against iterations, at the least and the largest epsilon."""
    paper = partial(Claim, "Fig. 1", "paper")
    T = lab.size.rounds
    panels, claims = [], []
    for eps in ENDS:
        for name in names(lab):
            least, _ = least_value(lab, name)
            paths = {m: runs(lab, name, m, T).path for m in METHODS}
            noisy = {m: runs(lab, name, m, T, eps, PRINTED).path for m in METHODS}
            series = [Series.over_rounds(m, paths[m] - least, "k-" if m == PLAIN else "k--") for m in METHODS]
            series += [Series.over_rounds(f"DP-{m}", noisy[m] - least) for m in METHODS]
            panels.append(Panel(f"{name}, ε = {eps:g}, δ = {PRINTED:g}", ITERATIONS, GAP, series, log_y=True))
            lost = {m: noisy[m][:, -1] - paths[m][0, -1] for m in METHODS}  # of each seed
            text = f"{name}, ε = {eps:g}: noise costs the accelerated method more of its objective"
            measured = (
                f"DP-AccADMM - AccADMM: {lost[FAST].mean():.3g}; DP-ADMM - ADMM: {lost[PLAIN].mean():.3g} after {T} "
                "iterations"
            )
            claims.append(paper(text, measured, {f"T = {T}": lost[FAST] > lost[PLAIN]}))
    for name in names(lab):
        slow, fast = (runs(lab, name, m, T).path[0] for m in (PLAIN, FAST))
        sooner = int(np.argmax(fast <= slow[-1])) if np.any(fast <= slow[-1]) else T + 1
        noisy_paths = runs(lab, name, FAST, T, ENDS[-1], PRINTED).path
        early = max(1, T // 2)
        apart = np.abs(noisy_paths / fast - 1)[:, : early + 1].max(axis=1)  # of each seed
        claims += [
            paper(
                f"{name}: AccADMM is much faster than ADMM (half of the iterations at most)",
                f"it is where ADMM is after {T} iterations ({slow[-1]:.4f}) after {sooner}",
                sooner <= T / 2,
            ),
            paper(
                f"{name}, ε = {ENDS[-1]:g}: DP-AccADMM is about as fast as AccADMM (objectives "
                f"within 2% of each other up to iteration {early})",
                f"{100 * apart.min():.2g}% to {100 * apart.max():.2g}% apart at most, by the seed",
                apart <= 0.02,
            ),
        ]
    notes = [*_notes(lab), *(_cpu_time(lab, name) for name in names(lab))]
    return PaperFigure("Convergence of ADMM and AccADMM, with and without noise", panels, claims, notes)


def fig2(lab: Lab) -> PaperFigure:
    """Objective and test accuracy against epsilon."""
    T, grid = lab.size.rounds, epsilons(lab)
    rows: list[list[Panel]] = [[], []]
    claims = []
    for name in names(lab):
        plain = {m: runs(lab, name, m, T) for m in METHODS}
        noisy = {(m, d): [runs(lab, name, m, T, e, d) for e in grid] for m in METHODS for d in (PRINTED, SAFE)}
        for k, (field, label) in enumerate((("objective", OBJECTIVE), ("accuracy", ACCURACY))):
            series = [
                Series.of(m, grid, getattr(plain[m], field)[0] * np.ones(len(grid)), "k-" if m == PLAIN else "k--")
                for m in METHODS
            ]
            series += [
                Series.of(f"DP-{m}, δ = {d:g}", grid, table(found, field), "o-") for (m, d), found in noisy.items()
            ]
            rows[k].append(Panel(f"{name}, T = {T}", EPSILON, label, series, log_x=True, log_y=field == "objective"))
        for d in (PRINTED, SAFE):
            whose = "paper" if d == PRINTED else f"paper, at δ = {SAFE:g}"
            each = [table(noisy[m, d]) for m in (PLAIN, FAST)]  # (seeds, epsilons)
            slow, fast = (values.mean(axis=0) for values in each)
            right, better = (table(noisy[m, d], "accuracy") for m in (PLAIN, FAST))
            low, high = (grid.index(e) if e in grid else k for e, k in zip(NAMED, (0, len(grid) - 1), strict=True))
            constant = np.any([noisy[m, d][k].constant for m in METHODS for k in (low, high)], axis=0)
            as_said = (better[:, low] < right[:, low]) & (better[:, high] >= right[:, high])
            closer = np.abs(each[1] - plain[FAST].objective[0])
            claim = partial(Claim, "Fig. 2", whose)
            claims += [
                claim(
                    f"{name}: DP-AccADMM has the worse objective at ε = {grid[0]:g}",
                    f"DP-AccADMM {fast[0]:.3g}, DP-ADMM {slow[0]:.3g} after T = {T}",
                    {f"T = {T}": each[1][:, 0] > each[0][:, 0]},
                ),
                claim(
                    f"{name}: DP-AccADMM has the better objective at ε = {grid[-1]:g}",
                    f"DP-AccADMM {fast[-1]:.3g}, DP-ADMM {slow[-1]:.3g}; it is better {_from(grid, fast < slow)}",
                    {f"T = {T}": each[1][:, -1] < each[0][:, -1]},
                ),
                claim(
                    f"{name}: so with the test accuracy: worse at ε = {grid[low]:g}, as good or better at "
                    f"{grid[high]:g} (a seed in which one of these classifiers is constant cannot tell)",
                    f"DP-AccADMM {listed(better.mean(axis=0), '.4f')}; DP-ADMM {listed(right.mean(axis=0), '.4f')}; "
                    f"ε = {listed(grid, 'g')}",
                    {f"T = {T}": [None if c else bool(a) for c, a in zip(constant, as_said, strict=True)]},
                ),
                claim(
                    f"{name}: with ε, DP-AccADMM comes closer to AccADMM",
                    f"objectives {listed(fast)}; AccADMM {plain[FAST].objective[0]:.3g}",
                    falling(closer),
                ),
            ]
        claims.append(_classifying(lab, name, plain, noisy, grid))
    claims += [_printed_noise(lab, d) for d in (PRINTED, SAFE)]
    claims.append(_short_rows(lab))
    return PaperFigure("Objective and accuracy against the budget", [*rows[0], *rows[1]], claims, _notes(lab))


def sweep(lab: Lab) -> PaperFigure:
    """The objective of Fig. 2 after several T and with several steps: the text gives neither."""
    T, few = lab.size.rounds, min(SWEPT_SEEDS, lab.size.runs)
    times = (max(1, T // 4), T) if lab.size.quick else (T // 4, T, 4 * T)
    panels, claims, notes = [], [], []
    for name in names(lab):
        lasso = fused_lasso(lab, name)
        began = lasso.composite.value(np.zeros(lasso.composite.problem.dimension))
        worse: dict[str, np.ndarray] = {}
        better: dict[str, np.ndarray] = {}
        said = []
        for length in LENGTHS:
            plain = {m: np.array([_swept(lab, name, m, t, None, length, few)[0] for t in times]) for m in METHODS}
            if not all(np.all(values < began) for values in plain.values()):
                notes.append(f"{name}: {length:g} of the default step is too long: without noise a method gets nowhere")
                continue
            noisy = {
                (m, e): np.stack([_swept(lab, name, m, t, e, length, few) for t in times], axis=1)
                for e in ENDS
                for m in METHODS
            }
            series = [Series.of(m, times, values, "k-" if m == PLAIN else "k--") for m, values in plain.items()]
            series += [
                Series.of(f"DP-{m}, ε = {e:g}", times, values, "o-" if e == ENDS[0] else "o--")
                for (m, e), values in noisy.items()
            ]
            panels.append(Panel(f"{name}, step × {length:g}", "T", OBJECTIVE, series, log_x=True, log_y=True))
            for k, t in enumerate(times):
                here = f"T = {t}, step × {length:g}"
                worse[here] = noisy[FAST, ENDS[0]][:, k] > noisy[PLAIN, ENDS[0]][:, k]
                better[here] = noisy[FAST, ENDS[-1]][:, k] < noisy[PLAIN, ENDS[-1]][:, k]
                pairs = (f"{noisy[FAST, e][:, k].mean():.3g} and {noisy[PLAIN, e][:, k].mean():.3g}" for e in ENDS)
                said.append(f"{here}: " + ", ".join(pairs))
        measured = f"DP-AccADMM and DP-ADMM at ε = {listed(ENDS, 'g')}: {'; '.join(said)}"
        for text, found in (
            (f"DP-AccADMM has the worse objective at ε = {ENDS[0]:g}", worse),
            (f"DP-AccADMM has the better objective at ε = {ENDS[-1]:g}", better),
        ):
            claims.append(Claim("Fig. 2, over T and steps", "paper", f"{name}: {text}", measured, found))
    return PaperFigure("The objective after several T, with several steps", panels, claims, notes)


def _swept(lab: Lab, name: str, method: str, rounds: int, eps: float | None, length: float, few: int) -> np.ndarray:
    """(seeds,) the objective in the end; infinite where the numbers ran away."""
    lasso, budget = fused_lasso(lab, name), None if eps is None else step_budget(lab, rounds, eps, PRINTED)
    what = f"{name}, {method}, T = {rounds}, step x {length:g}" + ("" if eps is None else f", ε = {eps:g}")
    key = ("swept", name, method, rounds, budget, length, few)
    with np.errstate(all="ignore"):  # too long a step
        found = lab.once(key, lambda: repeated(lab, lasso, method, rounds, budget, False, what, length, few).objective)
    return np.nan_to_num(found, nan=np.inf)


FIGURES: Figures = {"fig1": fig1, "fig2": fig2, "theorem2": theorem2, "sweep": sweep, "fusing": fusing}


def _printed_noise(lab: Lab, delta: float) -> Claim:
    """What Theorem 1's noise costs under replacement of a record."""
    lasso, T = fused_lasso(lab, "a9a"), lab.size.rounds
    moved = float(gradient_sensitivity(lasso.composite.problem, lasso.row_norm)[0, 0])
    costs = []
    for eps in ENDS:
        sigma = paper_sigma(
            slope=lasso.row_norm, rows=lasso.rows, rounds=T, epsilon=eps, delta=delta, replace_one=False
        )
        costs.append(epsilon(Counter({Gaussian(sigma / moved): T}), delta))
    return Claim(
        "Theorem 1",
        "paper, one record replaced",
        f"its noise, for the sensitivity c/n, keeps ε = {listed(ENDS, 'g')} at δ = {delta:g}",
        f"it costs {listed(costs)}",
        all(cost <= eps for cost, eps in zip(costs, ENDS, strict=True)),
    )


def _short_rows(lab: Lab) -> Claim:
    """Whether the claim about small budgets survives another scale of the rows."""
    lasso, T, eps = fused_lasso(lab, "a9a", 1.0), lab.size.rounds, ENDS[0]
    budget = step_budget(lab, T, eps, PRINTED)
    slow, fast = (repeated(lab, lasso, m, T, budget, False, f"a9a, rows of norm 1, DP-{m}").objective for m in METHODS)
    return Claim(
        "Fig. 2",
        "paper, other rows",
        f"a9a with rows of norm 1, the same ρ: DP-AccADMM has the worse objective at ε = {eps:g}",
        f"DP-AccADMM {fast.mean():.3g}, DP-ADMM {slow.mean():.3g} after T = {T}",
        {f"T = {T}": fast > slow},
    )


def _classifying(
    lab: Lab,
    name: str,
    plain: dict[str, CompositeRuns],
    noisy: dict[tuple[str, float], list[CompositeRuns]],
    grid: tuple[float, ...],
) -> Claim:
    """Where the accuracy is that of a classifier that puts every test row into the same class."""
    y = fused_lasso(lab, name).test.y
    assert y is not None
    share = float(np.mean(y > 0))
    found = [f"{m} without noise" for m in METHODS if plain[m].constant.any()]
    for (m, d), several in noisy.items():
        at = [
            f"{e:g} ({o.constant.sum()} of {len(o.constant)})"
            for e, o in zip(grid, several, strict=True)
            if o.constant.any()
        ]
        found += [f"DP-{m}, δ = {d:g}: ε = {', '.join(at)}"] if at else []
    return Claim(
        "Fig. 2",
        "tacit",
        f"{name}: every test accuracy is that of a classifier which tells rows apart",
        f"the larger class has {max(share, 1 - share):.4f} of the test rows; "
        + (f"constant classifiers: {'; '.join(found)}" if found else "no classifier is constant"),
        not found,
    )


def _cpu_time(lab: Lab, name: str) -> str:
    """What an iteration takes: the x-axis of Fig. 1 is CPU time in the paper, and iterations here."""
    lasso, T = fused_lasso(lab, name), lab.size.rounds
    budget = step_budget(lab, T, ENDS[-1], PRINTED)
    took = []
    for m in METHODS:
        for label, law in ((m, None), (f"DP-{m}", budget)):
            began = time.process_time()
            noise = SeededNoise(0)
            simulate(lasso.method(m, law), lasso.composite.problem, ALONE, rounds=T, noise=noise, measure_every=T)
            took.append(f"{label} {1000 * (time.process_time() - began) / T:.2g}")
    return (
        f"Fig. 1 is against CPU time in the paper, and against iterations here; {name}, milliseconds of CPU time of an "
        f"iteration on this machine: {', '.join(took)}"
    )


def _from(grid: tuple[float, ...], better: np.ndarray) -> str:
    """The least epsilon from which on it is better."""
    worse = np.flatnonzero(~better)
    start = 0 if not len(worse) else int(worse[-1]) + 1
    return f"from ε = {grid[start]:g} on" if start < len(grid) else "at none of them"


def _notes(lab: Lab) -> list[str]:
    """What was left out, and which delta is too large."""
    left_out = [name for name in ROWS if name not in names(lab)]
    notes = [f"left out: {', '.join(left_out)}; they are read from --data-dir"] if left_out else []
    return notes + [note for name in names(lab) for note in delta_note(lab, name)]
