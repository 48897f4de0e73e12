"""What a report claims, checked against everything that anybody can compute from the federation file.

A signature proves who has said something, not that it is true. So each field of a report is one of three things:

- it follows from the federation file, and is compared with it: title, spec, rounds, epsilon, delta, the ticks and the
  events of the releases, the runs that were left, how members listen, ...
- it must agree with other members' reports (`tacit.agent.certificate.examination`): the digests of messages, at both
  ends;
- only the member can know it (`BELIEVED`): then it must at least have the right form.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from tacit import __version__
from tacit.agent.certificate.ledger_claims import SHAPES, ledger_faults
from tacit.agent.documents import (
    ANY,
    BASE64,
    COUNT,
    DIGEST,
    LENGTH,
    TEXT,
    TIME,
    TRUTH,
    Fault,
    Named,
    decoded,
    differences,
    inside,
    is_time,
    misfits,
    printable,
    shown,
    under,
)
from tacit.agent.federation import ROWS, TOTALS, Federation
from tacit.agent.heard import MessageChain
from tacit.agent.membership.absence import check_left
from tacit.agent.participant import reserved
from tacit.agent.robust_listening import named
from tacit.agent.transport.wire import BadMessage
from tacit.errors import TacitError
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.events import Event, to_plain
from tacit.privacy.ledger.entries import canonical

FORMAT = "tacit-report"
# Fields that nobody but the member can know, and what a reader therefore has to believe.
BELIEVED = {
    "private": "Each member drew fresh noise, as its report says.",
    "ledger": "Ledgers that are not named above have paid, as the reports say. These name them by salted digests: give "
    "--ledger to compare a ledger with its digest.",
    "model": "The reports name digests of models: give --model to compare a model file with them.",
    "written": "Each report was written at the time that it says.",
    "listening.moved": "Neighbours' messages were moved as often and as far as the reports say.",
}
_FILE = "by the federation file"


# What must be so before anything else can be checked. A text that should be a digest or a time hides no other fault.
_PART = {
    "run": TEXT,
    "without": [TEXT],
    "absences": [BASE64],
    "epsilon": ANY,
    "releases": [{"tick": COUNT, "sha256": TEXT, "event": ANY}],
    "heard": Named({"messages": COUNT, "digest": TEXT}),
}
_REPORT = {
    **dict.fromkeys(("format", "tacit", "title", "rounds", "spec", "spec digest", "delta", "ledger", "ledgers"), ANY),
    "member": TEXT,
    "written": TEXT,
    "private": TRUTH,
    "model": TEXT,
    "listening": {"radius": ANY, "robust": ANY, "moved": Named({"ticks": COUNT, "mean": LENGTH, "largest": LENGTH})},
    **_PART,
    "before": [_PART],
}


_OWN = {"model": DIGEST, "written": TIME}  # what only the member knows must at least have the right form


class RunClaims(NamedTuple):
    """What a report says about one run: the one that was finished, or one that was left."""

    where: str  # in the report: "" or "before.0"
    federation: Federation  # of that run
    plan: dict[int, Event]  # of the member
    plain: dict[str, Any]
    certificate: str  # with which the report is signed

    @property
    def ticks(self) -> list[int]:
        """At which the member released something, by its report."""
        return [release["tick"] for release in self.plain["releases"]]


def reserve(federation: Federation) -> dict[str, int]:
    """Against whom the costs hold, where the members share their noise."""
    found = (federation.agreed or federation).reserve
    return {} if found is None else dict(found._asdict())


def _parts_of(report: dict[str, Any], agreed: Federation, certificate: str) -> tuple[list[RunClaims], list[Fault]]:
    """The runs of a report, and what is wrong with them. If something is, the rest of the report cannot be checked."""
    parts, found, member = [], [], report["member"]
    for where, plain in [("", report), *((f"before.{k}", each) for k, each in enumerate(report["before"]))]:
        without, run = plain["without"], plain["run"]
        if unknown := [name for name in without if name not in agreed.names]:
            found.append(Fault(inside(where, "without"), f"{shown(unknown[0])} is not a member"))
            continue
        if without and not agreed.go_on_after:
            what = f"is about a run without {', '.join(without)}, which the federation file does not allow"
            found.append(Fault(inside(where, "without"), what))
            continue
        try:
            own = agreed.without(without) if without else agreed
        except TacitError as error:
            found.append(Fault(inside(where, "without"), printable(error)))
            continue
        found += differences(without, own.absent, inside(where, "without"), "sorted, each name once,")
        if run != own.run:
            what = f"is about the run {shown(run[:12])}, the federation file about {own.run[:12]}"
            found.append(Fault(inside(where, "run"), what))
        if member not in own.names:
            found.append(Fault(inside(where, "without"), f"{member} signs, but the others went on without it"))
            continue
        parts.append(RunClaims(where, own, own.plans[own.names.index(member)], plain, certificate))
    return parts, found


def checked(signed: Any, agreed: Federation) -> tuple[list[RunClaims], list[Fault]]:
    """The runs of a report, the one that was finished first; and everything in the report, with its signature, that its
    form, its member's key or the federation file refutes. There are no runs if it cannot be read as a report."""
    if found := misfits(signed, {"report": ANY, "signature": BASE64}):
        return [], found
    report: dict[str, Any] = signed["report"]
    shapes = _REPORT | dict.fromkeys(reserve(agreed), ANY) | (SHAPES if agreed.private else {})
    if found := misfits(report, shapes):
        return [], found
    member = report["member"]
    if member not in agreed.names:
        return [], [Fault("member", f"{shown(member)} is not a member")]
    certificate = agreed.signer(member, canonical(report), decoded(signed["signature"]) or b"")
    if certificate is None:
        renewed = f"or {member} has renewed its key: then give a federation file that has the renewal"
        found.append(Fault("signature", f"the report was changed, or {member} has not signed it, {renewed}"))
    elif is_time(report["written"]):
        written = datetime.fromisoformat(report["written"])
        if certificate not in (agreed.certificates(member)[-1], *agreed.accepted(member, written)):
            found.append(Fault("signature", f"{member} had renewed this certificate when the report was written"))
    parts, wrong = _parts_of(report, agreed, certificate or "")
    if wrong:
        return [], found + wrong
    for part in parts:
        found += under(part.where, [*_release_faults(part), *_heard_faults(part, member)])
    if agreed.exchange == TOTALS and not _goes_on_as_planned([part.ticks for part in parts], agreed):
        what = f"{member} did not release what was planned: every round, and no more of them twice than had drop-outs"
        found.append(Fault("releases", what))
    found += _claim_faults(report, parts)
    found += _listening_faults(report, parts[0])
    found += ledger_faults(report, parts[0].federation, sum(len(part.ticks) for part in parts))
    return parts, found + _absence_faults(parts, agreed)


