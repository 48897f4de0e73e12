"""The next version of a federation: its file names the run of the version before (`predecessor`).

The name is the hash of all that was agreed, so a next version cannot be about another past than it says. Whether it is
*the* next version is for the members to say, who compare its own name as ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from tacit.agent.federation import Federation, Member
from tacit.agent.identity import fingerprint
from tacit.agent.membership.renewal import Renewal
from tacit.errors import InputError


def kept_renewals(before: Federation, members: Iterable[Member]) -> tuple[Renewal, ...]:
    """The renewals that lead to the certificates of a next version's members. So what neighbours know of each other's
    ledgers is not forgotten (`tacit.agent.ledger_heads`)."""
    kept: list[Renewal] = []
    for member in members:
        if member.name in before.names and member.certificate in (known := before.certificates(member.name)):
            if member.certificate != known[-1]:
                raise InputError(f"{member.name} has renewed this certificate: give the newest one")
            kept += [each for each in before.renewals if each.member == member.name]
    return tuple(kept)


def changes(before: Federation, after: Federation) -> list[str]:
    """What a next version changes, a line each. A certificate that no renewal leads to has to be compared by people."""
    lines = [f"{name} is no longer a member" for name in before.names if name not in after.names]
    for member in after.members:
        name = member.name
        if name not in before.names:
            lines.append(f"{name} is a new member: compare its certificate with it, SHA-256 {_last(after, name)}")
            continue
        if set(before.certificates(name)).isdisjoint(after.certificates(name)):
            what = f"{name} has another certificate, and no renewal leads to it"
            lines.append(f"{what}: compare it with {name}, SHA-256 {_last(after, name)}")
        elif before.certificates(name)[0] not in after.certificates(name):
            lines.append(f"renewals of {name} are missing: what neighbours know of its ledger may be forgotten")
        old = before.members[before.names.index(name)]
        if (old.address, old.rows) != (member.address, member.rows):
            lines.append(f"{name} was at {old.address} with {old.rows:,} rows")
    shared = before.parts.keys() & after.parts.keys()
    other = (before.parts.keys() ^ after.parts.keys()) | {
        key for key in shared if before.parts[key] != after.parts[key]
    }
    named = sorted(part for part in other if part != "predecessor" and not part.startswith("member "))
    return [*lines, f"other parts that differ: {', '.join(named)}"] if named else lines


def _last(federation: Federation, name: str) -> str:
    return fingerprint(federation.certificates(name)[-1])
