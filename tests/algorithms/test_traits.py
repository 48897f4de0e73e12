"""What a method declares of itself is what it does."""

import inspect
from dataclasses import dataclass, fields, replace

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
from tacit.core.algorithm import Traits, kinds, traits
from tacit.core.facts import Facts
from tacit.core.losses import HuberHinge
from tacit.core.multinomial import Multinomial
from tacit.exchange import Plain, SecretSharedSums

D, GAUSS, PURE = 30, tacit.Gaussian(5.0), tacit.Pure(2.0)
GRAPH, ONE = tacit.Graph.complete(3), tacit.Graph.ring(1)
TERM = lasso(D, 0.05)
CASES = [
    ConsensusADMM(),
    CensoredADMM(alpha=0.1),
    DGD(step=0.1, mixing=0.2),
    EXTRA(step=0.1, mixing=0.2),
    DualPerturbedADMM(),
    DualPerturbedADMM(alpha=1.0),
    DualPerturbedADMM(alpha=1.0, as_printed=True),
    DualPerturbedADMM(budget=PURE),
    PrimalPerturbedADMM(),
    PrimalPerturbedADMM(alpha=1.0, centre="printed"),
    PrimalPerturbedADMM(budget=GAUSS, final=2),
    PenaltyPerturbedADMM(),
    PenaltyPerturbedADMM(alpha=1.0),
    PenaltyPerturbedADMM(budget=GAUSS),
    RecycledADMM(),
    RecycledADMM(alpha=1.0),
    RecycledADMM(budget=GAUSS, noise_on="output"),
    GradientDescent(step=0.1, mixing=0.2),
    GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=GAUSS),
    OneShotAveraging(mixing=0.2),
    OneShotAveraging(mixing=0.2, budget=PURE),
    IncrementalADMM(penalty=2.0),
    IncrementalADMM(penalty=2.0, initial=1.0),
    IncrementalADMM(penalty=2.0, offset=1.0),
    IncrementalADMM(penalty=2.0, gamma=Between(0.9, 1.1)),
    IncrementalADMM(penalty=2.0, deviation=0.1),
    IncrementalADMM(penalty=2.0, budget=GAUSS),
    WalkADMM(penalty=2.0, exact=False),
    WalkADMM(penalty=2.0, budget=GAUSS),
    ParallelWalkADMM(tokens=2),
    WalkProximalGradient(step=0.1),
    TokenGradientDescent(step=0.1),
    TokenGradientDescent(step=0.1, order=RandomWalk(seed=3), budget=GAUSS),
    DPADMM(term=TERM),
    DPADMM(term=TERM, budget=GAUSS, rate=0.5),
    AcceleratedDPADMM(term=TERM),
    AcceleratedDPADMM(term=TERM, budget=GAUSS),
    SummedDPADMM(method=DPADMM(term=TERM, step=0.1)),
    SummedDPADMM(method=AcceleratedDPADMM(term=TERM, step=0.1), deviation=0.1),
    SummedGradientDescent(step=0.1, momentum=0.5),
    SummedGradientDescent(step=0.1, momentum=0.5, deviation=0.1),
    RandomAggregationADMM(penalty=5.0, own=(0.5, 0.5)),
    RandomAggregationADMM(penalty=5.0),
    RandomAggregationADMM(penalty=5.0, own=(0.5, 0.5), beta=2.0),
    RandomAggregationADMM(penalty=5.0, budget=GAUSS),
    RandomAggregationGD(step=0.1, weight=(0.5, 0.5)),
    RandomAggregationGD(step=0.1, weight=(0.2, 0.2)),
    RandomAggregationGD(step=0.1, weight=(0.5, 0.5), min_max=True),
    RandomAggregationGD(step=0.1),
    RandomAggregationGD(step=0.1, weight=(0.5, 0.5), budget=PURE),
    RandomCoordinateDescent(step=0.1),
    RandomCoordinateDescent(step=0.1, budget=GAUSS),
    SharingADMM.consensus(GRAPH, D, 5.0),
    replace(SharingADMM.consensus(GRAPH, D, 5.0), rho=(0.5, 0.5)),
    replace(SharingADMM.consensus(GRAPH, D, 5.0), rho=(0.5, 0.5), budget=GAUSS),
    Averaged(method=RecycledADMM(budget=GAUSS), ticks=2, mixing=0.2),
    Averaged(method=IncrementalADMM(penalty=2.0, budget=GAUSS), ticks=2, mixing=0.2),
    Averaged(method=RandomAggregationGD(step=0.1, budget=GAUSS), ticks=2, mixing=0.2),
]
TICKS = 4
NAMES = [f"{type(case).__name__} {k}" for k, case in enumerate(CASES)]
each = pytest.mark.parametrize("method", CASES, ids=NAMES)


