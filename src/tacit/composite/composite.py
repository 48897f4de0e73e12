"""A smooth average loss plus g(A x - c), as one objective with a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.composite.term import Term
from tacit.core.problem import Problem
from tacit.errors import InputError


@dataclass(frozen=True, eq=False)
class Composite:
    """min f(x) + g(A x - c), paper 001, (2): f the objective of one agent, the rest a `Term`.

    >>> from tacit.composite.term import lasso
    >>> round(Composite(Problem([([[1.0]], [1])]), lasso(1, 0.5)).value([0.0]), 4)  # log 2
    0.6931
    """

    problem: Problem
    term: Term

    def __post_init__(self) -> None:
        if self.problem.agents != 1:
            raise InputError(f"a composite problem has one agent, not {self.problem.agents}; use pooled()")
        if self.problem.dimension != self.term.dimension:
            raise InputError(
                f"the problem has dimension {self.problem.dimension}, the term {self.term.dimension}: it needs "
                "a column for each weight of the model, the intercept included"
            )

    def value(self, x: Any) -> float:
        """f(x) + g(A x - c)."""
        return float(self.problem.value(x)[0] + self.term.value(x)[0])
