"""Losses: known values, derivatives that are derivatives, and the bounds that privacy relies on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tacit.core.losses import HuberHinge, Logistic, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.errors import InputError

LOSSES = [
    Logistic(),
    Squared(),
    HuberHinge(),
    HuberHinge(width=0.1),
    PseudoHuber(width=0.3),
    Logistic(offset=-2.7),
    Logistic(weights=(0.5, 3.0)),
    HuberHinge(width=1.3, offset=0.4, weights=(0.5, 3.0)),
]
Z = np.linspace(-6, 6, 1201)  # no knot of a Huber hinge lies on this grid's midpoints


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_slope_and_curvature_are_derivatives(loss, y):
    mid, h = (Z[1:] + Z[:-1]) / 2, 1e-5
    slope = (loss.value(mid + h, y) - loss.value(mid - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.slope(mid, y), slope, atol=1e-8)
    curvature = (loss.slope(mid + h, y) - loss.slope(mid - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(mid, y), curvature, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_bounds_hold_and_are_attained(loss):
    wide = np.linspace(-50, 50, 20001)
    assert loss.curvature(wide, 1.0).max() == pytest.approx(loss.max_curvature, abs=1e-12)
    if np.isfinite(loss.max_slope):
        far = np.concatenate([wide, [-1e9, 1e9]])  # where the pseudo-Huber loss is as steep as it gets
        assert np.abs(loss.slope(far, 1.0)).max() == pytest.approx(loss.max_slope, abs=1e-12)


def test_known_values():
    assert Logistic().value(0.0, 1.0) == pytest.approx(np.log(2))
    assert Squared().value(0.5, -1.0) == pytest.approx(1.125)
    assert Squared().value(0.5, 2.0) == pytest.approx(1.125)  # any real target
    hinge = HuberHinge(width=0.5)
    assert hinge.value(np.array([2.0, 1.5, 1.0, 0.5, -1.0]), 1.0).tolist() == [0.0, 0.0, 0.125, 0.5, 2.0]


def test_no_overflow_far_out():
    for z in (-1e4, 1e4):
        loss = Logistic()
        assert np.isfinite([loss.value(z, 1.0), loss.slope(z, 1.0), loss.curvature(z, 1.0)]).all()
    assert Logistic().value(-1e4, 1.0) == 1e4


def test_width_must_be_positive():
    with pytest.raises(InputError, match="positive width, not 0"):
        HuberHinge(width=0)


def test_the_worst_record_of_the_logistic_loss():
    """Against a fine grid over the slope q, where L'' = q (1 - q); also where squares would over- or underflow."""
    q = np.concatenate([np.logspace(-12, -0.31, 20_000), 1 - np.logspace(-12, -0.31, 20_000), [0.5, 1.0]])
    for a in (0.0, 1e-200, 1e-9, 0.1, 1.5, 2.0, 3.0, 700.0, 1e200):
        for b in (1e-180, 1e-6, 0.3, 2.0, 50.0, 1e9, 1e160, 1e250):
            truth = np.max(a * q + np.log1p(b * q * (1 - q)))
            found = float(Logistic().worst_record(np.array(a), np.array(b)))
            assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-6), (a, b)


def test_the_worst_record_of_a_weighted_loss():
    q = np.linspace(0, 1, 100_001)
    truth = np.max(0.7 * 3 * q + np.log1p(2.0 * 3 * q * (1 - q)))
    assert float(Logistic(weights=(0.5, 3.0)).worst_record(np.array(0.7), np.array(2.0))) == pytest.approx(truth)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 4.0)])
@pytest.mark.parametrize("offset", [0.0, -1.2])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(1.0), HuberHinge(1.7)], ids=repr)
def test_a_prediction_stands_for_the_share_of_which_it_is_the_best(loss, offset, weights):
    """For every share p, the z that minimises p L(z, +1) + (1 - p) L(z, -1) has the probability p."""
    loss = replace(loss, offset=offset, weights=weights)
    for p in (0.02, 0.06, 0.3, 0.5, 0.62, 0.9, 0.99):

        def risk(z, p=p):
            return float(p * loss.value(z, 1.0) + (1 - p) * loss.value(z, -1.0))

        best = minimize_scalar(risk, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-9}).x
        assert float(loss.probability(best)) == pytest.approx(p, abs=1e-4)
        assert float(loss.centred(p).probability(np.array(0.0))) == pytest.approx(p, rel=1e-12)


def test_probabilities_stay_between_0_and_1_and_rise():
    z = np.linspace(-1e3, 1e3, 40_001)
    for loss in (Logistic(), HuberHinge(1.0), HuberHinge(2.0, offset=0.5, weights=(0.1, 9.0))):
        found = loss.probability(z)
        assert found.min() >= 0
        assert found.max() <= 1
        assert np.all(np.diff(found) >= 0)
    assert HuberHinge(0.5).probability(z) is None
    assert Squared().probability(z) is None


def test_the_pseudo_huber_loss_does_not_overflow():
    loss = PseudoHuber(width=0.5)
    far = np.array([1e300, -1e300])
    assert loss.slope(far, np.zeros(2)).tolist() == pytest.approx([0.5, -0.5])
    assert loss.value(far, np.zeros(2)).tolist() == pytest.approx([5e299, 5e299])
    assert loss.curvature(far, np.zeros(2)).tolist() == [0.0, 0.0]
    beyond = np.array([-1.7e308, 1.7e308])  # the quotient by the width is infinite
    assert loss.slope(np.zeros(2), beyond).tolist() == [0.5, -0.5]
    assert np.all(np.isfinite(loss.value(np.zeros(2), beyond)))


def test_a_loss_is_called_by_what_was_chosen():
    """A saved run is known by its loss: a loss of the papers keeps its name."""
    assert [repr(loss) for loss in (Logistic(), HuberHinge(), Squared(), Multinomial(4))] == [
        "Logistic()",
        "HuberHinge(width=0.5)",
        "Squared()",
        "Multinomial(4)",
    ]
    assert repr(Logistic(offset=-2.0)) == "Logistic(offset=-2.0)"
    assert repr(HuberHinge(weights=(1, 2))) == "HuberHinge(width=0.5, weights=(1.0, 2.0))"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Logistic(offset=np.inf), "offset"),
        (lambda: Logistic(weights=(0.0, 1.0)), "weights are two positive numbers"),
        (lambda: HuberHinge(weights=(1.0, 2.0, 3.0)), "weights are two positive numbers"),
        (lambda: PseudoHuber(width=-1.0), "positive width"),
        (lambda: Logistic().centred(1.0), "between 0 and 1"),
        (lambda: HuberHinge(0.5).centred(0.1), "has no probabilities"),
        (lambda: Multinomial(1), "classes"),
        (lambda: Multinomial(3, weights=(1.0, 1.0)), "a number for each of 3 classes"),
        (lambda: Multinomial(3).centred([0.5, 0.5]), "3 shares"),
        (lambda: Multinomial(3).centred([0.9, 0.9, 0.9]), "add up to 1"),
    ],
)
def test_what_a_loss_refuses(make, why):
    with pytest.raises(InputError, match=why):
        make()
