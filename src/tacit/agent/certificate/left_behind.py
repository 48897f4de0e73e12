"""A member that comes back when the others have finished without it, and are gone: nobody is there to tell it.

The signed report of any of them tells it: it has the statements that prove why they went on. An operator that gets such
a report keeps it in the folder of the identity. From then on the member's agent ends at once, where it would wait for
ever. Only the operator can put a report there: no message between agents can.
"""

from __future__ import annotations

from pathlib import Path

from tacit.agent.certificate.signed_report import verified
from tacit.agent.federation import Federation
from tacit.data.text import read_text
from tacit.errors import InputError, Over
from tacit.files import write_private


def keep(home: Path, agreed: Federation, name: str, report: Path) -> Path:
    """Keeps a report that shows that the others have finished without this member; gives the file. Refuses another."""
    found = verified(report, agreed)
    if name not in found["without"]:
        raise InputError(f"{report.name} does not show that: {found['member']} has finished with {name}")
    write_private(_path(home, agreed), read_text(report))
    return _path(home, agreed)


def check(home: Path, agreed: Federation, name: str) -> None:
    """`Over` if the operator of this member has kept such a report."""
    path = _path(home, agreed)
    if path.exists() and name in (found := verified(path, agreed))["without"]:
        raise Over(
            f"the others have finished without {name}: the report of {found['member']} shows it ({path.name}). "
            "Agree on a new run, or on the next version of the federation"
        )


def _path(home: Path, agreed: Federation) -> Path:
    return home / f"{agreed.run[:16]}.without.json"
