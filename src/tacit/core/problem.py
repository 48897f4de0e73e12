"""The local objectives of a block of agents:

    O_i(f) = scale_i/B_i * sum_n L(y_n f.x_n) + l2/2 ||f||^2

with L a loss of `tacit.core.losses` and B_i the number of rows of agent i (paper 000, section V; paper 004, (3); there
scale is one constant C, and every agent counts alike; with scale_i in proportion to B_i every row counts alike).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from tacit.core.constants import RADIUS, Constants, constants
from tacit.core.data_check import Part, check_numbers, checked_parts, checked_rows, checked_sizes
from tacit.core.losses import Loss
from tacit.core.multinomial import Multinomial
from tacit.core.solvers.block import RowStore
from tacit.core.solvers.rows import Rows, stack
from tacit.core.solvers.several import ClassStore
from tacit.errors import InputError, NotConverged

if TYPE_CHECKING:
    from tacit.core.rounding import Solved

ROUNDING = 1e-12  # by which a computed row norm may be off; sensitivities are enlarged by as much
UNIT = 2.0**-53
_DIGITS = 2.0**-47  # what is left after some dozens of roundings, relative


class Problem:
    """The local objectives of a block of agents, from `parts`, one (X_i, y_i) an agent.

    `tolerance` is the gradient norm to which `argmin` solves; where the objective is strongly convex with rho > 1, it
    is at least how near the minimiser is. It is met, or `NotConverged` is raised. `radius` is public: private steps
    clip models that lie farther from zero, so that no neighbour chooses the numbers that are rounded.

    >>> problem = Problem([(np.eye(2), [1, -1]), (np.ones((3, 2)), [1, 1, -1])], scale=2.0, l2=0.1)
    >>> problem.agents, problem.dimension, problem.sizes.tolist()
    (2, 2, [2, 3])
    >>> f = problem.argmin(linear=0, weight=1.0, centre=0)
    >>> bool(np.all(np.linalg.norm(problem.gradient(f) + 2 * f, axis=1) <= 1e-9))
    True
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        loss: Loss | None = None,
        scale: float | np.ndarray = 1.0,
        l2: float = 0.0,
        tolerance: float = 1e-9,
        radius: float = RADIUS,
    ) -> None:
        blocks, labels = checked_parts(parts)
        sizes = np.array([len(y) for y in labels])
        given = constants(len(sizes), loss, scale, l2, tolerance, radius)
        self._set(_checked_store(stack(blocks), np.concatenate(labels), sizes, blocks[0].shape[1], given), given)

    @classmethod
    def stacked(
        cls,
        X: Any,
        y: Any,
        sizes: Sequence[int] | np.ndarray,
        *,
        loss: Loss | None = None,
        scale: float | np.ndarray = 1.0,
        l2: float = 0.0,
        tolerance: float = 1e-9,
        radius: float = RADIUS,
    ) -> Problem:
        """The problem of agents whose rows lie in one matrix, agent by agent: the first sizes[0] rows are those of
        agent 0. It takes no time for each agent; dense rows of doubles are not copied, and must not change.

        >>> Problem.stacked(np.eye(3), [1, -1, 1], sizes=[2, 1]).sizes.tolist()
        [2, 1]
        """
        counts = checked_sizes(sizes)
        X, y = checked_rows(X, y, "")
        if X.shape[0] != counts.sum():
            raise InputError(f"there are {X.shape[0]} rows, but the sizes add up to {counts.sum()}")
        # The only kinds that kernels take.
        rows = stack([X]) if scipy.sparse.issparse(X) else np.require(X, requirements=("C", "W"))
        y = np.require(y, requirements=("C", "W"))
        given = constants(len(counts), loss, scale, l2, tolerance, radius)
        return cls._of(_checked_store(rows, y, counts, X.shape[1], given), given)

    @classmethod
    def _of(cls, store: RowStore, given: Constants, ids: np.ndarray | None = None) -> Problem:
        """The problem of these agents of a store, by default all."""
        problem = cls.__new__(cls)
        problem._set(store, given, ids)
        return problem

    def _set(self, store: RowStore, given: Constants, ids: np.ndarray | None = None) -> None:
        self._store, self._ids = store, np.arange(len(store.sizes)) if ids is None else ids
        self.loss, self.scale, self.l2, self.tolerance, self.radius = given

    @property
    def constants(self) -> Constants:
        """What is public of the objectives, besides the numbers of rows."""
        return Constants(self.loss, self.scale, self.l2, self.tolerance, self.radius)

    @classmethod
    def over(
        cls,
        store: RowStore,
        *,
        loss: Loss,
        scale: float,
        l2: float = 0.0,
        tolerance: float = 1e-9,
        radius: float = RADIUS,
    ) -> Problem:
        """The problem of one agent whose rows are in a store of another kind, weighted there by scale/B."""
        return cls._of(store, constants(1, loss, scale, l2, tolerance, radius))

    def __repr__(self) -> str:
        return f"Problem({self.agents} agents, {self.sizes.sum()} rows, dimension {self.dimension}, {self.loss})"

    @property
    def store(self) -> RowStore:
        """The rows behind the block, for compiled loops."""
        return self._store

    @property
    def agents(self) -> int:
        """How many agents the block has."""
        return len(self._ids)

    @property
    def dimension(self) -> int:
        """d, the length of the model."""
        return self._store.dimension

    @property
    def sizes(self) -> np.ndarray:
        """B_i, (n,): how many rows each agent has. Public, by the adjacency that tacit uses (replace one row)."""
        return self._store.sizes[self._ids]

    @property
    def row_weight(self) -> np.ndarray:
        """C_i/B_i, (n, 1): by how much each row of an agent counts."""
        return (self.scale / self.sizes)[:, None]

    def take(self, ids: Sequence[int] | np.ndarray) -> Problem:
        """The problem of some of the block's agents; it shares their data, nothing is copied."""
        places = np.asarray(ids)
        if places.dtype.kind not in "iu" or not np.all((places >= 0) & (places < self.agents)):
            raise InputError(f"take() needs places from 0 to {self.agents - 1} in the block, not {ids}")
        return Problem._of(self._store, self.constants._replace(scale=self.scale[places]), self._ids[places])

    def compact(self) -> Problem:
        """The same agents in a problem that holds no rows but theirs: what another process needs to have.

        >>> problem = Problem([(np.eye(2), [1, -1]), (np.ones((3, 2)), [1, 1, -1])])
        >>> problem.take([1]).compact().store.rows.shape
        (3, 2)
        """
        return Problem._of(self._store.only(self._ids), self.constants)

    @classmethod
    def joined(cls, problems: list[Problem]) -> Problem:
        """The agents of several problems that differ in nothing but agents, as one problem; everything is copied. The
        list is empty afterwards: each problem is given up as soon as it is copied, so memory never holds all twice.

        >>> problem = Problem([(np.eye(2), [1, -1]), (np.ones((3, 2)), [1, 1, -1])])
        >>> Problem.joined([problem.take([1]), problem.take([0])]).sizes.tolist()
        [3, 2]
        """
        given = problems[0].constants._replace(scale=np.concatenate([each.scale for each in problems]))
        stores = [each._store.only(each._ids) for each in problems]
        problems.clear()
        return cls._of(type(stores[0]).joined(stores), given)

    def restated(self, *, loss: Loss, scale: float | np.ndarray, l2: float, tolerance: float, radius: float) -> Problem:
        """The same rows under another objective.

        >>> from tacit.losses import Logistic
        >>> problem = Problem([(np.eye(2), [1, -1]), (np.ones((3, 2)), [1, 1, -1])])
        >>> problem.restated(loss=Logistic(), scale=2.0, l2=0.1, tolerance=1e-6, radius=8.0).scale.tolist()
        [2.0, 2.0]
        """
        s, given = self._store.only(self._ids), constants(self.agents, loss, scale, l2, tolerance, radius)
        return Problem._of(_checked_store(s.rows, s.y, self.sizes, s.features, given), given)

    def pooled(self) -> Problem:
        """The centralised problem, sum_i O_i, as the problem of one agent that holds all rows."""
        if not np.array_equal(self._ids, np.arange(len(self._store.sizes))):
            raise InputError("pooled() is for the whole problem, not for a part that take() made of it")
        s = self._store
        store = _store(self.loss, s.rows, np.array([len(s.y)]), s.y, s.c, s.features)
        given = self.constants._replace(scale=self.scale.sum(keepdims=True), l2=self.agents * self.l2)
        return Problem._of(store, given)

    def optimum(self) -> np.ndarray:
        """f_c, (d,): the minimiser of sum_i O_i, for comparison: no method of this project needs it."""
        return self.pooled().argmin(linear=0, weight=0, centre=0)[0]

    def value(self, f: np.ndarray) -> np.ndarray:
        """O_i(f_i), (n,), for f of shape (n, d), or (d,) for the same f everywhere."""
        f = self.as_rows(f, "f")
        return self._store.values(self._ids, f) + self.l2 / 2 * (f**2).sum(axis=1)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """The gradients of O_i at f_i, (n, d)."""
        f = self.as_rows(f, "f")
        return self.data_gradient(f) + self.l2 * f

    def data_gradient(self, f: np.ndarray) -> np.ndarray:
        """The gradients of the data terms at f_i, (n, d): those of O_i without the regulariser, which is public."""
        return self._store.gradients(self._ids, self.as_rows(f, "f"))

    def average_loss(self, f: np.ndarray) -> np.ndarray:
        """1/B_i * sum_n L(y_n f_i.x_n), (n,): the loss without scale and regulariser (pooled: O's weighted mean)."""
        return self._store.values(self._ids, self.as_rows(f, "f")) / self.scale

    def sampled_gradient(self, f: np.ndarray, chosen: np.ndarray, rate: float) -> np.ndarray:
        """The gradients of O_i at f_i, (n, d), with 1/rate times the sum over the `chosen` rows, (n, most rows) of
        bool, in place of the sum over all: unbiased, if each row is chosen with that probability."""
        return self.sampled_data_gradient(f, chosen, rate) + self.l2 * self.as_rows(f, "f")

    def sampled_data_gradient(self, f: np.ndarray, chosen: np.ndarray, rate: float) -> np.ndarray:
        """The same without the regulariser, which is public."""
        return self._store.gradients_of(self._ids, self.as_rows(f, "f"), chosen) / rate

    def smoothness(self) -> np.ndarray:
        """L_i, (n,): a bound on the curvature of O_i, attained by the squared loss."""
        return self.row_weight[:, 0] * self.loss.max_curvature * self._store.largest_squares(self._ids) + self.l2

    def second_moment(self) -> np.ndarray:
        """1/B_i sum_n x_n x_n^T, (n, d, d)."""
        return self._store.squares(self._ids) / self.sizes[:, None, None]

    def argmin(
        self,
        linear: np.ndarray | float,
        weight: np.ndarray | float,
        centre: np.ndarray | float,
        start: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """The minimisers of O_i(f) + <linear_i, f> + weight_i ||f - centre_i||^2, (n, d).

        Solved from `start` to a gradient norm of at most `tolerance` for every agent; or, where numbers are so large
        that no sum has that many digits, to what double precision gives. With rho = l2 + 2 weight, a point with a
        gradient norm of tau lies within tau/rho of the minimiser: where a stiff penalty leaves no digits for the
        tolerance as a norm, it has to hold as a distance. The result depends only on the arguments and the agent's
        own data, not on the other agents of the block or on earlier calls.
        """
        w = np.asarray(weight, dtype=float).reshape(-1, 1)
        if len(w) != self.agents:
            if len(w) != 1:
                raise InputError(f"weight has shape {np.shape(weight)}; it must be a number or ({self.agents}, 1)")
            w = np.full((self.agents, 1), w[0])
        linear, centre = self.as_rows(linear, "linear"), self.as_rows(centre, "centre")
        f = self.as_rows(start, "start").copy()
        if not (w.min() >= 0 and w.max() < math.inf):
            raise InputError(f"weight must be zero or positive and finite, not {weight}")
        b = linear - 2 * w * centre
        if not (np.isfinite(b).all() and np.isfinite(f).all()):
            raise InputError("linear, centre and start must be finite")
        rho = self.l2 + 2 * w[:, 0]
        pull = np.linalg.norm(b, axis=1)
        aims = np.maximum(self.tolerance, 32 * UNIT * pull)  # digits do not tell more
        norms = self._store.minimise(self._ids, rho, b, f, aims)
        # No honest neighbour pulls so hard that rounding alone passes the tolerance: such a pull must not end the run.
        rounding = _DIGITS * math.sqrt(self.dimension) * (pull + rho * np.linalg.norm(f, axis=1))
        enough = np.maximum(reachable(self.tolerance, rho), rounding)
        if not (norms <= enough).all():
            worst = int(np.argmax(np.where(np.isnan(norms), np.inf, norms / enough)))
            raise not_converged(self._number(worst), float(norms[worst]), float(enough[worst]), f)
        return f

    def sure_argmin(self, b: np.ndarray, rho: np.ndarray, start: np.ndarray, sure: Solved) -> np.ndarray:
        """The minimisers of (data term) + rho_i/2 ||f||^2 + <b_i, f>, (n, d), as near as `sure` states.

        It cannot fail. A fast solver aims at the limit. Where it ends above that, gradient descent takes over,
        whose progress is a theorem (`tacit.core.rounding`). Only the time shows which of the two it was.
        """
        f, b, curvature = self.as_rows(start, "start").copy(), self.as_rows(b, "b"), rho[:, 0]
        limit = sure.limit[:, 0]
        norms = self._store.minimise(self._ids, curvature, b, f, limit)
        rest = np.flatnonzero(~(norms <= limit))
        if len(rest):
            again = np.ascontiguousarray(f[rest])
            step, steps = sure.step[rest, 0], sure.steps[rest, 0]
            norms[rest] = self._store.descend(
                self._ids[rest], curvature[rest], b[rest], again, step, steps, limit[rest]
            )
            f[rest] = again
            if not (norms[rest] <= sure.steepest[rest, 0]).all():  # then a proof is wrong, and nothing may leave
                raise NotConverged(f"descent ended at a gradient norm of {norms[rest].max():.3g}", reached=f)
        return f

    def require_row_norm(self, bound: float) -> None:
        """Refuses rows longer than the bound that a privacy proof relies on: no row is trusted to be short."""
        worst = self._store.longest_rows[self._ids]
        if np.any(worst > bound * (1 + ROUNDING)):
            i = int(np.argmax(worst))
            raise InputError(
                f"agent {self._number(i)} has a row of norm {worst[i]:.6g}, above the {bound:g} that the privacy proof "
                "assumes; scale or clip the rows (row_norm of a schema does)"
            )

    def _number(self, place: int) -> int:
        """What messages call the agent in this place of the block."""
        return int(self._store.numbers[self._ids[place]])

    def fingerprint(self) -> str:
        """A digest of the data, the loss and the constants: two runs with the same one solve the same problem."""
        digest = hashlib.sha256(repr((self.loss, self.l2, self.tolerance, self.radius, self.dimension)).encode())
        for array in (*self._store.contents(), self._ids, self.scale):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def as_rows(self, x: np.ndarray | float, name: str) -> np.ndarray:
        """x, one vector for all agents or a row for each, as (n, d); `name` is what an error calls it."""
        shape = (self.agents, self.dimension)
        if isinstance(x, float):
            return np.full(shape, x)
        if isinstance(x, np.ndarray) and x.shape == shape and x.dtype == float and x.flags.c_contiguous:
            return x
        try:
            return np.ascontiguousarray(np.broadcast_to(np.asarray(x, dtype=float), shape))
        except ValueError:
            raise InputError(
                f"{name} has shape {np.shape(x)}; it must be ({self.agents}, {self.dimension}) or ({self.dimension},)"
            ) from None


def reachable(tolerance: float, rho: Any) -> Any:
    """The gradient norm at which a minimiser counts as found: the tolerance, or one that is as near for rho > 1.

    >>> reachable(1e-9, 0.5), reachable(1e-9, 4.0)
    (1e-09, 4e-09)
    """
    found = tolerance * np.maximum(rho, 1.0)
    return found if np.ndim(found) else float(found)


def not_converged(agent: int, norm: float, stated: float, reached: np.ndarray) -> NotConverged:
    """The error of a local minimiser that was not found, with what helps."""
    return NotConverged(
        f"agent {agent}: the local minimiser reached gradient norm {norm:.3g}, not the stated {stated:.3g}; raise the "
        "tolerance, or scale the rows or the objective down",
        reached=reached,
    )


def _checked_store(rows: Rows, y: np.ndarray, sizes: np.ndarray, features: int, given: Constants) -> RowStore:
    """The store of new rows, with the weight scale_i/B_i for each."""
    check_numbers(rows, y, sizes, given.loss)
    return _store(given.loss, rows, sizes, y, np.repeat(given.scale / sizes, sizes), features)


def _store(loss: Loss, *data: Any) -> RowStore:
    return ClassStore(loss, *data) if isinstance(loss, Multinomial) else RowStore(loss, *data)
