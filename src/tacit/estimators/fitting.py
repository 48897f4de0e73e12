"""One model for the rows of several members: exactly, or under a total budget, whose cost is known beforehand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.data.clipping import longest
from tacit.data.columns import Label
from tacit.privacy.noise import Noise, SecureNoise
from tacit.run.request import Request
from tacit.run.setting import Setting
from tacit.run.spec import RunSpec

Parts = Sequence[tuple[np.ndarray, np.ndarray]]  # rows and labels of each member
_TOLERANCE = 1e-6  # of the residuals: weights then have about five digits of the pooled optimum's


class Fitted(NamedTuple):
    """A model, and how it was found."""

    weights: np.ndarray  # (d,), or (K d,) for K classes
    loss: Loss
    spec: RunSpec  # the run, as it was planned
    history: dict[str, np.ndarray]
    converged: bool = True


def fit_exactly(parts: Parts, label: Label, graph: Graph, request: Request) -> Fitted:
    """The model of all rows; every row counts alike. Members exchange exact values. A single one minimises at once."""
    if graph.agents == 1 and request.spec is None:
        request = replace(request, method=None)
    row_norm, sizes = max(longest(X) for X, _ in parts), [len(y) for _, y in parts]
    asked = request if request.spec is not None else replace(request, tolerance=_TOLERANCE)
    setting = asked.resolved(label, sizes, label.outputs * parts[0][0].shape[1], graph, row_norm=row_norm)
    if graph.agents == 1:
        problem = setting.problem(parts)
        best = problem.optimum()
        alone = {"round": np.zeros(1, int), "messages": np.zeros(1), "loss": problem.average_loss(best)}
        return Fitted(best, setting.facts.loss, setting.spec, alone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theorems that do not cover our penalty, which works without them
        run = setting.simulate(parts, SecureNoise() if setting.draws else None).run
    history = {
        "round": run.history["round"] // setting.ticks_a_round,
        "messages": run.history["messages"],
        "loss": run.history["model_loss"],
        "consensus_error": run.history["consensus_error"],
    }
    return Fitted(run.model, setting.facts.loss, setting.spec, history, run.converged)


def plan_privately(sizes: Sequence[int], features: int, label: Label, graph: Graph, request: Request) -> Setting:
    """The settings for a budget. A search for parameters asks for the same again and again; the plan is kept, too."""
    ask = _planned if request.spec is None else _planned.__wrapped__  # what a file says may hold arrays
    return ask(tuple(sizes), features, label, graph, request)


@lru_cache(maxsize=64)
def _planned(sizes: tuple[int, ...], features: int, label: Label, graph: Graph, request: Request) -> Setting:
    found = request.resolved(label, sizes, label.outputs * features, graph)
    _ = found.plan
    return found


def fit_privately(setting: Setting, parts: Parts, noise: Noise) -> tuple[Fitted, bytes]:
    """Fits, once it is paid for; also as bytes, for a ledger."""
    done = setting.simulate(parts, noise)
    # The losses along a run are not protected: only what is public is told.
    history = {"round": np.array([0, done.setting.full_rounds]), "messages": np.array([0, done.messages])}
    return Fitted(done.run.model, done.setting.facts.loss, setting.spec, history), done.leaves
