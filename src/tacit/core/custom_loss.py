"""A loss of your own, from three plain functions and the bounds that you claim for them.

The functions are compiled once, for the same kernels that serve the losses of `tacit.losses`, which call them by
address: nothing else is compiled, and the kernels stay in numba's cache.
"""

from __future__ import annotations

import inspect
import math
import pickle  # it writes only, to see whether a loss can be kept  # nosec B403
import re
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import numba
from numba import types

from tacit.core.function_digest import digest, plain
from tacit.core.jit import PLAIN, kernel
from tacit.core.loss_check import RAW_CURVATURE, RAW_SLOPE, check
from tacit.core.losses import SLOPE, VALUE, Loss
from tacit.errors import InputError, whole

ScalarFunction = Callable[[float, float], float]


class CustomLoss(Loss):
    """A loss L(z, y) of a prediction z = f.x and a target y, from plain functions of two numbers.

    It runs in every method that a loss of `tacit.losses` runs in, exact and private.

    name           how you call it; part of the fingerprint of a problem
    value          L(z, y)
    slope          dL/dz, which must not fall as z grows: losses are convex
    curvature      d2L/dz2; where the slope has a corner, either side's
    max_slope      a bound on |slope| for every z and every target; infinite if there is none, for exact methods only
    max_curvature  a bound on the curvature
    numbers        whether targets are any numbers; if not, they are the labels -1 and +1
    roundings      a computed slope is off by at most roundings 2^-53 (max_slope + max_curvature)

    The noise of a private run is in proportion to these bounds, so **a false bound breaks privacy**. Your functions are
    checked against them, on a dense grid of predictions and far out, and a loss that fails is refused with the point
    where it does. Beyond those points the bounds are your claim: prove them. The compiled slope is cut off at
    max_slope in any case, and zero where your function gives NaN; docs/privacy.md ("A loss of your own") says which
    mechanisms that protects by itself.

    The functions are compiled by numba: they may use `math`, constants and functions that have `numba.njit`. What they
    use is read when the loss is made. They must not raise. Functions at the top level of a module can be pickled.

    >>> import math
    >>> import numpy as np
    >>> def value(z, y):  # the "fair" loss: squares for small errors, absolute errors for large ones
    ...     return abs(z - y) - math.log1p(abs(z - y))
    >>> def slope(z, y):
    ...     return (z - y) / (1 + abs(z - y))
    >>> def curvature(z, y):
    ...     return (1 + abs(z - y)) ** -2
    >>> fair = CustomLoss("fair", value, slope, curvature, max_slope=1.0, max_curvature=1.0, numbers=True)
    >>> fair.slope(np.array([0.0, 1.0, 1e9]), np.array([0.0, 0.0, 0.0])).round(6).tolist()
    [0.0, 0.5, 1.0]
    >>> CustomLoss("fair", value, slope, curvature, max_slope=1.0, max_curvature=0.9, numbers=True)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: fair: curvature is at most max_curvature = 0.9, but curvature(0.0, 0.0) = 1.0
    """

    def __init__(
        self,
        name: str,
        value: ScalarFunction,
        slope: ScalarFunction,
        curvature: ScalarFunction,
        *,
        max_slope: float,
        max_curvature: float,
        numbers: bool = False,
        roundings: int = 64,
    ) -> None:
        if not max_slope > 0:
            raise InputError(f"{name}: max_slope is a positive number, or infinite, not {max_slope}")
        if not 0 < max_curvature < math.inf:
            raise InputError(f"{name}: max_curvature is a positive number, not {max_curvature}")
        whole("roundings", roundings, 1)
        self.name, self._numbers, self._roundings = name, bool(numbers), roundings
        self._max_slope, self._max_curvature = float(max_slope), float(max_curvature)
        self._functions = (value, slope, curvature)
        for function in map(plain, self._functions):
            if not isinstance(function, FunctionType) or len(inspect.signature(function).parameters) != 2:
                raise InputError(f"{name}: value, slope and curvature are plain functions of z and y, not {function!r}")
        self.digest = digest(self._functions)
        self._compiled = _compiled(name, self._functions, self.digest, self._max_slope, self._max_curvature)
        check(self)

    @property
    def kind(self) -> int:
        """The address of the compiled function."""
        return self._compiled.address

    @property
    def numbers(self) -> bool:
        """Whether targets are any numbers, not the labels -1 and +1."""
        return self._numbers

    @property
    def max_slope(self) -> float:
        """The bound on |L'|, as claimed."""
        return self._max_slope

    @property
    def max_curvature(self) -> float:
        """The bound on L'', as claimed."""
        return self._max_curvature

    @property
    def roundings(self) -> int:
        """In the evaluation of a slope, at most, as claimed."""
        return self._roundings

    def __repr__(self) -> str:
        claims = f"max_slope={self.max_slope}, max_curvature={self.max_curvature}, numbers={self.numbers}"
        return f"CustomLoss({self.name!r}, {claims}, roundings={self.roundings}, code={self.digest[:16]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomLoss) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.dumps(self._functions)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"{self.name}: define its functions at the top level of a module, or it cannot be pickled: {error}"
            ) from None
        claims = {name: getattr(self, name) for name in ("max_slope", "max_curvature", "numbers", "roundings")}
        return partial(CustomLoss, **claims), (self.name, *self._functions)


@cache  # for ever: an address stays valid as long as the process lives. A changed constant is seen by `known_by`.
def _compiled(name: str, functions: tuple[ScalarFunction, ...], known_by: str, g: float, k: float) -> Any:
    """One C function for the kernels: (which, z, y) -> value, or slope and curvature within their bounds."""
    value, slope, curvature = (kernel(plain(function)) for function in functions)

    def chosen(which, z, y):  # type: ignore[no-untyped-def]
        if which == VALUE:
            return float(value(z, y))
        if which in (SLOPE, RAW_SLOPE):
            s = float(slope(z, y))
            if which == RAW_SLOPE:
                return s
            return min(max(s, -g), g) if s == s else 0.0
        c = float(curvature(z, y))
        if which == RAW_CURVATURE:
            return c
        return min(max(c, 0.0), k) if c == c else 0.0

    try:
        return numba.cfunc(types.float64(types.int64, types.float64, types.float64), **PLAIN)(chosen)
    except Exception as error:  # whatever it is, it is about the functions
        why = re.sub(r"Failed in nopython mode pipeline \(.*?\)| (During|File) .*", "", " ".join(str(error).split()))
        raise InputError(f"{name}: numba cannot compile its functions of two numbers: {why.strip()}") from None
