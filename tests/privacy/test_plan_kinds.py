"""A plan lets a method speak once for each kind of ticks. The full walk, in which every agent takes every tick, holds
what methods declare to the truth: the same events in the same order, the same counts, the same bound of the paper.

Settings are random, from fixed seeds: nothing here is statistical.
"""

import inspect
from typing import NamedTuple

import numpy as np
import pytest

import tacit
from tacit import algorithms
from tacit.algorithms import (
    DGD,
    DPADMM,
    EXTRA,
    AcceleratedDPADMM,
    Averaged,
    Between,
    CensoredADMM,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    ParallelWalkADMM,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RandomWalk,
    RecycledADMM,
    SharingADMM,
    SummedDPADMM,
    SummedGradientDescent,
    TokenGradientDescent,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.composite import lasso
from tacit.composite.term import Term
from tacit.core.facts import Facts
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.schedule import Broadcast, Turn, handed_over
from tacit.errors import TacitError
from tacit.privacy.events import Free, Gaussian, Pure
from tacit.privacy.mechanisms import charged
from tacit.privacy.plan import every_tick, plan
from tacit.privacy.plan import planner as module

D, SEEDS = 4, range(12)


class Wish(NamedTuple):
    """What a random setting is drawn from."""

    rng: np.random.Generator
    agents: int
    rounds: int

    def either(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def hyper(self, steps=None, growing=False):
        """A number or a schedule, now and then for too few steps."""
        steps, few = steps or self.rounds, self.rng.choice([0.3, 0.5, 0.7], size=3)
        steps = max(steps - int(self.rng.random() < 0.1), 1)
        listed = self.rng.choice(few, size=steps)
        each = self.rng.choice(few, size=(steps, self.agents))
        first = self.either(0.4, tuple(self.rng.choice([0.3, 0.4], size=self.agents)))
        low = 1.0 if growing else 0.8
        sort = np.sort if growing else lambda x, axis: x
        return self.either(
            0.5,
            sort(listed, axis=0),
            sort(each, axis=0),
            Geometric(first, 1.3, cap=0.7),
            Geometric(first, self.either(low, 1.0, 1.1)),
            lambda k: 0.3 + 0.1 * (k // 2),
        )

    def noise(self, law=None, steps=None, name="alpha", several=True):
        """alpha (or beta), a budget, one for each step, or none."""
        steps = max((steps or self.rounds) - int(self.rng.random() < 0.1), 1)
        one = law or self.either(Pure, Gaussian)
        some = [one(x) for x in self.rng.choice([1.5, 2.5, 4.0], size=steps)]
        options = [{}, {"budget": some[0]}, {"budget": some[0]}]
        options += [{"budget": tuple(some)}] if several else []
        options += [{name: self.hyper(steps)}] if law is None and several else []
        return self.either(*options)

    def order(self):
        return self.either(None, RandomWalk(int(self.rng.integers(9))), RandomWalk(3, choice=2))

    def some(self, *names):
        """Fields that are given or left out."""
        values = {
            "final": int(self.rng.integers(self.rounds)),
            "as_printed": True,
            "gamma": Between(0.9, 1.1),
            "initial": 2.0,
            "offset": 2.0,
            "average": True,
            "exact": True,
            "min_max": True,
        }
        return {name: values[name] for name in names if self.rng.random() < 0.4}


def summed(wish):
    deviation = wish.either(None, 0.3)
    return {"deviation": deviation, "colluders": wish.either(0, 1), "dropouts": wish.either(0, 1)}


def term(wish):
    paid = lasso(D, 0.1)
    return wish.either(paid, Term(paid.A, paid.g, cost=Gaussian(3.0)))


def one_holder(wish, kind):
    noise = wish.noise(Gaussian, wish.rounds - 1)
    return kind(
        term=term(wish),
        penalty=0.3,
        noise_schedule=wish.hyper(),
        rate=wish.either(1.0, 0.5) if noise else 1.0,
        **noise,
        **wish.some("average", *([] if noise else ["exact"])),
    )


def in_printed(wish, **settings):
    return settings if "budget" in settings else settings | wish.some("as_printed")


def token(wish, kind, **settings):
    found = wish.some("initial", "offset", "exact")
    found |= wish.either({}, {"gamma": Between(0.9, 1.1)}, {"deviation": 0.5}, {"budget": Gaussian(2.0)})
    return kind(penalty=2.0, **{"exact": False} | found, **settings)


def averaged(wish):
    inner = wish.either(
        DualPerturbedADMM(wish.hyper(), budget=Gaussian(2.0)),
        RecycledADMM(
            0.5, budget=wish.either(Pure(2.0), tuple(map(Gaussian, wish.rng.choice([2.0, 3.0], wish.rounds))))
        ),
        GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=Gaussian(2.0)),
        RandomCoordinateDescent(step=0.1, seed=int(wish.rng.integers(9)), budget=Gaussian(2.0)),
        IncrementalADMM(penalty=2.0, order=wish.order(), budget=Gaussian(2.0), **wish.some("initial")),
        TokenGradientDescent(step=0.1, order=wish.order(), budget=Gaussian(2.0)),
    )
    return Averaged(method=inner, ticks=wish.either(1, max(wish.rounds - 3, 1), wish.rounds), mixing=0.1)


MAKE = {
    ConsensusADMM: lambda w: ConsensusADMM(),
    CensoredADMM: lambda w: CensoredADMM(),
    DGD: lambda w: DGD(step=0.2, mixing=0.1),
    EXTRA: lambda w: EXTRA(step=0.2, mixing=0.1),
    ParallelWalkADMM: lambda w: ParallelWalkADMM(tokens=w.either(1, 3), exact=w.either(True, False)),
    WalkProximalGradient: lambda w: WalkProximalGradient(step=0.5),
    DualPerturbedADMM: lambda w: DualPerturbedADMM(w.hyper(), **in_printed(w, **w.noise())),
    PrimalPerturbedADMM: lambda w: PrimalPerturbedADMM(
        w.hyper(), centre=w.either("released", "printed"), **in_printed(w, **w.noise()), **w.some("final")
    ),
    PenaltyPerturbedADMM: lambda w: PenaltyPerturbedADMM(w.hyper(growing=True), **w.noise()),
    RecycledADMM: lambda w: RecycledADMM(
        w.hyper((w.rounds + 1) // 2, growing=True),
        **w.either({"noise_on": "output"}, {"as_printed": False}),
        **w.noise(steps=(w.rounds + 1) // 2),
    ),
    OneShotAveraging: lambda w: OneShotAveraging(mixing=0.1, **w.noise(several=False)),
    GradientDescent: lambda w: GradientDescent(
        step=0.1, mixing=0.1, exchanges=(e := w.either(1, 2, 3)), **w.noise(Gaussian, -(-w.rounds // e))
    ),
    RandomAggregationADMM: lambda w: RandomAggregationADMM(
        penalty=w.either(3.0, tuple(w.rng.choice([3.0, 4.0], w.agents))),
        dual_step=0.1,
        own=(0.3, 0.9),
        exact=w.either(True, False),
        **w.noise(name="beta"),
    ),
    RandomAggregationGD: lambda w: RandomAggregationGD(
        step=w.hyper(), **w.noise(name="beta"), **w.some("min_max"), weight=w.either((0.0, 1.0), (0.5, 0.5))
    ),
    RandomCoordinateDescent: lambda w: RandomCoordinateDescent(
        step=0.1, seed=int(w.rng.integers(99)), **w.either(w.noise(several=False), {"beta": 2.0})
    ),
    TokenGradientDescent: lambda w: TokenGradientDescent(step=0.1, order=w.order(), **w.noise(Gaussian, several=False)),
    IncrementalADMM: lambda w: token(w, IncrementalADMM, order=w.order()),
    WalkADMM: lambda w: token(w, WalkADMM, order=RandomWalk(int(w.rng.integers(9)))),
    DPADMM: lambda w: one_holder(w, DPADMM),
    AcceleratedDPADMM: lambda w: one_holder(w, AcceleratedDPADMM),
    SharingADMM: lambda w: SharingADMM.consensus(
        tacit.Graph.complete(w.agents),
        D,
        w.either(3.0, tuple(w.rng.choice([3.0, 4.0], w.agents))),
        **w.noise(name="beta"),
    ),
    SummedGradientDescent: lambda w: SummedGradientDescent(step=0.3, **summed(w)),
    SummedDPADMM: lambda w: SummedDPADMM(
        method=w.either(DPADMM, AcceleratedDPADMM)(term=lasso(D, 0.1), step=0.3), **summed(w)
    ),
    Averaged: averaged,
}


def case(kind, seed):
    """Random facts, a graph, a number of rounds and a method, by a seed."""
    rng = np.random.default_rng([seed, *kind.__name__.encode()])
    agents = 1 if issubclass(kind, DPADMM) else int(rng.choice([4, 5, 6, 9]))
    wish = Wish(rng, agents, int(rng.integers(2, 14)))
    graphs = [tacit.Graph.complete(agents), tacit.Graph.ring(agents)]
    if agents > 1:
        graphs += [tacit.Graph.random_with_cycle(agents, agents + 2, seed=seed), tacit.Graph.star(agents)]
    most = {SharingADMM: 1, WalkProximalGradient: 3, Averaged: 3, IncrementalADMM: 3}  # the others need no cycle
    graph = wish.either(*graphs[: most.get(kind)])
    facts = Facts(
        sizes=wish.either(np.full(agents, 500), rng.choice([300, 500, 9000], agents)),
        dimension=D,
        loss=wish.either(Logistic(), HuberHinge(0.5)),
        scale=wish.either(1.0, rng.choice([1.0, 2.0], agents)),
        l2=0.5,
        tolerance=1e-11,
    )
    for _ in range(50):
        try:
            method = MAKE[kind](wish)
            method.schedule(graph)
        except TacitError:
            continue  # settings that do not go together, or not with this graph
        return method, facts, graph, wish.rounds
    raise AssertionError(f"no setting of {kind.__name__} fits {graph}")


def told(make):
    """What a plan says, or the refusal."""
    try:
        found = make()
    except TacitError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return found


def assert_same(fast, full):
    if isinstance(full, str):
        assert fast == full
        return
    assert not isinstance(fast, str), fast
    assert [list(events) for events in fast.events] == [list(events) for events in full.events]
    assert [list(counts.items()) for counts in fast.spent] == [list(counts.items()) for counts in full.spent]
    assert (fast.paper is None) == (full.paper is None)
    if full.paper is not None:
        np.testing.assert_array_equal(fast.paper, full.paper)


def compared(method, facts, graph, rounds):
    full = told(lambda: module.walked(method, facts, graph, method.schedule(graph), rounds))
    assert_same(told(lambda: plan(method, facts, graph, rounds)), full)
    return full


def compare_many(kind):
    """Compares the plan of many random settings of a method with the full walk."""
    for seed in range(100):
        compared(*case(kind, seed))


@pytest.fixture
def walked_by_nobody(monkeypatch):
    """Makes a plan that walks every tick with every agent fail, but not the test's own walk."""
    walk = module.walked
    monkeypatch.setattr(module, "walked", lambda *given: pytest.fail("every tick was walked"))
    return walk


@pytest.mark.filterwarnings("ignore::UserWarning")  # of penalties, which say nothing about costs
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", MAKE, ids=lambda kind: kind.__name__)
def test_a_plan_is_the_full_walk(kind, seed, walked_by_nobody):
    method, facts, graph, rounds = case(kind, seed)
    full = told(lambda: walked_by_nobody(method, facts, graph, method.schedule(graph), rounds))
    assert_same(told(lambda: plan(method, facts, graph, rounds)), full)


def test_every_method_declares_for_itself():
    classes = {x for x in vars(algorithms).values() if inspect.isclass(x) and hasattr(x, "speak")} - {
        algorithms.Algorithm
    }
    assert set(MAKE) == classes
    assert all("kinds" in vars(kind) for kind in classes)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_most_settings_are_planned_and_not_refused():
    refused = dict.fromkeys(MAKE, 0)
    for kind in MAKE:
        for seed in SEEDS:
            method, facts, graph, rounds = case(kind, seed)
            refused[kind] += isinstance(told(lambda: plan(method, facts, graph, rounds)), str)  # noqa: B023
    assert max(refused.values()) < len(SEEDS) / 2, refused


def alike(self, problem, rounds):
    return np.zeros(rounds, dtype=int)


def in_pairs(self, problem, rounds):
    return np.arange(rounds) // 2


WRONG = [
    (DualPerturbedADMM, alike),
    (DualPerturbedADMM, in_pairs),
    (PrimalPerturbedADMM, alike),
    (
        PrimalPerturbedADMM,
        lambda self, p, n: algorithms.hyper.kinds(np.arange(n), self.penalty, self.alpha, self.budget),
    ),
    (PenaltyPerturbedADMM, lambda self, p, n: algorithms.hyper.kinds(np.arange(n), self.alpha, self.budget)),
    (RecycledADMM, alike),
    (RecycledADMM, lambda self, p, n: np.arange(n) % 2),
    (OneShotAveraging, alike),
    (GradientDescent, alike),
    (GradientDescent, lambda self, p, n: np.arange(n) % self.exchanges),
    (RandomAggregationADMM, alike),
    (RandomAggregationGD, lambda self, p, n: algorithms.hyper.kinds(np.arange(n), self.beta, self.budget)),
    (RandomCoordinateDescent, alike),
    (RandomCoordinateDescent, lambda self, p, n: np.arange(n) % p.dimension),  # as if coordinates went round
    (IncrementalADMM, alike),
    (WalkADMM, alike),
    (DPADMM, alike),
    (AcceleratedDPADMM, alike),
    (SharingADMM, alike),
    (Averaged, alike),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_a_wrong_declaration_is_found(kind, wrong, monkeypatch):
    monkeypatch.setattr(kind, "kinds", wrong)
    with pytest.raises(AssertionError):
        compare_many(kind)


@pytest.mark.parametrize("name", ["_kinds_of_geometric", "_kinds"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_wrong_rule_for_schedules_is_found(name, monkeypatch):
    monkeypatch.setattr(algorithms.hyper, name, lambda steps, value: np.zeros(len(steps), dtype=int))
    with pytest.raises(AssertionError):
        compare_many(DualPerturbedADMM)


FACTS, RING = Facts(sizes=[300, 500, 500, 9000], dimension=D, l2=0.5), tacit.Graph.ring(4)


class Louder(GradientDescent):
    """A user's class: every third release costs more. It inherits a declaration that is wrong for it."""

    def speak(self, s, problem, view, noise, t):
        s, release = super().speak(s, problem, view, noise, t)
        return s, release if t % 3 else charged(release.value, Pure(9.0))


class Counting(GradientDescent):
    """Its cost follows from the state: how often the agent has spoken. It declares that all ticks are alike."""

    kinds = alike

    def speak(self, s, problem, view, noise, t):
        spoken = np.nan_to_num(s.moved) + 1
        s, release = super().speak(s, problem, view, noise, t)
        return s._replace(moved=spoken), charged(release.value, Pure(1.0) if spoken.max() > 2 else Free("early"))


def test_a_declaration_is_not_inherited():
    full = compared(Louder(step=0.1, mixing=0.1, budget=Gaussian(2.0)), FACTS, RING, 7)
    assert [type(event) for event in full.events[0]] == [Pure, Gaussian, Gaussian] * 2 + [Pure]


def test_a_cost_that_follows_from_the_state_is_found():
    with pytest.raises(AssertionError):
        compared(Counting(step=0.1, mixing=0.1, budget=Gaussian(2.0)), FACTS, RING, 7)


class Pairs:
    """Two agents speak at a time; at every fourth tick all do."""

    def __init__(self, graph):
        self.everybody = Broadcast(graph)

    def turn(self, t):
        if t % 4 == 3:
            return self.everybody.turn(t)
        two = np.array([0, 1]) if t % 4 else np.array([3, 2])
        return Turn(two, np.array([1]), np.array([0, 1]), np.array([t % 2]))


@pytest.mark.parametrize("declares", [True, False])
def test_a_schedule_of_ones_own(declares):
    class Own(GradientDescent):
        def schedule(self, graph):
            return Pairs(graph)

        if declares:
            kinds = GradientDescent.kinds

    compared(Own(step=0.1, mixing=0.1, exchanges=2, budget=Gaussian(2.0)), FACTS, RING, 9)


class Looks(GradientDescent):
    """Its cost follows from an agent's id, and its ticks are alike."""

    kinds = alike

    def schedule(self, graph):
        return Pairs(graph)

    def speak(self, s, problem, view, noise, t):
        s, release = super().speak(s, problem, view, noise, 0)
        return s, release._replace(events=[Pure(1.0 + i) for i in view.ids.tolist()])


def test_agents_that_differ_speak_for_themselves(walked_by_nobody):
    method = Looks(step=0.1, mixing=0.1, budget=Gaussian(2.0))
    assert_same(plan(method, FACTS, RING, 9), walked_by_nobody(method, FACTS, RING, method.schedule(RING), 9))


def test_a_declaration_has_a_number_for_every_tick(monkeypatch):
    for wrong in (np.zeros(3, dtype=int), np.zeros(7), 0):
        monkeypatch.setattr(GradientDescent, "kinds", lambda self, problem, rounds: wrong)  # noqa: B023
        with pytest.raises(TacitError, match="a whole number for each of 7 ticks"):
            plan(GradientDescent(step=0.1, mixing=0.1), FACTS, RING, 7)


def test_a_long_plan_speaks_a_few_times(monkeypatch):
    """However long: the layers of random coordinates, a walk, a penalty that has reached its cap."""
    spoken = []
    tick = module.tick
    for where in (module, every_tick):
        monkeypatch.setattr(where, "tick", lambda *given: spoken.append(given[5]) or tick(*given))
    methods = [
        (RandomCoordinateDescent(step=0.1, budget=Gaussian(2.0)), 2),
        (TokenGradientDescent(step=0.1, order=RandomWalk(), budget=Gaussian(2.0)), 1),
        (DualPerturbedADMM(Geometric(0.4, 1.3, cap=0.7), budget=Gaussian(2.0)), 4),
    ]
    for method, most in methods:
        spoken.clear()
        planned = plan(method, FACTS, RING, 20_000)
        assert len(spoken) == most
        assert sum(sum(counts.values()) for counts in planned.spent) == (20_000 if most == 1 else 80_000)
        assert all(
            len(events) == sum(counts.values()) for events, counts in zip(planned.events, planned.spent, strict=True)
        )


def test_a_token_that_is_handed_over_once():
    """An agent that never speaks pays nothing."""

    class Once(TokenGradientDescent):
        kinds = TokenGradientDescent.kinds

        def schedule(self, graph):
            class Same:
                def turn(self, t):
                    return handed_over(1, 2)

            return Same()

    full = compared(Once(step=0.1, budget=Gaussian(2.0)), FACTS, RING, 3)
    assert [len(events) for events in full.events] == [0, 3, 0, 0]
