"""The loop itself: what it counts, when it stops, what it refuses, and that it carries a token as well."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import ConsensusADMM, GradientDescent, IncrementalADMM
from tacit.core.schedule import Cycle
from tacit.privacy.events import Free, Gaussian
from tacit.privacy.mechanisms import post_processed

GRAPH = tacit.Graph.random(5, 6, seed=2)


@pytest.fixture
def problem():
    return tacit.Problem(make_parts(), scale=3.0, l2=0.5)


def test_history_counts_messages_and_bytes(problem):
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=3)
    assert run.history["messages"].tolist() == [0, 12, 24, 36]  # each of 6 edges, both ways
    assert run.history["bytes"].tolist() == [0, 12 * 15 * 8, 24 * 15 * 8, 36 * 15 * 8]
    assert run.history["loss"][0] == pytest.approx(np.log(2))
    assert run.history["consensus_error"][0] == 0.0
    np.testing.assert_allclose(run.history["loss"][-1], problem.average_loss(run.estimate).mean())
    assert run.trajectory is None


def test_the_history_can_be_sparse(problem):
    every = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=7)
    some = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=7, measure_every=3)
    assert every.history["round"].tolist() == list(range(8))
    assert some.history["round"].tolist() == [0, 3, 6, 7]
    for name, values in some.history.items():
        np.testing.assert_array_equal(values, every.history[name][[0, 3, 6, 7]])
    np.testing.assert_array_equal(some.estimate, every.estimate)
    part = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=4, measure_every=3)
    whole = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=7, measure_every=3, resume=part)
    assert whole.history["round"].tolist() == [0, 3, 4, 6, 7]
    np.testing.assert_array_equal(whole.estimate, every.estimate)
    with pytest.raises(tacit.InputError, match="measure_every"):
        tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=7, measure_every=0)


def test_a_long_private_run_is_measured_sparsely_and_ends_the_same(problem):
    """State, model and what was spent are those of a run that is measured in every round."""
    method = GradientDescent(step=0.1, mixing=0.2, budget=Gaussian(3.0))

    def run(rounds, source=tacit.SecureNoise, **how):
        noise = source(random_bytes=np.random.default_rng(3).bytes) if source is tacit.SecureNoise else source(3)
        return tacit.simulate(method, problem, GRAPH, rounds=rounds, noise=noise, **how)

    sparse, every = run(121), run(121, measure_every=1)
    assert sparse.history["round"].tolist() == [*range(0, 121, 2), 121]
    assert every.history["round"].tolist() == list(range(122))
    for name, values in sparse.history.items():
        np.testing.assert_array_equal(values, every.history[name][sparse.history["round"].astype(int)])
    for found, wanted in zip(sparse.state, every.state, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(sparse.model, every.model)
    assert sparse.spent == every.spent
    assert run(100).history["round"].tolist() == list(range(101))
    assert len(run(121, record=True).trajectory) == 122  # what is recorded is recorded whole
    assert len(run(121, source=tacit.SeededNoise).history["round"]) == 122


def test_stops_when_the_residuals_are_small(problem):
    seen = []
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=500, tolerance=1e-6, progress=seen.append)
    assert run.converged
    assert run.rounds < 500
    assert seen == list(range(1, run.rounds + 1))
    worst = np.maximum(run.history["primal_residual"], run.history["dual_residual"])
    assert worst[-1] <= 1e-6 < worst[1:-1].min()
    assert not tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2, tolerance=1e-6).converged


def test_resuming_asks_again_whether_it_converged(problem):
    loose = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=500, tolerance=1e-2)
    assert loose.converged
    tight = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=500, tolerance=1e-8, resume=loose)
    assert tight.rounds == tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=500, tolerance=1e-8).rounds
    on = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=loose.rounds + 3, resume=loose)
    assert on.rounds == loose.rounds + 3
    assert not on.converged


def test_saving_what_was_loaded(problem, tmp_path):
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2)
    run.save(tmp_path / "a.npz")
    tacit.Run.load(tmp_path / "a.npz").save(tmp_path / "b.npz")
    again = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2, resume=tacit.Run.load(tmp_path / "b.npz"))
    np.testing.assert_array_equal(again.estimate, run.estimate)
    with pytest.raises(tacit.InputError, match="does not exist"):
        run.save(tmp_path / "nowhere" / "c.npz")


def test_a_damaged_run_does_not_go_on(problem):
    for damage in (
        lambda run: setattr(run, "rounds", 5),
        lambda run: setattr(run, "spent", run.spent[:-1]),
        lambda run: setattr(run, "state", run.state._replace(dual=run.state.dual[:1])),
        lambda run: setattr(run, "state", run.state._replace(f=run.state.f.astype(np.float32))),
    ):
        run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2)
        damage(run)
        with pytest.raises(tacit.InputError, match="damaged"):
            tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=4, resume=run)


def test_the_start_is_not_changed(problem):
    start = np.ones((5, 15))
    tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2, start=start)
    np.testing.assert_array_equal(start, 1.0)


def test_history_follows_its_definitions():
    problem = tacit.Problem(make_parts(), scale=np.array([1.0, 2.0, 3.0, 4.0, 5.0]), l2=0.5)
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=3, start=np.eye(5, 15))
    f, mean = run.estimate, run.model
    assert run.history["consensus_error"][-1] == pytest.approx(np.linalg.norm(f - mean, axis=1).max())
    weighted = (problem.average_loss(mean) * problem.scale).sum() / 15
    assert run.history["model_loss"][-1] == pytest.approx(weighted)
    primal, dual = ConsensusADMM().residuals(run.state, GRAPH.view())
    assert run.history["primal_residual"][-1] == primal.max() > primal.min()
    assert run.history["dual_residual"][-1] == dual.max() > dual.min()
    assert np.isnan(run.history["dual_residual"][0])
    assert [sum(c.values()) for c in run.spent] == [3] * 5


def test_resume_refuses_what_is_not_its_own(problem, tmp_path):
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2)
    other = tacit.Problem(make_parts(seed=1), scale=3.0, l2=0.5)
    refused = [
        (ConsensusADMM(penalty=2.0), problem, GRAPH, {}, "another algorithm"),
        (ConsensusADMM(), other, GRAPH, {}, "another problem"),
        (ConsensusADMM(), problem, tacit.Graph.ring(5), {}, "another graph"),
        (ConsensusADMM(), problem, GRAPH, {"record": True}, "was not recorded"),
        (ConsensusADMM(), problem, GRAPH, {"start": 0.0}, "start is for a new run"),
        (ConsensusADMM(), problem, GRAPH, {"rounds": 1}, "2 rounds already"),
    ]
    for algorithm, p, graph, options, message in refused:
        with pytest.raises(tacit.InputError, match=message):
            tacit.simulate(algorithm, p, graph, **{"rounds": 4, "resume": run, **options})


def test_a_broken_file_is_not_a_run(tmp_path):
    for name, content in {"text.npz": b"hello", "empty.npz": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(tacit.InputError, match="not a saved run"):
            tacit.Run.load(tmp_path / name)
    np.savez(tmp_path / "arrays.npz", a=np.ones(2))
    with pytest.raises(tacit.InputError, match="not a saved run"):
        tacit.Run.load(tmp_path / "arrays.npz")
    with pytest.raises(tacit.InputError, match="not a saved run"):
        tacit.Run.load(tmp_path / "missing.npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": np.zeros(14)}, r"start has shape \(14,\); it must be \(5, 15\) or \(15,\)"),
        ({"start": np.zeros((4, 15))}, r"start has shape \(4, 15\)"),
        ({"start": np.full(15, np.nan)}, "start must be finite"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"tolerance": 0.0}, "tolerance must be a positive number"),
        ({"tolerance": np.nan}, "tolerance must be a positive number"),
        ({"rounds": -1}, "rounds must be a whole number, 0 or more"),
        ({"measure_every": True}, "measure_every must be a whole number, 1 or more, not True"),
        ({"exchange": "plain"}, "exchange is Plain"),
        ({"exchange": tacit.exchange.Plain}, "exchange is Plain"),
        ({"resume": "x.npz"}, "resume is a Run, such as Run.load reads"),
        ({"overheard": 5}, "overheard is a function"),
    ],
)
def test_bad_arguments(problem, options, message):
    with pytest.raises(tacit.InputError, match=message):
        tacit.simulate(ConsensusADMM(), problem, GRAPH, **{"rounds": 1, **options})


def test_graph_and_problem_must_agree(problem):
    with pytest.raises(tacit.InputError, match="the graph has 4 agents, the problem 5"):
        tacit.simulate(ConsensusADMM(), problem, tacit.Graph.ring(4), rounds=1)


class TokenState(NamedTuple):
    own: np.ndarray  # (n, d)
    token: np.ndarray  # (n, d) the token as last seen


@dataclass(frozen=True)
class TokenSum:
    """Each holder adds its own start to the token, once: after a full cycle the token is the sum of all."""

    order: tuple[int, ...]

    def schedule(self, graph):
        return Cycle(graph, self.order)

    def init(self, problem, view, start, heard):
        return TokenState(own=start, token=np.zeros_like(start))

    def speak(self, s, problem, view, noise, t):
        assert s.own.shape == (1, problem.dimension)
        token = s.token + s.own
        return TokenState(own=np.zeros_like(s.own), token=token), post_processed(token)

    def listen(self, s, inbox, view, t):
        return s._replace(token=inbox.sum())

    def estimate(self, s):
        return s.token

    def residuals(self, s, view):
        return np.zeros(len(s.own)), np.zeros(len(s.own))


def test_the_loop_carries_a_token(problem):
    start = np.random.default_rng(0).normal(size=(5, 15))
    order = (0, 2, 4, 1, 3)
    run = tacit.simulate(TokenSum(order), problem, tacit.Graph.complete(5), rounds=5, start=start)
    np.testing.assert_allclose(run.estimate[0], start.sum(axis=0))  # back at the first holder
    assert run.history["messages"].tolist() == [0, 1, 2, 3, 4, 5]
    assert [sum(counter.values()) for counter in run.spent] == [1] * 5
    assert all(isinstance(event, Free) for counter in run.spent for event in counter)
    assert run.private


def test_what_is_not_known_has_not_converged():
    """The first holder is at its own minimum, so nothing moves in the first tick; the others have not spoken yet."""
    parts = [([[0.5, 0.5], [0.5, 0.5]], [1, -1])] + [([[1.0, 0.3], [0.2, 0.4]], [1, -1])] * 4
    problem = tacit.Problem(parts, l2=0.1)
    run = tacit.simulate(IncrementalADMM(), problem, tacit.Graph.ring(5), rounds=5000, tolerance=1e-8)
    assert run.converged
    assert run.rounds > 5
    np.testing.assert_allclose(run.model, problem.optimum(), atol=1e-6)


def test_a_cycle_follows_edges():
    with pytest.raises(tacit.GraphError, match="from 0 to 2, which are not neighbours"):
        Cycle(tacit.Graph.ring(5), [0, 2, 1, 3, 4])
    with pytest.raises(tacit.GraphError, match="each of the 5 agents once"):
        Cycle(tacit.Graph.ring(5), [0, 1, 2, 3])


def test_a_run_of_the_format_before_goes_on(problem, tmp_path):
    """Format 2 had the edges of the graph, and the events of every agent in a list."""
    run = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=2)
    run.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as archive:
        arrays = dict(archive)
    meta = json.loads(str(arrays["meta"]))
    assert meta["format"] == 3
    ((spent,), which) = meta["spent"], arrays.pop("spent")
    assert which.tolist() == [0] * 5  # all have released alike
    meta |= {"format": 2, "spent": [spent] * 5, "identity": meta["identity"] | {"graph": json.dumps(list(GRAPH.edges))}}
    np.savez(tmp_path / "old.npz", **(arrays | {"meta": np.array(json.dumps(meta))}))
    old = tacit.Run.load(tmp_path / "old.npz")
    assert old.spent == run.spent
    again = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=4, resume=old)
    whole = tacit.simulate(ConsensusADMM(), problem, GRAPH, rounds=4)
    np.testing.assert_array_equal(again.estimate, whole.estimate)
    assert again.spent == whole.spent
    other = tacit.Graph.complete(5)
    with pytest.raises(tacit.InputError, match="another graph"):
        tacit.simulate(ConsensusADMM(), problem, other, rounds=4, resume=old)
