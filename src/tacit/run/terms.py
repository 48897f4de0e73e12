"""Composite terms as a file says them: by all rows of their matrix, or shorter, by the name of what makes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse

from tacit import composite
from tacit.composite import Term
from tacit.errors import InputError

_MOST_COLUMNS = 2**20  # of a term: its matrix has a row for each
_LARGEST_ENTRY = 2.0**500  # of its matrix


def term(columns: int, rows: tuple[tuple[tuple[int, float], ...], ...], g: Any, c: float = 0.0) -> Term:
    """From the rows of its matrix: lists of pairs, a column and the number there."""
    try:
        at = [(k, j, float(x)) for k, row in enumerate(rows) for j, x in row]
    except (TypeError, ValueError):
        raise InputError("rows of a term are lists of pairs, a column and a number") from None
    k, j, x = zip(*at, strict=True) if at else ((), (), ())
    _check_columns(columns, j)
    if any(not abs(each) <= _LARGEST_ENTRY for each in x):
        raise InputError(f"a number of a term is so large that its square is none: at most {_LARGEST_ENTRY:.1g}")
    return composite.Term(scipy.sparse.coo_array((x, (k, j)), shape=(len(rows), columns)), g, c=c)


def graph_guided(
    columns: int, pairs: tuple[tuple[int, ...], ...], strength: float, sparsity: float = 1.0, as_pattern: bool = False
) -> Term:
    """From pairs of columns that belong together; [i, j, -1.0] says that one falls as the other rises."""
    known = {frozenset(pair[:2]): pair for pair in pairs}
    _check_columns(columns, [j for both in known for j in both])
    if len(known) < len(pairs) or any(len(both) < 2 or len(pair) > 3 for both, pair in known.items()):
        raise InputError("a pair is two columns, and perhaps a weight; each pair is named once")
    i, j = (np.array([pair[end] for pair in known.values()], dtype=int) for end in (0, 1))
    upper = scipy.sparse.coo_array(([float(p[2]) if p[2:] else 1.0 for p in pairs], (i, j)), shape=(columns, columns))
    return composite.graph_guided(
        composite.public_graph(upper + upper.T), strength, sparsity=sparsity, as_pattern=as_pattern
    )


def lasso(dimension: int, strength: float) -> Term:
    """The sum of the absolute values of so many weights."""
    _check_columns(dimension)
    return composite.lasso(dimension, strength)


def generalised_lasso(shape: int | tuple[int, ...], strength: float) -> Term:
    """Of differences between weights that are neighbours on a line or a grid."""
    _check_columns(math.prod(shape) if isinstance(shape, tuple) else shape)
    return composite.generalised_lasso(shape, strength)


def constrained(A: Any, B: Any, c: Any, g: Any) -> Term:
    """From a constraint A x + B y = c."""
    return composite.constrained(A, B, c, g)


def _check_columns(columns: int, named: Any = ()) -> None:
    if type(columns) is not int or not 0 < columns <= _MOST_COLUMNS:
        raise InputError(f"a term has 1 to {_MOST_COLUMNS:,} columns, not {columns!r}")
    if any(type(j) is not int or not 0 <= j < columns for j in named):
        raise InputError(f"a column that it does not have: they are whole numbers from 0 to {columns - 1}")
