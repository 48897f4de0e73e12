"""One organisation whose records do not fit a machine: they lie in parts, in processes of a Ray cluster.

A sum over all records is a sum over the parts: the value of the objective, its gradient, the product of its Hessian
with a vector. Each process adds up its own records; the driver, which is the organisation's agent, adds up the parts,
always in their order, so that the number of processes changes no bit. Models go to the processes and sums come back:
no record leaves the process that has read it.

The minimiser is found by Newton's method with conjugate gradients, to the same gradient norm as everywhere in tacit.
A private step rests on that norm and on public facts, not on how the minimiser was found; and the bounds on rounding
hold for sums in any order (`tacit.core.rounding`). So an agent with records in parts gives the same guarantee.

Everything asked of the parts is a function of the records and of what is sent. If a process is lost, another one reads
its parts again and answers the same question: no noise is drawn twice, and on machines that are alike no number
changes. If it cannot read them, or reads something else than the first one, the run ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg
from threadpoolctl import threadpool_limits

from tacit.core.constants import RADIUS
from tacit.core.losses import Loss
from tacit.core.problem import Problem
from tacit.core.solvers.block import RowStore
from tacit.core.solvers.truncated_newton import NewtonStore
from tacit.engines.ray import Ray
from tacit.errors import EngineError, InputError

Read = Callable[[], tuple[Any, Any, Any]]  # X and y of a part, and what else the driver should know about it
_TRIES = 3  # how often a question is asked again after a process was lost
_SMALL = 500  # features up to which X^T X is computed
_ALONE = np.arange(1)


class Holder:
    """Some of the parts: an actor. One thread, as everywhere on Ray."""

    def read(self, pickled: bytes) -> tuple[list[tuple[int, int, Any]], bytes]:
        """Reads parts; gives the rows and the features of each, and what is known about it; and a digest of all."""
        from ray import cloudpickle

        os.environ["NUMBA_NUM_THREADS"] = "1"
        threadpool_limits(limits=1)
        self._parts, found = [], []
        for read in cloudpickle.loads(pickled):
            X, y, about = read()
            self._parts.append((X, y))
            found.append((*X.shape, about))
        return found, _digest(self._parts)

    def again(
        self, pickled: bytes, known: bytes, used: tuple[bytes, float] | None, method: str, arguments: tuple[Any, ...]
    ) -> Any:
        """What a process that was lost has done, from the beginning, and then what it was asked."""
        if self.read(pickled)[1] != known:
            raise InputError("records have changed since they were read first: start again")
        if used is not None:
            self.use(*used)
        return getattr(self, method)(*arguments)

    def use(self, pickled: bytes, weight: float) -> None:
        """For a loss, and the weight of each row."""
        from ray import cloudpickle

        loss: Loss = cloudpickle.loads(pickled)
        self._stores = [Problem([part], loss=loss).store.weighted(weight) for part in self._parts]

    def ask(self, question: str, arguments: tuple[np.ndarray, ...], each: Sequence[Any]) -> list[Any]:
        """What each part answers; `each` has a further argument for each of them, if there is any."""
        own = [[one] for one in each] if len(each) else [[]] * len(self._stores)
        sent = [np.array(argument) for argument in arguments]  # what comes from Ray is read-only
        return [
            getattr(self, f"_{question}")(store, *sent, *more) for store, more in zip(self._stores, own, strict=True)
        ]

    def _values(self, store: RowStore, f: np.ndarray) -> float:
        return float(store.values(_ALONE, f[None])[0])

    def _gradients(self, store: RowStore, f: np.ndarray) -> np.ndarray:
        return store.gradients(_ALONE, f[None])[0]

    def _gradients_of(self, store: RowStore, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return store.gradients_of(_ALONE, f[None], chosen[None])[0]

    def _curved(self, store: RowStore, f: np.ndarray, v: np.ndarray) -> np.ndarray:
        return store.curved(_ALONE, f[None], v[None])[0]

    def _squares(self, store: RowStore) -> np.ndarray:
        return store.squares(_ALONE)[0]

    def _squares_times(self, store: RowStore, v: np.ndarray) -> np.ndarray:
        return store.squares_times(v)

    def _longest(self, store: RowStore) -> float:
        return float(store.longest_rows[0])

    def _digest(self, store: RowStore) -> bytes:
        found = sha256()
        for array in store.contents():
            found.update(np.ascontiguousarray(array).data)
        return found.digest()


class RecordsInParts:
    """Records in parts on a cluster."""

    def __init__(self, ray: Any, processes: int, parts: Sequence[Read]) -> None:
        self._ray, self._parts = ray, list(parts)
        if not self._parts:
            raise InputError("records in parts need at least one part")
        # Neighbouring parts in one process: answers come in the order of the parts.
        self._shares = np.array_split(np.arange(len(self._parts)), min(processes, len(self._parts)))
        self._actor = ray.remote(num_cpus=1)(Holder)
        self._used: tuple[bytes, float] | None = None
        self._holders = [self._actor.remote() for _ in self._shares]
        read = self._all("read", [(self._reads(k),) for k in range(len(self._shares))])
        self._digests = [digest for _, digest in read]
        rows, features, about = zip(*chain.from_iterable(found for found, _ in read), strict=True)
        if len(set(features)) > 1:
            raise InputError(f"all parts must have the same features; they have {sorted(set(features))} of them")
        self.sizes, self.features, self.about = np.array(rows), features[0], list(about)

    @classmethod
    @contextmanager
    def opened(cls, engine: Ray, parts: Sequence[Read]) -> Iterator[RecordsInParts]:
        """Reads the parts in processes of the cluster, and ends these in the end."""
        with engine.connected() as ray:
            cores = int(ray.cluster_resources().get("CPU", 1))
            records = cls(ray, min(cores, engine.shards or cores), parts)
            try:
                yield records
            finally:
                for holder in records._holders:
                    ray.kill(holder)

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def problem(
        self, *, loss: Loss, scale: float = 1.0, l2: float = 0.0, tolerance: float = 1e-9, radius: float = RADIUS
    ) -> Problem:
        """The objective of one agent that has all these records."""
        store = MappedStore(self, loss, scale)
        self._use(store.used)  # labels that do not fit the loss are refused now
        return Problem.over(store, loss=loss, scale=scale, l2=l2, tolerance=tolerance, radius=radius)

    def ask(
        self, used: tuple[bytes, float], question: str, *arguments: np.ndarray, each: Sequence[Any] = ()
    ) -> list[Any]:
        """What each part answers with this loss and weight of a record, in the order of the parts. Problems with others
        over the same records do not get into each other's way: they take turns."""
        self._use(used)
        own = [[each[k] for k in share] if len(each) else [] for share in self._shares]
        return list(chain.from_iterable(self._all("ask", [(question, arguments, more) for more in own])))

    def _use(self, used: tuple[bytes, float]) -> None:
        if used != self._used:
            self._used = None  # if this fails in the middle, all are told again
            self._all("use", [used] * len(self._shares))
            self._used = used

    def _reads(self, k: int) -> bytes:
        from ray import cloudpickle

        return bytes(cloudpickle.dumps([self._parts[place] for place in self._shares[k]]))

    def _all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        exceptions = self._ray.exceptions
        asked = [getattr(holder, method).remote(*own) for holder, own in zip(self._holders, arguments, strict=True)]
        found = []
        for k, own in enumerate(arguments):
            for left in reversed(range(_TRIES + 1)):
                try:
                    found.append(self._ray.get(asked[k]))
                    break
                except exceptions.RayError as error:
                    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
                    if not isinstance(cause, exceptions.RayError):
                        raise cause from None
                    if not left:
                        raise EngineError(
                            "processes that hold records were lost again and again: perhaps memory runs out; put the "
                            "records into more parts, on more machines"
                        ) from error
                    asked[k] = self._again(k, method, own)
        return found

    def _again(self, k: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """The same question to a new process with the same parts."""
        holder = self._holders[k] = self._actor.remote()
        if method == "read":
            return holder.read.remote(*arguments)
        used = self._used if method == "ask" else None
        return holder.again.remote(self._reads(k), self._digests[k], used, method, arguments)


class _Objective(NamedTuple):
    """The data term + rho/2 ||f||^2 + b.f"""

    store: MappedStore
    rho: float
    b: np.ndarray

    def value(self, f: np.ndarray) -> float:
        return total(self.store.ask("values", f)) + self.rho / 2 * float(f @ f) + float(self.b @ f)

    def gradient(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return total(self.store.ask("gradients", f)) + self.rho * f + self.b, f

    def curved(self, f: np.ndarray, v: np.ndarray) -> np.ndarray:
        return total(self.store.ask("curved", f, v)) + self.rho * v


class MappedStore(NewtonStore):
    """As `RowStore` for one agent, with its rows elsewhere."""

    def __init__(self, records: RecordsInParts, loss: Loss, scale: float) -> None:
        from ray import cloudpickle

        self._records, self._loss = records, loss
        self.used = cloudpickle.dumps(loss), float(scale) / len(records)
        self.sizes, self.numbers = np.array([len(records)]), np.arange(1)
        self.features = records.features
        self.dimension = getattr(loss, "classes", 1) * self.features

    def ask(self, question: str, *arguments: np.ndarray, each: Sequence[Any] = ()) -> list[Any]:
        """See `RecordsInParts.ask`."""
        return self._records.ask(self.used, question, *arguments, each=each)

    def values(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([total(self.ask("values", row)) for row in f])

    def gradients(self, ids: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.array([total(self.ask("gradients", row)) for row in f])

    def gradients_of(self, ids: np.ndarray, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        cuts = np.cumsum(self._records.sizes)[:-1]
        return np.array(
            [
                total(self.ask("gradients_of", row, each=np.split(own[: len(self._records)], cuts)))
                for row, own in zip(f, chosen, strict=True)
            ]
        )

    def curved(self, ids: np.ndarray, f: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.array([total(self.ask("curved", *rows)) for rows in zip(f, v, strict=True)])

    def squares(self, ids: np.ndarray) -> np.ndarray:
        return np.array([total(self.ask("squares")) for _ in ids])

    def largest_squares(self, ids: np.ndarray) -> np.ndarray:
        d = self.features
        if d <= _SMALL:
            return np.array([np.linalg.eigvalsh(square)[-1] for square in self.squares(ids)])
        product = scipy.sparse.linalg.LinearOperator(
            (d, d), matvec=lambda v: total(self.ask("squares_times", np.ravel(v))), dtype=float
        )
        largest = scipy.sparse.linalg.eigsh(product, k=1, which="LA", v0=np.ones(d), return_eigenvectors=False)[0]
        return np.full(len(ids), float(largest))

    @property
    def longest_rows(self) -> np.ndarray:
        return np.array([max(self.ask("longest"))])

    def contents(self) -> Iterator[np.ndarray]:
        yield from (np.frombuffer(found, dtype=np.uint8) for found in self.ask("digest"))

    def objective(self, i: int, rho: float, b: np.ndarray) -> _Objective:
        return _Objective(self, rho, b)

    def minimise(self, ids: np.ndarray, rho: np.ndarray, b: np.ndarray, f: np.ndarray, aims: np.ndarray) -> np.ndarray:
        return super().minimise(ids, rho, b, f, aims / 2)  # which leaves room for the rounding of a check


def total(parts: Sequence[Any]) -> Any:
    """The sum, from the first part to the last."""
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found


def _digest(parts: Sequence[tuple[Any, Any]]) -> bytes:
    found = sha256()
    for X, y in parts:
        rows = (X.data, X.indices, X.indptr) if scipy.sparse.issparse(X) else (np.asarray(X),)
        for array in (*rows, np.asarray(y)):
            found.update(repr((array.shape, array.dtype.str)).encode())
            found.update(np.ascontiguousarray(array).data)
    return found.digest()
