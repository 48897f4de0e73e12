"""The set of events is closed: what no accountant knows is refused where a release is made. And every event of the set
goes through every accountant, the filters, the ledger, the certificate and JSON."""

import ast
import copy
import itertools
import json
import math
import pickle
import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import dp_accounting
import numpy as np
import pytest

import tacit
from tacit.agent.certificate.claims import RunClaims, _release_faults
from tacit.agent.store import Store
from tacit.composite import L1, FeatureGraph, Term
from tacit.core.losses import HuberHinge
from tacit.core.release import Release
from tacit.errors import InputError
from tacit.extend import Broadcast, Graph, Problem, charged
from tacit.privacy import accounting, coalitions, filters
from tacit.privacy.events import (
    KINDS,
    ZCDP,
    BlurredLaplace,
    Free,
    Gaussian,
    Laplace,
    LaplaceVector,
    ObjectiveGaussian,
    ObjectiveGaussianClasses,
    Pure,
    SampledGaussian,
    SharedGaussian,
    Unprotected,
    against,
    from_plain,
    known,
    to_plain,
)
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger
from tacit.privacy.ledger.statement import statement

RULE = r"^a release costs one of the events of tacit\.privacy\.events, which accountants know \(Free, .*\); not a \S+$"


@dataclass(frozen=True)
class Cheaper(Gaussian):
    """Of somebody who knows better what noise costs."""


class Lookalike:
    """Has what a Gaussian has."""

    multiplier = 2.0


FOREIGN = [dp_accounting.GaussianDpEvent(1.0), dp_accounting.NoOpDpEvent()]
FOREIGN += [Cheaper(2.0), Lookalike(), Gaussian, None, 0.5]
ROWS = np.ones((2, 1))


class State(NamedTuple):
    f: np.ndarray


@dataclass(frozen=True)
class Leaky:
    """Exact gradients leave, at a cost that somebody made up."""

    cost: object
    direct: bool = False  # a release without a mechanism

    def schedule(self, graph):
        return Broadcast(graph)

    def init(self, problem, view, start, heard):
        return State(start)

    def speak(self, s, problem, view, noise, t):
        value = problem.gradient(s.f)
        return s, Release(value, [self.cost] * len(value)) if self.direct else charged(value, self.cost)

    def listen(self, s, inbox, view, t):
        return s

    def estimate(self, s):
        return s.f

    def residuals(self, s, view):
        return np.full(len(s.f), np.nan), np.full(len(s.f), np.nan)


FACTS = (
    Problem([([[1.0], [0.5]], [1, -1]), ([[-1.0], [0.1]], [-1, 1])], loss=HuberHinge(1.0), l2=0.1),
    Graph.path(2),
)


@pytest.mark.parametrize("cost", FOREIGN, ids=lambda cost: type(cost).__name__)
def test_a_release_at_an_unknown_cost_is_refused(cost):
    release = charged(ROWS, Unprotected())
    for attempt in (
        lambda: charged(ROWS, cost),
        lambda: Release(ROWS, [Gaussian(1.0), cost]),
        lambda: release._replace(events=[cost, cost]),
        lambda: Release._make([ROWS, [cost, cost], None]),
        lambda: tacit.plan(Leaky(cost), *FACTS, rounds=2),
        lambda: tacit.plan(Leaky(cost, direct=True), *FACTS, rounds=2),
        lambda: tacit.simulate(Leaky(cost), *FACTS, rounds=2, noise=tacit.SecureNoise()),
        lambda: tacit.simulate(Leaky(cost, direct=True), *FACTS, rounds=2, noise=tacit.SecureNoise()),
        lambda: Term([[1.0]], L1(1.0), cost=cost),
        lambda: FeatureGraph([[0.0]], cost),
    ):
        with pytest.raises(InputError, match=RULE):
            attempt()


def test_the_same_method_with_a_known_cost_is_planned_and_run():
    """So it is the cost, and nothing else, that is refused above."""
    for direct in (False, True):
        assert tacit.plan(Leaky(Gaussian(1.0), direct), *FACTS, rounds=2).epsilon(1e-5) > 1
        run = tacit.simulate(Leaky(Unprotected(), direct), *FACTS, rounds=2, noise=tacit.SecureNoise())
        assert not run.private


