"""ADMM under a linear constraint: consensus is Algorithm 1, resources are shared out optimally, costs are charged."""

import math

import numpy as np
import pytest
from conftest import make_parts
from custom_losses import logistic

import tacit
from tacit.algorithms import RandomAggregationADMM, SharingADMM
from tacit.core.losses import Logistic, Squared
from tacit.core.release import Inbox
from tacit.privacy.events import Free

N, D, ROUNDS = 5, 15, 25
RNG = np.random.default_rng(0)
START, RECORDED = RNG.normal(size=(N, D)), RNG.normal(size=(ROUNDS, N, D))
WEIGHTS = RNG.random(size=(ROUNDS, N, D))
GRAPHS = {"complete": tacit.Graph.complete(N), "star": tacit.Graph.star(N), "random": tacit.Graph.random(N, 6, seed=2)}
NOISE = tacit.SeededNoise(4)


def problem(d=D, **settings):
    return tacit.Problem(make_parts(d=d), **({"scale": 3.0, "l2": 0.5} | settings))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
@pytest.mark.parametrize("exact", [False, True], ids=["first order", "exact"])
@pytest.mark.parametrize("penalty", [6.0, (6.0, 5.0, 7.0, 4.0, 8.0)], ids=["one D", "own D"])
def test_consensus_is_algorithm_1(graph, exact, penalty):
    """With the same noise, and 1 - w for the share of rho: to the last digits, one round later."""
    p = problem(tolerance=1e-12)
    settings = {"penalty": penalty, "dual_step": 0.6, "exact": exact, "beta": 1.0}
    sharing, aggregation = SharingADMM.consensus(graph, D, **settings), RandomAggregationADMM(**settings)
    noise = tacit.RecordedNoise(RECORDED, uniform=1 - WEIGHTS)
    ours = tacit.simulate(sharing, p, graph, rounds=ROUNDS + 1, start=START, record=True, noise=noise)
    noise = tacit.RecordedNoise(RECORDED, uniform=WEIGHTS)
    theirs = tacit.simulate(aggregation, p, graph, rounds=ROUNDS, start=START, record=True, noise=noise)
    np.testing.assert_allclose(ours.trajectory[1:], theirs.trajectory, atol=1e-10)
    np.testing.assert_array_equal(ours.trajectory[0], ours.trajectory[1])
    for mine, other in zip(ours.spent, theirs.spent, strict=True):
        assert {e: n for e, n in mine.items() if not isinstance(e, Free)} == dict(other)


def test_the_step_is_that_of_the_paper():
    """(13) with Gamma_i, agent by agent."""
    d, m, D_i, zeta = 6, 2, 5.0, 0.2
    A, c = RNG.normal(size=(N, m, d)) / 3, RNG.normal(size=m)
    p, low, high = problem(d), (0.1, 0.2, 0.1, 0.0, 0.3), 0.6
    method = SharingADMM(A=A, c=c, penalty=D_i, dual_step=zeta, rho=(low, high), beta=1.0)
    noise = tacit.RecordedNoise(RECORDED[:, :, :d], uniform=WEIGHTS[:, :, :m])
    run = tacit.simulate(method, p, tacit.Graph.complete(N), rounds=11, start=START[:, :d], record=True, noise=noise)
    x, dual = START[:, :d], np.zeros(m)
    for k in range(10):
        gradients, new = p.gradient(x), np.empty_like(x)
        for i in range(N):
            rho = np.diag(low[i] + WEIGHTS[k, i, :m] * (high - low[i]))
            gamma = D_i * np.eye(d) - A[i].T @ rho @ A[i]
            others = sum(A[j] @ x[j] for j in range(N) if j != i)
            new[i] = (A[i].T @ (dual - rho @ (others - c)) + gamma @ x[i] - gradients[i]) / D_i + RECORDED[k, i, :d]
        x = new
        dual = dual - zeta * (sum(A[i] @ x[i] for i in range(N)) - c)
        np.testing.assert_allclose(run.trajectory[k + 2], x, atol=1e-8)


def test_one_agent_blocks_equal_one_block_and_a_run_resumes(tmp_path):
    d, graph = 6, tacit.Graph.complete(N)
    A = RNG.normal(size=(N, 2, d)) / 3
    method = SharingADMM(A=A, c=np.ones(2), penalty=5.0, beta=2.0)
    whole = tacit.simulate(method, problem(d), graph, rounds=6, start=START[:, :d], noise=NOISE)
    problems = [tacit.Problem([part], scale=3.0, l2=0.5) for part in make_parts(d=d)]
    views = [graph.view(np.array([i])) for i in range(N)]
    states = [method.init(problems[i], views[i], START[[i], :d], None) for i in range(N)]
    for t in range(6):
        spoken = [method.speak(states[i], problems[i], views[i], NOISE, t) for i in range(N)]
        said = np.concatenate([release.value for _, release in spoken])
        inboxes = [Inbox(said[graph.neighbours(i)], [0, N - 1]) for i in range(N)]
        states = [method.listen(spoken[i][0], inboxes[i], views[i], t) for i in range(N)]
    np.testing.assert_allclose(np.concatenate([s.x for s in states]), whole.estimate, atol=1e-12)
    tacit.simulate(method, problem(d), graph, rounds=3, start=START[:, :d], noise=NOISE).save(tmp_path / "run.npz")
    half = tacit.Run.load(tmp_path / "run.npz")
    rest = tacit.simulate(method, problem(d), graph, rounds=6, noise=NOISE, resume=half)
    np.testing.assert_array_equal(rest.estimate, whole.estimate)
    other = SharingADMM(A=A * 1.01, c=np.ones(2), penalty=5.0, beta=2.0)
    with pytest.raises(tacit.InputError, match="another algorithm"):
        tacit.simulate(other, problem(d), graph, rounds=6, noise=NOISE, resume=half)