def problem(agents=3):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(agents, 20, D))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    return tacit.Problem([(x, np.sign(rng.normal(size=20))) for x in rows], loss=HuberHinge(1.0), l2=0.5)


def run(method, noise, **settings):
    graph = ONE if traits(method).alone else GRAPH
    return tacit.simulate(
        method, problem(graph.agents), graph, rounds=TICKS, noise=noise, **{"record": True, **settings}
    )


class Asked:
    """Noise that knows whether anything was asked of it."""

    private, asked = False, False

    def __init__(self):
        self._noise = tacit.SeededNoise(3)
        self.grid = self._noise.grid

    def __getattr__(self, name):
        self.asked = True
        return getattr(self._noise, name)


def methods():
    found = (getattr(algorithms, name) for name in algorithms.__all__)
    return {each for each in found if inspect.isclass(each) and hasattr(each, "speak")} - {algorithms.Algorithm}


def test_every_method_declares_itself_and_has_a_case():
    assert methods() == {type(case) for case in CASES}
    for method in methods():
        assert "traits" in vars(method)


@each
def test_agents_draw_random_numbers(method):
    noise, said = Asked(), traits(method).draws(method)
    run(method, noise)
    assert noise.asked == said
    if said:
        with pytest.raises(tacit.InputError, match="noise"):
            run(method, None)
    else:
        run(method, None)


@each
def test_one_agent_speaks_at_a_time(method):
    graph = ONE if traits(method).alone else GRAPH
    turns = [method.schedule(graph).turn(t) for t in range(1, 2 if isinstance(method, Averaged) else 9)]
    assert {len(turn.speakers) for turn in turns} == {1 if traits(method).token else graph.agents}


@each
def test_it_needs_the_sum_over_all_members(method):
    if not traits(method).totals:
        run(method, tacit.SeededNoise(3), exchange=Plain())
        return
    with pytest.raises(tacit.InputError, match="sum over all members"):
        run(method, tacit.SeededNoise(3), exchange=Plain())
    assert (method.bounds(problem()) is None) == (method.deviation is None)


@each
def test_it_is_for_one_holder_of_all_records(method):
    def several():
        tacit.simulate(method, problem(), GRAPH, rounds=1, noise=tacit.SeededNoise(3))

    if traits(method).alone:
        with pytest.raises(tacit.InputError, match="for one agent with all rows"):
            several()
    else:
        several()


@each
def test_secret_shared_sums_serve_it(method):
    def shared():
        settings = {"rounds": TICKS, "noise": tacit.SeededNoise(3), "exchange": SecretSharedSums()}
        return tacit.simulate(method, problem(), GRAPH, **settings)

    if traits(method).sums(method):
        shared()
    else:
        with pytest.raises(tacit.InputError, match=r"rows|all agents must speak|sum over all members"):
            shared()


@each
def test_many_ticks_at_once_are_the_ticks_one_by_one(method):
    if traits(method).strides(method):
        after = run(method, None, overheard=lambda *_: None)  # which has to hear every tick
        np.testing.assert_allclose(run(method, None).trajectory, after.trajectory, atol=1e-9)
        assert hasattr(method, "stride")
    elif hasattr(method, "stride"):
        assert traits(method).draws(method)


@pytest.mark.parametrize(
    "method", [case for case in CASES if traits(case).carried], ids=lambda method: type(method).__name__
)
def test_a_member_goes_on_with_what_is_carried(method):
    carried = traits(method).carried
    whole, half = run(method, tacit.SeededNoise(3), record=True), tacit.simulate(
        method, problem(), GRAPH, rounds=2, noise=tacit.SeededNoise(3), record=True
    )  # fmt: skip
    view, start = GRAPH.view(), np.zeros((3, D))
    heard = tacit.core.release.Inbox(start, GRAPH.indptr, GRAPH.indices)
    fresh = method.init(problem(), view, start, heard)
    known = {name: getattr(half.state, name) for name in carried}
    assert any(np.any(value != getattr(fresh, name)) for name, value in known.items())
    resumed = replace(half, state=fresh._replace(**known))
    again = tacit.simulate(
        method, problem(), GRAPH, rounds=TICKS, noise=tacit.SeededNoise(3), record=True, resume=resumed
    )
    np.testing.assert_array_equal(again.trajectory, whole.trajectory)
    reach = method.reach(mean=100.0, totals=2, radius=1e6)
    assert set(reach) == set(carried)


