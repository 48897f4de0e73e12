"""What private estimators have in common: they pay before they draw noise, and say what their statement covers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from tacit.errors import InputError
from tacit.estimators.privacy import ASSUMPTIONS, Counted, Privacy
from tacit.privacy.accounting import totals
from tacit.privacy.coalitions import Guarantee
from tacit.privacy.events import Event
from tacit.privacy.ledger import About, Records
from tacit.privacy.noise import Noise, SecureNoise, SeededNoise
from tacit.run.budget import Budget
from tacit.run.spending import opened, paid

T = TypeVar("T")


class Bill(NamedTuple):
    """What a private fit will cost, at most, from public facts alone; and which records it uses."""

    method: str
    events: Sequence[Event]  # without free ones, in the order of the releases
    sizes: Sequence[int]  # the number of rows of each member
    digest: str  # of the records as they are used
    assumptions: tuple[str, ...]  # those of this estimator, besides those of all
    apart: bool = False  # whether the records lie at several sites
    coalitions: Guarantee | None = None


class PrivateEstimator(BaseEstimator):
    """The base of every private estimator. A subclass has these five parameters, and gives `_spend` a bill and a fit.

    Nothing but `_spend` makes noise for a fit and writes its `privacy_`. So a fit cannot forget to pay, or state more
    than is known: what this fit costs, and what the ledger that paid for it has counted.
    """

    epsilon: float | None
    delta: float
    allow_delta: str | None
    ledger: Any
    random_state: Any
    privacy_: Privacy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.epsilon is not None and self.random_state is None
        return tags

    @property
    def _budget(self) -> Budget:
        return Budget(cast(float, self.epsilon), self.delta, self.allow_delta or "")

    def _check_budget(self) -> None:
        """Refuses a budget, before anything reads the records."""
        _ = self._budget  # refuses one that is none
        if self.ledger is not None and self.random_state is not None:
            raise InputError(
                "with random_state the noise can be drawn again, and no ledger can pay for that: leave out one of them"
            )

    def _spend(self, bill: Bill, fit: Callable[[Noise], tuple[T, bytes]], *, depth: int) -> T:
        """Warns, pays and fits, in this order. Whatever goes wrong once the ledger has paid, it has paid.

        bill : what the fit costs
        fit : draws noise, and gives the fit, and the bytes of it that may leave
        depth : of the user's call of `fit`, for warnings
        """
        seeded = self.random_state is not None
        noise = SeededNoise(int(check_random_state(self.random_state).randint(2**31))) if seeded else SecureNoise()
        for warning in self._budget.warnings(sum(bill.sizes)):
            warnings.warn(warning, stacklevel=depth)
        about = About(bill.method, type(self).__name__, Records(bill.digest, sum(bill.sizes)))
        with opened(self.ledger) as ledger, paid(ledger, about, bill.events) as keep:
            counted = None if ledger is None else Counted.of(ledger)
            found, leaves = fit(noise)
            keep(leaves)
        events, delta = Counter(bill.events), float(self.delta)
        spent = totals(events, delta)
        repeatable = ("random_state was given: whoever knows it can remove the noise",) if seeded else ()
        assumptions = (*bill.assumptions, *ASSUMPTIONS, *repeatable)
        self.privacy_ = Privacy(
            not seeded, spent.best, delta, spent, events, assumptions, bill.apart, bill.coalitions, counted
        )
        return found


def digest(arrays: Iterable[Any]) -> str:
    """Of arrays, dense or sparse, with their shapes.

    >>> digest([np.eye(2)]) == digest([np.eye(2)]) != digest([np.eye(2), np.ones(1)])
    True
    """
    found = sha256()
    for array in arrays:
        parts = [array]
        if scipy.sparse.issparse(array):
            rows = scipy.sparse.csr_array(array)
            parts = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        found.update(str(array.shape).encode())
        for part in map(np.ascontiguousarray, parts):
            found.update(part.tobytes())
    return found.hexdigest()
