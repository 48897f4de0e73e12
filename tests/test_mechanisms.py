"""A solver that gives up: the noise that was drawn stays, the solver goes on, and nothing leaves before it is done."""

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.mechanisms import Normal, Spherical, objective_perturbed


class Stubborn(tacit.Problem):
    """Gives up `failures` times, each time a little nearer to the minimiser."""

    failures = 0

    def argmin(self, linear, weight, centre, start=0.0):
        self.asked.append((np.array(linear), np.array(start)))
        if len(self.asked) <= self.failures:
            raise tacit.NotConverged("gave up", reached=np.full((self.agents, self.dimension), float(len(self.asked))))
        return super().argmin(linear, weight, centre, start)


class Counting(tacit.SeededNoise):
    def __init__(self, seed):
        super().__init__(seed)
        self.draws = self.masks = 0

    def draw(self, *args, **settings):
        self.draws += "tag" not in settings
        return super().draw(*args, **settings)

    def mask(self, *args):
        self.masks += 1
        return super().mask(*args)


def release(problem, noise, law):
    n, d = problem.agents, problem.dimension
    zero, one = np.zeros((n, d)), np.ones((n, 1))
    return objective_perturbed(
        problem, noise, law, linear=zero, weight=one, centre=zero, start=zero, factor=one, ids=np.arange(n), t=0
    )


@pytest.mark.parametrize("law", [Spherical(np.full((5, 1), 3.0)), Normal(np.full((5, 1), 0.3))], ids=["pure", "normal"])
def test_the_solver_goes_on_with_the_noise_that_was_drawn(law):
    problem, noise = Stubborn(make_parts(), l2=0.5), Counting(1)
    problem.asked, problem.failures = [], 3
    stubborn = release(problem, noise, law)
    assert len(problem.asked) == 4
    assert (noise.draws, noise.masks) == (1, 1)
    for linear, _ in problem.asked[1:]:
        np.testing.assert_array_equal(linear, problem.asked[0][0])
    assert [start[0, 0] for _, start in problem.asked] == [0.0, 1.0, 2.0, 3.0]  # from where it got to
    easy = release(tacit.Problem(make_parts(), l2=0.5), tacit.SeededNoise(1), law)
    np.testing.assert_allclose(stubborn.value, easy.value, atol=1e-8)
    assert stubborn.events == easy.events


def test_what_never_converges_never_leaves():
    problem, noise = Stubborn(make_parts(), l2=0.5), Counting(1)
    problem.asked, problem.failures = [], 10**9
    with pytest.raises(tacit.NotConverged):
        release(problem, noise, Normal(np.full((5, 1), 0.3)))
    assert (noise.draws, noise.masks) == (1, 0)


def test_a_private_run_does_not_stop_by_what_it_released():
    problem, graph = tacit.Problem(make_parts(), l2=0.5), tacit.Graph.ring(5)
    method = tacit.algorithms.DualPerturbedADMM(budget=tacit.Gaussian(5.0))
    with pytest.raises(tacit.InputError, match="fixed number of rounds"):
        tacit.simulate(method, problem, graph, rounds=9, noise=tacit.SeededNoise(1), tolerance=1.0)


def test_an_objective_that_is_not_strongly_convex_is_refused():
    problem, alone = tacit.Problem(make_parts(sizes=(30,))), tacit.Graph.ring(1)
    for method in (
        tacit.algorithms.DualPerturbedADMM(budget=tacit.Gaussian(5.0)),
        tacit.algorithms.RecycledADMM(alpha=1.0),
        tacit.algorithms.PrimalPerturbedADMM(alpha=1.0),
    ):
        with pytest.raises(tacit.InputError, match="l2 above zero"):
            tacit.simulate(method, problem, alone, rounds=1, noise=tacit.SeededNoise(1))
