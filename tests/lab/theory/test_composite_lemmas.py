"""Lemmas 5 to 7 of paper 001, from which (18) follows, along a run with noise: as they hold, and as printed."""

import numpy as np
import pytest

import tacit
from tacit.algorithms import DPADMM
from tacit.composite import L1, Term
from tacit.core.graph import Graph

A = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])  # of full rank
RHO, STRENGTH, SPARE = 0.7, 0.02, 1e-9


@pytest.fixture(scope="module")
def steps():
    """Of (3), (7) and (5) with B = -I and c = 0, by the plain loop: what the lemmas are about, round by round."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    problem = tacit.Problem([(X, np.sign(X @ [1.0, -2.0, 0.5] + rng.normal(size=80)))], tolerance=1e-13)
    eta = 1 / 0.25  # 1/L_f
    G = (eta * RHO * np.linalg.norm(A.T @ A, 2) + 1) * np.eye(3) - eta * RHO * A.T @ A
    exact = DPADMM(term=Term(A, L1(STRENGTH)), penalty=RHO, exact=True)
    end = tacit.simulate(exact, problem, Graph.ring(1), rounds=4000)
    best = {"x": end.model, "y": A @ end.model, "u": end.state.u[0]}
    x, u, found = np.array([3.0, 1.0, -2.0]), np.zeros(3), []
    for _ in range(40):
        y = np.sign(A @ x + u) * np.maximum(np.abs(A @ x + u) - STRENGTH / RHO, 0)
        P, slope = rng.normal(size=3) * 0.3, problem.gradient(x[None])[0]
        before, old = x, u
        # G (x_t - x_{t-1}) = -eta g_t, with g_t = v_t + q_t and q_t at x_t
        H = G / eta + RHO * A.T @ A
        x = before - np.linalg.solve(H, slope + P + RHO * A.T @ (A @ before - y + u))
        u = old + A @ x - y
        q = RHO * A.T @ (A @ x - y + old)
        found.append({"x": x, "before": before, "y": y, "u": u, "old": old, "P": P, "q": q, "g": slope + P + q})
    return problem, eta, G, best, found


def f(problem, x):
    return float(problem.value(x[None])[0])


def test_lemma_5_bounds_f_from_below(steps):
    """Printed with <= for >=."""
    problem, eta, G, best, found = steps
    rng, gaps = np.random.default_rng(2), []
    for s in found:
        np.testing.assert_allclose(s["x"], s["before"] - eta * np.linalg.solve(G, s["g"]), atol=1e-10)
        for x in (best["x"], rng.normal(size=3) * 3):
            right = f(problem, s["x"]) + s["g"] @ (x - s["before"]) + eta / 2 * s["g"] @ np.linalg.solve(G, s["g"])
            gaps.append(f(problem, x) + s["q"] @ (x - s["x"]) - right - s["P"] @ (s["x"] - x))
    assert min(gaps) >= -SPARE
    assert max(gaps) > 0.01  # so that <= is false


def test_lemma_6_with_its_slips_mended(steps):
    """Printed with x_{t-1} in the place of x_t, and with + before (B^T alpha_t), where B = -I."""
    _, _, _, best, found = steps
    gaps = {"mended": [], "as printed": [], "with +": []}
    u_star = best["u"]
    subgradient = RHO * u_star  # of g at y*: B^T u* = -u*
    for s in found:
        alpha = RHO * (s["u"] - u_star)
        g = STRENGTH * (np.abs(s["y"]).sum() - np.abs(best["y"]).sum()) - subgradient @ (s["y"] - best["y"])
        away = {name: float(np.sum((A @ s[name] - best["y"]) ** 2)) for name in ("before", "x")}
        moved = float(np.sum((s["u"] - s["old"]) ** 2))
        left = 2 * (g + alpha @ (best["y"] - s["y"]))
        gaps["mended"].append(RHO * (away["before"] - away["x"] + moved) - left)
        gaps["as printed"].append(RHO * moved - left)
        gaps["with +"].append(RHO * (away["before"] - away["x"] + moved) - 2 * (g - alpha @ (best["y"] - s["y"])))
    assert min(gaps["mended"]) >= -1e-6
    assert min(gaps["as printed"]) < -0.01
    assert min(gaps["with +"]) < -0.01


def test_lemma_7_is_an_identity(steps):
    _, _, _, best, found = steps
    for s in found:
        alpha = RHO * (s["u"] - best["u"])
        old, new, moved = (float(np.sum(v**2)) for v in (s["old"] - best["u"], s["u"] - best["u"], s["u"] - s["old"]))
        assert -2 * (A @ s["x"] - s["y"]) @ alpha == pytest.approx(RHO * (old - new - moved), abs=1e-10)
