"""The tables of docs/evidence/attacks.md: runs each command with --json, and writes its errors into the page.

PYTHONPATH=src python tools/attacks.py    # about ten minutes
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tacit import cli
from tacit.core.graph import Graph
from tacit.core.losses import Squared
from tacit.core.problem import Problem
from tacit.lab.attacks.reconstruction import row_errors
from tacit.lab.attacks.sums import from_sums, overheard_sums

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "attacks.md"
EXACT = [
    *(f"attack {method} --rows 3" for method in ("admm", "coca", "w-admm", "i-admm", "dgd", "extra")),
    *(f"attack {method} --rows 2 --loss ridge" for method in ("admm", "coca", "w-admm", "dgd", "extra")),
    "attack admm --rows 30 --loss ridge",
    "attack admm --rows 30",
    "attack admm --rows 3 --who neighbours",
    "attack admm --rows 3 --who neighbour",
    "attack dgd --rows 1 --who neighbour",
    "attack admm --rows 3 --who neighbour --graph complete",
    "attack w-admm --rows 3 --who neighbour",
    "attack admm --rows 3 --data adult",
    "attack admm --rows 200 --rounds 300 --data adult",
]
TOKENS = [
    "attack i-admm",
    "attack random-start",
    "attack pi-admm1",
    "attack pi-admm1 --loss logistic",
    "attack pi-admm2",
    "attack pi-admm2 --loss logistic",
    "attack pi-admm2 --loss logistic --epsilon 1",
    "attack offset",
    "attack offset --who neighbours --graph ring",
    "attack pi-admm1-offset --who neighbours --graph ring",
]
COLUMNS = {
    "gradients": "gradients",
    "Hessian": "curvature",
    "records": "records",
    "labels, if features are known": "labels",
    "who is in them (AUC)": "membership",
}


def _found(command: str) -> dict[str, Any]:
    print(command, file=sys.stderr, flush=True)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        cli.app([*command.split(), "--json"], standalone_mode=False)
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def _cell(agents: list[dict[str, Any]], name: str) -> str:
    values = [each[name] for each in agents if each[name] is not None]
    if not values:
        return "-"
    some = "" if len(values) == len(agents) else f" ({len(values)} of {len(agents)} agents)"
    return f"{sum(values) / len(values):.2g}{some}"


def exact() -> str:
    """The methods without privacy: the mean over the agents."""
    lines = [f"| `tacit ...` | {' | '.join(COLUMNS)} |", "| --- " * (1 + len(COLUMNS)) + "|"]
    for command in EXACT:
        agents = _found(command)["agents"]
        lines.append(f"| `{command}` | {' | '.join(_cell(agents, name) for name in COLUMNS.values())} |")
    return "\n".join(lines)


def tokens() -> str:
    """The token methods: the best attack on the gradient at the last visit, and its error beside a guess of zero."""
    lines = ["| `tacit ...` | best attack | error of the gradient | a guess of zero |", "| --- | --- | --- | --- |"]
    for command in TOKENS:
        errors = {name: each["gradient_last"] for name, each in _found(command)["errors"].items()}
        guess = errors.pop("(a guess of zero)")
        best = min(errors, key=lambda name: errors[name])
        lines.append(f"| `{command}` | {best} | {errors[best]:.2g} | {guess:.2g} |")
    return "\n".join(lines)


def fits() -> str:
    """How often the fit of the logistic loss finds all records of an agent, to 1e-3."""
    lines = ["| rows | agents whose records were all found |", "| --- | --- |"]
    for rows in (2, 3, 5):
        found = [
            each["records"] < 1e-3
            for method in ("admm", "extra")
            for seed in range(3)
            for each in _found(f"attack {method} --rows {rows} --seed {seed}")["agents"]
        ]
        lines.append(f"| {rows} | {sum(found)} of {len(found)} |")
    return "\n".join(lines)


def sums() -> str:
    """The quadratics of single agents from secret-shared sums."""
    whole, ring, penalty = Graph.complete, Graph.ring(5), 0.3
    cases: list[tuple[str, Graph, list[int], int, int]] = [
        ("two of four, about the other two", whole(4), [0, 1], 1, 15),
        ("the same in two dimensions", whole(4), [0, 1], 2, 20),
        ("one of four, about three", whole(4), [0], 1, 20),
        ("one on a ring of five, about four", ring, [0], 1, 25),
        ("one of five, about four", whole(5), [0], 1, 25),
    ]
    lines = ["| who | rounds | error of the worst quadratic | the mean as a guess |", "| --- | --- | --- | --- |"]
    for name, graph, ours, d, rounds in cases:
        rng = np.random.default_rng(0)
        parts = [(rng.normal(size=(5, d)), rng.normal(size=5)) for _ in range(graph.agents)]
        problem = Problem(parts, loss=Squared())
        said, heard = overheard_sums(problem, graph, penalty, rounds)
        found = from_sums(graph, {i: said[:, i] for i in ours}, {i: heard[:, i] for i in ours}, penalty)
        others = [i for i in range(graph.agents) if i not in ours]
        H, g = problem.second_moment()[others].reshape(len(others), -1), problem.gradient(np.zeros(d))[others]
        true, theirs = np.c_[H, g], np.c_[found.curvature.reshape(len(others), -1), found.slope]
        guess = np.tile(true.mean(axis=0), (len(others), 1))
        off = [float(row_errors(each, true).max()) for each in (theirs, guess)]
        lines.append(f"| {name} | {rounds} | {off[0]:.2g} | {off[1]:.2g} |")
        print(name, file=sys.stderr)
    return "\n".join(lines)


if __name__ == "__main__":
    tables = {"exact": exact(), "fits": fits(), "tokens": tokens(), "sums": sums()}
    text = PAGE.read_text(encoding="utf-8")
    for name, made in tables.items():
        start = text.index("-->\n", text.index(f"<!-- {name}: ")) + len("-->\n")
        text = f"{text[:start]}{made}\n{text[text.index('<!-- end -->', start) :]}"
    PAGE.write_text(text, encoding="utf-8")