@pytest.mark.parametrize("cost", FOREIGN, ids=lambda cost: type(cost).__name__)
def test_what_is_no_event_is_neither_counted_nor_written(cost, tmp_path):
    cap = Cap(1.0, 1e-6)
    with Ledger.open(tmp_path / "ward.ledger", population="ward 7", cost=filters.epsilon) as ledger:
        ledger.set_cap(cap)
        for attempt in (
            lambda: known(cost),
            lambda: to_plain(cost),
            lambda: accounting.totals(Counter({cost: 1, Gaussian(9.0): 1}), 1e-5),
            lambda: filters.epsilon(Counter({cost: 1}), Counter(), cap),
            lambda: filters.epsilon(Counter(), Counter({cost: 1}), cap),
            lambda: coalitions.guarantee([Counter({cost: 1})], 1e-5, members=3),
            lambda: ledger.reserve("run", 0, cost),
            lambda: ledger.reserve_run("run", {0: cost}),
            lambda: ledger.epsilon(Counter({cost: 1})),
        ):
            with pytest.raises(InputError, match=RULE):
                attempt()
        assert not ledger.spent()


@pytest.mark.parametrize(
    "plain",
    [{}, {"event": "GaussianDpEvent", "noise_multiplier": 1.0}, {"event": "Cheaper", "multiplier": 2.0},
     {"event": "Gaussian"}, {"event": "Gaussian", "multiplier": 2.0, "rate": 0.1}, {"event": None},
     {"event": ["Gaussian"], "multiplier": 2.0}, None, 2.0],
    ids=str,
)  # fmt: skip
def test_what_is_no_event_is_not_read(plain):
    with pytest.raises(InputError, match=r"^not a privacy event"):
        from_plain(plain)


IMPOSSIBLE = [-1.0, 0.0, math.nan, math.inf, "2", [2.0], None, 10**400]
OPTIONAL = {"xi", "width", "colluders", "dropouts"}  # these may be zero


def numbers(kind):
    return [each.name for each in fields(kind) if each.name != "reason"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if numbers(kind)], ids=lambda kind: kind.__name__)
def test_parameters_that_no_release_has_are_refused_however_the_event_was_made(kind):
    """In a file, in the code, and in a pickle, which asks no constructor: there Gaussian(inf) would cost nothing, and
    leave exact values."""
    right = next(event for event in EXAMPLES if type(event) is kind)
    for name in numbers(kind):
        for value in IMPOSSIBLE:
            if value == 0.0 and name in OPTIONAL:
                continue
            plain = to_plain(right) | {name: value}
            with pytest.raises(InputError, match=name):
                from_plain(plain)
            forged = copy.copy(right)
            object.__setattr__(forged, name, value)
            forged = pickle.loads(pickle.dumps(forged))
            for attempt in (
                lambda e: charged(ROWS, e),
                lambda e: Release(ROWS, [e, e]),
                known,
                to_plain,
                lambda e: accounting.epsilon(Counter({e: 1}), 1e-5),
                lambda e: filters.epsilon(Counter({Gaussian(9.0): 1}), Counter({e: 1}), Cap(1.0, 1e-6)),
            ):
                if isinstance(value, list):  # no set or counter takes it
                    continue
                with pytest.raises(InputError, match=name):
                    attempt(forged)


@pytest.mark.parametrize("n", [-1, 0.5, math.nan, "3"])
def test_an_event_is_spent_a_whole_number_of_times(n):
    """Less than nothing would give back what was spent: also under another name."""
    shared = SharedGaussian(2.0, members=5, colluders=1)
    for events in ({Gaussian(2.0): n}, {Gaussian(4.0): 3, shared: n}):
        with pytest.raises(InputError, match="a whole number of times"):
            accounting.epsilon(Counter(events), 1e-5)
    other = SharedGaussian(2.0, members=5, colluders=2)  # to most coalitions both are one event
    with pytest.raises(InputError, match="a whole number of times"):
        coalitions.guarantee([Counter({other: 3, shared: n})], 1e-5, members=5)


