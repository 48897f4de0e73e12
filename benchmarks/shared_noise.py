"""What shared noise gains: error against the number of organisations, on Adult.

    python benchmarks/shared_noise.py [SEEDS]
    python benchmarks/shared_noise.py draw    # the picture alone, from the numbers that are there

40,000 records in all, shared out among 5, 10, 20, 50 and 100 organisations, and 5,222 to test; public schema, total
(1, 1e-5) and (0.1, 1e-5). Four lines: local noise (the method that `tacit train --epsilon` takes by default), shared
noise if at most one organisation colludes and if a third of them do, and a centre that has all records. It writes
docs/images/shared-noise.png and the numbers beside it, shared-noise.csv: means and ranges over seeds (5 by default),
each with a division of the records and noise of its own.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tacit.data import adult, adult_schema, partition
from tacit.lab.comparison.lines import Line, methods
from tacit.lab.comparison.trials import Trial, trial
from tacit.run.budget import Budget
from tacit.run.graphs import auto_graph
from tacit.run.recipes import recommended
from tacit.run.trust import Reserve

MEMBERS, BUDGETS, DELTA = (5, 10, 20, 50, 100), (1.0, 0.1), 1e-5
OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "shared-noise"
# Okabe and Ito's colours, which colour-blind people can tell apart; and a marker for each.
LINES: dict[str, tuple[str, str]] = {
    "local noise: trust nobody": ("#D55E00", "s"),
    "shared noise, a third collude": ("#0072B2", "^"),
    "shared noise, one colludes": ("#009E73", "o"),
    "a centre with all records": ("#555555", ""),
}
LOCAL, THIRD, ONE, CENTRE = LINES
PLACES = {LOCAL: 0, THIRD: 30, CENTRE: 0, ONE: -30}  # of the names, in points above the end of a line


def measured(members: int, epsilon: float, seeds: int) -> dict[str, tuple[str, list[float]]]:
    """For every line the name of its method, and the error for each seed."""
    data, schema = adult(), adult_schema()
    graph, sizes = auto_graph(members), [40_000 // members] * members
    third = Reserve(members // 3)
    every = methods(
        graph, Budget(epsilon, DELTA), shared={each: auto_graph(members, each) for each in {Reserve(1), third}}
    )
    names = {
        LOCAL: recommended(schema.label, sizes, graph, epsilon, DELTA),
        THIRD: f"shared-descent:{third.colluders}",
        ONE: "shared-descent:1",
        CENTRE: "central",
    }
    trials = [
        trial(data, schema, lambda rows, seed: partition.equal(len(rows), members, seed), seed) for seed in range(seeds)
    ]
    return {line: (name, [error(every[name], each) for each in trials]) for line, name in names.items()}


def error(line: Line, trial: Trial) -> float:
    """The mean error of the models that one run gives."""
    models = line.run(trial, line.setting(line.sizes(trial), trial.schema)).models
    return float(np.mean([model.measured(trial.test).miss for model in models]))


def draw(rows: list[dict[str, Any]]) -> None:
    """The picture: a panel for each budget, each line with its name beside it."""
    figure = Figure(figsize=(7.8, 4.0), layout="constrained")
    figure.suptitle("Adult, 40,000 records in all: test error against the number of organisations", fontsize=12)
    for axes, epsilon in zip(figure.subplots(1, 2), BUDGETS, strict=True):
        for line, (colour, marker) in LINES.items():
            found = [row for row in rows if row["line"] == line and row["epsilon"] == epsilon]
            x, y = [row["members"] for row in found], [row["error"] for row in found]
            style = {"ls": "--"} if line == CENTRE else {"marker": marker, "ms": 6}
            axes.plot(x, y, color=colour, lw=2, **style)
            axes.fill_between(
                x, [r["least"] for r in found], [r["largest"] for r in found], color=colour, alpha=0.12, lw=0
            )
            if epsilon == BUDGETS[-1]:  # three of the lines lie close together: their names stand one above the other
                axes.annotate(
                    line.replace(": ", ":\n").replace(", ", ",\n").replace(" with ", "\nwith "),
                    (x[-1], y[-1]),
                    xytext=(10, PLACES[line]),
                    textcoords="offset points",
                    color=colour,
                    va="center",
                    fontsize=10,
                    annotation_clip=False,
                )
        axes.set_xscale("log")
        axes.set_xticks(MEMBERS, [str(n) for n in MEMBERS])
        axes.minorticks_off()
        axes.set_xlabel("organisations")
        axes.set_title(f"total of ({epsilon:g}, 1e-5) for every record", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("test error")
    figure.set_dpi(120)
    FigureCanvasAgg(figure).print_png(str(OUT.with_suffix(".png")))


def main() -> None:
    """Measures, writes the numbers, and draws."""
    rows: list[dict[str, Any]] = []
    if sys.argv[1:] == ["draw"]:
        with OUT.with_suffix(".csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                numbers = {name: float(row[name]) for name in ("epsilon", "error", "least", "largest")}
                rows.append(row | numbers | {"members": int(row["members"])})
        return draw(rows)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for epsilon in BUDGETS:
        for members in MEMBERS:
            for line, (method, errors) in measured(members, epsilon, seeds).items():
                row = {"epsilon": epsilon, "members": members, "line": line, "method": method, "seeds": seeds}
                row |= {"error": round(float(np.mean(errors)), 5), "least": min(errors), "largest": max(errors)}
                rows.append(row)
                print(f"{epsilon:4} {members:4} {line:30} {method:17} {row['error']:.4f}", flush=True)
    with OUT.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)


if __name__ == "__main__":
    main()
