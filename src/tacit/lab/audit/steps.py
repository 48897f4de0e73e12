"""The audit of a solver that stops early: one minimiser of a noisy objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.core.problem import Problem
from tacit.engines import Workers
from tacit.lab.audit.guess import Progress
from tacit.lab.audit.lower_bounds import Audited, audit, batches_of, seeded_bytes
from tacit.privacy.events import Pure
from tacit.privacy.laws import law_within
from tacit.privacy.mechanisms import objective_perturbed
from tacit.privacy.noise import LawName, Noise, Scale, SecureNoise

_TOLERANCE = 1e-2  # the gradient norm at which the solver stops: so large that its error shows, if nothing hides it


def audit_solver(
    epsilon: float,
    *,
    planted: bool = False,
    seed: int = 0,
    samples: int = 40_000,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> Audited:
    """One minimiser of an objective with a noisy linear term, where the solver starts from a public point and stops at
    a gradient norm of 0.01.

    The proof is for exact minimisers, and a mask pays for the rest. The planted bug releases what the solver has,
    without the mask. A start that is good enough then comes back unchanged, and no result lies just around it. The
    width of that gap shows the curvature of the objective, and so whether the record is (1), which adds curvature, or
    (0), which does not. A result inside the gap of one data set reveals the other.
    """
    size, batches = batches_of(samples)
    sample = OneMinimiser(epsilon, _TOLERANCE, size, seed, Unmasked if planted else SecureNoise)
    return audit(sample, epsilon, batches, progress=progress, workers=workers)


class Unmasked(SecureNoise):
    """A bug to catch: the inexact minimiser leaves without a mask."""

    def mask(self, law: LawName, value: np.ndarray, scale: Scale, ids: np.ndarray, t: int) -> np.ndarray:
        return value


@dataclass(frozen=True)
class OneMinimiser:
    """1/distance from the start to the release of one minimiser that costs epsilon, for a batch of runs."""

    epsilon: float
    tolerance: float
    size: int
    seed: int
    source: Callable[..., Noise]

    @cached_property
    def problems(self) -> list[Problem]:
        """The problem with each of the two data sets."""
        return [
            Problem([(np.array([[row]]), [1.0])] * self.size, scale=0.02, l2=0.01, tolerance=self.tolerance)
            for row in (1.0, 0.0)
        ]

    def __call__(self, which: int, batch: int) -> np.ndarray:
        start, one = np.zeros((self.size, 1)), np.ones((self.size, 1))
        release = objective_perturbed(
            self.problems[which],
            self.source(random_bytes=seeded_bytes(self.seed, which, batch)),
            law_within(self.problems[0], Pure(self.epsilon), weight=start, factor=one),
            linear=start,
            weight=start,
            centre=start,
            start=start,
            factor=one,
            ids=np.arange(self.size),
            t=2 * batch + which,
        )
        moved = np.abs(release.value[:, 0])
        return np.divide(1, moved, out=np.zeros_like(moved), where=moved > 0)  # zero if it is the start itself
