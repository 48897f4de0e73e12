"""What every front refuses or warns of, with the same words."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from tacit.errors import InputError, number
from tacit.privacy.accounting import delta_warning, epsilon_warning, require_small_delta

LARGEST_EPSILON = 1e3  # above it nothing is private, and a plan of so many rounds would take hours


@dataclass(frozen=True)
class Budget:
    """The total that a run may spend: every record costs at most (epsilon, delta).

    >>> Budget(1.0, 1e-5).warnings(rows=1000)
    []
    """

    epsilon: float
    delta: float
    reason: str = ""  # why delta may be one over the rows, or more

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon)
        if self.epsilon > LARGEST_EPSILON:
            raise InputError(f"an epsilon of {self.epsilon:g} protects nothing: it must be {LARGEST_EPSILON:g} at most")
        if not (isinstance(self.delta, Real) and 0 < self.delta < 1):
            raise InputError(f"delta must lie between 0 and 1, not {self.delta!r}")

    def check(self, rows: int) -> None:
        """Refuses a delta with which so many records could be published one by one, unless there is a reason."""
        require_small_delta(self.delta, rows, self.reason)

    def warnings(self, rows: int) -> list[str]:
        """What somebody should know who spends it on so many records."""
        self.check(rows)
        found = (delta_warning(self.delta, rows), epsilon_warning(self.epsilon))
        return [each for each in found if each is not None]
