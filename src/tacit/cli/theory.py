"""What the papers' theorems say about a plan, for `tacit plan --theory` and `--design`."""

from __future__ import annotations

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
    needs = {}
    if method == "r-admm":
        needs["Theorem VI.1, without noise"] = lambda: samples.mr_admm(f_ref=reference, tau=accuracy, delta=failure)
        needs["Theorem VI.2, with noise"] = lambda: samples.mr_admm_private(
            f_ref=reference, tau=accuracy, delta=failure, alpha=_given(alpha), d=dimension, agents=graph.agents, C=C
        )
    else:
        shared: dict[str, Any] = {"f_ref": reference, "alpha_acc": accuracy, "delta": failure, "C": C}
        needs["Theorem 9, without noise"] = lambda: samples.consensus_admm(**shared)
        if method == "dvp":
            needs["Theorem 10, with noise"] = lambda: samples.dvp(
                **shared, alpha=_given(alpha), d=dimension, c1=facts.loss.max_curvature
            )
        if method == "pvp":
            needs["Theorem 12, what is kept"] = lambda: samples.pvp_hidden(
                **shared, alpha=_given(alpha), d=dimension, eta=penalty, degree=degree
            )
            needs["Theorem 13, what is released"] = lambda: samples.pvp(
                **shared, alpha=_given(alpha), d=dimension, eta=penalty, degree=degree, c4=facts.loss.max_curvature
            )
    for theorem, rows in needs.items():
        try:
            lines.append(f"{theorem}: {rows():,.0f} rows times an unknown constant, {promise}")
        except InputError as reason:
            lines.append(f"{theorem}: says nothing here: {reason}")
    return lines


def designed(file: Path, largest_alpha: float, worst_loss: float | None) -> str:
    """Problem (28) of paper 004 for measured pairs of alpha and loss."""
    table = read_csv(file)
    table.require(["alpha", "loss"])
    try:
        alphas, losses = (np.array([float(cell) for cell in table.columns[name]]) for name in ("alpha", "loss"))
    except ValueError as error:
        raise InputError(f"{file} must hold numbers in the columns alpha and loss: {error}") from None
    curve = design.fit_curve(alphas, losses)
    # Halfway down the curve, unless the user gives the worst acceptable loss.
    limit = curve.c6 + curve.c4 / 2 if worst_loss is None else worst_loss
    found = design.optimal_alpha(curve, design.Utility(), alpha_U=largest_alpha, c3=limit)
    return f"L_acc(alpha) = {curve.c4:.4g} exp(-{curve.c5:.4g} alpha) + {curve.c6:.4g}, c3 = {limit:.4g}: {found}"


def _given(alpha: float | None) -> float:
    if alpha is None:
        raise InputError("it needs the paper's noise parameter; give --alpha")
    return alpha
