"""The tables of docs/attacks.md: runs each command with --json, and writes its errors into the page.

PYTHONPATH=src python tools/attacks.py    # about two minutes
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "attacks.md"
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
    ran = subprocess.run(
        [sys.executable, "-m", "tacit", *command.split(), "--json"], capture_output=True, text=True, check=True
    )
    print(command, file=sys.stderr)
    found: dict[str, Any] = json.loads(ran.stdout)
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


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for name, made in (("exact", exact()), ("tokens", tokens())):
        text = re.sub(
            rf"(<!-- {name}: .*? -->\n).*?(\n<!-- end -->)",
            lambda found, made=made: f"{found[1]}{made}{found[2]}",
            text,
            flags=re.DOTALL,
        )
    PAGE.write_text(text, encoding="utf-8")
