"""Explores all states of a model, breadth first: the trace to the first state that breaks a rule is a shortest one.

Python, and not Promela for spin, though Debian has spin: a disk that is copied and put back is one assignment of a
tuple here, and fields one by one there. And the test suite needs no compiler for this.

States are compared by their hashes of 64 bits, the least of those of all states that are equal but for the names of
members. Two different states of a million share a hash with a probability of less than 1e-6.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """What is explored."""

    def start(self) -> State: ...

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """What members can do by themselves."""

    def faults(self, state: State) -> Iterator[tuple[str, State]]:
        """What can happen to them."""

    def renamed(self, state: State) -> Iterable[State]:
        """The state itself, and all that differ from it by the names of members alone."""

    def broken(self, state: State) -> str:
        """The rule that is broken in this state; empty if none is."""

    def stuck(self, state: State) -> str:
        """What is wrong if nothing but faults can happen from here; empty if every member is done, or says why not."""


class Found(NamedTuple):
    """What an exploration has found."""

    states: int
    longest: int  # steps from the start to the state that is farthest from it
    seconds: float
    broken: str  # the rule that does not hold; empty if all do
    trace: list[str]  # the shortest way to the state in which it does not


def explore(model: Model[State], most: int = 0) -> Found:
    """Looks at every state that can be reached, until a rule is broken, or `most` states were seen if that is given."""
    began = time.perf_counter()
    start = model.start()
    first = _print(model, start)
    before: dict[int, int] = {first: first}  # a state -> the state from which it was reached first
    level, depth = [(first, start)], 0
    reached = {hash(start)}  # the same under other names; to look at these first is faster
    while level:
        following = []
        for seen, state in level:
            moved = False
            for own, found in ((True, model.steps(state)), (False, model.faults(state))):
                for _, after in found:
                    moved |= own
                    if (plain := hash(after)) in reached:
                        continue
                    reached.add(plain)
                    mark = _print(model, after)
                    if mark in before:
                        continue
                    before[mark] = seen
                    if rule := model.broken(after):
                        return _found(model, before, depth + 1, began, rule, mark)
                    following.append((mark, after))
            if not moved and (rule := model.stuck(state)):
                return _found(model, before, depth, began, rule, seen)
            if most and len(before) > most:
                return Found(len(before), depth, time.perf_counter() - began, f"more than {most} states", [])
        level, depth = following, depth + bool(following)
    return Found(len(before), depth, time.perf_counter() - began, "", [])


def _print(model: Model[State], state: State) -> int:
    return min(map(hash, model.renamed(state)))


def _found(model: Model[State], before: dict[int, int], depth: int, began: float, rule: str, last: int) -> Found:
    """Goes the way once more, for the names of its steps."""
    way = [last]
    while before[way[-1]] != way[-1]:
        way.append(before[way[-1]])
    state, trace = model.start(), list[str]()
    for mark in reversed(way[:-1]):
        steps = (each for found in (model.steps(state), model.faults(state)) for each in found)
        label, state = next((label, after) for label, after in steps if _print(model, after) == mark)
        trace.append(label)
    return Found(len(before), depth, time.perf_counter() - began, rule, trace)
