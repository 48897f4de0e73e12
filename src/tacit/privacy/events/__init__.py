"""What a release costs, as frozen data; each docstring is the definition, and beside it stand its forms.

Adjacency everywhere: *one record of one agent is replaced by another*, the number of records is public. Two data sets
D, D' of one agent that differ in this way are called neighbours. Every event must hold for the release *given all that
any agent released before*, so events of one agent compose adaptively. Which events, how many and with which parameters
must be fixed beforehand and must not depend on what was released (a run that stops early on released values pays for
the whole plan). What one agent releases costs its own records only, since a record belongs to one agent and nothing but
releases passes between agents: they spend side by side, and the network's total is the largest of theirs.

**Forms.** An event states what n releases of it cost in every way in which an accountant adds costs up (`Forms` in
`forms`): as a pure epsilon, as Renyi divergences, as zCDP, and as a distribution of the privacy loss. A form that an
event does not state is infinite. So its class is all that there is to read about an event, and accountants only add up.

**The set is closed** (`Event`). `known` refuses everything else, where a release is made and where one is counted.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, get_args

from tacit.errors import InputError
from tacit.privacy.events.gaussian import Gaussian, SampledGaussian, SharedGaussian
from tacit.privacy.events.laplace import BlurredLaplace, Laplace, LaplaceVector
from tacit.privacy.events.objective import ObjectiveGaussian, ObjectiveGaussianClasses
from tacit.privacy.events.stated import ZCDP, Free, Pure, Unprotected

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
