"""Audits of single steps and visits: dual variable perturbation, normal noise, a token, a solver."""

from __future__ import annotations

import math

import numpy as np

from tacit.algorithms import DualPerturbedADMM, IncrementalADMM
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox
from tacit.privacy.audit.bounds import Audited, Sampler, audit, batches_of
from tacit.privacy.events import Pure
from tacit.privacy.laws import law_within
from tacit.privacy.mechanisms import objective_perturbed
from tacit.privacy.noise import LawName, Scale, SeededNoise
from tacit.privacy.plan import Facts, calibrate


def audit_dual_perturbed(
    epsilon: float, *, as_printed: bool = False, seed: int = 0, samples: int = 1_000_000
) -> Audited:
    """One step of DVP at alpha = epsilon, where a record reveals most. As printed, it has half of the noise."""
    algorithm = DualPerturbedADMM(penalty=_PENALTY, alpha=epsilon, as_printed=as_printed)
    size, batches = batches_of(samples)
    return audit(_far_out(algorithm, SeededNoise(seed), size), epsilon, batches)


def audit_gaussian(epsilon: float, *, planted: bool = False, seed: int = 0, samples: int = 1_000_000) -> Audited:
    """The same step with normal noise, calibrated to (epsilon, 1e-4). The planted bug halves the noise, as
    happens if one takes the distance of one record for that of two."""
    size, batches = batches_of(samples)
    facts = Facts(sizes=[1, 1], dimension=2, l2=_L2)
    algorithm = calibrate(
        lambda budget: DualPerturbedADMM(penalty=_PENALTY, budget=budget),
        facts,
        Graph.path(2),
        rounds=1,
        epsilon=epsilon,
        delta=_DELTA,
    )
    noise = _Halved(seed) if planted else SeededNoise(seed)
    return audit(_far_out(algorithm, noise, size), epsilon, batches, _DELTA)


def audit_token(epsilon: float, *, planted: bool = False, seed: int = 0, samples: int = 1_000_000) -> Audited:
    """Three visits of the token to one agent of three, by PI-ADMM2 calibrated to (epsilon, 1e-4).

    The others are the eavesdropper: they hand over the token that reveals most, follow the agent by (11), and compute
    the likelihood ratio of what they saw. By Neyman and Pearson no attack on what leaves separates two data sets
    better. The planted bug halves the noise.
    """
    size, batches = batches_of(samples)
    algorithm = calibrate(
        lambda budget: IncrementalADMM(penalty=_PENALTY, budget=budget),
        Facts(sizes=[1, 1, 1], dimension=2, l2=_L2),
        Graph.ring(3),
        rounds=3 * _VISITS,
        epsilon=epsilon,
        delta=_DELTA,
    )
    noise = _Halved(seed) if planted else SeededNoise(seed)
    return audit(_likelihood_ratio(algorithm, noise, size), epsilon, batches, _DELTA)


def audit_solver(epsilon: float, *, planted: bool = False, seed: int = 0, samples: int = 1_000_000) -> Audited:
    """One minimiser of an objective with a noisy linear term, where the solver starts from a public point.

    The proof is for exact minimisers. The planted bug stops the solver at a gradient norm of 0.01 and releases what
    it has, without the mask. A start that is good enough then comes back unchanged, and no result lies just around it.
    The width of that gap shows the curvature of the objective, and so whether the record is (1), which adds curvature,
    or (0), which does not. A result inside the gap of one data set reveals the other.
    """
    size, batches = batches_of(samples)
    if planted:
        return audit(_one_minimiser(epsilon, 1e-2, _Unmasked(seed), size), epsilon, batches)
    return audit(_one_minimiser(epsilon, 1e-9, SeededNoise(seed), size), epsilon, batches)


class _Unmasked(SeededNoise):
    """A bug to catch: the inexact minimiser leaves without a mask."""

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int) -> np.ndarray:
        return value


