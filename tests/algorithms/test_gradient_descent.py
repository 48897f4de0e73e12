"""Noisy gradient descent against a descent by hand."""

import numpy as np
from private_case import NOISE, ROUNDS, START, each, gradient_and_hessian, mixed, run

from tacit.algorithms import GradientDescent
from tacit.privacy.events import Gaussian


def descent(step, mixing, exchanges):
    """The recorded noise is what the step as it leaves carries."""
    f, path = START, [START]
    for t in range(ROUNDS):
        if t % exchanges == 0:
            g = each(lambda i, f=f: gradient_and_hessian(i, f[i])[0])
            f = f - step * g + NOISE[t // exchanges]
        f = mixed(f, mixing)
        path.append(f)
    return np.array(path)


def test_trajectory_is_that_of_a_descent_by_hand():
    method = GradientDescent(step=0.3, mixing=0.1, exchanges=2, budget=Gaussian(1.0))
    np.testing.assert_allclose(run(method).trajectory, descent(0.3, 0.1, 2), rtol=0, atol=1e-8)
