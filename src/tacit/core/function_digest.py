"""A digest of what plain numerical functions compute: of their byte code and of all that it refers to."""

from __future__ import annotations

import builtins
import dis
import hashlib
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tacit.errors import InputError

_KNOWN_MODULES = ("math", "numpy")  # what others hold can change without a change of the function


def digest(functions: Iterable[Callable[..., Any]]) -> str:
    """The same for functions that compute the same in the same way, whatever they and their files are called.

    Byte code is that of one version of Python. Functions may use numbers, tuples of numbers, `math`, `numpy` and other
    such functions. They must not raise: compiled code has nobody to tell.

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
    used = set[str]()
    for code in _codes(function.__code__):
        yield code.co_code, [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        yield code.co_names, code.co_varnames
        for step in dis.get_instructions(code):
            if step.opname == "RAISE_VARARGS":
                raise InputError(f"{function.__name__} must return a number everywhere: it has `raise` or `assert`")
            if step.opname == "LOAD_GLOBAL":
                used.add(step.argval)
    values = {name: getattr(builtins, name, None) for name in used}
    values |= {name: function.__globals__[name] for name in used & function.__globals__.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    for name, value in sorted(values.items()):
        yield name
        yield from _of_value(function.__name__, name, value, seen)


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
    elif callable(value) and getattr(value, "__module__", None) in (*_KNOWN_MODULES, "builtins"):
        yield value.__module__, value.__name__
    else:
        kind = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
        raise InputError(
            f"{function} may use numbers, math, numpy and functions with numba.njit, but {name} is {kind}: "
            "import or define a number or a function"
        )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
