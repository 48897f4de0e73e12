"""Schedules of the simulated world. `make world`

    python tests/world_runs.py [--schedules 2000] [--first 0] [--minutes 60]    # many, and the table of what was seen
    python tests/world_runs.py --seed 17                                        # one, with its trace
    python tests/world_runs.py --plants [--most 600]                            # every planted bug, until it is found

Exits with 1 at a violation: it prints the shortest schedule that still fails, and the seed that replays it. Hashes of
texts are the same in every process (PYTHONHASHSEED), so a seed gives the same trace wherever it is played. `--write`
puts the result into docs/evidence/world.md.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
if os.environ.get("PYTHONHASHSEED") != "0" and __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import world.lives
from world.drawing import PAIRS, drawn, shortened
from world.liars import LIARS
from world.plants import PLANTS, planted
from world.playing import Stage, stage
from world.schedule import FAULTS, POINTS, Schedule

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "world.md"
_ORDER = 4000  # schedules among which a planted bug is looked for, in an order drawn once


class Seen:
    """What many schedules have shown."""

    def __init__(self) -> None:
        self.schedules, self.messages, self.lies = 0, 0, Counter[str]()
        self.hit: Counter[tuple[str, str]] = Counter()
        self.kinds: Counter[str] = Counter()
        self.members: Counter[int] = Counter()
        self.violations: list[tuple[int, str]] = []
        self.frames = 0.0  # of one member, for each tick and neighbour, at most
        self.longest = 0

    def play(self, at: Stage, seed: int) -> bool:
        """Plays one more; whether all was well."""
        schedule = drawn(seed)
        played = at.play(schedule)
        self.schedules += 1
        self.messages += played.witness.messages
        self.hit += played.hit
        self.kinds[schedule.shape.kind] += 1
        self.members[schedule.shape.members] += 1
        if schedule.liar is not None:
            self.lies[schedule.liar[1]] += 1
        self.longest = max(self.longest, played.witness.longest)
        self.violations += [(seed, each) for each in played.violations]
        return not played.violations

    def table(self) -> str:
        """How often each fault has come at each point; a dash where it cannot."""
        rows = [f"| | {' | '.join(FAULTS)} |", f"| --- |{' ---: |' * len(FAULTS)}"]
        for point in POINTS:
            cells = [str(self.hit[point, what]) if (point, what) in PAIRS else "-" for what in FAULTS]
            rows.append(f"| {point} | {' | '.join(cells)} |")
        return "\n".join(rows)

    def empty(self) -> list[tuple[str, str]]:
        """The pairs of a point and a fault that have not come."""
        return [pair for pair in PAIRS if not self.hit[pair]]


def many(first: int, schedules: int, minutes: float) -> Seen:
    """Plays schedules until there are so many, or the time is up."""
    seen, begin = Seen(), time.monotonic()
    with stage() as at:
        for seed in range(first, first + schedules):
            if time.monotonic() > begin + 60 * minutes:
                break
            if not seen.play(at, seed):
                print(f"VIOLATION, seed {seed}: {seen.violations[-1][1]}", flush=True)
    return seen


def one(seed: int) -> bool:
    """Plays one schedule with its trace; if it fails, the shortest one that fails, too."""
    with stage() as at:
        played = at.play(drawn(seed), trace=True)
        print("\n".join(played.trace or []))
        print(f"\n{drawn(seed)}\n{len(played.violations)} violations")
        if not played.violations:
            return True
        shortest = shortened(drawn(seed), lambda each: bool(at.play(each).violations))
        print(f"\nthe shortest schedule that fails:\n{shortest}")
        return False


def hunted(most: int, names: list[str]) -> dict[str, tuple[int, Schedule, str] | None]:
    """For each planted bug: how many schedules it took, the shortest that shows it, and what was said."""
    order = list(range(_ORDER))
    random.Random(5).shuffle(order)
    found: dict[str, tuple[int, Schedule, str] | None] = {}
    with stage() as at:
        for name in names:
            found[name] = None
            with planted(name):
                for count, seed in enumerate(order[:most], 1):
                    if violations := at.play(drawn(seed)).violations:
                        shortest = shortened(drawn(seed), lambda each: bool(at.play(each).violations))
                        found[name] = count, shortest, violations[0]
                        break
            print(f"{name}: {found[name]}", flush=True)
    return found


def told(schedule: Schedule) -> str:
    """A schedule in a few words."""
    shape = schedule.shape
    what = [f"{f.what} at '{f.point}' ({f.count})" for f in schedule.faults]
    what += [f"a member: {schedule.liar[1]}"] if schedule.liar else []
    return f"{shape.kind}, {shape.members} members, {shape.ticks} ticks: {'; '.join(what) or 'no fault'}"


def written(part: str, text: str) -> None:
    """Puts a text between the markers of a part of the page."""
    page = _PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {part}: make world writes this -->", f"<!-- end of {part} -->"
    before, after = page.split(begin)[0], page.split(end)[1]
    _PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, usual in (
        ("schedules", int, 2000),
        ("first", int, 0),
        ("minutes", float, 60.0),
        ("most", int, 600),
    ):
        parser.add_argument(f"--{name}", type=kind, default=usual)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--plants", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    world.lives.KEPT = Path(__file__).resolve().parent.parent / "out" / "world"
    if options.seed is not None:
        return 0 if one(options.seed) else 1
    if options.plants is not None:
        found = hunted(options.most, options.plants or list(PLANTS))
        rows = [
            "| bug | what it does | schedules until it was found | the shortest that shows it |",
            "| --- | --- | ---: | --- |",
        ]
        for name, result in found.items():
            count, shortest = ("not found", "") if result is None else (str(result[0]), told(result[1]))
            rows.append(f"| {name} | {PLANTS[name].what} | {count} | {shortest} |")
        print(text := "\n".join(rows))
        if options.write:
            written("bugs", text)
        return 0 if all(found.values()) else 1
    begin, cpu = time.monotonic(), time.process_time()
    seen = many(options.first, options.schedules, options.minutes)
    took, cpu = time.monotonic() - begin, time.process_time() - cpu
    facts = {
        "seeds": f"{options.first} to {options.first + seen.schedules - 1}",
        "schedules": f"{seen.schedules:,}",
        "seconds, and of one core": f"{took:.0f}, {cpu:.0f}",
        "violations": str(len(seen.violations)),
        "runs": ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.kinds.items())),
        "members": ", ".join(f"{count:,} of {n}" for n, count in sorted(seen.members.items())),
        "messages that left, each looked at": f"{seen.messages:,}",
        "faults": f"{seen.hit.total():,}",
        "pairs of a point and a fault that came": f"{len(PAIRS) - len(seen.empty())} of {len(PAIRS)}",
        "liars": ", ".join(f"{name} {seen.lies[name]}" for name in LIARS),
    }
    rows = ["| what | |", "| --- | --- |", *(f"| {what} | {found} |" for what, found in facts.items())]
    text = "\n".join(rows) + f"\n\n{seen.table()}"
    print(text)
    if seen.empty() and seen.schedules >= 2000:
        print(f"not seen: {seen.empty()}")
    if options.write:
        written("schedules", text)
    return 1 if seen.violations else 0


if __name__ == "__main__":
    sys.exit(main())
