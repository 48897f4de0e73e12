"""Eavesdroppers on incremental ADMM: what each attack gets of each method, and what stops them.

Statistical tests have a false-alarm rate of 1e-6 unless they say otherwise; the seeds are fixed.
"""

import csv
import json
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chi2

from tacit.algorithms import IncrementalADMM, WalkADMM
from tacit.core.graph import Graph
from tacit.errors import InputError
from tacit.lab.attacks import States, Transcript, colluders, least_squares, listen_in, quadratics, recursion
from tacit.lab.cli.attack_token import calibrated
from tacit.lab.papers import incremental_admm_methods as paper
from tacit.lab.papers.incremental_admm_methods import LOGISTIC, RIDGE
from tacit.privacy.laws import output_law_within
from tacit.privacy.noise import SeededNoise
from tacit.privacy.sensitivity import minimiser_sensitivity
from tacit.simulation.simulate import simulate

AGENTS, TICKS = 8, 20 * 8 + 1


def overheard(case, algorithm, agents=AGENTS, ticks=None, seed=0, noise=None, row_norm=np.inf):
    problem, graph = case.problem(agents, seed, row_norm), paper.graph(agents, 0.3, seed)
    return listen_in(algorithm, problem, graph, ticks or 20 * agents + 1, noise or SeededNoise(seed))


def means(heard, errors):
    """The mean error over agents at the first visit, and at the last that all had."""
    each = heard.by_visit(errors)
    each = each[~np.isnan(each).any(axis=1)]
    return each[0].mean(), each[-1].mean()


def test_the_transcript_is_what_simulate_lets_be_overheard():
    algorithm, problem, graph = paper.pi_admm1(RIDGE), RIDGE.problem(AGENTS, 0), paper.graph(AGENTS, 0.3, 0)
    heard = Transcript(AGENTS, RIDGE.penalty)
    run = simulate(algorithm, problem, graph, rounds=TICKS + 1, noise=SeededNoise(0), overheard=heard)  # one to prepare
    ours, truth, gradient = overheard(RIDGE, algorithm)
    assert len(heard) == TICKS
    np.testing.assert_array_equal(heard.tokens, ours.tokens)
    np.testing.assert_array_equal(heard.holders, ours.holders)
    assert not heard.tokens[0].any()
    last = [heard.visits(i)[-1] for i in range(AGENTS)]
    np.testing.assert_array_equal(truth.x[last], run.state.x)
    np.testing.assert_array_equal(truth.y[last], run.state.y)
    np.testing.assert_allclose(gradient, truth.y, atol=1e-8)  # (9)


@pytest.mark.parametrize("make", [paper.i_admm, paper.pi_admm1, paper.pi_admm2])
def test_the_sums_are_public_whatever_the_steps_and_the_noise(make):
    heard, truth, _ = overheard(RIDGE, make(RIDGE))
    np.testing.assert_allclose(heard.sums, truth.x - truth.y / RIDGE.penalty, atol=1e-9)


@pytest.mark.parametrize("case", [RIDGE, LOGISTIC], ids=lambda case: case.name)
@pytest.mark.parametrize("walk", [False, True])
def test_a_known_start_gives_everything_away(case, walk):
    """(11), for exact and for first-order steps, on the cycle and on a random walk; with y, the gradient."""
    method = WalkADMM if walk else IncrementalADMM
    heard, truth, gradient = overheard(case, method(penalty=case.penalty, exact=case.exact))
    guessed = recursion(heard)
    assert max(e.max() for e in guessed.errors(truth)) < 1e-9
    assert np.abs(guessed.y - gradient).max() < 1e-8
    assert np.linalg.norm(gradient, axis=1).mean() > 0.01


def test_each_visit_halves_what_the_recursion_started_wrong_by():
    heard, truth, _ = overheard(RIDGE, paper.random_start(RIDGE))
    errors = heard.by_visit(recursion(heard).errors(truth).x)[:-1]
    np.testing.assert_allclose(errors[1:], errors[:-1] / 2, rtol=1e-6)
    assert errors[0].mean() > 10


