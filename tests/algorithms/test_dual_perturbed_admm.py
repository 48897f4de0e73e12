"""Dual variable perturbation: against the paper's iterations, its cost, and an audit that catches the printed one."""

import functools
import json
import math
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts
from private_case import (
    ALPHAS,
    DEGREE,
    GRAPH,
    NOISE,
    PENALTIES,
    RHO,
    ROUNDS,
    SCALE,
    SIZES,
    START,
    D,
    asked,
    dual_perturbed_step,
    each,
    problem,
    run,
    stepped,
    zeta_and_phi,
)

import tacit
from tacit.algorithms import ConsensusADMM, DualPerturbedADMM
from tacit.core.losses import Squared
from tacit.lab.audit import epsilon_lower_bound
from tacit.lab.audit.named import audit_named
from tacit.privacy.events import Pure

ETA, C = 0.7, 3.0


def by_algorithm_2(alpha, B, degree, c1=0.25, half=True):
    """Algorithm 2's parameters, by hand."""
    curvature = RHO + 2 * ETA * degree
    alpha_hat, phi = alpha - 2 * math.log(1 + c1 / (B / C * curvature)), 0.0
    if alpha_hat < alpha / 2:
        phi = c1 / (B / C * (math.exp(alpha / 4) - 1)) - curvature
        alpha_hat = alpha / 2
    return (alpha_hat / 2 if half else alpha_hat), phi


def paper(parts, eps, alpha, start):
    """(14)-(16) agent by agent, the minimiser by plain Newton."""
    f, lam, trajectory = start.copy(), np.zeros_like(start), [start]
    for e in eps:
        new = np.empty_like(f)
        for p, (X, y) in enumerate(parts):
            N, B = GRAPH.neighbours(p), len(y)
            _, phi = by_algorithm_2(alpha, B, len(N))
            mu = lam[p] + C / (2 * B) * e[p]
            x = np.zeros(X.shape[1])
            for _ in range(60):
                q = 1 / (1 + np.exp(y * (X @ x)))
                g = -C / B * X.T @ (y * q) + (RHO + phi) * x + 2 * mu
                g = g + sum(2 * ETA * (x - (f[p] + f[i]) / 2) for i in N)
                H = C / B * (X.T * (q * (1 - q))) @ X + (RHO + phi + 2 * ETA * len(N)) * np.eye(len(x))
                x = x - np.linalg.solve(H, g)
            new[p] = x
        f = new
        for p in range(len(parts)):
            lam[p] += ETA / 2 * sum(f[p] - f[j] for j in GRAPH.neighbours(p))
        trajectory.append(f)
    return np.array(trajectory)


@pytest.mark.parametrize("alpha", [0.05, 1.0])  # with and without Phi, for agents of 7 to 61 rows
def test_trajectory_is_that_of_the_paper(alpha):
    parts = make_parts()
    rng = np.random.default_rng(0)
    eps, start = rng.normal(size=(12, 5, 15)) * 3, rng.normal(size=(5, 15))
    run = tacit.simulate(
        DualPerturbedADMM(penalty=ETA, alpha=alpha),
        tacit.Problem(parts, scale=C, l2=RHO),
        GRAPH,
        rounds=12,
        start=start,
        noise=tacit.RecordedNoise(eps),
        record=True,
    )
    np.testing.assert_allclose(run.trajectory, paper(parts, eps, alpha, start), atol=1e-8)
    assert any(by_algorithm_2(alpha, len(y), d)[1] > 0 for (_, y), d in zip(parts, GRAPH.degree, strict=True)) == (
        alpha < 1
    )


def dual_perturbed(printed=False):
    f, lam, path = START, np.zeros((5, D)), [START]
    for t, e in enumerate(NOISE):
        f = each(functools.partial(dual_perturbed_step, f, lam, e, t, printed=printed))
        lam = stepped(lam, f, PENALTIES[t])
        path.append(f)
    return np.array(path)


@pytest.mark.parametrize("printed", [False, True])
def test_trajectory_with_a_penalty_for_every_agent_and_step(printed):
    method = DualPerturbedADMM(penalty=PENALTIES, alpha=ALPHAS, as_printed=printed)
    np.testing.assert_allclose(run(method).trajectory, dual_perturbed(printed), rtol=0, atol=1e-8)


def test_the_trajectories_reach_both_branches():
    """Some agent has Phi > 0 in some step and none in another; the graph is not regular; no two agents are alike."""
    phis = [zeta_and_phi(ALPHAS[t, i], i, PENALTIES[t, i])[1] for t in range(ROUNDS) for i in range(5)]
    assert 0 < np.count_nonzero(phis) < len(phis)
    assert len(set(DEGREE)) > 1
    assert len(set(SIZES)) == 5


