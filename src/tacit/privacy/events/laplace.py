"""Events of Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.privacy.events.forms import Forms, finite, positive, square, whole

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@dataclass(frozen=True, slots=True)
class Laplace(Forms):
    """`coordinates` numbers leave, each with its own Laplace noise of density exp(-|z|/b)/(2b), where no number
    moves by more than Delta between neighbours; `multiplier` is b/Delta. (All numbers may move at once.)"""

    loss = "grid"

    multiplier: float
    coordinates: int = 1

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        whole(self, "coordinates")

    def pure(self, n: int = 1) -> float:
        return n * self.coordinates / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.laplace_renyi(self.multiplier, self.coordinates, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * self.coordinates * square(1 / self.multiplier) / 2, 0.0

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(self.multiplier, value_discretization_interval=interval)

    def losses(self, n: int = 1) -> int:
        return n * self.coordinates


@dataclass(frozen=True, slots=True)
class LaplaceVector(Forms):
    """As `Laplace`, where it is the Euclidean distance of all the numbers together that is at most Delta between
    neighbours. So the sum of what they move by is at most sqrt(coordinates) Delta."""

    multiplier: float
    coordinates: int

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        whole(self, "coordinates")

    def pure(self, n: int = 1) -> float:
        return n * math.sqrt(self.coordinates) / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        d = self.coordinates  # equal moves are the worst: docs/privacy.md
        return n * closed_forms.laplace_renyi(self.multiplier * math.sqrt(d), d, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * square(1 / self.multiplier) / 2, 0.0


@dataclass(frozen=True, slots=True)
class BlurredLaplace(Forms):
    """A number leaves with Laplace noise of density exp(-|z|/b)/(2b) and with a second random number, which is secret,
    independent and uniform on an interval that is known; without the two it moves by at most Delta between neighbours.
    `multiplier` is b/Delta, `width` the length of the interval over b."""

    multiplier: float
    width: float

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        if not (finite(self.width) and self.width >= 0):
            raise InputError(f"BlurredLaplace needs a width of 0 or more, not {self.width}")

    def pure(self, n: int = 1) -> float:
        return n / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        import numpy as np

        from tacit.privacy.formulas import blurred, closed_forms

        unblurred = closed_forms.laplace_renyi(self.multiplier, 1, order)  # without its uniform number
        return n * np.minimum(blurred.renyi_divergence(self, order), unblurred)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * square(1 / self.multiplier) / 2, 0.0
