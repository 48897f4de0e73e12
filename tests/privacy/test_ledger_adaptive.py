"""The ledger with the real accountant: a plan is charged tightly, what may depend on releases by the filter."""

from collections import Counter

import pytest
from ledger_case import CAP, released
from ledger_worker import ROUND, RUN, cost

from tacit.privacy import accounting, filters
from tacit.privacy.accounting import largest_parameter
from tacit.privacy.events import Free, Gaussian, Pure
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger, LedgerError

GAUSS, SMALL = Gaussian(20.0), Pure(0.02)


@pytest.fixture
def real(tmp_path):
    """A ledger with the real accountant, and the function that opens it once more."""

    def again():
        return Ledger.open(tmp_path / "real", population="ward 7", cost=filters.epsilon)

    with again() as made:
        made.set_cap(Cap(1.0, 1e-6))
        yield made, again


def test_a_first_run_that_is_reserved_whole_costs_what_the_accountant_says(real):
    ledger, again = real
    one = largest_parameter(lambda p: Counter({Pure(p): 50}), 1.0, 1e-6)  # spends the whole cap
    ledger.reserve_run(RUN, dict.fromkeys(range(50), Pure(one)))
    for tick in range(50):
        ledger.reserve(RUN, tick, Pure(one))
        ledger.store(RUN, tick, b"payload")
    for run, other in (("summer", ledger), ("autumn", again())):
        assert other.epsilon() == accounting.epsilon(Counter({Pure(one): 50}), 1e-6) > 0.999
        assert other.told()
        with pytest.raises(BudgetExceeded, match="0 of its rounds would still fit"):
            other.reserve_run(run, {0: Pure(1e-9)})
        other.reserve_run(run, {0: Free("sent before")})  # what costs nothing is free after all is spent, too
        other.verify()
        other.close()


def test_a_second_run_is_charged_by_the_filter(real):
    ledger, again = real
    first, second = Counter({SMALL: 20}), Counter({SMALL: 30})
    ledger.reserve_run(RUN, dict.fromkeys(range(20), SMALL))
    assert ledger.epsilon(second) == accounting.epsilon(first + second, 1e-6)  # nothing was released: still a plan
    ledger.store(RUN, 0, b"payload")
    assert ledger.epsilon() == accounting.epsilon(first, 1e-6)
    would = filters.filter_epsilon(first, second, Cap(1.0, 1e-6))
    assert ledger.epsilon(second) == would > 1.1 * accounting.epsilon(first + second, 1e-6)
    ledger.reserve_run("autumn", dict.fromkeys(range(30), SMALL))
    assert ledger.epsilon() == would
    with again() as other:
        assert other.epsilon() == would
        assert other.verify().epsilon == would


def test_the_refusal_of_a_second_run_says_how_many_rounds_fit(real):
    ledger, _ = real
    ledger.reserve_run(RUN, dict.fromkeys(range(20), SMALL))
    alone = ledger.remaining_rounds([SMALL], at_most=1000)
    ledger.store(RUN, 0, b"payload")
    fit = ledger.remaining_rounds([SMALL], at_most=1000)
    assert 0 < fit < alone
    for refused in (
        lambda: ledger.reserve_run("autumn", dict.fromkeys(range(fit + 1), SMALL)),
        lambda: ledger.check_run(Counter({SMALL: fit + 1}), [SMALL]),
    ):
        with pytest.raises(BudgetExceeded, match=f"; {fit} of its rounds would still fit"):
            refused()
    ledger.check_run(Counter({SMALL: fit}), [SMALL])
    ledger.reserve_run("autumn", dict.fromkeys(range(fit), SMALL))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("autumn", fit, SMALL)


def test_a_first_run_that_pays_round_by_round_is_charged_by_the_filter(real):
    """Its number of rounds may depend on its releases."""
    ledger, _ = real
    planned = ledger.remaining_rounds([SMALL], at_most=1000)
    ledger.reserve(RUN, 0, SMALL)
    ledger.store(RUN, 0, b"payload")
    rounds = 1 + ledger.remaining_rounds([SMALL], at_most=1000)
    assert rounds < planned
    for tick in range(1, rounds):
        ledger.reserve(RUN, tick, SMALL)
        ledger.store(RUN, tick, b"payload")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(RUN, rounds, SMALL)
    assert ledger.epsilon() == filters.filter_epsilon(Counter([SMALL]), Counter({SMALL: rounds - 1}), Cap(1.0, 1e-6))


