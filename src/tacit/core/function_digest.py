"""A digest of what plain numerical functions compute: of their byte code and of all that it refers to."""

from __future__ import annotations

import builtins
import dis
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tacit.errors import InputError

_KNOWN_MODULES = ("math", "numpy")  # what others hold can change without a change of the function
# Nothing with a state: with random numbers, or memory as it was left, one record would move the slope of another.
_BUILTINS = (abs, bool, float, int, len, max, min, pow, range, round)
_TYPES = (np.float32, np.float64)


def digest(functions: Iterable[Callable[..., Any]]) -> str:
    """The same for functions that compute the same in the same way, whatever they and their files are called.

    Byte code is that of one version of Python. Functions may use numbers, tuples of numbers, `math`, the functions of
    numbers in `numpy`, and other such functions. They have no state: what they give depends on their arguments alone.
    They must not raise: compiled code has nobody to tell.

    >>> first, second = eval("lambda z: 2 * z"), eval("lambda z: 2 * z")
    >>> digest([first]) == digest([second]), digest([first]) == digest([lambda z: 3 * z])
    (True, False)
    """
    found = hashlib.sha256()
    for function in functions:
        for part in _parts(function, {}):
            found.update(repr(part).encode() + b"\n")
    return found.hexdigest()


def plain(function: Any) -> Any:
    """The Python function of one that has `numba.njit` already."""
    return getattr(function, "py_func", function)


def _parts(function: Any, seen: dict[FunctionType, int]) -> Iterator[Any]:
    function = plain(function)
    if not isinstance(function, FunctionType):
        raise InputError(f"a plain Python function is needed, not {function!r}")
    if function in seen:
        yield "again", seen[function]  # which one: a third helper may be the first or the second
        return
    seen[function] = len(seen)
    yield function.__defaults__, function.__kwdefaults__
    used, attributes = set[str](), set[str]()
    for code in _codes(function.__code__):
        yield code.co_code, [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        yield code.co_names, code.co_varnames
        for step in dis.get_instructions(code):
            if step.opname == "RAISE_VARARGS":
                raise InputError(f"{function.__name__} must return a number everywhere: it has `raise` or `assert`")
            if step.opname == "LOAD_GLOBAL":
                used.add(step.argval)
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(step.argval)
    values = {name: getattr(builtins, name, None) for name in used}
    values |= {name: function.__globals__[name] for name in used & function.__globals__.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    for name, value in sorted(values.items()):
        yield name
        yield from _of_value(function.__name__, name, value, seen)
    if stateful := sorted(name for name in attributes if not _stateless(name)):
        raise InputError(
            f"{function.__name__} may use the functions of numbers in math and numpy, not {stateful[0]}: what it gives "
            "must depend on its arguments alone"
        )


def _of_value(function: str, name: str, value: Any, seen: dict[FunctionType, int]) -> Iterator[Any]:
    if isinstance(value, FunctionType):
        raise InputError(f"{function} calls {name}, which needs numba.njit in front of it")
    if isinstance(plain(value), FunctionType):
        options = value.targetoptions  # of numba.njit
        if options.get("fastmath"):  # the compiler may then drop the check for NaN that bounds a slope
            raise InputError(
                f"{function} calls {name}, which has fastmath: leave that out, it assumes that NaN is rare"
            )
        yield sorted((key, repr(chosen)) for key, chosen in options.items())
        yield from _parts(value, seen)
    elif isinstance(value, Real) or (isinstance(value, tuple) and all(isinstance(v, Real) for v in value)):
        yield value
    elif isinstance(value, ModuleType) and value.__name__ in _KNOWN_MODULES:
        yield value.__name__
    elif isinstance(value, np.ufunc) or any(value is known for known in (*_BUILTINS, *_TYPES)):
        yield "numpy" if isinstance(value, np.ufunc) else value.__module__, value.__name__
    elif callable(value) and getattr(value, "__module__", None) == "math":
        yield "math", value.__name__
    else:
        kind = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
        raise InputError(
            f"{function} may use numbers, math, numpy and functions with numba.njit, but {name} is {kind}: "
            "import or define a number or a function"
        )


def _stateless(name: str) -> bool:
    """Whether a function or a constant of that name in math or numpy depends on its arguments alone."""
    found = getattr(np, name, None)
    return hasattr(math, name) or isinstance(found, np.ufunc | Real) or found in _TYPES


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
