"""Theorems 3.1 to 3.3 of paper 003: the measured distance respects the bounds, and what is printed does not hold."""

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import RandomAggregationADMM, SharingADMM
from tacit.core.losses import Squared
from tacit.errors import InputError
from tacit.lab.theory.random_penalties import edges, linear_rate, noise_floor

ROUNDS = 150
GRAPHS = {"pair": tacit.Graph.path(2), "path": tacit.Graph.path(3), "triangle": tacit.Graph.complete(3)}
RHO = {"pair": (0.09, 0.11), "path": (0.018, 0.022), "triangle": (0.05, 0.06)}
D_X = 6  # the dimension


def case(name, l2=1.0, scale=1.0):
    graph = GRAPHS[name]
    problem = tacit.Problem(make_parts(d=D_X)[: graph.agents], l2=l2, scale=scale, tolerance=1e-12)
    L = float(problem.smoothness().max())
    low, high = (r * l2 for r in RHO[name])
    settings = {"m": l2, "L": L, "D": 2.5 * L, "zeta": low / 2.5, "rho": (low, high)}
    return graph, problem, settings


def distances(graph, problem, settings, exact, noise, power=-1, beta=None, start=None, rounds=ROUNDS):
    """||u^k - u*||_G^2 for k = 0, 1, ..., with zeta^power for the dual part: -1 is the proof's, 1 the theorem's."""
    A = np.kron(edges(graph)[:, :, 0][:, :, None, None], np.eye(D_X)).reshape(graph.agents, -1, D_X)
    rows = A.shape[1]
    method = SharingADMM(
        A=A,
        c=np.zeros(rows),
        penalty=settings["D"],
        dual_step=settings["zeta"],
        rho=settings["rho"],
        exact=exact,
        beta=beta,
    )
    start = np.random.default_rng(1).normal(size=(graph.agents, D_X)) if start is None else start
    run = tacit.simulate(method, problem, graph, rounds=rounds + 1, start=start, noise=noise, record=True)
    x = run.trajectory[1:]  # the first round says A_i x_i^0
    best = problem.optimum()
    dual = -settings["zeta"] * np.cumsum(np.einsum("nmd,knd->km", A, x), axis=0)
    dual -= dual[0]  # lambda^0 = 0, and x^0 moves nothing
    wide = np.concatenate(list(A), axis=1)
    star = np.linalg.pinv(wide.T) @ problem.gradient(best).ravel()
    apart = settings["D"] * ((x - best) ** 2).sum(axis=(1, 2))
    return apart + settings["zeta"] ** power * ((dual - star) ** 2).sum(axis=1)


