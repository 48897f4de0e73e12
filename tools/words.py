"""How much there is to read: the words of README.md and of every page in docs/, for people who read and not look up.

python tools/words.py    # words of each page without tables, and with the tables that a person writes; all

A word is what stands between blanks and has a letter or a digit. Not counted in either sum:

- what a command writes: everything between `<!-- name -->` and `<!-- end -->`, the pages `docs/papers/*-claims.md`, and
  tables in docs/papers and docs/evidence, which hold what was measured,
- code: blocks between ``` and blocks that are indented by four blanks, and comments.

Pages that are made when the site is built (command line, Python, notebooks) are no files in docs/.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 56_000  # without tables; tests/test_docs.py holds the docs to both
LIMIT_WITH_TABLES = 60_500
_LEFT_OUT = [
    re.compile(r"^( *)```.*?^\1``` *$", flags=re.DOTALL | re.MULTILINE),
    re.compile(r"^<!-- (?!end)[^>]* -->$(?:(?!^<!-- ).)*?^<!-- end -->$", flags=re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", flags=re.DOTALL),
]
_TABLE = re.compile(r"^ *\|.*$", flags=re.MULTILINE)
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d+\.|:) ")


def pages() -> list[Path]:
    """The pages that a person writes."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [page for page in found if not page.name.endswith("-claims.md")]


def prose(text: str, tables: bool) -> str:
    """What is read, one sentence after the other."""
    for each in _LEFT_OUT if tables else [*_LEFT_OUT, _TABLE]:
        text = each.sub("", text)
    kept, inside = [], False
    for part in re.split(r"(\n\s*\n)", text):  # four blanks are code, but inside an item of a list a paragraph
        if not part.startswith("    ") or inside:
            kept.append(part)
        if part.strip():
            inside = _ITEM.match(part) is not None or (inside and part.startswith("  "))
    return "".join(kept)


def count(page: Path, tables: bool) -> int:
    """The words of a page."""
    written = tables and page.parent.name not in ("evidence", "papers")
    text = prose(page.read_text(encoding="utf-8"), written)
    return sum(any(sign.isalnum() for sign in word) for word in text.split())


def main() -> None:
    """Prints words by page, then all."""
    found = {page: (count(page, False), count(page, True)) for page in pages()}
    for page, (alone, together) in sorted(found.items(), key=lambda each: each[1]):
        print(f"{alone:8,} {together:8,}  {page.relative_to(ROOT)}")
    print(f"{sum(a for a, _ in found.values()):8,} {sum(b for _, b in found.values()):8,}  in all")


if __name__ == "__main__":
    main()
