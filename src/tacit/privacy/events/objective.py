"""Events of Gaussian noise in an objective, whose minimiser leaves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.privacy.events.forms import Forms, positive, whole
from tacit.privacy.events.gaussian import Gaussian

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np

    from tacit.privacy.events import Event


@dataclass(frozen=True, slots=True)
class ObjectiveGaussian(Forms):
    """The minimiser of a strongly convex objective with a Gaussian linear term leaves, under a Gaussian mask. m, the
    `multiplier`, is the noise over what a record moves the gradient by (the mask's share of 1/m^2 included), x, the
    `curvature`, is what a record adds to the Hessian over the strong convexity. The Renyi divergence of every order a
    with 1 < a < 1 + 1/x is between neighbours at most

        a/(2 m^2) + [ln(1 + x) - ln(1 + a x) - ln(1 - (a - 1) x)] / (a - 1)

    The first term is that of `Gaussian(m)`; the second is about a x^2 and pays for the curvature of the loss. A single
    such release also has the epsilon of `formulas.closed_forms.objective_epsilon`. docs/privacy.md proves both."""

    multiplier: float
    curvature: float

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        positive(self, "curvature")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:  # no zCDP: it is bounded for some orders only
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.objective_renyi(self.multiplier, self.curvature, order)

    def alone(self, delta: float, n: int = 1) -> float | None:
        from tacit.privacy.formulas import closed_forms

        return closed_forms.objective_epsilon(self.multiplier, self.curvature, delta) if n == 1 else None

    @classmethod
    def dominating(cls, events: Collection[ObjectiveGaussian]) -> Event | None:
        return ObjectiveGaussian(min(e.multiplier for e in events), max(e.curvature for e in events))

    def in_words(self) -> str:
        return Gaussian(self.multiplier).in_words()


@dataclass(frozen=True, slots=True)
class ObjectiveGaussianClasses(Forms):
    """As `ObjectiveGaussian`, for records of K = `classes` classes under the multinomial loss. A record adds a matrix
    of rank K - 1 to the Hessian; x, the `curvature`, bounds its largest eigenvalue over the strong convexity. With
    k = K - 1, the Renyi divergence of every order a with 1 < a < 1 + 1/x is between neighbours at most

        a/(2 m^2)  +  k [a ln(1 + y) - ln(1 + a y)] / (a - 1)  +  max(-ln(1 + x) - ln(1 - (a - 1) x)/(a - 1), a x^2/2)

    with y = x/sqrt(k). For two classes that is what `ObjectiveGaussian` has, where a >= 2; for more it is hardly
    larger, since the squares of all eigenvalues together are no more than x^2. A single such release also has the
    epsilon of `formulas.closed_forms.objective_epsilon`. docs/privacy.md proves both."""

    multiplier: float
    curvature: float
    classes: int

    def __post_init__(self) -> None:
        positive(self, "multiplier")
        positive(self, "curvature")
        whole(self, "classes", 2)

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.classes_renyi(self.multiplier, self.curvature, self.classes, order)

    def alone(self, delta: float, n: int = 1) -> float | None:
        from tacit.privacy.formulas import closed_forms

        one = closed_forms.objective_epsilon(self.multiplier, self.curvature, delta, self.classes)
        return one if n == 1 else None

    @classmethod
    def dominating(cls, events: Collection[ObjectiveGaussianClasses]) -> Event | None:
        least = min(e.multiplier for e in events)
        return ObjectiveGaussianClasses(least, max(e.curvature for e in events), max(e.classes for e in events))

    def in_words(self) -> str:
        return Gaussian(self.multiplier).in_words()
