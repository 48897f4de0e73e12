"""A member that may say anything, against one honest agent: what tests and `tests/adversary_runs.py` share.

The honest agent runs the real code on one of two data sets that differ in one record. The adversary
controls its neighbours: at every tick they say rows of their choice, and know everything that is public: the agent's
whole state as far as it was released. `converse` is the loop of an agent process without the network.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

import tacit
from tacit.algorithms import (
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RecycledADMM,
    TokenGradientDescent,
)
from tacit.core.losses import HuberHinge
from tacit.core.release import Inbox
from tacit.core.schedule import Cycle, role
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.listening import Listening
from tacit.exchange.secret_shared import SummedInbox
from tacit.privacy.events import Free, Pure
from tacit.privacy.plan.every_tick import NoNoise

GRAPH = tacit.Graph.complete(3)
ME = 0
Liar = Callable[[int, Any], np.ndarray]  # (tick, the agent's state) -> (V, d) what the neighbours say


def methods(budget: Any, penalty: float = 0.05) -> dict[str, Any]:
    """Every private method, at this cost of a noisy step."""
    smooth = {} if not isinstance(budget, Pure) else {"gradient-descent", "token-descent", "pi-admm", "pi-admm 1st"}
    rate = 0.5 * penalty + 1.0
    made = {
        "dvp": DualPerturbedADMM(penalty=penalty, budget=budget),
        "pvp": PrimalPerturbedADMM(penalty=penalty, budget=budget),
        "pvp printed centre": PrimalPerturbedADMM(penalty=penalty, budget=budget, centre="printed"),
        "pvp final": PrimalPerturbedADMM(penalty=penalty, budget=budget, final=2),
        "m-admm": PenaltyPerturbedADMM(penalty=Geometric(penalty, 1.02), dual_step=penalty, budget=budget),
        "r-admm": RecycledADMM(penalty=penalty, gamma=penalty, budget=budget),
        "mr-admm": RecycledADMM(penalty=Geometric(penalty, 1.02), gamma=penalty, budget=budget),
        "r-admm output": RecycledADMM(penalty=penalty, gamma=penalty, budget=budget, noise_on="output"),
        "one-shot": OneShotAveraging(mixing=0.3, budget=budget),
        "gradient-descent": GradientDescent(step=0.5, mixing=0.3, budget=budget),
        "token-descent": TokenGradientDescent(step=0.5, budget=budget),
        "pi-admm": IncrementalADMM(penalty=2 * penalty, budget=budget),
        "pi-admm 1st": IncrementalADMM(penalty=2.0, exact=False, budget=budget),
        "random aggregation": RandomAggregationADMM(penalty=rate, budget=budget, own=(0.5, 0.5)),
        "random aggregation exact": RandomAggregationADMM(penalty=rate, budget=budget, exact=True, own=(0.5, 0.5)),
        "random aggregation gd": RandomAggregationGD(step=0.5, budget=budget, weight=(0.5, 0.5)),
        "random min-max": RandomAggregationGD(step=0.5, min_max=True, budget=budget, weight=(0.5, 0.5)),
        "random coordinates": RandomCoordinateDescent(budget=budget),
    }
    return {name: method for name, method in made.items() if name not in smooth}


SHARED = ("dvp", "pvp", "m-admm", "r-admm", "mr-admm", "gradient-descent")  # methods that need sums alone


def two_data_sets(B: int, d: int, seed: int = 0) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Rows, and two ways to label them, which differ in the first record: as unlike as records can be."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(B, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(rng.random(B) < 0.5, -1.0, 1.0)
    X[0] = 0.0
    X[0, -1] = 1.0  # a rare category: no other record has it
    X[1:, -1] = 0.0
    other = y.copy()
    y[0], other[0] = 1.0, -1.0
    return X, (y, other)


def neighbours_in_one_record(B: int, d: int, seed: int = 0, radius: float = 64.0, **settings: Any):
    """Two problems of the honest agent."""
    X, (y, other) = two_data_sets(B, d, seed)
    settings = {"loss": HuberHinge(1.0), "l2": 1e-3, "radius": radius} | settings
    return tacit.Problem([(X, y)], **settings), tacit.Problem([(X, other)], **settings)


@dataclass
class Said:
    """One message of the agent."""

    tick: int
    before: Any  # the agent's state before
    value: np.ndarray  # (d,)
    event: Any


def converse(method, problem, noise, liar: Liar, ticks: int, *, radius=None, summed=False, spoken=None):
    """What the honest agent says while its neighbours lie; `radius` replaces the problem's, for the old code."""
    schedule, view = method.schedule(GRAPH), GRAPH.view(np.array([ME]))
    start = np.zeros((1, problem.dimension))
    near = GRAPH.neighbours(ME)
    state = method.init(problem, view, start, Inbox(np.repeat(start, len(near), axis=0), [0, len(near)]))
    for t in range(ticks):
        mine = role(schedule.turn(t), ME)
        if mine.speaks:
            before = state
            state, release = method.speak(before, problem, view, noise, t)
            if spoken is not None:
                spoken(t, before, release)
            yield Said(t, before, release.value[0], release.events[0])
        if mine.hears:
            rows = np.asarray(liar(t, state), dtype=float)[: len(mine.hears)]
            inbox = Inbox(rows, [0, len(rows)])
            if summed:  # whatever the shares are, a sum modulo p is a number of the grid: see `FixedPoint`
                most = FixedPoint(2.0**16, 3)
                total = np.clip(rows, -1e300, 1e300).sum(axis=0, keepdims=True)
                inbox = SummedInbox(
                    np.clip(total, *(sign * 2.0 ** (63 - most.fraction_bits) for sign in (-1, 1))),
                    np.array([[len(rows)]]),
                )
            own = np.zeros((1, problem.dimension))
            inbox = Listening(problem.radius if radius is None else radius).read(inbox, own, t).inbox
            state = method.listen(state, inbox, view, t)


