"""The signed report of an agent: what it released, when, and at what cost.

A JSON file with two fields: `report`, and `signature`, the ECDSA signature (base64) over the canonical text of
`report`. The certificate that checks it is in the federation file. In the report,

- `releases` are the messages, by their hashes;
- `without` names the members without whom the others went on;
- `before` is what was released in the runs that were left for that. Each run has its epsilon; the total, with other
  runs on the same records, is in the ledger. Where the members share their noise, the run goes on where the others
  were left, and the report's own epsilon is that of all of them together;
- `ledger` is the head of the ledger that paid (`tacit.privacy.ledger`). It tells a reader nothing, but the member
  cannot show an auditor another ledger later;
- `ledgers` are the heads that neighbours have shown and signed (`tacit.agent.books`);
- `absences` of a run that was left are the signed statements that were the reason (`tacit.agent.absence`, base64);
- `colluders` and `dropouts`, where the members share their noise, are those of the federation file: the costs hold
  against so many members together, while so many are away;
- `listening` says how the member listened, and for each neighbour at how many ticks its messages were moved, how far.
"""

from __future__ import annotations

import base64
import json
import os
from binascii import Error as NotBase64
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent.absence import check_left
from tacit.agent.books import population_tag
from tacit.agent.federation import ROWS, TOTALS, Federation
from tacit.agent.identity import signed_by
from tacit.agent.method import PrivateMethod
from tacit.agent.participant import Participant, planned, reserved
from tacit.agent.reading import listened
from tacit.agent.wire import BadMessage
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import replacing
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.events import from_plain, to_plain
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import canonical

_FORMAT = "tacit-report"


