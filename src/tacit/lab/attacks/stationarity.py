"""The exact gradients of every agent, from the messages of a method without privacy.

Each method says a point x_i, and its update rule ties the next message to the gradient at that point. All the rest of
the rule is public, or was said: penalty or step, the degrees V_i, the start (zero) and the neighbours' rows. So the
rule is solved for the gradient. With x(t) the rows that were said in round t, and x(0) = 0 before the first of ADMM:

    ADMM, COCA   grad O_i(x_i(t+1)) = -2 lambda_i(t) - eta (2 V_i x_i(t+1) - V_i x_i(t) - sum_j x_j(t))
                 with 2 lambda_i(t) = eta sum_{s=1..t} (V_i x_i(s) - sum_j x_j(s))                      (8) and (9)
    DGD          grad O_i(x_i(t)) = ([W x(t)]_i - x_i(t+1)) / a_t
    EXTRA        grad O_i(x_i(t)) = ([W x(t)]_i - 1/2 sum_{s<t} [(I - W) x(s)]_i - x_i(t+1)) / a
    W-ADMM       y_i = grad O_i(x_i), and `recursion` gives both from the tokens

In COCA an agent that is silent has moved to an x_i that nobody hears: those rounds give nothing. EXTRA's line is its
two lines summed up over the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from tacit.algorithms import DGD, EXTRA, CensoredADMM, ConsensusADMM, IncrementalADMM
from tacit.core.algorithm import traits
from tacit.core.graph import Graph
from tacit.core.problem import Problem
from tacit.core.release import Release
from tacit.core.schedule import Turn
from tacit.errors import InputError
from tacit.lab.attacks.overheard import Transcript
from tacit.lab.attacks.recursion import recursion
from tacit.simulation.simulate import simulate


class Gradients(NamedTuple):
    """What is known of one agent's objective: its gradients at some points, in the order of the run."""

    points: np.ndarray  # (K, d)
    values: np.ndarray  # (K, d) the gradient of O_i at each

    def data(self, l2: float) -> Gradients:
        """Without the regulariser, which is public."""
        return Gradients(self.points, self.values - l2 * self.points)


class Broadcasts:
    """All rows of a run in which all agents speak at every tick, as an eavesdropper hears them. For `simulate`."""

    def __init__(self) -> None:
        self._said: list[np.ndarray] = []
        self._silent: list[np.ndarray] = []

    def __call__(self, t: int, turn: Turn, release: Release) -> None:
        silent = np.zeros(len(release.value), dtype=bool) if release.silent is None else release.silent
        self._said.append(release.value.copy())
        self._silent.append(silent)

    @property
    def said(self) -> np.ndarray:
        """What each agent said in each round, (K, N, d)."""
        return np.array(self._said)

    @property
    def silent(self) -> np.ndarray:
        """Which agents said nothing in which round, (K, N)."""
        return np.array(self._silent)


def overhear(
    algorithm: Any, problem: Problem, graph: Graph, rounds: int, progress: Callable[[int], None] | None = None
) -> Broadcasts | Transcript:
    """Runs the method from zero for so many rounds, or ticks of a token, and gives all that was said."""
    token = isinstance(algorithm, IncrementalADMM)
    heard = Transcript(graph.agents, algorithm.penalty) if token else Broadcasts()
    simulate(algorithm, problem, graph, rounds=rounds, overheard=heard, progress=progress)
    return heard


def gradients(
    algorithm: Any, heard: Broadcasts | Transcript, graph: Graph, coalition: Collection[int] | None = None
) -> list[Gradients]:
    """What an eavesdropper on all links knows of each agent; or, with a coalition, what its members know together: they
    hear what their own neighbours say to them.

    >>> problem = Problem([([[1.0]], [1]), ([[0.5]], [-1]), ([[2.0]], [1])], l2=0.1)
    >>> method, graph = ConsensusADMM(penalty=0.5), Graph.path(3)
    >>> found = gradients(method, overhear(method, problem, graph, rounds=5), graph)
    >>> true = [problem.gradient(np.stack([each.points[k] for each in found])) for k in range(5)]
    >>> bool(np.allclose(np.stack([each.values for each in found], axis=1), true, atol=1e-8))
    True
    """
    if isinstance(heard, Transcript):
        found = of_tokens(algorithm, heard if coalition is None else heard.within(coalition))
    else:
        said = heard.said if coalition is None else within_hearing(heard.said, graph, coalition)
        found = of_rows(algorithm, said, heard.silent, graph)
    known = [np.isfinite(each.points).all(axis=1) & np.isfinite(each.values).all(axis=1) for each in found]
    return [Gradients(each.points[k], each.values[k]) for each, k in zip(found, known, strict=True)]