def _release_faults(part: RunClaims) -> list[Fault]:
    """Whether the member released its plan. In a run that was left, the plan up to some tick; and where a run goes on
    where another was left, a piece of the plan."""
    plan = list(part.plan.items())
    found = misfits(part.plain["releases"], [{"tick": ANY, "sha256": DIGEST, "event": ANY}], "releases")
    said = [(release["tick"], release["event"]) for release in part.plain["releases"]]
    if part.federation.exchange == TOTALS:
        first = said[0][0] if said else 0
        wanted = plan[first : first + len(said)]
    else:
        wanted = plan[: len(said)] if part.where else plan
    for k, ((tick, event), (right, cost)) in enumerate(zip(said, wanted, strict=False)):
        if tick != right:
            what = f"claims that tick is {shown(tick)}; the next release of the plan is that of tick {right}"
            return [*found, Fault(f"releases.{k}.tick", what)]  # what follows is shifted
        found += differences(event, to_plain(cost), f"releases.{k}.event", _FILE)
    if len(said) != len(wanted):
        what = f"{len(said)} messages were released, but {len(wanted)} were planned; the plan has the ticks"
        found.append(Fault("releases", f"{what} {_ranges([tick for tick, _ in wanted])}"))
    return found


def _goes_on_as_planned(released: list[list[int]], agreed: Federation) -> bool:
    """Whether every tick was released, where a run goes on where the one before was left: at the last tick that was
    said, which is said once more, or after it (`tacit.agent.membership.dropout`). The last run comes first."""
    starts = {0}
    for ticks in reversed(released):
        if ticks:
            first, last = ticks[0], ticks[-1]
            if first not in starts or len(ticks) != last + 1 - first or ticks != list(range(first, last + 1)):
                return False
            starts = {last, last + 1}
    return agreed.rounds in starts and sum(map(len, released)) <= agreed.rounds + agreed.dropouts


