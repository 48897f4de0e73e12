"""The share of positives, measured with noise: what a rare event's model starts from where nobody knows it publicly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.core.problem import Problem
from tacit.errors import InputError
from tacit.privacy.accounting import gaussian_steps
from tacit.privacy.events import Event, Gaussian
from tacit.privacy.noise import Noise
from tacit.simulation.simulate import simulate

_PART = 0.02  # of the budget, as zero-concentrated privacy counts it: 1/multiplier^2 adds up over releases


class NoisyShare(NamedTuple):
    """A share of positives, and what it cost every agent."""

    share: float
    events: tuple[Event, ...]
    messages: int


def share_event(epsilon: float, delta: float) -> Gaussian:
    """What `noisy_share` costs every agent, out of this budget."""
    return Gaussian(gaussian_steps(1, epsilon, delta).multiplier / _PART**0.5)


def noisy_share(labels: Sequence[np.ndarray], graph: Graph, epsilon: float, delta: float, noise: Noise) -> NoisyShare:
    """The share of +1 among all agents' labels, for a small part of the budget (epsilon, delta).

    It is the first step of private gradient descent for a model with nothing but an intercept, so nothing new has to be
    proved. At zero the Huber hinge of width 1 has the slope -y. With step 1 and scales B_i/mean(B), the agents' mean
    after the step is the mean of all labels, plus noise.

    >>> from tacit.privacy.noise import SeededNoise
    >>> labels = [np.where(np.arange(n) % 20 == 0, 1.0, -1.0) for n in (4000, 6000, 5000)]
    >>> found = noisy_share(labels, Graph.ring(3), epsilon=1.0, delta=1e-5, noise=SeededNoise(0))
    >>> 0.04 < found.share < 0.06, len(found.events)
    (True, 1)
    """
    if not all(np.all(np.abs(y) == 1) for y in labels):
        raise InputError("a share of positives is for a label of two classes")
    budget = share_event(epsilon, delta)
    sizes = np.array([len(y) for y in labels])
    parts = [(np.ones((len(y), 1)), y) for y in labels]
    problem = Problem(parts, loss=HuberHinge(1.0), scale=sizes / sizes.mean())
    rounds = 1 + graph.mixing_rounds()
    from tacit.algorithms.gradient_descent import GradientDescent

    method = GradientDescent(step=1.0, mixing=graph.mixing, exchanges=rounds, budget=budget)
    run = simulate(method, problem, graph, rounds=rounds, noise=noise, measure_every=rounds)
    least = 1 / (2 * float(sizes.sum()))  # noise may pass 0 and 1, where no offset is finite
    share = float(np.clip((1 + run.model[0]) / 2, least, 1 - least))
    return NoisyShare(share, (budget,), int(run.history["messages"][-1]))
