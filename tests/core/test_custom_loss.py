"""Losses of a user: false claims are refused, compiled slopes are bounded, a loss is known by what it computes."""

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import custom_losses
import numba
import numpy as np
import pytest
import scipy.sparse
from conftest import make_parts
from custom_losses import FAIR, HINGE, LOGISTIC

import tacit
from tacit.core import losses
from tacit.core.function_digest import digest
from tacit.core.solvers import block, quasi_newton
from tacit.errors import InputError
from tacit.extend import CustomLoss
from tacit.privacy.sensitivity import gradient_sensitivity, slope_change

value, slope, curvature = LOGISTIC
CLAIM = {"max_slope": 1.0, "max_curvature": 0.25}
NUMBERS = {"max_slope": 1.0, "max_curvature": 1.0, "numbers": True}
value_njit, slope_njit, curvature_njit = numba.njit(value), numba.njit(slope), numba.njit(curvature)


@numba.njit
def steep_far_out(z, y):
    return slope_njit(z, y) if abs(z) < 1e9 else 1.5 * slope_njit(z, y)


def raises(z, y):
    assert z < 3
    return slope_njit(z, y)


TABLE = np.ones(3)


def test_a_copy_is_the_built_in_loss():
    z = np.concatenate([np.linspace(-30, 30, 5001), [-1e9, 1e9]])
    for copy, built_in in ((custom_losses.logistic(), losses.Logistic()), (custom_losses.hinge(), losses.HuberHinge())):
        for y in (-1.0, 1.0):
            for name in ("value", "slope", "curvature"):
                np.testing.assert_allclose(getattr(copy, name)(z, y), getattr(built_in, name)(z, y), rtol=1e-14)
        assert (copy.max_slope, copy.max_curvature) == (built_in.max_slope, built_in.max_curvature)
        assert copy.probability(z) is None


# What holds of many sound losses, and no false alarm


def hinge_of(w):
    def value(z, y):
        m = y * z
        return 0.0 if m >= 1 + w else 1 - m if m <= 1 - w else (1 + w - m) ** 2 / (4 * w)

    def slope(z, y):
        m = y * z
        return 0.0 if m >= 1 + w else -y if m <= 1 - w else -y * (1 + w - m) / (2 * w)

    def curvature(z, y):
        return 1 / (2 * w) if abs(1 - y * z) <= w else 0.0

    return CustomLoss("hinge", value, slope, curvature, max_slope=1.0, max_curvature=1 / (2 * w))


def pseudo_huber_of(w):
    def value(z, y):
        return w * w * (math.sqrt(1 + ((z - y) / w) ** 2) - 1)

    def slope(z, y):
        return (z - y) / math.sqrt(1 + ((z - y) / w) ** 2)

    def curvature(z, y):
        return (1 + ((z - y) / w) ** 2) ** -1.5

    return CustomLoss("pseudo-Huber", value, slope, curvature, max_slope=w, max_curvature=1.0, numbers=True)


def quantile_of(share, w):
    def value(z, y):
        r = (z - y) / w
        return w * (math.log1p(math.exp(-abs(r))) + max(r, 0.0) - (1 - share) * r)

    def slope(z, y):
        return 1 / (1 + math.exp(-(z - y) / w)) - (1 - share)

    def curvature(z, y):
        e = math.exp(-abs(z - y) / w)
        return e / (1 + e) ** 2 / w

    claim = {"max_slope": max(share, 1 - share), "max_curvature": 0.25 / w, "numbers": True}
    return CustomLoss("quantile", value, slope, curvature, **claim)