def test_counts_of_a_few_bits_do_not_wrap_around():
    """100 + 100 is -56 in eight bits: two names of one event would cost nothing."""
    few, events = np.int8(100), (Gaussian(4.0), SharedGaussian(2.0, members=5, colluders=1), Laplace(9.0, 3))
    counted = Counter(dict.fromkeys(events, few))
    right = Counter(dict.fromkeys(events, 100))
    assert accounting.totals(counted, DELTA) == accounting.totals(right, DELTA)
    assert filters.epsilon(counted, counted, Cap(1.0, DELTA)) == filters.epsilon(right, right, Cap(1.0, DELTA))
    assert coalitions.guarantee([counted], DELTA, members=5) == coalitions.guarantee([right], DELTA, members=5)


@pytest.mark.parametrize("event", [Gaussian(1.0), Unprotected()], ids=str)
def test_an_event_has_nothing_but_its_parameters(event):
    """What one event, made by hand or in a pickle, says of itself would count in place of what its class says."""
    for name, value in {"free": True, "protected": True, "zcdp": lambda n=1: (0.0, 0.0), "note": ""}.items():
        with pytest.raises(AttributeError):
            object.__setattr__(event, name, value)
    forged = type(event).__new__(type(event))
    with pytest.raises((AttributeError, TypeError)):
        forged.__dict__["free"] = True


def test_every_row_has_its_event():
    """A row without one would leave for nothing."""
    for events in ([], [Gaussian(1.0)], [Gaussian(1.0)] * 3):
        with pytest.raises(InputError, match=r"^each row of a release has its event: 2 rows, \d events$"):
            Release(ROWS, events)


EXAMPLES = [
    Free("post-processing"), Unprotected(), Pure(0.3), Pure(0.01), Laplace(9.0), Laplace(20.0, 3), ZCDP(0.01),
    LaplaceVector(20.0, 7), BlurredLaplace(9.0, 4.0), BlurredLaplace(9.0, 0.0), Gaussian(7.0), Gaussian(50.0),
    SampledGaussian(2.0, 0.05), SharedGaussian(5.0, members=5, colluders=2, dropouts=1), ZCDP(0.001, 0.002),
    SharedGaussian(9.0, members=3, colluders=0), ObjectiveGaussian(9.0, 0.01), ObjectiveGaussian(20.0, 0.002),
    ObjectiveGaussianClasses(9.0, 0.01, 3), ObjectiveGaussianClasses(20.0, 0.002, 10),
]  # fmt: skip
PAID = [event for event in EXAMPLES if event.protected and not event.free]
PAIRS = list(itertools.combinations({type(event): event for event in PAID}.values(), 2))
DELTA = 1e-5
ORDERS = np.concatenate([accounting.ORDERS, [1.5, 2.0, 3.7]])
every_event = pytest.mark.parametrize("event", EXAMPLES, ids=str)
every_paid_event = pytest.mark.parametrize("event", PAID, ids=str)


def epsilons(events, delta=DELTA):
    """By every accountant, infinite where it does not apply."""
    found = accounting.totals(Counter(events), delta)
    each = [found.plain_sum, found.distribution, found.renyi, found.zcdp, found.best]
    return [math.inf if e is None else e for e in each]


def test_there_is_an_example_of_every_event():
    """So none can be added to the set without what follows."""
    assert {type(event) for event in EXAMPLES} == set(KINDS)


def test_what_states_nothing_costs_everything():
    """A new event whose author forgets a form is counted as infinite, not as nothing; and so is what has none."""
    new = type("New", (KINDS[0].__base__,), {})()
    for event in (new, Unprotected()):
        assert event.pure() == math.inf
        assert np.all(event.renyi(ORDERS) == math.inf)
        assert event.zcdp() == (math.inf, math.inf)
        assert event.loss_distribution(0.1).get_epsilon_for_delta(0.5) == math.inf
        assert (event.free, event.loss, event.alone(DELTA)) == (False, None, None)
    assert epsilons({Unprotected(): 1, Gaussian(9.0): 1}) == [math.inf] * 5
    with pytest.raises(InputError, match=RULE):
        known(new)


