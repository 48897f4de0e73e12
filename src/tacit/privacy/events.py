"""What a release costs, as frozen data; each docstring is the definition, and beside it stand its forms.

Adjacency everywhere: *one record of one agent is replaced by another*, the number of records is public. Two data sets
D, D' of one agent that differ in this way are called neighbours. Every event must hold for the release *given all that
any agent released before*, so events of one agent compose adaptively. Which events, how many and with which parameters
must be fixed beforehand and must not depend on what was released (a run that stops early on released values pays for
the whole plan). What one agent releases costs its own records only, since a record belongs to one agent and nothing but
releases passes between agents: they spend side by side, and the network's total is the largest of theirs.

**Forms.** An event states what n releases of it cost in every way in which an accountant adds costs up (`_Event`): as a
pure epsilon, as Renyi divergences, as zCDP, and as a distribution of the privacy loss. A form that an event does not
state is infinite. So this file is all that there is to read about an event, and accountants only add up.

**The set is closed** (`Event`). `known` refuses everything else, where a release is made and where one is counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from tacit.errors import InputError

# A ledger needs events and no arithmetic: what is slow to import is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "ZCDP",
    "BlurredLaplace",
    "Event",
    "Free",
    "Gaussian",
    "Laplace",
    "LaplaceVector",
    "ObjectiveGaussian",
    "ObjectiveGaussianClasses",
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


class _Event:
    """What all events have: forms, each of which bounds what n releases cost, and infinite ones where none is stated.

    A privacy-loss distribution is composed in one of three ways:

        normal  the loss is that of a Gaussian mechanism: all of these together are one, exactly (`precision`)
        grid    it lies on a grid, rounded up
        cut     the same, and losses above a largest one, which has to be chosen, count as infinite
    """

    __slots__ = ()  # so that no event, however it was made, has a form or a mark of its own beside its parameters

    free: ClassVar[bool] = False  # whether it costs nothing
    protected: ClassVar[bool] = True  # whether any form may be finite
    loss: ClassVar[Literal["normal", "grid", "cut"] | None] = None  # None: no distribution of it is known

    def __post_init__(self) -> None:
        """Refuses parameters that no release has. It is asked again wherever an event is taken (`known`)."""

    def pure(self, n: int = 1) -> float:
        """The pure epsilon of n such releases; infinite if there is none."""
        return math.inf

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        """An upper bound on the Renyi divergence of each order > 1 between neighbours."""
        return math.inf * order

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        """rho and xi: the Renyi divergence of every order a > 1 is at most xi + rho a."""
        return math.inf, math.inf

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        """Of one loss, on a grid of this interval, rounded up; n releases have `losses(n)` such losses."""
        from dp_accounting.pld import common, privacy_loss_distribution

        everything = common.DifferentialPrivacyParameters(0.0, 1.0)
        return privacy_loss_distribution.from_privacy_parameters(everything, value_discretization_interval=interval)

    def largest_loss(self, tail: float) -> float:
        """If the distribution is cut: a loss above which there is at most so much of it."""
        return math.inf

    def spread(self) -> float:
        """If the distribution is cut: roughly the variance of the loss."""
        return math.inf

    def losses(self, n: int = 1) -> int:
        """How many independent losses n releases have."""
        return n

    def roundings(self, n: int = 1) -> int:
        """How often the grid rounds the loss by up to an interval; otherwise it is fitted to second order."""
        return 0

    def precision(self, n: int = 1) -> float:
        """If the loss is normal: 1/multiplier^2 of the one Gaussian mechanism that n releases are."""
        return 0.0

    def alone(self, delta: float, n: int = 1) -> float | None:
        """The epsilon of n releases and nothing else, where a formula gives it."""
        return None

    @property
    def shared(self) -> SharedGaussian | None:
        """The event, if members share its noise: it holds against so many of them. None if it holds against all."""
        return None

    def against(self, colluders: int, connectivity: int | None = None) -> Event:
        """This event for another coalition: see the function `against`."""
        return known(self)

    def faced(self) -> Event:
        """What it is for the largest coalition that it assumes: an event that assumes none."""
        return known(self)

    @classmethod
    def dominating(cls, events: Collection[Self]) -> Event | None:
        """One event whose losses dominate those of each of these; None if none does."""
        return None

    def in_words(self) -> str:
        """What a release costs, for people."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Free(_Event):
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
class Unprotected(_Event):
    """A function of the data leaves as it is: no finite epsilon bounds what it reveals."""

    protected = False