def of_rows(algorithm: Any, said: np.ndarray, silent: np.ndarray, graph: Graph) -> list[Gradients]:
    """From the rows that all agents said, (K, N, d), and whether they were silent, (K, N). The rows of agents that were
    not heard may be NaN: then so are the gradients that depend on them."""
    if isinstance(algorithm, DGD | EXTRA):
        said = np.concatenate(
            [np.zeros_like(said[:1]), said[1:]]
        )  # the start is public: also for those who hear little
    if isinstance(algorithm, ConsensusADMM | CensoredADMM):
        if isinstance(algorithm, CensoredADMM) and not algorithm.exact:
            raise InputError("the attack on COCA is for exact steps")
        points, values = said, _admm(algorithm.penalty, said, graph)
    elif isinstance(algorithm, DGD):
        steps = algorithm.step / np.arange(1, len(said)) ** algorithm.decay
        points, values = said[:-1], (_mixed(said, algorithm.mixing, graph)[:-1] - said[1:]) / steps[:, None, None]
    elif isinstance(algorithm, EXTRA):
        mixed = _mixed(said, algorithm.mixing, graph)
        before = np.cumsum(said - mixed, axis=0) - (said - mixed)
        points, values = said[:-1], ((mixed - before / 2)[:-1] - said[1:]) / algorithm.step
    else:
        raise InputError(f"no attack is known on the rows of {type(algorithm).__name__}")
    spoke = ~silent[: len(points)]
    return [Gradients(points[spoke[:, i], i], values[spoke[:, i], i]) for i in range(graph.agents)]


def of_tokens(algorithm: IncrementalADMM, heard: Transcript) -> list[Gradients]:
    """From the tokens of incremental ADMM with a known start and without noise."""
    if traits(algorithm).draws(algorithm):
        raise InputError("random starts, secret steps and noise: take the attacks on tokens, such as recursion")
    states, out = recursion(heard), []
    for i in range(heard.agents):
        k = heard.visits(i)
        x, y = states.x[k], states.y[k]
        # A first-order step (8) takes the gradient at the point before, which is zero at first.
        out.append(Gradients(x if algorithm.exact else np.vstack([np.zeros_like(x[:1]), x[:-1]]), y))
    return out


def within_hearing(said: np.ndarray, graph: Graph, coalition: Collection[int]) -> np.ndarray:
    """The rows that a coalition hears, and its own; NaN in place of all others."""
    known = sorted(set(coalition).union(*(graph.neighbours(i).tolist() for i in coalition)))
    out = np.full_like(said, np.nan)
    out[:, known] = said[:, known]
    return out


def _admm(penalty: float, said: np.ndarray, graph: Graph) -> np.ndarray:
    zero = np.zeros_like(said[:1])
    x = np.concatenate([zero, said[:-1]])  # x(t), while said is x(t+1)
    V = graph.degree[:, None]
    heard = _heard(x, graph)
    dual = penalty * np.cumsum(V * x - heard, axis=0)
    return -dual - penalty * (V * (2 * said - x) - heard)


def _mixed(x: np.ndarray, mixing: float, graph: Graph) -> np.ndarray:
    """[W x]_i in every round."""
    return x + mixing * (_heard(x, graph) - graph.degree[:, None] * x)


def _heard(x: np.ndarray, graph: Graph) -> np.ndarray:
    """sum_j x_j over the neighbours j, in every round, (K, N, d)."""
    return np.stack([x[:, graph.neighbours(i)].sum(axis=1) for i in range(graph.agents)], axis=1)