@every_event
def test_forms_agree(event):
    """A pure epsilon bounds every divergence, and so does zCDP: a form that is too small is below another one."""
    with np.errstate(all="ignore"):  # infinities are meant
        divergence = event.renyi(ORDERS)
    rho, xi = event.zcdp()
    assert divergence.shape == ORDERS.shape
    assert np.all(divergence == 0 if event.free else divergence > 0)
    assert event.protected == np.isfinite(divergence).any()
    assert np.all(divergence <= event.pure() * (1 + 1e-12))
    assert np.all(divergence <= (xi + rho * ORDERS) * (1 + 1e-12))
    for n in (2, 7):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(event.renyi(ORDERS, n), n * divergence, rtol=1e-14)
        np.testing.assert_allclose(event.zcdp(n), np.multiply(n, event.zcdp()), rtol=1e-14)
        assert event.pure(n) == pytest.approx(n * event.pure(), rel=1e-14)
    if event.loss is not None:  # then its distribution is as tight as any form, but for the grid
        grid = 1e-3
        one = event.loss_distribution(grid, 3.0)
        together = one if event.losses() == 1 else one.self_compose(event.losses())
        found = together.get_epsilon_for_delta(DELTA)
        assert found <= min(epsilons({event: 1})) + event.losses() * grid
        assert found >= epsilons({event: 1})[1] * (1 - 1e-2)


@every_paid_event
def test_every_accountant_charges_every_event(event):
    once, more = epsilons({event: 3}), epsilons({event: 12})
    assert once[-1] == min(once) < math.inf
    assert all(e > 0 for e in once)  # three of each are too much for delta alone
    assert all(b > a or a == math.inf for a, b in zip(once, more, strict=True))  # more releases never cost less
    stated = [event.pure() < math.inf, event.loss is not None, True, event.zcdp()[0] < math.inf]
    assert [e < math.inf for e in once[:4]] == stated  # what has no form is not bounded by its accountant
    assert epsilons({event: 3, Free("a mean"): 9}) == once


def test_numbers_with_noise_of_their_own_cost_what_as_many_releases_cost():
    together, apart = epsilons({Laplace(20.0, 3): 4}), epsilons({Laplace(20.0): 12})
    np.testing.assert_allclose(together, apart, rtol=1e-12)


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_two_events_cost_at_least_what_each_costs(one, other):
    """By the accountants that add one form up; the grid of distributions is looked at elsewhere."""
    alone, together = (epsilons({one: 3}), epsilons({other: 3})), epsilons({one: 3, other: 3})
    for k in (0, 2, 3):
        assert together[k] >= max(each[k] for each in alone)
        assert together[k] <= sum(each[k] for each in alone) * (1 + 1e-12)
    assert together[-1] >= max(each[-1] for each in alone) * (1 - 1e-2)


@every_paid_event
def test_a_filter_says_no_less_than_the_accountant(event):
    cap, events = Cap(2.0, DELTA), Counter({event: 3})
    tight = accounting.epsilon(events, DELTA)
    assert filters.epsilon(events, Counter(), cap) == tight
    assert tight <= filters.epsilon(Counter(), events, cap) < filters.epsilon(Counter(), Counter({event: 4}), cap)
    assert tight <= filters.epsilon(Counter({Pure(0.01): 1}), events, cap) < math.inf
    assert tight <= filters.epsilon(Counter({Gaussian(60.0): 1}), events, cap) < math.inf


@every_event
def test_coalitions_and_the_worst_of_several(event):
    found = coalitions.guarantee([Counter({event: 3})], DELTA, members=5)
    assert found.epsilon == accounting.epsilon(Counter({event: 3}), DELTA)
    assert [cost for _, cost in found.curve] == sorted(cost for _, cost in found.curve)
    assert (event.shared is None) == (against(event, 4) == event) == (not found.shared)
    assert event.faced().shared is None
    assert event.dominating([event]) in (None, event)


@every_event
def test_the_worst_of_several_costs_at_least_what_each_of_them_costs(event):
    """Of events that differ in one number, in either direction."""
    numbers = [f.name for f in fields(event) if isinstance(getattr(event, f.name), float)]
    for name, factor in itertools.product(numbers, (0.5, 0.97, 2.0)):
        if name == "rate" and factor > 1:
            continue
        pair = [event, replace(event, **{name: factor * getattr(event, name)})]
        for several in (pair, pair[::-1]):
            if (found := event.dominating(several)) is not None:
                costs = [accounting.epsilon(Counter({each: 3}), DELTA) for each in several]
                assert accounting.epsilon(Counter({found: 3}), DELTA) >= max(costs) * (1 - 1e-9)


