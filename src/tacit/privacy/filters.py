"""What a ledger's events cost: the tight accountant for a plan, a privacy filter once later events may depend on it.

The accountants of `tacit.privacy.accounting` are proved for events that are fixed beforehand. What is reserved after
something was released may depend on it, in kind, size and number; then only a filter (Rogers, Roth, Ullman and Vadhan
2016) bounds the whole. docs/privacy.md has the rule and its proof:

    planned only     the events reserved before the first payload was stored: accounting.epsilon, tight
    later ones, too  all events together, at the cap's delta:
                     - pure epsilons add up, or
                     - Renyi divergences add up at one order, which the cap fixes (Feldman and Zrnic 2021);
                     - a ledger that was planned with Gaussians alone and stays so: 1/multiplier^2 add up (Smith and
                       Thakurta 2022), at nine tenths of delta; if other events join, the two above, at the rest

The epsilon of a filter means one thing: the events fit if it is at most the cap's. Its Renyi order is the best one for
spending the whole cap. So a part of the cap costs more than the tight accountant would say, never less.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np

from tacit.privacy import accounting
from tacit.privacy.events import Event
from tacit.privacy.ledger.entries import Cap

_MIXED = 0.1  # the share of delta that a ledger of Gaussians keeps in case other events join


def epsilon(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    """What a ledger's events cost under its cap: those reserved before anything was released, and the later ones.

    >>> from tacit.privacy.events import Pure
    >>> cap, half, all = Cap(1.0, 1e-6), Counter({Pure(0.01): 100}), Counter({Pure(0.01): 200})
    >>> round(epsilon(all, Counter(), cap), 3), round(epsilon(half, half, cap), 3)
    (0.572, 0.686)
    """
    planned, later = accounting.charged(planned), accounting.charged(later)
    return filter_epsilon(planned, later, cap) if later else accounting.epsilon(planned, cap.delta)


def filter_epsilon(planned: Counter[Event], later: Counter[Event], cap: Cap) -> float:
    """What all events cost if the later ones may depend on releases: at most the cap's epsilon means that they fit."""
    planned, events, delta = accounting.charged(planned), accounting.charged(planned + later), cap.delta
    if planned and _all_normal(planned):  # decided by the plan, not by what was released: no second delta
        if _all_normal(events):
            return accounting.epsilon(events, delta * (1 - _MIXED))
        delta *= _MIXED
    with np.errstate(all="ignore"):  # infinities are meant
        return min(accounting.plain_sum(events), _renyi(events, filter_order(cap.epsilon, delta), delta))


@lru_cache
def filter_order(epsilon: float, delta: float) -> float:
    """The Renyi order at which (epsilon, delta) buys most events whose divergence grows with the order as a Gaussian's.

    One of the accountant's orders, so that the filter never says less than the accountant.

    >>> 20 < filter_order(1.0, 1e-6) < 40
    True
    """
    a = accounting.ORDERS[accounting.ORDERS > 1.01]  # the conversion answers no smaller one
    affordable = epsilon - np.log1p(-1 / a) + np.log(delta * a) / (a - 1)
    return float(a[np.argmax(affordable / a)])


def _renyi(events: Counter[Event], order: float, delta: float) -> float:
    orders = np.array([order])
    divergence = sum((event.renyi(orders, n) for event, n in events.items()), np.zeros(1))
    return accounting.converted(divergence, delta, orders)


def _all_normal(events: Counter[Event]) -> bool:
    """Whether all are Gaussian mechanisms."""
    return all(event.loss == "normal" for event in events)
