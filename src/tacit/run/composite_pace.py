"""Settings of the fused lasso front, from public facts alone: the number of rows, their norm, and the budget.

Take rows of norm 1; another norm is another unit. Let m be the multiplier at which one Gaussian mechanism would spend
the whole budget. However many rounds share it, the mean of their gradients over n rows has noise of deviation
s = 2 m/n in each coordinate. A fit that starts from zero and stops early regularises: if it stops where a constant
gradient g would have moved the model by g/lambda, it is about as cautious as an l2 of lambda. We stop at

    lambda = c s + 1/n.

The first part weighs what one more step learns against the noise that it adds; c is that of gradient descent in
`tacit.run.recipes`. The second part is for budgets that hardly matter: the C = 1 of scikit-learn.

T plain rounds of step a get as far as T a, accelerated ones as about T^2 a/8. Momentum adds up noise, but gradients as
well: noise in round k moves the model by about k/2 (1 - (k/T)^2) steps in the end, which makes 1.1 times the noise of
plain rounds that get as far (in directions without curvature).

A fused lasso of strength 0.1 lambda does little harm where weights are not alike, and helps where they are. The
constants were tuned on synthetic records (`benchmarks/fused_tuning.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tacit.errors import InputError

NOISE = 0.7  # c
STRENGTH = 0.1  # strength / lambda
INTERCEPT = 0.3  # the constant in a row that stands for the intercept, over the norm of the row's features
PENALTY = 0.25  # rho ||A^T A|| / L_f: steps are shorter by as much
_MOST = 1_000_000  # rounds


class Pace(NamedTuple):
    """How many rounds of which step, and whether they are enough."""

    rounds: int
    step: float
    warning: str | None  # if they stop short


def stopping(rows: int, multiplier: float, row_norm: float) -> float:
    """lambda, for rows of this norm."""
    return row_norm**2 * (2 * NOISE * multiplier + 1) / rows


def pace(
    stop: float,
    longest: float,
    *,
    rounds: int | None = None,
    step: float | None = None,
    accelerated: bool = True,
    average: bool = False,
) -> Pace:
    """The rounds and the step that get to `stop`, or the warning that the given ones do not.

    stop : lambda
    longest : the longest step that is safe
    rounds, step : if they are given; the other one is chosen to fit
    accelerated, average : the kind of `DPADMM`

    >>> pace(1e-4, 4.0).rounds, pace(1e-4, 4.0, accelerated=False).rounds
    (138, 2500)
    >>> pace(1e-4, 4.0, rounds=276).step < 1.1, pace(1e-4, 4.0, rounds=276).warning
    (True, None)
    """
    most = longest if step is None else step
    far = enumerate(_moved(accelerated, average), 1)
    wanted, reached = next(((k, moved) for k, moved in islice(far, _MOST) if moved * most * stop >= 1), (0, 0.0))
    if rounds is not None:
        reached = next(islice(_moved(accelerated, average), rounds - 1, None))
    elif not wanted:
        raise InputError(f"a step of {most:.3g} would take more than {_MOST:,} rounds: give a larger one, or rounds")
    rounds = wanted if rounds is None else rounds
    chosen = min(longest, 1 / (stop * reached)) if step is None else step
    if reached * chosen * stop >= 0.5:  # twice the lambda is still near the best
        return Pace(rounds, chosen, None)
    enough = f"{wanted:,} rounds are enough" if wanted else f"{_MOST:,} rounds are not enough"
    slow = "" if accelerated else ", and fewer with accelerated=True"
    return Pace(
        rounds,
        chosen,
        f"{rounds} rounds stop short of what can be learnt under this noise: {enough}{slow}; leave out rounds and step "
        "to have them chosen",
    )


def _moved(accelerated: bool, average: bool) -> Iterator[float]:
    """How far rounds of step 1 move the model, after 1, 2, ... of them, if the gradient stays -1."""
    x = x_hat = total = 0.0
    theta, k = 1.0, 0
    while True:
        new, k = x_hat + 1, k + 1
        after = (1 + math.sqrt(1 + 4 * theta**2)) / 2
        x_hat = new + ((theta - 1) / after * (new - x) if accelerated else 0.0)
        x, theta, total = new, after, total + new
        yield total / k if average else x
