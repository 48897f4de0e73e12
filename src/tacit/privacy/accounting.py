"""Accountants: they turn the events that an agent has spent into one (epsilon, delta).

Each accountant is a function of the multiset of events and of delta. It adds up a form that events state of themselves
(`tacit.privacy.events`) and knows nothing else about them. All of those that apply are valid upper bounds, so the least
of them is what was spent. An event without a form makes it infinite, and its accountant not applicable (None): an
accountant never guesses too low.

    plain sum      pure epsilons add up (delta = 0)
    distribution   privacy-loss distributions: for pure events the optimal composition of Kairouz, Oh and Viswanath
                   (every pure mechanism is a post-processing of randomised response), for mixed ones as tight as the
                   grid; `dp-accounting` does the convolutions, and always rounds epsilon up
    renyi          Renyi divergences add up at every order
    zcdp           rho and xi add up
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from tacit.errors import InputError
from tacit.privacy.events import Event, Gaussian, known
from tacit.privacy.formulas import sampling
from tacit.privacy.formulas.closed_forms import gaussian_epsilon

__all__ = [
    "Totals",
    "delta_warning",
    "epsilon",
    "epsilon_warning",
    "gaussian_epsilon",
    "gaussian_steps",
    "largest_parameter",
    "network_epsilon",
    "require_small_delta",
    "rounded_up",
    "totals",
]

# Orders of Renyi divergence: dense where the usual budgets have their best one.
ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 60)[:-1], np.geomspace(2, 1e5, 400)])
_GRID_POINTS = 2e6  # of a composed privacy-loss distribution: seconds of work, megabytes of memory
_RELATIVE_LOSS = 1e-3  # what rounding to the grid may add to epsilon (more where that would need too many points)
_NOT_PRIVATE = 1e3  # an epsilon above which nothing is private
_TAIL_SHARE = 1e-6  # of delta: what the losses that count as infinite, of steps on a sample, may add up to
_MASS_NOISE = 1e-15  # for each cell of the grid and each step on a sample: what rounding of masses does to epsilon
_FFT_NOISE = 1e-15  # for each step, 100 at least: the mass that convolutions by FFT leave uncertain


@dataclass(frozen=True)
class Totals:
    """What the same events cost under each accountant; None where it does not apply."""

    plain_sum: float
    distribution: float | None
    renyi: float | None
    zcdp: float | None

    @property
    def best(self) -> float:
        """The least epsilon of all accountants: each is an upper bound."""
        return min(e for e in (self.plain_sum, self.distribution, self.renyi, self.zcdp) if e is not None)


def totals(events: Counter[Event], delta: float) -> Totals:
    """The epsilon of every accountant at this delta.

    >>> from tacit.privacy.events import Pure
    >>> t = totals(Counter({Pure(0.1): 100}), delta=1e-5)
    >>> round(t.plain_sum, 9), round(t.distribution, 4)
    (10.0, 4.3068)
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not at {delta}")
    spent = charged(events)
    if not spent:
        return Totals(0.0, 0.0, 0.0, 0.0)
    if not all(event.protected for event in spent):
        return Totals(math.inf, math.inf, math.inf, math.inf)
    with np.errstate(all="ignore"):  # infinities are meant; NaN counts as infinite
        plain, renyi, zcdp = plain_sum(spent), _renyi(spent, delta), _zcdp(spent, delta)
    return Totals(plain, _distribution(spent, delta, min(plain, renyi)), renyi, zcdp)


def charged(events: Mapping[Event, int]) -> Counter[Event]:
    """The events that cost something; those of shared noise as what they are for the largest coalition assumed."""
    found: Counter[Event] = Counter()
    for event, n in events.items():
        if times(n) and not known(event).free:
            found[event.faced()] += times(n)
    return found


def times(n: int) -> int:
    """How often an event is spent: a whole number, of a type that does not wrap around as those of NumPy do."""
    if not (isinstance(n, Integral) and n >= 0):
        raise InputError(f"an event is spent a whole number of times, 0 or more, not {n}")
    return int(n)


def epsilon(events: Counter[Event], delta: float) -> float:
    """The least epsilon such that all events together are (epsilon, delta)-differentially private, by any accountant.

    >>> from tacit.privacy.events import Free
    >>> epsilon(Counter({Free("post-processing"): 7}), delta=1e-5)
    0.0
    """
    return totals(events, delta).best


def rounded_up(epsilon: float, digits: int = 4) -> float:
    """An epsilon for people to read, never rounded down.

    >>> rounded_up(0.123449), rounded_up(1.0), rounded_up(0.99999)
    (0.1235, 1.0, 1.0)
    """
    if not (0 < epsilon < math.inf):
        return epsilon
    unit = 10.0 ** (digits - 1 - math.floor(math.log10(epsilon)))
    return float(f"{math.ceil(epsilon * unit * (1 - 1e-15)) / unit:.{digits}g}")


