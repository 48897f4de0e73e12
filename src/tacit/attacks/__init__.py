"""What an eavesdropper on the token learns about the agents: the attacks on incremental ADMM (paper 002).

`listen_in` runs a method and returns the eavesdropper's `Transcript` beside the truth. From the transcript alone,

    recursion       (11) with a guess of the step size: exact for I-ADMM, better from visit to visit for PI-ADMM1
    least_squares   the paper's own attack, (18) and (23), with the 20 iterations of its solver or with all it needs
    quadratics      every x_i, y_i and the objective itself, exactly, where the objectives are quadratic
    colluders       not from the transcript: N-1 agents combine what they know

>>> import numpy as np
>>> from tacit import Graph, Problem
>>> from tacit.algorithms import IncrementalADMM
>>> problem = Problem([([[1.0]], [1]), ([[0.5]], [-1]), ([[2.0]], [1])], l2=0.1)
>>> heard, truth, gradient = listen_in(IncrementalADMM(penalty=2.0), problem, Graph.ring(3), ticks=30)
>>> guessed = recursion(heard)
>>> bool(np.allclose(guessed.x, truth.x) and np.allclose(guessed.y, gradient))
True
"""

from tacit.attacks.colluders import colluders
from tacit.attacks.least_squares import least_squares
from tacit.attacks.quadratics import Quadratics, quadratics
from tacit.attacks.recursion import recursion
from tacit.attacks.transcript import Overheard, States, Transcript, listen_in

__all__ = [
    "Overheard",
    "Quadratics",
    "States",
    "Transcript",
    "colluders",
    "least_squares",
    "listen_in",
    "quadratics",
    "recursion",
]