def _heard_faults(part: RunClaims, member: str) -> list[Fault]:
    """Whether the member heard each neighbour as often as the schedule says; in a run that was left, no more often.
    What it heard is compared with the neighbours' reports."""
    own, heard = part.federation, part.plain["heard"]
    near = [own.names[j] for j in own.graph.neighbours(own.names.index(member))] if own.exchange == ROWS else []
    found = misfits(heard, dict.fromkeys(near, ANY), "heard")
    for name in near:
        if name not in heard:
            continue
        where, count, most = f"heard.{name}", heard[name]["messages"], len(own.hearings.get((member, name), []))
        if count > most or (count < most and not part.where):
            what = f"claims that messages is {count}; by the schedule {member} hears {name} {most} times"
            found.append(Fault(f"{where}.messages", what))
        if count == 0:
            found += differences(heard[name]["digest"], MessageChain().digest.hex(), f"{where}.digest", "of no message")
        else:
            found += misfits(heard[name]["digest"], DIGEST, f"{where}.digest")
    return found


def _claim_faults(report: dict[str, Any], parts: list[RunClaims]) -> list[Fault]:
    """What follows from the federation file: above all the cost."""
    own, member = parts[0].federation, report["member"]
    agreed, budget = own.agreed or own, own.spec.budget
    right: dict[str, Any] = {"format": FORMAT, "tacit": __version__, "title": own.title, "rounds": own.rounds}
    right |= own.spec.described | {"delta": None if budget is None else budget.delta, **reserve(agreed)}
    right |= {"private": False} if budget is None else {}
    found = differences({key: report[key] for key in right}, right, "", _FILE)
    found += misfits({key: report[key] for key in _OWN}, _OWN)
    for part in parts:
        cost = None
        if budget is not None:
            events = [part.plan[tick] for tick in part.ticks if tick in part.plan] if part.where else part.plan.values()
            if own.reserve is not None and not part.where:  # of all that was paid for, whoever drops out
                events = reserved(agreed, agreed.names.index(member)).values()
            cost = rounded_up(totals(Counter(events), budget.delta).best)
        found += differences(part.plain["epsilon"], cost, inside(part.where, "epsilon"), _FILE)
    return found


def _listening_faults(report: dict[str, Any], part: RunClaims) -> list[Fault]:
    own, listening, member = part.federation, report["listening"], report["member"]
    right = {"radius": own.spec.radius, "robust": own.spec.trust.robust}
    found = differences({key: listening[key] for key in right}, right, "listening", _FILE)
    known = named(own, own.names.index(member))
    for name, moved in listening["moved"].items():
        where = inside("listening.moved", name)
        if name not in known:
            found.append(Fault(where, f"{member} does not hear this neighbour"))
        elif not 1 <= moved["ticks"] <= own.rounds:
            found.append(Fault(f"{where}.ticks", f"there are {own.rounds} ticks, not {shown(moved['ticks'])}"))
        elif moved["mean"] > moved["largest"] * (1 + 1e-9):  # a mean is rounded
            found.append(Fault(f"{where}.mean", "is larger than the largest"))
    return found


def _absence_faults(parts: list[RunClaims], agreed: Federation) -> list[Fault]:
    """Whether each run that was left had to be left."""
    found = differences(parts[0].plain["absences"], [], "absences", "of a run that was finished")
    for after, before in pairwise(parts):
        statements = [decoded(each) or b"" for each in before.plain["absences"]]
        where = inside(before.where, "absences")
        if not set(before.federation.absent) < set(after.federation.absent):
            found.append(Fault(inside(before.where, "without"), "the run that followed must be without more members"))
        if len(set(statements)) < len(statements):
            found.append(Fault(where, "a statement is there twice"))
        try:
            check_left(agreed, before.federation.absent, after.federation.absent, statements)
        except BadMessage as error:
            found.append(Fault(where, f"do not prove that this run had to be left: {error}"))
    if parts[-1].federation.absent:
        what = f"nothing proves that the run without {', '.join(parts[-1].federation.absent)} had to be left for"
        found.append(Fault(inside(parts[-1].where, "without"), f"{what}: the run with all members is missing"))
    return found


def _ranges(ticks: list[int]) -> str:
    """
    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    pieces: list[list[int]] = []
    for tick in ticks:
        if pieces and tick == pieces[-1][-1] + 1:
            pieces[-1][1:] = [tick]
        else:
            pieces.append([tick])
    return ", ".join("-".join(map(str, piece)) for piece in pieces)