def test_the_recursion_obeys_its_error_equation():
    """With a wrong gamma as well: e' = (e + (guess - gamma)(z - x))/(1 + guess); gamma from (13)."""
    guess = 0.8
    heard, truth, _ = overheard(RIDGE, paper.pi_admm1(RIDGE))
    error, before = recursion(heard, gamma=guess).x - truth.x, heard.previous
    k = np.flatnonzero(before >= 0)
    residual = heard.tokens[k] - truth.x[k]
    step = truth.y[k] - truth.y[before[k]]
    gamma = (step * residual).sum(axis=1) / (residual**2).sum(axis=1) / RIDGE.penalty
    assert 0.9 < gamma.min() < gamma.max() < 1.1
    expected = (error[before[k]] + (guess - gamma[:, None]) * residual) / (1 + guess)
    np.testing.assert_allclose(error[k], expected, atol=1e-9)


@pytest.mark.parametrize("case", [RIDGE, LOGISTIC], ids=lambda case: case.name)
@pytest.mark.parametrize("make", [paper.pi_admm1, paper.pi_admm2])
def test_the_printed_attack_fails_and_the_recursion_succeeds(case, make):
    heard, truth, _ = overheard(case, make(case))
    size = np.linalg.norm(truth.y[-AGENTS:], axis=1).mean()
    for iterations in (20, None):
        assert means(heard, least_squares(heard, iterations=iterations).errors(truth).y)[1] > size / 4
    first, last = means(heard, recursion(heard).errors(truth).y)
    assert last < size / 50
    assert first > 500 * last


def test_secret_steps_are_no_secret_in_the_papers_setting():
    """Ridge, N = 100, 2,001 ticks: the dual error goes from hundreds to below 5e-2, in the mean over agents."""
    heard, truth, _ = overheard(RIDGE, paper.pi_admm1(RIDGE), agents=100)
    assert len(heard) == 2001
    first, last = means(heard, recursion(heard).errors(truth).y)
    assert first > 100
    assert last < 5e-2


def test_the_least_squares_are_solved():
    """By elimination, as by lsqr with as many iterations as it wants."""
    heard, *_ = overheard(LOGISTIC, paper.random_start(LOGISTIC), agents=3, ticks=24)
    solved, iterated = least_squares(heard, iterations=None), least_squares(heard, iterations=5000)
    np.testing.assert_allclose(iterated.x, solved.x, atol=1e-3)
    np.testing.assert_allclose(iterated.y, solved.y, atol=1e-3)
    assert np.abs(least_squares(heard).x - solved.x).max() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_quadratic_objectives_are_recovered_exactly(seed):
    """Every x, y, Hessian and gradient at zero of PI-ADMM1: Theorem 2 and Corollary 1 do not hold for ridge."""
    heard, truth, gradient = overheard(RIDGE, paper.pi_admm1(RIDGE), seed=seed)
    problem = RIDGE.problem(AGENTS, seed)
    found = quadratics(heard, 0.9, 1.1)
    assert max(e.max() for e in found.states.errors(truth)) < 1e-6
    np.testing.assert_allclose(found.curvature, 2 * problem.second_moment(), atol=1e-8)
    np.testing.assert_allclose(found.slope, problem.gradient(np.zeros(2)), atol=1e-7)
    assert recursion(heard).errors(truth).y.max() > 10
    np.testing.assert_allclose(found.states.y, gradient, atol=1e-6)


def test_the_offset_hides_y_but_neither_x_nor_the_hessian():
    algorithm = paper.pi_admm1_offset(RIDGE)
    heard, truth, _ = overheard(RIDGE, algorithm)
    found = quadratics(heard, 0.9, 1.1)
    assert found.states.errors(truth).x.max() < 1e-6
    np.testing.assert_allclose(found.curvature, 2 * RIDGE.problem(AGENTS, 0).second_moment(), atol=1e-7)
    hidden = found.states.y - truth.y  # rho S_i^0, the same at every visit
    for i in range(AGENTS):
        k = heard.visits(i)
        np.testing.assert_allclose(hidden[k], hidden[k[:1]].repeat(len(k), axis=0), atol=1e-6)
    sizes = (np.linalg.norm(v[-AGENTS:], axis=1).mean() for v in (hidden, truth.y))
    assert next(sizes) > 10 * next(sizes)
    np.testing.assert_allclose(sum(hidden[heard.visits(i)[0]] for i in range(AGENTS)), 0, atol=1e-6)