def test_consensus_reaches_the_optimum():
    p, graph = problem(), GRAPHS["random"]
    method = SharingADMM.consensus(graph, D, penalty=3.0)
    run = tacit.simulate(method, p, graph, rounds=1500, start=START, noise=NOISE, tolerance=1e-10)
    optimum = p.optimum()
    assert run.converged
    assert np.linalg.norm(run.estimate - optimum, axis=1).max() < 1e-6 * np.linalg.norm(optimum)


@pytest.mark.parametrize("exact", [False, True], ids=["first order", "exact"])
def test_resources_are_shared_out_optimally(exact):
    """Everybody takes of d resources, of which there are c: against the linear system of the optimum."""
    d, c = 4, np.array([1.0, -2.0, 0.5, 3.0])
    p = problem(d, loss=Squared())
    method = SharingADMM(A=np.tile(np.eye(d), (N, 1, 1)), c=c, penalty=6.0, exact=exact)
    run = tacit.simulate(method, p, tacit.Graph.complete(N), rounds=1500, start=START[:, :d], noise=NOISE)
    hessian, linear = np.zeros((N * d, N * d)), np.zeros(N * d)
    for i, (X, y) in enumerate(make_parts(d=d)):
        place = slice(i * d, (i + 1) * d)
        hessian[place, place] = 3.0 / len(y) * X.T @ X + 0.5 * np.eye(d)
        linear[place] = 3.0 / len(y) * X.T @ y
    A = np.tile(np.eye(d), N)
    system = np.block([[hessian, -A.T], [A, np.zeros((d, d))]])
    expected = np.linalg.solve(system, np.concatenate([linear, c]))
    np.testing.assert_allclose(run.estimate.ravel(), expected[: N * d], atol=1e-6)
    np.testing.assert_allclose(run.state.dual, np.tile(expected[N * d :], (N, 1)), atol=1e-5)


def test_a_constraint_of_neighbours_needs_neighbours_only():
    """Two constraints on a path: agents 0, 1 share one, agents 1, 2, but not 3, the other."""
    d, rng = 3, np.random.default_rng(1)
    A = np.zeros((4, 4, d))
    A[:2, :2], A[1:3, 2:] = rng.normal(size=(2, 2, d)), rng.normal(size=(2, 2, d))
    p = tacit.Problem(make_parts(d=d)[:4], scale=3.0, l2=0.5)
    c = rng.normal(size=4)
    method = SharingADMM(A=A, c=c, penalty=30.0)
    run = tacit.simulate(method, p, tacit.Graph.path(4), rounds=4000, noise=NOISE, measure_every=4000)
    x, gradients = run.estimate, p.gradient(run.estimate)
    np.testing.assert_allclose(np.einsum("nmd,nd->m", A, x), c, atol=1e-8)
    for i in range(4):  # the optimum's gradients are A_i^T lambda, with one lambda for a row
        np.testing.assert_allclose(A[i].T @ run.state.dual[i], gradients[i], atol=1e-7)
    np.testing.assert_allclose(run.state.dual[0, :2], run.state.dual[1, :2], atol=1e-9)
    np.testing.assert_allclose(run.state.dual[1, 2:], run.state.dual[2, 2:], atol=1e-9)
    assert max(run.history["primal_residual"][-1], run.history["dual_residual"][-1]) < 1e-8


def test_what_leaves_is_a_times_x_and_x_is_charged():
    d = 6
    A = RNG.normal(size=(N, 2, d))
    p, said = problem(d), []
    method = SharingADMM(A=A, c=np.zeros(2), penalty=5.0, budget=tacit.Gaussian(4.0))
    graph = tacit.Graph.complete(N)

    def hear(t, turn, release):
        said.append(release.value)

    run = tacit.simulate(method, p, graph, rounds=4, start=START[:, :d], noise=NOISE, record=True, overheard=hear)
    for t in range(4):
        np.testing.assert_allclose(said[t], np.einsum("nmd,nd->nm", A, run.trajectory[t + 1]), atol=1e-12)
    assert tacit.plan(method, tacit.Facts.of(p), graph, 4).spent == run.spent
    for counter in run.spent:
        assert sorted(counter.values()) == [1, 3]
        assert [e.multiplier for e in counter if not isinstance(e, Free)] == [pytest.approx(4.0)]


