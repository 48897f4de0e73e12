"""Methods, and what they are made of, as data that TOML and JSON can carry.

A part is written as a table: the `kind` of the part, and all its fields. What is None or infinite by default, which
TOML or JSON cannot say, is left out; what is infinite otherwise is the text "inf". The kinds are a closed list. So a
file can name any of our methods with any of its parameters, and can never name code. What has no data form is refused:
a function of the step, a class of one's own, a matrix that was made from records.

A composite term is always written with its whole matrix. A person may write it shorter, by the name of what makes it:

    { kind = "lasso", dimension = 104, strength = 1e-5 }
    { kind = "graph-guided", columns = 3, pairs = [[0, 1], [1, 2, -1.0]], strength = 0.1 }

>>> from tacit.algorithms import Geometric
>>> written(Geometric(1.0, ratio=1.5))
{'kind': 'geometric', 'first': 1.0, 'ratio': 1.5}
>>> read({"kind": "geometric", "first": 1.0, "ratio": 1.5})
Geometric(first=1.0, ratio=1.5, cap=None)
"""

from __future__ import annotations

import inspect
import math
import re
from collections import UserDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from tacit.algorithms.hyper import FrozenSchedule
from tacit.core.losses import HuberHinge, Logistic, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.data.hints import closest
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.composite import Term


class Kinds(UserDict[str, Any]):
    """Classes by the names of their kinds. A class that is given by its place is imported when it is first asked for,
    so that a run loads no other methods than its own."""

    def __getitem__(self, name: str) -> Any:
        kind = self.data[name]
        if isinstance(kind, str):
            module, _, called = kind.rpartition(".")
            kind = self.data[name] = getattr(import_module(module), called)
        return kind


# The name of each method is the one that commands know, where they know it.
METHODS = Kinds(
    {
        "admm": "tacit.algorithms.ConsensusADMM",
        "averaged": "tacit.algorithms.Averaged",
        "coca": "tacit.algorithms.CensoredADMM",
        "dgd": "tacit.algorithms.DGD",
        "dp-accadmm": "tacit.algorithms.AcceleratedDPADMM",
        "dp-admm": "tacit.algorithms.DPADMM",
        "dvp": "tacit.algorithms.DualPerturbedADMM",
        "extra": "tacit.algorithms.EXTRA",
        "gradient-descent": "tacit.algorithms.GradientDescent",
        "i-admm": "tacit.algorithms.IncrementalADMM",
        "m-admm": "tacit.algorithms.PenaltyPerturbedADMM",
        "one-shot": "tacit.algorithms.OneShotAveraging",
        "pvp": "tacit.algorithms.PrimalPerturbedADMM",
        "pw-admm": "tacit.algorithms.ParallelWalkADMM",
        "r-admm": "tacit.algorithms.RecycledADMM",
        "ra-admm": "tacit.algorithms.RandomAggregationADMM",
        "ra-gd": "tacit.algorithms.RandomAggregationGD",
        "rcd": "tacit.algorithms.RandomCoordinateDescent",
        "shared-descent": "tacit.algorithms.SummedGradientDescent",
        "shared-dp-admm": "tacit.algorithms.SummedDPADMM",
        "sharing-admm": "tacit.algorithms.SharingADMM",
        "token-gd": "tacit.algorithms.TokenGradientDescent",
        "w-admm": "tacit.algorithms.WalkADMM",
        "wpg": "tacit.algorithms.WalkProximalGradient",
    }
)
LOSSES = Kinds(
    {
        "huber": HuberHinge,
        "logistic": Logistic,
        "multinomial": Multinomial,
        "pseudo-huber": PseudoHuber,
        "squared": Squared,
    }
)
_PIECES = Kinds(
    {
        "between": "tacit.algorithms.Between",
        "box": "tacit.composite.Box",
        "elastic-net": "tacit.composite.ElasticNet",
        "gaussian": "tacit.privacy.events.Gaussian",
        "geometric": "tacit.algorithms.Geometric",
        "group-l1": "tacit.composite.GroupL1",
        "l1": "tacit.composite.L1",
        "nothing": "tacit.composite.Nothing",
        "pure": "tacit.privacy.events.Pure",
        "random-walk": "tacit.core.schedule.RandomWalk",
        "squared-l2": "tacit.composite.SquaredL2",
        "stacked": "tacit.composite.Stacked",
        "term": "tacit.composite.Term",
    }
)
KINDS = METHODS | LOSSES | _PIECES
_CALLED: defaultdict[str, list[str]] = defaultdict(list)  # the names of the kinds whose classes are called so
for _name, _kind in KINDS.data.items():
    _CALLED[_kind.rpartition(".")[2] if isinstance(_kind, str) else _kind.__name__].append(_name)
