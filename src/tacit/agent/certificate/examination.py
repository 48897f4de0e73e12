"""The certificate of a finished run: one JSON document that anybody can check, without data and without a connection.

    format      "tacit-certificate"
    version     2
    run         the name of the run that was finished
    federation  the federation file, as `Federation.to_toml` writes it: without comments
    spec        the run as data, with its graph; and "spec digest", its SHA-256
    plan        for each member how many releases are paid for, and their epsilon and delta
    reports     the signed reports of all members of the run (`tacit.agent.certificate.signed_report`)

It is not signed itself. Everything in it is either signed by a member or computed again by the reader: there is no
field for anything else. What members without whom the others went on have to say is not in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tacit.agent.certificate.claims import RunClaims, checked
from tacit.agent.certificate.ledger_claims import Paid, book_faults, crossed_faults
from tacit.agent.certificate.trained_model import model_faults
from tacit.agent.documents import ANY, DIGEST, TEXT, Fault, differences, misfits, printable, shown, under
from tacit.agent.federation import ROWS, TOTALS, Federation
from tacit.agent.heard import MessageChain
from tacit.agent.participant import reserved
from tacit.errors import TacitError
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.ledger import Ledger

FORMAT, VERSION = "tacit-certificate", 2
_OLD = "it was written by an older tacit: verify it with the version that wrote it"
_SPEC = ("spec", "spec digest")
_SHAPE = {"format": ANY, "version": ANY, "run": TEXT, "federation": TEXT, "plan": ANY, "reports": [ANY]}
_SHAPE |= dict.fromkeys(_SPEC, ANY)


@dataclass(frozen=True)
class Examined:
    """What a reader has found in a certificate. If there are faults, the rest is only as good as they let it be."""

    faults: list[Fault]
    federation: Federation | None = None  # of the run that was finished
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)  # by member
    signers: dict[str, str] = field(default_factory=dict)  # by member: the certificate with which its report is signed
    model: Any = None  # the content of the model file that was compared, if one was
    ledgers: tuple[str, ...] = ()  # the books that were compared


@lru_cache(maxsize=2)
def _agreed(text: str) -> Federation:
    """The federation in a file that has a plan; cached, because a plan of many ticks takes seconds."""
    federation = Federation.from_toml(text, "the file")
    _ = federation.plans
    return federation


def collected(federation: Federation, reports: Sequence[Any]) -> dict[str, Any]:
    """The certificate of these signed reports; `examined` says what is wrong with them, if something is."""
    agreed = _agreed(federation.to_toml())
    runs = [parts[0].federation for parts, _ in (checked(signed, agreed) for signed in reports) if parts]
    own = runs[0] if runs else agreed
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": own.run,
        "federation": agreed.to_toml(),
        **own.spec.described,
        "plan": planned_costs(own),
        "reports": sorted(reports, key=lambda signed: str(_claimed_member(signed))),
    }


def paid_by(federation: Federation) -> dict[str, Paid]:
    """For each member of a run, under which run its ledger has paid, and for which events."""
    basis = federation.budgeted
    return {name: (basis.run, reserved(basis, basis.names.index(name))) for name in federation.names}


def planned_costs(federation: Federation) -> dict[str, dict[str, Any]]:
    """For each member of a run, how many releases are paid for, and what they cost together."""
    budget, found = federation.spec.budget, {}
    for name, (_, events) in paid_by(federation).items():
        cost: dict[str, Any] = {"releases": len(events), "epsilon": None, "delta": None}
        if budget is not None:
            spent = totals(Counter(events.values()), budget.delta).best
            cost |= {"epsilon": rounded_up(spent), "delta": budget.delta}
        found[name] = cost
    return found


def examined(document: Any, model: Any = None, ledgers: Mapping[str, Ledger] | None = None) -> Examined:
    """Computes everything in a certificate again, and compares. `model` is the content of a model file, `ledgers` are
    those that members show, by what to call them."""
    if isinstance(document, dict) and document.get("format") != FORMAT:
        return Examined([Fault("format", f"is not {FORMAT!r}, so this is no certificate")])
    if isinstance(document, dict) and document.get("version") == 1:
        return Examined([Fault("version", _OLD)])
    if found := misfits(document, _SHAPE):
        return Examined(found)
    try:
        agreed = _agreed(document["federation"])
    except TacitError as error:
        return Examined([Fault("federation", printable(error))])
    found = differences({"version": document["version"]}, {"version": VERSION}, "", "of this tacit")
    if document["federation"] != agreed.to_toml():
        found.append(Fault("federation", "must be written as tacit writes it, without comments or other changes"))
    parts, wrong = _read_reports(document["reports"], agreed)
    found += wrong
    runs = {own.run: own for own in (each[0].federation for each in parts.values())}
    if not runs:
        return Examined([*found, Fault("reports", "none of them can be read as the report of a member")])
    if document["run"] not in runs:
        known = " or ".join(run[:12] for run in runs)
        found.append(Fault("run", f"claims that run is {shown(document['run'][:12])}; by the reports it is {known}"))
    own = runs.get(document["run"], next(iter(runs.values())))
    found += _who_is_there(parts, own)
    found += differences({key: document[key] for key in _SPEC}, own.spec.described, "", "by the federation file")
    found += differences(document["plan"], planned_costs(own), "plan", "by the federation file")
    present = {name: each for name, each in parts.items() if each[0].federation.run == own.run}
    found += _cross_faults(present, own)
    reports = {name: each[0].plain for name, each in present.items()}
    if model is not None:
        digests = {name: report["model"] for name, report in reports.items()}
        found += under("model", model_faults(model, own, digests))
    if ledgers and not found:
        paid = paid_by(own)
        found += [Fault(name, what) for name, each in ledgers.items() for what in book_faults(each, reports, paid)]
    signers = {name: each[0].certificate for name, each in present.items()}
    return Examined(found, own, reports, signers, model, tuple(each.book for each in (ledgers or {}).values()))


def _claimed_member(signed: Any) -> Any:
    report = signed.get("report") if isinstance(signed, dict) else None
    return report.get("member") if isinstance(report, dict) else None


def _read_reports(reports: Sequence[Any], agreed: Federation) -> tuple[dict[str, list[RunClaims]], list[Fault]]:
    """The runs of each report by member, and what is wrong with the reports one by one."""
    parts: dict[str, list[RunClaims]] = {}
    found = []
    for k, signed in enumerate(reports):
        member = _claimed_member(signed)
        known = isinstance(member, str) and member in agreed.names
        runs, wrong = checked(signed, agreed)
        found += under(f"reports.{member if known else k}", wrong)
        if known and member in parts:
            found.append(Fault(f"reports.{k}.member", f"there is a report by {member} already"))
        elif runs:
            parts[member] = runs
    return parts, found


def _who_is_there(parts: Mapping[str, list[RunClaims]], own: Federation) -> list[Fault]:
    """Every member of the run must have a report of it."""
    found = [Fault("reports", f"there is no report by {name}") for name in own.names if name not in parts]
    for name, each in parts.items():
        if (run := each[0].federation.run) != own.run:
            what = f"is about the run {run[:12]}, the certificate about {own.run[:12]}"
            found.append(Fault(f"reports.{name}.run", what))
    return found


def _cross_faults(parts: Mapping[str, list[RunClaims]], own: Federation) -> list[Fault]:
    """What is wrong with reports that are each right alone."""
    found = [fault for listener in parts for speaker in parts for fault in _disagreement(parts, listener, speaker)]
    if own.private:
        for name, (last, *_) in parts.items():
            if not last.plain["private"]:
                what = f"{name} says that its noise can be drawn again: its records are not protected"
                found.append(Fault(f"reports.{name}.private", what))
        found += crossed_faults({name: last.plain for name, (last, *_) in parts.items()}, own)
    if own.exchange == TOTALS:
        models = Counter(last.plain["model"] for last, *_ in parts.values())
        for name, (last, *_) in parts.items():
            if last.plain["model"] != max(models, key=models.__getitem__):
                what = "is not that of the others; members that hear the same totals end with the same model"
                found.append(Fault(f"reports.{name}.model", what))
    return found


def _disagreement(parts: Mapping[str, list[RunClaims]], listener: str, speaker: str) -> list[Fault]:
    """Whether a member heard what another says that it sent; in every run in which both were. A run that was left may
    be heard up to some tick only."""
    found = []
    for part in parts[listener]:
        heard, own = part.plain["heard"].get(speaker), part.federation
        said = next((each for each in parts[speaker] if each.federation.run == own.run), None)
        if own.exchange != ROWS or heard is None or said is None:
            continue
        listed = [(each["tick"], each["sha256"]) for each in said.plain["releases"]]
        hashed = {tick: bytes.fromhex(text) for tick, text in listed if DIGEST.fits(text)}
        ticks, chain = own.hearings.get((listener, speaker), [])[: heard["messages"]], MessageChain()
        for tick in ticks:
            if tick in hashed:
                chain = chain.then(tick, hashed[tick])
        if (chain.messages, chain.digest.hex()) != (heard["messages"], heard["digest"]):
            what = (
                f"{listener} did not hear the messages whose sha256 {speaker} lists in its releases: one of the two "
                f"reports is false, or {speaker} said something else to {listener} than to others"
            )
            found += under(f"reports.{listener}", under(part.where, [Fault(f"heard.{speaker}.digest", what)]))
    return found
