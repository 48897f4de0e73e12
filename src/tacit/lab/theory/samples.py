"""How many samples an agent needs: Theorems VI.1 and VI.2 of paper 000; Theorems 9, 10, 12 and 13 and Corollaries 11,
14 and 15 of paper 004.

Each gives a number B such that with B samples or more the expected loss of the classifier of an agent is, with high
probability, at most that of a reference classifier plus a tolerance. **Each has a constant that is unknown** (w in
paper 000, beta in paper 004: it comes out of a big O, and in paper 000 grows without bound as a -> 0). `constant` is 1
by default, so the numbers say how B changes with the other quantities, and not how large it is.

Quantities that vary over the iterations (`alpha`, `f_ref`, `Delta`) are numbers or sequences; the theorems take the
worst iteration. All assume that every agent draws from one distribution, that rows have norm at most 1, and that the
regularisation is the one that the proof picks: rho = N C (tau - Delta)/||f_ref||^2 in paper 000, rho =
alpha_acc/||f_ref||^2 in paper 004, chosen in each iteration where Delta or f_ref vary. B bounds the samples of each
agent alone: nothing is gained from the neighbours.

Paper 004 bounds C^R times the loss, so multiplying C^R, rho, eta and alpha_acc by one number changes nothing but the
unit, and cannot change B. The printed bounds of Theorems 9, 10, 12 and 13 do not obey that. The functions follow the
proofs with the lost factors put back; `as_printed=True` gives what the paper prints (`docs/theory.md` has the list).

Theorems 10 and 13 are about the limit that the iterations would have if the noise of iteration t stayed as it is.
Corollaries 11 and 14 are about the iterate itself, which is Delta(t) worse than that limit: its loss is within
alpha_acc + Delta(t) of the reference. So to have an iterate within `alpha_acc`, the theorem has to promise alpha_acc -
Delta(t): that is what `Delta` does in `dvp` and `pvp`. Nobody knows Delta(t): it depends on the noise and on the data.
(The corollaries print Delta(t) and the reference of time t beside f(t+1); their proofs have t+1 everywhere. Corollary
14 cites the conditions of Theorem 12 and uses those of 13.)

The parameters that the functions share:

    f_ref       the norm of the reference classifier
    tau         the tolerance of paper 000; alpha_acc, that of paper 004
    delta       the probability of failure
    alpha       the rate of the noise in a step
    d, C        the dimension, and the scale of the loss
    Delta       how far the iteration is from the centralised optimum
    eta, degree the penalty, and the number of neighbours of the agent
    constant    the unknown constant
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InputError, number, whole

__all__ = ["consensus_admm", "dvp", "least_alpha", "mr_admm", "mr_admm_private", "pvp", "pvp_hidden", "pvp_output"]

Series = float | Sequence[float] | np.ndarray  # one value, or one for each iteration


def mr_admm(*, f_ref: Series, tau: float, delta: float, Delta: Series = 0.0, constant: float = 1.0) -> float:
    """Theorem VI.1 (paper 000), MR-ADMM without noise: B >= w max_k ||f_ref||^2 log(1/delta)/(tau - Delta(k))^2.

    Then the loss is at most L(f_ref) + tau with probability 1 - delta, in odd iterations. `f_ref` is the norm of the
    reference, `Delta` how far iteration k is from the centralised optimum, `constant` the unknown w.

    >>> round(mr_admm(f_ref=2.0, tau=0.1, delta=0.05), 3)
    1198.293
    """
    F, gap = _positive("f_ref", f_ref), _gap(tau, Delta)
    return _worst(constant, F**2 * _log_inverse(delta) / gap**2)


def mr_admm_private(
    *,
    f_ref: Series,
    tau: float,
    delta: float,
    alpha: Series,
    d: int,
    agents: int,
    C: float,
    Delta: Series = 0.0,
    a: float = 1.0,
    constant: float = 1.0,
) -> float:
    """Theorem VI.2 (paper 000), private MR-ADMM with noise of density exp(-alpha ||eps||) in the objective.

        B >= w max_k C N log(1/delta)
             / [ N C (tau - Delta(k))^2/(2 ||f_ref||^2) - (1+a) N d^2 log(d/delta)^2/(C alpha(k)^2) ]

    Then the loss is at most L(f_ref) + tau with probability 1 - 2 delta. This noise does not shrink with B, so below
    `least_alpha` the denominator is not positive and no number of samples is enough: an `InputError`. At a fixed alpha
    more samples buy privacy, through the 2C/B of (32).

    >>> common = dict(f_ref=2.0, tau=0.1, delta=0.05, d=10, agents=5, C=1750.0)
    >>> round(mr_admm_private(alpha=1e9, **common), 3)  # twice Theorem VI.1: its w differs
    2396.586
    >>> mr_admm_private(alpha=5.0, **common) > mr_admm_private(alpha=10.0, **common)
    True
    """
    F, gap, rate, C = _positive("f_ref", f_ref), _gap(tau, Delta), _positive("alpha", alpha), number("C", C)
    least = least_alpha(f_ref=F, tau=tau, delta=delta, d=d, C=C, Delta=Delta, a=a)
    if np.any(rate <= least):
        raise InputError(
            f"no number of samples is enough at alpha = {float(rate.min()):.6g}: Theorem VI.2 needs alpha above "
            f"{least:.6g}; take a larger alpha, tau or C"
        )
    N = whole("agents", agents, 1)
    noise = (1 + a) * N * d**2 * math.log(d / delta) ** 2 / (C * rate**2)
    return _worst(constant, C * N * _log_inverse(delta) / (N * C * gap**2 / (2 * F**2) - noise))


def least_alpha(
    *, f_ref: Series, tau: float, delta: float, d: int, C: float, Delta: Series = 0.0, a: float = 1.0
) -> float:
    """The alpha above which Theorem VI.2 says anything.

        max_k sqrt(2(1+a)) ||f_ref|| d log(d/delta)/(C (tau - Delta(k)))

    >>> round(least_alpha(f_ref=2.0, tau=0.1, delta=0.05, d=10, C=1750.0), 4)
    1.211
    """
    F, gap = _positive("f_ref", f_ref), _gap(tau, Delta)
    noise = math.sqrt(2 * (1 + number("a", a))) * _log_ratio(d, delta) * whole("d", d, 1) / number("C", C)
    return float(np.max(noise * F / gap))


def consensus_admm(
    *, f_ref: Series, alpha_acc: float, delta: float, C: float, constant: float = 1.0, as_printed: bool = False
) -> float:
    """Theorem 9 (paper 004), ADMM without noise: B > beta C^2 ||f0||^2 ln(1/delta)/alpha_acc^2.

    Then C^R times the loss is at most that of the reference plus alpha_acc plus how far the iteration is from the
    optimum, with probability 1 - delta. Printed with C for C^2: the excess risk of C^R L is O((C^R)^2/(rho B)),
    as paper 000 has it in its Appendix D.

    >>> round(consensus_admm(f_ref=2.0, alpha_acc=0.1, delta=math.exp(-1), C=1.0), 9)
    400.0
    """
    F, acc, C = _positive("f_ref", f_ref), number("alpha_acc", alpha_acc), number("C", C)
    return _worst(constant, _learning(F, acc, delta, C, as_printed))


def dvp(
    *,
    f_ref: Series,
    alpha_acc: float,
    delta: float,
    C: float,
    alpha: Series,
    d: int,
    c1: float = 0.25,
    Delta: Series = 0.0,
    constant: float = 1.0,
    as_printed: bool = False,
) -> float:
    """Theorem 10 (paper 004), dual variable perturbation with alpha a step; c1 bounds L''. With `Delta`, Corollary 11.

        B > beta max_t { C ||f0|| d ln(d/delta)/(alpha_acc alpha), C c1 ||f0||^2/(alpha_acc alpha),
                         C^2 ||f0||^2 ln(1/delta)/alpha_acc^2 }

    with probability 1 - 2 delta. The first is printed without C and with ln(1/delta), the last with C: the noise enters
    the objective as C/B eps.f (Lemma 18, whose last step loses C^2), and Lemma 17 bounds ||eps|| with ln(d/delta).

    >>> rest = dict(f_ref=2.0, alpha_acc=0.1, delta=0.05, C=1.0, d=10)
    >>> dvp(alpha=0.01, **rest) > dvp(alpha=0.1, **rest) > dvp(alpha=1.0, **rest)
    True
    """
    F, acc, C = _positive("f_ref", f_ref), _gap(alpha_acc, Delta, "alpha_acc"), number("C", C)
    rate, d = _positive("alpha", alpha), whole("d", d, 1)
    noise = F * d * _log_inverse(delta) if as_printed else C * F * d * _log_ratio(d, delta)
    jacobian = C * number("c1", c1) * F**2
    return _worst(constant, noise / (acc * rate), jacobian / (acc * rate), _learning(F, acc, delta, C, as_printed))


def pvp_hidden(
    *,
    f_ref: Series,
    alpha_acc: float,
    delta: float,
    C: float,
    alpha: Series,
    d: int,
    eta: float,
    degree: int,
    constant: float = 1.0,
    as_printed: bool = False,
) -> float:
    """Theorem 12 (paper 004), primal variable perturbation: the f_p that the agent does not release.

        B > beta max_t { C ||f0||^3 eta N_p d ln(2 d N_p/delta)/(alpha_acc^2 alpha),
                         C^2 ||f0||^2 ln(1/delta)/alpha_acc^2 }

    with probability 1 - 2 delta; N_p is the `degree`. The first is printed with ln(d/delta): ||eps_p|| + ||eps_i|| is
    Gamma of shape 2d, and all N_p neighbours' noise has to be bounded at once. The last is printed with C.

    >>> rest = dict(f_ref=2.0, alpha_acc=0.1, delta=0.05, C=1.0, d=10, eta=1.0, degree=2)
    >>> round(pvp_hidden(alpha=0.1, **rest) / pvp_hidden(alpha=1.0, **rest), 9)
    10.0
    """
    F, acc, C = _positive("f_ref", f_ref), number("alpha_acc", alpha_acc), number("C", C)
    carried = _carried_noise(F, acc, delta, C, _positive("alpha", alpha), d, eta, degree, as_printed)
    return _worst(constant, carried, _learning(F, acc, delta, C, as_printed))


def pvp(
    *,
    f_ref: Series,
    alpha_acc: float,
    delta: float,
    C: float,
    alpha: Series,
    d: int,
    eta: float,
    degree: int,
    c4: float = 0.25,
    Delta: Series = 0.0,
    constant: float = 1.0,
    as_printed: bool = False,
) -> float:
    """Theorem 13 (paper 004), primal variable perturbation: the V_p = f_p + eps that is released; c4 bounds L''. With
    `Delta`, Corollary 14.

        B > beta max_t { both of Theorem 12, C ||f0|| d ln(d/delta)/(alpha_acc alpha),
                         C^(3/2) c4^(1/2) ||f0||^2 d ln(d/delta)/(alpha_acc^(3/2) alpha) }

    with probability 1 - 3 delta. Printed: (26), where the third has C^B and ln^2, the last no c4, both a 4, and one
    more repeats the first without its C. Solving the proof's last inequality term by term gives the above.

    >>> rest = dict(f_ref=2.0, alpha_acc=0.1, delta=0.05, C=1.0, alpha=0.1, d=10, eta=1.0, degree=2)
    >>> pvp(**rest) >= pvp_hidden(**rest)
    True
    """
    F, acc, C = _positive("f_ref", f_ref), _gap(alpha_acc, Delta, "alpha_acc"), number("C", C)
    rate, ln = _positive("alpha", alpha), _log_ratio(d, delta)
    carried = _carried_noise(F, acc, delta, C, rate, d, eta, degree, as_printed)
    learning = _learning(F, acc, delta, C, as_printed)
    own = C * F * d * ln / (acc * rate)
    curved = (C / acc) ** 1.5 * F**2 * d * ln / rate
    if as_printed:
        return _worst(constant, carried, learning, 4 * ln * own, 4 * carried / C, 4 * curved)
    return _worst(constant, carried, learning, own, math.sqrt(number("c4", c4)) * curved)


def pvp_output(
    *,
    f_ref: Series,
    alpha_acc: float,
    delta: float,
    C: float,
    alpha: Series,
    d: int,
    eta: float,
    degree: int,
    c1: float = 0.25,
    c4: float = 0.25,
    Delta: Series = 0.0,
    constant: float = 1.0,
    as_printed: bool = False,
) -> float:
    """Corollary 15 (paper 004), the final output of primal variable perturbation: what Theorems 10 and 13 ask for.

    With probability 1 - 5 delta, which is 2 delta for the one and 3 delta for the other. The final output is a step of
    dual perturbation, so Theorem 10 alone would do, with 1 - 2 delta: Theorem 13 is about the steps before it.

    >>> rest = dict(f_ref=2.0, alpha_acc=0.1, delta=0.05, C=1.0, alpha=0.1, d=10)
    >>> pvp_output(**rest, eta=1.0, degree=2) == max(dvp(**rest), pvp(**rest, eta=1.0, degree=2))
    True
    """
    shared: dict[str, Any] = {"f_ref": f_ref, "alpha_acc": alpha_acc, "delta": delta, "C": C, "alpha": alpha, "d": d}
    shared |= {"Delta": Delta, "constant": constant, "as_printed": as_printed}
    return max(dvp(**shared, c1=c1), pvp(**shared, c4=c4, eta=eta, degree=degree))


def _learning(F: np.ndarray, acc: float | np.ndarray, delta: float, C: float, as_printed: bool) -> np.ndarray:
    return (C if as_printed else C**2) * F**2 * _log_inverse(delta) / acc**2


def _carried_noise(
    F: np.ndarray,
    acc: float | np.ndarray,
    delta: float,
    C: float,
    rate: np.ndarray,
    d: int,
    eta: float,
    N: int,
    as_printed: bool,
) -> np.ndarray:
    d, N = whole("d", d, 1), whole("degree", N, 1)
    ln = _log_ratio(d, delta) if as_printed else _log_ratio(2 * d * N, delta)
    return C * F**3 * number("eta", eta) * N * d * ln / (acc**2 * rate)


def _worst(constant: float, *terms: np.ndarray) -> float:
    return number("constant", constant) * max(float(np.max(term)) for term in terms)


def _positive(name: str, value: Series) -> np.ndarray:
    given = np.asarray(value, dtype=float)
    if given.ndim > 1 or given.size == 0:
        raise InputError(f"{name} is one number or one for each iteration, not of shape {given.shape}")
    if not (np.all(given > 0) and np.all(np.isfinite(given))):
        raise InputError(f"{name} must be positive and finite, not {value}")
    return given


def _gap(tau: float, Delta: Series, name: str = "tau") -> np.ndarray:
    gap = number(name, tau) - np.asarray(Delta, dtype=float)
    if gap.ndim > 1 or gap.size == 0:
        raise InputError(f"Delta is one number or one for each iteration, not of shape {gap.shape}")
    if not np.all(np.isfinite(gap)) or np.any(gap > tau):
        raise InputError(
            f"Delta is an upper bound on the excess loss: finite, and 0 where it would be negative, not {Delta}"
        )
    if np.any(gap <= 0):
        raise InputError(
            f"{name} must exceed every Delta(k): {name} = {tau} is not above {float(np.max(np.asarray(Delta))):.6g}"
        )
    return gap


def _log_inverse(delta: float) -> float:
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, not at {delta}")
    return -math.log(delta)


def _log_ratio(k: int, delta: float) -> float:
    return math.log(whole("d", k, 1)) + _log_inverse(delta)
