"""One contract for every algorithm, plain and private."""

from functools import cache

import numpy as np
import pytest
from conftest import SIZES, make_parts
from custom_losses import SeparatelyBounded, hinge, logistic
from ray_here import Here, assert_same

import tacit
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
    RecycledADMM,
    SummedDPADMM,
    SummedGradientDescent,
    TokenGradientDescent,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.composite import Nothing, Term, generalised_lasso, lasso
from tacit.core.algorithm import traits
from tacit.core.losses import HuberHinge
from tacit.core.release import Inbox
from tacit.core.schedule import RandomWalk
from tacit.exchange.totals import TotalInbox

GRAPHS = {
    "ring": tacit.Graph.ring(5),
    "star": tacit.Graph.star(5),
    "complete": tacit.Graph.complete(5),
    "random": tacit.Graph.random(5, 6, seed=2),
    "cycle": tacit.Graph.random_with_cycle(5, 7, seed=0),
}
ROUNDS = 8
SMOOTH = Term(
    np.eye(15), Nothing()
)  # with other terms the optimum is another (tests/algorithms/test_summed_dp_admm.py)

PLAIN = {
    "admm": ConsensusADMM(),
    "dvp": DualPerturbedADMM(),
    "pvp": PrimalPerturbedADMM(),
    "m-admm": PenaltyPerturbedADMM(penalty=Geometric([1.0, 0.7, 1.0, 1.2, 1.0], 1.05, cap=2.0), dual_step=0.8),
    "r-admm": RecycledADMM(gamma=1.0),
    "mr-admm": RecycledADMM(penalty=Geometric(0.8, 1.05, cap=2.0), gamma=2.0),
    "coca": CensoredADMM(),
}
GRADIENT = {  # methods that solve nothing: an agent alone is not there after some rounds
    "extra": EXTRA(step=0.2, mixing=0.2),
    "dgd": DGD(step=0.2, mixing=0.2, decay=0.5),  # nor are several, to 1e-6 (tests/algorithms/test_token_methods.py)
    "coca first-order": CensoredADMM(exact=False),
    "summed descent": SummedGradientDescent(step=0.5),
    "summed dp-admm": SummedDPADMM(method=DPADMM(term=SMOOTH, step=0.5, penalty=0.1)),
    "summed dp-accadmm": SummedDPADMM(method=AcceleratedDPADMM(term=SMOOTH, step=0.5, penalty=0.1)),
}
TOKEN = {  # on a cycle they need a graph that has one
    "i-admm": IncrementalADMM(penalty=2.0),
    "i-admm first-order": IncrementalADMM(penalty=2.0, exact=False),
    "i-admm random start": IncrementalADMM(penalty=2.0, initial=3.0),
    "pi-admm1": IncrementalADMM(penalty=2.0, initial=3.0, gamma=Between(0.9, 1.1)),
    "i-admm offset": IncrementalADMM(penalty=2.0, offset=3.0),
    "w-admm": WalkADMM(penalty=2.0),
    "ipw-admm": ParallelWalkADMM(tokens=3),
    "ipw-admm first-order": ParallelWalkADMM(tokens=3, proximal=1.0, exact=False, walk=RandomWalk(3)),
    "wpg": WalkProximalGradient(step=0.5),
}
GAUSS = tacit.Gaussian(5.0)
PRIVATE = {
    "dvp alpha": DualPerturbedADMM(alpha=1.0),
    "dvp gaussian": DualPerturbedADMM(budget=GAUSS),
    "pvp": PrimalPerturbedADMM(alpha=1.0, final=5),
    "pvp printed centre": PrimalPerturbedADMM(alpha=1.0, centre="printed"),
    "m-admm": PenaltyPerturbedADMM(penalty=Geometric([1.0, 0.7, 1.0, 1.2, 1.0], 1.05), budget=tacit.Pure(2.0)),
    "r-admm": RecycledADMM(alpha=2.0),
    "mr-admm": RecycledADMM(penalty=Geometric(0.8, 1.05), budget=GAUSS),
    "mr-admm output": RecycledADMM(penalty=Geometric(0.8, 1.05), budget=GAUSS, noise_on="output"),
    "one-shot": OneShotAveraging(mixing=0.2, budget=GAUSS),
    "gradient descent": GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=GAUSS),
    "token descent": TokenGradientDescent(step=0.1, order=RandomWalk(seed=4), budget=GAUSS),
    "pi-admm2": IncrementalADMM(penalty=2.0, initial=3.0, budget=GAUSS),
    "pi-admm2 first-order": IncrementalADMM(penalty=2.0, exact=False, deviation=0.1),
    "pi-admm2 walk": WalkADMM(penalty=2.0, offset=3.0, budget=GAUSS),
    "random aggregation admm": RandomAggregationADMM(penalty=(3.0, 2.0, 3.0, 4.0, 3.0), beta=Geometric(2.0, 1.05)),
    "random aggregation gd": RandomAggregationGD(step=Geometric(0.5, 0.9), beta=2.0),
    "random aggregation min-max": RandomAggregationGD(step=0.2, min_max=True, budget=GAUSS),
    "random coordinates": RandomCoordinateDescent(beta=2.0),
    "summed descent": SummedGradientDescent(step=0.3, momentum=0.5, deviation=0.1, colluders=1),
    "summed dp-admm": SummedDPADMM(
        method=DPADMM(term=generalised_lasso(15, 0.05), step=0.3, penalty=0.1, average=True),
        deviation=0.1,
        colluders=0,
        dropouts=1,
    ),
    "summed dp-accadmm": SummedDPADMM(
        method=AcceleratedDPADMM(term=lasso(15, 0.05), step=0.3, penalty=0.1), deviation=0.1, colluders=1
    ),
    "averaged": Averaged(method=RecycledADMM(budget=GAUSS), ticks=3, mixing=0.2),
    "averaged token": Averaged(method=IncrementalADMM(penalty=2.0, budget=GAUSS), ticks=4, mixing=0.2),
}
NOISE = tacit.SeededNoise(11)