_LARGEST = 2**53  # double precision holds every whole number up to here
_DEEPEST = 8  # tables and lists within each other
_INFINITE = "inf"
_FLAGS = ("bool", "bool | None", "<class 'bool'>")  # annotations
_NUMBERS = ("float", "int", "ndarray", "Hyper", "Budget", "Gaussian")


_TERMS = Kinds(
    {
        "constrained": "tacit.run.terms.constrained",
        "generalised-lasso": "tacit.run.terms.generalised_lasso",
        "graph-guided": "tacit.run.terms.graph_guided",
        "lasso": "tacit.run.terms.lasso",
        "term": "tacit.run.terms.term",
    }
)


def written(part: Any) -> Any:
    """A part as data. Refuses what a file cannot say."""
    name = _named(part)
    if name == "term":
        return _written_term(part)
    if name is not None:
        values = {f.name: _field(getattr(part, f.name), f.default) for f in fields(part) if f.init}
        return {"kind": name} | {key: value for key, value in values.items() if value is not None}
    if isinstance(part, np.ndarray | np.generic):
        return written(part.tolist())
    if isinstance(part, tuple | list):
        return [written(each) for each in part]
    if isinstance(part, bool | str | int | float):
        return part
    if isinstance(part, FrozenSchedule):
        raise InputError("a schedule that is a function cannot be written: give numbers, or Geometric")
    raise InputError(f"a {type(part).__name__} cannot be written: the kinds are {', '.join(sorted(KINDS))}")


def register(name: str, method: type) -> None:
    """Makes a method of your own known by a name, in this process: specs can then name it, with all its parameters. A
    file alone never brings code with it.

    name : lower-case letters, digits and hyphens, and not that of another method
    method : its class, a frozen dataclass (`tacit.extend`)
    """
    if not (isinstance(name, str) and re.fullmatch("[a-z][a-z0-9-]*", name)):
        raise InputError(f"the name of a method has lower-case letters, digits and hyphens, not {name!r}")
    if not (isinstance(method, type) and is_dataclass(method) and hasattr(method, "speak")):
        raise InputError(f"{name} needs the class of a method, a frozen dataclass; not {method!r}")
    if not method.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise InputError(f"{name} can change while it runs: write @dataclass(frozen=True)")
    if KINDS.get(name, method) is not method:
        raise InputError(f"{name} is the name of another method: choose one of your own")
    METHODS[name] = KINDS[name] = method
    _CALLED[method.__name__].append(name)


def name_of(part: Any) -> str:
    """The name of its kind; of a class of one's own, that of the class."""
    return _named(part) or type(part).__name__


def _named(part: Any) -> str | None:
    kind = type(part)
    return next((name for name in _CALLED.get(kind.__name__, ()) if KINDS[name] is kind), None)


def _field(value: Any, default: Any) -> Any:
    """A field as data; None if it is left out."""
    if isinstance(value, float) and math.isinf(value):
        return None if value == default else _INFINITE if value > 0 else f"-{_INFINITE}"
    return None if value is None else written(value)


