"""Explores the model of the protocol in full, and plants wrong rules in it: `make protocol`.

    python tests/protocol_runs.py [--only WORDS] [--out PAGE]

prints a line for each case and each planted bug, with the shortest trace for the latter, and writes two tables into
docs/explanation/protocol.md. It ends with 1 if a rule is broken, or a planted bug is not found.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from protocol_model.absence import Absence
from protocol_model.memory import REPEATS, SILENT, TWO_FACED, Memory
from protocol_model.search import Found, explore

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "protocol.md"
TRIANGLE = ((0, 1), (0, 2), (1, 2))
RING = ((0, 1), (1, 2), (2, 3), (0, 3))
ALL = (*RING, (0, 2), (1, 3))


class Case(NamedTuple):
    what: str
    model: Memory | Absence


class Bug(NamedTuple):
    name: str
    where: Memory | Absence  # in this case it is found
    harmless: bool = False  # another rule takes its place, and nothing is broken


def memory(*dangers: str, ticks: int = 2, edges: tuple[tuple[int, int], ...] = TRIANGLE, **more: int) -> Memory:
    """Member 0 among honest ones."""
    members = 1 + max(map(max, edges))
    return Memory(members, edges, ticks, frozenset(dangers), **more)  # type: ignore[arg-type]


def among(model: Memory, **liars: str) -> Memory:
    """The same with liars: `m2=SILENT`."""
    return replace(model, liars=tuple((int(name[1:]), kind) for name, kind in liars.items()))


def absence(*dangers: str, ticks: int = 2, edges: tuple[tuple[int, int], ...] = TRIANGLE, **more: bool) -> Absence:
    return Absence(1 + max(map(max, edges)), edges, ticks, frozenset(dangers), **more)


RULES = [
    "no tick has left in two versions, but for as many as the table says, and none in three;",
    "the ledger in use has a mark for all that has left; where it can be old, or doubled, for what leaves now;",
    "nobody pays twice, or before all have met;",
    "nobody is accused that has said one version only; no liar alone has a member left out that has two neighbours;",
    "a member with two faces is named, if honest members have heard both;",
    "members that finish in one run have heard the same totals;",
    "where only faults can still happen, each member is done, or somebody has stopped or is refused, and says why.",
]
SILENT_2, SILENT_BOTH = {"m2": SILENT}, {"m1": SILENT, "m2": SILENT}
CASES = [
    Case("nothing", memory(starts=1, ticks=3)),
    Case("a crash", memory("crash")),
    Case("a crash, a message late, doubled or lost", among(memory("crash", "late", ticks=1), **SILENT_2)),
    Case("a crash, a neighbour that crashes", memory("crash", "neighbour", ticks=1)),
    Case("a crash, a neighbour that repeats old statements", among(memory("crash"), m2=REPEATS)),
    Case("a neighbour with two faces", among(memory("crash"), m2=TWO_FACED)),
    Case("the store put back", memory("crash", "store", ticks=1)),
    Case("the store put back, a silent neighbour", among(memory("crash", "store"), **SILENT_2)),
    Case("the store put back, all neighbours silent", among(memory("crash", "store", starts=3), **SILENT_BOTH)),
    Case("the ledger put back", memory("crash", "ledger", ticks=1)),
    Case("the ledger put back, all neighbours silent", among(memory("crash", "ledger", ticks=3), **SILENT_BOTH)),
    Case("both put back", memory("crash", "both", ticks=1)),
    Case(
        "both put back, a silent neighbour, and one that crashes",
        among(memory("crash", "both", "neighbour", twice=2), **SILENT_2),
    ),
    Case("both put back, a silent neighbour", among(memory("crash", "both", ticks=3, twice=2), **SILENT_2)),
    Case("both put back, all neighbours silent", among(memory("crash", "both", ticks=3, twice=3), **SILENT_BOTH)),
    Case("two hosts", memory("clone", ticks=1)),
    Case("two hosts, a silent neighbour", among(memory("clone", ticks=2, twice=2), **SILENT_2)),
    Case("two hosts, a message late", among(memory("clone", "late", ticks=1, twice=1), **SILENT_2)),
    Case(
        "two hosts with one ledger, all neighbours silent",
        among(memory("crash", "shared ledger"), **SILENT_BOTH),
    ),
    Case("a process copied in memory", memory("live clone", starts=1, ticks=1, twice=1)),
    Case(
        "a process copied in memory, a silent neighbour",
        among(memory("live clone", starts=1, ticks=3, twice=2), **SILENT_2),
    ),
    Case(
        "a process wound back in memory, a silent neighbour",
        among(memory("wound back", starts=1, ticks=3, twice=2), **SILENT_2),
    ),
    Case("a crash, in a ring of four", memory("crash", edges=RING, ticks=1)),
    Case(
        "both put back, in a ring of four, the member opposite silent",
        among(memory("crash", "both", edges=RING, ticks=1), m2=SILENT),
    ),
    Case(
        "both put back, in a ring of four, a silent neighbour",
        among(memory("crash", "both", edges=RING, ticks=1, twice=1), m3=SILENT),
    ),
    Case("a member is away", absence("away")),
    Case("a member is away, and comes back", absence("away", "back")),
    Case("a link is cut, and mended", absence("cut", "mended")),
    Case("a liar states false absences", absence(liar=True)),
    Case("a liar states false absences, a member is away", absence("away", liar=True, ticks=1)),
    Case("a member of a ring of four is away", absence("away", edges=RING, ticks=1)),
    Case("a liar among four states false absences", absence(edges=RING, liar=True, ticks=1)),
]
BUGS = [
    Bug("publish before commit", memory("crash", ticks=1)),
    Bug("marks after sending", memory("crash", ticks=1)),
    Bug("mark ignored", among(memory("crash", "store", ticks=1), **SILENT_BOTH)),
    Bug("store trusted over ledger", among(memory("crash", "store", ticks=1), **SILENT_BOTH)),
    Bug("incarnation not compared", memory("clone", ticks=1)),
    Bug("pays when it has met its own", memory(ticks=1)),
    Bug("quorum one short", absence(liar=True)),
    Bug("drop-out counted twice", absence("away")),
    Bug("starts at the least", absence("away")),
    Bug("marks are looked at when sent alone", among(memory("crash", "store"), **SILENT_BOTH), harmless=True),
]


def planted(bug: Bug) -> Memory | Absence:
    return replace(bug.where, bugs=frozenset({bug.name}))


def most_twice(model: Memory) -> tuple[int, Found]:
    """How many ticks leave in two versions at most, and the exploration that shows it."""
    for twice in range(model.twice + 1):
        found = explore(replace(model, twice=twice), most=600_000)
        if not found.broken.startswith("a tick has left"):
            break
    return twice, found


def cases(only: str) -> Iterator[tuple[str, bool]]:
    """A row for each case, and whether the rules hold."""
    for case in CASES:
        if only in case.what:
            twice, found = (
                most_twice(case.model) if isinstance(case.model, Memory) else (0, explore(case.model, most=600_000))
            )
            model, count = case.model, str(twice) if isinstance(case.model, Memory) else "–"
            size = (
                f"{model.members} | {model.ticks} | {found.states:,} | {found.longest} | {found.seconds:.0f} | {count}"
            )
            yield f"| {case.what} | {size} |", not found.broken
            if found.broken:
                _tell(found)


def bugs(only: str) -> Iterator[tuple[str, bool]]:
    """A row for each planted bug, and whether it is found."""
    for bug in BUGS:
        if only in bug.name:
            found = explore(planted(bug))
            steps = f"{len(found.trace)}" if found.broken else "–"
            outcome = found.broken or "no rule is broken: `Ledger.mark` refuses"
            yield f"| {bug.name} | {outcome} | {steps} | {found.states:,} |", bool(found.broken) != bug.harmless
            _tell(found)


def _tell(found: Found) -> None:
    for number, line in enumerate(found.trace, 1):
        print(f"    {number:2}. {line}")
    if found.broken:
        print(f"    -> {found.broken}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases and bugs with this in their names; writes nothing")
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    tables = {
        "rules": ["", *(f"- {rule}" for rule in RULES), ""],
        "cases": ["| what happens | members | ticks | states | longest way | s | ticks in two versions |",
                  "| --- | --: | --: | --: | --: | --: | --: |"],
        "bugs": ["| wrong rule | what is broken | steps | states |", "| --- | --- | --: | --: |"],
    }  # fmt: skip
    failed = []
    for name, rows in (("cases", cases(given.only)), ("bugs", bugs(given.only))):
        for row, right in rows:
            print(row if right else f"{row} FAILED", flush=True)
            tables[name].append(row)
            failed += [] if right else [row]
    if not given.only and not failed:
        text = given.out.read_text(encoding="utf-8")
        for name, table in tables.items():
            text = re.sub(
                rf"(<!-- {name}: [^>]* -->\n).*?(<!-- end -->)",
                lambda marks, table=table: marks[1] + "\n".join(table) + "\n" + marks[2],
                text,
                flags=re.DOTALL,
            )
        given.out.write_text(text, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