@every_event
def test_every_event_is_written_and_read(event, tmp_path):
    """JSON, a copy for another process, a run's file, an agent's store."""
    plain = json.loads(json.dumps(to_plain(event), allow_nan=False))
    for again in (from_plain(plain), pickle.loads(pickle.dumps(event))):
        assert again == event
        assert hash(again) == hash(event)
        assert type(again) is type(event)
    assert event.in_words()
    if event.shared is None:
        run = tacit.simulate(Leaky(event), *FACTS, rounds=2, noise=tacit.SecureNoise())
        assert (run.spent[0], run.private) == (Counter({event: 2}), event.protected)
        run.save(tmp_path / "run.npz")
        assert tacit.Run.load(tmp_path / "run.npz").spent == run.spent
        plan = tacit.plan(Leaky(event), *FACTS, rounds=2)
        assert plan.epsilon(DELTA) == accounting.epsilon(run.spent[0], DELTA)
    else:  # it is protected in a sum alone
        with pytest.raises(InputError, match="share of the noise"):
            tacit.simulate(Leaky(event), *FACTS, rounds=2, noise=tacit.SecureNoise())
    store = Store(tmp_path / "store", "run", "birch", 2)
    store.commit(0, {"f": np.zeros(1)}, b"said", event)
    store.close()
    assert Store(tmp_path / "store", "run", "birch", 2).releases() == [(0, b"said", event)]


@every_event
def test_a_ledger_keeps_every_event(event, tmp_path):
    path, cap = tmp_path / "ward.ledger", Cap(20.0, DELTA)
    with Ledger.open(path, population="ward 7", cost=filters.epsilon) as ledger:
        ledger.set_cap(cap)
        if not event.protected:
            with pytest.raises(BudgetExceeded):
                ledger.reserve_run("spring", {0: event})
            assert not ledger.spent()
            return
        ledger.reserve_run("spring", {0: event, 1: event})
        ledger.store("spring", 0, b"said")
        ledger.reserve("autumn", 0, event)
    with Ledger(path, cost=filters.epsilon) as ledger:
        ledger.verify()
        assert ledger.spent() == Counter({event: 3})
        cost = filters.epsilon(Counter({event: 2}), Counter({event: 1}), cap)
        assert ledger.epsilon() == cost
        assert (cost == 0) == event.free
        shown = json.loads(json.dumps(statement(ledger)))
        assert shown["colluders"] == (event.shared and event.shared.colluders)
        assert shown["runs"][0]["events"] == {str(event): 2}


@every_event
def test_a_report_claims_the_event_that_was_planned(event):
    """What a certificate is checked by: the same event, and no other, is what the plan says."""

    def faults(claimed):
        released = [{"tick": 0, "sha256": "01" * 32, "event": json.loads(json.dumps(to_plain(claimed)))}]
        federation = SimpleNamespace(exchange="plain")
        return _release_faults(RunClaims("", federation, {0: event}, {"releases": released}, ""))

    assert faults(event) == []
    assert all(faults(other) for other in EXAMPLES if other != event)


def test_nobody_but_the_events_themselves_asks_what_an_event_is():
    """Costs are found by asking the event. Those who look at its class choose noise for a budget that is one of two, or
    prove something for Gaussian noise alone; each refuses the rest, or reads an old format."""
    root, names = Path(tacit.__file__).parent, {kind.__name__ for kind in KINDS}

    def tested(node):
        """What a value is compared with by its class."""
        if isinstance(node, ast.MatchClass):
            return ast.walk(node.cls)
        asks = isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
        return ast.walk(node.args[1]) if asks else ()

    asking = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"isinstance|issubclass|case ", text := path.read_text("utf-8")) and "events" in text
        for node in ast.walk(ast.parse(text))
        if names & {getattr(inner, "id", getattr(inner, "attr", None)) for inner in tested(node)}
    }
    assert asking == {
        "algorithms/incremental_admm.py",
        "algorithms/token_gradient_descent.py",
        "privacy/laws.py",
        "privacy/ledger/format_1.py",
        "privacy/network.py",
    }