def test_dual_perturbation_as_printed_has_half_of_the_noise():
    """zeta = alpha_hat instead of half of it, and Phi only where alpha_hat is below 0."""
    p, method = problem(), {"penalty": PENALTIES, "alpha": ALPHAS}
    ((kind, _, scale, _),) = asked(DualPerturbedADMM(**method, as_printed=True))
    assert kind == "draw"
    alpha_hat = [zeta_and_phi(ALPHAS[0, i], i, PENALTIES[0, i], printed=True)[0] for i in range(5)]
    np.testing.assert_allclose(scale, 1 / np.array(alpha_hat), rtol=1e-12)
    tight = {"penalty": 0.2, "alpha": 0.01}
    ((_, _, scale, _),) = asked(DualPerturbedADMM(**tight, as_printed=True))
    hats = [0.01 - 2 * math.log(1 + 0.25 * SCALE[i] / SIZES[i] / (RHO + 0.4 * DEGREE[i])) for i in range(5)]
    np.testing.assert_allclose(scale, [1 / (h if h > 0 else 0.005) for h in hats], rtol=1e-12)
    assert min(hats) <= 0
    shipped, printed = (run(DualPerturbedADMM(**method, as_printed=a), p=p) for a in (False, True))
    assert np.abs(shipped.trajectory - printed.trajectory).max() > 1e-3  # Phi


def test_without_noise_it_is_consensus_admm():
    problem = tacit.Problem(make_parts(sizes=(200,) * 5), scale=C, l2=RHO)
    silent = tacit.RecordedNoise(np.zeros((10, 5, 15)))
    method = DualPerturbedADMM(penalty=ETA, alpha=1.0)
    private = tacit.simulate(method, problem, GRAPH, rounds=10, noise=silent, record=True)
    plain = tacit.simulate(ConsensusADMM(penalty=ETA), problem, GRAPH, rounds=10, record=True)
    np.testing.assert_allclose(private.trajectory, plain.trajectory, atol=1e-9)


def test_every_step_costs_its_closed_form():
    parts = make_parts()
    problem = tacit.Problem(parts, scale=C, l2=RHO)
    run = tacit.simulate(
        DualPerturbedADMM(penalty=ETA, alpha=0.4), problem, GRAPH, rounds=3, noise=tacit.SeededNoise(1)
    )
    for (_, y), degree, counter in zip(parts, GRAPH.degree, run.spent, strict=True):
        zeta, phi = by_algorithm_2(0.4, len(y), degree)
        x = 0.25 * C / (len(y) * (RHO + phi + 2 * ETA * degree))
        ((event, count),) = counter.items()
        assert count == 3
        # One record at slope 1, the other at the worst of all slopes q with their curvature q (1 - q).
        q = np.linspace(0, 1, 2_000_001)
        joint = zeta + np.max(zeta * q + np.log1p(4 * x * q * (1 - q)))
        assert event.epsilon == pytest.approx(joint * 1.001, rel=1e-9)
        assert event.epsilon < (2 * zeta + math.log(1 + x)) * 1.001
        assert event.epsilon <= 0.4  # what the paper claims, with the inexact minimiser paid for


def test_only_protecting_noise_makes_it_private(tmp_path):
    problem = tacit.Problem(make_parts(), scale=C, l2=RHO)
    method = DualPerturbedADMM(penalty=ETA, alpha=1.0)
    seeded = tacit.simulate(method, problem, GRAPH, rounds=1, noise=tacit.SeededNoise(1))
    secure = tacit.simulate(method, problem, GRAPH, rounds=1, noise=tacit.SecureNoise())
    assert secure.private
    assert not seeded.private
    seeded.save(tmp_path / "run.npz")
    assert not tacit.Run.load(tmp_path / "run.npz").private
    resumed = tacit.simulate(method, problem, GRAPH, rounds=2, noise=tacit.SecureNoise(), resume=seeded)
    assert not resumed.private
    grid = secure.estimate / tacit.SecureNoise().grid
    np.testing.assert_array_equal(grid, np.round(grid))  # what leaves lies on the grid


def test_a_seeded_run_resumes_to_the_same():
    problem = tacit.Problem(make_parts(), scale=C, l2=RHO)
    method, noise = DualPerturbedADMM(penalty=ETA, alpha=1.0), tacit.SeededNoise(4)
    whole = tacit.simulate(method, problem, GRAPH, rounds=5, noise=noise)
    half = tacit.simulate(method, problem, GRAPH, rounds=2, noise=noise)
    rest = tacit.simulate(method, problem, GRAPH, rounds=5, noise=tacit.SeededNoise(4), resume=half)
    np.testing.assert_array_equal(rest.estimate, whole.estimate)
    assert rest.spent == whole.spent
    assert all(isinstance(event, Pure) for counter in whole.spent for event in counter)
    assert whole.spent[0] == Counter({next(iter(whole.spent[0])): 5})


