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
    """A tolerance that is no trifle: (1 + tau/(C/B)) times the cost, and for a budget as much more noise."""
    p = problem(tolerance=1e-3)
    for i, (event,) in enumerate(in_order(PrimalPerturbedADMM(PENALTIES, ALPHAS, centre), 1, p)):
        share = 1 if centre == "released" else RHO / (RHO + 2 * PENALTIES[0, i] * DEGREE[i])  # no past in round 0
        assert_no_less_and_hardly_more(event.epsilon, share * ALPHAS[0, i] * (1 + 1e-3 * SIZES[i] / SCALE[i]))
    for budget, by in ((Pure(1.5), 1 / 1.5), (Gaussian(2.5), 2.5)):
        method = PrimalPerturbedADMM(PENALTIES, centre=centre, budget=budget)
        ((_, _, scale, _),) = asked(method, p=p)
        for i in range(5):
            m = RHO + 2 * PENALTIES[0, i] * DEGREE[i]
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


def test_the_hidden_model_moves_by_delta_and_hardly_less():
    """Two neighbouring data sets, the same releases: the hidden models of the printed centre drift apart by at most
    Delta(t), and the worst pair of records comes near it. A charge for one round alone would be too small."""
    far = 4000.0  # the margins are so large that the slopes are 0 and 1: the loss is linear, as in the worst case
    parts = [(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))] * 2
    other = [(np.array([[-1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])), parts[1]]
    start = np.array([[-far, far]] * 2)
    graph, eta, rho, rounds = tacit.Graph.path(2), 1.0, 0.01, 30
    method = PrimalPerturbedADMM(penalty=eta, alpha=1.0, centre="printed")
    problems = [tacit.Problem(p, scale=1.0, l2=rho, tolerance=1e-11, radius=1e4) for p in (parts, other)]
    view, states = graph.view(), []
    for p in problems:
        states.append(method.init(p, view, start, tacit.core.release.Inbox(start, graph.indptr, graph.indices)))
    delta, apart = 0.0, []
    for t in range(rounds):
        spoken = [method.speak(s, p, view, tacit.SeededNoise(4), t) for s, p in zip(states, problems, strict=True)]
        said = spoken[0][1].value  # both go on from what was released with the first data set
        inbox = tacit.core.release.Inbox(said, graph.indptr, graph.indices)
        states = [method.listen(s._replace(V=said), inbox, view, t) for s, _ in spoken]
        delta = (2 * 1.0 / 2 + 2 * eta * delta) / (rho + 2 * eta)
        apart.append(np.linalg.norm(states[0].hidden[0] - states[1].hidden[0]))
        assert apart[-1] <= delta * (1 + 1e-6)
        rate = rho * 2 * 1.0 / 2
        assert spoken[0][1].events[0].epsilon == pytest.approx(rate * delta, rel=1e-6)
    assert apart[-1] > 0.45 * delta  # replacing a record moves its slope by 1 here, not by 2
    assert apart[-1] > 5 * apart[0]


def test_after_the_final_step_nothing_is_hidden():
    events = plan(PrimalPerturbedADMM(penalty=1.0, alpha=1.0, centre="printed", final=3), problem(), GRAPH, 6).events[0]
    assert events[4] == events[0]
    assert events[5] == events[1]
    assert events[0].epsilon < events[1].epsilon < events[2].epsilon
