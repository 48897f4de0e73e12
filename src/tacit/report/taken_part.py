"""The data of a report of `tacit agent run`: one member's part in a run, as `tacit.report.pages.run` shows it.

All of it is in the federation file, in the signed report or in the ledger.
"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from tacit.agent.federation import TOTALS
from tacit.agent.guarantee import guaranteed
from tacit.agent.ledger_heads import contradiction
from tacit.agent.participant import Participant
from tacit.agent.robust_listening import listened
from tacit.privacy.accounting import delta_warning, rounded_up, totals
from tacit.privacy.ledger.statement import budget_of
from tacit.report.run_facts import common, records_used
from tacit.run.model import Model


def taken_part(participant: Participant, model: Model, files: dict[str, Path | None]) -> dict[str, Any]:
    """The data of a run that is finished. `files`: federation, report and ledger, for the commands that check it."""
    federation, training = participant.federation, model.training
    releases = [message for each in (participant, *participant.earlier()) for _, message, _ in each.store.releases()]
    return common(training, federation.setting.name) | {
        "title": f"{federation.title}: {participant.name}",
        "member": participant.name,
        "run": federation.run,
        "without": federation.absent,
        "exchange": federation.exchange,
        "records": records_used(model.schema, **_people(participant)),
        "rounds": federation.rounds,
        "messages": len(releases),
        "bytes": sum(map(len, releases)),
        "private": model.privacy["private"],
        "statement": model.privacy["statement"],
        **_cost(participant),
        "listening": listened(participant),
        "ledger": None if participant.ledger is None else budget_of(participant.ledger),
        "warnings": list(_warnings(participant)),
        "verify": _verify(files),
    }


def _people(participant: Participant) -> dict[str, Any]:
    """Whose records they are, as far as a ledger knows."""
    ledger, records = participant.ledger, participant.records
    if ledger is None:
        return {}
    return {"population": ledger.population, "cohorts": None if records is None else records.cohorts}


def _cost(participant: Participant) -> dict[str, Any]:
    federation, budget = participant.federation, participant.federation.spec.budget
    if budget is None:
        return {}
    spent = totals(Counter(participant.paid[1].values()), budget.delta).best
    return {"epsilon": rounded_up(spent), "delta": budget.delta} | guaranteed(federation.budgeted).as_plain()


def _warnings(participant: Participant) -> list[str]:
    federation, budget = participant.federation, participant.federation.spec.budget
    found = []
    if budget is not None:
        warning = delta_warning(budget.delta, max(member.rows for member in federation.members))
        found += [] if warning is None else [f"{warning}."]
    if participant.earlier() and federation.exchange != TOTALS:
        found.append("An earlier run was left because members were away. If it had begun, it is paid for, too.")
    return found + _ledgers(participant)


def _ledgers(participant: Participant) -> list[str]:
    """What is odd about the ledgers that neighbours have shown."""
    federation, found = participant.federation, []
    if participant.books is None:
        return []
    for j in federation.graph.neighbours(participant.me):
        name = federation.names[j]
        shown = participant.books.of_run(federation.certificate(name), federation.run)
        if "newest" not in shown:
            found.append(f"{name} has shown no ledger.")
        if "before" in shown:
            why = contradiction(shown["before"].head, shown["after"].head)
            found.append(f"{name} showed {why}. Ask {name} which of its ledgers is right.")
    return found


def _verify(files: dict[str, Path | None]) -> list[dict[str, str]]:
    federation, report, ledger = (files[key] for key in ("federation", "report", "ledger"))
    assert federation is not None
    assert report is not None
    steps = [
        ("Check that the file of the federation is the one that all members agreed on:", ["show", federation.name]),
        (
            "Check that the signed report is whole, and that what was planned was released, and no more:",
            ["verify", federation.name, report.name],
        ),
    ]
    found = [{"what": what, "command": shlex.join(["tacit", "federation", *words])} for what, words in steps]
    if ledger is not None:
        what = "The member itself: check that the ledger is whole, and shows this run:"
        found.append({"what": what, "command": shlex.join(["tacit", "ledger", "verify", ledger.name])})
    return found
