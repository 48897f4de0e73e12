"""By how much the noise of a step raises the objective: Lemmas 17 to 20 of paper 004, Lemmas E.1 and E.3 of paper 000.

They are steps of the proofs behind `tacit.lab.theory.samples`, and each holds with probability 1 - delta over noise
of a density exp(-rate ||e||). They compare minimisers of Z(f) = C/B sum_n L(y_n f.x_n) + rho R(f) with and without a
linear term that is noise, which is how the papers describe the limit of the iterations if the noise of one of them
stayed.

Z is rho-strongly convex. So for a linear term v, with f' the minimiser of Z + v.f and f* that of Z,

    Z(f') - Z(f*) <= ||grad Z(f')||^2 / (2 rho) = ||v||^2 / (2 rho),

of which the papers prove twice as much. It is attained where the loss is flat. `as_printed=True` gives the papers'
bound, `exact=True` takes the exact quantile of the norm in place of Lemma 17: for d = 104 and delta = 0.05 a sixth.

    d, delta    the dimension, and the probability of failure
    rate        zeta in paper 004, alpha in paper 000: the rate of the noise
    rho         the strong convexity of Z (rho/N in paper 000)
    C, rows     the scale of the loss, and B
    eta, degree the penalty, and the number of neighbours of the agent
"""

from __future__ import annotations

import math

from scipy.special import gammainccinv

from tacit.errors import InputError, number, whole

__all__ = ["noise_norm", "perturbed_objective", "perturbed_output", "perturbed_penalties"]


def noise_norm(*, d: int, rate: float, delta: float, exact: bool = False) -> float:
    """Lemma 17 (paper 004), Lemma E.3 (paper 000): ||e|| < d ln(d/delta)/rate with probability 1 - delta. The norm has
    a gamma distribution of shape d and scale 1/rate: a sum of d exponential numbers, each of which is below
    ln(d/delta)/rate with probability 1 - delta/d.

    >>> round(noise_norm(d=104, rate=1.0, delta=0.05)), round(noise_norm(d=104, rate=1.0, delta=0.05, exact=True))
    (795, 121)
    """
    _check(delta, d=d, rate=rate)
    return (float(gammainccinv(d, delta)) if exact else d * math.log(d / delta)) / rate


def perturbed_objective(
    *,
    d: int,
    rate: float,
    delta: float,
    rho: float,
    C: float = 1.0,
    rows: int = 1,
    exact: bool = False,
    as_printed: bool = False,
) -> float:
    """Lemma 18 (paper 004), Lemma E.1 (paper 000, where C/B is 1): Z(f') - Z(f*), where f' minimises Z + C/B e.f:

        (C/B)^2 d^2 ln(d/delta)^2 / (2 rho rate^2)

    Printed, in 004: without C^2, which its last step loses, and without the 2. There Phi is 0, rate = alpha_hat/2, and
    alpha_hat >= alpha/2 gives the 16 d^2 ln(d/delta)^2/(rho B^2 alpha^2) of its statement.

    >>> perturbed_objective(d=2, rate=4.0, delta=0.1, rho=0.5, C=10.0, rows=100) < 0.023
    True
    """
    _check(delta, rho=rho, C=C, rows=rows)
    moved = (1.0 if as_printed else C) / rows * noise_norm(d=d, rate=rate, delta=delta, exact=exact and not as_printed)
    return moved**2 / rho / (1 if as_printed else 2)


def perturbed_penalties(
    *,
    d: int,
    rate: float,
    delta: float,
    rho: float,
    eta: float,
    degree: int,
    exact: bool = False,
    as_printed: bool = False,
) -> float:
    """Lemma 19 (paper 004): Z(f') - Z(f*), where f' minimises Z + eta sum_i (e_p - e_i).f: the noise that the agent and
    its N neighbours have put on what they released before, at the same rate.

        2 eta^2 N^2 d^2 ln((N + 1) d/delta)^2 / (rho rate^2)

    The linear term is at most eta (N ||e_p|| + sum_i ||e_i||). All N + 1 norms together consist of (N + 1) d
    exponential numbers, each below ln((N + 1) d/delta)/rate with probability 1 - delta/((N + 1) d). (Taking the
    neighbours one by one, as the paper does, would ask for ln(2 d N/delta).)

    Printed: 4 eta^2 N^2 d^2 ln(d/delta)^2/(rho rate^2), with rate = rho B alpha/(2 C): ||e_p|| + ||e_i|| has the shape
    2d, not d, and there are N such sums. No case is known in which it is too small: the 2 that strong convexity saves
    and the signs of the noise make up for it.

    >>> rest = dict(rate=4.0, delta=0.1, rho=0.5, eta=0.3, degree=3)
    >>> perturbed_penalties(d=50, **rest) < perturbed_penalties(d=50, **rest, as_printed=True)
    True
    """
    _check(delta, rho=rho, eta=eta, degree=degree, d=d)
    N = degree
    if as_printed:
        return (2 * eta * N * noise_norm(d=d, rate=rate, delta=delta)) ** 2 / rho
    if exact:
        one = noise_norm(d=d, rate=rate, delta=delta / (N + 1), exact=True)
    else:
        one = noise_norm(d=(N + 1) * d, rate=rate, delta=delta) / (N + 1)
    return (2 * eta * N * one) ** 2 / (2 * rho)


def perturbed_output(
    *,
    d: int,
    rate: float,
    delta: float,
    rho: float,
    c4: float,
    C: float = 1.0,
    tau: float = 1.0,
    exact: bool = False,
    as_printed: bool = False,
) -> float:
    """Lemma 20 (paper 004): Z(f* + e) - Z(f*), where f* minimises Z, which may have a linear term, as the objective of
    a step has; c4 bounds L'', and tau the second derivative of R:

        (rho tau + C c4) d^2 ln(d/delta)^2 / (2 rate^2)

    The gradient of Z changes by at most rho tau + C c4 times the distance, for rows of norm at most 1, and is 0 at f*.
    Printed: without tau, which is 1 where R = ||f||^2/2, and without the 2, which the mean value theorem loses. (The
    local objective of a step also has its penalty, which adds 2 eta N to its second derivative: this Z does not.)

    >>> rest = dict(d=3, rate=4.0, delta=0.1, rho=0.5, c4=0.25)
    >>> perturbed_output(**rest, as_printed=True) / perturbed_output(**rest)
    2.0
    """
    _check(delta, rho=rho, c4=c4, C=C, tau=tau)
    norm = noise_norm(d=d, rate=rate, delta=delta, exact=exact and not as_printed)
    return (rho * (1.0 if as_printed else tau) + C * c4) * norm**2 / (1 if as_printed else 2)


def _check(delta: float, **values: float) -> None:
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not at {delta}")
    for name, value in values.items():
        if name in ("d", "rows", "degree"):
            whole(name, value, 1)
        else:
            number(name, value)