def read(
    plain: Any, among: Mapping[str, type] = KINDS, where: str = "a part", *, hint: str = "", depth: int = 0
) -> Any:
    """The part that `written` wrote, or a person. Refuses unknown kinds and fields, and what the part refuses.

    `hint` is the annotation of the field that it is for. Where no whole number is meant, 1 is 1.0, so that both give
    the same digest. Where a number is, "0.1" and true are refused, which numpy would take for one."""
    if depth > _DEEPEST:
        raise InputError(f"{where} is nested too deeply")
    if among is not KINDS and not isinstance(plain, dict):
        raise InputError(f'{where} is a table with its kind, such as {{ kind = "{min(among)}" }}; not {plain!r}')
    if hint in _FLAGS and not isinstance(plain, bool):  # a text would count as true
        raise InputError(f"{where} is true or false, not {plain!r}")
    if isinstance(plain, list):
        return tuple(read(each, KINDS, where, hint=hint, depth=depth + 1) for each in plain)
    if isinstance(plain, bool) and _numeric(hint):
        raise InputError(f"{where} is not true or false, but a number")
    if isinstance(plain, str) and _numeric(hint):
        raise InputError(f"{where} is not a text: a number has no quotation marks; not {plain!r}")
    if isinstance(plain, bool | str):
        return plain
    if isinstance(plain, int):
        if abs(plain) > _LARGEST:
            raise InputError(f"{where} has a whole number that double precision cannot hold")
        return plain if _whole(hint) else float(plain)
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise InputError(f"{where} has a number that is not finite: {plain}")
        return plain
    if not isinstance(plain, dict):
        raise InputError(f"{where} is a number, a text, a list or a table, not {plain!r}")
    settings = dict(plain)
    name = settings.pop("kind", None)
    makers: Mapping[str, Callable[..., Any]] = among if among is not KINDS else KINDS | _TERMS
    if not isinstance(name, str) or name not in makers:
        meant = closest(name, makers) if isinstance(name, str) else None
        advice = f"not {name!r}" + (f": did you mean {meant!r}?" if meant else "")
        raise InputError(f"the kind of {where} is one of {', '.join(sorted(makers))}; {advice}")
    make = makers[name]
    known = inspect.signature(make).parameters
    if unknown := sorted(settings.keys() - known):
        raise InputError(f"{name} has no {unknown[0]!r}: it has {', '.join(known) or 'no parameters'}")
    needed = [key for key, parameter in known.items() if parameter.default is inspect.Parameter.empty]
    if missing := [key for key in needed if key not in settings]:
        raise InputError(f"{name} needs {', '.join(missing)}")
    values = {}
    for key, value in settings.items():
        hint = str(known[key].annotation)
        if "float" in hint and value in (_INFINITE, math.inf):  # which the part refuses, where it has to be finite
            values[key] = math.inf
            continue
        values[key] = read(value, _among(hint), f"{key} of {name}", hint=hint, depth=depth + 1)
    try:
        return make(**values)
    except (TypeError, ValueError, AttributeError) as error:  # of a value of another type
        raise InputError(f"{name} cannot be made of these values: {error}") from None


def _among(hint: str) -> Mapping[str, type]:
    """The kinds that a field can hold, by its annotation."""
    return METHODS if hint in ("Algorithm", "DPADMM") else KINDS


def _numeric(hint: str) -> bool:
    """Whether a field holds numbers, and neither texts nor flags."""
    return any(name in hint for name in _NUMBERS) and not any(name in hint for name in ("str", "Literal", "bool"))


def _whole(hint: str) -> bool:
    """Whether a field can hold whole numbers, by its annotation, or checks what it is given itself."""
    return any(name in hint for name in ("int", "ndarray"))


def _written_term(term: Term) -> dict[str, Any]:
    """A row of the matrix is a list of pairs: the column, and the number there."""
    if not term.cost.free or term.seeded:
        raise InputError("a term whose matrix was made from records cannot be written: it is not public")
    A = scipy.sparse.csr_array(term.A)
    pairs = [list(map(list, zip(A.indices[a:b].tolist(), A.data[a:b].tolist(), strict=True)))
             for a, b in zip(A.indptr[:-1], A.indptr[1:], strict=True)]  # fmt: skip
    return {"kind": "term", "columns": term.dimension, "rows": pairs, "g": written(term.g), "c": written(term.c)}