@dataclass(frozen=True, slots=True)
class Pure(_Event):
    """P(release in S | D) <= exp(epsilon) P(release in S | D') for every S and all neighbours D, D'.

    >>> Pure(0.5)
    Pure(epsilon=0.5)
    """

    loss = "grid"

    epsilon: float

    def __post_init__(self) -> None:
        _positive(self, "epsilon")

    def pure(self, n: int = 1) -> float:
        return n * self.epsilon

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.pure_renyi(self.epsilon, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * _square(self.epsilon) / 2, 0.0  # Bun and Steinke (2016), Proposition 3.3

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
class Laplace(_Event):
    """`coordinates` numbers leave, each with its own Laplace noise of density exp(-|z|/b)/(2b), where no number
    moves by more than Delta between neighbours; `multiplier` is b/Delta. (All numbers may move at once.)"""

    loss = "grid"

    multiplier: float
    coordinates: int = 1

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _whole(self, "coordinates")

    def pure(self, n: int = 1) -> float:
        return n * self.coordinates / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        return n * closed_forms.laplace_renyi(self.multiplier, self.coordinates, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * self.coordinates * _square(1 / self.multiplier) / 2, 0.0

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(self.multiplier, value_discretization_interval=interval)

    def losses(self, n: int = 1) -> int:
        return n * self.coordinates


@dataclass(frozen=True, slots=True)
class LaplaceVector(_Event):
    """As `Laplace`, where it is the Euclidean distance of all the numbers together that is at most Delta between
    neighbours. So the sum of what they move by is at most sqrt(coordinates) Delta."""

    multiplier: float
    coordinates: int

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        _whole(self, "coordinates")

    def pure(self, n: int = 1) -> float:
        return n * math.sqrt(self.coordinates) / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        from tacit.privacy.formulas import closed_forms

        d = self.coordinates  # equal moves are the worst: docs/privacy.md
        return n * closed_forms.laplace_renyi(self.multiplier * math.sqrt(d), d, order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * _square(1 / self.multiplier) / 2, 0.0


@dataclass(frozen=True, slots=True)
class BlurredLaplace(_Event):
    """A number leaves with Laplace noise of density exp(-|z|/b)/(2b) and with a second random number, which is secret,
    independent and uniform on an interval that is known; without the two it moves by at most Delta between neighbours.
    `multiplier` is b/Delta, `width` the length of the interval over b."""

    multiplier: float
    width: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        if not (_finite(self.width) and self.width >= 0):
            raise InputError(f"BlurredLaplace needs a width of 0 or more, not {self.width}")

    def pure(self, n: int = 1) -> float:
        return n / self.multiplier

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        import numpy as np

        from tacit.privacy.formulas import blurred, closed_forms

        unblurred = closed_forms.laplace_renyi(self.multiplier, 1, order)  # without its uniform number
        return n * np.minimum(blurred.renyi_divergence(self, order), unblurred)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * _square(1 / self.multiplier) / 2, 0.0


@dataclass(frozen=True, slots=True)
class Gaussian(_Event):
    """A vector leaves with independent noise N(0, sigma^2) on each entry, where its Euclidean distance between
    neighbours is at most Delta; `multiplier` is sigma/Delta."""

    loss = "normal"

    multiplier: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return n * (order * _square(1 / self.multiplier) / 2)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * _square(1 / self.multiplier) / 2, 0.0

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            self.multiplier, value_discretization_interval=interval
        )

    def precision(self, n: int = 1) -> float:
        return n * _square(1 / self.multiplier)

    @classmethod
    def dominating(cls, events: Collection[Gaussian]) -> Event | None:
        return Gaussian(min(event.multiplier for event in events))

    def in_words(self) -> str:
        return f"Gaussian noise {self.multiplier:.4g} times what a record can move"


@dataclass(frozen=True, slots=True)
class SampledGaussian(_Event):
    """As `Gaussian`, of a vector made of a secret sample, which every record joins with probability `rate`,
    independently of the others. Given the rest of the sample, taking a record out moves the vector by at most
    Delta/2, so replacing one that has joined by at most Delta; `multiplier` is sigma/Delta."""

    loss = "cut"

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _positive(self, "multiplier")
        if not (_finite(self.rate) and 0 < self.rate <= 1):
            raise InputError(f"SampledGaussian needs a rate above 0 and at most 1, not {self.rate}")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return Gaussian(self.multiplier).renyi(order, n)  # the divergence is quasi-convex: a sample costs no more

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return Gaussian(self.multiplier).zcdp(n)

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        from tacit.privacy.formulas import sampling

        return sampling.loss_distribution(self, interval, largest)

    def largest_loss(self, tail: float) -> float:
        from tacit.privacy.formulas import sampling

        return sampling.largest_loss(self, tail)

    def spread(self) -> float:
        from tacit.privacy.formulas import sampling

        return sampling.spread(self)


@dataclass(frozen=True, slots=True)
class SharedGaussian(_Event):
    """A sum of `members` vectors leaves, one of each member, and nothing else of them. Every member has added its share
    of the noise to its own vector: independent noise N(0, s^2) on each entry. One member's vector moves by at most
    Delta between neighbours, in the Euclidean norm; `multiplier` is s/Delta, that of one share.

    Members that collude know their own vectors and shares of the noise, and up to `dropouts` members may be away. At
    most `colluders` members collude, so at least members - colluders - dropouts shares of the noise are unknown to
    them. For them the sum is a `Gaussian` release with the multiplier of so many shares together."""

    loss = "normal"

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

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return self.gaussian.renyi(order, n)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return self.gaussian.zcdp(n)

    def loss_distribution(self, interval: float, largest: float = math.inf) -> PrivacyLossDistribution:
        return self.gaussian.loss_distribution(interval, largest)

    def precision(self, n: int = 1) -> float:
        return self.gaussian.precision(n)

    @property
    def shared(self) -> SharedGaussian:
        return self

    def against(self, colluders: int, connectivity: int | None = None) -> Event:
        most = self.members - self.dropouts - 1  # then one share is left
        cut = connectivity is not None and colluders + self.dropouts >= connectivity
        return replace(self, colluders=most if cut else min(colluders, most))

    def faced(self) -> Event:
        return self.gaussian

    @classmethod
    def dominating(cls, events: Collection[SharedGaussian]) -> Event | None:
        alike = len({replace(event, multiplier=1.0) for event in events}) == 1
        return min(events, key=lambda event: event.multiplier) if alike else None

    def in_words(self) -> str:
        return (
            f"a share of {self.multiplier:.4g} times what a record can move, in a sum with {self.shares} such "
            "shares or more"
        )


@dataclass(frozen=True, slots=True)
class ZCDP(_Event):
    """The Renyi divergence of order a between neighbours is at most xi + rho a, for every a > 1 ((xi, rho)-zCDP)."""

    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "rho")
        if not (_finite(self.xi) and self.xi >= 0):
            raise InputError(f"ZCDP needs xi of 0 or more, not {self.xi}")

    def renyi(self, order: np.ndarray, n: int = 1) -> np.ndarray:
        return n * (self.xi + self.rho * order)

    def zcdp(self, n: int = 1) -> tuple[float, float]:
        return n * self.rho, n * self.xi


@dataclass(frozen=True, slots=True)
class ObjectiveGaussian(_Event):
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
        _positive(self, "multiplier")
        _positive(self, "curvature")

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
class ObjectiveGaussianClasses(_Event):
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
        _positive(self, "multiplier")
        _positive(self, "curvature")
        _whole(self, "classes", 2)

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
    | ObjectiveGaussianClasses
)


