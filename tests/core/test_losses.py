"""Losses: known values, derivatives that are derivatives, and the bounds that privacy relies on."""

import numpy as np
import pytest

from tacit.core.losses import HuberHinge, Logistic, Squared
from tacit.errors import InputError

LOSSES = [Logistic(), Squared(), HuberHinge(), HuberHinge(width=0.1)]
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
        assert np.abs(loss.slope(wide, 1.0)).max() == pytest.approx(loss.max_slope, abs=1e-12)


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
