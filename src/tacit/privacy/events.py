"""What a release costs, as frozen data; each docstring is the definition.

Adjacency everywhere: *one record of one agent is replaced by another*, the number of records is public. Two data sets
D, D' of one agent that differ in this way are called neighbours. Every event must hold for the release *given all that
any agent released before*, so events of one agent compose adaptively. Which events, how many and with which parameters
must be fixed beforehand and must not depend on what was released (a run that stops early on released values pays for
the whole plan). What one agent releases costs its own records only, since a record belongs to one agent and nothing but
releases passes between agents: they spend side by side, and the network's total is the largest of theirs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from tacit.errors import InputError

__all__ = [
    "ZCDP",
    "BlurredLaplace",
    "Event",
    "Free",
    "Gaussian",
    "Laplace",
    "LaplaceVector",
    "ObjectiveGaussian",
    "Pure",
    "SampledGaussian",
    "Unprotected",
    "from_plain",
    "to_plain",
]


@dataclass(frozen=True)
class Free:
    """What leaves costs nothing beyond what has been charged before; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class Unprotected:
    """A function of the data leaves as it is: no finite epsilon bounds what it reveals."""


@dataclass(frozen=True)
class Pure:
    """P(release in S | D) <= exp(epsilon) P(release in S | D') for every S and all neighbours D, D'.

    >>> Pure(0.5)
    Pure(epsilon=0.5)
    """

    epsilon: float

    def __post_init__(self) -> None:
        _positive(self, "epsilon")


@dataclass(frozen=True)
class Laplace:
    """`coordinates` numbers leave, each with its own Laplace noise of density exp(-|z|/b)/(2b), where no number
    moves by more than Delta between neighbours; `multiplier` is b/Delta. (All numbers may move at once.)"""

    multiplier: float
    coordinates: int = 1

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _whole(self, "coordinates")


@dataclass(frozen=True)
class LaplaceVector:
    """As `Laplace`, where it is the Euclidean distance of all the numbers together that is at most Delta between
    neighbours. So the sum of what they move by is at most sqrt(coordinates) Delta."""

    multiplier: float
    coordinates: int

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _whole(self, "coordinates")


@dataclass(frozen=True)
class BlurredLaplace:
    """A number leaves with Laplace noise of density exp(-|z|/b)/(2b) and with a second random number, which is secret,
    independent and uniform on an interval that is known; without the two it moves by at most Delta between neighbours.
    `multiplier` is b/Delta, `width` the length of the interval over b."""

    multiplier: float
    width: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        if not (self.width >= 0 and math.isfinite(self.width)):
            raise InputError(f"BlurredLaplace needs a width of 0 or more, not {self.width}")


@dataclass(frozen=True)
class Gaussian:
    """A vector leaves with independent noise N(0, sigma^2) on each entry, where its Euclidean distance between
    neighbours is at most Delta; `multiplier` is sigma/Delta."""

    multiplier: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")


@dataclass(frozen=True)
class SampledGaussian:
    """As `Gaussian`, of a vector made of a secret sample, which every record joins with probability `rate`,
    independently of the others. Given the rest of the sample, neither replacing a record that has joined nor taking
    it out moves the vector by more than Delta; `multiplier` is sigma/Delta."""

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        if not 0 < self.rate <= 1:
            raise InputError(f"SampledGaussian needs a rate above 0 and at most 1, not {self.rate}")


@dataclass(frozen=True)
class ZCDP:
    """The Renyi divergence of order a between neighbours is at most xi + rho a, for every a > 1 ((xi, rho)-zCDP)."""

    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "rho")
        if not (self.xi >= 0 and math.isfinite(self.xi)):
            raise InputError(f"ZCDP needs xi of 0 or more, not {self.xi}")


@dataclass(frozen=True)
class ObjectiveGaussian:
    """The minimiser of a strongly convex objective with a Gaussian linear term leaves, under a Gaussian mask. m, the
    `multiplier`, is the noise over what a record moves the gradient by (the mask's share of 1/m^2 included), x, the
    `curvature`, is what a record adds to the Hessian over the strong convexity. The Renyi divergence of every order a
    with 1 < a < 1 + 1/x is between neighbours at most

        a/(2 m^2) + [ln(1 + x) - ln(1 + a x) - ln(1 - (a - 1) x)] / (a - 1)

    The first term is that of `Gaussian(m)`; the second is about a x^2 and pays for the curvature of the loss. A single
    such release also has the epsilon of `closed_forms.objective_epsilon`. docs/privacy.md proves both."""

    multiplier: float
    curvature: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _positive(self, "curvature")


Event = (
    Free
    | Unprotected
    | Pure
    | Laplace
    | LaplaceVector
    | BlurredLaplace
    | Gaussian
    | SampledGaussian
    | ZCDP
    | ObjectiveGaussian
)

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def to_plain(event: Event) -> dict[str, Any]:
    """An event as data that JSON can carry.

    >>> to_plain(Gaussian(2.0))
    {'event': 'Gaussian', 'multiplier': 2.0}
    """
    return {"event": type(event).__name__, **asdict(event)}


def from_plain(plain: dict[str, Any]) -> Event:
    """The event that `to_plain` wrote; anything else is refused, never approximated."""
    settings = dict(plain)
    kind = _KINDS.get(settings.pop("event", ""))
    if kind is None or set(settings) != {f.name for f in fields(kind)}:
        raise InputError(f"not a privacy event: {plain}")
    event: Event = kind(**settings)
    return event


def _whole(event: Any, name: str) -> None:
    value = getattr(event, name)
    if not (isinstance(value, int) and value >= 1):
        raise InputError(f"{type(event).__name__} needs a whole number of {name}, 1 or more, not {value}")


def _positive(event: Any, name: str) -> None:
    value = getattr(event, name)
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{type(event).__name__} needs a positive, finite {name}, not {value}")
