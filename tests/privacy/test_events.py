"""The set of events is closed: what no accountant knows is refused where a release is made."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import dp_accounting
import numpy as np
import pytest

import tacit
from tacit.composite import L1, FeatureGraph, Term
from tacit.core.losses import HuberHinge
from tacit.core.release import Release
from tacit.errors import InputError
from tacit.extend import Broadcast, Graph, Problem, charged
from tacit.privacy import accounting, coalitions, filters
from tacit.privacy.events import Gaussian, Unprotected, from_plain, known, to_plain
from tacit.privacy.ledger import Cap, Ledger

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
     {"event": "Gaussian"}, {"event": "Gaussian", "multiplier": 2.0, "rate": 0.1}, {"event": None}],
    ids=str,
)  # fmt: skip
def test_what_is_no_event_is_not_read(plain):
    with pytest.raises(InputError, match=r"^not a privacy event"):
        from_plain(plain)


def test_every_row_has_its_event():
    """A row without one would leave for nothing."""
    for events in ([], [Gaussian(1.0)], [Gaussian(1.0)] * 3):
        with pytest.raises(InputError, match=r"^each row of a release has its event: 2 rows, \d events$"):
            Release(ROWS, events)
