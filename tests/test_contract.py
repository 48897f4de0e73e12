"""One contract for every algorithm that the command line knows."""

import numpy as np
import pytest
from conftest import SIZES, make_parts

import tacit
from tacit.cli.names import ALGORITHMS
from tacit.release import Inbox

GRAPHS = {
    "ring": tacit.Graph.ring(5),
    "star": tacit.Graph.star(5),
    "complete": tacit.Graph.complete(5),
    "random": tacit.Graph.random(5, 6, seed=2),
}
ROUNDS = 8

algorithms = pytest.mark.parametrize("algorithm", [make() for make in ALGORITHMS.values()], ids=list(ALGORITHMS))
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
            states[i], release = algorithm.speak(states[i], problems[i], views[i], None, t)
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
    run = tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=starts(), record=True)
    apart, events = run_apart(algorithm, parts, graph, starts(), ROUNDS)
    np.testing.assert_allclose(run.trajectory, apart, atol=1e-9)
    assert [dict(counter) for counter in run.spent] == [
        {event: heard.count(event) for event in heard} for heard in events
    ]


@algorithms
@pytest.mark.parametrize("stop", range(ROUNDS + 1))
def test_stopping_saving_and_resuming_changes_nothing(algorithm, problem, stop, tmp_path):
    graph = GRAPHS["random"]
    whole = tacit.simulate(algorithm, problem, graph, rounds=ROUNDS, start=starts(), record=True)
    tacit.simulate(algorithm, problem, graph, rounds=stop, start=starts(), record=True).save(tmp_path / "run.npz")
    resumed = tacit.simulate(
        algorithm, problem, graph, rounds=ROUNDS, record=True, resume=tacit.Run.load(tmp_path / "run.npz")
    )
    np.testing.assert_array_equal(resumed.trajectory, whole.trajectory)
    for a, b in zip(resumed.state, whole.state, strict=True):
        np.testing.assert_array_equal(a, b)
    assert resumed.spent == whole.spent
    assert resumed.history.keys() == whole.history.keys()
    for name in whole.history:
        np.testing.assert_array_equal(resumed.history[name], whole.history[name])


@algorithms
@graphs
def test_the_plain_method_reaches_the_centralised_optimum(algorithm, graph, parts):
    problem = tacit.Problem(parts, scale=3.0, l2=0.5)
    run = tacit.simulate(algorithm, problem, graph, rounds=2000, start=starts(), tolerance=1e-9)
    optimum = problem.optimum()
    assert run.converged
    assert np.linalg.norm(run.estimate - optimum, axis=1).max() <= 1e-6 * np.linalg.norm(optimum)
    assert len(set(SIZES)) > 1  # the agents differ in size


@algorithms
def test_the_start_counts(algorithm, problem):
    """A data-independent start is public and used: another start, another path."""
    graph = GRAPHS["ring"]
    a = tacit.simulate(algorithm, problem, graph, rounds=2, start=starts(1), record=True)
    b = tacit.simulate(algorithm, problem, graph, rounds=2, start=starts(2), record=True)
    np.testing.assert_array_equal(a.trajectory[0], starts(1))
    assert np.abs(a.trajectory[1] - b.trajectory[1]).max() > 1e-3


@algorithms
def test_alone_on_a_graph_of_one(algorithm):
    problem = tacit.Problem(make_parts(sizes=(30,)), scale=3.0, l2=0.5)
    run = tacit.simulate(algorithm, problem, tacit.Graph.ring(1), rounds=5)
    np.testing.assert_allclose(run.model, problem.optimum(), atol=1e-8)