ALL = PLAIN | GRADIENT | TOKEN | {f"private {name}": method for name, method in PRIVATE.items()}


def fits(algorithm, graph):
    try:
        algorithm.schedule(graph)
    except tacit.GraphError:
        return False
    return True


def on_graphs(methods, inexact=()):
    """Every method with every graph that it can run on."""
    chosen = {name: method for name, method in methods.items() if name not in inexact}
    pairs = {f"{a}, {g}": (chosen[a], GRAPHS[g]) for a in chosen for g in GRAPHS if fits(chosen[a], GRAPHS[g])}
    return pytest.mark.parametrize(("algorithm", "graph"), pairs.values(), ids=list(pairs))


plain = pytest.mark.parametrize("algorithm", PLAIN.values(), ids=list(PLAIN))


def starts(seed=5, algorithm=None):
    start = np.random.default_rng(seed).normal(size=(5, 15))
    one = isinstance(algorithm, WalkProximalGradient) or on_totals(algorithm)  # one start for all
    return np.tile(start[0], (5, 1)) if one else start


def on_totals(algorithm):
    return traits(algorithm).totals


def speaks_at_once(algorithm):
    return fits(algorithm, GRAPHS["random"]) and len(algorithm.schedule(GRAPHS["random"]).turn(1).speakers) == 5


def run_apart(algorithm, parts, graph, start, rounds):
    """N processes of one agent each, as on a network: each has its own problem, view, state and inbox."""
    problems = [tacit.Problem([part], scale=3.0, l2=0.5) for part in parts]
    views = [graph.view(np.array([i])) for i in range(graph.agents)]
    schedule = algorithm.schedule(graph)

    def inbox(values, senders):
        return Inbox(np.array([values[j] for j in senders]).reshape(-1, 15), [0, len(senders)])

    states = [
        algorithm.init(problems[i], views[i], start[[i]], inbox(start, graph.neighbours(i)))
        for i in range(graph.agents)
    ]
    trajectory, events = [start], [[] for _ in parts]
    for t in range(rounds):
        turn, said = schedule.turn(t), {}
        for i in turn.speakers:
            states[i], release = algorithm.speak(states[i], problems[i], views[i], NOISE, t)
            said[i] = release.value[0]
            events[i].extend(release.events)
        for k, i in enumerate(turn.listeners):
            if on_totals(algorithm):
                heard = TotalInbox(np.sum([said[j] for j in turn.speakers], axis=0)[None], np.array([[len(said)]]))
            else:
                heard = inbox(said, turn.speakers[turn.indices[turn.indptr[k] : turn.indptr[k + 1]]])
            states[i] = algorithm.listen(states[i], heard, views[i], t)
        trajectory.append(np.concatenate([algorithm.estimate(s) for s in states]))
    return np.array(trajectory), events


@on_graphs(ALL)
def test_one_agent_blocks_equal_one_block(algorithm, graph, parts):
    problem, start = tacit.Problem(parts, scale=3.0, l2=0.5), starts(algorithm=algorithm)
    run = tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=start, record=True, noise=NOISE)
    apart, events = run_apart(algorithm, parts, graph, start, ROUNDS)
    np.testing.assert_allclose(run.trajectory, apart, atol=1e-9)
    assert [dict(counter) for counter in run.spent] == [
        {event: heard.count(event) for event in heard} for heard in events
    ]


