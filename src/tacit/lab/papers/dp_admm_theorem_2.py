"""Paper 001: the number of rounds that Theorem 2 asks for, and its bound (18) beside what is measured."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tacit.algorithms import DPADMM
from tacit.lab.papers.dp_admm_runs import (
    ALONE,
    ENDS,
    EPSILON,
    FAST,
    METHODS,
    OBJECTIVE,
    PLAIN,
    PRINTED,
    RHO,
    SAFE,
    FusedLasso,
    delta_note,
    epsilons,
    fused_lasso,
    least_value,
    runs,
    step_budget,
    table,
)
from tacit.lab.papers.experiment import Claim, Lab, Panel, PaperFigure, Series, listed
from tacit.lab.theory.dp_admm import criterion, criterion_bound, suggested_rounds
from tacit.privacy.noise import SeededNoise
from tacit.simulation.simulate import simulate

CONSTANTS = (1.0, 3.0)  # of Theorem 2, which does not give it; its proof has a third one, 8 for a9a


def theorem2(lab: Lab) -> PaperFigure:
    """a9a with the rounds that Theorem 2 asks for, in place of a fixed number."""
    name, grid, lasso = "a9a", epsilons(lab), fused_lasso(lab, "a9a")
    constants = (*CONSTANTS, _constant_of_the_proof(lab, name))
    panels, claims = [], []
    for constant in constants:
        series, asked = [], []
        shown = f"{constant:.2g}" + (" (the proof's)" if constant == constants[-1] else "")
        for d in (PRINTED, SAFE):
            rounds = [_rounds(lasso, constant, e, d) for e in grid]
            asked += rounds
            found = {m: [runs(lab, name, m, t, e, d) for t, e in zip(rounds, grid, strict=True)] for m in METHODS}
            series += [Series.of(f"DP-{m}, δ = {d:g}", grid, table(f), "o-") for m, f in found.items()]
            slow, fast = (table(found[m]) for m in (PLAIN, FAST))
            means = f"DP-AccADMM {listed(fast.mean(axis=0))}; DP-ADMM {listed(slow.mean(axis=0))}"
            measured = f"{means}; T = {listed(rounds, 'g')}"
            here = f"a9a, T with the constant {shown}, δ = {d:g}"
            text = f"{here}: DP-AccADMM is worse at ε = {grid[0]:g} and better at {grid[-1]:g}"
            holds = (fast[:, 0] > slow[:, 0]) & (fast[:, -1] < slow[:, -1])
            claims.append(Claim("Theorem 2", "paper, at its own T", text, measured, holds))
            if constant == CONSTANTS[-1]:
                text = f"{here}: it is the other way round, because momentum adds up the noise of more rounds"
                reverse = (fast[:, 0] < slow[:, 0]) & (fast[:, -1] > slow[:, -1])
                claims.append(Claim("Theorem 2", "tacit", text, measured, reverse))
        title = f"a9a, constant {shown}: T = {min(asked)} to {max(asked)}"
        panels.append(Panel(title, EPSILON, OBJECTIVE, series, log_x=True, log_y=True))
    T = lab.size.rounds
    shown_bound, kept = _bound_of_theorem_2(lab, name)
    claims.append(kept)
    fixed = []
    for d in (PRINTED, SAFE):
        for m in METHODS:
            values = table([runs(lab, name, m, T, e, d) for e in grid])
            fixed.append(Series.of(f"DP-{m}, δ = {d:g}", grid, values, "o-"))
    panels.insert(0, Panel(f"a9a, T = {T}", EPSILON, OBJECTIVE, fixed, log_x=True, log_y=True))
    panels.append(shown_bound)
    return PaperFigure("A fixed number of rounds, and that of Theorem 2", panels, claims, delta_note(lab, name))


def _rounds(lasso: FusedLasso, constant: float, eps: float, delta: float) -> int:
    return suggested_rounds(
        constant=constant,
        rows=lasso.rows,
        dimension=lasso.composite.problem.dimension,
        epsilon=eps,
        delta=delta,
        step=1 / lasso.smoothness,
    )


def _constant_of_the_proof(lab: Lab, name: str) -> float:
    """sqrt(2 c_1) ||x_0 - x*||/c; c_1 has ||G||_2/eta <= L_f + rho ||A^T A|| at eta = 1/L_f and the least gamma."""
    lasso, (_, best) = fused_lasso(lab, name), least_value(lab, name)
    smooth, norm = lasso.smoothness, lasso.composite.term.norm
    smallest = np.linalg.svd(lasso.composite.term.A.toarray(), compute_uv=False).min()
    c_1 = (smooth + RHO * norm) / 2 + RHO * norm / 2 + smooth / (2 * RHO * smallest**2)
    return math.sqrt(2 * c_1) * float(np.linalg.norm(best.x)) / lasso.row_norm


def _criterion_after(lasso: FusedLasso, method: DPADMM, t: int, best: Any, seed: int) -> float:
    noise = SeededNoise(seed)
    s = simulate(method, lasso.composite.problem, ALONE, rounds=t, noise=noise, measure_every=t).state
    return criterion(lasso.composite, s.mean[0], s.mean_y[0], best)


def _bound_of_theorem_2(lab: Lab, name: str) -> tuple[Panel, Claim]:
    """R at the means of the x_t and the y_t, beside (18), against T, at the largest epsilon."""
    lasso, (_, best), eps = fused_lasso(lab, name), least_value(lab, name), ENDS[-1]
    problem, T = lasso.composite.problem, lab.size.rounds
    rounds = sorted({max(1, T // 10), max(1, T // 3), T, 3 * T})
    measured, bounds, printed = [], [], []
    for t in rounds:
        method = lasso.method(PLAIN, step_budget(lab, t, eps, PRINTED))
        step, sigma = float(method.step_size(problem)[0, 0]), float(method.sigma(problem)[0, 0])
        one = partial(_criterion_after, lasso, method, t, best)
        measured.append(lab.map(f"runs of {name}: R(x, y) after {t} rounds", one, range(lab.size.runs)))
        bound = partial(
            criterion_bound, best, start=np.zeros_like(best.x), penalty=RHO, step=step, sigma=sigma, rounds=t
        )
        bounds.append(bound())
        printed.append(bound(smoothness=lasso.smoothness))
    values = np.array(measured).T
    series = [
        Series.of("R(mean x, mean y)", rounds, values, "o-"),
        Series.of("(18), its noise corrected", rounds, bounds, "--"),
        Series.of("(18)", rounds, printed, "k--"),
    ]
    panel = Panel(f"{name}, ε = {eps:g}, δ = {PRINTED:g}", "T", "R", series, log_x=True, log_y=True)
    return panel, Claim(
        "Theorem 2",
        "paper",
        f"{name}, ε = {eps:g}: (18) bounds R at the means of x_t and y_t (its mean, by the theorem; here in each run)",
        f"T = {listed(rounds, 'g')}: R {listed(values.mean(axis=0))}; (18) {listed(printed)}; {listed(bounds)} with "
        "the noise's term corrected",
        np.all(values <= bounds, axis=1),
    )
