"""What a comparison has found, as a table: for the eye, a data frame, Markdown, LaTeX and a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from textwrap import fill
from typing import Any

from tacit.errors import InputError
from tacit.files import replacing
from tacit.html import card, shortened, table
from tacit.html.markup import Markup, joined, tag
from tacit.html.pictures import Range, ranges
from tacit.lab.comparison.paired import LEVEL, Difference, difference
from tacit.lab.comparison.results import MethodResult
from tacit.privacy.accounting import rounded_up

_WIDTH = 80  # of a terminal
_NAME = 18  # the most letters of a name there
_NOT_PRIVATE = "Nothing of this is private: errors are exact, and the noise is seeded."
_DIGITS = {"error": ".4f", "RMSE": ".4g", "gap": ".3g"}
_TEX = {sign: "\\" + sign for sign in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"}
# A picture that stands alone needs the colours that documents have in their style sheet.
_STYLE = """text { fill: #222; font-family: sans-serif; } .faint { fill: #666; } .axis { stroke: #ddd; }
.range { stroke: #1f5fa8; stroke-opacity: .35; stroke-width: 7; stroke-linecap: round; } .dot { fill: #1f5fa8; }
.best .range { stroke: #2a8a4a; } .best .dot { fill: #2a8a4a; }
.other .range { stroke: #8a8a8a; } .other .dot { fill: #8a8a8a; }"""


@dataclass(frozen=True)
class Comparison:
    """What `tacit.compare` has found. **Nothing in it is private**: errors are exact, and the noise is seeded.

    A method's error (of numbers the root mean square error, of a `Problem` the gap to the minimum) is the mean over
    seeds, and the range goes from its least to its largest. The difference is to `reference`, seed by seed, with
    Student's interval of 95 % for its mean: it assumes that differences are about normal, and it is about other seeds
    on these records, not about other records. Ten methods have nine intervals, of which each may miss.
    """

    results: list[MethodResult]
    reference: str  # the method that the others are compared with: the first one
    left_out: tuple[str, ...] = ()  # methods that cannot keep the budget, or cannot run here

    def __getitem__(self, name: str) -> MethodResult:
        """The result of this method: its `errors`, seed by seed, `epsilon`, `messages` and so on."""
        for result in self.results:
            if result.name == name:
                return result
        raise InputError(f"there is no method {name!r} in this comparison; there are {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        """The names of all methods in the table."""
        return [result.name for result in self.results]

    def against(self, reference: str) -> Comparison:
        """The same results, with differences to another method."""
        return replace(self, reference=self[reference].name)

    def difference(self, name: str) -> Difference:
        """How much larger the error of this method is than that of the reference: mean, and interval."""
        return difference(self[name].errors, self[self.reference].errors)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method."""
        return [
            {
                "method": each.name,
                each.error_name: each.error,
                "least": min(each.errors),
                "largest": max(each.errors),
                "difference": (to := self.difference(each.name)).mean,
                "difference_low": to.low,
                "difference_high": to.high,
                "epsilon": each.epsilon,
                "delta": each.delta,
                "rounds": each.rounds,
                "messages": each.messages,
                "seeds": len(each.errors),
            }
            for each in self.results
        ]

    def frame(self) -> Any:
        """The rows as a data frame of pandas, or of polars where there is no pandas."""
        return data_frame(self.rows())

    def markdown(self) -> str:
        """A table for a page."""
        head, *lines = [[cell.replace("|", "\\|") for cell in line] for line in self._cells()]
        rule = ["---", *["---:" for _ in head[1:]]]
        return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines)) + "\n"

    def latex(self) -> str:
        """A table for a paper, with the rules of the package booktabs."""
        head, *lines = [[_tex(cell) for cell in line] for line in self._cells()]
        body = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
        body += [" & ".join(line) + r" \\" for line in lines]
        return "\n".join([*body, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws means and ranges into an SVG file."""
        if not str(path).endswith(".svg"):
            raise InputError(f"the picture is an SVG file: name {os.fspath(path)} .svg")
        with replacing(path) as draft:
            draft.write_text(self._picture(tag("style", Markup(_STYLE))) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        cells = self._cells()
        head = cells[0]
        for line in cells:
            line[0] = shortened(line[0], _NAME)
        # Where the table is too wide, what says least is left out; a difference can be seen from two means.
        for least in ("messages", "difference", "range"):
            if sum(max(map(len, column)) + 2 for column in zip(*cells, strict=True)) - 2 > _WIDTH:
                k = head.index(least)
                cells = [line[:k] + line[k + 1 :] for line in cells]
                head = cells[0]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in cells
        ]
        return "\n".join([*lines, "", *map(partial(fill, width=_WIDTH), self._notes())])

    def _repr_html_(self) -> str:
        head, *lines = self._cells()
        return card("Comparison", [("note", note) for note in self._notes()], table(head, lines), self._picture())

    def _notes(self) -> list[str]:
        n = len(self.results[0].errors)
        to = shortened(self.reference, _NAME)
        notes = [f"Over {n} {'seed' if n == 1 else 'seeds'}; differences to {to}, seed by seed."]
        if self.left_out:
            notes.append(f"Left out, for the budget, graph or label: {', '.join(self.left_out)}.")
        return [*notes, _NOT_PRIVATE]

    def _cells(self) -> list[list[str]]:
        """The table as text: its heads, and a line for each method."""
        what = self.results[0].error_name
        name = what if what == "gap" else f"test {what}"
        head = ["method", name, "range", "difference", f"{LEVEL:.0%} interval", "epsilon", "messages"]
        return [head, *(self._line(each, _DIGITS[what]) for each in self.results)]

    def _line(self, each: MethodResult, digits: str) -> list[str]:
        to = self.difference(each.name)
        own = each.name == self.reference
        ends = "-" if own or to.low is None else f"{to.low:+{digits}} to {to.high:+{digits}}"
        return [
            each.name,
            f"{each.error:{digits}}",
            f"{min(each.errors):{digits}} - {max(each.errors):{digits}}",
            "-" if own else f"{to.mean:+{digits}}",
            ends,
            f"{rounded_up(each.epsilon):#.4g}" if each.private else "-",
            f"{each.messages:,}" if each.decentralised else "pooled",
        ]

    def _picture(self, *style: Markup) -> Markup:
        drawn = [
            Range(each.name, each.error, min(each.errors), max(each.errors), "" if each.private else "other")
            for each in self.results
        ]
        what = self.results[0].error_name
        name = "gap to the minimum" if what == "gap" else f"test {what}"
        found = ranges(drawn, f"{name}: mean and range over seeds")
        start = found.index(">") + 1
        return found[:start] + joined(style) + found[start:]


def data_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a data frame of pandas, or of polars where there is no pandas."""
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(rows)
        except ModuleNotFoundError:
            continue
    raise InputError("a data frame needs pandas or polars: pip install pandas")


def _tex(text: str) -> str:
    """Text for LaTeX: a minus is no hyphen, nor is the dash of a range."""
    escaped = "".join(_TEX.get(sign, sign) for sign in text).replace(" - ", "--")
    return "--" if text == "-" else re.sub(r"(?<![\w.)-])-(?=\d)", "$-$", escaped)
