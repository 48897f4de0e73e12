"""What agents learn about each other from a token that they see only when it visits them: pairwise network privacy.

*The observer* is one agent j, or a coalition of agents. It knows all records but one, all settings and the token's
path. It sees the token whenever it reaches or leaves one of its members, and knows their noise and state. It sees
nothing else: links are encrypted, the others do not help, and no model is published unless `published` says so.
Members follow the method. An eavesdropper on all links sees every visit and learns what `tacit.plan` charges; so does
any agent, in the worst case.

*The bound.* docs/privacy.md proves: let the run on D have the noises w_t, and let a second run, on the neighbour D',
have w_t + W_t, where W_t depends on the past only and is 0 where a member speaks. If the two show the coalition the
same tokens, and sum_t ||W_t||^2/sigma_t^2 <= mu^2 always, then its view reveals no more than a Gaussian mechanism
of multiplier 1/mu does. Each method below has a rule for W_t, and a bound on what the rule needs. What counts is the
smaller of that bound and the full price, at which each noise hides its own agent's record at once.

`TokenGradientDescent` has no memory: given a token that the coalition has seen, the past is forgotten, and between two
such tokens the noise along the way removes the difference of the runs. `IncrementalADMM` with exact steps remembers:
the effect of a record stays in every state and comes back in later cycles. Its rule is that of linear quadratic
control.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from tacit.algorithms import IncrementalADMM, TokenGradientDescent
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.problem import ROUNDING, Problem
from tacit.core.rounding import UNIT, Solved, gradient_error, most_pull
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.laws import output_law_within
from tacit.privacy.noise import SecureNoise, largest_draw
from tacit.privacy.plan import plan
from tacit.privacy.sensitivity import gradient_sensitivity, minimiser_sensitivity

__all__ = ["learnt", "pairwise"]

_LEAST = 1e-100  # a product of contractions below which no more of them are counted
_MOST = 1e100  # a mu above which nothing is hidden
_EXTREME = np.errstate(over="ignore", invalid="ignore")  # with almost no noise, mu is infinite
_EXACT = 1e-9  # relative: how well a linear system must be solved


class _Tour(NamedTuple):
    """A token's path, and what happens at its stops."""

    holders: np.ndarray  # (T,) the agent that speaks at tick t
    last: int  # the agent that has the token in the end
    deviation: np.ndarray  # (N,) sigma_i of the noise that agent i adds
    moved: np.ndarray  # (N,) Delta_i: by how much a record of i moves what its noise is added to

    def seen(self, by: Collection[int], published: bool) -> np.ndarray:
        """The ticks t = 0..T before which the coalition sees the token."""
        holds = np.isin([*self.holders, self.last], list(by))
        holds[-1] |= published
        return np.flatnonzero(holds) if len(self.holders) else np.arange(0)

    def full(self, until: int) -> np.ndarray:
        """(N,) mu^2 of every agent if each noise hides its own agent's record, for all ticks before `until`."""
        return np.bincount(self.holders[:until], minlength=len(self.moved)) * (self.moved / self.deviation) ** 2


_Learnt = Callable[[Collection[int], bool], np.ndarray]  # (coalition, whether the last token is published) -> (N,) mu


def pairwise(
    algorithm: Algorithm,
    facts: Problem,
    graph: Graph,
    rounds: int,
    delta: float,
    *,
    published: bool = False,
    grid: float = SecureNoise().grid,
    start: float = 0.0,
) -> np.ndarray:
    """(N, N) epsilon at delta: entry (i, j) bounds what agent j learns about a record of agent i; 0 where i = j.

        algorithm   `TokenGradientDescent` or `IncrementalADMM`, with noise
        facts       what is public of the problem
        graph       which agents are neighbours
        rounds      how many ticks the token travels
        delta       the delta of every epsilon
        published   whether the last token, the model, is made public
        grid        the grid of the noise: a coarse one rounds away the noise of others
        start       a bound on the norm of the agents' public starts

    >>> from tacit.core.facts import Facts
    >>> descent = TokenGradientDescent(step=0.5, budget=Gaussian(5.0))
    >>> e = pairwise(descent, Facts(sizes=[100] * 5, dimension=3), Graph.ring(5), rounds=25, delta=1e-5)
    >>> bool(e[0, 1] > e[0, 2] > e[0, 3] > e[0, 4] > 0)
    True
    """
    mu = _learnt(algorithm, facts, graph, rounds, grid, start)
    table = np.column_stack([_epsilons(mu([j], published), delta) for j in range(graph.agents)])
    np.fill_diagonal(table, 0.0)
    return table


