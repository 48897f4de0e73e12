"""How long it takes to read a file of records and to encode it, beside pandas and polars, which only read it.

    python benchmarks/files.py [ROWS]

The file has ROWS records (1,000,000 by default) of four numbers, three categories and a label, 44 bytes each, as CSV
and as Parquet. Every line is a process of its own, with one thread. Seconds are of CPU time, with those of the clock in
brackets; starting Python and importing packages, compiled kernels of numba among them, counts and has a line of its
own. Kernels are compiled before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from timing import Figure, interleaved

from tacit.data import Category, Classes, Number, Schema, read_csv, read_table, validate

SCHEMA = Schema(
    label=Classes("died", positive=("yes",), negative=("no",)),
    columns=(
        Number("age", bounds=(18, 95)),
        Number("bmi", bounds=(0, 60)),
        Number("pressure", bounds=(0, 300)),
        Number("stay", bounds=(0, 60)),
        Category("sex", categories=("Female", "Male")),
        Category("ward", categories=("eyes", "heart", "medicine", "surgery")),
    ),
    intercept=True,
    row_norm=1.0,
    missing="drop",
)
_AT_ONCE = 1_000_000  # records made at once


def make(rows: int, folder: Path) -> None:
    """The file, as CSV and as Parquet, and a schema. The label follows from the records, and from chance."""
    import polars

    rng = np.random.default_rng(0)
    frames = []
    for first in range(0, rows, _AT_ONCE):
        n = min(_AT_ONCE, rows - first)
        age, stay = rng.integers(18, 96, n), rng.exponential(3, n).round(4)
        frame = polars.DataFrame(
            {
                "age": age,
                "bmi": rng.normal(26, 4, n).round(2),
                "pressure": rng.normal(130, 20, n).round(1),
                "stay": stay,
                "sex": rng.choice(["Female", "Male"], n),
                "ward": rng.choice(["surgery", "medicine", "eyes", "heart"], n),
                "hospital": rng.choice(["alder", "birch", "cedar", "elm"], n),
                "died": np.where(age / 20 + stay / 3 + rng.normal(size=n) > 5, "yes", "no"),
            }
        )
        with (folder / "people.csv").open("ab") as file:
            frame.write_csv(file, include_header=first == 0)
        frames.append(frame)
    polars.concat(frames).write_parquet(folder / "people.parquet")
    (folder / "schema.toml").write_text(SCHEMA.to_toml())


def _pandas(path: str) -> object:
    import pandas

    return pandas.read_csv(path)


def _polars(path: str) -> object:
    import polars

    return polars.read_csv(path)


WORK: dict[str, tuple[str, Callable[[str], object]]] = {
    "pandas reads": ("people.csv", _pandas),
    "polars reads": ("people.csv", _polars),
    "tacit starts": ("", lambda path: None),
    "tacit reads CSV": ("people.csv", read_csv),
    "tacit reads and encodes CSV": ("people.csv", lambda path: SCHEMA.encode(read_csv(path))),
    "tacit reads and encodes Parquet": ("people.parquet", lambda path: SCHEMA.encode(read_table(path))),
    "tacit reads CSV and drafts a schema": ("people.csv", lambda path: Schema.draft(read_csv(path), "died")),
    "tacit reads and validates CSV": ("people.csv", lambda path: validate(read_csv(path), SCHEMA)),
}
TRAIN = ["train", "people.csv", "--schema", "schema.toml", "--site", "hospital", "--out", "model.json", "--rounds", "5"]
COMMANDS = {"tacit train, 5 rounds": TRAIN, "tacit predict": ["predict", "model.json", "people.csv"]}


def one(name: str) -> None:
    """Does one piece of work and prints its seconds."""
    path, work = WORK[name]
    begin = time.process_time(), time.perf_counter()
    work(path)
    print(json.dumps([time.process_time() - begin[0], time.perf_counter() - begin[1]]))


def measured(command: list[str], folder: Path) -> tuple[float, float, float, str]:
    """Seconds of CPU, seconds of the clock, and the peak memory in GB of a process; what it prints."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "NUMBA", "OPENBLAS")} | {"POLARS_MAX_THREADS": "1"}
    begin = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | threads, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin, used.ru_maxrss / 2**20, printed


def figures() -> Iterator[Figure]:
    """Seconds for a million records; peers read, but do not check or encode."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        this = [sys.executable, str(Path(__file__).resolve())]
        measured([*this, "--make", "1000000"], folder)
        measured([*this, "--one", "tacit reads and encodes CSV"], folder)  # compiles
        (raw,) = interleaved(5, (folder / "people.csv").read_bytes)

        def seconds(what: str) -> float:
            return float(np.median([json.loads(measured([*this, "--one", what], folder)[3])[0] for _ in range(3)]))

        pandas, polars = seconds("pandas reads"), seconds("polars reads")
        best = (pandas, "pandas reads") if pandas < polars else (polars, "polars reads")
        for what in ("tacit reads CSV", "tacit reads and encodes CSV", "tacit reads and encodes Parquet"):
            name = f"a million records: {what}"
            yield Figure(name, "s of CPU", seconds(what), raw, "reading the bytes of the CSV file", *best)
        for what, arguments in COMMANDS.items():
            cpu, _, memory, _ = measured([sys.executable, "-m", "tacit", *arguments], folder)
            name = f"a million records: {what}, from start to end, {memory:.2f} GB"
            yield Figure(name, "s of CPU", cpu, raw, "reading the bytes of the CSV file")


def main(rows: int) -> None:
    """Makes the files and prints a line for each piece of work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        this = [sys.executable, str(Path(__file__).resolve())]
        measured([*this, "--make", str(rows)], folder)  # a process passes its peak memory on to those that it starts
        size = (folder / "people.csv").stat().st_size
        print(f"{rows:,} records, {size / 1e6:.0f} MB of CSV; one thread; CPU seconds (wall), peak memory")
        measured([*this, "--one", "tacit reads and encodes CSV"], folder)  # compiles
        for each in WORK:
            cpu, wall, memory, printed = measured([*this, "--one", each], folder)
            alone = json.loads(printed)
            print(f"{each:37}{alone[0]:7.2f} ({alone[1]:.2f}) s; with start {cpu:.2f} s, {memory:.2f} GB", flush=True)
        for each, arguments in COMMANDS.items():
            cpu, wall, memory, _ = measured([sys.executable, "-m", "tacit", *arguments], folder)
            print(f"{each:37}{cpu:7.2f} ({wall:.2f}) s in all, {memory:.2f} GB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    elif sys.argv[1:2] == ["--make"]:
        make(int(sys.argv[2]), Path())
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