def test_colluders_learn_y_behind_every_secret():
    """N-1 agents undo offset and steps; at the end theirs is -sum of the others, with the sign."""
    heard, truth, _ = overheard(RIDGE, paper.pi_admm1_offset(RIDGE), agents=5, ticks=3000)
    last = [heard.visits(i)[-1] for i in range(5)]
    x, y, z = truth.x[last], truth.y[last], heard.tokens[-1]
    gradient = RIDGE.problem(5, 0).gradient(RIDGE.problem(5, 0).optimum())
    for victim in range(5):
        secret_x, secret_y = x.copy(), y.copy()
        secret_x[victim] = secret_y[victim] = np.nan
        np.testing.assert_allclose(colluders(secret_x, secret_y, z, RIDGE.penalty, victim), gradient[victim], atol=1e-3)
        np.testing.assert_allclose(-np.delete(y, victim, axis=0).sum(axis=0), gradient[victim], atol=1e-2)
        exact = colluders(secret_x, secret_y, z, RIDGE.penalty, victim, guess=x[victim])
        np.testing.assert_allclose(exact, y[victim], atol=1e-9)
    assert np.linalg.norm(gradient, axis=1).min() > 0.015


class TenthOfTheNoise(SeededNoise):
    """A bug to catch."""

    def add(self, law, value, scale, ids, t, onto=None):
        return super().add(law, value, np.asarray(scale) / 10, ids, t, onto)


def test_against_calibrated_noise_the_best_estimate_is_the_released_x():
    """PI-ADMM2 at epsilon = 1. The transcript holds x_i = minimiser + noise and nothing else of the minimiser, so an
    unbiased estimate from one visit has at least the noise's variance. The recursion attains it: the squared errors
    over the variance are chi squared, both of the minimiser and of the gradient y_i + rho (x_i - minimiser)."""

    def likely(noise):
        algorithm = replace(calibrated(LOGISTIC, 1.0, visits=21), exact=True)
        heard, truth, gradient = overheard(LOGISTIC, algorithm, noise=noise, row_norm=1.0)
        guessed = recursion(heard)
        assert guessed.errors(truth).x.max() < 1e-9  # what leaves, noise and all
        problem = LOGISTIC.problem(AGENTS, 0, row_norm=1.0)
        rho = np.full((AGENTS, 1), algorithm.penalty)
        deviation = output_law_within(algorithm.budget, minimiser_sensitivity(problem, rho, rho / 2)).deviation[0, 0]
        off = np.sum((guessed.y - gradient) ** 2) / (algorithm.penalty * deviation) ** 2
        return chi2(guessed.y.size).cdf(off), np.linalg.norm(gradient, axis=1).mean() / (algorithm.penalty * deviation)

    shipped, size = likely(SeededNoise(5))
    assert 1e-6 / 2 < shipped < 1 - 1e-6 / 2
    assert size < 1  # the noise is larger than what it hides
    assert likely(TenthOfTheNoise(5))[0] < 1e-6


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (lambda heard: least_squares(heard), "3 ticks were overheard"),
        (lambda heard: quadratics(heard, 0.9, 1.1), "too few equations in dimension 2"),
        (lambda heard: quadratics(heard, 1.1, 0.9), "between two positive numbers"),
        (lambda heard: recursion(heard, gamma=0.0), "gamma must be a positive number"),
    ],
)
def test_too_little_heard_is_said(attack, message):
    heard, *_ = overheard(RIDGE, paper.i_admm(RIDGE), ticks=3)
    with pytest.raises(InputError, match=message):
        attack(heard)