def test_refusals():
    problem = tacit.Problem(make_parts(), scale=C, l2=RHO)

    def run(method=None, p=problem, noise=None):
        noise = tacit.SeededNoise(0) if noise is None else noise
        return tacit.simulate(method or DualPerturbedADMM(alpha=1.0), p, GRAPH, rounds=1, noise=noise)

    with pytest.raises(tacit.InputError, match="printed version breaks"):
        run(DualPerturbedADMM(alpha=1.0, as_printed=True), noise=tacit.SecureNoise())
    with pytest.raises(tacit.InputError, match="needs noise"):
        tacit.simulate(DualPerturbedADMM(alpha=1.0), problem, GRAPH, rounds=1)
    with pytest.raises(tacit.InputError, match="no bound on its slope"):
        run(p=tacit.Problem(make_parts(), loss=Squared(), l2=RHO))
    for sparse in (False, True):
        parts = make_parts(sparse=sparse)
        parts[2] = (parts[2][0] * 1.01, parts[2][1])
        with pytest.raises(tacit.InputError, match=r"agent 2 has a row of norm 1.01, above the 1"):
            run(p=tacit.Problem(parts, scale=C, l2=RHO))
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(tacit.InputError, match="alpha must be positive and finite"):
            DualPerturbedADMM(alpha=bad)


def test_the_audit_passes_what_ships_and_catches_what_is_printed():
    """False alarms: one in a thousand for the first line, by the confidence of the bound itself; the seed is fixed."""
    shipped = audit_named("dvp-paper", 1.0, samples=1500, seed=1)
    printed = audit_named("dvp-paper", 1.0, as_printed=True, samples=1500, seed=1)
    assert not shipped.caught
    assert 0.4 < shipped.lower <= 1.0  # a bound of nothing would pass everything
    assert printed.caught
    assert printed.lower > 1.2


def test_the_bound_covers_a_known_epsilon():
    """Randomised response at epsilon 1: the bound is valid, and near."""
    p = 1 / (1 + math.exp(-1.0))
    rng = np.random.default_rng(0)
    bounds = [epsilon_lower_bound(*rng.binomial(100_000, [p, 1 - p]), 100_000) for _ in range(200)]
    assert max(bounds) <= 1.0
    assert min(bounds) > 0.9
    assert epsilon_lower_bound(0, 5, 100) == 0.0
    assert epsilon_lower_bound(5, 100, 100) == 0.0


def test_tacit_audit(tacit):
    def run(*args):
        return tacit("audit", *args)

    code, out, _ = run("dvp", "--as-printed", "--samples", "1000", "--json")
    assert code == 1
    assert json.loads(out)["caught"] is True
    assert run("dvp", "--rounds", "1", "--samples", "1000")[0] == 0
    code, out, err = run("magic")
    assert (code, out) == (2, "")
    assert "must be one of dvp" in err
    assert run("dvp", "--samples", "5")[0] == 2
    assert run("dvp", "--epsilon", "-1")[0] == 2


def test_the_guarantee_of_a_step_is_false_for_its_marginal_distribution():
    """(17) bounds the ratio of the densities of f_p(t) by e^alpha. That holds given all that was released before. The
    density of f_p(3) alone has a larger ratio: f_p(1) moved, the neighbour followed it, f_p(3) follows the neighbour.

    Two agents, two records at an angle of 120 degrees, margins so negative that both have the slope 1: all is affine.
    With a neighbour that has no noise and rho = 0, f_p(3) moves by 1.5 times what one step moves, and its noise is that
    of the last step and half of the first one's: in the tail only the last one counts.
    """
    x, other = np.array([1.0, 0.0]), np.array([-0.5, math.sqrt(3) / 2])
    graph, eta, alpha = tacit.Graph.path(2), 50.0, 1.0
    start = np.tile(-2000.0 * (x + other), (2, 1))

    def third(record, e):
        p = tacit.Problem([(row[None], np.array([1.0])) for row in (record, x)], l2=1e-7, tolerance=1e-11, radius=1e4)
        method = DualPerturbedADMM(penalty=eta, alpha=alpha)
        noise = np.stack([e, np.zeros_like(e)], axis=1)  # (rounds, agents, 2)
        return tacit.simulate(method, p, graph, rounds=3, start=start, noise=tacit.RecordedNoise(noise)).estimate[0]

    still = np.zeros((3, 2))
    mu = 2 * eta
    moved = mu * (third(other, still) - third(x, still))
    np.testing.assert_allclose(moved, 1.5 * (other - x), rtol=1e-4)
    for t, gain in ((0, -0.5), (1, 0.0), (2, -1.0)):
        nudged = still.copy()
        nudged[t, 0] = 1.0
        np.testing.assert_allclose(mu * (third(x, nudged) - third(x, still)), [gain, 0.0], atol=1e-4)
    # The density of e(3) + e(1)/2, far out, at two points that are `moved` apart.
    zeta = (alpha - 2 * math.log1p(0.25 / (1e-7 + mu))) / 2
    u = np.linspace(-40, 40, 401) / zeta
    grid = np.stack(np.meshgrid(u, u), axis=-1)
    weight = np.exp(-zeta * np.linalg.norm(grid, axis=-1))

    def log_density(point):
        return math.log(np.sum(weight * np.exp(-zeta * np.linalg.norm(point - grid / 2, axis=-1))))

    far = 60 / zeta * moved / np.linalg.norm(moved)
    loss = log_density(far) - log_density(far + moved)
    assert loss == pytest.approx(1.5 * zeta * math.sqrt(3), rel=0.02)
    assert loss > 1.25 * alpha
    # Given what was released, the step itself keeps its word.
    assert zeta * np.linalg.norm(other - x) < alpha
