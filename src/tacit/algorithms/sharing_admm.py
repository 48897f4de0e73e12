"""ADMM for agents with variables of their own that a linear constraint ties together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.algorithms import hyper
from tacit.algorithms.aggregation import Protection, proximal_step, require_stable, warn_of_curvature
from tacit.algorithms.consensus import TINY, needed, relative
from tacit.algorithms.hyper import Budgets, Hyper
from tacit.core.algorithm import Traits, always
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Broadcast
from tacit.errors import GraphError, InputError, whole
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.mechanisms import instead, post_processed
from tacit.privacy.noise import Noise

_EXTREME = 1e100  # an entry whose square, and its inverse, are still numbers
_ROUNDING = 1e-9  # relative: by how much a constraint that has a solution may be off


class State(NamedTuple):
    """Everything an agent keeps from one round to the next: x_i, which was charged for; the rest from what was said."""

    x: np.ndarray  # (n, d) x_i^k
    total: np.ndarray  # (n, m) sum_j A_j x_j^k over the agent and its neighbours; complete in the rows of A_i
    dual: np.ndarray  # (n, m) lambda^k, likewise
    moved: np.ndarray  # (n, 1) how far the last step moved x_i, relative


def _draws(method: SharingADMM) -> bool:
    return method._random or method.beta is not None or method.budget is not None


@dataclass(frozen=True, kw_only=True)
class SharingADMM:
    """Modified ADMM: Xiao, Ye, Devadas (paper 003), (12) and (13), for min sum_i f_i(x_i) s.t. sum_i A_i x_i = c:

        x_i^{k+1} = x_i^k + 1/D_i [A_i^T (lambda^k - rho_i (S^k - c)) - grad f_i(x_i^k)],  S = sum_j A_j x_j       (13)
        lambda^{k+1} = lambda^k - zeta (S^{k+1} - c)

    or, if `exact`, (12), with f_i in place of its tangent. The printed step is this one, with Gamma_i written out as
    D_i I - A_i^T rho_i A_i, so that all it needs of the others is S. f_i is O_i, `A` is (N, m, d), D_i is `penalty`,
    zeta is `dual_step`. rho_i is diagonal and drawn in every round, uniformly from `rho`, two numbers or two tuples of
    one for each agent; rows of A with the same number in `groups` share one draw. By default rho reaches up to D/s and
    zeta is D/s, with s the largest eigenvalue of sum_i A_i A_i^T. `beta`, `budget`: see `RandomAggregationADMM`.

    *Messages.* In the paper all agents hear all others. Here A_i x_i leaves. Agent i needs S and lambda only in the
    rows of A_i, and there it hears all others: agents that share a row have to be neighbours. The starts are public,
    but an agent does not know which is whose. So in a first round, which does nothing else, each says A_i x_i^0.

    *Consensus* is one instance (`consensus`): a row for each edge and coordinate, x_i - x_j = 0. A_i^T lambda is then
    lambda_i of Algorithm 1, which gives its sign.

    *Privacy.* The noise goes on x_i, which is charged for, though only A_i x_i leaves.
    """

    traits: ClassVar[Traits] = Traits(laws=(Pure, Gaussian), draws=_draws, sums=always)

    A: np.ndarray
    c: np.ndarray
    penalty: float | tuple[float, ...] = 1.0  # D_i
    dual_step: float | None = None  # zeta
    rho: tuple[float | tuple[float, ...], float | tuple[float, ...]] | None = None
    groups: np.ndarray | None = None
    exact: bool = False
    beta: Hyper | None = None
    budget: Budgets | None = None
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        A, c = (_numbers(name, getattr(self, name)) for name in "Ac")
        if A.ndim != 3 or c.shape != A.shape[1:2] or not (np.all(np.isfinite(A)) and np.all(np.isfinite(c))):
            raise InputError(f"A is (N, m, d) and c is (m,), all finite; they have the shapes {A.shape} and {c.shape}")
        if not A.any():
            raise InputError("A is zero: there is no constraint")
        largest = np.abs(A).max()
        if not 1 / _EXTREME <= largest <= _EXTREME:
            raise InputError(f"the largest entry of A is {largest:g}, whose square no step size fits; scale A and c")
        _require_solution(np.concatenate(list(A), axis=1), c)
        groups = np.arange(len(c)) if self.groups is None else _numbers("groups", self.groups, kind=None)
        if groups.shape != c.shape or groups.dtype.kind not in "iu" or groups.min() < 0 or groups.max() >= len(c):
            raise InputError(
                f"groups gives a whole number from 0 to {len(c) - 1} for each of the {len(c)} rows, not {self.groups}"
            )
        for name, value in (("A", A), ("c", c), ("groups", groups)):
            object.__setattr__(self, name, value)
        hyper.each("penalty", self.penalty)
        hyper.number("row_norm", self.row_norm)
        if self.dual_step is not None:
            hyper.number("dual_step", self.dual_step)
        if self.rho is not None:
            if not (isinstance(self.rho, tuple | list) and len(self.rho) == 2):
                raise InputError(f"rho is two numbers, the ends of a range, not {self.rho!r}")
            low, high = (self._each(x) for x in self.rho)
            if not np.all((low >= 0) & (low <= high) & np.isfinite(high)):
                raise InputError(
                    f"rho lies between two numbers, zero or more, not between {self.rho[0]} and {self.rho[1]}"
                )
        hyper.freeze(self, "beta")
        hyper.noise_checked(self.beta, self.budget, name="beta", varies=True)

    @classmethod
    def consensus(
        cls,
        graph: Graph,
        dimension: int,
        penalty: float | tuple[float, ...] = 1.0,
        dual_step: float | None = None,
        **settings: object,
    ) -> SharingADMM:
        """All x_i equal, on the edges of a graph: Algorithm 1, with rho_i up to D_i over the degree."""
        whole("dimension", dimension, 1)
        hyper.each("penalty", penalty)
        hyper.fits_each(graph, "penalty", penalty)
        if graph.agents < 2:
            raise InputError("one agent has no constraint: consensus needs at least two")
        A = np.zeros((graph.agents, len(graph.edges), dimension, dimension))
        for e, (i, j) in enumerate(graph.edges):
            A[i, e], A[j, e] = np.eye(dimension), -np.eye(dimension)
        rows = len(graph.edges) * dimension
        D = np.broadcast_to(np.asarray(penalty, dtype=float), graph.agents)
        return cls(
            A=A.reshape(graph.agents, rows, dimension),
            c=np.zeros(rows),
            penalty=penalty,
            dual_step=float(D.min()) / graph.agents if dual_step is None else dual_step,
            rho=(0.0, tuple(map(float, D / graph.degree))),
            groups=np.tile(np.arange(dimension), len(graph.edges)),
            **settings,  # type: ignore[arg-type]
        )

    def schedule(self, graph: Graph) -> Broadcast:
        """All agents speak to all their neighbours in every round."""
        if graph.agents != len(self.A):
            raise InputError(f"A is for {len(self.A)} agents, the graph has {graph.agents}")
        hyper.fits(graph, beta=self.beta)
        hyper.fits_each(graph, "penalty", self.penalty)
        takes_part = np.any(self.A != 0, axis=2).astype(int)
        for i, j in np.argwhere(np.triu(takes_part @ takes_part.T, 1)):
            if j not in graph.neighbours(i):
                raise GraphError(f"agents {i} and {j} share a row of the constraint but are not neighbours")
        D, (low, high) = self._each(self.penalty), self._rho
        steep = high * np.linalg.norm(self.A, ord=2, axis=(1, 2)) ** 2
        if np.any(steep > D * (1 + 1e-9)):
            i = int(np.argmax(steep / D))
            raise InputError(f"Gamma_{i} is not positive: rho ||A_i||^2 = {steep[i]:.4g} is above D_i = {D[i]:.4g}")
        mean = np.sqrt((low + high) / 2 / D)
        require_stable(
            self._zeta, float(D.min()), largest=self._largest, contraction=_norm(self.A * mean[:, None, None]) ** 2
        )
        return Broadcast(graph)

    def kinds(self, problem: Problem, rounds: int) -> np.ndarray:
        """The first round, which says the starts; others with the same settings cost the same."""
        k = np.arange(rounds) - 1
        return np.where(k < 0, -1, hyper.kinds(np.maximum(k, 0), self.beta, self.budget))

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
        """x_i^0 is given; lambda^0 = 0."""
        if problem.dimension != self.A.shape[2]:
            raise InputError(f"the problem has dimension {problem.dimension}, A has {self.A.shape[2]} columns")
        if not self.exact:
            warn_of_curvature(problem, hyper.of(self.penalty, view.ids), self.row_norm)
        nothing = np.zeros((len(start), len(self.c)))
        return State(start, nothing, nothing, np.full((len(start), 1), np.nan))

    def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
        """A_i x_i: of the start, then of (12) or (13)."""
        A, k = self.A[view.ids], t - 1
        if k < 0:
            return s, post_processed(_times(A, s.x))
        rho = self._drawn_rho(noise, view.ids, k)
        pull = np.einsum("nmd,nm->nd", A, s.dual - rho * (s.total - self.c))
        release = proximal_step(
            problem,
            Protection(noise, self.beta, self.budget, self.row_norm, view.ids, k),
            D=hyper.of(self.penalty, view.ids),
            pull=pull,
            towards=s.x,
            at=s.x,
            exact=self.exact,
        )
        x = release.value
        return s._replace(x=x, moved=relative(s.x - x, x)), instead(release, _times(A, x))

    def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
        """The dual step, from the sum of all A_j x_j."""
        total = inbox.sum() + _times(self.A[view.ids], s.x)
        return s._replace(total=total, dual=s.dual - self._zeta * (total - self.c) if t else s.dual)

    def estimate(self, s: State) -> np.ndarray:
        """Each agent's own part, x_i."""
        return s.x

    def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
        """How far the agent's rows of the constraint are from being kept, and how far the last step went; relative."""
        A = self.A[view.ids]
        off = np.linalg.norm((s.total - self.c) * np.any(A != 0, axis=2), axis=1)
        size = np.linalg.norm(self.c) + np.linalg.norm(_times(A, s.x), axis=1)
        return off / np.maximum(size, TINY), s.moved[:, 0]

    @cached_property
    def agrees(self) -> bool:
        """Whether the constraint says that all x_i are equal, and nothing else; or else every agent has its own."""
        agents, _, d = self.A.shape
        equal = not self.c.any() and not self.A.sum(axis=0).any()
        return bool(equal and np.linalg.matrix_rank(np.concatenate(list(self.A), axis=1)) == (agents - 1) * d)

    @cached_property
    def _largest(self) -> float:
        """Of the eigenvalues of sum_i A_i A_i^T."""
        return _norm(self.A) ** 2

    @cached_property
    def _zeta(self) -> float:
        return float(np.min(self.penalty)) / self._largest if self.dual_step is None else self.dual_step

    @cached_property
    def _rho(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of each agent's range, (N,) each."""
        if self.rho is None:
            return self._each(0.0), self._each(float(np.min(self.penalty)) / self._largest)
        return self._each(self.rho[0]), self._each(self.rho[1])

    @property
    def _random(self) -> bool:
        """Whether the penalties rho are drawn at random."""
        return bool(np.any(self._rho[0] < self._rho[1]))

    def _each(self, x: float | tuple[float, ...]) -> np.ndarray:
        try:
            return np.broadcast_to(np.asarray(x, dtype=float), (len(self.A),))
        except (ValueError, TypeError):
            raise InputError(f"there is one value for all or one for each of {len(self.A)} agents, not {x}") from None

    def _drawn_rho(self, noise: Noise | None, ids: np.ndarray, k: int) -> np.ndarray:
        """The penalties of round k, (n, m)."""
        low, high = (x[ids][:, None] for x in self._rho)
        if not self._random:
            return np.broadcast_to(low, (len(ids), len(self.c)))
        assert self.groups is not None
        drawn = needed(noise).draw("uniform", 1.0, int(self.groups.max()) + 1, ids, k)
        return low + drawn[:, self.groups] * (high - low)


def _times(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A_i x_i of each agent, (n, m)."""
    return np.einsum("nmd,nd->nm", A, x)


def _norm(A: np.ndarray) -> float:
    """The spectral norm of all the A_i side by side."""
    return float(np.linalg.norm(np.concatenate(list(A), axis=1), 2))


def _numbers(name: str, value: Any, kind: type | None = float) -> np.ndarray:
    try:
        return np.asarray(value, dtype=kind)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers") from None


def _require_solution(A: np.ndarray, c: np.ndarray) -> None:
    """Refuses A x = c without a solution. Rows are scaled first, so that their length does not matter."""
    if not c.any():
        return
    scale = np.abs(A).max(axis=1)
    empty = (scale == 0) & (c != 0)
    if empty.any():
        row = int(np.argmax(empty))
        raise InputError(f"row {row} of the constraint is zero for all agents, but its right side is {c[row]:g}")
    scale[scale == 0] = 1.0
    A, c = A / scale[:, None], c / scale
    x = np.linalg.lstsq(A, c, rcond=None)[0]
    rounding = 1e-13 * np.linalg.norm(A) * np.linalg.norm(x)  # which is large where rows are nearly the same
    if not np.linalg.norm(A @ x - c) <= _ROUNDING * np.linalg.norm(c) + rounding:
        raise InputError("the rows of the constraint contradict each other: no x has sum_i A_i x_i = c")
