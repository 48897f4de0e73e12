"""The simulated world (tests/world): a few schedules of every kind, always; two minutes of them with the slow tests."""

import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from world.drawing import PAIRS, drawn, shortened
from world.lives import Shape
from world.plants import PLANTS, planted
from world.playing import stage
from world.schedule import Fault, Schedule

from tacit.agent import journal
from tacit.errors import MachineError

KINDS = ("rows", "tokens", "sums", "shared noise")
SECONDS = 120  # of the slow test


@pytest.fixture(scope="module")
def at():
    with stage() as found:
        yield found


@pytest.mark.parametrize("kind", KINDS)
def test_agents_in_the_world_compute_what_a_simulation_does(at, kind):
    """Bit by bit: the world compares every model with `tacit.simulate`. One number gives one trace."""
    schedule = Schedule(1, Shape(kind, 3, "complete", 5))
    one, again = (at.play(schedule, trace=True) for _ in range(2))
    assert one.violations == []
    assert one.simulated  # so the models were compared
    assert one.trace == again.trace
    assert at.play(Schedule(2, schedule.shape), trace=True).trace != one.trace


def test_agents_with_tls(at):
    assert at.play(Schedule(1, Shape("rows", 3, "complete", 4), tls=True)).violations == []


def test_schedules_with_faults(at):
    """One for each kind of fault, and some with liars."""
    played = {seed: at.play(drawn(seed)) for seed in (*range(0, len(PAIRS), 41), 10, 21)}
    assert {seed: world.violations for seed, world in played.items() if world.violations} == {}
    assert sum((world.hit for world in played.values()), start=Counter()).total() > 3  # the faults did come


KILL = Fault(1, "committed, not marked", 2, "kill")
CLONE = Fault(1, "marked", 2, "clone")
BACK = Fault(1, "in the commit", 2, "both rolled back")


@pytest.mark.parametrize(
    ("plant", "schedule"),
    [
        ("publish before commit", Schedule(1, Shape("rows", 3, "complete", 6), (Fault(1, "hearing", 2, "kill"),))),
        ("publish before mark", Schedule(1, Shape("rows", 3, "complete", 4))),
        ("paid again", Schedule(1, Shape("rows", 3, "complete", 6), (KILL,))),
        ("starts not counted", Schedule(1, Shape("rows", 3, "complete", 6), (KILL,))),
        ("pays too early", Schedule(1, Shape("rows", 3, "complete", 4))),
        ("share counted twice", Schedule(1, Shape("shared noise", 4, "complete", 4))),
        ("two versions taken", Schedule(1, Shape("rows", 4, "complete", 6), liar=(1, "two-faced"))),
        ("totals not compared", Schedule(1, Shape("shared noise", 4, "complete", 6), liar=(0, "false total"))),
    ],
)
def test_planted_bugs_are_found(at, plant, schedule):
    assert at.play(schedule).violations == []
    with planted(plant):
        assert at.play(schedule).violations


def test_a_schedule_that_fails_is_shortened(at):
    """To what the bug needs: here, nothing but a run."""
    schedule = Schedule(1, Shape("rows", 4, "complete", 5), (KILL,))
    with planted("publish before mark"):
        shortest = shortened(schedule, lambda each: bool(at.play(each).violations))
    assert shortest == Schedule(1, Shape("rows", 3, "complete", 2))


def test_every_plant_says_what_it_does():
    assert all(each.what and callable(each.put) for each in PLANTS.values())


def test_a_lock_that_could_not_be_had_is_no_damage():
    """SQLite gives up on a lock after some seconds on a busy machine: the store may be in order."""
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    assert isinstance(journal._failure(Path("x.store"), error), MachineError)


@pytest.mark.slow
def test_as_many_schedules_as_two_minutes_have(at):
    begin, first = time.monotonic(), 100_000
    seed = first
    while time.monotonic() < begin + SECONDS:
        assert (seed, at.play(drawn(seed)).violations) == (seed, [])
        seed += 1
    assert seed > first
