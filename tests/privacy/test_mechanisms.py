"""A fast solver that gives up: the noise that was drawn stays, a slow one takes over, and the same leaves."""

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import GradientDescent, OneShotAveraging, PrimalPerturbedADMM
from tacit.core.losses import HuberHinge, Logistic
from tacit.core.rounding import Solved, most_pull
from tacit.core.solvers.block import RowStore
from tacit.privacy.laws import Normal, Spherical
from tacit.privacy.mechanisms import objective_perturbed, private_argmin
from tacit.privacy.sensitivity import NoRoom, slope_change


def give_up(self, ids, rho, b, f, tolerance):
    """A fast solver that always stops at once, far away."""
    f += 1.0
    return np.full(len(ids), np.inf)


class Counting(tacit.SeededNoise):
    def __init__(self, seed):
        super().__init__(seed)
        self.draws = self.masks = 0

    def perturb(self, *args):
        self.draws += 1
        return super().perturb(*args)

    def mask(self, *args):
        self.masks += 1
        return super().mask(*args)


def release(problem, noise, law):
    n, d = problem.agents, problem.dimension
    zero, one = np.zeros((n, d)), np.ones((n, 1))
    return objective_perturbed(
        problem, noise, law, linear=zero, weight=one, centre=zero, start=zero, factor=one, ids=np.arange(n), t=0
    )


LAWS = {"pure": Spherical(np.full((5, 1), 3.0)), "normal": Normal(np.full((5, 1), 0.3))}


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_where_the_fast_solver_gives_up_a_sure_one_goes_on_with_the_noise_that_was_drawn(law, monkeypatch):
    problem, noise = tacit.Problem(make_parts(), l2=0.5), Counting(1)
    easy = release(problem, tacit.SeededNoise(1), law)
    monkeypatch.setattr(RowStore, "minimise", give_up)
    slow = release(problem, noise, law)
    assert (noise.draws, noise.masks) == (1, 1)
    np.testing.assert_allclose(slow.value, easy.value, atol=1e-8)
    assert slow.events == easy.events


def test_what_is_not_solved_never_leaves(monkeypatch):
    monkeypatch.setattr(RowStore, "minimise", give_up)
    monkeypatch.setattr(RowStore, "descend", lambda self, ids, *rest: np.full(len(ids), np.inf))
    problem, noise = tacit.Problem(make_parts(), l2=0.5), Counting(1)
    with pytest.raises(tacit.NotConverged):
        release(problem, noise, LAWS["normal"])
    assert (noise.draws, noise.masks) == (1, 0)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(1.0), HuberHinge(0.05)], ids=str)
@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("weight", [0.05, 0.5, 300.0])
def test_the_sure_solver_is_sure(loss, scale, weight, monkeypatch):
    """Alone, it comes as near as is stated, wherever a neighbour may pull: where every slope is flat, or none is."""
    problem = tacit.Problem(make_parts(), loss=loss, scale=scale)
    rho = np.full((5, 1), 2 * weight)
    most = most_pull(problem, rho)
    sure = Solved(problem, rho, most)
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-3, 1.0, 1.0 - 1e-16):
        b = rng.normal(size=(5, 15))
        b *= size * most / np.linalg.norm(b, axis=1, keepdims=True)
        fast = problem.sure_argmin(b, rho, np.zeros((5, 15)), sure)
        with monkeypatch.context() as patch:
            patch.setattr(RowStore, "minimise", give_up)
            slow = problem.sure_argmin(b, rho, np.zeros((5, 15)), sure)
        assert np.all(np.linalg.norm(fast - slow, axis=1, keepdims=True) <= 2 * sure.tau / rho)


def test_a_private_run_does_not_stop_by_what_it_released():
    problem, graph = tacit.Problem(make_parts(), l2=0.5), tacit.Graph.ring(5)
    method = tacit.algorithms.DualPerturbedADMM(budget=tacit.Gaussian(5.0))
    with pytest.raises(tacit.InputError, match="fixed number of rounds"):
        tacit.simulate(method, problem, graph, rounds=9, noise=tacit.SeededNoise(1), tolerance=1.0)