def learnt(
    algorithm: Algorithm,
    facts: Problem,
    graph: Graph,
    rounds: int,
    delta: float,
    *,
    by: Collection[int],
    published: bool = False,
    grid: float = SecureNoise().grid,
    start: float = 0.0,
) -> np.ndarray:
    """(N,) epsilon at delta: what the coalition `by` learns about a record of every agent; 0 for its members.

    The other parameters are those of `pairwise`.

    >>> from tacit.core.facts import Facts
    >>> descent = TokenGradientDescent(step=0.5, budget=Gaussian(5.0))
    >>> learnt(descent, Facts(sizes=[9] * 4, dimension=3), Graph.ring(4), 8, 1e-5, by=[0, 2]).round(3).tolist()
    [0.0, 1.061, 0.0, 1.061]
    """
    if not isinstance(by, Collection) or isinstance(by, str):
        raise InputError(f"a coalition is a list of agents, not {by!r}")
    if any(not (isinstance(j, int | np.integer) and 0 <= j < graph.agents) for j in by):
        raise InputError(f"a coalition consists of agents 0 to {graph.agents - 1}, not {list(by)}")
    epsilons = _epsilons(_learnt(algorithm, facts, graph, rounds, grid, start)(by, published), delta)
    epsilons[list(by)] = 0.0
    return epsilons


def _learnt(algorithm: Algorithm, facts: Problem, graph: Graph, rounds: int, grid: float, start: float) -> _Learnt:
    if isinstance(algorithm, TokenGradientDescent):
        if algorithm.budget is None:
            raise InputError("a token without noise hides nothing: give the method a budget")
        deviation = algorithm.step * gradient_sensitivity(facts) * algorithm.budget.multiplier
        tour = _toured(algorithm, facts, graph, rounds, deviation[:, 0])
        # z - step grad O_i(z) has a derivative between 1 - step M_i and 1 - step l2.
        ends = np.abs(1 - algorithm.step * np.array([_steepest(facts, 1.0), np.full(facts.agents, facts.l2)]))
        # Rounding moves two runs apart at every stop: to the grid, and in the arithmetic of the step.
        drift = grid * math.sqrt(facts.dimension) + 2 * algorithm.step * gradient_error(facts, facts.radius)[:, 0]
        drift += 8 * UNIT * (1 + algorithm.step * facts.l2) * facts.radius
        return lambda by, published: _descent(tour, ends.max(axis=0), drift, by, published)
    if isinstance(algorithm, IncrementalADMM):
        return _incremental(algorithm, facts, graph, rounds, grid, start)
    raise InputError(
        f"pairwise privacy is proved for TokenGradientDescent and IncrementalADMM, not for {type(algorithm).__name__}: "
        "assume that every agent learns what the plan charges"
    )


def _toured(algorithm: Algorithm, facts: Problem, graph: Graph, rounds: int, deviation: np.ndarray) -> _Tour:
    """The path of `rounds` ticks; the moves are those that the plan charges."""
    events = plan(algorithm, facts, graph, rounds).events
    schedule = algorithm.schedule(graph)
    turns = [schedule.turn(t) for t in range(rounds)]
    moved = np.zeros(graph.agents)
    for i, spent in enumerate(events):
        kinds = set(spent)
        if not all(isinstance(event, Gaussian) for event in kinds):
            raise InputError(f"agent {i} sends without Gaussian noise: nothing is hidden")
        moved[i] = max((deviation[i] / event.multiplier for event in kinds if isinstance(event, Gaussian)), default=0.0)
    holders = np.array([int(turn.speakers[0]) for turn in turns], dtype=int)
    return _Tour(holders, int(turns[-1].listeners[0]) if turns else 0, deviation, moved)


def _steepest(facts: Problem, row_norm: float) -> np.ndarray:
    """M_i, (N,): a bound on the curvature of O_i that does not depend on the records."""
    return facts.scale * facts.loss.max_curvature * (row_norm * (1 + ROUNDING)) ** 2 + facts.l2


def _epsilons(mu: np.ndarray, delta: float) -> np.ndarray:
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not at {delta}")
    # NaN counts as infinite.
    known = {m: gaussian_epsilon(1 / m, delta) if 0 < m < _MOST else m and math.inf for m in set(mu.tolist())}
    return np.array([known[m] for m in mu.tolist()])


