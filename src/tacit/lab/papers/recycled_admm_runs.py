"""Paper 000's experiments: the constants of all figures, the penalties of MR-ADMM, and the panels of losses.

Adult, 40,000 training rows in equal parts, C = 1750, rho = 0.22 (so l2 = rho/N for each agent), logistic loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.algorithms import ConsensusADMM, Geometric, RecycledADMM
from tacit.lab.papers.experiment import Lab, Panel, ProblemSpec, Series

C, RHO, N = 1750.0, 0.22, 5
FIVE = ProblemSpec(N, C, RHO / N)
TWENTY = ProblemSpec(20, C, RHO / 20)
ITERATIONS, LOSS, ERROR = "iteration t", "average training loss L(t)", "test error"
ETA_HAT = np.array([1, 1.03, 1.02, 0.8, 1.01])  # Fig. 1(b)
NON_PRIVATE = "ADMM, not private"
GROWTHS = (1.01, 1.02, 1.03, 1.04, 1.05)


def powers(ratio: float | np.ndarray, first: float | np.ndarray = 1.0, cap: float | None = None) -> Geometric:
    """eta(2k-1) = first ratio^k with k = 1, 2, ...: the paper's first odd iteration has the ratio already.

    >>> powers(1.5).at(0, np.array([0]))
    array([[1.5]])
    """
    return Geometric(first * ratio, ratio, cap=cap)


def mr(alpha: float, growth: float, gamma: float = 0.5) -> RecycledADMM:
    """Private MR-ADMM."""
    return RecycledADMM(penalty=powers(growth), gamma=gamma, alpha=alpha)


def losses_beside_plain(lab: Lab, title: str, series: Sequence[Series], letter: str = "", log_y: bool = False) -> Panel:
    """Loss against iterations, with plain ADMM for comparison."""
    plain = lab.runs(ConsensusADMM(penalty=1.0), FIVE, lab.size.rounds)
    shown = [Series.over_rounds(NON_PRIVATE, plain.loss), *series]
    return Panel(title, ITERATIONS, LOSS, shown, log_y=log_y, letter=letter)
