"""Events that are a bound, whatever the mechanism: nothing, everything, pure epsilon, zCDP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.privacy.events.forms import Forms, finite, positive, square

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@dataclass(frozen=True, slots=True)
class Free(Forms):
    """What leaves costs nothing beyond what has been charged before; `reason` says why."""

    free = True
    loss = "normal"  # without a deviation

    reason: str

    def pure(self, n: int = 1) -> float:
        return 0.0

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return 0.0 * order

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return 0.0, 0.0

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.identity(value_discretization_interval=interval)


@dataclass(frozen=True, slots=True)
class Unprotected(Forms):
    """A function of the data leaves as it is: no finite epsilon bounds what it reveals."""

    protected = False


@dataclass(frozen=True, slots=True)
class Pure(Forms):
    """P(release in S | D) <= exp(epsilon) P(release in S | D') for every S and all neighbours D, D'.

    >>> Pure(0.5)
    Pure(epsilon=0.5)
    """

    loss = "grid"

    epsilon: float

    def __post_init__(self) -> None:
        positive(self, "epsilon")

    def pure(self, n: int = 1) -> float:
        return n * self.epsilon

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.pure_renyi(self.epsilon, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * square(self.epsilon) / 2, 0.0  # Bun and Steinke (2016), Proposition 3.3

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import common, privacy_loss_distribution

        parameters = common.DifferentialPrivacyParameters(self.epsilon, 0)
        return privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=interval)

    def roundings(self, n: int = 1) -> int:
        return n

    def alone(self, delta: float, n: int = 1) -> float | None:
        from tacit.privacy.formulas import closed_forms

        return closed_forms.pure_epsilon(self.epsilon, n, delta)

    def in_words(self) -> str:
        return f"epsilon {self.epsilon:.4g} each"


@dataclass(frozen=True, slots=True)
class ZCDP(Forms):
    """The Renyi divergence of order a between neighbours is at most xi + rho a, for every a > 1 ((xi, rho)-zCDP)."""

    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        positive(self, "rho")
        if not (finite(self.xi) and self.xi >= 0):
            raise InputError(f"ZCDP needs xi of 0 or more, not {self.xi}")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return n * (self.xi + self.rho * order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * self.rho, n * self.xi
