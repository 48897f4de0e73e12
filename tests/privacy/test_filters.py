"""Filters: what may depend on earlier releases is charged so that no strategy of choosing it passes the cap."""

import itertools
import math
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest

from tacit.privacy import accounting
from tacit.privacy.accounting import largest_parameter
from tacit.privacy.events import ZCDP, Free, Gaussian, Laplace, ObjectiveGaussian, Pure, Unprotected
from tacit.privacy.filters import epsilon, filter_epsilon, filter_order
from tacit.privacy.formulas.closed_forms import gaussian_epsilon
from tacit.privacy.ledger.entries import Cap

NONE = Counter()


def worst_delta(cap, kinds, planned, may):
    """The exact delta at the cap's epsilon of the best strategy against us, by dynamic programming.

    All events are randomised responses, pure of the epsilons `kinds`; `planned` says how many of each are fixed to come
    first. After that the adversary, who sees the privacy loss so far, goes on with whatever kind he likes, as long as
    `may(counts)` allows the numbers of events that have been by then.
    """
    may = lru_cache(None)(may)

    @lru_cache(None)
    def value(counts, against):  # how many of each kind there were, and how many of these spoke against the record
        left = [n < p for n, p in zip(counts, planned, strict=True)]
        loss = sum((2 * a - n) * e for n, a, e in zip(counts, against, kinds, strict=True))
        best = 0.0 if any(left) else max(0.0, -math.expm1(cap.epsilon - loss))
        for i, e in enumerate(kinds):
            more = tuple(n + (j == i) for j, n in enumerate(counts))
            if left[i] if any(left) else may(more):
                p = 1 / (1 + math.exp(-e))
                worse = tuple(a + (j == i) for j, a in enumerate(against))
                best = max(best, p * value(more, worse) + (1 - p) * value(more, against))
        return best

    return value((0,) * len(kinds), (0,) * len(kinds))


def pure(kinds, counts):
    return Counter({Pure(e): n for e, n in zip(kinds, counts, strict=True) if n})


CAP, KINDS = Cap(2.0, 0.01), (0.15, 0.9)


def plans():
    """Every number of the first kind that fits as a plan."""
    return itertools.takewhile(lambda n: epsilon(pure(KINDS, (n, 0)), NONE, CAP) <= CAP.epsilon, itertools.count())


def test_no_strategy_passes_the_cap():
    found = []
    for n in plans():
        plan = pure(KINDS, (n, 0))

        def may(counts, plan=plan):
            return epsilon(plan, pure(KINDS, counts) - plan, CAP) <= CAP.epsilon

        found.append(worst_delta(CAP, KINDS, (n, 0), may))
    assert 0.9 * CAP.delta < max(found) <= CAP.delta  # the longest plan alone spends it all
    assert found[0] > 0.3 * CAP.delta  # without a plan, the filter leaves some of it


def test_the_tight_accountant_is_no_filter():
    """The strategy finds what is wrong with asking the accountant of a fixed plan about an adaptive one."""

    def tight(counts):
        return accounting.epsilon(pure(KINDS, counts), CAP.delta) <= CAP.epsilon

    assert worst_delta(CAP, KINDS, (0, 0), tight) > 1.3 * CAP.delta


def test_tight_for_one_run_and_a_filter_for_two_is_none_either():
    """A first run that may stop when it likes stops, for a second run, where it revealed little, and goes on where it
    revealed much. So a plan is paid for as a whole."""

    def by_runs(counts):
        one_run = counts[1] == 0 and accounting.epsilon(pure(KINDS, counts), CAP.delta) <= CAP.epsilon
        return one_run or filter_epsilon(NONE, pure(KINDS, counts), CAP) <= CAP.epsilon

    assert worst_delta(CAP, KINDS, (0, 0), by_runs) > 1.05 * CAP.delta


def test_a_plan_costs_what_the_accountant_says():
    for plan in (Counter({Pure(0.1): 50}), Counter({Gaussian(5.0): 9, Laplace(9.0, 3): 2}), Counter({ZCDP(0.01): 4})):
        assert epsilon(plan, NONE, Cap(1.0, 1e-6)) == accounting.epsilon(plan, 1e-6)
        assert epsilon(plan, Counter({Free("sent before"): 3}), Cap(1.0, 1e-6)) == accounting.epsilon(plan, 1e-6)


EVENTS = (
    Pure(0.02),
    Pure(1.0),
    Laplace(30.0, coordinates=2),
    Gaussian(25.0),
    ZCDP(1e-3, xi=1e-4),
    ObjectiveGaussian(25.0, 1e-3),
)


