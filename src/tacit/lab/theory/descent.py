"""Gradient descent with noise (paper 003, Xiao, Ye, Devadas): how near the optimum it comes.

Theorem 3.4 (Algorithm 2), Theorems 4.1 and 4.2 (gradient descent from the mean of all models) and (74) (random
coordinate descent), for F = sum_i f_i on a complete graph, with the constants that the paper hides in a big O. Each
bounds a mean over the noise; the theorems are printed without it.

**What section 4 assumes cannot be.** A strongly convex phi is not Lipschitz on R, and leaves f_i = mean_j phi(z_j.x)
flat in every direction that is orthogonal to all z_j; nor can ||grad f_i||_1 be bounded where f_i is strongly convex.
(On a bounded C both can be, but then the step has a projection, which the paper leaves out.) Here f_i is a mean of phi
plus l2/2 ||x||^2, as in the paper's experiments: phi is Lipschitz and smooth, and the regulariser makes f_i strongly
convex. It also brings d back: noise of deviation sigma in each coordinate adds l2 d sigma^2/2 to it, so that dimension
leaves the first order in sigma only.
"""

from __future__ import annotations

import math

from tacit.errors import InputError, number, whole

__all__ = [
    "contraction",
    "coordinate_descent",
    "error_by_curvature",
    "error_by_largest_entry",
    "error_by_slope",
    "random_aggregation",
]


def random_aggregation(
    *,
    start: float,
    agents: int,
    gradient: float,
    noise: float,
    rounds: int,
    c: float | None = None,
    as_printed: bool = False,
) -> float:
    """Theorem 3.4, on the mean of F(x~) - F(x*), with x~ the mean over agents and rounds of Algorithm 2.

    The steps are eta_k = 1/(c sqrt(k)). With S_k = sum_i ||x_i^k - x*||^2 a round has, as the weights have the mean 1/2
    and lie between 0 and 1,

        2 eta (F(mean x^k) - F(x*)) <= S_k - S_{k+1} + eta^2 N (G^2 + V^2),    so  S_k <= S_0 + N (G^2 + V^2) sum eta^2;

    dividing by 2 eta and adding up over K rounds, with sum 1/k <= 1 + ln K and sum 1/sqrt(k) <= 2 sqrt(K) - 1,

        K E[F(x~) - F*] <= c sqrt(K) S_0/2 + N (G^2 + V^2)/(2c) [(sqrt(K) - 1)(1 + ln K) + 2 sqrt(K) - 1].

    The paper drops the halves, has (ln K + 2) sqrt(K+1) for the bracket, and the bound without the mean.

    start, agents : S_0, and N
    gradient, noise : G, a bound on ||grad f_i||, and V, the root of the largest E||Delta_i^k||^2/eta_k^2
    rounds, c : K, and the constant of the steps; by default the one that makes the bound least

    >>> random_aggregation(start=4.0, agents=1, gradient=1.0, noise=0.0, rounds=1, c=0.5)  # c S_0/2 + 1/(2c)
    2.0
    >>> common = dict(start=1.0, agents=5, gradient=1.0, noise=2.0, rounds=400)
    >>> random_aggregation(**common) < random_aggregation(**common, c=3.0) < random_aggregation(**common, c=1.0)
    True
    """
    S, N, K = number("start", start, zero=True), whole("agents", agents, 1), whole("rounds", rounds, 1)
    power = number("gradient", gradient, zero=True) ** 2 + number("noise", noise, zero=True) ** 2
    root, ln = math.sqrt(K), math.log(K)
    spread = (ln + 2) * math.sqrt(K + 1) if as_printed else ((root - 1) * (1 + ln) + 2 * root - 1) / 2
    near = root * S if as_printed else root * S / 2
    if c is None:
        return 2 * math.sqrt(near * N * power * spread) / K
    return (number("c", c) * near + N * power * spread / c) / K


def contraction(*, gap: float, m: float, M: float, rounds: int, error: float) -> float:
    """(70), on the mean of F(x^K) - F(x*): (1 - m/M)^K gap + error (1 + (1 - m/M) + ... ) over the K rounds.

    Each round is x -> x - 1/M mean_i grad f_i(x), which takes a share m/M of the gap F - F*, and noise that then adds
    `error` to F in the mean: `error_by_slope` (Theorem 4.1), `error_by_largest_entry` (4.2), `error_by_curvature`.

    gap : F(x^0) - F(x*)
    m, M : strong convexity and smoothness of each f_i, l2 and l2 + (curvature of phi) max ||z||^2

    >>> contraction(gap=8.0, m=1.0, M=2.0, rounds=3, error=1.0)  # 8/8 + 1 + 1/2 + 1/4
    2.75
    """
    if not 0 < m <= M < math.inf:
        raise InputError(f"0 < m <= M is needed, not m = {m} and M = {M}")
    left = (1 - m / M) ** whole("rounds", rounds, 1)
    return left * number("gap", gap, zero=True) + number("error", error, zero=True) * (1 - left) * M / m


