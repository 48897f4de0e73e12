"""Puts what `make reproduce` has measured into the pages of the papers: python tools/claims.py

docs/papers/PAPER-claims.md has a row for every claim. The page PAPER.md shows the same rows, and its table of every
statement counts the verdicts of those that are about it.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "papers"
_HEAD = "| where | whose claim |"
_COUNTED = re.compile(r"of (the paper|ours): [^|]*(?= \|$)")  # the end of the last cell


def cells(line: str) -> list[str]:
    """The cells of a row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def about(where: str, statement: str) -> bool:
    """Whether a claim, by where it is made, belongs to a statement."""
    labels = re.split(r"[,;] (?![^\[]*\])", statement)
    return any(re.fullmatch(re.escape(label) + r"(?![\w.*]).*", where) for label in labels)


def table(text: str) -> str:
    """The table of claims in a page."""
    return text[text.index(_HEAD) :].split("\n\n")[0].rstrip()


def counts(claims: list[list[str]]) -> str:
    """How many of these claims hold, of the paper's and of ours, how many do not, and with how many seeds."""
    found = []
    for whose, mine in (("the paper", True), ("ours", False)):
        verdicts = [claim[-1].strip("*") for claim in claims if claim[1].startswith("paper") == mine]
        known = [
            f"{each} {verdicts.count(each)}" for each in ("holds", "does not hold", "undecided") if each in verdicts
        ]
        found += [f"of {whose}: {', '.join(known)}"] if known else []
    seeds = [int(number) for claim in claims for number in re.findall(r"\d+ of (\d+)", claim[-2])]
    return "; ".join(found) + (f" ({max(seeds)} seeds)" if seeds else "")


def page(text: str, claims: str) -> str:
    """The page with these claims."""
    rows = [cells(line) for line in table(claims).splitlines()[2:]]
    lines = text.replace(table(text), table(claims)).splitlines()
    for at, line in enumerate(lines):
        if _COUNTED.search(line):
            lines[at] = _COUNTED.sub(counts([row for row in rows if about(row[0], cells(line)[0])]), line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the pages."""
    for claims in sorted(FOLDER.glob("*-claims.md")):
        path = FOLDER / claims.name.replace("-claims", "")
        path.write_text(page(path.read_text(encoding="utf-8"), claims.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