def test_a_run_with_a_seed_in_it_is_never_private_again():
    """Whoever knows the seed takes the noise away from all that left before."""
    problem, graph = tacit.Problem(make_parts(), l2=0.5), tacit.Graph.ring(5)
    method, fresh = tacit.algorithms.DualPerturbedADMM(budget=tacit.Gaussian(5.0)), tacit.SecureNoise()
    for first in (tacit.SeededNoise(1), fresh):
        half = tacit.simulate(method, problem, graph, rounds=2, noise=first)
        whole = tacit.simulate(method, problem, graph, rounds=3, noise=fresh, resume=half)
        assert (whole.private, whole.seeded) == (first is fresh, first is not fresh)


def test_an_objective_that_is_not_strongly_convex_is_refused():
    problem, alone = tacit.Problem(make_parts(sizes=(30,))), tacit.Graph.ring(1)
    for method in (
        tacit.algorithms.DualPerturbedADMM(budget=tacit.Gaussian(5.0)),
        tacit.algorithms.RecycledADMM(alpha=1.0),
        tacit.algorithms.PrimalPerturbedADMM(alpha=1.0),
    ):
        with pytest.raises(tacit.InputError, match="l2 above zero"):
            tacit.simulate(method, problem, alone, rounds=1, noise=tacit.SeededNoise(1))


def test_a_step_that_has_no_room_is_refused_before_records_are_looked_at(monkeypatch):
    """The slow solver could take 1e9 steps: it is refused before it starts."""
    looked = []
    monkeypatch.setattr(tacit.Problem, "sure_argmin", lambda self, *rest: looked.append(self))
    flat = tacit.Problem(make_parts(), loss=HuberHinge(0.5), scale=1e6, l2=1e-4)
    weight = np.full((5, 1), 1e-4)
    with pytest.raises(NoRoom):
        private_argmin(flat, linear=0.0, weight=weight, centre=np.zeros((5, 15)), start=np.zeros((5, 15)))
    assert not looked


def test_a_refusal_names_what_helps():
    """A stiff penalty leaves no digits for what a record moves: a smaller one does, a larger one does not."""
    facts, graph = tacit.Facts(sizes=[100] * 5, dimension=8, scale=350.0, l2=0.1), tacit.Graph.ring(5)

    def planned(penalty):
        return tacit.plan(tacit.algorithms.RecycledADMM(penalty=penalty, alpha=1.0), facts, graph, 2)

    with pytest.raises(NoRoom, match="or lower the penalty"):
        planned(1e9)
    planned(1e6)
    facts = tacit.Facts(sizes=[10**6] * 5, dimension=8, scale=1e4, l2=1e-4)
    with pytest.raises(NoRoom, match="or raise the penalty"):
        planned(1e-3)
    planned(1e-2)


@pytest.mark.parametrize("make", [lambda m: OneShotAveraging(mixing=m), lambda m: GradientDescent(step=1.0, mixing=m)])
def test_averaging_that_blows_models_up_is_refused(make):
    graph = tacit.Graph.complete(5)
    make(0.5).schedule(graph)
    with pytest.raises(tacit.InputError, match=r"at most 0\.5; 0\.2 is best"):
        make(0.51).schedule(graph)


def test_the_printed_centre_pays_for_the_inexactness_that_it_carries_on():
    """Of many records, with a penalty that falls from 1000 to 0.001: the hidden model still has the errors of the first
    solves, which rounding made larger than those of the last."""
    facts = tacit.Facts(sizes=[10**6] * 3, dimension=50, loss=HuberHinge(0.5), l2=0.01)
    graph, penalty = tacit.Graph.ring(3), np.array([[1000.0] * 3] * 150 + [[1e-3] * 3])
    method = PrimalPerturbedADMM(penalty=penalty, alpha=1.0, centre="printed")
    events, *_ = tacit.plan(method, facts, graph, len(penalty)).events
    s, rate = slope_change(facts)[0, 0], facts.l2 / (2 * facts.row_weight[0, 0])
    delta = exact = 0.0
    for event, weight in zip(events, 2 * penalty[:, :1], strict=True):
        mu = facts.l2 + 2 * weight[:, None]
        tau = Solved(facts, mu, most_pull(facts, mu)).tau[0, 0]
        delta = (s + 2 * tau + 2 * weight[0] * delta) / mu[0, 0]
        alone = (s + 2 * tau + 2 * weight[0] * exact) / mu[0, 0]  # with the inexactness of this round alone
        exact = (s + 2 * weight[0] * exact) / mu[0, 0]
        assert event.epsilon == pytest.approx(rate * delta, rel=1e-9)
    assert delta > (1 + 1e-5) * alone  # that of the earlier rounds counts
