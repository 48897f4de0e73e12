"""Every figure of speed: ours, the best peer's, and what the machine allows, measured in one run.

    python benchmarks/speed.py [PART ...]        # all parts by default; `make bench` calls this

Each program has one thread. What is compared runs in turns, and medians count. Writes out/bench.json, the tables of
docs/evidence/speed.md (between its markers) and the pictures beside them. Without some of its parts it leaves their
figures in place.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import one_thread  # noqa: F401  (before numpy comes)
from timing import Figure

from tacit.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "evidence" / "speed.md"
PARTS = ("local_solver", "privacy", "files", "graphs", "composite", "token_methods", "agents")
AXES = {"d": "features", "rows": "rows of each of 5 agents", "agents": "agents, with 40,000 rows in all"}


def machine() -> str:
    """What the figures were measured with."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "scikit-learn"))
    return f"Python {platform.python_version()}, {packages}; one thread; {os.cpu_count()} cores"


def table(figures: list[Figure]) -> str:
    """Markdown: a row a figure."""
    lines = ["| | ours | the machine allows | best peer | peer / ours |", "| --- | --- | --- | --- | --- |"]
    for each in figures:
        peer = "" if each.peer is None else f"{each.peer:.3g} {each.unit}: {each.against}"
        ratio = "" if each.ratio is None else f"{each.ratio:.2g}"
        limit = f"{each.limit:.3g} {each.unit}: {each.bound} (we take {each.ours / each.limit:.2g} times that)"
        lines.append(f"| {each.name} | {each.ours:.3g} {each.unit} | {limit} | {peer} | {ratio} |")
    return "\n".join(lines)


def draw(plot: str, figures: list[Figure]) -> None:
    """Time against d, rows or agents: ours, the peer's, and what the machine allows."""
    from matplotlib.figure import Figure as Canvas  # no window

    points = sorted((each for each in figures if each.plot == plot), key=lambda each: each.at)
    canvas = Canvas(figsize=(5, 3.2), layout="constrained")
    axes = canvas.subplots()
    axes.loglog([p.at for p in points], [p.ours for p in points], "o-", label="tacit")
    compared = [p for p in points if p.peer is not None]
    axes.loglog([p.at for p in compared], [p.peer for p in compared], "s--", label=compared[0].against)
    axes.loglog([p.at for p in points], [p.limit for p in points], "k:", label=points[0].bound)
    axes.set_xlabel(AXES[plot])
    axes.set_ylabel(f"a round, {points[0].unit}")
    axes.legend(frameon=False, fontsize="small")
    canvas.savefig(ROOT / "docs" / "images" / f"bench-{plot}.svg", metadata={"Date": None})


def write(found: dict[str, list[Figure]], out: Path) -> None:
    """The JSON file, the page and the pictures."""
    plain = [
        {**asdict(each), "ratio": each.ratio, "part": part, "machine": machine()}
        for part, figures in found.items()
        for each in figures
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as draft:
        draft.write_text(json.dumps(plain, indent=1) + "\n")
    page = PAGE.read_text()
    for part, figures in found.items():
        marked = re.compile(rf"(<!-- bench {part} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marked.search(page):
            raise SystemExit(f"{PAGE.name} has no place for {part}: <!-- bench {part} --> and <!-- end -->")
        page = marked.sub(lambda m, f=figures: f"{m[1]}\n{table(f)}\n\n{machine()}.\n\n{m[2]}", page)  # type: ignore[misc]
    with replacing(PAGE) as draft:
        draft.write_text(page)
    for plot in {each.plot for figures in found.values() for each in figures if each.plot}:
        draw(plot, [each for figures in found.values() for each in figures])


def main() -> None:
    """Measures the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"), help="the file of all figures")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    found: dict[str, list[Figure]] = {}
    for part in given.parts or PARTS:
        found[part] = []
        for each in importlib.import_module(part).figures():
            found[part].append(each)
            beside = "" if each.ratio is None else f"; {each.against}: {each.ratio:.2g} times that"
            print(f"{each.name}: {each.ours:.3g} {each.unit}{beside}", flush=True)
    write(found, given.out)
    print(f"{given.out}, {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
