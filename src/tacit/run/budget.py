"""What every front refuses or warns of, with the same words."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from numbers import Real

from tacit.errors import InputError, number
from tacit.privacy.accounting import delta_warning, epsilon_warning, require_small_delta
from tacit.run.option import option

USUAL_DELTA = 1e-5  # also that at which a run without a budget says what it costs
LARGEST_EPSILON = 1e3  # above it nothing is private, and a plan of so many rounds would take hours


@dataclass(frozen=True)
class Budget:
    """The total that a run may spend: every record costs at most (epsilon, delta).

    >>> Budget(1.0, 1e-5).warnings(rows=1000)
    []
    """

    epsilon: float = option(
        MISSING, "Protect every record by this total epsilon. All settings that you do not give follow from it."
    )
    delta: float = option(USUAL_DELTA, "With --epsilon: the total delta for every record; far below 1/rows (1e-5).")
    reason: str = option(
        "",
        "Allow a delta of one over the rows or more, and say why: a model file keeps the reason.",
        name="--allow-delta",
        metavar="WHY",
    )

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise InputError(f"why delta is right is a text, not {self.reason!r}")
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon))
        if self.epsilon > LARGEST_EPSILON:
            raise InputError(f"an epsilon of {self.epsilon:g} protects nothing: it must be {LARGEST_EPSILON:g} at most")
        if not (isinstance(self.delta, Real) and 0 < self.delta < 1 and 0 < float(self.delta) < 1):
            raise InputError(f"delta must lie between 0 and 1, not {self.delta!r}")
        object.__setattr__(self, "delta", float(self.delta))

    def __str__(self) -> str:
        """The pair alone: "(1, 1e-05)"."""
        return f"({self.epsilon:g}, {self.delta:g})"

    def check(self, rows: int) -> None:
        """Refuses a delta with which so many records could be published one by one, unless there is a reason."""
        require_small_delta(self.delta, rows, self.reason)

    def warnings(self, rows: int) -> list[str]:
        """What somebody should know who spends it on so many records."""
        self.check(rows)
        found = (delta_warning(self.delta, rows), epsilon_warning(self.epsilon))
        return [each for each in found if each is not None]
