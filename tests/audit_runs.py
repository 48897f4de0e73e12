"""All audits, and all bugs that audits must catch: `make audit` keeps the result in docs/evidence/audits.md.

    python tests/audit_runs.py [--only pvp] [--out docs/evidence/audits.md]

Every row is one `tacit audit` in a process of its own, exactly as a user would run it: on what ships, and on a copy of
the sources with one of the mutants that name an audit (`tests/mutants`). Exits with 1 if an audit catches what ships,
if it shows less than correct code does, or less than 0.8 of the claim where it should show that much, or if a mutant is
not caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants import listed
from mutants.listed import ROOT, SOURCES, plant

from tacit.lab.audit.named import AUDITS

BUGS = [mutant for mutant in listed.read() if mutant.audit]
GOAL = 0.8
# Methods with noise in an objective claim more than a Gaussian mechanism of their noise costs: they also pay for the
# curvature of the loss. So they need more runs to show as much of the claim, and one-shot, which pays most, the most.
OBJECTIVE = ["mr-admm", "r-admm", "m-admm", "dvp"]
OUTPUT = ["pvp", "pi-admm", "gradient-descent", "ra-admm", "ra-gd", "token-gd"]
ALONE = ["dp-admm", "dp-accadmm"]  # the recipe says how many rounds
SHARP = [
    *(f"{name} --epsilon 4 --rounds 1 --samples 12000" for name in OBJECTIVE),
    *(f"{name} --epsilon 4 --rounds 1 --samples 5000" for name in [*OUTPUT, "shared-descent"]),
    *(f"{name} --epsilon 4 --rounds 8 --samples {8000 if name.startswith('ra-') else 4000}" for name in OUTPUT),
    "shared-descent --epsilon 4 --rounds 3 --samples 4000",
    *(f"{name} --epsilon 4 --samples 5000" for name in ALONE),
    "dvp-paper --epsilon 1 --samples 10000",
    "pvp-paper --epsilon 1 --samples 10000",
    *(f"{name} --epsilon 4 --rounds 8 --samples 12000" for name in OBJECTIVE),
    *(f"{name}-classes --epsilon 4 --rounds 8 --samples 12000" for name in OBJECTIVE),
    *(f"{name}-classes --epsilon 4 --rounds 8 --samples 4000" for name in ("pvp", "pi-admm", "gradient-descent")),
    "one-shot --epsilon 4 --samples 40000",
    "mr-admm --epsilon 1 --rounds 1 --samples 80000",
]
BLUNT = [
    "solver --epsilon 1 --samples 10000",
    "one-shot-classes --epsilon 4 --samples 40000",
    "mr-admm --epsilon 4 --rounds 8 --steer --samples 4000",
    "mr-admm-classes --epsilon 4 --rounds 8 --steer --samples 4000",
    "shared-descent --epsilon 4 --rounds 3 --steer --samples 4000",
    "dp-admm --epsilon 2 --rate 0.05 --samples 5000",
    "dp-accadmm --epsilon 2 --rate 0.05 --samples 5000",
    "rcd --epsilon 4 --rounds 4 --samples 4000",
]


def run_audit(arguments: str, sources: Path = SOURCES, samples: int = 2000) -> dict:
    """What `tacit audit ARGUMENTS --json` says with these sources."""
    command = [sys.executable, "-m", "tacit", "audit", *arguments.split(), "--json"]
    if "--samples" not in arguments and "--minutes" not in arguments:
        command += ["--samples", str(samples)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    found = json.loads(done.stdout)
    assert (found["caught"] or found["short"]) == (done.returncode == 1)
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only what has this in its name")
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "evidence" / "audits.md")
    given = options.parse_args()
    failed = sorted(set(AUDITS) - {arguments.split()[0] for arguments in SHARP + BLUNT})  # a method without a row
    shipped = [
        "| `tacit audit ...` | claim | lower bound | ratio | correct code | wrong | at most | runs | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for arguments in SHARP + BLUNT:
        if given.only not in arguments:
            continue
        begin = time.monotonic()
        found = run_audit(arguments)
        seconds = time.monotonic() - begin
        shipped.append(
            f"| `{arguments}` | {found['claim']:.4g} | {found['lower_bound']:.3f} | {found['ratio']:.3f} | "
            f"{_or_none(found['least'], '.3f')} | {_or_none(found['wrong'], '.1%')} | "
            f"{_or_none(found['most_wrong'], '.1%')} | {found['runs']:,} | {seconds:.0f} |"
        )
        print(shipped[-1], flush=True)
        if found["caught"] or found["short"] or (arguments in SHARP and found["ratio"] < GOAL):
            failed.append(arguments)
    bugs = [
        "| bug | in `src/tacit/` | `tacit audit ...` | claim | lower bound | caught |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for bug in BUGS:
        if given.only not in bug.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = run_audit(bug.audit, plant(bug, Path(folder)))
        bugs.append(
            f"| {bug.name} | `{bug.file}` | `{bug.audit}` | {found['claim']:.4g} | {found['lower_bound']:.3f} | "
            f"{'yes' if found['caught'] else 'yes: it tells too little' if found['short'] else 'NO'} |"
        )
        print(bugs[-1], flush=True)
        if not (found["caught"] or found["short"]):
            failed.append(bug.name)
    if not given.only:
        text = given.out.read_text(encoding="utf-8")
        for name, table in (("shipped", shipped), ("bugs", bugs)):
            text = re.sub(
                rf"(<!-- {name} -->\n).*?(<!-- end -->)",
                lambda marks, table=table: marks[1] + "\n".join(table) + "\n" + marks[2],
                text,
                flags=re.DOTALL,
            )
        given.out.write_text(text, encoding="utf-8")
    for each in failed:
        print(f"FAILED: {each}")
    return 1 if failed else 0


def _or_none(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main())