def against(event: Event, colluders: int, connectivity: int | None = None) -> Event:
    """The event as it is for a coalition of another size than was assumed. Noise that is not shared is the same for
    all. Where shares of noise travel on a graph whose vertex connectivity (by default, that of a complete one) is no
    larger than the coalition and the dropouts together, a coalition can cut a member off from the others, whose noise
    then no longer hides it. Its own share always does.

    >>> against(SharedGaussian(2.0, members=5, colluders=1), colluders=4).gaussian
    Gaussian(multiplier=2.0)
    """
    return known(event).against(colluders, connectivity)


KINDS: tuple[type[Any], ...] = get_args(Event)  # the closed set, in full
_NAMED = {kind.__name__: kind for kind in KINDS}


def known(event: Any) -> Event:
    """The event, if it is one of ours. The set is closed: what no accountant knows would cost nothing.

    Its parameters are checked once more: an event that comes out of a pickle was never checked.

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
    found.__post_init__()
    return found


def to_plain(event: Event) -> dict[str, Any]:
    """An event as data that JSON can carry.

    >>> to_plain(Gaussian(2.0))
    {'event': 'Gaussian', 'multiplier': 2.0}
    """
    return {"event": type(known(event)).__name__, **asdict(event)}


def from_plain(plain: dict[str, Any]) -> Event:
    """The event that `to_plain` wrote; anything else is refused, never approximated."""
    settings = dict(plain) if isinstance(plain, dict) else {}
    name = settings.pop("event", None)
    kind = _NAMED.get(name) if isinstance(name, str) else None
    if kind is None or set(settings) != {f.name for f in fields(kind)}:
        raise InputError(f"not a privacy event: {plain}")
    event: Event = kind(**settings)
    return event


def _whole(event: Any, name: str, least: int = 1) -> None:
    value = getattr(event, name)
    if not (isinstance(value, int) and _finite(value) and value >= least):
        raise InputError(f"{type(event).__name__} needs a whole number of {name}, {least} or more, not {value}")


def _positive(event: Any, name: str) -> None:
    value = getattr(event, name)
    if not (_finite(value) and value > 0):
        raise InputError(f"{type(event).__name__} needs a positive, finite {name}, not {value}")


def _finite(value: Any) -> bool:
    """Whether it is a number, and no larger than a float can be."""
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def _square(x: float) -> float:
    """x^2: infinity, not an exception, where x is too large."""
    return x * x
