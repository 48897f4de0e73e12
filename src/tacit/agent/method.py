"""The method that a federation runs: private, by a recipe; or exact, with its own settings."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import InputError, number
from tacit.workflows.exact import ALGORITHMS
from tacit.workflows.losses import LOSSES
from tacit.workflows.recipes import RECIPES, Calibration

_LARGEST_EPSILON = 1e3  # the number of rounds grows with epsilon, and a file must not keep its readers busy for hours


@dataclass(frozen=True)
class PrivateMethod:
    """A private method by its recipe: every record costs at most (epsilon, delta) over the whole run."""

    name: str
    epsilon: float
    delta: float
    deviation: float = 0.0  # what was calibrated for this budget; 0: not yet
    multiplier: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in RECIPES:
            raise InputError(f"a private method is one of {', '.join(RECIPES)}; not {self.name!r}")
        if RECIPES[self.name].alone:
            raise InputError(f"{self.name} is for one holder of all records: with others, take shared-{self.name}")
        number("epsilon", self.epsilon)
        if self.epsilon > _LARGEST_EPSILON:
            raise InputError(
                f"an epsilon of {self.epsilon:g} protects nothing: it must be {_LARGEST_EPSILON:g} at most"
            )
        if not 0 < self.delta < 1:
            raise InputError(f"delta must lie between 0 and 1, not at {self.delta}")
        number("deviation", self.deviation, zero=True)
        number("multiplier", self.multiplier, zero=True)

    @property
    def calibration(self) -> Calibration | None:
        """The calibrated numbers, if there are any."""
        return Calibration(self.deviation, self.multiplier) if self.deviation and self.multiplier else None

    @property
    def token(self) -> bool:
        """Whether one member speaks at a time."""
        return RECIPES[self.name].token

    @property
    def shared(self) -> bool:
        """Whether the members share their noise."""
        return RECIPES[self.name].shared


@dataclass(frozen=True)
class ExactMethod:
    """A method that exchanges exact values, with its settings."""

    name: str
    penalty: float
    l2: float
    loss: str

    def __post_init__(self) -> None:
        if self.name not in ALGORITHMS:
            raise InputError(
                f"a method without epsilon is one of {', '.join(ALGORITHMS)}; not {self.name!r}; "
                f"private ones need epsilon and delta: {', '.join(RECIPES)}"
            )
        number("penalty", self.penalty)
        number("l2", self.l2, zero=True)
        if self.loss not in LOSSES:
            raise InputError(f"the loss is one of {', '.join(LOSSES)}; not {self.loss!r}")

    @property
    def token(self) -> bool:
        """Whether one member speaks at a time."""
        return ALGORITHMS[self.name].token

    @property
    def shared(self) -> bool:
        """Whether the members share their noise: there is none."""
        return False
