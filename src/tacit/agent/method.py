"""The method that a federation runs: private, by a recipe; or exact, with its own settings."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import InputError, number
from tacit.run.limits import Budget
from tacit.workflows.exact import ALGORITHMS
from tacit.workflows.losses import LOSSES
from tacit.workflows.recipes import RECIPES, Calibration


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
        Budget(self.epsilon, self.delta)
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