def noiseless(method, problem, said: Said) -> np.ndarray:
    """What the agent would have said from the same state, without noise."""
    view = GRAPH.view(np.array([ME]))
    return method.speak(said.before, problem, view, NoNoise(), said.tick)[1].value[0]


def private(said: Said) -> bool:
    """Whether it depends on records."""
    return not isinstance(said.event, Free)


def told_apart(said: Said, method, problems) -> int:
    """Which of the two data sets the adversary names: the one whose noiseless value is nearer to what was said."""
    distances = [np.linalg.norm(said.value - noiseless(method, problem, said)) for problem in problems]
    return int(np.argmin(distances))


def too_many(right: int, tries: int, epsilon: float, delta: float = 0.0, alarm: float = 1e-6) -> bool:
    """Whether so many right answers contradict (epsilon, delta): whoever is right more often than
    (e^epsilon + delta)/(1 + e^epsilon) breaks it. A false alarm has a probability of at most `alarm`."""
    allowed = (np.exp(epsilon) + delta) / (1 + np.exp(epsilon))
    return bool(binom.sf(right - 1, tries, allowed) < alarm)


# What neighbours say


def public_pull(method, state, view, step: int = 1) -> np.ndarray:
    """The linear term before noise that the next private step will see, as far as it is affine in what is heard."""
    method = getattr(method, "method", method)  # of the noisy steps, if agents average at the end
    names = state._fields
    if "dual" in names and "centre" in names:
        step *= 1 if isinstance(method, RecycledADMM) else 2
        eta = method.penalty.at(step, view.ids) if isinstance(method.penalty, Geometric) else method.penalty
        return 2 * state.dual - 2 * eta * view.degree * state.centre
    if "token" in names:
        return -state.token - (state.y / method.penalty if "y" in names else 0)
    if "near" in names:
        return -state.dual - method.penalty * state.near
    return -getattr(state, "f", getattr(state, "mean", state[0]))


def swallowing(method, size: float, seed: int = 0) -> Liar:
    """The attack on the old code: numbers so large that noise would be rounded away, then the row that cancels them; in
    turn, as often as the agent listens."""
    view = GRAPH.view(np.array([ME]))
    rng = np.random.default_rng(seed)
    times = itertools.count()

    def say(t, state):
        d = state[0].shape[1]
        if next(times) % 2 == 0:
            return np.full((2, d), size) * rng.choice([-1.0, 1.0], size=d)
        with np.errstate(all="ignore"):
            return _cancelling(method, state, view, t, d)

    return say


def ticks_of_the_attack(method) -> int:
    """After which the agent has released what follows both lies: it hears a token at ticks 2 and 5 only."""
    return 7 if isinstance(method.schedule(GRAPH), Cycle) else 3


def _cancelling(method, state, view, t, d) -> np.ndarray:
    def after(row):
        inbox = Inbox(np.repeat(row[None], 2, axis=0)[: len(role(method.schedule(GRAPH).turn(t), ME).hears)], None)
        inbox = Inbox(inbox.rows, [0, len(inbox.rows)])
        return public_pull(method, method.listen(state, inbox, view, t), view)[0]

    zero = after(np.zeros(d))
    slope = after(np.ones(d)) - zero
    scale = np.maximum(np.abs(zero), 1.0)
    slope = np.where(np.abs(slope) > 1e-9 * scale, slope, (after(scale) - zero) / scale)
    row = np.where(slope != 0, -zero / np.where(slope == 0, 1.0, slope), 0.0)
    return np.repeat(np.nan_to_num(row, nan=0.0, posinf=1e300, neginf=-1e300)[None], 2, axis=0)


def old_objective_perturbed(problem, noise, law, *, linear, weight, centre, start, factor, ids, t):
    """The mechanism as it was: noise added to what neighbours chose, in floating point, and a fixed tolerance."""
    from tacit.privacy import mechanisms as m
    from tacit.privacy.events import ObjectiveGaussian

    problem.require_row_norm(1.0)
    mu = problem.l2 + 2 * weight
    tau = problem.tolerance + factor * noise.grid * np.sqrt(problem.dimension) / 2
    symbol = noise.draw("gaussian", law.deviation, problem.dimension, ids, t)
    f = problem.argmin(linear=linear + factor * symbol, weight=weight, centre=centre, start=start)
    multiplier = law.deviation * factor / m.gradient_sensitivity(problem)
    mask = 2 * tau / mu * multiplier / np.sqrt(1e-3)
    ratio = problem.loss.max_curvature * problem.row_weight / mu
    events = [ObjectiveGaussian(float(a), float(b)) for a, b in zip(multiplier[:, 0], ratio[:, 0], strict=True)]
    return m.Release(noise.mask("gaussian", f, mask, ids, t), tuple(events))
