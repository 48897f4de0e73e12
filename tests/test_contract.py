"""One contract for every algorithm, plain and private."""

import numpy as np
import pytest
from conftest import SIZES, make_parts

import tacit
from tacit.algorithms import (
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    OneShotAveraging,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RecycledADMM,
)
from tacit.release import Inbox

GRAPHS = {
    "ring": tacit.Graph.ring(5),
    "star": tacit.Graph.star(5),
    "complete": tacit.Graph.complete(5),
    "random": tacit.Graph.random(5, 6, seed=2),
}
ROUNDS = 8

PLAIN = {
    "admm": ConsensusADMM(),
    "dvp": DualPerturbedADMM(),
    "pvp": PrimalPerturbedADMM(),
    "m-admm": PenaltyPerturbedADMM(penalty=Geometric([1.0, 0.7, 1.0, 1.2, 1.0], 1.05, cap=2.0), dual_step=0.8),
    "r-admm": RecycledADMM(gamma=1.0),
    "mr-admm": RecycledADMM(penalty=Geometric(0.8, 1.05, cap=2.0), gamma=2.0),
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
    "one-shot": OneShotAveraging(mixing=0.2, budget=GAUSS),
    "gradient descent": GradientDescent(step=0.1, mixing=0.2, exchanges=2, budget=GAUSS),
    "random aggregation admm": RandomAggregationADMM(penalty=(3.0, 2.0, 3.0, 4.0, 3.0), beta=Geometric(2.0, 1.05)),
    "random aggregation gd": RandomAggregationGD(step=Geometric(0.5, 0.9), beta=2.0),
    "random aggregation min-max": RandomAggregationGD(step=0.2, min_max=True, budget=GAUSS),
    "random coordinates": RandomCoordinateDescent(beta=2.0),
}
NOISE = tacit.SeededNoise(11)

algorithms = pytest.mark.parametrize(
    "algorithm", [*PLAIN.values(), *PRIVATE.values()], ids=[*PLAIN, *(f"private {n}" for n in PRIVATE)]
)
plain = pytest.mark.parametrize("algorithm", PLAIN.values(), ids=list(PLAIN))
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def starts(seed=5):
    return np.random.default_rng(seed).normal(size=(5, 15))


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
            senders = turn.speakers[turn.indices[turn.indptr[k] : turn.indptr[k + 1]]]
            states[i] = algorithm.listen(states[i], inbox(said, senders), views[i], t)
        trajectory.append(np.concatenate([algorithm.estimate(s) for s in states]))
    return np.array(trajectory), events


@algorithms
@graphs
def test_one_agent_blocks_equal_one_block(algorithm, graph, parts):
    problem = tacit.Problem(parts, scale=3.0, l2=0.5)
    run = tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=starts(), record=True, noise=NOISE)
    apart, events = run_apart(algorithm, parts, graph, starts(), ROUNDS)
    np.testing.assert_allclose(run.trajectory, apart, atol=1e-9)
    assert [dict(counter) for counter in run.spent] == [
        {event: heard.count(event) for event in heard} for heard in events
    ]


@algorithms
@pytest.mark.parametrize("stop", range(ROUNDS + 1))
def test_stopping_saving_and_resuming_changes_nothing(algorithm, problem, stop, tmp_path):
    graph = GRAPHS["random"]
    whole = tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=starts(), record=True, noise=NOISE)
    tacit.simulate(algorithm, problem, graph, rounds=stop, start=starts(), record=True, noise=NOISE).save(
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
    for name in whole.history:
        np.testing.assert_array_equal(resumed.history[name], whole.history[name])


@plain
@graphs
def test_the_plain_method_reaches_the_centralised_optimum(algorithm, graph, parts):
    problem = tacit.Problem(parts, scale=3.0, l2=0.5)
    run = tacit.simulate(algorithm, problem, graph, rounds=4000, start=starts(), tolerance=1e-9)
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
