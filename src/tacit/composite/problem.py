"""A smooth average loss plus g(A x - c), as one thing that has a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from tacit.composite.term import Term
from tacit.errors import InputError
from tacit.problem import Problem


@dataclass(frozen=True, eq=False)
class Composite:
    """min f(x) + g(A x - c), paper 001, (2): f the objective of one agent, the rest a `Term`.

    >>> from tacit.composite.term import lasso
    >>> Composite(Problem([([[1.0]], [1])]), lasso(1, 0.5)).value([0.0]) == math.log(2)
    True
    """

    problem: Problem
    term: Term

    def __post_init__(self) -> None:
        if self.problem.agents != 1:
            raise InputError(f"a composite problem is that of one agent, not of {self.problem.agents}; use pooled()")
        if self.problem.dimension != self.term.dimension:
            raise InputError(f"the problem has dimension {self.problem.dimension}, the term {self.term.dimension}")

    def value(self, x: Any) -> float:
        """f(x) + g(A x - c)."""
        return float(self.problem.value(x)[0] + self.term.value(x)[0])


def clipped(X: Any, bound: float) -> Any:
    """Rows x / max(1, ||x||/bound), as the privacy proofs need them; sparse rows stay sparse.

    >>> clipped([[3.0, 4.0], [0.3, 0.4]], 1.0).round(12).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    if not (bound > 0 and math.isfinite(bound)):
        raise InputError(f"rows are clipped to a positive norm, not to {bound}")
    X = scipy.sparse.csr_array(X, dtype=float) if scipy.sparse.issparse(X) else np.asarray(X, dtype=float)
    norms = np.sqrt((X**2).sum(axis=1))
    factor = 1 / np.maximum(1.0, norms / bound * (1 + 1e-15))
    return scipy.sparse.diags_array(factor) @ X if scipy.sparse.issparse(X) else X * factor[:, None]