@pytest.mark.parametrize("exact", [False, True], ids=["(47)", "(42)"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_distance_falls_as_fast_as_the_theorem_says(name, exact):
    """In every round, for any penalties that are drawn."""
    graph, problem, settings = case(name)
    found = linear_rate(edges(graph), exact=exact, **settings)
    assert found.holds
    away = distances(graph, problem, settings, exact, tacit.SeededNoise(3))
    assert np.all(away[:-1] >= (1 + found.p) * away[1:])


def test_the_norm_of_the_theorem_is_not_that_of_its_proof():
    """From x^0 = x* the distance grows at once if G has zeta in place of 1/zeta: the check above can fail."""
    graph, problem, settings = case("pair")
    p = linear_rate(edges(graph), exact=True, **settings).p
    start = np.tile(problem.optimum(), (2, 1))
    away, other = (
        distances(graph, problem, settings, True, tacit.SeededNoise(3), power=power, start=start) for power in (-1, 1)
    )
    assert np.all(away[:-1] >= (1 + p) * away[1:])
    assert other[1] > other[0]


def quadratic_forms(A, m, L, D, zeta, rho, rho0, alpha, exact, p):
    """The three coefficients of (41), from the inequalities (36) to (40) as matrices: an independent computation.

    Each is the least eigenvalue of the quadratic form that is left for ||e_i||^2, ||dx_i||^2 and ||dlambda||^2.
    """
    N = len(A)
    wide = np.concatenate(list(A), axis=1)
    values = np.linalg.eigvalsh(wide @ wide.T)
    least = values[values > 1e-9][0]
    s2 = np.array([np.linalg.eigvalsh(a @ a.T).max() for a in A])
    e, dx = np.zeros(N), np.zeros(N)
    dual = (2 * rho0 - zeta) / zeta**2 - N / alpha / zeta**2
    for i in range(N):
        e[i] = (2 if exact else 1) * m - p * D - alpha * (N * rho**2 + (rho - rho0) ** 2) * s2[i]
        e[i] -= p / zeta * 5 / least * L**2 * (1 if exact else 2)
        dx[i] = D - (0 if exact else L) - N * s2[i] / alpha - p / zeta * 5 / least * (D**2 + (0 if exact else 2 * L**2))
        for j in range(N):
            dx[i] -= p / zeta * 5 / least * rho**2 * s2[j] * N * s2[i]
        dual -= p / zeta * 5 / least * s2[i] * (1 + rho**2 / zeta**2)
    return np.concatenate([e, dx, [dual]])


@pytest.mark.parametrize("exact", [False, True])
def test_p_is_the_largest_for_which_no_coefficient_is_negative(exact):
    A = np.random.default_rng(0).normal(size=(3, 2, 4)) / 4
    settings = {"m": 1.0, "L": 1.3, "D": 4.0, "zeta": 0.1}
    found = linear_rate(A, rho=(0.15, 0.15), rho0=0.15, exact=exact, **settings)
    assert found.holds

    def worst(p, alpha):
        return quadratic_forms(A, **settings, rho=0.15, rho0=0.15, alpha=alpha, exact=exact, p=p).min()

    assert worst(found.p * (1 - 1e-6), found.alpha) > 0 > worst(found.p * (1 + 1e-4), found.alpha)
    grid = np.linspace(found.alpha_above, found.alpha_below, 301)[1:-1]
    assert all(worst(found.p * (1 + 1e-4), alpha) < 0 for alpha in grid)  # no other alpha is better


def test_a_condition_that_fails_has_no_p():
    A = edges(tacit.Graph.complete(3))
    good = {"m": 1.0, "L": 1.25, "D": 3.0, "zeta": 0.02, "rho": (0.05, 0.06)}
    assert linear_rate(A, **good).holds
    for bad in ({"zeta": 0.11}, {"D": 1.2}, {"rho": (0.2, 0.3)}, {"m": 0.5}):
        found = linear_rate(A, **(good | bad))
        assert not found.holds
        assert found.p == 0
        assert not found.alpha_above < found.alpha_below
        assert "no solution" in str(found)
    steep = linear_rate(A, **(good | {"D": 0.1}))
    assert "negative" in str(steep)
    assert not steep.proximal


def test_no_penalties_of_the_papers_experiments_meet_the_conditions():
    """(48) implies rho0 < 2 m/(N^2 s): errata 7."""
    for agents, links in ((10, 20), (100, 200)):
        graph = tacit.Graph.random(agents, links, seed=0)
        for own in (0.5, 0.9, 0.99):
            rho = (1 - own) * 10.0 / graph.degree
            found = linear_rate(edges(graph), m=1.0, L=1.25, D=10.0, zeta=0.5, rho=(rho, rho))
            assert not found.holds


def test_the_printed_bound_on_the_dual_is_false_for_consensus():
    """(37): a dual error that agent 0 of a path does not see at all."""
    A = edges(tacit.Graph.path(3))
    error = np.array([0.0, 1.0])
    assert np.linalg.matrix_rank(np.concatenate(list(A), axis=1)) == 2  # every error is in the range of A
    least = np.linalg.norm(A[0])  # A_0 has one singular value
    assert np.linalg.norm(error) ** 2 > np.linalg.norm(A[0].T @ error) ** 2 / least**2 == 0
    seen = sum(np.linalg.norm(a.T @ error) ** 2 for a in A)
    s = linear_rate(A, m=1.0, L=1.0, D=3.0, zeta=0.01, rho=(0.02, 0.02)).least[0]
    assert s == pytest.approx(1.0)  # of [[2, -1], [-1, 2]]
    assert np.linalg.norm(error) ** 2 <= seen / s


def test_units_do_not_matter_but_in_what_is_printed():
    """f in another unit, with the penalties in the same: p stays. As printed, one unit allows what another does not."""
    A = edges(tacit.Graph.complete(3))
    base = {"m": 1.0, "L": 1.25, "D": 1.5, "zeta": 0.02, "rho": (0.05, 0.06)}
    assert linear_rate(A, **base).holds
    for unit, printed in ((1.0, False), (1e-3, True)):
        scaled = {k: (v[0] * unit, v[1] * unit) if k == "rho" else v * unit for k, v in base.items()}
        assert linear_rate(A, **scaled).p == pytest.approx(linear_rate(A, **base).p, rel=1e-6)
        assert linear_rate(A, as_printed=True, **scaled).holds == printed


def test_where_the_printed_conditions_hold_the_method_can_diverge():
    """(48) with M_i = L_i^2 for L_i: D < L/2, and the gradient steps of (13) are too long."""
    m, L = 1e-3, 3e-3
    parts = [(np.sqrt(L - m) * np.ones((1, 1)), np.ones(1)) for _ in range(2)]
    problem = tacit.Problem(parts, loss=Squared(), l2=m)
    assert problem.smoothness() == pytest.approx(L)
    settings = {"D": 1.2e-3, "zeta": 1e-5, "rho": (1e-4, 1e-4)}
    A = edges(tacit.Graph.path(2))
    assert linear_rate(A, m=m, L=L, as_printed=True, **settings).holds
    assert not linear_rate(A, m=m, L=L, **settings).holds
    method = SharingADMM(A=A, c=np.zeros(1), penalty=1.2e-3, dual_step=1e-5, rho=(1e-4, 1e-4))
    with pytest.warns(UserWarning, match="may not converge"):
        run = tacit.simulate(method, problem, tacit.Graph.path(2), rounds=100, start=np.ones((2, 1)))
    assert np.abs(run.estimate).max() > 1e6


def test_the_mean_distance_stays_below_the_noise_floor():
    """The mean of 8 runs is below by orders of magnitude, so that no seed matters."""
    graph, problem, settings = case("pair")
    beta = 100.0
    found = linear_rate(edges(graph), noisy=True, **settings)
    floor = noise_floor(found)
    runs = [distances(graph, problem, settings, False, tacit.SeededNoise(k), beta=beta) for k in range(8)]
    variance = 2 * D_X / beta**2
    mean = np.mean(runs, axis=0)
    bounds = np.array([floor.bound(mean[0], variance, k) for k in range(len(mean))])
    assert np.all(mean <= bounds)
    quiet = distances(graph, problem, settings, False, tacit.SeededNoise(0))
    assert quiet[-1] < mean[-1]  # noise keeps the distance up: the term for it is needed


def test_consensus_in_one_coordinate_is_consensus_in_all():
    """`edges` has one coordinate; the bound is that of the method on the whole vector."""
    graph = tacit.Graph.star(4)
    whole = SharingADMM.consensus(graph, 3).A
    settings = {"m": 1.0, "L": 1.2, "D": 3.0, "zeta": 0.005, "rho": (0.01, 0.012)}
    one, all_ = linear_rate(edges(graph), **settings), linear_rate(whole, **settings)
    assert one.p == pytest.approx(all_.p, rel=1e-6)
    assert one.p > 0
    RandomAggregationADMM(penalty=3.0, dual_step=0.005).schedule(graph)  # the same constants are a method's


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear_rate(np.zeros((2, 1, 1)), m=1, L=1, D=1, zeta=1, rho=(0, 1)), "not zero"),
        (lambda: linear_rate(np.ones((2, 1, 1)), m=2, L=1, D=1, zeta=1, rho=(0, 1)), "m <= L"),
        (lambda: linear_rate(np.ones((2, 1, 1)), m=1, L=1, D=[1, 2, 3], zeta=1, rho=(0, 1)), "each of the 2 agents"),
        (lambda: linear_rate(np.eye(2)[:, :, None] * [[[1]], [[0]]], m=1, L=1, D=1, zeta=1, rho=(0, 1)), "some A_i"),
        (lambda: noise_floor(linear_rate(np.ones((2, 1, 1)), m=1, L=1, D=3, zeta=0.01, rho=(0.1, 0.1))), "noisy=True"),
    ],
)
def test_bad_input_of_random_penalties(call, words):
    with pytest.raises(InputError, match=words):
        call()
