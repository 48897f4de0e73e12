"""The signed report of an agent: what it released, when, and at what cost.

A JSON file with two fields: `report`, and `signature`, the ECDSA signature (base64) over the canonical text of
`report`. The certificate that checks it is in the federation file. In the report,

- `releases` are the messages, by their hashes;
- `heard` has for each neighbour how many of its messages were taken in, and a digest of them (`tacit.agent.heard`):
  it must agree with the neighbour's `releases`;
- `without` names the members without whom the others went on;
- `before` is what was released in the runs that were left for that. Each run has its epsilon; the total, with other
  runs on the same records, is in the ledger. Where the members share their noise, the run goes on where the others
  were left, and the report's own epsilon is that of all of them together;
- `ledger` is the head of the ledger that paid (`tacit.privacy.ledger`). It tells a reader nothing, but the member
  cannot show an auditor another ledger later;
- `ledgers` are the heads that neighbours have shown and signed (`tacit.agent.ledger_heads`);
- `absences` of a run that was left are the signed statements that were the reason (`tacit.agent.membership.absence`,
  base64);
- `colluders` and `dropouts`, where the members share their noise, are those of the federation file: the costs hold
  against so many members together, while so many are away;
- `listening` says how the member listened, and for each neighbour at how many ticks its messages were moved, how far;
  where the members share their noise, at how many ticks the sum of all members was beyond its bounds and was not used.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent import documents
from tacit.agent.certificate.claims import FORMAT, checked, reserve
from tacit.agent.certificate.trained_model import digest
from tacit.agent.federation import ROWS, Federation
from tacit.agent.heard import MessageChain
from tacit.agent.ledger_heads import population_tag
from tacit.agent.participant import Participant
from tacit.agent.robust_listening import listened
from tacit.errors import InputError
from tacit.files import write_private
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import canonical


def write(participant: Participant, model: np.ndarray, path: str | os.PathLike[str]) -> None:
    """Writes the signed report of a run that is finished."""
    federation, ledger, budget = participant.federation, participant.ledger, participant.federation.spec.budget
    report: dict[str, Any] = {
        "format": FORMAT,
        "tacit": __version__,
        "title": federation.title,
        "member": participant.name,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": federation.rounds,
        **federation.spec.described,
        "private": budget is not None and participant.noise.private,
        "delta": None if budget is None else budget.delta,
        "ledger": None if ledger is None else _head(participant, ledger),
        "ledgers": _seen(participant),
        "model": digest(model),
        "listening": listened(participant),
        **reserve(federation),
        **_released(participant),
        "before": [_released(each) for each in participant.earlier()],
    }
    if budget is not None and federation.reserve is not None:
        # Of all that was paid for. How many releases there are in the end is decided by who drops out, and that by
        # members that have seen what was released before: only the cost of the whole plan holds then.
        report["epsilon"] = rounded_up(totals(Counter(participant.paid[1].values()), budget.delta).best)
    signature = base64.b64encode(participant.identity.sign(canonical(report))).decode()
    write_private(path, json.dumps({"report": report, "signature": signature}, indent=1) + "\n")


def _head(participant: Participant, ledger: Ledger) -> dict[str, Any]:
    """Which ledger paid, and its head: an auditor who gets the ledger finds it there (`Ledger.contains`)."""
    if participant.books is not None:
        participant.books.note_own(ledger)
    return {"population": population_tag(participant.identity, ledger.population), **ledger.head()._asdict()}


def _seen(participant: Participant) -> dict[str, dict[str, Any]]:
    """The heads that neighbours have shown and signed; of one whose heads contradict each other, both of them."""
    books, federation = participant.books, participant.federation
    found: dict[str, dict[str, Any]] = {}
    if books is None:
        return found
    for j in federation.graph.neighbours(participant.me):
        name = federation.names[j]
        seen = books.of_run(federation.certificate(name), federation.run)
        shown = {what: each.plain() for what, each in seen.items()}
        odd = {"before": shown["before"], "after": shown["after"]} if "before" in shown else None
        found[name] = {"newest": shown.get("newest"), "contradiction": odd}  # a member that lies may show none
    return found


def _released(participant: Participant) -> dict[str, Any]:
    """What was released in one run. Hashes of secret-shared rows are salted: nobody can check a guess with them."""
    budget, releases = participant.federation.spec.budget, participant.store.releases()
    salt = b"" if participant.federation.exchange == ROWS else participant.store.secret
    spent = None if budget is None else totals(Counter(event for _, _, event in releases), budget.delta)
    return {
        "run": participant.federation.run,
        "without": participant.federation.absent,
        "absences": [base64.b64encode(statement).decode() for statement in participant.store.absences()],
        "epsilon": None if spent is None else rounded_up(spent.best),
        "releases": [
            {"tick": tick, "sha256": sha256(salt + message).hexdigest(), "event": to_plain(event)}
            for tick, message, event in releases
        ],
        "heard": _heard(participant),
    }


def _heard(participant: Participant) -> dict[str, dict[str, Any]]:
    """How many messages of each neighbour were taken in, and their digest; nothing where rows are secret-shared."""
    federation, chains = participant.federation, participant.store.heard()
    near = [federation.names[j] for j in federation.graph.neighbours(participant.me)]
    found = {name: chains.get(name, MessageChain()) for name in near if federation.exchange == ROWS}
    return {name: {"messages": chain.messages, "digest": chain.digest.hex()} for name, chain in found.items()}


def verified(path: Path, federation: Federation) -> dict[str, Any]:
    """The report in a file. Refuses it unless its member has signed it, it is about this federation, and all that
    anybody can compute of it is right (`tacit.agent.certificate.claims`); the error names every field that is not."""
    signed = documents.read(path, "a report of an agent")
    _, found = checked(signed, federation)
    if found:
        raise InputError(f"{path} is refused: {'; '.join(map(str, found))}")
    report: dict[str, Any] = signed["report"]
    return report
