"""How columns of numbers become rows for a solver, and its weights become weights of the columns again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.clipping import clipped
from tacit.errors import InputError


@dataclass(frozen=True, eq=False)
class Scaling:
    """x becomes u = (x - centre)/spread, with a constant at its end for the intercept.

    With public bounds, x is clipped to them first, and u is shortened to norm 1 at the end, as privacy proofs need it.
    A column keeps its zero if that lies within the bounds, so that rows of zeros and ones stay as short as they are;
    otherwise the middle of the bounds becomes zero.
    """

    centre: np.ndarray  # (d,)
    spread: np.ndarray  # (d,)
    constant: float  # of the intercept; 0 for none
    bounds: np.ndarray | None = None  # (d, 2)

    @classmethod
    def public(cls, bounds: np.ndarray, intercept: bool) -> Scaling:
        """From public bounds, (d, 2): nothing of it depends on records.

        >>> scaling = Scaling.public(np.array([[0.0, 2.0], [50.0, 70.0]]), intercept=True)
        >>> scaling.rows(np.array([[0.5, 60.0], [2.0, 90.0]])).round(3).tolist()
        [[0.243, 0.0, 0.97], [0.577, 0.577, 0.577]]
        """
        lo, hi = bounds.T
        keeps = (lo <= 0) & (hi >= 0) if intercept else np.ones(len(lo), dtype=bool)  # to shift needs an intercept
        centre = np.where(keeps, 0.0, lo + (hi - lo) / 2)
        return cls(centre, np.maximum(np.abs(lo - centre), np.abs(hi - centre)), float(intercept), bounds)

    @classmethod
    def of(cls, X: np.ndarray, intercept: bool) -> Scaling:
        """From the records themselves, where nothing is private: columns of mean 0 and deviation 1, and then rows with
        a mean square of 1, which is what the usual settings are for."""
        centre = X.mean(axis=0) if intercept else np.zeros(X.shape[1])
        deviation = np.sqrt(np.mean((X - centre) ** 2, axis=0))
        # A column that is constant but for rounding has nothing to learn from.
        flat = deviation <= 1e-12 * np.abs(X).max(axis=0, initial=0.0)
        unit = math.sqrt(X.shape[1] + intercept)
        return cls(centre, np.where(flat, 1.0, deviation) * unit, intercept / unit)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """(n, d) as rows for a solver."""
        inside = X if self.bounds is None else np.clip(X, *self.bounds.T)
        u = (inside - self.centre) / self.spread
        if self.constant:
            u = np.hstack([u, np.full((len(u), 1), self.constant)])
        return u if self.bounds is None else clipped(u, 1.0)

    def in_units(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights of a solver, (k, features), as weights of the columns, (k, d), and intercepts, (k,)."""
        d = len(self.centre)
        coefficients = weights[:, :d] / self.spread
        own = self.constant * weights[:, d] if self.constant else np.zeros(len(weights))
        return coefficients, own - coefficients @ self.centre


def public_bounds(given: Any, features: int, names: Sequence[str] | None) -> np.ndarray:
    """(d, 2) from a pair for all columns, a pair for each, or a mapping from the names of the columns.

    >>> public_bounds((0, 1), 2, None).tolist(), public_bounds({"b": (0, 9), "a": (1, 2)}, 2, ["a", "b"]).tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [[1.0, 2.0], [0.0, 9.0]])
    """
    if isinstance(given, Mapping):
        given = [given[name] for name in _known(given, names)]
    try:
        bounds = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        bounds = np.empty(0)
    if bounds.shape == (2,):
        bounds = np.tile(bounds, (features, 1))
    if bounds.shape != (features, 2):
        raise InputError(f"bounds are a pair (lo, hi), or one for each of {features} columns; not {given!r}")
    wide = bounds[:, 1] - bounds[:, 0]
    if not np.all((wide > 0) & np.isfinite(wide)):
        lo, hi = bounds[np.argmin((wide > 0) & np.isfinite(wide))]
        raise InputError(f"bounds are (lo, hi) with lo < hi at a finite distance; not ({lo:g}, {hi:g})")
    return bounds


def _known(given: Mapping[str, Any], names: Sequence[str] | None) -> list[str]:
    if names is None:
        raise InputError(
            "bounds by the names of columns need columns with names: give a data frame, or a list of pairs"
        )
    absent, unknown = [n for n in names if n not in given], [n for n in given if n not in set(names)]
    if absent or unknown:
        what = f"{absent[0]!r} has none" if absent else f"{unknown[0]!r} is not a column"
        raise InputError(f"bounds name every column and no other; {what}")
    return list(names)
