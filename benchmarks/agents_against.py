"""A round of five agents, the demo, and opening a long ledger, against another version of tacit: ratios of one run.

    python benchmarks/agents_against.py OTHER/src [TURNS]

The two versions take turns. The agents are those of agents.py (no computation, a ring, one machine), with a ledger for
each, as in a private run: five agents share two cores and one disk, and do nothing but talk. In the demo they train, in
two federations. The ledger has a thousand runs of a hundred ticks: each version opens the one that it writes,
with marks or with payloads of as many bytes as a model of 104 numbers has.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

AGENTS, RUNS, TICKS = 5, 1_000, 100


def paying(federation: Any, folder: Path, me: int, stores: Path, results: Any) -> None:
    """An agent with a ledger; the median time of its rounds."""
    import agents
    import numpy as np

    from tacit.agent import participant
    from tacit.privacy import filters
    from tacit.privacy.ledger import Cap, Ledger

    name = federation.names[me]
    with Ledger.new(stores / f"{name}.ledger", population=name, cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(1.0, 1e-6))
    # `agents.talk` makes a participant without a ledger, as exact runs have it.
    post_init = participant.Participant.__init__

    def with_ledger(self: Any, *args: Any, **named: Any) -> None:
        post_init(self, *args, **named)
        if self.ledger is None:
            object.__setattr__(self, "ledger", Ledger(stores / f"{name}.ledger", cost=filters.epsilon))

    participant.Participant.__init__ = with_ledger  # type: ignore[method-assign]
    results.put((float(np.median(agents.talk(federation, folder, me, stores))),))


def long_ledger(path: Path) -> None:
    """Fills a ledger as agents do."""
    from tacit.privacy import filters
    from tacit.privacy.events import Pure, to_plain
    from tacit.privacy.ledger import Cap, Ledger
    from tacit.privacy.ledger.entries import canonical

    body = canonical(to_plain(Pure(1e-3)))
    with Ledger.new(path, population="p", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(1e6, 1e-6))
        file, marks = ledger._file, hasattr(ledger, "mark")
        with file.writing():
            for run in range(RUNS):
                name = f"{run:064x}"
                for tick in range(TICKS):
                    file.append("reserve", name, tick, body)
                if marks:
                    file.append("start", name, 1, canonical({"when": "", "nonce": ""}))
                for tick in range(TICKS):
                    left = os.urandom(32 if marks else 8 * 104)
                    file.append("mark" if marks else "payload", name, tick, left)


def one_turn(what: str, folder: Path) -> float:
    """Seconds, with the version that this process has."""
    if what == "open":
        from tacit.privacy import filters
        from tacit.privacy.ledger import Ledger

        path = folder / "long.ledger"
        if not path.exists():
            long_ledger(path)
        began = time.perf_counter()
        with Ledger(path, cost=filters.epsilon):
            return time.perf_counter() - began
    if what == "demo":
        began = time.perf_counter()
        command = [sys.executable, "-m", "tacit", "federation", "demo", "--out", str(folder / "demo")]
        subprocess.run(command, check=True, capture_output=True)
        shutil.rmtree(folder / "demo")
        return time.perf_counter() - began
    import tacit

    sys.path.insert(0, str(Path(tacit.__file__).parents[2] / "benchmarks"))  # agents.py of the version that is measured
    import agents

    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        made = agents.made(Path(name), AGENTS)
        (Path(name) / "turn").mkdir()
        arguments = [(Path(name), i, Path(name) / "turn") for i in range(AGENTS)]
        (seconds,) = agents.network(context, made, paying, arguments)
    return float(seconds)


def main(other: Path, turns: int) -> None:
    """Prints the medians of both versions, and their ratio."""
    here = Path(__file__).resolve().parent.parent / "src"
    for what, unit, factor in (("round", "ms", 1e3), ("demo", "s", 1.0), ("open", "s", 1.0)):
        took: dict[Path, list[float]] = {other.resolve(): [], here: []}
        with tempfile.TemporaryDirectory(dir=".") as folder:
            for k in range(turns):
                for source in took if k % 2 == 0 else reversed(took):
                    home = Path(folder) / source.parent.name / str(source == here)
                    home.mkdir(parents=True, exist_ok=True)
                    command = [sys.executable, __file__, "--turn", what, str(home)]
                    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
                    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                    took[source].append(float(found.stdout.split()[-1]))
        before, now = (statistics.median(each) for each in took.values())
        ratios = sorted(b / a for a, b in zip(*took.values(), strict=True))
        print(
            f"{what}: before {factor * before:.2f} {unit}, now {factor * now:.2f} {unit}; ratio of the medians "
            f"{now / before:.3f}, of turns {', '.join(f'{each:.2f}' for each in ratios)}"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--turn":
        print(one_turn(sys.argv[2], Path(sys.argv[3])))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7)
