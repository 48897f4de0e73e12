"""What the papers prove about a plan, for `tacit plan --theory` and `--design`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.data import read_csv
from tacit.errors import InputError
from tacit.lab.theory.design import Measured, Utility, designed
from tacit.lab.theory.paper_004 import DESIGN
from tacit.lab.theory.theorems import Aim, Planned, statements, theorems
from tacit.run.setting import Setting

if TYPE_CHECKING:
    from tacit.cli.plan import Theory


def said_of(setting: Setting, asked: Theory) -> list[str]:
    """What the theorems about the method say, a line each; with --design alone, the solution of problem (28)."""
    method, budget, points = setting.algorithm, setting.spec.budget, None
    said: list[str] = []
    if asked.design is not None:
        if DESIGN not in theorems(method):
            raise InputError(f"--design is for dvp and pvp, which problem (28) is about, not for {setting.name}")
        alphas, losses = pairs(asked.design)
        points = Measured(alphas, losses, asked.largest_alpha, asked.worst_loss, asked.floor, utility(asked.utility))
        said.append(designed(points))  # refuses losses to which no curve fits
    if not asked.theory:
        return said
    aim = Aim(asked.reference, asked.accuracy, asked.failure)
    total = None if budget is None else (budget.epsilon, budget.delta)
    return statements(Planned(method, setting.facts, setting.graph, setting.rounds, aim, total, points))  # with (28)


def pairs(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """The measured pairs, from a CSV file with the columns alpha and loss."""
    table = read_csv(file)
    table.require(["alpha", "loss"])
    try:
        alphas, losses = (np.array([float(cell) for cell in table.columns[name]]) for name in ("alpha", "loss"))
    except ValueError as error:
        raise InputError(f"{file} must hold numbers in the columns alpha and loss: {error}") from None
    return alphas, losses


def utility(weights: str) -> Utility:
    """From four numbers with commas between them.

    >>> utility("0.02,6,9,1") == Utility()
    True
    """
    try:
        w1, w2, w3, w4 = map(float, weights.split(","))
    except ValueError:
        raise InputError(f"--utility is four numbers, such as 0.02,6,9,1; not {weights!r}") from None
    return Utility(w1, w2, w3, w4)