@pytest.mark.parametrize("width", [1e-9, 1e-4, 0.02, 1.0, 300.0])
def test_sound_losses_of_any_width_are_taken(width):
    """With the bounds that they claim, and the slopes of their formulas: at the label, and some widths from it."""
    hinge, huber, quantile = hinge_of(width), pseudo_huber_of(width), quantile_of(0.9, width)
    bounds = [(loss.max_slope, loss.max_curvature) for loss in (hinge, huber, quantile)]
    assert bounds == [(1.0, 1 / (2 * width)), (width, 1.0), (0.9, 0.25 / width)]
    one = np.ones(3)
    z = np.array([1 - 3 * width, 1.0, 1 + 3 * width])
    np.testing.assert_allclose(hinge.slope(z, one), [-1.0, -0.5, 0.0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(huber.slope(z, one) / width, np.array([-3, 0, 3]) / math.sqrt(10), rtol=1e-6, atol=1e-6)
    expected = 1 / (1 + np.exp([3.0, 0.0, -3.0])) - (1 - 0.9)
    np.testing.assert_allclose(quantile.slope(z, one), expected, rtol=1e-6, atol=1e-6)


def test_a_loss_without_a_bound_on_its_slope_is_for_exact_methods():
    square = CustomLoss(
        "square",
        lambda z, y: (z - y) ** 2 / 2,
        lambda z, y: z - y,
        lambda z, y: 1.0,
        max_slope=math.inf,
        max_curvature=1.0,
        numbers=True,
    )
    parts = make_parts()
    ours = tacit.Problem(parts, loss=square, l2=0.1)
    np.testing.assert_allclose(ours.optimum(), tacit.Problem(parts, loss=losses.Squared(), l2=0.1).optimum(), atol=1e-9)
    with pytest.raises(InputError, match="no bound on its slope"):
        gradient_sensitivity(ours)


# False claims


@pytest.mark.parametrize(
    ("functions", "claim", "why"),
    [
        (LOGISTIC, CLAIM | {"max_slope": 0.999}, r"\|slope\| is at most max_slope = 0.999, but slope\(.*\) = 1.0"),
        (LOGISTIC, CLAIM | {"max_curvature": 0.2499}, r"at most max_curvature = 0.2499, but curvature\(.*\) = 0.25"),
        (HINGE, CLAIM, r"at most max_curvature = 0.25, but curvature\(.*\) = 1.0"),
        # The bound on the curvature is what the slope does, whatever the function `curvature` says.
        ((HINGE[0], HINGE[1], lambda z, y: 0.2), CLAIM, "slope rises by at most max_curvature = 0.25 times"),
        # A corner: infinite curvature at one point, and none elsewhere.
        (
            (lambda z, y: abs(z - y), lambda z, y: 1.0 if z > y else -1.0, lambda z, y: 0.0),
            NUMBERS,
            r"slope rises by .* slope\(0.0, 0.0\) = -1.0",
        ),
        # Beyond the dense part of the grid.
        ((value, steep_far_out, curvature), CLAIM, r"\|slope\| is at most max_slope"),
        # Cauchy's loss is not convex.
        (
            (
                lambda z, y: math.log1p((z - y) ** 2) / 2,
                lambda z, y: (z - y) / (1 + (z - y) ** 2),
                lambda z, y: max(0.0, (1 - (z - y) ** 2) / (1 + (z - y) ** 2) ** 2),
            ),
            NUMBERS,
            "the slope of a convex loss never falls",
        ),
        ((value, slope, lambda z, y: -curvature_njit(z, y)), CLAIM, "no curvature below 0"),
        ((value, slope, lambda z, y: 0.9 * curvature_njit(z, y)), CLAIM, "curvature is the derivative of slope"),
        ((lambda z, y: 1.001 * value_njit(z, y), slope, curvature), CLAIM, "slope is the derivative of value"),
        ((lambda z, y: math.log(1 + math.exp(-y * z)), slope, curvature), CLAIM, "value is a finite number"),
        # The last digits are worse than claimed: a slope in single precision.
        ((value, lambda z, y: np.float64(np.float32(slope_njit(z, y))), curvature), CLAIM, "slope"),
    ],
)
def test_false_claims_are_refused(functions, claim, why):
    with pytest.raises(InputError, match=why) as refused:
        CustomLoss("false", *functions, **claim)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("false: ")


@pytest.mark.parametrize(
    ("functions", "claim", "why"),
    [
        (LOGISTIC, CLAIM | {"max_slope": 0.0}, "max_slope is a positive number"),
        (LOGISTIC, CLAIM | {"max_slope": math.nan}, "max_slope is a positive number"),
        (LOGISTIC, CLAIM | {"max_curvature": math.inf}, "max_curvature is a positive number"),
        (LOGISTIC, CLAIM | {"roundings": 0}, "roundings must be a whole number, 1 or more"),
        ((value, lambda z: z, curvature), CLAIM, "plain functions of z and y"),
        ((value, 3.0, curvature), CLAIM, "plain functions of z and y"),
        ((value, raises, curvature), CLAIM, "raises must return a number everywhere"),
        ((value, lambda z, y: TABLE[0], curvature), CLAIM, "TABLE is a ndarray"),
        ((value, lambda z, y: custom_losses.WIDTH * z, curvature), CLAIM, "is the module custom_losses"),
        ((value, lambda z, y: slope(z, y), curvature), CLAIM, "calls slope, which needs numba.njit"),
        ((value, lambda z, y: "steep", curvature), CLAIM, "numba cannot compile"),
        ((value, lambda z, y: 0.5 * np.random.random(), curvature), CLAIM, "arguments alone"),  # noqa: NPY002
        ((value, lambda z, y: 0.5 * np.empty(4)[2], curvature), CLAIM, "not empty"),  # what was left in memory
        ((value, lambda z, y: print(z) or 0.5, curvature), CLAIM, "print"),  # a prediction, for everybody to see
        ((value, lambda z, y: z.real_part, curvature), CLAIM, "not real_part"),
    ],
)
def test_what_cannot_be_a_loss_is_refused_in_a_line(functions, claim, why):
    with pytest.raises(InputError, match=why) as refused:
        CustomLoss("no", *functions, **claim)
    assert "\n" not in str(refused.value)


# The bound holds in compiled code whatever the function does


def sly_slope(z, y):
    """Sound at every point that the check looks at, and then a spike, NaN and infinity."""
    if z == 0.123456789:
        return 1e6
    if z == 0.223456789:
        return math.nan
    if z == 0.323456789:
        return -math.inf
    return slope_njit(z, y)


def sly_curvature(z, y):
    if z == 0.123456789:
        return 1e6
    return math.nan if z == 0.223456789 else -1.0 if z == 0.323456789 else curvature_njit(z, y)


SPIKES = np.array([0.123456789, 0.223456789, 0.323456789])


def test_a_slope_beyond_the_claim_is_cut_off():
    loss = CustomLoss("sly", value, sly_slope, sly_curvature, **CLAIM)
    assert loss.slope(SPIKES, 1.0).tolist() == [1.0, 0.0, -1.0]
    assert loss.curvature(SPIKES, 1.0).tolist() == [0.25, 0.0, 0.0]


@pytest.mark.parametrize("sparse", [False, True])
def test_no_record_moves_a_gradient_by_more_than_is_paid_for(sparse):
    """Every record of an agent lies where the slope has a spike, and is replaced; gradient_sensitivity holds."""
    loss = CustomLoss("sly", value, sly_slope, sly_curvature, **CLAIM)
    f = np.array([1.0, 0.0, 0.0])
    for z in SPIKES:
        X = np.array([[z, 0.6, 0.0], [z, -0.6, 0.1], [0.5, 0.5, 0.5]])
        other = np.array([[-z, -0.6, 0.0], [z, -0.6, 0.1], [0.5, 0.5, 0.5]])
        stored = [scipy.sparse.csr_array(rows) if sparse else rows for rows in (X, other)]
        problems = [tacit.Problem([(rows, [1, -1, 1])], loss=loss) for rows in stored]
        first, second = (p.gradient(f)[0] for p in problems)
        allowed = float(gradient_sensitivity(problems[0])[0, 0])
        assert np.linalg.norm(first - second) <= allowed
    unclipped = 1e6 / 3 * np.linalg.norm([0.123456789, 0.6])
    assert unclipped > 1e4 * allowed  # what the spike would do


# Private runs


def test_a_private_run_learns_with_a_loss_of_its_own():
    """Numbers by the fair loss, at (2, 1e-5): nearer to the truth than a model of zeros."""
    rng = np.random.default_rng(0)
    truth = np.array([0.6, -0.4, 0.2])
    parts = []
    for _ in range(3):
        X = rng.normal(size=(3000, 3)) / 3
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        parts.append((X, X @ truth + 0.1 * rng.standard_t(2, size=len(X))))
    problem, graph = tacit.Problem(parts, loss=custom_losses.fair(), l2=1e-3), tacit.Graph.ring(3)
    for make in (
        lambda budget: tacit.algorithms.RecycledADMM(penalty=0.2, budget=budget),
        lambda budget: tacit.algorithms.GradientDescent(step=2.0, mixing=graph.mixing, budget=budget),
    ):
        method = tacit.calibrate(make, problem, graph, rounds=20, epsilon=2.0, delta=1e-5)
        assert tacit.plan(method, problem, graph, rounds=20).epsilon(delta=1e-5) <= 2.0
        run = tacit.simulate(method, problem, graph, rounds=20, noise=tacit.SeededNoise(1))
        assert np.linalg.norm(run.model - truth) < np.linalg.norm(truth) / 3


def test_what_rounding_costs_is_claimed():
    """The charge for rounding grows with the claim, and stays far below what a record moves."""
    few, many = (tacit.Problem(make_parts(), loss=custom_losses.logistic(n)) for n in (8, 8000))
    assert np.all(gradient_sensitivity(few) < gradient_sensitivity(many))
    assert np.all(gradient_sensitivity(many) < slope_change(many) * (1 + 1e-6))
    same = tacit.Problem(make_parts(), loss=losses.Logistic())
    np.testing.assert_array_equal(gradient_sensitivity(few), gradient_sensitivity(same))


# What a loss is known by


def test_a_loss_is_known_by_what_it_computes():
    loss = custom_losses.fair()
    assert repr(loss) == repr(custom_losses.fair())
    assert loss == custom_losses.fair()
    assert hash(loss) == hash(custom_losses.fair())
    assert repr(loss).startswith(
        "CustomLoss('fair', max_slope=1.0, max_curvature=1.0, numbers=True, roundings=64, code="
    )
    assert loss != CustomLoss("fair", *FAIR, max_slope=1.5, max_curvature=1.0, numbers=True)
    parts = make_parts()
    prints = {tacit.Problem(parts, loss=hinge_of(w)).fingerprint() for w in (0.5, 0.5, 0.6)}
    assert len(prints) == 2  # equal closures are the same loss, another width is another


def test_a_changed_constant_is_another_loss(monkeypatch):
    first = custom_losses.hinge()
    assert first.slope(0.4, 1.0) == -1.0
    monkeypatch.setattr(custom_losses, "WIDTH", 0.8)
    second = CustomLoss("my hinge", *HINGE, max_slope=1.0, max_curvature=1.0)
    assert second.slope(0.4, 1.0) == pytest.approx(-0.875)
    assert first.slope(0.4, 1.0) == -1.0
    assert first.digest != second.digest


def test_the_digest_sees_helpers():
    def made(factor):
        @numba.njit
        def scaled(z):
            return factor * z

        return lambda z, y: scaled(z) - y

    assert digest([made(2.0)]) == digest([made(2.0)]) != digest([made(3.0)])


def test_the_digest_sees_which_helper_comes_again():
    one, two = numba.njit(lambda z: z + 1.0), numba.njit(lambda z: 2.0 * z)

    def made(a, b, c):
        return lambda z, y: a(z) + b(z) + c(z)

    assert digest([made(one, two, one)]) == digest([made(one, two, one)]) != digest([made(one, two, two)])


def test_the_digest_sees_how_a_helper_is_compiled():
    def made(**options):
        helper = numba.njit(**options)(lambda z: 2.0 / z)
        return lambda z, y: helper(z)

    assert digest([made()]) == digest([made()]) != digest([made(error_model="numpy")])
    with pytest.raises(InputError, match="fastmath"):
        digest([made(fastmath=True)])


def test_a_problem_is_pickled_with_its_loss(tmp_path):
    """In another process the function lies elsewhere: nothing may keep the address."""
    problem = tacit.Problem(make_parts(), loss=custom_losses.fair(), scale=3.0, l2=0.5)
    gradient = problem.gradient(np.ones(15))  # fills what is kept
    path = tmp_path / "problem.pickle"
    path.write_bytes(pickle.dumps(problem))
    script = (
        "import pickle, sys, numpy as np; p = pickle.load(open(sys.argv[1], 'rb')); "
        "np.save(sys.argv[2], p.gradient(np.ones(15))); print(p.fingerprint())"
    )
    tests = str(Path(__file__).parent.parent)
    found = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "gradient.npy")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([tests, *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == problem.fingerprint()
    np.testing.assert_allclose(np.load(tmp_path / "gradient.npy"), gradient, atol=1e-15)


def test_local_functions_cannot_be_pickled():
    with pytest.raises(InputError, match="top level of a module"):
        pickle.dumps(hinge_of(0.5))


def test_no_kernel_is_compiled_again():
    """A custom loss runs in the kernels of the built-in ones, so it cannot change them or grow their cache."""
    parts = make_parts()
    for loss in (losses.Logistic(), custom_losses.logistic()):
        problem = tacit.Problem(parts, loss=loss, l2=0.5)
        problem.value(problem.gradient(problem.optimum()))
        compiled = [len(k.compiled.signatures) for k in (block._values, block.gradients, quasi_newton.minimise)]
        if loss == losses.Logistic():
            before = compiled
    assert compiled == before
