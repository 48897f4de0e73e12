"""Measured losses from a file, for `tacit plan --design`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacit.data import read_csv
from tacit.errors import InputError
from tacit.theory.design import Measured


def measured(file: Path, largest_alpha: float, worst_loss: float | None, floor: float | None) -> Measured:
    """What problem (28) of paper 004 needs, from a CSV file with the columns alpha and loss."""
    table = read_csv(file)
    table.require(["alpha", "loss"])
    try:
        alphas, losses = (np.array([float(cell) for cell in table.columns[name]]) for name in ("alpha", "loss"))
    except ValueError as error:
        raise InputError(f"{file} must hold numbers in the columns alpha and loss: {error}") from None
    return Measured(alphas, losses, largest_alpha, worst_loss, floor)
