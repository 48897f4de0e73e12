"""What a certificate proves, who has signed it, and what must be believed: in words, and as data."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tacit.agent.certificate.claims import BELIEVED
from tacit.agent.certificate.examination import Examined, planned_costs
from tacit.agent.federation import ROWS, SUMS, TOTALS, Federation
from tacit.agent.guarantee import guaranteed, statement
from tacit.agent.identity import fingerprint
from tacit.privacy.accounting import rounded_up


def as_plain(found: Examined) -> dict[str, Any]:
    """Everything, for programs. Nothing is called proved if there is a fault."""
    own, valid = found.federation, not found.faults
    plain: dict[str, Any] = {
        "valid": valid,
        "faults": [fault._asdict() for fault in found.faults],
        "run": None if own is None else own.run,
        "title": None if own is None else own.title,
        "method": None if own is None else own.setting.name,
        "rounds": None if own is None else own.rounds,
        "exchange": None if own is None else own.exchange,
        "without": [] if own is None else own.absent,
        "private": own is not None and valid and own.private,
        "epsilon": None,
        "delta": None,
        "colluders": None,
        "dropouts": None,
        "coalitions": [],
        "members": [],
        "proved": [],
        "signed_by": [],
        "believed": [],
    }
    if own is None or not valid:
        return plain
    if own.private:
        total = guaranteed(own.budgeted)
        plain |= {"epsilon": rounded_up(total.epsilon), "delta": total.delta, **total.as_plain()}
    return plain | {
        "members": _members(found, own),
        "proved": proved(found, own),
        "signed_by": signed_by(found, own),
        "believed": believed(found, own),
    }


def proved(found: Examined, own: Federation) -> list[str]:
    """What follows from the signatures and from the federation file. For a certificate without faults."""
    said = [f"All {len(own.names)} members of the run {own.run[:16]} have signed a report: {', '.join(own.names)}."]
    if own.absent:
        said.append(
            f"They went on without {', '.join(own.absent)}: a quorum of its neighbours signed that it was away."
        )
    counts = {name: len(report["releases"]) for name, report in found.reports.items()}
    said.append(
        f"By the signed reports, every member released the messages that were planned, no more and no less: "
        f"{_listed(counts)}."
    )
    if earlier := _earlier(found):
        said.append(f"Before that, in runs that were left, they released parts of the plan: {_listed(earlier)}.")
    if own.exchange == ROWS:
        heard = [each["messages"] for report in found.reports.values() for each in report["heard"].values()]
        said.append(
            f"What was sent is what was heard: {sum(heard):,} messages between {len(heard) // 2} pairs of neighbours, "
            "with the same digests at both ends."
        )
    said.append(_privacy(own))
    models = Counter(report["model"] for report in found.reports.values())
    same, times = models.most_common(1)[0]
    if len(models) == 1:
        said.append(f"All {times} members signed the same model.")
    elif times > 1:
        owners = [name for name, report in found.reports.items() if report["model"] == same]
        said.append(f"{times} of {len(own.names)} members signed exactly the same model: {', '.join(owners)}.")
    said += _ledgers(found)
    if found.model is not None:
        member, digest = found.model["training"]["member"], found.reports[found.model["training"]["member"]]["model"]
        said.append(
            f"The model file is the model that {member} signed: its weights have the digest {digest[:16]}, and all "
            f"else in it follows from the federation file. {_who_signed(models[digest], len(own.names))}"
        )
    return said


def _who_signed(signers: int, members: int) -> str:
    if signers == members:
        return "All members signed the same one."
    if members - signers == 1:
        return "The other member signed a model of its own."
    return f"The {members - signers} others signed models of their own."


def _ledgers(found: Examined) -> list[str]:
    """What the ledgers prove that members have shown."""
    owners = [name for name, book in _books(found).items() if book in found.ledgers]
    what = "adds up, has paid for this run, and is the one that the neighbours were shown."
    return [f"The ledger of {name} {what}" for name in owners]


def _books(found: Examined) -> dict[str, str]:
    """Which ledger each report names."""
    return {name: report["ledger"]["book"] for name, report in found.reports.items() if report["ledger"]}


def signed_by(found: Examined, own: Federation) -> list[dict[str, str]]:
    """The members, with the fingerprints of their certificates and the software that they name."""
    return [
        {"name": member.name, "fingerprint": fingerprint(found.signers[member.name]), "tacit": report["tacit"]}
        for member in own.members
        if (report := found.reports.get(member.name)) is not None
    ]


def believed(found: Examined, own: Federation) -> list[str]:
    """What no reader can compute."""
    said = [
        "Each member ran the software that it names, on its real records.",
        "The certificates in the federation file belong to these organisations: compare the fingerprints with them.",
    ]
    said += [
        f"Nobody but {name} has had the keys that it has renewed since: a report can be signed with any of them."
        for name in own.names
        if len(own.certificates(name)) > 1
    ]
    computed = set() if own.private else {"private", "ledger"}  # of exact values
    computed |= set() if found.model is None else {"model"}
    computed |= {"ledger"} if set(_books(found).values()) <= set(found.ledgers) else set()
    said += [text for name, text in BELIEVED.items() if name not in computed]
    said.append(
        "No two neighbours lie together about what passed between them."
        if own.exchange == ROWS
        else "What was heard is what was sent: rows were secret-shared, so that nobody can compare the two."
    )
    if own.exchange == SUMS:
        said.append(
            "The releases have the digests that are listed: these are salted, and only the member can check them."
        )
    if own.absent:
        said.append(f"Nothing in here is about what {', '.join(own.absent)} sent before the others went on.")
    if _earlier(found) and own.exchange != TOTALS:
        said.append("The runs that were left cost something, too. Only the members' ledgers have the total.")
    if _earlier(found) and own.exchange == ROWS:
        said.append("In runs that were left, the last messages were sent as listed: nobody may have taken them in.")
    return said


def _privacy(own: Federation) -> str:
    if not own.private:
        return "No budget was agreed on: nothing in this run is private."
    costs = {name: cost["epsilon"] for name, cost in planned_costs(own).items()}
    return (
        f"If all did as they signed, every record of every member is protected in this run by "
        f"{statement(own.budgeted)}. This is computed again "
        f"from the federation file. Epsilon by member: {_listed(costs)}."
    )


def _earlier(found: Examined) -> dict[str, int]:
    """How many messages each member released in runs that were left, if it did."""
    counts = {name: sum(len(part["releases"]) for part in report["before"]) for name, report in found.reports.items()}
    return {name: count for name, count in counts.items() if count}


def _members(found: Examined, own: Federation) -> list[dict[str, Any]]:
    costs = planned_costs(own)
    return [
        {
            "name": member.name,
            "rows": member.rows,
            "releases": len(report["releases"]),
            "releases_in_runs_that_were_left": sum(len(part["releases"]) for part in report["before"]),
            "epsilon": costs[member.name]["epsilon"],
            "delta": costs[member.name]["delta"],
            **{key: report[key] for key in ("private", "model", "ledger", "written")},
        }
        for member in own.members
        if (report := found.reports.get(member.name)) is not None
    ]


def _listed(numbers: dict[str, Any]) -> str:
    """
    >>> _listed({"alder": 65, "birch": 65}), _listed({"alder": 2.0, "birch": 1.5})
    ('65 each', 'alder 2, birch 1.5')
    """
    written = {name: f"{n:,}" if isinstance(n, int) else f"{n:g}" for name, n in numbers.items()}
    if len(written) > 1 and len(set(written.values())) == 1:
        return f"{next(iter(written.values()))} each"
    return ", ".join(f"{name} {number}" for name, number in written.items())