@each
def test_its_paper_says_what_a_step_costs(method):
    if traits(method).paper_bound(method):
        assert method.paper_bound(problem(), GRAPH.view(), 0).shape == (3, 1)
        assert tacit.plan(method, problem(), GRAPH, TICKS).paper is not None
    elif hasattr(method, "paper_bound"):
        with pytest.raises(tacit.InputError, match="which is not given"):
            method.paper_bound(problem(), GRAPH.view(), 0)


NOISE = ("alpha", "beta", "deviation", "gamma", "as_printed")


@each
def test_its_budgets_are_of_these_laws(method):
    names = {field.name: field.default for field in fields(method)}
    declared = traits(method).laws
    if isinstance(method, Averaged):
        assert declared == traits(method.method).laws
    elif traits(method).totals:
        assert declared == (tacit.Gaussian,)  # a share of the noise is normal
    elif "budget" not in names:
        assert declared == ()
    else:
        bare = {name: names[name] for name in NOISE if name in names and not isinstance(method, RecycledADMM)}
        bare |= {name: names[name] for name in ("alpha",) if name in names}
        for budget in (GAUSS, PURE):
            if type(budget) in declared:
                replace(method, **bare, budget=budget)
            else:
                with pytest.raises(tacit.InputError, match="budget is Gaussian"):
                    replace(method, **bare, budget=budget)


@each
def test_its_proof_covers_several_classes(method):
    private = getattr(method, "budget", None) is not None or getattr(method, "deviation", None) is not None
    if traits(method).multiclass and private:
        facts = Facts(sizes=[300] * 3, dimension=D, loss=Multinomial(3), l2=0.5)
        assert tacit.plan(method, facts, GRAPH, TICKS).epsilon(1e-5) < np.inf


@dataclass(frozen=True)
class Hidden(PrimalPerturbedADMM):
    """Its estimate is the minimiser before the noise."""

    traits, kinds = PrimalPerturbedADMM.traits, PrimalPerturbedADMM.kinds

    def estimate(self, s):
        return s.hidden


def away_from_what_was_said(method):
    """How far estimates lie from the space that all released rows span. Fewer rows are released than there are
    dimensions, and starts are zero: whatever else goes into an estimate leaves that space."""
    said = []
    run = tacit.simulate(
        method,
        problem(),
        GRAPH,
        rounds=TICKS,
        noise=tacit.SeededNoise(3),
        overheard=lambda t, turn, release: said.extend(release.value),
    )
    assert len(said) < D / 2
    basis = np.linalg.svd(np.array(said), full_matrices=False)
    spanned = basis[2][basis[1] > 1e-9 * basis[1][0]]
    return np.abs(run.estimate - run.estimate @ spanned.T @ spanned).max()


RELEASED = [case for case in CASES if traits(case).released and getattr(case, "budget", None) is not None]


@pytest.mark.parametrize("method", RELEASED, ids=lambda method: type(method).__name__)
def test_its_estimate_is_made_of_released_values(method):
    assert away_from_what_was_said(method) < 1e-6


def test_an_estimate_of_a_hidden_value_is_found():
    assert traits(Hidden(budget=GAUSS)).released
    assert away_from_what_was_said(Hidden(budget=GAUSS)) > 1e-3


def test_nothing_is_taken_for_granted_of_a_class_that_says_nothing():
    class Own(IncrementalADMM):
        """It may do anything."""

    said = Traits()
    assert traits(Own) == traits(Own()) == said
    assert not any((said.token, said.totals, said.alone, said.multiclass, said.released, said.laws, said.carried))
    assert said.draws(Own())
    assert not any(answer(Own()) for answer in (said.sums, said.strides, said.paper_bound))
    assert kinds(Own(), problem(), 3) is None


def test_a_wrong_declaration_is_refused():
    @dataclass(frozen=True)
    class Own(ConsensusADMM):
        traits = {"token": True}  # noqa: RUF012

    with pytest.raises(tacit.TacitError, match="traits must be a Traits"):
        traits(Own())