def test_nothing_heard_is_said():
    with pytest.raises(InputError, match="nothing was overheard"):
        recursion(Transcript(3, 1.0))
    with pytest.raises(InputError, match="a tick or more"):
        listen_in(paper.i_admm(RIDGE), RIDGE.problem(3, 0), Graph.ring(3), ticks=0)


def test_states_differ_by_norms():
    a, b = States(np.zeros((1, 2)), np.ones((1, 2))), States(np.array([[3.0, 4.0]]), np.ones((1, 2)))
    assert [e.tolist() for e in a.errors(b)] == [[5.0], [0.0]]


def test_tacit_attack(tacit, tmp_path):
    code, out, _ = tacit("attack", "pi-admm1", "--agents", "6", "--out", str(tmp_path / "a"), "--agent", "2")
    assert code == 0
    assert "quadratic fit" in out
    assert "exactly" in out
    with (tmp_path / "a" / "attack.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert {point["panel"] for point in points} == {
        f"pi-admm1: {x}" for x in ("x of agent 2", "y of agent 2", "error of y")
    }
    assert (tmp_path / "a" / "attack.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = tacit("attack", "pi-admm2", "--loss", "logistic", "--agents", "5", "--ticks", "35", "--epsilon", "1")
    assert code == 0
    assert "None of these attacks tells" in out
    assert "quadratic fit" not in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["pi-admm3"], "method must be one of admm, coca"),
        (["i-admm", "--loss", "hinge"], "loss must be one of ridge, logistic"),
        (["i-admm", "--agents", "2"], "--agents must be 3 or more, not 2"),
        (["i-admm", "--agents", "5", "--agent", "6"], "--agent must be between 1 and 5, not 6"),
        (["i-admm", "--agents", "5", "--ticks", "9"], "--ticks must be 35 or more"),
        (["i-admm", "--penalty", "0"], "penalty must be a positive number"),
        (["pi-admm2", "--epsilon", "1"], "--epsilon is for pi-admm2 with --loss logistic"),
        (["i-admm", "--seed", "-1"], "seed"),
        (["i-admm", "--out", ""], "--out is empty"),
        (
            ["pi-admm1", "--agents", "3", "--penalty", "1e-300"],
            "the method or an attack diverged with the penalty 1e-300",
        ),
    ],
)
def test_errors_of_tacit_attack_are_one_line(tacit, args, message):
    code, _, err = tacit("attack", *args)
    assert code == 2
    assert err.startswith("tacit: error: ")
    assert message in err
    assert err.count("\n") == 1


solver = import_module("tacit.lab.attacks.least_squares")  # the module: the package has a function of that name


def test_a_singular_system_is_said_not_solved():
    """An unknown that is in no equation: singular exactly, whatever the rounding."""
    for A in (np.zeros((3, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])):
        with pytest.raises(InputError, match="the equations are singular in floating point: 2 unknowns"):
            solver._solved(scipy.sparse.csc_matrix(A), np.ones((3, 1)), iterations=None)


def test_an_attack_that_cannot_be_solved_is_left_out(tacit, monkeypatch):
    """How many ticks it takes until the equations are singular is a matter of rounding, and so of the processor: here
    the solver finds them singular at once, in the way in which it says so (the test above)."""

    def singular(matrix):
        raise RuntimeError("Factor is exactly singular")

    monkeypatch.setattr(solver, "splu", singular)
    code, out, err = tacit("attack", "i-admm", "--agents", "3", "--ticks", "240")
    assert code == 0
    assert "printed, solved" not in out
    assert "recursion" in out
    assert "warning: left out: printed, solved: the equations are singular" in err


def test_an_audit_of_the_token_is_on_the_command_line(tacit):
    """By its name, and by the one that it had before."""
    for name in ("pi-admm", "pi-admm2"):
        code, out, _ = tacit("audit", name, "--rounds", "1", "--samples", "1000", "--json")
        assert code == 0
        assert json.loads(out)["delta"] == 1e-5
