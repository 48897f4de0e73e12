"""A simulation on a cluster of several Ray nodes gives the numbers of one process, also if a process is killed."""

import os
import signal
import sys
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts
from ray_here import Here, assert_same

import tacit
from tacit.algorithms import ConsensusADMM, IncrementalADMM, RecycledADMM, SummedGradientDescent
from tacit.engines import Ray
from tacit.errors import EngineError, InputError
from tacit.simulation.shards import KEPT, Shards, hearing, shares

GRAPH = tacit.Graph.random(5, 7, seed=2)
METHOD, NOISE = RecycledADMM(budget=tacit.Gaussian(5.0)), tacit.SeededNoise(3)


@pytest.fixture
def problem():
    return tacit.Problem(make_parts(), scale=3.0, l2=0.5)


@pytest.fixture(scope="module")
def cluster():
    """Three nodes with a core each, as on three machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns about the other value
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        from ray.cluster_utils import Cluster

        small = {"num_cpus": 1, "object_store_memory": 100 << 20}
        nodes = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
        for _ in range(2):
            nodes.add_node(**small)
        engine = Ray(shards=2, address=nodes.address)
        with engine.connected():
            yield engine
        nodes.shutdown()


@pytest.mark.parametrize("engine", [Here(shards=2), Here(shards=3), Here(shards=5), Here(shards=9)])
def test_any_number_of_shards_and_a_resumed_run(engine, problem):
    settings = {"record": True, "noise": NOISE, "robust": "clipping", "measure_every": 3}
    graph = tacit.Graph.complete(5)
    half = tacit.simulate(METHOD, problem, graph, rounds=9, engine=engine, **settings)
    assert_same(
        tacit.simulate(METHOD, problem, graph, rounds=15, resume=half, engine=engine, **settings),
        tacit.simulate(METHOD, problem, graph, rounds=15, resume=half, **settings),
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_records_that_travel_in_small_pieces(sparse, monkeypatch):
    problem = tacit.Problem(make_parts(sparse=sparse), scale=np.arange(1.0, 6.0), l2=0.5)
    here = tacit.simulate(METHOD, problem, GRAPH, rounds=4, noise=NOISE)
    monkeypatch.setattr("tacit.simulation.shards._PIECE", 1000)  # an agent or two in each
    assert_same(tacit.simulate(METHOD, problem, GRAPH, rounds=4, noise=NOISE, engine=Here(shards=2)), here)


def test_what_shards_hear():
    """All rows that an agent hears are in the stack, in the order of the senders; no other shard's row is sent."""
    graph = tacit.Graph.random(40, 90, seed=1)
    bounds = shares(np.arange(40) % 7 + 1, 4)
    found = hearing(graph, bounds)
    assert len(found) == 4
    sent = {(k, j): bounds[k] + rows for k, hears in enumerate(found) for j, rows in hears.sends.items()}
    for j, hears in enumerate(found):
        own = np.arange(bounds[j], bounds[j + 1])
        others = [sent[k, j] for k in range(4) if (k, j) in sent]
        np.testing.assert_array_equal(hears.stack, np.concatenate([own, *others]))
        for place, agent in enumerate(own):
            heard = hears.stack[hears.indices[hears.indptr[place] : hears.indptr[place + 1]]]
            np.testing.assert_array_equal(heard, graph.neighbours(agent))
        assert set(np.concatenate(others)) == {i for a in own for i in graph.neighbours(a)} - set(own)


@pytest.mark.parametrize("sizes", [[1] * 9, [100, 1, 1], [1, 1, 100], [5, 0, 0, 0, 5], [3, 1, 4, 1, 5, 9, 2, 6]])
def test_shares(sizes):
    for shards in range(1, len(sizes) + 1):
        bounds = shares(np.array(sizes), shards)
        assert len(bounds) == shards + 1
        assert (np.diff(bounds) >= 1).all()
        assert (bounds[0], bounds[-1]) == (0, len(sizes))


