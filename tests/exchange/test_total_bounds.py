"""Bounds of totals: honest totals lie within them, they are no wider than they must be, and what is beyond is not used.

The laws are functions of the way in which bounds are computed, so that planted mistakes can be put to them.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_parts
from false_totals import FalseTotals, added, pushing
from scipy.stats import chi

import tacit
from tacit.algorithms import AcceleratedDPADMM, SummedDPADMM, SummedGradientDescent
from tacit.composite import lasso
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.core.release import Inbox
from tacit.exchange.listening import Listening
from tacit.exchange.total_bounds import FALSE_ALARM, TotalBounds
from tacit.exchange.totals import TotalInbox
from tacit.privacy.events import MOST_ROUNDS
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.trust import Trust

SIZES = (70, 400, 230, 610, 120)
COMPLETE = Graph.complete(5)
of = TotalBounds.of


def facts(d=15, members=5, **more):
    rows = 100 * np.arange(1, members + 1)
    return Facts(sizes=rows, dimension=d, scale=rows / rows.mean(), loss=HuberHinge(1.0), radius=8.0, **more)


def total(problem, f):
    """Of the gradients of all members at f, (d,), without noise."""
    return problem.gradient(np.tile(f, (problem.agents, 1))).sum(axis=0)


# The laws


def gradients_lie_within(of):
    """Whatever the records and the model, and the worst of both is reached: all records alike, a model against them."""
    for seed, l2 in itertools.product(range(5), (0.0, 0.1)):
        public, rng = facts(l2=l2), np.random.default_rng(seed)
        settings = {"loss": public.loss, "scale": public.scale, "l2": l2, "radius": public.radius}
        bounds = of(public, 1e-9)
        parts = make_parts(sizes=public.sizes, seed=seed)
        for _ in range(5):
            f = rng.normal(size=15)
            f *= public.radius * rng.random() / np.linalg.norm(f)
            assert np.linalg.norm(total(tacit.Problem(parts, **settings), f)) <= bounds.largest
        x = rng.normal(size=15)
        x /= np.linalg.norm(x)
        alike = [(np.tile(x, (n, 1)), np.full(n, 1.0)) for n in public.sizes]
        worst = np.linalg.norm(total(tacit.Problem(alike, **settings), -public.radius * x))
        assert 0.999 * bounds.largest <= worst <= bounds.largest


def noise_lies_within(of):
    """The exact probability, by the law of chi, that the sum of all shares is longer than the bounds allow for: in the
    longest run at most the false-alarm rate; and an exact quantile would not be much shorter."""
    for d, members in itertools.product((1, 2, 15, 104, 10_000), (2, 5, 100)):
        public = facts(d, members)
        allowed = of(public, 1.0).largest - of(public, 1e-9).largest  # for noise of deviation sqrt(N)
        quantile = allowed / math.sqrt(members)
        assert MOST_ROUNDS * chi.sf(quantile, d) <= FALSE_ALARM
        assert quantile <= 1.3 * chi.isf(FALSE_ALARM / MOST_ROUNDS, d)


def means_lie_within(of):
    """Of any of the members, who may be those that are left after drop-outs."""
    public = facts()
    for kept in itertools.chain.from_iterable(itertools.combinations(range(5), n) for n in range(1, 6)):
        few = _with(public, sizes=public.sizes[list(kept)], scale=public.scale[list(kept)])
        assert TotalBounds.of(few, 0.3).largest / len(kept) <= of(public, 0.3).mean


LAWS = [gradients_lie_within, noise_lies_within, means_lie_within]


@pytest.mark.parametrize("law", LAWS)
def test_the_law(law):
    law(of)


def changed(**parts):
    """The bounds of other public facts: a mistake."""
    return lambda public, deviation: of(_with(public, **parts), deviation)


def _with(public, **parts):
    named = {name: getattr(public, name) for name in ("sizes", "dimension", "scale", "loss", "l2", "radius")}
    return Facts(**(named | parts))


def one_share(public, deviation):
    return of(public, deviation / math.sqrt(public.agents))


def added_up(public, deviation):
    return of(public, deviation * math.sqrt(public.agents))


def narrow(public, deviation):
    """A quantile of one tick, not of a run."""
    bounds, quiet = of(public, deviation), of(public, 1e-9)
    draw = math.sqrt(public.dimension) + math.sqrt(2 * math.log(1 / FALSE_ALARM))
    return replace(bounds, largest=quiet.largest + math.sqrt(public.agents) * deviation * draw)


def mean_of_all(public, deviation):
    bounds = of(public, deviation)
    return replace(bounds, mean=bounds.largest / public.agents)


@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        (gradients_lie_within, changed(l2=0.0)),
        (gradients_lie_within, changed(radius=1.0)),
        (gradients_lie_within, lambda public, s: of(public, s + 0.01)),  # wider than it must be
        (noise_lies_within, one_share),
        (noise_lies_within, added_up),
        (noise_lies_within, narrow),
        (noise_lies_within, changed(dimension=1)),
        (means_lie_within, mean_of_all),
        (means_lie_within, changed(scale=1.0)),  # which add up to the same
    ],
)
def test_a_planted_mistake_breaks_the_law(law, mistake):
    with pytest.raises(AssertionError):
        law(mistake)


# What is done with a total


def test_a_total_beyond_its_bounds_is_read_as_zero_and_every_other_as_it_is():
    bounds = TotalBounds(largest=5.0, mean=1.0)
    said = TotalInbox(
        np.array([[3.0, 4.0], [3.0, np.nextafter(4.0, 5.0)], [-(2.0**17), 0.0], [0.0, 0.0]]), np.full(4, 5)
    )
    read = Listening(1.0, bounds=bounds).read(said, np.zeros((4, 2)), 0)
    assert read.inbox.sum().tolist() == [[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert read.moved.tolist() == [0.0, pytest.approx(5.0), 2.0**17, 0.0]
    inside = TotalInbox(said.sum()[:1], np.full(1, 5))
    assert Listening(1.0, bounds=bounds).read(inside, np.zeros((1, 2)), 0).inbox is inside


METHODS = {
    "descent": SummedGradientDescent(step=0.8, momentum=0.5, deviation=0.5),
    "accelerated": SummedDPADMM(method=AcceleratedDPADMM(term=lasso(15, 0.01), step=0.3), deviation=0.5),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize("noise", [tacit.SeededNoise(3), tacit.SecureNoise(), None])
def test_an_honest_run_keeps_every_bit(method, noise, monkeypatch):
    """Most of these totals are noise. A false alarm has a probability below 1e-9 in all of them."""
    problem = tacit.Problem(make_parts(), l2=0.1, radius=8.0)
    method = replace(method, deviation=None) if noise is None else method
    again = {"rounds": 40, "record": True}
    if isinstance(noise, tacit.SecureNoise):  # each draw once: the totals of one run, read with and without bounds
        heard, bounds = [], method.bounds(problem)

        class Overheard(FalseTotals):
            def __init__(self):
                super().__init__(lambda total: heard.append(total) or total)

        tacit.simulate(method, problem, COMPLETE, noise=noise, exchange=Overheard(), **again)
        assert len(heard) == 40
        assert max(map(np.linalg.norm, heard)) <= bounds.largest
        return
    runs = [tacit.simulate(method, problem, COMPLETE, noise=noise, **again)]
    monkeypatch.setattr(type(method), "bounds", lambda self, facts: None)
    runs.append(tacit.simulate(method, problem, COMPLETE, noise=noise, **again))
    np.testing.assert_array_equal(runs[0].trajectory, runs[1].trajectory)
    assert runs[0].spent == runs[1].spent


def test_a_method_without_noise_has_no_bounds():
    assert SummedGradientDescent(step=0.5).bounds(facts()) is None


# One false total


class Case:
    """Shared descent by its recipe, and the error of its model."""

    def __init__(self):
        self.parts = make_parts(sizes=SIZES)
        self.setting = RECIPES["shared-descent"].setting(SIZES, 15, COMPLETE, Budget(2.0, 1e-5), Trust(1, 0))
        public = self.setting.facts
        self.problem = tacit.Problem(
            self.parts, loss=public.loss, scale=public.scale, l2=public.l2, radius=public.radius
        )
        self.bounds = self.setting.algorithm.bounds(public)

    def error(self, exchange=None):
        rounds = self.setting.rounds
        run = tacit.simulate(
            self.setting.algorithm,
            self.problem,
            COMPLETE,
            rounds=rounds,
            noise=tacit.SeededNoise(11),
            exchange=exchange,
            measure_every=rounds,
        )
        X, y = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        return float(np.mean(np.where(X @ run.model > 0, 1.0, -1.0) != y))

    def worst(self, lie):
        """Over all ticks."""
        return max(self.error(FalseTotals(lie, t)) for t in range(self.setting.rounds))


@pytest.fixture(scope="module")
def case():
    return Case()


def test_one_false_total_costs_hardly_anything_at_the_worst_tick(case):
    """The error with the lie at each of 64 ticks; nothing here is random."""
    assert case.worst(added(5)) <= case.error() + 0.02


def test_without_bounds_it_would_take_the_model(case, monkeypatch):
    monkeypatch.setattr(SummedGradientDescent, "bounds", lambda self, facts: None)
    assert case.worst(added(5)) > case.error() + 0.2


def test_cut_back_to_the_bounds_it_would_still_take_the_model(case):
    """Which is why it is read as zero. (A total of ones and of this norm is what the lie would be cut to.)"""
    assert case.worst(pushing(-np.ones(15), case.bounds.largest)) > case.error() + 0.05


# The state of a member that has heard so many totals


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_reach_of_a_state_is_reached_and_not_passed(momentum):
    method, public = SummedGradientDescent(step=0.5, momentum=momentum, deviation=0.1), facts()
    bounds, radius = method.bounds(public), 1e6
    problem = tacit.Problem(make_parts(sizes=public.sizes), loss=public.loss, scale=public.scale, radius=radius)
    view, rng = COMPLETE.view(), np.random.default_rng(0)
    for straight in (True, False):
        start = np.zeros((5, 15))
        state = method.init(problem, view, start, Inbox(start, COMPLETE.indptr, COMPLETE.indices))
        for t in range(30):
            way = np.ones(15) if straight else rng.normal(size=15)
            mean = bounds.mean * way / np.linalg.norm(way)
            state = method.listen(state, TotalInbox(np.tile(5 * mean, (5, 1)), np.full((5, 1), 5)), view, t)
            reach = method.reach(bounds.mean, t + 1, radius)
            assert np.linalg.norm(state.velocity[0]) <= reach["velocity"] * (1 + 1e-12)
            assert np.linalg.norm(state.f[0]) <= reach["f"] * (1 + 1e-12)
        if straight:
            assert np.linalg.norm(state.velocity[0]) >= reach["velocity"] * (1 - 1e-12)
            assert np.linalg.norm(state.f[0]) >= reach["f"] * (1.0 - 1e-12 if not momentum else 0.5)
    assert method.reach(bounds.mean, 30, 2.0)["f"] == 2.0  # models stay within the radius
