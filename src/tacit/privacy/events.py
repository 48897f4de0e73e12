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
from dataclasses import asdict, dataclass, fields, replace
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
    "SharedGaussian",
    "Unprotected",
    "against",
    "from_plain",
    "known",
    "to_plain",
]

MOST_ROUNDS = 100_000  # of a run: the work of whoever makes its plan, and of the accountant, grows with them


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
    independently of the others. Given the rest of the sample, taking a record out moves the vector by at most
    Delta/2, so replacing one that has joined by at most Delta; `multiplier` is sigma/Delta."""

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        if not 0 < self.rate <= 1:
            raise InputError(f"SampledGaussian needs a rate above 0 and at most 1, not {self.rate}")


@dataclass(frozen=True)
class SharedGaussian:
    """A sum of `members` vectors leaves, one of each member, and nothing else of them. Every member has added its share
    of the noise to its own vector: independent noise N(0, s^2) on each entry. One member's vector moves by at most
    Delta between neighbours, in the Euclidean norm; `multiplier` is s/Delta, that of one share.

    Members that collude know their own vectors and shares of the noise, and up to `dropouts` members may be away. At
    most `colluders` members collude, so at least members - colluders - dropouts shares of the noise are unknown to
    them. For them the sum is a `Gaussian` release with the multiplier of so many shares together."""

    multiplier: float
    members: int
    colluders: int
    dropouts: int = 0

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _whole(self, "members")
        for name in ("colluders", "dropouts"):
            value = getattr(self, name)
            if not (type(value) is int and value >= 0):
                raise InputError(f"SharedGaussian needs a whole number of {name}, 0 or more, not {value}")
        if self.shares < 1:
            raise InputError(
                f"of {self.members} members with {self.colluders} colluders and {self.dropouts} dropouts nobody is "
                "left to hide among; there must be one at least"
            )

    @property
    def shares(self) -> int:
        """How many shares of the noise no coalition knows."""
        return self.members - self.colluders - self.dropouts

    @property
    def gaussian(self) -> Gaussian:
        """The same for the largest coalition that is assumed, as an event of one Gaussian mechanism."""
        return Gaussian(self.multiplier * math.sqrt(self.shares))


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
    | SharedGaussian
    | ZCDP
    | ObjectiveGaussian
)


def against(event: Event, colluders: int, connectivity: int | None = None) -> Event:
    """The event as it is for a coalition of another size than was assumed. Noise that is not shared is the same for
    all. Where shares of noise travel on a graph whose vertex connectivity (by default, that of a complete one) is no
    larger than the coalition and the dropouts together, a coalition can cut a member off from the others, whose noise
    then no longer hides it. Its own share always does.

    >>> against(SharedGaussian(2.0, members=5, colluders=1), colluders=4).gaussian
    Gaussian(multiplier=2.0)
    """
    if not isinstance(event, SharedGaussian):
        return event
    most = event.members - event.dropouts - 1  # then one share is left
    cut = connectivity is not None and colluders + event.dropouts >= connectivity
    return replace(event, colluders=most if cut else min(colluders, most))


KINDS: tuple[type[Any], ...] = get_args(Event)  # the closed set, in full
_NAMED = {kind.__name__: kind for kind in KINDS}


def known(event: Any) -> Event:
    """The event, if it is one of ours. The set is closed: what no accountant knows would cost nothing.

    >>> known(None)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: a release costs one of the events of tacit.privacy.events, which accountants know (...
    """
    if type(event) not in KINDS:  # a subclass could mean another cost than the class that it inherits from
        kind = type(event)
        raise InputError(
            f"a release costs one of the events of tacit.privacy.events, which accountants know ({', '.join(_NAMED)}); "
            f"not a {kind.__module__}.{kind.__qualname__}"
        )
    found: Event = event
    return found


def to_plain(event: Event) -> dict[str, Any]:
    """An event as data that JSON can carry.

    >>> to_plain(Gaussian(2.0))
    {'event': 'Gaussian', 'multiplier': 2.0}
    """
    return {"event": type(known(event)).__name__, **asdict(event)}


def from_plain(plain: dict[str, Any]) -> Event:
    """The event that `to_plain` wrote; anything else is refused, never approximated."""
    settings = dict(plain)
    kind = _NAMED.get(settings.pop("event", ""))
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
