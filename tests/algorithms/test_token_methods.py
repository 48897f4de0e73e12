"""Token methods and their rivals: the independent check, the laws, the optimum, the messages."""

import itertools
import warnings

import networkx as nx
import numpy as np
import pytest
import token_reference as reference

import tacit
from tacit.algorithms import (
    DGD,
    EXTRA,
    Between,
    CensoredADMM,
    ConsensusADMM,
    IncrementalADMM,
    ParallelWalkADMM,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.composite.prox import L1
from tacit.core.hamiltonian import hamiltonian_cycle
from tacit.core.release import Inbox
from tacit.core.schedule import RandomWalk, Walks
from tacit.exchange import Plain
from tacit.simulation.tick import Blocks, tick

N, D = 6, 3
GRAPH = tacit.Graph.random_with_cycle(N, 10, seed=1)
NEIGHBOURS = [GRAPH.neighbours(i).tolist() for i in range(N)]
LOSSES = {"squared": tacit.losses.Squared(), "logistic": tacit.losses.Logistic()}
NOISE = tacit.SeededNoise(3)
SCALE, L2 = 2.0, 0.1


def make_parts(loss, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=D)
    parts = []
    for rows in (4, 9, 6, 12, 7, 10):
        X = rng.normal(size=(rows, D))
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        y = X @ truth + 0.3 * rng.normal(size=rows)
        parts.append((X, y if loss == "squared" else np.where(y > 0, 1.0, -1.0)))
    return parts


def make(loss):
    """The problem for tacit and for the reference."""
    parts = make_parts(loss)
    problem = tacit.Problem(parts, loss=LOSSES[loss], scale=SCALE, l2=L2, tolerance=1e-12)
    return problem, reference.Functions(parts, loss, SCALE, L2)


def ticks(algorithm, problem, rounds, start, graph=GRAPH):
    """The loop of `simulate`, with the state of every tick."""
    schedule, view = algorithm.schedule(graph), graph.view()
    state = algorithm.init(problem, view, start, Inbox(start, graph.indptr, graph.indices))
    blocks, link = Blocks(problem, view), Plain().open(graph)
    for t in range(rounds):
        turn = schedule.turn(t)
        state, release = tick(algorithm, state, blocks, NOISE, turn, t, link)
        yield t, turn, state, release


def way(algorithm, rounds, first=0, graph=GRAPH):
    schedule = algorithm.schedule(graph)
    return [int(schedule.turn(t).speakers[0]) for t in range(first, rounds)]


def starts(seed=5):
    return np.random.default_rng(seed).normal(size=(N, D))


losses = pytest.mark.parametrize("loss", list(LOSSES))
exact = pytest.mark.parametrize("exact", [True, False], ids=["exact", "first-order"])
INCREMENTAL = {
    "zero": {},
    "random start": {"initial": 10.0},
    "random start, as printed": {"initial": 10.0, "as_printed": True},
    "gamma": {"initial": 10.0, "gamma": Between(0.9, 1.1)},
    "gamma for each": {"gamma": Between((0.5, 0.9, 0.8, 0.7, 1.0, 0.6), (1.5, 1.1, 1.2, 1.3, 1.0, 1.4))},
    "noise": {"initial": 1.0, "deviation": 0.1},
    "offset": {"offset": 5.0},
    "offset, random start and noise": {"offset": 5.0, "initial": 3.0, "deviation": 0.01},
    "offset, random start and gamma, as printed": {
        "offset": 5.0,
        "initial": 3.0,
        "gamma": Between(0.9, 1.1),
        "as_printed": True,
    },
}
variants = pytest.mark.parametrize("options", INCREMENTAL.values(), ids=list(INCREMENTAL))
orders = pytest.mark.parametrize("order", [None, RandomWalk(2), RandomWalk(1, choice=2)], ids=["cycle", "walk", "rwc"])


def drawn_start(options, start, rho):
    """x_i^0 and y_i^0 of Algorithm 2, with the offset, agent by agent, from the draws that the agents make."""
    draws = [NOISE.draw("uniform", 1.0, 2 * D, np.array([i]), 0)[0] for i in range(N)]
    sign = -1 if options.get("as_printed") else 1
    r = [options.get("offset", 0.0) * (2 * draw[D:] - 1) for draw in draws]
    x = [start[i] + options.get("initial", 0.0) * draws[i][:D] for i in range(N)]
    y = []
    for i in range(N):
        secret = len(NEIGHBOURS[i]) * r[i] - sum(r[j] for j in NEIGHBOURS[i])  # S_i^0 = x_i^0 - y_i^0/rho
        y.append(rho * (sign * x[i] - secret))
    return np.array(x), np.array(y)


@losses
@exact
@orders
@variants
def test_incremental_admm_equals_the_plain_loops(loss, exact, order, options):
    problem, f = make(loss)
    rho, rounds = 6.0, 4 * N
    method = IncrementalADMM(penalty=rho, exact=exact, order=order, **options)
    prepares = "initial" in options or "offset" in options
    x, y = drawn_start(options, starts(), rho)
    gamma = omega = None
    if "gamma" in options:
        low, high = (np.broadcast_to(b, N) for b in (options["gamma"].low, options["gamma"].high))

        def gamma(i, k):
            return low[i] + NOISE.draw("uniform", 1.0, 1, np.array([i]), k)[0, 0] * (high[i] - low[i])

    if "deviation" in options:

        def omega(i, k):
            return NOISE.add("gaussian", np.zeros((1, D)), options["deviation"], np.array([i]), k)[0]

    run = reference.incremental(f, way(method, rounds + prepares, prepares), x, y, rho, exact, gamma, omega)
    wrong = 2 * x.mean(axis=0) if options.get("as_printed") else 0.0  # what (5) carries along, see below
    for t, turn, state, release in ticks(method, problem, rounds + prepares, starts()):
        if t < prepares:
            np.testing.assert_allclose(state.x, x, atol=1e-12)
            np.testing.assert_allclose(state.y, y, atol=1e-12)
            continue
        expected = next(run)
        np.testing.assert_allclose(state.x, expected["x"], atol=1e-8)
        np.testing.assert_allclose(state.y, expected["y"], atol=1e-8)
        np.testing.assert_allclose(release.value[0], expected["z"], atol=1e-8)
        np.testing.assert_array_equal(state.token[turn.listeners[0]], release.value[0])
        # (5) equals (4c)
        np.testing.assert_allclose(release.value[0], (state.x - state.y / rho).mean(axis=0) - wrong, atol=1e-10)
    assert next(run, None) is None


@losses
@exact
@pytest.mark.parametrize(("tokens", "proximal"), [(1, 0.0), (3, 0.0), (4, 2.0), (8, 1.0)])
def test_parallel_walks_equal_the_plain_loops(loss, exact, tokens, proximal):
    problem, f = make(loss)
    method = ParallelWalkADMM(tokens=tokens, penalty=1.5, proximal=proximal, exact=exact, walk=RandomWalk(4, choice=2))
    run = reference.parallel(f, way(method, 60 + tokens), starts(), 1.5, proximal, tokens, exact)
    whole = np.zeros((tokens, D))
    for t, _, state, release in ticks(method, problem, 60, starts()):
        expected = next(run)
        np.testing.assert_allclose(state.x, expected["x"], atol=1e-8)
        np.testing.assert_allclose(state.y, expected["y"], atol=1e-8)
        whole[t % tokens] = release.value[0]
        np.testing.assert_allclose(whole, expected["z"], atol=1e-8)
        # z_m = 1/N sum_i (x_{i,m} - y_{i,m}/rho)
        np.testing.assert_allclose(whole, (state.put - state.y / 1.5).mean(axis=0), atol=1e-12)


@exact
def test_one_parallel_walk_is_the_walk(exact):
    problem, _ = make("logistic")
    options = {"rounds": 40, "start": starts(), "record": True}
    one = tacit.simulate(
        ParallelWalkADMM(tokens=1, penalty=3.0, exact=exact, walk=RandomWalk(2)), problem, GRAPH, **options
    )
    walk = tacit.simulate(WalkADMM(penalty=3.0, exact=exact, order=RandomWalk(2)), problem, GRAPH, **options)
    np.testing.assert_allclose(one.trajectory, walk.trajectory, atol=1e-10)


@losses
@exact
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_censored_admm_equals_the_plain_loops(loss, exact, alpha):
    problem, f = make(loss)
    method = CensoredADMM(penalty=0.8, alpha=alpha, ratio=0.85, exact=exact)
    run, heard = reference.censored(f, NEIGHBOURS, starts(), 0.8, alpha, 0.85, exact), set()
    for _, _, state, release in ticks(method, problem, 40, starts()):
        expected = next(run)
        np.testing.assert_allclose(state.f, expected["x"], atol=1e-8)
        np.testing.assert_array_equal(~release.silent, expected["spoke"])
        heard |= set(expected["spoke"])
    assert heard == ({True} if alpha == 0 else {True, False})


def test_without_a_threshold_no_agent_is_censored():
    problem, _ = make("logistic")
    options = {"rounds": 30, "start": starts(), "record": True}
    plain = tacit.simulate(ConsensusADMM(penalty=0.8), problem, GRAPH, **options)
    free = tacit.simulate(CensoredADMM(penalty=0.8, alpha=0.0), problem, GRAPH, **options)
    np.testing.assert_allclose(free.trajectory, plain.trajectory, atol=1e-12)
    np.testing.assert_array_equal(free.history["messages"], plain.history["messages"])


@losses
def test_the_imbalance_of_censored_admm_is_that_of_its_objective(loss):
    problem, _ = make(loss)
    *_, (_, _, state, _) = ticks(CensoredADMM(), problem, 12, starts())
    assert np.abs(state.f - state.said).max() > 0.01  # somebody is silent
    np.testing.assert_allclose(state.imbalance, problem.gradient(state.f) + 2 * state.dual, atol=1e-10)


@losses
@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_dgd_equals_the_plain_loops(loss, decay):
    problem, f = make(loss)
    run = tacit.simulate(
        DGD(step=0.3, mixing=0.15, decay=decay), problem, GRAPH, rounds=30, start=starts(), record=True
    )
    W = reference.weights(NEIGHBOURS, 0.15)
    plain = reference.dgd(f, W, starts(), lambda k: 0.3 / (k + 1) ** decay)
    np.testing.assert_allclose(run.trajectory[1:], [s["x"] for s in itertools.islice(plain, 30)], atol=1e-10)


@losses
def test_extra_equals_the_plain_loops(loss):
    problem, f = make(loss)
    run = tacit.simulate(EXTRA(step=0.3, mixing=0.15), problem, GRAPH, rounds=30, start=starts(), record=True)
    plain = reference.extra(f, reference.weights(NEIGHBOURS, 0.15), starts(), 0.3)
    np.testing.assert_allclose(run.trajectory[1:], [s["x"] for s in itertools.islice(plain, 30)], atol=1e-10)


@losses
@pytest.mark.parametrize("regulariser", [None, L1(0.05)], ids=["plain", "l1"])
def test_walk_proximal_gradient_equals_the_plain_loops(loss, regulariser):
    problem, f = make(loss)
    method, start = WalkProximalGradient(step=0.4, regulariser=regulariser), starts()[0]
    run = tacit.simulate(method, problem, GRAPH, rounds=30, start=start, record=True)

    def prox(v):
        return np.sign(v) * np.maximum(np.abs(v) - 0.4 * 0.05, 0.0) if regulariser else v

    plain = reference.walk_proximal_gradient(f, way(method, 30), start, 0.4, prox)
    for t, expected in enumerate(plain):
        np.testing.assert_allclose(run.trajectory[t + 1, expected["holder"]], expected["z"], atol=1e-10)


METHODS = {  # method of a problem with smoothness L, and ticks in which it is there
    "i-admm": lambda L: (IncrementalADMM(penalty=1.5 * L), 1500),
    "i-admm first-order": lambda L: (IncrementalADMM(penalty=2 * L, exact=False), 1500),
    "i-admm random start": lambda L: (IncrementalADMM(penalty=1.5 * L, initial=10.0), 1500),
    "i-admm offset": lambda L: (IncrementalADMM(penalty=1.5 * L, offset=10.0), 1500),
    "pi-admm1": lambda L: (IncrementalADMM(penalty=2 * L, initial=10.0, gamma=Between(0.9, 1.1)), 1500),
    "w-admm": lambda L: (WalkADMM(penalty=1.5 * L), 2500),
    "w-admm first-order": lambda L: (WalkADMM(penalty=2 * L, exact=False), 2500),
    "ipw-admm": lambda L: (ParallelWalkADMM(tokens=3, penalty=L / 2), 3000),
    "ipw-admm first-order": lambda L: (ParallelWalkADMM(tokens=3, penalty=L / 2, proximal=L / 2, exact=False), 3000),
    "coca": lambda L: (CensoredADMM(penalty=L / 8), 300),
    "coca first-order": lambda L: (CensoredADMM(penalty=L / 3, exact=False), 300),
    "extra": lambda L: (EXTRA(step=0.5 / L, mixing=GRAPH.mixing), 600),
    "wpg": lambda L: (WalkProximalGradient(step=1 / L), 600),
}


@losses
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_without_noise_the_method_reaches_the_optimum(loss, method):
    problem, _ = make(loss)
    algorithm, rounds = method(problem.smoothness().max())
    run = tacit.simulate(algorithm, problem, GRAPH, rounds=rounds, noise=NOISE, measure_every=rounds)
    optimum = problem.optimum()
    assert np.linalg.norm(run.estimate - optimum, axis=1).max() <= 1e-6 * np.linalg.norm(optimum)
    assert run.history["primal_residual"][-1] <= 1e-5
    assert run.history["dual_residual"][-1] <= 1e-5
    assert not run.private


def dgd_distance(problem, step, decay, rounds):
    method = DGD(step=step, mixing=GRAPH.mixing, decay=decay)
    run = tacit.simulate(method, problem, GRAPH, rounds=rounds, measure_every=rounds)
    optimum = problem.optimum()
    return np.linalg.norm(run.estimate - optimum, axis=1).max() / np.linalg.norm(optimum)


@losses
def test_dgd_with_a_constant_step_ends_at_a_distance_in_proportion_to_it(loss):
    """Yuan, Ling, Yin, theorem 4: O(step/(1 - beta)) for strongly convex objectives; here half the step, half of it."""
    problem, _ = make(loss)
    L = problem.smoothness().max()
    far, near, nearest = (dgd_distance(problem, s / L, 0.0, 2500) for s in (0.1, 0.05, 0.025))
    assert 1.8 < far / near < 2.1
    assert 1.9 < near / nearest < 2.05
    assert nearest > 1e-3


@losses
def test_dgd_with_a_diminishing_step_comes_as_near_as_its_step_is_small(loss):
    """The distance follows the step, here k^-1/2: four times the rounds, half the distance."""
    problem, _ = make(loss)
    L = problem.smoothness().max()
    early, late = (dgd_distance(problem, 1 / L, 0.5, rounds) for rounds in (1000, 4000))
    assert late < 0.01
    assert early / late == pytest.approx(2.0, rel=0.05)


def test_a_regulariser_is_part_of_the_objective():
    """0 is in 1/N sum_i grad f_i + the subgradient of r."""
    problem, _ = make("squared")
    method = WalkProximalGradient(step=0.5 / problem.smoothness().max(), regulariser=L1(0.2))
    run = tacit.simulate(method, problem, GRAPH, rounds=2000, measure_every=2000)
    z, slope = run.model, problem.gradient(np.tile(run.model, (N, 1))).mean(axis=0)
    assert 0 < np.count_nonzero(z) < D
    np.testing.assert_allclose(slope[z != 0], -0.2 * np.sign(z[z != 0]), atol=1e-8)
    assert np.all(np.abs(slope[z == 0]) <= 0.2)


@losses
@exact
def test_as_printed_the_random_start_ends_at_a_wrong_point(loss, exact):
    """y_i^0 = -rho v_i: (5) keeps z - 1/N sum_i (x_i - y_i/rho) at -2/N sum_i v_i. Where all rest, x_i = z and
    y_i = grad f_i, so that sum_i grad f_i(z) = -2 rho sum_i v_i: the minimiser with a linear term 2 rho sum_i v_i."""
    problem, _ = make(loss)
    rho = 1.5 * problem.smoothness().max()
    method = IncrementalADMM(penalty=rho, exact=exact, initial=0.3, as_printed=True)
    run = tacit.simulate(method, problem, GRAPH, rounds=2500, noise=NOISE, record=True)
    v = run.trajectory[1]
    np.testing.assert_allclose(problem.gradient(run.estimate).sum(axis=0), -2 * rho * v.sum(axis=0), rtol=1e-6)
    wrong = problem.pooled().argmin(linear=2 * rho * v.sum(axis=0), weight=0, centre=0)[0]
    np.testing.assert_allclose(run.estimate, np.tile(wrong, (N, 1)), rtol=1e-6)
    assert np.linalg.norm(wrong - problem.optimum()) > 0.3 * np.linalg.norm(problem.optimum())


BOTH_WAYS = 2 * len(GRAPH.edges)
COUNTS = {  # messages of one tick
    "i-admm": (IncrementalADMM(penalty=9.0), 1),
    "w-admm": (WalkADMM(penalty=9.0), 1),
    "ipw-admm": (ParallelWalkADMM(tokens=4), 1),
    "wpg": (WalkProximalGradient(step=0.1), 1),
    "dgd": (DGD(step=0.1, mixing=0.1), BOTH_WAYS),
    "extra": (EXTRA(step=0.1, mixing=0.1), BOTH_WAYS),
}


@pytest.mark.parametrize(("method", "each"), COUNTS.values(), ids=list(COUNTS))
def test_messages_and_bytes(method, each):
    problem, _ = make("logistic")
    run = tacit.simulate(method, problem, GRAPH, rounds=5)
    np.testing.assert_array_equal(run.history["messages"], each * np.arange(6))
    np.testing.assert_array_equal(run.history["bytes"], each * np.arange(6) * 8 * D)


def test_a_preparation_costs_messages_only_if_it_is_aloud():
    problem, _ = make("logistic")
    for options, first in (({"initial": 1.0}, 0), ({"offset": 1.0}, BOTH_WAYS)):
        run = tacit.simulate(IncrementalADMM(penalty=9.0, **options), problem, GRAPH, rounds=3, noise=NOISE)
        assert run.history["messages"].tolist() == [0, first, first + 1, first + 2]


def test_the_censored_send_nothing():
    problem, _ = make("logistic")
    spoken, method = 0, CensoredADMM(penalty=0.8)
    run = tacit.simulate(method, problem, GRAPH, rounds=40, start=starts())
    for t, _, _, release in ticks(method, problem, 40, starts()):
        spoken += int((GRAPH.degree * ~release.silent).sum())
        assert run.history["messages"][t + 1] == spoken
    assert 0 < spoken < 40 * BOTH_WAYS
    assert run.history["bytes"][-1] == spoken * 8 * D
    assert [sum(counter.values()) for counter in run.spent] == [40] * N  # silence tells something, too


def test_a_walk_with_choice_visits_more_evenly():
    """Each walk goes from neighbour to neighbour; the choice is the agent that was visited least."""
    graph = tacit.Graph.random_with_cycle(30, 90, seed=0)
    spread = {}
    for choice in (1, 3):
        hops = way(WalkADMM(order=RandomWalk(7, choice=choice)), 3000, graph=graph)
        assert all(b in graph.neighbours(a) for a, b in itertools.pairwise(hops))
        visits = np.bincount(hops, minlength=30)
        spread[choice] = visits.max() / visits.min()
    assert spread[3] < 1.5 < spread[1]


def test_parallel_walks_take_turns():
    schedule, tokens = ParallelWalkADMM(tokens=4).schedule(GRAPH), 4
    for t in range(100):
        turn, following = schedule.turn(t), schedule.turn(t + tokens)
        assert turn.listeners == following.speakers
        assert turn.listeners[0] in GRAPH.neighbours(turn.speakers[0])
    assert len({int(schedule.turn(m).speakers[0]) for m in range(tokens)}) == tokens  # nobody starts with two


def test_numpy_integers_are_whole_numbers():
    problem, _ = make("logistic")
    two, numpy_two = (tacit.simulate(ParallelWalkADMM(tokens=m), problem, GRAPH, rounds=4) for m in (2, np.int64(2)))
    np.testing.assert_array_equal(numpy_two.estimate, two.estimate)


def test_bad_input():
    problem, _ = make("logistic")
    zero = {"rounds": 1, "start": 0.0}
    refused = [
        (lambda: ParallelWalkADMM(tokens=0), "tokens must be a whole number, 1 or more, not 0"),
        (lambda: ParallelWalkADMM(tokens=2, penalty=0.0), "penalty must be a positive number"),
        (lambda: ParallelWalkADMM(tokens=2, proximal=-1.0), "proximal must be zero or a positive number"),
        (lambda: ParallelWalkADMM(tokens=2, walk=3), "the walk is a RandomWalk"),
        (lambda: CensoredADMM(ratio=1.0), "a ratio below 1, not 1.0"),
        (lambda: CensoredADMM(alpha=-1.0), "alpha must be zero or a positive number"),
        (lambda: DGD(step=0.0, mixing=0.1), "step must be a positive number"),
        (lambda: DGD(step=0.1, mixing=0.1, decay=-1), "decay must be zero or a positive number"),
        (lambda: EXTRA(step=0.1, mixing=np.nan), "mixing must be zero or a positive number"),
        (lambda: WalkProximalGradient(step=-1.0), "step must be a positive number"),
        (lambda: WalkADMM(order=(0, 1)), "the order of a walk is a RandomWalk"),
        (lambda: RandomWalk(-1), "a walk's seed"),
        (lambda: RandomWalk(choice=0), "a walk's choice must be a whole number, 1 or more"),
        (lambda: Walks(GRAPH, seed=0, choice=0), "choice must be a whole number, 1 or more"),
        (lambda: Walks(GRAPH, seed=0, tokens=0), "tokens must be a whole number, 1 or more"),
        (lambda: ParallelWalkADMM(tokens=True), "tokens must be a whole number, 1 or more, not True"),
        (lambda: IncrementalADMM(gamma=0.5), "gamma is Between two numbers, not 0.5"),
        (lambda: IncrementalADMM(row_norm="a"), "row_norm must be a positive number, not 'a'"),
        (lambda: IncrementalADMM(order=5).schedule(GRAPH), "the order is the agents of a cycle"),
        (lambda: IncrementalADMM(order=tuple(np.arange(6.0))).schedule(GRAPH), "an agent of the order must be a whole"),
        (lambda: Between("a", 1), "between two positive numbers"),
        (lambda: Between(0.0, 1.0), "between two positive numbers"),
        (lambda: Between(2.0, 1.0), "between two positive numbers"),
        (lambda: IncrementalADMM(gamma=Between(0.9, 1.1), deviation=1.0), "one of them"),
        (lambda: IncrementalADMM(budget=tacit.Pure(1.0)), r"a visit's budget is Gaussian"),
        (lambda: IncrementalADMM(row_norm=0.0), "row_norm must be a positive number"),
        (lambda: IncrementalADMM(gamma=Between(0.9, 1.1)).schedule(tacit.Graph.ring(2)), "2 agents hide nothing"),
        (lambda: IncrementalADMM(initial=1.0).schedule(tacit.Graph.ring(2)), "2 agents hide nothing"),
        (lambda: IncrementalADMM(offset=1.0).schedule(tacit.Graph.ring(2)), "2 agents hide nothing"),
        (lambda: IncrementalADMM().schedule(tacit.Graph.ring(1)), "at least two agents"),
        (lambda: WalkADMM().schedule(tacit.Graph.ring(1)), "at least two agents"),
        (lambda: CensoredADMM(exact=False).schedule(tacit.Graph.ring(1)), "at least two agents"),
        (lambda: IncrementalADMM().schedule(tacit.Graph.star(4)), "agent 1 has only one neighbour"),
        (lambda: IncrementalADMM(order=(0, 1)).schedule(GRAPH), "visits each of the 6 agents once"),
        (
            lambda: tacit.simulate(WalkProximalGradient(step=0.1), problem, GRAPH, **{**zero, "start": starts()}),
            "the start must be the same for all",
        ),
        (
            lambda: tacit.simulate(IncrementalADMM(penalty=9.0, initial=1.0), problem, GRAPH, **zero),
            "a private method needs noise",
        ),
    ]
    for refusal, message in refused:
        with pytest.raises((tacit.InputError, tacit.GraphError), match=message):
            refusal()


def test_a_penalty_below_the_curvature_is_warned_of_with_the_curvature():
    problem, _ = make("squared")
    worst = int(np.argmax(problem.smoothness()))
    L = problem.smoothness()[worst]
    X, _y = make_parts("squared")[worst]
    assert pytest.approx(SCALE * np.linalg.norm(X, 2) ** 2 / len(X) + L2) == L
    with pytest.warns(UserWarning, match=rf"not above L = {L:.4g}, which bounds the curvature of every agent's"):
        tacit.simulate(IncrementalADMM(penalty=0.99 * L), problem, GRAPH, rounds=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tacit.simulate(IncrementalADMM(penalty=1.01 * L), problem, GRAPH, rounds=0)
        noisy = IncrementalADMM(penalty=0.99 * L, deviation=1.0)  # L would tell about what the noise is to hide
        tacit.simulate(noisy, problem, GRAPH, rounds=0, noise=tacit.SeededNoise(0))


def test_two_agents_pass_the_token_to_and_fro():
    parts = make_parts("squared")[:2]
    problem = tacit.Problem(parts, loss=LOSSES["squared"], scale=SCALE, l2=L2, tolerance=1e-12)
    run = tacit.simulate(IncrementalADMM(penalty=5.0), problem, tacit.Graph.path(2), rounds=1500, measure_every=1500)
    np.testing.assert_allclose(run.estimate, np.tile(problem.optimum(), (2, 1)), atol=1e-8)
    assert hamiltonian_cycle(tacit.Graph.path(2)) == (0, 1)


def test_the_mixing_weights_average():
    """W is symmetric, its rows sum up to one, and with Graph.mixing all its other eigenvalues lie inside (-1, 1)."""
    W = reference.weights(NEIGHBOURS, GRAPH.mixing)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    eigenvalues = np.linalg.eigvalsh(W)
    assert -1 < eigenvalues[0] <= eigenvalues[-2] < 1
    assert nx.laplacian_spectrum(GRAPH.to_networkx()).max() <= N  # so that 1/N is a safe mixing, as DGD says
