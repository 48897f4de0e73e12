"""Methods, and what they are made of, as data that TOML and JSON can carry.

A part is written as a table: the `kind` of the part, and all its fields. Those that are None or infinite, which TOML or
JSON cannot say, are left out: they are so by default. The kinds are a closed list. So a file can name any of our
methods with any of its parameters, and can never name code. What has no data form is refused: a function of the step,
a class of one's own, a matrix that was made from records.

>>> written(Geometric(1.0, ratio=1.5))
{'kind': 'geometric', 'first': 1.0, 'ratio': 1.5}
>>> read({"kind": "geometric", "first": 1.0, "ratio": 1.5})
Geometric(first=1.0, ratio=1.5, cap=None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np
import scipy.sparse

from tacit.algorithms import (
    DGD,
    DPADMM,
    EXTRA,
    AcceleratedDPADMM,
    Averaged,
    Between,
    CensoredADMM,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    GradientDescent,
    IncrementalADMM,
    OneShotAveraging,
    ParallelWalkADMM,
    PenaltyPerturbedADMM,
    PrimalPerturbedADMM,
    RandomAggregationADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RandomWalk,
    RecycledADMM,
    SharingADMM,
    SummedDPADMM,
    SummedGradientDescent,
    TokenGradientDescent,
    WalkADMM,
    WalkProximalGradient,
)
from tacit.algorithms.hyper import Schedule
from tacit.composite import Term
from tacit.composite.prox import L1, Box, ElasticNet, GroupL1, Nothing, SquaredL2
from tacit.composite.term import PUBLIC
from tacit.core.losses import HuberHinge, Logistic, Multinomial, PseudoHuber, Squared
from tacit.errors import InputError
from tacit.privacy.events import Gaussian, Pure

# The name of each method is the one that commands know, where they know it.
METHODS: dict[str, type] = {
    "admm": ConsensusADMM,
    "averaged": Averaged,
    "coca": CensoredADMM,
    "dgd": DGD,
    "dp-accadmm": AcceleratedDPADMM,
    "dp-admm": DPADMM,
    "dvp": DualPerturbedADMM,
    "extra": EXTRA,
    "gradient-descent": GradientDescent,
    "i-admm": IncrementalADMM,
    "m-admm": PenaltyPerturbedADMM,
    "one-shot": OneShotAveraging,
    "pvp": PrimalPerturbedADMM,
    "pw-admm": ParallelWalkADMM,
    "r-admm": RecycledADMM,
    "ra-admm": RandomAggregationADMM,
    "ra-gd": RandomAggregationGD,
    "rcd": RandomCoordinateDescent,
    "shared-descent": SummedGradientDescent,
    "shared-dp-admm": SummedDPADMM,
    "sharing-admm": SharingADMM,
    "token-gd": TokenGradientDescent,
    "w-admm": WalkADMM,
    "wpg": WalkProximalGradient,
}
LOSSES: dict[str, type] = {
    "huber": HuberHinge,
    "logistic": Logistic,
    "multinomial": Multinomial,
    "pseudo-huber": PseudoHuber,
    "squared": Squared,
}
_PIECES: dict[str, type] = {
    "between": Between,
    "box": Box,
    "elastic-net": ElasticNet,
    "gaussian": Gaussian,
    "geometric": Geometric,
    "group-l1": GroupL1,
    "l1": L1,
    "nothing": Nothing,
    "pure": Pure,
    "random-walk": RandomWalk,
    "squared-l2": SquaredL2,
    "term": Term,
}
KINDS = METHODS | LOSSES | _PIECES
_NAMES = {kind: name for name, kind in KINDS.items()}
_LARGEST = 2**53  # double precision holds every whole number up to here
_DEEPEST = 8  # tables and lists within each other


def written(part: Any) -> Any:
    """A part as data. Refuses what a file cannot say."""
    if isinstance(part, Term):
        return _written_term(part)
    if type(part) in _NAMES:
        values = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
        return {"kind": _NAMES[type(part)]} | {name: written(v) for name, v in values.items() if not _absent(v)}
    if isinstance(part, np.ndarray | np.generic):
        return written(part.tolist())
    if isinstance(part, tuple | list):
        return [written(each) for each in part]
    if isinstance(part, bool | str | int | float):
        return part
    if isinstance(part, Schedule):
        raise InputError("a schedule that is a function cannot be written: give numbers, or Geometric")
    raise InputError(f"a {type(part).__name__} cannot be written: the kinds are {', '.join(sorted(KINDS))}")


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isinf(value))


def read(
    plain: Any, among: Mapping[str, type] = KINDS, where: str = "a part", *, whole: bool = False, depth: int = 0
) -> Any:
    """The part that `written` wrote, or a person. Refuses unknown kinds and fields, and what the part refuses.
    `whole` says that whole numbers are meant as such: elsewhere, 1 is 1.0, so that both give the same digest."""
    if depth > _DEEPEST:
        raise InputError(f"{where} is nested too deeply")
    if isinstance(plain, list):
        return tuple(read(each, KINDS, where, whole=whole, depth=depth + 1) for each in plain)
    if isinstance(plain, bool | str):
        return plain
    if isinstance(plain, int):
        if abs(plain) > _LARGEST:
            raise InputError(f"{where} has a whole number that double precision cannot hold")
        return plain if whole else float(plain)
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise InputError(f"{where} has a number that is not finite: {plain}")
        return plain
    if not isinstance(plain, dict):
        raise InputError(f"{where} is a number, a text, a list or a table, not {plain!r}")
    settings = dict(plain)
    name = settings.pop("kind", None)
    if not isinstance(name, str) or name not in among:
        raise InputError(f"the kind of {where} is one of {', '.join(sorted(among))}; not {name!r}")
    kind = among[name]
    if kind is Term:
        return _read_term(settings, where, depth)
    known = {field.name: field for field in fields(kind) if field.init}
    if unknown := sorted(settings.keys() - known):
        raise InputError(f"{name} has no {unknown[0]!r}: it has {', '.join(known)}")
    needed = [key for key, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := [key for key in needed if key not in settings]:
        raise InputError(f"{name} needs {', '.join(missing)}")
    values = {}
    for key, value in settings.items():
        values[key] = read(value, KINDS, f"{key} of {name}", whole=_whole(known[key]), depth=depth + 1)
    try:
        return kind(**values)
    except (TypeError, ValueError, AttributeError) as error:  # of a value of another type
        raise InputError(f"{name} cannot be made of these values: {error}") from None


def _whole(field: Field[Any]) -> bool:
    """Whether a field can hold whole numbers, by its annotation, or checks what it is given itself."""
    return any(name in str(field.type) for name in ("int", "ndarray"))


def _written_term(term: Term) -> dict[str, Any]:
    """A row of the matrix is a list of pairs: the column, and the number there."""
    if term.cost != PUBLIC or term.seeded:
        raise InputError("a term whose matrix was made from records cannot be written: it is not public")
    A = scipy.sparse.csr_array(term.A)
    pairs = [list(map(list, zip(A.indices[a:b].tolist(), A.data[a:b].tolist(), strict=True)))
             for a, b in zip(A.indptr[:-1], A.indptr[1:], strict=True)]  # fmt: skip
    return {"kind": "term", "columns": term.dimension, "rows": pairs, "g": written(term.g), "c": written(term.c)}


def _read_term(settings: dict[str, Any], where: str, depth: int) -> Term:
    if settings.keys() - {"c"} != {"columns", "rows", "g"}:
        raise InputError(f"the term of {where} has columns, rows, g, and perhaps c")
    columns, rows = settings["columns"], settings["rows"]
    try:
        if type(columns) is not int or not 0 < columns < 2**31:
            raise ValueError("columns is their number")
        at = [(k, int(j), float(x)) for k, row in enumerate(rows) for j, x in row]
        if not all(0 <= j < columns for _, j, _ in at):
            raise ValueError("a column that it does not have")
        k, j, x = zip(*at, strict=True) if at else ((), (), ())
        A = scipy.sparse.coo_array((x, (k, j)), shape=(len(rows), columns))
    except (TypeError, ValueError) as error:
        raise InputError(f"rows of a term are lists of pairs, a column and a number: {error}") from None
    g = read(settings["g"], _PIECES, "g of a term", depth=depth + 1)
    return Term(A, g, c=read(settings.get("c", 0.0), {}, "c of a term", depth=depth + 1))