@pytest.mark.parametrize("cap", [Cap(0.3, 1e-5), Cap(1.0, 1e-6), Cap(8.0, 1e-3)], ids=str)
@pytest.mark.parametrize("first", EVENTS, ids=str)
def test_more_never_costs_less_and_later_never_less_than_planned(cap, first):
    rng = np.random.default_rng(0)
    for _ in range(3):
        planned = Counter({first: int(rng.integers(1, 5))})
        later = Counter({EVENTS[i]: int(rng.integers(1, 9)) for i in rng.integers(0, len(EVENTS), size=2)})
        cost = epsilon(planned, later, cap)
        slack = 1 + 1e-9
        assert accounting.epsilon(planned + later, cap.delta) <= cost * slack
        for event in EVENTS:
            one = Counter([event])
            assert cost <= epsilon(planned, later + one, cap) * slack
            assert epsilon(planned + one, NONE, cap) <= epsilon(planned, one, cap) * slack
            if isinstance(first, Gaussian) == isinstance(
                event, Gaussian
            ):  # it does not change what the plan consists of
                assert epsilon(planned + one, later, cap) <= epsilon(planned, later + one, cap) * slack


def test_few_pure_events_add_up():
    assert epsilon(Counter({Pure(0.25): 2}), Counter({Pure(0.4): 1}), Cap(1.0, 1e-6)) == pytest.approx(0.9, rel=1e-12)
    assert epsilon(NONE, Counter({Laplace(20.0, coordinates=6): 1}), Cap(1.0, 1e-6)) == pytest.approx(0.3, rel=1e-12)


def converted(divergence, order, delta):
    """Canonne, Kamath and Steinke (2020), Proposition 12."""
    return divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def test_many_events_cost_their_divergence_at_the_one_order_of_the_cap():
    events = Counter({Pure(0.05): 30, Laplace(40.0): 20, Gaussian(30.0): 5, ZCDP(1e-4): 3})
    order = filter_order(2.0, 1e-6)
    divergence = sum(n * float(event.renyi(np.array([order]))[0]) for event, n in events.items())
    for plan in (Counter({Pure(0.05): 1}), Counter({ZCDP(1e-4): 2, Gaussian(30.0): 1})):
        assert epsilon(plan, events - plan, Cap(2.0, 1e-6)) == pytest.approx(converted(divergence, order, 1e-6))


def test_the_order_is_the_cap_s_and_nearly_the_best():
    """Of zCDP events, which cost rho times the order, nearly as many fit as under the best order for each cap."""
    for cap in (Cap(0.1, 1e-6), Cap(1.0, 1e-6), Cap(1.0, 1e-9), Cap(10.0, 1e-3)):
        orders = np.geomspace(1.02, 1e4, 100_000)
        log_terms = np.log1p(-1 / orders) - np.log(cap.delta * orders) / (orders - 1)
        best = np.max((cap.epsilon - log_terms) / orders)
        rho = largest_parameter(lambda p: Counter({ZCDP(p): 1}), cap.epsilon, cap.delta)
        assert rho == pytest.approx(best, rel=1e-3)
        assert filter_epsilon(NONE, Counter({ZCDP(best * 0.999): 1}), cap) <= cap.epsilon
        assert filter_epsilon(NONE, Counter({ZCDP(best * 1.001): 1}), cap) > cap.epsilon


def test_gaussians_alone_compose_exactly_at_nine_tenths_of_delta():
    found = epsilon(Counter({Gaussian(20.0): 10}), Counter({Gaussian(40.0): 40}), Cap(1.0, 1e-5))
    assert found == pytest.approx(gaussian_epsilon(20 / math.sqrt(20), 0.9e-5), rel=1e-9)


def test_gaussians_that_others_come_into_pay_from_the_other_tenth():
    """Both rules can come into force, as releases will have it; together they may fail with probability delta."""
    plan, later, cap = Counter({Gaussian(20.0): 10}), Counter({Pure(0.01): 10, Gaussian(50.0): 3}), Cap(2.0, 1e-5)
    order = filter_order(2.0, 1e-6)
    divergence = sum(n * float(event.renyi(np.array([order]))[0]) for event, n in (plan + later).items())
    assert epsilon(plan, later, cap) == pytest.approx(converted(divergence, order, 1e-6))


def test_a_ledger_that_did_not_begin_with_gaussians_alone_never_has_their_rule():
    """Otherwise releases could choose between two rules that may each fail with probability delta."""
    gaussians = Counter({Gaussian(20.0): 20})
    exact = accounting.epsilon(gaussians, 1e-5)
    for plan in (NONE, Counter({Pure(1e-9): 1}), Counter({Pure(1e-9): 1, Gaussian(20.0): 1})):
        assert epsilon(plan, gaussians - plan, Cap(1.0, 1e-5)) > 1.05 * exact


def test_a_divergence_that_is_no_number_costs_without_bound(monkeypatch):
    monkeypatch.setattr(ZCDP, "renyi", lambda event, order, n: np.full_like(order, math.nan))
    assert epsilon(NONE, Counter({ZCDP(0.01): 1}), Cap(1.0, 1e-6)) == math.inf


def test_what_cannot_be_bounded_costs_without_bound():
    for event in (Unprotected(), Gaussian(1e-200), Pure(1e200)):
        for plan in (NONE, Counter({Pure(0.1): 1}), Counter({Gaussian(9.0): 1})):
            assert epsilon(plan, Counter([event]), Cap(1.0, 1e-6)) > 1e3
            assert epsilon(plan + Counter([event]), Counter({Pure(0.1): 1}), Cap(1.0, 1e-6)) > 1e3
    assert epsilon(NONE, NONE, Cap(1.0, 1e-6)) == 0.0
