"""Schedules from numbers: every pair of a point and a fault comes again and again. How a schedule that fails is
shortened."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from world.liars import LIARS
from world.lives import Shape
from world.schedule import FAULTS, LASTING, MEMORY, POINTS, WRITES, Fault, Schedule

KINDS = ("rows", "rows", "tokens", "sums", "shared noise")
PAIRS = [
    (point, what)
    for what in FAULTS
    for point in POINTS
    if (what != "torn write" or point in WRITES)
    and not (what in MEMORY and point in ("starting", "model made", "leaving"))
    and not (what in ("store rolled back", "ledger rolled back", "both rolled back") and point == "heard all")
    and not (what in ("reset", "flipped bit") and point == "starting")
    and not (what == "gone for long" and point in ("heard all", "model made", "leaving"))
]
LATE = ("heard all", "model made", "leaving")
ONCE = ("starting", "started", "met, not paid", "paying", "paid", *LATE)


def drawn(seed: int) -> Schedule:
    """The schedule of a number."""
    rng = random.Random(f"schedule {seed}")
    if seed % 11 == 10:
        return _lying(seed, rng)
    point, what = PAIRS[seed % len(PAIRS)]
    kind = rng.choice(KINDS)
    if what == "gone for long":
        shape = Shape("shared noise" if seed % 2 else "rows", rng.choice((4, 5)), "complete", 6, 10.0)
        member = rng.randrange(shape.members)
        return Schedule(seed, shape, (Fault(member, point, _count(rng, point), what),))
    members = rng.choices((3, 4, 5, 7), (6, 3, 1, 0.2))[0]
    graph = rng.choice(("complete", "ring"))
    shape = Shape(kind, members, graph, 6 if kind != "tokens" else 9)
    first = Fault(rng.randrange(members), point, _count(rng, point), what, _seconds(rng))
    faults = [first]
    while rng.random() < 0.5 and len(faults) < 5:
        what = rng.choice([each for each in FAULTS if each not in (*LASTING, "gone for long")])
        point = rng.choice(POINTS)
        if (point, what) in PAIRS:
            faults.append(Fault(rng.randrange(members), point, _count(rng, point), what, _seconds(rng)))
    return Schedule(seed, shape, tuple(faults), books=seed % 7 == 0)


def _lying(seed: int, rng: random.Random) -> Schedule:
    """One member lies; another one may be killed."""
    name = list(LIARS)[seed // 11 % len(LIARS)]
    liar = LIARS[name]
    kind = rng.choice(liar.kinds)
    ticks, graph = (9 if kind == "tokens" else 6), ("ring" if liar.goes_on else "complete")
    shape = Shape(kind, rng.choice((4, 5)), graph, ticks, 10.0 if liar.goes_on else 0.0)
    place = rng.randrange(shape.members)
    faults = []
    if not liar.goes_on and rng.random() < 0.5:
        member = rng.choice([i for i in range(shape.members) if i != place])
        faults.append(
            Fault(member, rng.choice(POINTS[6:13]), rng.randrange(1, 5), rng.choice(("kill", "power cut")), 1.0)
        )
    return Schedule(seed, shape, tuple(faults), (place, name), books=liar.books)


def _count(rng: random.Random, point: str) -> int:
    return 1 if point in ONCE else rng.randrange(1, 400) if point == "an await" else rng.randrange(1, 6)


def _seconds(rng: random.Random) -> float:
    return rng.choice((0.01, 0.3, 1.0, 3.0))


def shortened(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The shortest schedule that still fails: fewer faults, ticks and members, one after the other."""
    again = True
    while again:
        again = False
        shape = schedule.shape
        fewer = [
            replace(schedule, faults=(*schedule.faults[:k], *schedule.faults[k + 1 :]))
            for k in range(len(schedule.faults))
        ]
        if shape.ticks > 2:
            fewer.append(replace(schedule, shape=replace(shape, ticks=shape.ticks - 1)))
        used = {fault.member for fault in schedule.faults} | ({schedule.liar[0]} if schedule.liar else set())
        if shape.members > 3 and shape.members - 1 not in used:
            fewer.append(replace(schedule, shape=replace(shape, members=shape.members - 1)))
        for each in fewer:
            if fails(each):
                schedule, again = each, True
                break
    return schedule
