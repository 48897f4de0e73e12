"""How good a model is, in words."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.data import Classes
from tacit.report.metrics_in_words import in_words
from tacit.run import metrics

DIED = Classes("died", positive=("yes",), negative=("no",))


@pytest.mark.parametrize("y", [[-1.0, -1.0, -1.0], [1.0, -1.0, -1.0]])
def test_the_auc_is_named_only_where_there_is_one(y):
    measured = metrics.two_classes(np.array(y), np.array([0.3, 0.2, 0.1]), np.zeros(3, dtype=bool))
    *lines, last = in_words(measured, DIED)
    assert last.startswith("The model answers 'no' to every record.")
    assert ("see the AUC" in last) == any(line.startswith("AUC ") for line in lines) == (1.0 in y)


def test_a_private_model_no_better_than_chance_says_what_helps():
    y, scores = np.array([1.0, -1.0] * 50), np.arange(100.0)
    measured = metrics.two_classes(y, scores, scores > 50)
    assert 0.45 < measured.auc < 0.55
    advice = in_words(measured, DIED, private=True)[-1]
    assert all(word in advice for word in ("positive_share", "fewer columns", "more records", "--colluders"))
    assert "positive_share" not in in_words(measured, replace(DIED, positive_share=0.5), private=True)[-1]
    for better in (in_words(measured, DIED), in_words(replace(measured, auc=0.8), DIED, private=True)):
        assert not any("What helps" in line for line in better)