ROUNDS, LOST = KEPT + 5, KEPT + 3  # a shard is lost some rounds after a checkpoint


@pytest.fixture
def lose(monkeypatch):
    """Runs with an engine, of which a shard is lost after round LOST, and says which rounds were done."""
    shards, seen, started = [], [], Shards._started

    def noted(self, k):
        shards.append(found := started(self, k))
        return found

    monkeypatch.setattr(Shards, "_started", noted)

    def run(kill, problem, noise, engine):
        def progress(done):
            seen.append(done)
            if seen.count(LOST) == 1 and done == LOST:
                kill(shards[1])

        settings = {"rounds": ROUNDS, "noise": noise, "record": True, "measure_every": 2}
        found = tacit.simulate(METHOD, problem, GRAPH, engine=engine, progress=progress, **settings)
        assert len(shards) == 3  # two, and one in place of the lost one
        assert seen == [*range(1, LOST + 1), *range(KEPT + 1, ROUNDS + 1)]
        return found, tacit.simulate(METHOD, problem, GRAPH, **settings)

    return run


def test_a_process_of_a_cluster_is_killed_and_no_number_changes(cluster, problem, lose):
    import ray

    def kill(shard):
        os.kill(ray.get(shard.__ray_call__.remote(lambda own: os.getpid())), signal.SIGKILL)

    assert_same(*lose(kill, problem, tacit.SeededNoise(3), cluster))


def test_noise_that_is_drawn_again_is_counted_again(problem, lose):
    found, whole = lose(lambda shard: shard.die(), problem, tacit.SecureNoise(), Here(shards=2))
    again = LOST - KEPT + 1  # the rounds since the checkpoint, and the one in which the shard was lost
    for spent, once in zip(found.spent, whole.spent, strict=True):
        assert spent == Counter({event: n + again // 2 for event, n in once.items()})  # every other round is free


def test_shards_that_are_lost_again_and_again_end_the_run(problem, monkeypatch):
    seen = []

    def progress(done):
        seen.append(done)
        if done == 2:
            shards[-1].die()

    shards, started = [], Shards._started
    monkeypatch.setattr(Shards, "_started", lambda self, k: shards.append(started(self, k)) or shards[-1])
    with pytest.raises(EngineError, match="lost 4 times after round 0"):
        tacit.simulate(METHOD, problem, GRAPH, rounds=5, noise=NOISE, engine=Here(shards=2), progress=progress)
    assert seen == [1, 2] * 4


def test_an_error_in_a_shard_is_the_error_of_the_run(cluster):
    parts = make_parts()
    parts[3][0][5] *= 9 / np.linalg.norm(parts[3][0][5])
    with pytest.raises(InputError, match=r"^agent 3 has a row of norm 9, above the 1 .*\)$"):
        tacit.simulate(METHOD, tacit.Problem(parts, l2=0.5), GRAPH, rounds=1, noise=NOISE, engine=cluster)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"exchange": tacit.exchange.SecretSharedSums()}, InputError, "plain messages"),
        ({"algorithm": SummedGradientDescent(step=0.5)}, InputError, "methods on totals"),
        ({"algorithm": IncrementalADMM(penalty=2.0, order=[0, 1, 2, 3, 4])}, InputError, "one agent at a time"),
        ({"overheard": print}, InputError, "overheard"),
        ({"engine": "ray"}, InputError, "engine is"),
        (
            {"engine": Here(shards=9), "problem": tacit.Problem([(np.eye(2), [1, -1])] * 9), "graph": 9},
            EngineError,
            "9",
        ),
    ],
)
def test_refusals(settings, error, message, problem):
    n = settings.pop("graph", 5)
    given = {"algorithm": ConsensusADMM(), "problem": problem, "engine": Here(shards=2)} | settings
    with pytest.raises(error, match=message):
        tacit.simulate(graph=tacit.Graph.ring(n), rounds=1, **given)