def write(participant: Participant, model: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Writes the signed report of a run that is finished."""
    federation, ledger, method = participant.federation, participant.ledger, participant.federation.method
    report: dict[str, Any] = {
        "format": _FORMAT,
        "tacit": __version__,
        "title": federation.title,
        "member": participant.name,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": federation.rounds,
        "private": isinstance(method, PrivateMethod) and participant.noise.private,
        "delta": method.delta if isinstance(method, PrivateMethod) else None,
        "ledger": None if ledger is None else _head(participant, ledger),
        "ledgers": _seen(participant),
        "model": sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest(),
        "listening": listened(participant),
        **_reserve(federation),
        **_released(participant),
        "before": [_released(each) for each in participant.earlier()],
    }
    if isinstance(method, PrivateMethod) and method.shared:
        # Of all that was paid for. How many releases there are in the end is decided by who drops out, and that by
        # members that have seen what was released before: only the cost of the whole plan holds then.
        report["epsilon"] = rounded_up(totals(Counter(participant.paid[1].values()), method.delta).best)
    signature = base64.b64encode(participant.identity.sign(canonical(report))).decode()
    with replacing(path) as draft:
        draft.write_text(json.dumps({"report": report, "signature": signature}, indent=1) + "\n", encoding="utf-8")


def _reserve(federation: Federation) -> dict[str, int]:
    """Against whom the costs hold, where the members share their noise."""
    return dict((federation.agreed or federation).reserve._asdict()) if federation.exchange == TOTALS else {}


def _head(participant: Participant, ledger: Ledger) -> dict[str, Any]:
    """Which ledger paid, and its head: an auditor who gets the ledger finds it there (`Ledger.contains`)."""
    if participant.books is not None:
        participant.books.note_own(ledger)
    return {"population": population_tag(participant.identity, ledger.population), **ledger.head()._asdict()}


def _seen(participant: Participant) -> dict[str, list[dict[str, Any]]]:
    """The heads that neighbours have shown and signed; of one whose heads contradict each other, all of them."""
    books, federation = participant.books, participant.federation
    if books is None:
        return {}
    names = [federation.names[j] for j in federation.graph.neighbours(participant.me)]
    found = {
        name: books.of_run(federation.members[federation.names.index(name)].certificate, federation.run)
        for name in names
    }
    return {name: [each.plain() for each in heads] for name, heads in found.items()}


def _released(participant: Participant) -> dict[str, Any]:
    """What was released in one run. Hashes of secret-shared rows are salted: nobody can check a guess with them."""
    method, releases = participant.federation.method, participant.store.releases()
    salt = b"" if participant.federation.exchange == ROWS else participant.store.secret
    spent = (
        totals(Counter(event for _, _, event in releases), method.delta) if isinstance(method, PrivateMethod) else None
    )
    return {
        "run": participant.federation.run,
        "without": participant.federation.absent,
        "absences": [base64.b64encode(statement).decode() for statement in participant.store.absences()],
        "epsilon": None if spent is None else rounded_up(spent.best),
        "releases": [
            {"tick": tick, "sha256": sha256(salt + message).hexdigest(), "event": to_plain(event)}
            for tick, message, event in releases
        ],
    }


def _tick(number: object) -> int:
    if type(number) is not int:
        raise TypeError
    return number


def _name(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError
    return text


Released = list[tuple[int, dict[str, Any]]]  # ticks and events


def _as_planned(released: list[Released], plans: list[Released], dropouts: int) -> bool:
    """Whether a member released the whole plan of its last run, which comes first, and no more in those before."""
    return all(
        said == (plan[: len(said)] if k else plan) for k, (said, plan) in enumerate(zip(released, plans, strict=True))
    )


def _goes_on_as_planned(released: list[Released], plans: list[Released], dropouts: int) -> bool:
    """The same where a run goes on where the one before was left: at the last tick that was said, which is said once
    more, or after it (`tacit.agent.dropout`)."""
    starts, rounds = {0}, len(plans[0])
    for said, plan in zip(reversed(released), reversed(plans), strict=True):
        if said:
            first, last = said[0][0], said[-1][0]
            if first not in starts or said != plan[first : last + 1]:
                return False
            starts = {last, last + 1}
    return rounds in starts and sum(map(len, released)) <= rounds + dropouts


def _check_claims(path: Path, report: dict[str, Any], federation: Federation, rounds: int, plan: Released) -> None:
    """Refuses what a report claims and anybody can compute from the federation file: above all the cost."""
    method, member = federation.method, report["member"]
    wanted: dict[str, Any] = {"title": federation.title, "rounds": rounds, "delta": None, "epsilon": None}
    if isinstance(method, PrivateMethod):
        paid = Counter(from_plain(event) for _, event in plan)
        if method.shared:
            paid = Counter(reserved(federation, federation.names.index(member)).values())
        wanted |= {"delta": method.delta, "epsilon": rounded_up(totals(paid, method.delta).best)}
    for key, value in wanted.items():
        claimed = report.get(key)
        if claimed != value or type(claimed) is bool:
            raise InputError(f"{path} claims that {key} is {claimed!r}; by the federation file it is {value!r}")


def verified(path: Path, federation: Federation) -> dict[str, Any]:
    """The report in a file. Refuses it unless its member has signed it, it is about this federation, and the member
    released what was planned; in runs that were left, no more than that."""
    try:
        plain = json.loads(read_text(path))
        report: dict[str, Any] = plain["report"]
        signature, member = base64.b64decode(plain["signature"]), report["member"]
        parts = [
            (
                part["run"],
                list(map(_name, part["without"])),
                [(_tick(release["tick"]), release["event"]) for release in part["releases"]],
                list(map(base64.b64decode, part["absences"])),
            )
            for part in (report, *report["before"])
        ]
    except (ValueError, KeyError, TypeError, NotBase64):
        raise InputError(f"{path} is not a report of an agent") from None
    if member not in federation.names:
        raise InputError(f"{path} is by {member!r}, which is not a member")
    certificate = federation.members[federation.names.index(member)].certificate
    if not signed_by(certificate, canonical(report), signature):
        raise InputError(f"{path} was changed, or {member} has not signed it")
    if {key: report[key] for key in ("colluders", "dropouts") if key in report} != _reserve(federation):
        raise InputError(f"{path} names other colluders or dropouts than the federation file")
    plans, rounds = [], []
    for run, without, _, _ in parts:
        if without and not federation.go_on_after:
            raise InputError(
                f"{path} is about a run without {', '.join(without)}, which the federation file does not allow"
            )
        own = federation.without(without) if without else federation
        if run != own.run:
            raise InputError(f"{path} is about the run {str(run)[:12]}, the federation file about {own.run[:12]}")
        if member not in own.names:
            raise InputError(f"{path} is by {member!r}, but the others went on without it")
        rounds.append(own.rounds)
        plans.append([(tick, to_plain(event)) for tick, event in planned(own, own.names.index(member)).items()])
    as_planned = _goes_on_as_planned if federation.exchange == TOTALS else _as_planned
    if not as_planned([released for _, _, released, _ in parts], plans, federation.dropouts):
        raise InputError(f"{path} is signed, but {member} did not release what was planned")
    _check_claims(path, report, federation, rounds[0], plans[0])
    try:
        for (_, after, _, _), (_, before, _, absences) in pairwise([*parts, ("", [], [], [])]):
            check_left(federation, before, after, absences)
    except BadMessage as error:
        raise InputError(f"{path} does not prove that {member} had to leave a run: {error}") from None
    return report
