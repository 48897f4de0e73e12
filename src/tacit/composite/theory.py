"""What paper 001 says about noise and rounds: Theorems 1 and 2, as calculators.

They are for comparison: tacit's own noise comes from `tacit.calibrate`, whose accountant is tight.
"""

from __future__ import annotations

import math

from tacit.errors import InputError


def renyi_order(epsilon: float, delta: float, mu: float = 0.5) -> float:
    """alpha = log(1/delta)/((1 - mu) epsilon) + 1, (13)."""
    for name, value, top in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0), ("mu", mu, 1.0)):
        if not 0 < value < top:
            raise InputError(f"{name} must lie above 0 and below {top:g}, not at {value}")
    return math.log(1 / delta) / ((1 - mu) * epsilon) + 1


def paper_sigma(
    *,
    slope: float,
    rows: int,
    rounds: int,
    epsilon: float,
    delta: float,
    mu: float = 0.5,
    replace_one: bool = True,
) -> float:
    """sigma of Theorem 1, (8): sqrt(c^2 alpha T / (2 n^2 epsilon mu)); c, the `slope`, bounds every record's gradient.

    The paper's sensitivity c/n is for adding or removing a record; `replace_one` takes 2c/n, which doubles sigma.

    >>> paper_sigma(slope=1.0, rows=1000, rounds=100, epsilon=1.0, delta=1e-5, replace_one=False)  # doctest: +ELLIPSIS
    0.0490...
    """
    alpha = renyi_order(epsilon, delta, mu)
    if not (slope > 0 and math.isfinite(slope)):
        raise InputError(f"slope, the bound on the gradient of a record, must be positive and finite, not {slope}")
    if rows < 1 or rounds < 1:
        raise InputError(f"rows and rounds must be 1 or more, not {rows} and {rounds}")
    moved = (2 if replace_one else 1) * slope / rows
    return moved * math.sqrt(alpha * rounds / (2 * epsilon * mu))


def suggested_rounds(
    *, constant: float, rows: int, dimension: int, epsilon: float, delta: float, step: float, mu: float = 0.5
) -> int:
    """T of Theorem 2, (19): constant * n sqrt(epsilon mu) / sqrt(alpha eta d), rounded, at least 1.

    The paper leaves the constant open. Its proof balances c_1 ||x_0 - x*||^2/T with eta sigma^2 d, which makes it
    sqrt(2 c_1) ||x_0 - x*||/c: unknown, since x* is. With it, the bound (9) is 2 c_1 ||x_0 - x*||^2/T. eta is the
    theory's step, 1/L_f.

    >>> suggested_rounds(constant=1.0, rows=32561, dimension=123, epsilon=1.0, delta=1e-5, step=4.0)
    212
    """
    alpha = renyi_order(epsilon, delta, mu)
    for name, value in (("constant", constant), ("rows", rows), ("dimension", dimension), ("step", step)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be a positive number, not {value}")
    return max(1, round(constant * rows * math.sqrt(epsilon * mu) / math.sqrt(alpha * step * dimension)))