def error_by_slope(
    *, agents: int, slope: float, row_norm: float, deviation: float, l2: float = 0.0, d: int = 1
) -> float:
    """(66) and (67): what normal noise of that deviation on each x_i adds to F in the mean, at most.

        N L C_2 sqrt(2/pi) sigma/sqrt(N) + l2 d sigma^2/2

    since the mean of N noises has the deviation sigma/sqrt(N), and <noise, z> is normal, too: its mean size is
    sqrt(2/pi) times its deviation, at most C_2 sigma/sqrt(N). The paper does without the 1/sqrt(N). Independent of d
    for l2 = 0.

    >>> round(error_by_slope(agents=4, slope=1.0, row_norm=1.0, deviation=0.1), 6)  # 4 * 0.05 * 0.797885
    0.159577
    """
    N, sigma = whole("agents", agents, 1), number("deviation", deviation, zero=True)
    first = (
        N
        * number("slope", slope, zero=True)
        * number("row_norm", row_norm, zero=True)
        * math.sqrt(2 / math.pi)
        * sigma
        / math.sqrt(N)
    )
    return first + _regulariser(l2, d, sigma)


def error_by_largest_entry(*, agents: int, gradient_l1: float, deviation: float, d: int, l2: float = 0.0) -> float:
    """(71): the same for the data term of an f_i with ||grad||_1 <= C_1, by the largest of d normal numbers.

        N C_1 sqrt(2 ln(2d)) sigma/sqrt(N) + l2 d sigma^2/2

    >>> round(error_by_largest_entry(agents=4, gradient_l1=1.0, deviation=0.1, d=100), 6)
    0.651049
    """
    N, sigma = whole("agents", agents, 1), number("deviation", deviation, zero=True)
    largest = math.sqrt(2 * math.log(2 * whole("d", d, 1))) * sigma / math.sqrt(N)
    return N * number("gradient_l1", gradient_l1, zero=True) * largest + _regulariser(l2, d, sigma)


def error_by_curvature(*, curvature: float, row_norm: float, deviation: float, l2: float = 0.0, d: int = 1) -> float:
    """The same by the curvature of phi (beyond the paper): (curvature C_2^2 + l2 d) sigma^2/2.

    The noise has mean zero, so its first order vanishes: E f(y + noise) - f(y) <= tr(Hessian) sigma^2/(2N), and the
    trace of the data term is at most curvature C_2^2, whatever d is. It does not need phi to be Lipschitz, and for
    little noise it is far below (67).

    >>> round(error_by_curvature(curvature=0.25, row_norm=1.0, deviation=0.1), 6)
    0.00125
    """
    sigma = number("deviation", deviation, zero=True)
    return number("curvature", curvature, zero=True) * number(
        "row_norm", row_norm, zero=True
    ) ** 2 * sigma**2 / 2 + _regulariser(l2, d, sigma)


def coordinate_descent(*, gap: float, m: float, M: float, d: int, rounds: int, deviation: float) -> float:
    """(74), on the mean of f(x^K) - f(x*): (1 - m/(dM))^K gap + M sigma^2/2 (1 + (1 - m/(dM)) + ...).

    f is m-strongly convex and M-smooth in each coordinate; a round takes the step 1/M in a random coordinate, with
    normal noise of that deviation. The step takes 1/(2dM) ||grad f||^2 in the mean, and the noise, with its mean of
    zero, adds at most M sigma^2/2. The paper has C_1 sigma/d in its place, with a bound C_1 on ||grad f||_1 that no
    strongly convex f has, and leaves out the gap. In a network take the mean f of the f_i, and sigma/sqrt(N).

    >>> coordinate_descent(gap=4.0, m=1.0, M=1.0, d=2, rounds=2, deviation=0.0)
    1.0
    """
    if not 0 < m <= M < math.inf:
        raise InputError(f"0 < m <= M is needed, not m = {m} and M = {M}")
    error = M * number("deviation", deviation, zero=True) ** 2 / 2
    return contraction(gap=gap, m=m, M=whole("d", d, 1) * M, rounds=rounds, error=error)


def _regulariser(l2: float, d: int, sigma: float) -> float:
    """l2/2 E||x + noise||^2, summed over N agents, with the mean of N noises: N l2/2 d sigma^2/N."""
    return number("l2", l2, zero=True) * whole("d", d, 1) * sigma**2 / 2
