"""What the papers' theorems say about a plan, for `tacit plan --theory` and `--design`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.core.graph import Graph
from tacit.data import read_csv
from tacit.errors import InputError
from tacit.privacy.plan import Facts
from tacit.theory import convergence, design, samples


class Aim(NamedTuple):
    """Be within `accuracy` of the loss of a reference model, with probability 1 - `failure`."""

    dimension: int  # how many features
    reference: float  # the norm of the reference model
    accuracy: float
    failure: float


def statements(method: str, facts: Facts, graph: Graph, penalty: float, alpha: float | None, aim: Aim) -> list[str]:
    """Convergence conditions and sample sizes, one line each.

    method, penalty, alpha : the method, its penalty eta, and the paper's noise parameter if it is given
    facts, graph : the problem, and who talks to whom
    aim : how good the model must be
    """
    dimension, reference, accuracy, failure = aim
    lines = []
    if method == "r-admm" and graph.agents > 1:
        M = convergence.lipschitz(float(facts.scale.max()), facts.l2, loss=facts.loss)
        lines += [
            f"convergence: {convergence.best_constants(graph, penalty, 0.5, M)}",
            f"convergence: {convergence.smallest_gamma(graph, penalty, M)}",
        ]
    C, degree = float(facts.scale.max()), int(graph.degree.max(initial=1))
    promise = f"to be within {accuracy:g} of a reference of norm {reference:g} with probability {1 - failure:g}"
    needs: dict[str, Callable[[], float]] = {}

    def delta(parts: int) -> float:  # a theorem that holds with probability 1 - parts delta
        return failure / parts

    if method == "r-admm":
        tau: dict[str, Any] = {"f_ref": reference, "tau": accuracy}
        needs["Theorem VI.1, without noise"] = lambda: samples.mr_admm(**tau, delta=delta(1))
        needs["Theorem VI.2, with noise"] = lambda: samples.mr_admm_private(
            **tau, delta=delta(2), alpha=_given(alpha), d=dimension, agents=graph.agents, C=C
        )
    else:
        shared: dict[str, Any] = {"f_ref": reference, "alpha_acc": accuracy, "C": C}
        curved = facts.loss.max_curvature
        primal: dict[str, Any] = shared | {"d": dimension, "eta": penalty, "degree": degree}
        needs["Theorem 9, without noise"] = lambda: samples.consensus_admm(**shared, delta=delta(1))
        if method == "dvp":
            needs["Theorem 10 and, for an iterate, Corollary 11, with noise"] = lambda: samples.dvp(
                **shared, delta=delta(2), alpha=_given(alpha), d=dimension, c1=curved
            )
        if method == "pvp":
            needs["Theorem 12, what is kept"] = lambda: samples.pvp_hidden(
                **primal, delta=delta(2), alpha=_given(alpha)
            )
            needs["Theorem 13 and, for an iterate, Corollary 14, what is released"] = lambda: samples.pvp(
                **primal, delta=delta(3), alpha=_given(alpha), c4=curved
            )
            needs["Corollary 15, the final output"] = lambda: samples.pvp_output(
                **primal, delta=delta(5), alpha=_given(alpha), c1=curved, c4=curved
            )
        if method in ("dvp", "pvp"):
            promise += " (an iterate that is Delta(t) from its limit: within Delta(t) more)"
    for theorem, rows in needs.items():
        try:
            lines.append(f"{theorem}: {rows():,.0f} rows times an unknown constant, {promise}")
        except InputError as reason:
            lines.append(f"{theorem}: says nothing here: {reason}")
    return lines


def designed(file: Path, largest_alpha: float, worst_loss: float | None, c6: float | None) -> str:
    """Problem (28) of paper 004 for measured pairs of alpha and loss: the points say which alphas are accurate enough,
    the fitted curve which of them is best."""
    table = read_csv(file)
    table.require(["alpha", "loss"])
    try:
        alphas, losses = (np.array([float(cell) for cell in table.columns[name]]) for name in ("alpha", "loss"))
    except ValueError as error:
        raise InputError(f"{file} must hold numbers in the columns alpha and loss: {error}") from None
    curve = design.fit_curve(alphas, losses, c6)
    # Halfway down the measured losses, unless the user gives the worst acceptable loss.
    limit = float(losses.min() + losses.max()) / 2 if worst_loss is None else worst_loss
    low = design.measured_limit(alphas, losses, limit)
    found = design.optimal_alpha(curve, design.Utility(), alpha_U=largest_alpha, c3=limit, alpha_low=low)
    off = design.misfit(curve, alphas, losses)
    return (
        f"L_acc(alpha) = {curve.c4:.4g} exp(-{curve.c5:.4g} alpha) + {curve.c6:.4g}, which misses the measured losses "
        f"by up to a factor of {off:.3g}; by these, alpha of {low:.4g} and more reaches c3 = {limit:.4g}. {found}"
    )


def _given(alpha: float | None) -> float:
    if alpha is None:
        raise InputError("it needs the paper's noise parameter; give --alpha")
    return alpha