def delta_warning(delta: float, rows: int) -> str | None:
    """Publishing each record with probability delta is (0, delta)-private: delta has to be small beside 1/rows.

    >>> delta_warning(1e-5, 1000) is None, delta_warning(1e-3, 1000) is None
    (True, False)
    """
    if delta * rows <= 0.5:
        return None
    return f"delta = {delta:g} is not small beside one over {rows:,} rows: it would allow whole records to be published"


def require_small_delta(delta: float, rows: int, allowed: str | None = None) -> None:
    """Refuses a delta that lets a method publish a whole record, unless somebody says why (`allowed`).

    >>> require_small_delta(1e-5, 1000)
    >>> require_small_delta(0.5, 1000)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: delta = 0.5 is not below one over 1,000 rows: a method that publishes whole records ...
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not {delta:g}")
    if delta * rows < 1 or (allowed or "").strip():
        return
    smaller = f"{10.0 ** math.floor(math.log10(0.1 / rows)):.0e}"
    raise InputError(
        f"delta = {delta:g} is not below one over {rows:,} rows: a method that publishes whole records could promise "
        f"that; take a smaller one, such as {smaller}, or say why this one is right (--allow-delta; "
        "allow_delta in Python; reason in the budget of a file)"
    )


def epsilon_warning(epsilon: float) -> str | None:
    """Above 20, whoever guesses what a record says may be wrong once in half a billion times: no protection.

    >>> epsilon_warning(20.0) is None, epsilon_warning(21.0) is None
    (True, False)
    """
    if epsilon <= 20:
        return None
    return f"epsilon = {epsilon:g} protects nobody: it allows a guess about one record to be right nearly always"


def network_epsilon(agents: Iterable[Counter[Event]], delta: float) -> float:
    """The network's epsilon: the largest of its agents', since a record belongs to one agent."""
    return max((epsilon(events, delta) for events in agents), default=0.0)


def largest_parameter(
    events: Callable[[float], Counter[Event]],
    epsilon_target: float,
    delta: float,
    limit: float = 1e6,
    near: float | None = None,
) -> float:
    """The largest parameter p, up to a relative 1e-6, with epsilon(events(p)) at most the target.

    `events` must cost more as p grows, such as `lambda p: Counter({Pure(p): 50})`; for noise let p be its inverse. It
    is asked for fewer p if `near` is a good guess.

    >>> from tacit.privacy.events import Pure
    >>> p = largest_parameter(lambda p: Counter({Pure(p): 100}), 1.0, delta=1e-5)
    >>> 0.02 < p < 0.03, epsilon(Counter({Pure(p): 100}), 1e-5) <= 1.0
    (True, True)
    """
    if not (epsilon_target > 0 and math.isfinite(epsilon_target)):
        raise InputError(f"epsilon must be a positive number, not {epsilon_target}")

    def excess(p: float) -> float:
        """Above zero where p costs too much."""
        cost = epsilon(events(p), delta)
        return math.log(cost / epsilon_target) if cost > 0 else -math.inf

    low = high = 1.0 if near is None else near
    below = above = excess(low)
    wider = 4.0 if near is None else 1.1
    while below > 0:
        high, above, low, wider = low, below, low / wider, max(wider, min(wider**2, 4.0))
        if low < 1e-300:
            raise InputError(f"no positive parameter keeps the total at or below epsilon {epsilon_target}")
        below = excess(low)
    while above <= 0:
        low, below, high, wider = high, above, high * wider, max(wider, min(wider**2, 4.0))
        if high > limit:
            return low
        above = excess(high)
    # A cost is nearly a power of p: a line through the logarithms (regula falsi, Illinois rule) finds p soon. Where it
    # does not, halving does.
    last, tries = 0, 0
    while high > low * (1 + 1e-6):
        straight = tries < 20 and math.isfinite(below) and math.isfinite(above)
        share, tries = below / (below - above) if straight else 0.5, tries + 1
        middle = min(max(low * (high / low) ** share, low * (1 + 4e-7)), high / (1 + 4e-7))
        found = excess(middle)
        if found <= 0:
            low, below, above, last = middle, found, above / 2 if last < 0 else above, -1
        else:
            high, above, below, last = middle, found, below / 2 if last > 0 else below, 1
    return low


def gaussian_steps(
    steps: int, epsilon_target: float, delta: float, besides: Mapping[Event, int] | None = None
) -> Gaussian:
    """What one of `steps` equal Gaussian steps may cost, so that the total with `besides` stays within the target.

    >>> step = gaussian_steps(100, 1.0, delta=1e-5)
    >>> 0.9999 < epsilon(Counter({step: 100}), 1e-5) <= 1.0
    True
    """
    rest = Counter(besides or {})
    return Gaussian(1 / largest_parameter(lambda p: Counter({Gaussian(1 / p): steps}) + rest, epsilon_target, delta))


def plain_sum(spent: Mapping[Event, int]) -> float:
    """Pure epsilons add up; infinite where not all events are pure."""
    total = 0.0
    for event, n in spent.items():
        total += event.pure(n)  # not sum(), whose last digit depends on the version of Python
    return total


def _distribution(spent: Mapping[Event, int], delta: float, rough: float) -> float | None:
    ((only, count),) = spent.items() if len(spent) == 1 else ((None, 0),)
    if any(event.loss is None for event in spent):
        return None if only is None else only.alone(delta, count)
    sampled: dict[Event, int] = {event: n for event, n in spent.items() if event.loss == "cut"}
    if rough == 0 or (rough > _NOT_PRIVATE and not sampled):  # a finer answer is not worth the work
        return rough
    # Gaussians compose to a Gaussian, exactly: 1/multiplier^2 adds up.
    precision = sum(event.precision(n) for event, n in spent.items())
    if all(event.loss == "normal" for event in spent):
        return gaussian_epsilon(1 / math.sqrt(max(precision, 1e-300)), delta)
    if only is not None and (found := only.alone(delta, count)) is not None:
        return found
    uncertain = _FFT_NOISE * max(100, sum(event.losses(n) for event, n in spent.items()))
    if delta < 100 * uncertain:
        return None
    roundings = max(10, sum(event.roundings(n) for event, n in spent.items()))
    if sampled:
        return _sampled(spent, sampled, precision, rough, delta, uncertain, roundings)
    interval = max(rough * _RELATIVE_LOSS / roundings, 4 * rough / _GRID_POINTS)
    return _composed(spent, precision, interval, {}, delta - uncertain)


def _sampled(
    spent: Mapping[Event, int],
    sampled: Mapping[Event, int],
    precision: float,
    rough: float,
    delta: float,
    uncertain: float,
    roundings: int,
) -> float | None:
    """The epsilon of events with Gaussians on samples among them, on a coarse grid, and then on finer ones until the
    grid is fine enough for what was found. Every answer is an upper bound."""
    count = sum(sampled.values())
    largest = {event: event.largest_loss(_TAIL_SHARE * delta / count) for event in sampled}
    rest = plain_sum({event: n for event, n in spent.items() if event.loss == "grid"})
    together = precision + sum(n * event.spread() for event, n in sampled.items())
    rough = min(rough, rest + gaussian_epsilon(1 / math.sqrt(max(together, 1e-300)), delta))
    widest = max(largest.values())
    if rough > _NOT_PRIVATE or widest > _NOT_PRIVATE:
        return None
    narrow = min(math.sqrt(event.spread()) for event in sampled) / 10  # chords add h^2/4 to a step's variance
    interval, best = max(rough, widest) / 1e3, math.inf
    for _ in range(6):
        cells = sum(n * 2 * (largest[event] / interval + 1) for event, n in sampled.items())
        found = _composed(spent, precision, interval, largest, (1 - 1e-6) * delta - uncertain)
        best = min(best, found + _MASS_NOISE * cells)
        finest = max(4 * best / _GRID_POINTS, sampling.finest(widest))
        wanted = max(min(best * _RELATIVE_LOSS / roundings, max(narrow, best / 1e5)), finest)
        if interval <= 1.5 * wanted or found == 0:
            break
        interval = max(wanted, interval / 50)
    return best


def _composed(
    spent: Mapping[Event, int],
    precision: float,
    interval: float,
    largest: Mapping[Event, float],
    delta: float,
) -> float:
    """By privacy-loss distributions on a grid of this interval, rounded up."""
    from dp_accounting.pld import privacy_loss_distribution  # a second to import: only where it is used

    composed = privacy_loss_distribution.identity(value_discretization_interval=interval)
    if precision:
        composed = composed.compose(Gaussian(1 / math.sqrt(precision)).loss_distribution(interval))
    for event, n in spent.items():
        if event.loss == "normal":
            continue  # counted above
        one, times = event.loss_distribution(interval, largest.get(event, math.inf)), event.losses(n)
        composed = composed.compose(one if times == 1 else one.self_compose(times))
    return max(0.0, float(composed.get_epsilon_for_delta(delta)))


def _renyi(spent: Mapping[Event, int], delta: float) -> float:
    return converted(sum((event.renyi(ORDERS, n) for event, n in spent.items()), np.zeros_like(ORDERS)), delta)


def _zcdp(spent: Mapping[Event, int], delta: float) -> float | None:
    rho = xi = 0.0
    for event, n in spent.items():
        more = event.zcdp(n)
        rho, xi = rho + more[0], xi + more[1]
    return converted(xi + rho * ORDERS, delta) if math.isfinite(xi) else None  # rho alone may be too large for a double


def converted(divergence: np.ndarray, delta: float, orders: np.ndarray = ORDERS) -> float:
    """The least epsilon that Renyi divergences of these orders give at delta.

    Canonne, Kamath and Steinke (2020), Proposition 12; and none is needed where the divergence, which is at least that
    of Kullback and Leibler, bounds the total variation by delta (Bretagnolle and Huber 1979). `dp-accounting` computes
    the same, but a process that only needs this does not have to import it.
    """
    divergence = np.where(divergence >= 0, divergence, math.inf)  # NaN and negative numbers count as infinite
    found = divergence + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    found = np.where(orders > 1.01, found, math.inf)  # rounding: not stable near an order of 1, and of no use there
    found = np.where(delta**2 + np.expm1(-divergence) > 0, 0.0, found)
    return max(0.0, float(found.min()))
