"""A noisy share of positives: right on average, as private as it says, and never at 0 or 1."""

from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.core.graph import Graph
from tacit.data import Classes, Dataset, Multiclass, Number, Schema, Target
from tacit.errors import InputError
from tacit.privacy.accounting import epsilon
from tacit.privacy.plan import plan
from tacit.run.budget import Budget
from tacit.run.recipes import RECIPES
from tacit.run.request import Request
from tacit.run.share import noisy_share
from tacit.run.training import train_privately
from tacit.run.trust import Trust
from tacit.simulation.hostile import Hostile

TWO = Classes("y", positive=("yes",), negative=("no",))
SIZES = (400, 1500, 900)
RING = Graph.ring(3)


def labels(share, seed=0):
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(n) < share, 1.0, -1.0) for n in SIZES]


def test_it_is_right_on_average_with_the_noise_that_its_event_says():
    """The mean of 200 draws lies within 6 standard errors: a false alarm once in 5e8. Agents of different size count
    by their rows; half the noise, or agents that count alike, would be seen."""
    y = [np.ones(400), -np.ones(1500), -np.ones(900)]  # agents that count alike would give a third
    found = [noisy_share(y, RING, 1.0, 1e-5, tacit.SeededNoise(seed)) for seed in range(200)]
    shares = np.array([each.share for each in found])
    (event,) = found[0].events
    # A label moves the sum of an agent's 2 share - 1, times its rows, by 2; the mean has the noise of three agents.
    deviation = 0.5 * event.multiplier * 2 * np.sqrt(3) / sum(SIZES)
    assert abs(shares.mean() - 400 / sum(SIZES)) < 6 * deviation / np.sqrt(200)
    # Chi-squared with 199 degrees of freedom: beyond 0.65 and 1.4 with a probability below 1e-6.
    assert 0.65 < (shares.std(ddof=1) / deviation) ** 2 < 1.4


def test_it_costs_a_small_part_of_the_budget():
    found = noisy_share(labels(0.06), RING, 1.0, 1e-5, tacit.SecureNoise())
    assert 0 < epsilon(dict.fromkeys(found.events, 1), 1e-5) < 0.2


def test_it_stays_between_0_and_1():
    few = [np.ones(2), np.ones(1), -np.ones(2)]
    shares = [noisy_share(few, RING, 0.1, 1e-5, tacit.SeededNoise(seed)).share for seed in range(20)]
    assert min(shares) == 0.1
    assert max(shares) == 0.9


@pytest.mark.parametrize("name", ["dvp", "mr-admm", "gradient-descent"])
def test_what_the_run_costs_does_not_depend_on_what_the_count_finds(name):
    """The composition of both is proved for events that are fixed beforehand."""
    found = []
    for share in (0.001, 0.4):
        recipe = RECIPES[name].for_label(replace(TWO, positive_share=share))
        setting = recipe.setting(SIZES, 6, RING, Budget(1.0, 1e-5), count=True)
        found.append(plan(setting.algorithm, setting.facts, RING, setting.rounds).events)
    assert found[0] == found[1]


def test_it_is_for_two_classes():
    with pytest.raises(InputError, match="two classes"):
        noisy_share([np.array([0.0, 1.0, 2.0])] * 3, RING, 1.0, 1e-5, tacit.SeededNoise(0))


@pytest.mark.parametrize(
    ("label", "options", "why"),
    [
        (Target("y", bounds=(-1, 1)), {}, "two classes"),
        (Multiclass("y", classes=("a", "b", "c")), {}, "two classes"),
        (TWO, {"trust": Trust(robust="clipping")}, "plain average"),
    ],
)
def test_what_no_count_is_for_is_refused_whatever_the_labels_are(label, options, why):
    with pytest.raises(InputError, match=why):
        Request(Budget(1.0, 1e-5), method="pvp", count=True, **options).resolved(label, [10] * 3, 1, RING)


def test_liars_and_a_count_do_not_go_together():
    """Its setting is made without them."""
    schema = Schema(label=TWO, columns=(Number("x", bounds=(0, 1)),), row_norm=1.0)
    data = Dataset(np.ones((30, 1)), np.ones(30), schema.feature_names, np.arange(30))
    setting = Request(Budget(1.0, 1e-5), method="pvp", count=True).resolved(TWO, [10] * 3, 1, RING)
    with pytest.raises(InputError, match="no noisy count with them"):
        train_privately(setting, data, schema, np.split(np.arange(30), 3), hostile=Hostile("flip", (1,), agents=3))
