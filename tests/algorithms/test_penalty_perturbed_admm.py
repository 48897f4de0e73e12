"""Penalty perturbation (M-ADMM): against the paper's iterations."""

import numpy as np
import pytest
from private_case import ALPHAS, GROWING, NOISE, PARTS, RHO, START, D, each, minimiser, neighbours, run, stepped

import tacit
from tacit.algorithms import PenaltyPerturbedADMM
from tacit.privacy.events import Gaussian, Pure


def penalty_perturbed(theta):
    """M-ADMM: eta_i sum_j ||f + e_i - (f_i + f_j)/2||^2, the noise in every square."""
    f, lam, path = START, np.zeros((5, D)), [START]
    for eta, e in zip(GROWING, NOISE, strict=True):
        f = each(
            lambda i, f=f, lam=lam, eta=eta, e=e: minimiser(
                i, 2 * lam[i], [(eta[i], (f[i] + f[j]) / 2 - e[i]) for j in neighbours(i)]
            )
        )
        lam = stepped(lam, f, [theta] * 5)
        path.append(f)
    return np.array(path)


def test_trajectory_is_that_of_the_paper():
    method = PenaltyPerturbedADMM(penalty=GROWING, alpha=ALPHAS, dual_step=0.6)
    np.testing.assert_allclose(run(method).trajectory, penalty_perturbed(0.6), rtol=0, atol=1e-8)


def test_an_agent_alone_has_no_penalty_to_hide_in():
    alone = tacit.Problem(PARTS[:1], l2=RHO)
    for settings in ({"alpha": 1.0}, {"budget": Pure(1.0)}, {"budget": Gaussian(1.0)}):
        with pytest.raises(tacit.InputError, match="an agent without neighbours has no penalty"):
            tacit.simulate(
                PenaltyPerturbedADMM(**settings), alone, tacit.Graph.ring(1), rounds=1, noise=tacit.SeededNoise(0)
            )
    tacit.simulate(PenaltyPerturbedADMM(), alone, tacit.Graph.ring(1), rounds=1)
