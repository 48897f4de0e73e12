"""Neighbours of a real agent that say 1e3, 1e6, ..., 1e300 and then the row that cancels it: they learn no more than
epsilon allows, end nobody's run and change no budget. In one process: attacks/test_adversary.py; at length: `make
adversary`.
"""

import adversary
import hostile
import pytest
from hostile import DELTA, EPSILON, Identities

SIZES = (1e3, 1e6, 1e13, 1e19, 1e100, 1e300)


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    return Identities(tmp_path_factory.mktemp("identities"), hostile.NAMES[:3])


@pytest.fixture(scope="module")
def federation(identities):
    return hostile.agreed(identities, "mr-admm")


@pytest.mark.slow
def test_no_neighbour_of_an_agent_switches_its_noise_off(tmp_path, identities, federation):
    """Every run goes to its end and costs what was planned: `guesses` looks."""
    right = hostile.guesses(tmp_path, identities, federation, SIZES, 4)
    assert not adversary.too_many(sum(right), len(right), EPSILON, DELTA)


@pytest.mark.slow
def test_the_attack_breaks_an_agent_with_the_old_mechanism(tmp_path, identities, federation):
    right = hostile.guesses(tmp_path, identities, federation, [1e19], 24, old=True)
    assert adversary.too_many(sum(right), len(right), EPSILON, DELTA)
