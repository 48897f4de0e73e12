"""Averaging at the end: one model for everybody, at no cost."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import Averaged, ConsensusADMM, IncrementalADMM, PrimalPerturbedADMM, RecycledADMM
from tacit.core.algorithm import kinds
from tacit.errors import InputError
from tacit.privacy.events import Free

BUDGET, GRAPH = tacit.Gaussian(5.0), tacit.Graph.ring(5)
METHODS = {"broadcast": RecycledADMM(budget=BUDGET), "token": IncrementalADMM(penalty=2.0, budget=BUDGET)}
TICKS = 6


def runs(method, rounds):
    problem, noise = tacit.Problem(make_parts(), l2=0.5), tacit.SeededNoise(3)
    averaged = Averaged(method=method, ticks=TICKS, mixing=GRAPH.mixing)
    alone = tacit.simulate(method, problem, GRAPH, rounds=TICKS, noise=noise)
    return alone, tacit.simulate(averaged, problem, GRAPH, rounds=TICKS + rounds, noise=noise)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_members_end_with_the_mean_of_what_the_method_gave_them(method):
    alone, run = runs(method, rounds=GRAPH.mixing_rounds(1e-9))
    before = np.linalg.norm(alone.estimate - alone.model)
    assert before > 0.1  # each has noise of its own
    assert np.linalg.norm(run.estimate - alone.model) <= 1e-8 * before
    np.testing.assert_allclose(run.model, alone.model, rtol=1e-12)


def test_the_distance_shrinks_as_fast_as_the_graph_says():
    alone, run = runs(METHODS["broadcast"], rounds=GRAPH.mixing_rounds(1e-3))
    assert np.linalg.norm(run.estimate - run.model) <= 1e-3 * np.linalg.norm(alone.estimate - alone.model)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_it_costs_messages_and_nothing_else(method):
    alone, run = runs(method, rounds=7)
    paid = [Counter({event: n for event, n in each.items() if not isinstance(event, Free)}) for each in run.spent]
    once = [Counter({event: n for event, n in each.items() if not isinstance(event, Free)}) for each in alone.spent]
    assert paid == once
    assert run.history["messages"][-1] == alone.history["messages"][-1] + 7 * 2 * len(GRAPH.edges)
    averaged = Averaged(method=method, ticks=TICKS, mixing=GRAPH.mixing)
    facts = tacit.Facts.of(tacit.Problem(make_parts(), l2=0.5))
    assert tacit.plan(averaged, facts, GRAPH, TICKS + 7).spent == run.spent


def test_exact_values_are_not_passed_off_as_released():
    """Nor those of a class of somebody's own, whose estimate may be what the noise was to hide."""

    @dataclass(frozen=True, kw_only=True)
    class Hidden(PrimalPerturbedADMM):
        def estimate(self, s):
            return s.hidden

    for method in (ConsensusADMM(), RecycledADMM(alpha=1.0), RecycledADMM(), Hidden(budget=BUDGET)):
        with pytest.raises(InputError, match="averaging at the end is for"):
            Averaged(method=method, ticks=3, mixing=0.1)


def test_an_average_of_averages_is_refused():
    once = Averaged(method=METHODS["broadcast"], ticks=3, mixing=0.1)
    with pytest.raises(InputError, match="averaging at the end is once"):
        Averaged(method=once, ticks=5, mixing=0.1)


@pytest.mark.parametrize("kind", [type(method) for method in METHODS.values()])
def test_a_method_that_declares_no_kinds_of_ticks_is_planned_tick_by_tick(kind):
    """A class of somebody's own, which says of itself what is released and no more."""

    @dataclass(frozen=True, kw_only=True)
    class Own(kind):
        traits = kind.traits

    facts = tacit.Facts.of(tacit.Problem(make_parts(), l2=0.5))
    own, known = (Averaged(method=each(penalty=2.0, budget=BUDGET), ticks=3, mixing=0.1) for each in (Own, kind))
    assert kinds(own, facts, 7) is None
    assert tacit.plan(own, facts, GRAPH, 7).events == tacit.plan(known, facts, GRAPH, 7).events


def test_two_methods_with_the_same_parameters_are_told_apart():
    """A saved run of one must not go on as the other."""
    problem, noise = tacit.Problem(make_parts(), l2=0.5), tacit.SeededNoise(3)
    first, second = (
        Averaged(method=kind(budget=BUDGET), ticks=2, mixing=GRAPH.mixing)
        for kind in (tacit.algorithms.DualPerturbedADMM, tacit.algorithms.PenaltyPerturbedADMM)
    )
    run = tacit.simulate(first, problem, GRAPH, rounds=3, noise=noise)
    with pytest.raises(InputError):
        tacit.simulate(second, problem, GRAPH, rounds=4, noise=noise, resume=run)