@pytest.mark.parametrize("name", [name for name, each in ALL.items() if not on_totals(each) and speaks_at_once(each)])
@pytest.mark.parametrize("shards", [2, 4])
def test_shards_equal_one_block(name, shards):
    """To the last bit; on a cluster: tests/simulation/test_shards.py."""
    algorithm, graph, problem = ALL[name], GRAPHS["random"], tacit.Problem(make_parts(), scale=3.0, l2=0.5)
    settings = {"rounds": ROUNDS, "start": starts(algorithm=algorithm), "record": True, "noise": NOISE}
    assert_same(
        tacit.simulate(algorithm, problem, graph, engine=Here(shards=shards), **settings),
        tacit.simulate(algorithm, problem, graph, **settings),
    )


dense = pytest.mark.parametrize("parts", ["dense"], indirect=True)  # sparse rows have been in the tests above


@cache
def whole_run(name):
    """A run that is not stopped."""
    algorithm = ALL[name]
    graph, start = GRAPHS["random" if fits(algorithm, GRAPHS["random"]) else "cycle"], starts(algorithm=algorithm)
    problem = tacit.Problem(make_parts(), scale=3.0, l2=0.5)
    return tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=start, record=True, noise=NOISE)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("stop", range(ROUNDS + 1))
@dense
def test_stopping_saving_and_resuming_changes_nothing(name, problem, stop, tmp_path):
    algorithm, whole = ALL[name], whole_run(name)
    graph, start = GRAPHS["random" if fits(algorithm, GRAPHS["random"]) else "cycle"], starts(algorithm=algorithm)
    tacit.simulate(algorithm, problem, graph, rounds=stop, start=start, record=True, noise=NOISE).save(
        tmp_path / "run.npz"
    )
    resumed = tacit.simulate(
        algorithm, problem, graph, rounds=ROUNDS, record=True, noise=NOISE, resume=tacit.Run.load(tmp_path / "run.npz")
    )
    np.testing.assert_array_equal(resumed.trajectory, whole.trajectory)
    for a, b in zip(resumed.state, whole.state, strict=True):
        np.testing.assert_array_equal(a, b)
    assert resumed.spent == whole.spent
    assert resumed.history.keys() == whole.history.keys()
    for name, expected in whole.history.items():
        if name in (
            "messages",
            "bytes",
        ):  # a run that goes on agrees on keys again, where it needs any: those of round 0
            expected = expected + (whole.history["round"] > stop) * expected[0]
        np.testing.assert_array_equal(resumed.history[name], expected)


@pytest.mark.parametrize("algorithm", ALL.values(), ids=list(ALL))
@pytest.mark.parametrize(("built_in", "copy"), [(SeparatelyBounded(), logistic), (HuberHinge(), hinge)])
def test_a_custom_copy_of_a_loss_gives_the_same_run_and_plan(algorithm, parts, built_in, copy):
    graph, start = GRAPHS["random" if fits(algorithm, GRAPHS["random"]) else "cycle"], starts(algorithm=algorithm)
    runs, plans = [], []
    for loss in (built_in, copy()):
        problem = tacit.Problem(parts, loss=loss, l2=0.5, tolerance=1e-12)
        runs.append(tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=start, record=True, noise=NOISE))
        plans.append(tacit.plan(algorithm, problem, graph, rounds=ROUNDS))
    np.testing.assert_allclose(runs[1].trajectory, runs[0].trajectory, atol=1e-9)
    assert runs[1].spent == runs[0].spent
    assert plans[1].spent == plans[0].spent


@on_graphs(PLAIN | GRADIENT, inexact=["dgd"])  # those with a token: tests/algorithms/test_token_methods.py
@dense
def test_the_plain_method_reaches_the_centralised_optimum(algorithm, graph, parts):
    problem, start = tacit.Problem(parts, scale=3.0, l2=0.5), starts(algorithm=algorithm)
    run = tacit.simulate(algorithm, problem, graph, rounds=4000, start=start, tolerance=1e-9, noise=NOISE)
    optimum = problem.optimum()
    assert run.converged
    assert np.linalg.norm(run.estimate - optimum, axis=1).max() <= 1e-6 * np.linalg.norm(optimum)
    assert len(set(SIZES)) > 1  # the agents differ in size


@plain
def test_the_start_counts(algorithm, problem):
    """A data-independent start is public and used: another start, another path."""
    graph = GRAPHS["ring"]
    a = tacit.simulate(algorithm, problem, graph, rounds=2, start=starts(1), record=True)
    b = tacit.simulate(algorithm, problem, graph, rounds=2, start=starts(2), record=True)
    np.testing.assert_array_equal(a.trajectory[0], starts(1))
    assert np.abs(a.trajectory[1] - b.trajectory[1]).max() > 1e-3


@plain
def test_alone_on_a_graph_of_one(algorithm):
    problem = tacit.Problem(make_parts(sizes=(30,)), scale=3.0, l2=0.5)
    run = tacit.simulate(algorithm, problem, tacit.Graph.ring(1), rounds=5)
    np.testing.assert_allclose(run.model, problem.optimum(), atol=1e-8)