@_EXTREME
def _descent(tour: _Tour, lipschitz: np.ndarray, drift: np.ndarray, by: Collection[int], published: bool) -> np.ndarray:
    """(N,) mu for gradient descent: the mu^2 of the segments between two tokens that are seen add up."""
    total = np.zeros(len(tour.moved))
    begin = 0
    for end in tour.seen(by, published):
        total += _segment(tour, tour.holders[begin:end], lipschitz, drift)
        begin = end + 1  # the member's own step is known to it
    return np.sqrt(total)


def _segment(tour: _Tour, stops: np.ndarray, lipschitz: np.ndarray, drift: np.ndarray) -> np.ndarray:
    """(N,) mu^2 of the token that is seen after these stops, given the one before them.

    A record of i moves the token by s = Delta_i at each visit of i, L_t scales the difference so far, and the noise of
    stop t removes a_t: the rest c_t = L_t c_{t-1} + s_t - a_t >= 0 must end at 0. The least sum of a_t^2/sigma_t^2 is
    found after scaling everything to the end, by Q_t = product of the later L: then the sums A_t of the a_t stay below
    those of the s_t, and the best A is the greatest convex minorant, over the sum of the variances as time.
    """
    full = np.bincount(stops, minlength=len(tour.moved)) * (tour.moved / tour.deviation) ** 2
    if lipschitz[stops].max(initial=0.0) > 1:
        return full
    later = np.append(np.cumprod(lipschitz[stops][:0:-1])[::-1], 1.0)[: len(stops)]
    later = np.maximum(later, _LEAST)  # as if earlier steps did not contract: a Lipschitz constant may be larger
    variance = (tour.deviation[stops] * later) ** 2
    # Rounding moves the runs apart at each stop, `drift` (N,): the last noise removes that, too.
    rounding = drift[stops].sum() / tour.deviation[stops[-1]] if len(stops) else 0.0
    out = full.copy()
    for i in np.unique(stops):
        visits = np.flatnonzero(stops == i)
        energy = _energy(np.add.reduceat(variance, visits), tour.moved[i] * later[visits])
        out[i] = min(full[i], (math.sqrt(energy) + rounding) ** 2)
    return out


def _energy(time: np.ndarray, rise: np.ndarray) -> float:
    """The integral of the squared slope of the greatest convex function below steps: one rises at once, then lasts for
    its time, and at the end all is reached. Steps are pooled until their slopes grow.

    >>> [_energy(np.array([1.0, 1.0]), np.array([first, 2.0 - first])) for first in (2.0, 0.0)]
    [2.0, 4.0]
    """
    pools: list[tuple[float, float]] = []
    for t, r in zip(time.tolist(), rise.tolist(), strict=True):
        while pools and pools[-1][1] * t >= r * pools[-1][0]:
            t, r = t + pools[-1][0], r + pools[-1][1]
            pools.pop()
        pools.append((t, r))
    return sum(r * r / t for t, r in pools)