def test_refusals():
    eye, zero = np.tile(np.eye(2), (N, 1, 1)), np.zeros(2)
    for settings, message in (
        ({"A": np.eye(2), "c": zero}, r"A is \(N, m, d\)"),
        ({"A": eye, "c": np.zeros(3)}, r"A is \(N, m, d\)"),
        ({"A": eye * math.nan, "c": zero}, "all finite"),
        ({"A": 0 * eye, "c": zero}, "A is zero"),
        ({"A": eye, "c": zero, "rho": (2.0, 1.0)}, "rho lies between"),
        ({"A": eye, "c": zero, "rho": (0.0, (1.0, 2.0))}, "one for each of 5 agents"),
        ({"A": eye, "c": zero, "groups": [0]}, "groups gives a whole number"),
        ({"A": eye, "c": zero, "groups": [0, 10**9]}, "groups gives a whole number from 0 to 1"),
        ({"A": eye, "c": zero, "groups": [[0], [1, 2]]}, "groups must be an array of numbers"),
        ({"A": [[[1.0], [2.0, 3.0]]], "c": zero}, "A must be an array of numbers"),
        ({"A": "text", "c": zero}, "A must be an array of numbers"),
        ({"A": eye * 1e200, "c": zero}, "largest entry of A is 1e\\+200"),
        ({"A": eye * 1e-200, "c": zero}, "largest entry of A is 1e-200"),
        ({"A": eye, "c": zero, "rho": 1.0}, "rho is two numbers"),
        ({"A": eye, "c": zero, "rho": (1.0,)}, "rho is two numbers"),
        ({"A": eye * [[1.0], [0.0]], "c": np.ones(2)}, "row 1 of the constraint is zero for all agents"),
        ({"A": np.ones((N, 2, 2)), "c": np.arange(2.0)}, "contradict each other"),
        ({"A": eye, "c": zero, "penalty": 0.0}, "penalty must be"),
        ({"A": eye, "c": zero, "dual_step": -1.0}, "dual_step must be"),
        ({"A": eye, "c": zero, "beta": 1.0, "budget": tacit.Pure(1.0)}, "by beta or by budget"),
    ):
        with pytest.raises(tacit.InputError, match=message):
            SharingADMM(**settings)
    for graph, penalty, message in (
        (tacit.Graph.ring(N), (1.0, 2.0), "penalty is given for 2 agents, the graph has 5"),
        (tacit.Graph.ring(1), 1.0, "consensus needs at least two"),
    ):
        with pytest.raises(tacit.InputError, match=message), np.errstate(all="raise"):
            SharingADMM.consensus(graph, 2, penalty=penalty)
    SharingADMM(A=np.ones((N, 2, 2)), c=np.full(2, 1 / 3))  # the same twice is no contradiction
    method = SharingADMM(A=eye, c=zero)
    with pytest.raises(tacit.GraphError, match="agents 0 and 2 share a row of the constraint but are not neighbours"):
        method.schedule(tacit.Graph.ring(N))
    with pytest.raises(tacit.InputError, match="A is for 5 agents, the graph has 4"):
        method.schedule(tacit.Graph.complete(4))
    with pytest.raises(tacit.InputError, match=r"Gamma_0 is not positive: rho \|\|A_i\|\|\^2 = 2 is above"):
        SharingADMM(A=eye, c=zero, rho=(0.0, 2.0)).schedule(tacit.Graph.complete(N))
    with pytest.raises(tacit.InputError, match="overshoots"):  # rho up to D is too much for five who react at once
        SharingADMM(A=eye, c=zero, rho=(0.0, 1.0)).schedule(tacit.Graph.complete(N))
    with pytest.raises(tacit.InputError, match="dual step 1 is too large"):
        SharingADMM(A=eye, c=zero, dual_step=1.0).schedule(tacit.Graph.complete(N))
    with pytest.raises(tacit.InputError, match="the problem has dimension 15, A has 2 columns"):
        tacit.simulate(method, problem(), tacit.Graph.complete(N), rounds=1)


@pytest.mark.parametrize("exact", [False, True], ids=["first order", "exact"])
def test_a_custom_copy_of_the_loss_gives_the_same_run(exact):
    graph = GRAPHS["random"]
    method = SharingADMM.consensus(graph, D, penalty=6.0, dual_step=0.6, exact=exact, beta=1.0)
    runs = [
        tacit.simulate(method, problem(tolerance=1e-12, loss=loss), graph, rounds=10, record=True, noise=NOISE)
        for loss in (Logistic(), logistic())
    ]
    np.testing.assert_allclose(runs[1].trajectory, runs[0].trajectory, atol=1e-9)
    assert runs[1].spent == runs[0].spent
