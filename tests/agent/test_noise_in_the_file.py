"""The federation file carries the calibrated noise: members do not search for it, and refuse one that spends more."""

import re
from contextlib import nullcontext
from dataclasses import replace

import agent_network
import agent_worker as worker
import pytest
from conftest import SIZES
from ports import free_ports

from tacit.agent.federation import Federation
from tacit.errors import InputError
from tacit.privacy.events import Gaussian
from tacit.workflows import recipes

identities = agent_network.identities  # a fixture


@pytest.fixture(scope="module", params=["going on, private", "totals"])
def written(request, identities, tmp_path_factory):
    folder = tmp_path_factory.mktemp("file")
    return worker.federation(folder, request.param, free_ports(5), list(SIZES), identities)


def edited(federation, key, value):
    return Federation.from_toml(re.sub(rf"^{key} = .*$", f"{key} = {value!r}", federation.to_toml(), flags=re.M))


def test_a_member_takes_the_noise_of_the_file(written, monkeypatch):
    """It has the same setting as whoever wrote the file, to the last bit, and has searched for nothing."""
    monkeypatch.setattr(recipes, "largest_budget", None)
    monkeypatch.setattr(recipes, "_CALIBRATED", {})
    read = Federation.from_toml(written.to_toml())
    assert (read.setting.algorithm, read.setting.rounds) == (written.setting.algorithm, written.setting.rounds)
    assert read.run == written.run
    assert read.plans == written.plans


def test_a_search_that_ended_elsewhere_is_taken(written):
    """More noise than the own search finds, or a deviation that differs in its last digits, is in order."""
    more = edited(written, "multiplier", written.method.multiplier * (1 + 1e-7))
    assert more.setting.algorithm != written.setting.algorithm
    assert more.run != written.run
    assert edited(written, "deviation", written.method.deviation * (1 + 1e-12)).setting.rounds == written.rounds


@pytest.mark.parametrize("less", [0.5, 0.99, 1 - 1e-6])
def test_noise_that_does_not_keep_the_budget_is_refused(written, less):
    false = edited(written, "multiplier", written.method.multiplier * less)
    with pytest.raises(InputError, match=r"does not keep the budget: epsilon would be [24]"):
        _ = false.setting


def test_other_numbers_are_refused(written):
    with pytest.raises(InputError, match="does not follow from the budget"):
        _ = edited(written, "deviation", written.method.deviation * 1.01).setting
    with pytest.raises(InputError, match="multiplier must be"):
        edited(written, "multiplier", -1.0)


def test_a_file_of_the_former_version_is_refused(written):
    old = re.sub(r"^(deviation|multiplier) = .*\n", "", written.to_toml(), flags=re.M)
    with pytest.raises(InputError, match=r"as files of tacit 0\.1: write it anew \(tacit federation new\)"):
        Federation.from_toml(old)


@pytest.mark.parametrize("key", ["deviation", "multiplier"])
def test_a_file_with_zeros_in_their_place_is_refused(written, key):
    """Members would search, and each might end elsewhere."""
    with pytest.raises(InputError, match="says nothing about its noise"):
        edited(written, key, 0.0)


def test_what_was_released_before_counts(written):
    """Noise that keeps the budget by itself does not keep it beside other releases."""
    calibration = written.method.calibration
    recipe = recipes.RECIPES[written.method.name].for_label(written.schema.label)
    facts = ([member.rows for member in written.members], written.schema.model_dimension, written.graph)
    reserve = written.reserve if written.colluders else None
    for before, kept in (((), True), ((Gaussian(10.0),), False)):
        with nullcontext() if kept else pytest.raises(InputError, match="does not keep the budget"):
            recipe.setting(*facts, 2.0, 1e-5, before=before, reserve=reserve, given=calibration)


def test_a_run_without_a_member_has_noise_of_its_own(written):
    if written.colluders:
        pytest.skip("members that share their noise go on with the noise that they have")
    reduced = written.without(["elm"])
    assert reduced.method.multiplier != written.method.multiplier
    assert reduced.setting.algorithm == replace(reduced).with_rounds().setting.algorithm