def _incremental(
    algorithm: IncrementalADMM, facts: Problem, graph: Graph, rounds: int, grid: float, start: float
) -> _Learnt:
    if not algorithm.exact or algorithm.initial > 0 or algorithm.offset > 0:
        raise InputError("pairwise privacy of incremental ADMM is proved for exact steps from a public start only")
    rho, convexity = algorithm.penalty, np.full((facts.agents, 1), algorithm.penalty + facts.l2)
    if algorithm.budget is not None:
        moved = minimiser_sensitivity(facts, convexity, np.full_like(convexity, rho / 2), algorithm.row_norm)
        deviation = output_law_within(algorithm.budget, moved).deviation[:, 0]  # type: ignore[union-attr]
    elif algorithm.deviation is not None:
        deviation = np.full(facts.agents, algorithm.deviation)
    else:
        raise InputError("a token without noise hides nothing: give the method a budget or a deviation")
    tour = _toured(algorithm, facts, graph, rounds, deviation)
    # The derivative of a proximal step lies between rho/(rho + M_i) and rho/(rho + l2).
    least, most = rho / (rho + _steepest(facts, algorithm.row_norm)), rho / (rho + facts.l2)
    tokens, centres = _responses(tour.holders, (least + most) / 2)
    sigma = deviation[tour.holders]
    bend = ((most - least) / 2)[tour.holders] / sigma
    visit = np.array([np.sum(tour.holders[: t + 1] == k) for t, k in enumerate(tour.holders)])
    sure = Solved(facts, convexity, most_pull(facts, convexity, algorithm.row_norm), algorithm.row_norm)
    inexact = 2 * sure.tau.max() / convexity[0, 0] + (9 + 4 * visit) * grid * math.sqrt(facts.dimension)
    noise = deviation * largest_draw("gaussian", facts.dimension) + inexact.max(initial=0.0)
    unclipped = _stays_within(facts, tour.holders, algorithm, noise, start, grid)

    @_EXTREME
    def mu(by: Collection[int], published: bool) -> np.ndarray:
        seen = tour.seen(by, published)
        until = int(seen[-1]) if len(seen) else 0
        ours = ~np.isin(tour.holders, list(by)) & (np.arange(rounds) < until)
        shifts = _hiding(tokens, seen, ours, sigma)
        drifted = bend[:, None] * (centres @ (shifts + np.diag(ours.astype(float))))
        shifts = shifts / sigma[:, None]
        slack = float(np.linalg.norm((inexact / sigma)[ours]))
        out = np.sqrt(tour.full(until))
        if not unclipped:  # the rule below is for steps that nothing clips
            return out
        for i in set(tour.holders[ours].tolist()):
            visits = ours & (tour.holders == i)
            norms = [math.sqrt(np.abs(k[:, visits].T @ k[:, visits]).sum()) for k in (shifts, drifted)]
            out[i] = min(out[i], tour.moved[i] * sum(norms) * (1 + _EXACT) + slack)
        return out

    return mu


def _stays_within(
    facts: Problem, holders: np.ndarray, algorithm: IncrementalADMM, noise: np.ndarray, start: float, grid: float
) -> bool:
    """Whether no token is clipped to the radius, no centre by `most_pull`, and no number leaves the grid, whatever the
    records, if no draw is longer than `noise`, (N,): by the triangle inequality, tick by tick. N z is the sum of the
    S_i, and x - v = -(l2 x + a gradient)/rho at the minimiser."""
    rho, l2, R = algorithm.penalty, facts.l2, facts.radius
    pull = facts.loss.max_slope * algorithm.row_norm * facts.scale
    u, S, farthest = np.full(facts.agents, float(start)), np.zeros(facts.agents), 0.0
    for i in holders:
        v = S.mean() + u[i]
        if not (S.mean() <= R / 1.01 and v <= 4 * R / 1.01):
            return False
        x = (rho * v + pull[i]) / (rho + l2)
        u[i] = (l2 * x + pull[i]) / rho + noise[i]
        S[i] = x + noise[i] + u[i]
        farthest = max(farthest, S.sum(), v)
    return not grid or bool(farthest <= 2.0**52 * grid)


def _responses(holders: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How the token before tick t, (T+1, T), and the centre z + y_i/rho of tick t, (T, T), answer to a unit that is
    added to x at tick s, if a proximal step of agent i is `middle`_i times its centre: (4a), (4b) and (5) of paper 002,
    written in u_i = y_i/rho and S_i = x_i - u_i."""
    ticks, agents = len(holders), len(middle)
    S, u = np.zeros((agents, ticks)), np.zeros((agents, ticks))
    tokens, centres = np.zeros((ticks + 1, ticks)), np.zeros((ticks, ticks))
    for t, i in enumerate(holders):
        v = tokens[t] + u[i]
        x = middle[i] * v
        x[t] += 1
        tokens[t + 1] = tokens[t] + (2 * x - v - S[i]) / agents
        S[i], u[i], centres[t] = 2 * x - v, v - x, v
    return tokens, centres


def _hiding(tokens: np.ndarray, seen: np.ndarray, ours: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """(T, T): column s has the shifts of the noises from tick s on, of least energy, that hide a unit added to x at
    tick s from every token that is seen. The noise of tick s can always hide it alone."""
    shifts = np.zeros((len(sigma), len(sigma)))
    for s in np.flatnonzero(ours):
        later = np.flatnonzero(ours[s:]) + s
        views = seen[seen > s]
        system, shown = tokens[np.ix_(views, later)] * sigma[later], tokens[views, s]
        answer = -np.linalg.lstsq(system, shown, rcond=1e-13)[0]
        if np.linalg.norm(system @ answer + shown) <= _EXACT * np.linalg.norm(shown):
            shifts[later, s] = sigma[later] * answer
        else:
            shifts[s, s] = -1.0
    return shifts
