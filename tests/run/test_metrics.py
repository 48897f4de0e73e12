"""How good a model is: against scikit-learn, and in the cases that it has no answer for."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

from tacit.run import metrics


@pytest.mark.parametrize("digits", [0, 1, 9])  # with few digits many scores are equal
@pytest.mark.parametrize("share", [0.06, 0.5, 0.97])
def test_two_classes(share, digits):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(500) < share, 1.0, -1.0)
    scores = (y + 2 * rng.normal(size=500)).round(digits)
    found = metrics.two_classes(y, scores, scores > 0)
    assert found.auc == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert found.average_precision == pytest.approx(average_precision_score(y, scores), abs=1e-12)
    assert found.error == np.mean((scores > 0) != (y > 0))
    assert found.majority_error == min(np.mean(y > 0), np.mean(y < 0))
    assert not found.one_class


def test_a_model_that_answers_one_class_only_says_so():
    y = np.array([1.0, -1.0, -1.0])
    for answer in (True, False):
        found = metrics.two_classes(y, np.array([0.3, 0.2, 0.1]), np.full(3, answer))
        assert found.one_class
        assert found.auc == 1.0  # the ranking is there all the same


def test_without_positives_there_is_no_ranking():
    found = metrics.two_classes(np.array([-1.0, -1.0]), np.array([0.1, 0.2]), np.array([False, True]))
    assert found.auc is None
    assert found.average_precision is None
    assert found.majority_error == 0


def test_calibration():
    """Probabilities that are true have no error but chance; those that are doubled have the share's."""
    rng = np.random.default_rng(2)
    p = rng.uniform(0, 0.4, size=200_000)
    y = np.where(rng.random(len(p)) < p, 1.0, -1.0)
    true = metrics.two_classes(y, p, p > 0.5, p).calibration_error
    doubled = metrics.two_classes(y, p, p > 0.5, 2 * p).calibration_error
    assert true < 0.006  # ten groups of 20,000: a deviation of at most 0.0035 each
    assert doubled == pytest.approx(0.2, abs=0.01)


def test_calibration_does_not_depend_on_the_order_of_the_file():
    """Also where many records have the same probability: a model that gives 0.06 to all is right if 6 of 100 are."""
    p = np.repeat([0.02, 0.06, 0.5], [50, 100, 8])
    y = np.concatenate([np.repeat([1, -1], [1, 49]), np.repeat([1, -1], [6, 94]), np.repeat([1, -1], [4, 4])])
    for order in (np.arange(158), np.random.default_rng(0).permutation(158)):
        assert metrics.two_classes(y[order], p[order], p[order] > 0.1, p[order]).calibration_error < 1e-9


def test_several_classes_and_numbers():
    rng = np.random.default_rng(3)
    z = rng.normal(size=(300, 4))
    P = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = rng.integers(0, 4, size=300)
    found = metrics.several_classes(y, P.argmax(axis=1), P)
    assert found.log_loss == pytest.approx(log_loss(y, P, labels=range(4)))
    assert found.error == np.mean(P.argmax(axis=1) != y)
    target, guess = rng.normal(size=(2, 300))
    numbers = metrics.numbers(target, guess)
    assert numbers.r2 == pytest.approx(r2_score(target, guess))
    assert numbers.mae == pytest.approx(mean_absolute_error(target, guess))
    assert metrics.numbers(np.ones(3), np.zeros(3)).r2 is None