def test_what_another_process_stored_counts_at_once(real):
    ledger, again = real
    ledger.reserve_run(RUN, dict.fromkeys(range(20), SMALL))
    rounds = ledger.remaining_rounds([SMALL], at_most=1000)
    ledger.check_run(Counter({SMALL: rounds}))  # fits as a part of the plan
    with again() as other:
        other.store(RUN, 0, b"payload")
    assert ledger.told()
    with pytest.raises(BudgetExceeded):
        ledger.reserve_run("autumn", dict.fromkeys(range(rounds), SMALL))


def test_gaussians_go_on_exactly_and_a_mixture_does_not(real):
    ledger, _ = real
    ledger.reserve_run(RUN, dict.fromkeys(range(10), GAUSS))
    ledger.store(RUN, 0, b"payload")
    assert ledger.epsilon(Counter({GAUSS: 3})) == accounting.epsilon(Counter({GAUSS: 13}), 0.9e-6)
    assert ledger.epsilon(Counter({GAUSS: 3, SMALL: 1})) > 1.1 * accounting.epsilon(Counter({GAUSS: 13}), 0.9e-6)


def test_a_checked_second_run_does_not_ask_again(tmp_path):
    asked = []

    def slow(planned, later, cap):
        asked.append((planned, later))
        return cost(planned, later, cap)

    with Ledger.open(tmp_path / "ledger", population="ward 7", cost=slow) as ledger:
        ledger.set_cap(CAP)
        released(ledger, 2)
        ledger.check_run(Counter({ROUND: 10}))
        asked.clear()
        for tick in range(10):
            ledger.reserve("autumn", tick, ROUND)
            ledger.store("autumn", tick, b"payload")
        assert asked == []
        ledger.reserve("autumn", 10, ROUND)
        assert asked == [(Counter({ROUND: 1}), Counter({ROUND: 12}))]


def test_verify_finds_a_later_event_that_only_a_plan_could_have_had(real, tmp_path):
    ledger, _ = real
    rounds = ledger.remaining_rounds([SMALL], at_most=1000)
    ledger.reserve_run(RUN, dict.fromkeys(range(rounds - 1), SMALL))
    ledger.verify()
    ledger.store(RUN, 0, b"payload")
    ledger._file.append("reserve", RUN, rounds, b'{"epsilon":0.02,"event":"Pure"}')
    with pytest.raises(LedgerError, match=f"row {rounds + 2}: more is spent than the cap"):
        ledger.verify()


def test_the_cap_is_not_set_below_what_the_filter_counts(real):
    ledger, _ = real
    ledger.reserve_run(RUN, dict.fromkeys(range(20), SMALL))
    ledger.store(RUN, 0, b"payload")
    ledger.reserve_run("autumn", dict.fromkeys(range(30), SMALL))
    tight = accounting.epsilon(Counter({SMALL: 50}), 1e-6)
    with pytest.raises(BudgetExceeded, match="is spent already; choose a larger one"):
        ledger.set_cap(Cap(1.01 * tight, 1e-6))
    assert ledger.cap() == Cap(1.0, 1e-6)
    ledger.set_cap(Cap(3.0, 1e-6))
    ledger.verify()


@pytest.mark.parametrize("event", [SMALL, GAUSS])
def test_as_many_runs_follow_as_the_forecast_says(real, event):
    """Each after the one before has released something: fewer than if all were reserved now."""
    ledger, _ = real
    plan = dict.fromkeys(range(5), event)
    at_once = ledger.remaining_rounds(list(plan.values()), 100)
    ledger.reserve_run("0", plan)
    told = ledger.how_many_more(Counter(plan.values()), 100)  # nothing has left yet
    ledger.store("0", 0, b"payload")
    for done in range(told):
        ledger.reserve_run(f"run {done}", plan)
        ledger.store(f"run {done}", 0, b"payload")
    with pytest.raises(BudgetExceeded):
        ledger.reserve_run("one more", plan)
    assert 0 < told < at_once