class _Halved(SeededNoise):
    """A bug to catch: half of the noise."""

    def draw(self, law: LawName, scale: Scale, dimension: int, ids: np.ndarray, t: int, tag: int = 0) -> np.ndarray:
        return super().draw(law, scale, dimension, ids, t, tag) / 2


_PENALTY, _L2, _DELTA, _VISITS = 50.0, 1e-3, 1e-4, 3


def _far_problems(size: int) -> tuple[np.ndarray, list[Problem]]:
    """A point where a record reveals most, (size, 2), and the two neighbouring problems, in `size` copies.

    Neighbours have pulled the model far out, to (0, -R), where both possible records u = (c, s) and u' = (-c, s),
    labelled +1, are badly misclassified. Their gradients -u and -u' then differ by 2c, almost the 2 of the proof.
    """
    far, s = 200.0, 0.1
    c = math.sqrt(1 - s * s)
    problems = [Problem([(np.array([[sign * c, s]]), [1.0])] * size, l2=_L2) for sign in (1, -1)]
    return np.tile([0.0, -far], (size, 1)), problems


def _far_out(algorithm: Algorithm, noise: SeededNoise, size: int) -> Sampler:
    """One step where a record reveals most."""
    view = View(np.arange(size), np.ones((size, 1)), size)
    where, problems = _far_problems(size)
    states = [algorithm.init(p, view, where, Inbox(where, np.arange(size + 1))) for p in problems]

    def sample(which: int, t: int) -> np.ndarray:
        # Streams of the two data sets must not coincide: even and odd ticks.
        _, release = algorithm.speak(states[which], problems[which], view, noise, 2 * t + which)
        return release.value[:, 0]

    return sample


def _likelihood_ratio(algorithm: IncrementalADMM, noise: SeededNoise, size: int) -> Sampler:
    """How much more likely the tokens of all visits are under the first data set than under the second."""
    where, problems = _far_problems(size)
    view, rho = View(np.arange(size), np.full((size, 1), 2.0), 3), algorithm.penalty
    start = np.zeros_like(where)

    def sample(which: int, t: int) -> np.ndarray:
        state = algorithm.init(problems[which], view, start, Inbox(start, np.zeros(size + 1, dtype=int)))
        x, y, ratio = start, start, np.zeros(size)  # x and y as the others know them
        for visit in range(_VISITS):
            exact = [p.argmin(linear=0.0, weight=rho / 2, centre=where + y / rho, start=where) for p in problems]
            tick = (2 * t + which) * _VISITS + visit  # streams of the two data sets must not coincide
            state, release = algorithm.speak(state._replace(token=where), problems[which], view, noise, tick)
            x = (view.network * (release.value - where) + where + x) / 2  # (11)
            y = y + rho * (where - x)
            ratio += ((x - (exact[0] + exact[1]) / 2) * (exact[0] - exact[1])).sum(axis=1)
        return ratio  # times the noise's variance

    return sample


def _one_minimiser(epsilon: float, tolerance: float, noise: SeededNoise, size: int) -> Sampler:
    """1/distance from the start to the release of one minimiser that costs epsilon."""
    problems = [
        Problem([(np.array([[row]]), [1.0])] * size, scale=0.02, l2=0.01, tolerance=tolerance) for row in (1.0, 0.0)
    ]
    start, one = np.zeros((size, 1)), np.ones((size, 1))
    law = law_within(problems[0], Pure(epsilon), weight=start, factor=one)

    def sample(which: int, t: int) -> np.ndarray:
        release = objective_perturbed(
            problems[which],
            noise,
            law,
            linear=start,
            weight=start,
            centre=start,
            start=start,
            factor=one,
            ids=np.arange(size),
            t=2 * t + which,
        )
        moved = np.abs(release.value[:, 0])
        return np.divide(1, moved, out=np.zeros_like(moved), where=moved > 0)  # zero if it is the start itself

    return sample
