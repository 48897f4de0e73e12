"""All that you need to write your own method, or your own loss, in one place.

A method is a frozen dataclass of hyper-parameters with six methods (`Algorithm`); its state is a NamedTuple of arrays
whose first axis is "the agents of this block". Values leave an agent only in a `Release`. The mechanisms below make
releases, and each states what its release costs.

>>> from dataclasses import dataclass
>>> from typing import NamedTuple
>>> import numpy as np
>>> from tacit.extend import Broadcast, CustomLoss, Gaussian, Graph, Inbox, Noise, Problem, Release, View
>>> from tacit.extend import gradient_perturbed, needed  # a mechanism, and a check that noise was given
>>> class State(NamedTuple):
...     f: np.ndarray
>>> @dataclass(frozen=True)
... class Descent:
...     step: float
...     budget: Gaussian
...     def schedule(self, graph: Graph) -> Broadcast:  # who speaks to whom at tick t
...         return Broadcast(graph)
...     def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox) -> State:
...         return State(start)  # public, and known to the neighbours
...     def speak(self, s: State, problem: Problem, view: View, noise: Noise | None, t: int) -> tuple[State, Release]:
...         release = gradient_perturbed(problem, needed(noise), self.budget, s.f, self.step, ids=view.ids, t=t)
...         return State(release.value), release  # the state comes from what was released
...     def listen(self, s: State, inbox: Inbox, view: View, t: int) -> State:
...         return State(inbox.with_own(s.f).mean())
...     def estimate(self, s: State) -> np.ndarray:
...         return s.f
...     def residuals(self, s: State, view: View) -> tuple[np.ndarray, np.ndarray]:
...         return np.full(len(s.f), np.nan), np.full(len(s.f), np.nan)  # unknown: no run stops by them

You can plan, calibrate and run it like any other method:

>>> import tacit
>>> from tacit.core.losses import HuberHinge
>>> problem = Problem([([[1.0], [0.5]], [1, -1]), ([[-1.0], [0.1]], [-1, 1])], loss=HuberHinge(1.0), l2=0.1)
>>> facts = (problem, Graph.path(2))
>>> method = tacit.calibrate(lambda budget: Descent(0.1, budget), *facts, rounds=20, epsilon=1.0, delta=1e-5)
>>> round(tacit.plan(method, *facts, rounds=20).epsilon(delta=1e-5), 3)
1.0
>>> tacit.simulate(method, *facts, rounds=20, noise=tacit.SecureNoise())
Run(2 agents, 20 rounds, private=True)

A loss of your own is three functions of a prediction z and a target y, and the bounds that you claim for them
(`CustomLoss`). This one is for targets that are numbers, with some far off:

>>> import math
>>> def value(z: float, y: float) -> float:
...     return abs(z - y) - math.log1p(abs(z - y))
>>> def slope(z: float, y: float) -> float:
...     return (z - y) / (1 + abs(z - y))
>>> def curvature(z: float, y: float) -> float:
...     return (1 + abs(z - y)) ** -2
>>> fair = CustomLoss("fair", value, slope, curvature, max_slope=1.0, max_curvature=1.0, numbers=True)
>>> problem = Problem([([[1.0], [0.5]], [0.7, 0.4]), ([[-1.0], [0.1]], [-0.8, 35.0])], loss=fair, l2=0.1)
>>> tacit.simulate(method, problem, Graph.path(2), rounds=20, noise=tacit.SecureNoise())
Run(2 agents, 20 rounds, private=True)

The names come in groups, each of which is a module here, too: `mechanisms` (what leaves, and what it costs), `events`
(costs as data), `schedules` (who speaks when), `losses`, and `hyper` (hyper-parameters that change from step to step).

>>> from tacit.extend import events, mechanisms, schedules
>>> mechanisms.gradient_perturbed is gradient_perturbed, events.Gaussian is Gaussian, schedules.Broadcast is Broadcast
(True, True, True)

`CONTRIBUTING.md` has the rules for each of the six methods, what a class may declare of its method (`Traits`), and how
to test them.
"""

from __future__ import annotations

from tacit import losses
from tacit.algorithms import Algorithm, hyper
from tacit.algorithms.consensus import needed, relative
from tacit.algorithms.hyper import Geometric, Hyper
from tacit.core import schedule as schedules
from tacit.core.algorithm import Traits, always, given, never
from tacit.core.custom_loss import CustomLoss
from tacit.core.graph import Graph, View
from tacit.core.losses import HuberHinge, Logistic, Loss, Squared
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release, clipped
from tacit.core.schedule import Broadcast, Cycle, Prepared, RandomWalk, Schedule, Turn, Walks, handed_over, way
from tacit.errors import GraphError, InputError, NotConverged, TacitError, whole
from tacit.privacy import events, mechanisms
from tacit.privacy.events import (
    ZCDP,
    BlurredLaplace,
    Event,
    Free,
    Gaussian,
    Laplace,
    LaplaceVector,
    ObjectiveGaussian,
    ObjectiveGaussianClasses,
    Pure,
    SampledGaussian,
    Unprotected,
)
from tacit.privacy.laws import (
    Budget,
    BudgetTooSmall,
    Law,
    Normal,
    OutputLaw,
    Spherical,
    TwoSided,
    coordinate_law_within,
    law_within,
    output_law_within,
)
from tacit.privacy.mechanisms import (
    charged,
    coordinate_step_perturbed,
    gradient_perturbed,
    independent,
    instead,
    minimiser_perturbed,
    noisy_gradient,
    objective_perturbed,
    post_processed,
    private_argmin,
    second_moment_perturbed,
    step_perturbed,
    unprotected,
)
from tacit.privacy.noise import Noise, RecordedNoise, SecureNoise, SeededNoise
from tacit.privacy.sensitivity import NoRoom, gradient_sensitivity, layer_sensitivity, minimiser_sensitivity

__all__ = [
    "ZCDP",
    "Algorithm",
    "BlurredLaplace",
    "Broadcast",
    "Budget",
    "BudgetTooSmall",
    "CustomLoss",
    "Cycle",
    "Event",
    "Free",
    "Gaussian",
    "Geometric",
    "Graph",
    "GraphError",
    "HuberHinge",
    "Hyper",
    "Inbox",
    "InputError",
    "Laplace",
    "LaplaceVector",
    "Law",
    "Logistic",
    "Loss",
    "NoRoom",
    "Noise",
    "Normal",
    "NotConverged",
    "ObjectiveGaussian",
    "ObjectiveGaussianClasses",
    "OutputLaw",
    "Prepared",
    "Problem",
    "Pure",
    "RandomWalk",
    "RecordedNoise",
    "Release",
    "SampledGaussian",
    "Schedule",
    "SecureNoise",
    "SeededNoise",
    "Spherical",
    "Squared",
    "TacitError",
    "Traits",
    "Turn",
    "TwoSided",
    "Unprotected",
    "View",
    "Walks",
    "always",
    "charged",
    "clipped",
    "coordinate_law_within",
    "coordinate_step_perturbed",
    "events",
    "given",
    "gradient_perturbed",
    "gradient_sensitivity",
    "handed_over",
    "hyper",
    "independent",
    "instead",
    "law_within",
    "layer_sensitivity",
    "losses",
    "mechanisms",
    "minimiser_perturbed",
    "minimiser_sensitivity",
    "needed",
    "never",
    "noisy_gradient",
    "objective_perturbed",
    "output_law_within",
    "post_processed",
    "private_argmin",
    "relative",
    "schedules",
    "second_moment_perturbed",
    "step_perturbed",
    "unprotected",
    "way",
    "whole",
]
