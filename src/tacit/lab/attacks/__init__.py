"""What follows from messages that are not private.

Of the token methods of paper 002, `listen_in` runs one and returns the eavesdropper's `Transcript` beside the truth.
From the transcript alone,

    recursion       (11) with a guess of the step size: exact for I-ADMM, better from visit to visit for PI-ADMM1
    least_squares   the paper's own attack, (18) and (23), with the 20 iterations of its solver or with all it needs
    quadratics      every x_i, y_i and the objective itself, exactly, where the objectives are quadratic
    averaged        the gradients behind the noise of PI-ADMM2, by regression over an agent's visits
    colluders       not from the transcript: N-1 agents combine what they know; `around`, the two that are enough

Of all methods without privacy, `overhear` runs one, and `gradients` gives what an eavesdropper, or some agents, know:
every agent's exact gradients. From them `leak` finds the Hessian, the records, the labels, and who is in them. `sums`
is about secret-shared sums over several rounds.

>>> import numpy as np
>>> from tacit import Graph, Problem
>>> from tacit.algorithms import IncrementalADMM
>>> problem = Problem([([[1.0]], [1]), ([[0.5]], [-1]), ([[2.0]], [1])], l2=0.1)
>>> heard, truth, gradient = listen_in(IncrementalADMM(penalty=2.0), problem, Graph.ring(3), ticks=30)
>>> guessed = recursion(heard)
>>> bool(np.allclose(guessed.x, truth.x) and np.allclose(guessed.y, gradient))
True
"""

from tacit.lab.attacks.averaging import averaged
from tacit.lab.attacks.colluders import around, colluders, secret_offset
from tacit.lab.attacks.leaks import Attacked, Leak, leak
from tacit.lab.attacks.least_squares import least_squares
from tacit.lab.attacks.overheard import Overheard, States, Transcript, listen_in
from tacit.lab.attacks.quadratics import Quadratics, quadratics
from tacit.lab.attacks.recursion import recursion
from tacit.lab.attacks.stationarity import Gradients, gradients, overhear

__all__ = [
    "Attacked",
    "Gradients",
    "Leak",
    "Overheard",
    "Quadratics",
    "States",
    "Transcript",
    "around",
    "averaged",
    "colluders",
    "gradients",
    "leak",
    "least_squares",
    "listen_in",
    "overhear",
    "quadratics",
    "recursion",
    "secret_offset",
]
