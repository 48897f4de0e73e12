"""What reports say about ledgers, checked: the member's own head, and the heads that its neighbours have shown it.

The neighbours' heads are signed by the neighbours (`tacit.agent.ledger_heads`). So a member whose report names another
ledger than it showed its neighbours is found as soon as these reports lie side by side. Whether it is an old copy, only
the ledger itself can show (`book_faults`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tacit.agent.documents import ANY, DIGEST, TEXT, Fault, Kind, Named, differences, misfits
from tacit.agent.federation import Federation
from tacit.agent.ledger_heads import Signed, contradiction
from tacit.privacy.events import Event
from tacit.privacy.ledger import Head, Ledger

_BOOK = Kind(
    "a name of a ledger (32 hexadecimal digits)",
    lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{32}", value)),
)
_SIGNATURE = Kind(
    "a signature in hexadecimal digits",
    lambda value: isinstance(value, str) and len(value) <= 144 and bool(re.fullmatch("([0-9a-f]{2})+", value)),
)
_ROWS = Kind("a number of rows", lambda value: type(value) is int and 0 <= value < 2**63)
_OWN = {"population": DIGEST, "book": _BOOK, "rows": _ROWS, "head": DIGEST}
_HEAD = _OWN | {"signature": _SIGNATURE}
_TEXTS = {"population": TEXT, "book": TEXT, "rows": _ROWS, "head": TEXT}
# What must be so before anything else can be checked, where a ledger has paid.
SHAPES = {"ledger": _TEXTS, "ledgers": Named({"newest": ANY, "contradiction": ANY})}
Paid = tuple[str, dict[int, Event]]  # under which run, and for what


def signed_head(plain: Mapping[str, Any]) -> Signed:
    """A signed head as it is in a report."""
    return Signed(plain["population"], head_of(plain), plain["signature"])


def head_of(plain: Mapping[str, Any]) -> Head:
    """A head as it is in a report."""
    return Head(plain["book"], plain["rows"], plain["head"])


def ledger_faults(report: Mapping[str, Any], own: Federation, releases: int) -> list[Fault]:
    """What is wrong with the heads in one report, of so many releases. Exact values are in no ledger."""
    if not own.private:
        plain = {key: report[key] for key in ("ledger", "ledgers")}
        return differences(plain, {"ledger": None, "ledgers": {}}, "", "of exact values")
    near = [own.names[j] for j in own.graph.neighbours(own.names.index(report["member"]))]
    found = misfits(report["ledger"], _OWN, "ledger")
    if report["ledger"]["rows"] < (least := 2 + 2 * releases):
        what = f"a ledger with a cap, this run and its {releases} releases has {least} rows or more"
        found.append(Fault("ledger.rows", what))
    if wrong := misfits(report["ledgers"], dict.fromkeys(near, ANY), "ledgers"):
        return found + wrong
    for name in near:
        found += _shown_faults(report["ledgers"][name], f"ledgers.{name}", own, name)
    return found


def _shown_faults(shown: Mapping[str, Any], where: str, own: Federation, name: str) -> list[Fault]:
    """What is wrong with what a neighbour has shown, if it has shown something."""
    odd = shown["contradiction"]
    wrong = [] if shown["newest"] is None else misfits(shown["newest"], _HEAD, f"{where}.newest")
    wrong += [] if odd is None else misfits(odd, {"before": _HEAD, "after": _HEAD}, f"{where}.contradiction")
    if wrong:
        return wrong
    heads = {} if shown["newest"] is None else {f"{where}.newest": shown["newest"]}
    heads |= {} if odd is None else {f"{where}.contradiction.{when}": head for when, head in odd.items()}
    found = [
        Fault(place, f"{name} has not signed this: {' or '.join(plain)} is false")
        for place, plain in heads.items()
        if not signed_head(plain).of(own.certificates(name))
    ]
    if odd is not None and not found and contradiction(head_of(odd["before"]), head_of(odd["after"])) is None:
        found.append(Fault(f"{where}.contradiction", "is none: one ledger can have both heads"))
    return found


def crossed_faults(reports: Mapping[str, Mapping[str, Any]], own: Federation) -> list[Fault]:
    """What is wrong between the heads that members have signed in their reports and those that they showed others."""
    found = []
    books: dict[str, str] = {}
    for name, report in reports.items():
        book = report["ledger"]["book"]
        if (other := books.setdefault(book, name)) != name:
            what = f"{other} names the same book: one ledger cannot pay for two members"
            found.append(Fault(f"reports.{name}.ledger.book", what))
    for witness, report in reports.items():
        for name, shown in report["ledgers"].items():
            if name not in reports:
                continue
            if (seen := shown["newest"]) is None:
                found.append(Fault(f"reports.{witness}.ledgers.{name}.newest", f"{name} showed {witness} no ledger"))
            elif not misfits(seen, _HEAD):
                found += _differs(reports[name]["ledger"], seen, name, witness)
            odd = shown["contradiction"]
            if odd is not None and not _shown_faults(shown, "", own, name):  # the witness is not to blame
                before, after = head_of(odd["before"]), head_of(odd["after"])
                what = f"{name} showed {contradiction(before, after)}"
                if before.book == after.book and before.rows != after.rows:  # signatures do not tell which came first
                    what = f"{witness} says that {what}; one of the two is to blame: ask {name} for its ledger"
                found.append(Fault(f"reports.{witness}.ledgers.{name}.contradiction", what))
    return found + _witnesses_disagree(reports)


def _witnesses_disagree(reports: Mapping[str, Mapping[str, Any]]) -> list[Fault]:
    """Two neighbours were shown two histories of one length."""
    found: list[Fault] = []
    first: dict[tuple[str, str, int], tuple[str, Head]] = {}
    for witness, report in reports.items():
        for name, shown in report["ledgers"].items():
            if shown["newest"] is None or misfits(shown["newest"], _HEAD):
                continue
            head = head_of(shown["newest"])
            other, known = first.setdefault((name, head.book, head.rows), (witness, head))
            if known != head:
                what = f"{other} was shown another head of as many rows, signed by {name}"
                found.append(Fault(f"reports.{witness}.ledgers.{name}.newest.head", what))
    return found


def _differs(own: Mapping[str, Any], seen: Mapping[str, Any], name: str, witness: str) -> list[Fault]:
    keys = ["population", "book", *(["head"] if own["rows"] == seen["rows"] else [])]
    return [
        Fault(f"reports.{name}.ledger.{key}", f"{witness} was shown another {key}, signed by {name}")
        for key in keys
        if own[key] != seen[key]
    ]


def book_faults(ledger: Ledger, reports: Mapping[str, Mapping[str, Any]], paid: Mapping[str, Paid]) -> list[str]:
    """What is wrong with a ledger that a member shows to an auditor. `paid` has what each member paid for."""
    owners = [name for name, report in reports.items() if report["ledger"] and report["ledger"]["book"] == ledger.book]
    if not owners:
        return ["no report names this ledger: whoever shows it has paid from another one"]
    (name, *_) = owners
    shown = {name: reports[name]["ledger"]}
    shown |= {
        witness: report["ledgers"][name]["newest"]
        for witness, report in reports.items()
        if name in report["ledgers"]  # shown by all: there would be a fault before
    }
    found = [
        f"it does not contain the head of {plain['rows']:,} rows in the report of {witness}: it is an old copy, or was "
        "rewritten"
        for witness, plain in shown.items()
        if not ledger.contains(head_of(plain))
    ]
    run, events = paid[name]
    there = {entry.tick: entry.event() for entry in ledger.entries() if (entry.kind, entry.run) == ("reserve", run)}
    if there != events:
        found.append(f"it has not paid for what {name} released in the run {run[:12]}")
    return found
