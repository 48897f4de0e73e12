"""Primal variable perturbation: against the paper's iterations, and what its noise costs."""

import functools

import numpy as np
import pytest
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
    assert_no_less_and_hardly_more,
    dual_perturbed_step,
    each,
    in_order,
    minimiser,
    moved,
    neighbours,
    problem,
    run,
    stepped,
)

import tacit
from tacit.algorithms import PrimalPerturbedADMM
from tacit.privacy.events import Gaussian, Pure
from tacit.privacy.plan import plan


def primal_perturbed(centre, final):
    """Paper 004, (18)-(20), and (21)-(23) at t = final, from V; c_pi = (f_p + V_i - e_p)/2 is the printed centre."""
    f, V, last, lam, path = START, START, np.zeros((5, D)), np.zeros((5, D)), [START]
    for t, e in enumerate(NOISE):
        if t == final:
            f = V = each(functools.partial(dual_perturbed_step, V, lam, e, t))
            last = np.zeros((5, D))
        else:
            own = f - last if centre == "printed" else V
            f = each(
                lambda i, own=own, V=V, lam=lam, t=t: minimiser(
                    i, 2 * lam[i], [(PENALTIES[t, i], (own[i] + V[j]) / 2) for j in neighbours(i)]
                )
            )
            V, last = f + e, e
        lam = stepped(lam, V, PENALTIES[t])
        path.append(V)
    return np.array(path)


@pytest.mark.parametrize("final", [None, 3, ROUNDS - 1])
@pytest.mark.parametrize("centre", ["released", "printed"])
def test_trajectory_is_that_of_the_paper(centre, final):
    method = PrimalPerturbedADMM(penalty=PENALTIES, alpha=ALPHAS, centre=centre, final=final)
    np.testing.assert_allclose(run(method).trajectory, primal_perturbed(centre, final), rtol=0, atol=1e-8)


@pytest.mark.parametrize("centre", ["released", "printed"])
def test_output_perturbation_pays_for_what_the_solver_leaves_open(centre):
    """A tolerance that is no trifle: alpha (1 + tau/(C/B)), and for a budget as much more noise."""
    p = problem(tolerance=1e-3)
    for i, (event,) in enumerate(in_order(PrimalPerturbedADMM(PENALTIES, ALPHAS, centre), 1, p)):
        assert_no_less_and_hardly_more(event.epsilon, ALPHAS[0, i] * (1 + 1e-3 * SIZES[i] / SCALE[i]))
    for budget, by in ((Pure(1.5), 1 / 1.5), (Gaussian(2.5), 2.5)):
        method = PrimalPerturbedADMM(PENALTIES, centre=centre, budget=budget)
        ((_, _, scale, _),) = asked(method, p=p)
        for i in range(5):
            m = RHO + (2 * PENALTIES[0, i] * DEGREE[i] if centre == "released" else 0)
            assert_no_less_and_hardly_more(scale[i], by * moved(i, m, tolerance=1e-3))
        assert plan(method, p, GRAPH, 1).spent == run(method, rounds=1, p=p).spent


def test_primal_perturbation_as_printed_broadcasts_the_minimiser():
    method = {"penalty": PENALTIES, "alpha": ALPHAS, "final": 2}
    shipped, printed = (PrimalPerturbedADMM(**method, centre="printed", as_printed=a) for a in (False, True))
    p, view, noise = problem(), GRAPH.view(), tacit.RecordedNoise(NOISE)
    state = run(shipped, rounds=1).state
    after, release = printed.speak(state, p, view, noise, 1)
    honest, honest_release = shipped.speak(state, p, view, noise, 1)
    np.testing.assert_array_equal(after.hidden, release.value)  # f_p left
    np.testing.assert_allclose(honest_release.value, release.value + NOISE[1], atol=1e-12)
    np.testing.assert_array_equal(honest.V, honest_release.value)
    final, _ = printed.speak(state, p, view, noise, 2)
    honest, _ = shipped.speak(state, p, view, noise, 2)
    assert np.abs(final.V - honest.V).max() > 1e-3  # from f_p, not from V_p
