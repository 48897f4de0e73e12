"""A run without noise, or of a method as printed, is charged as unprotected."""

import math
from collections import Counter

import pytest
from private_case import GRAPH, METHODS, problem, run

import tacit
from tacit.algorithms import DualPerturbedADMM, PrimalPerturbedADMM, RecycledADMM
from tacit.privacy.accounting import totals
from tacit.privacy.events import Gaussian, Unprotected
from tacit.privacy.plan import plan

PRINTED = {
    "dvp": DualPerturbedADMM(alpha=1.0, as_printed=True),
    "pvp": PrimalPerturbedADMM(alpha=1.0, final=1, as_printed=True),
    "r-admm": RecycledADMM(alpha=1.0, as_printed=True),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_versions_are_unprotected_and_refuse_noise_that_protects(name):
    done = run(PRINTED[name], rounds=4)
    assert all(counter == Counter({Unprotected(): 4}) for counter in done.spent)
    assert totals(done.spent[0], 1e-5).best == math.inf
    assert plan(PRINTED[name], problem(), GRAPH, 4).spent == done.spent
    with pytest.raises(tacit.InputError, match="printed version breaks its own promise"):
        run(PRINTED[name], tacit.SecureNoise())


@pytest.mark.parametrize("name", METHODS)
def test_without_noise_there_is_no_private_run(name):
    with pytest.raises(tacit.InputError, match="a private method needs noise"):
        tacit.simulate(METHODS[name](Gaussian(2.0)), problem(), GRAPH, rounds=1)
    plain = tacit.simulate(METHODS[name](None), problem(), GRAPH, rounds=3)
    assert all(counter == Counter({Unprotected(): 3}) for counter in plain.spent)
