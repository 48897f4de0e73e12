"""What an agent has done, in a file that only it can have signed: what it released, when, and at what cost.

JSON with two fields: `report`, and `signature`, the ECDSA signature (base64) over the canonical text of the first. The
certificate that it is checked with is in the federation file. Messages stand in it by their hashes. `without` names
the members without whom the others went on.
"""

from __future__ import annotations

import base64
import json
import os
from binascii import Error as NotBase64
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent.federation import ROWS, Federation, Private
from tacit.agent.identity import signed_by
from tacit.agent.seat import Seat, planned
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import replacing
from tacit.privacy.accounting import rounded_up, totals
from tacit.privacy.events import to_plain
from tacit.privacy.ledger_entries import canonical

_FORMAT = "tacit-report"


def write(seat: Seat, model: np.ndarray, path: str | os.PathLike[str]) -> None:
    """The signed report of a part that is over."""
    federation, releases = seat.federation, seat.store.releases()

    def digest(message: bytes) -> str:
        """Rows that are summed in secret leave no hash by which a guess could be checked without the store's secret."""
        known = message if federation.exchange == ROWS else seat.store.secret + message
        return sha256(known).hexdigest()

    method, ledger = federation.method, seat.ledger
    spent = totals(Counter(event for _, _, event in releases), method.delta) if isinstance(method, Private) else None
    report: dict[str, Any] = {
        "format": _FORMAT,
        "tacit": __version__,
        "title": federation.title,
        "run": federation.run,
        "member": seat.name,
        "without": federation.absent,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": federation.rounds,
        "private": spent is not None and seat.noise.private,
        "epsilon": None if spent is None else rounded_up(spent.best),
        "delta": method.delta if isinstance(method, Private) else None,
        "ledger": None if ledger is None else {"dataset": ledger.dataset, "head": ledger.head()},
        "model": sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest(),
        "releases": [
            {"tick": tick, "sha256": digest(message), "event": to_plain(event)} for tick, message, event in releases
        ],
    }
    signature = base64.b64encode(seat.identity.sign(canonical(report))).decode()
    with replacing(path) as draft:
        draft.write_text(json.dumps({"report": report, "signature": signature}, indent=1) + "\n", encoding="utf-8")


def verified(path: Path, federation: Federation) -> dict[str, Any]:
    """A report, if its member has signed it, it is of this run, and it released what was planned."""
    try:
        plain = json.loads(read_text(path))
        report, signature = plain["report"], base64.b64decode(plain["signature"])
        member, run, without = report["member"], report["run"], report["without"]
        released = [(release["tick"], release["event"]) for release in report["releases"]]
        if not all(isinstance(name, str) for name in without):
            raise TypeError
    except (ValueError, KeyError, TypeError, NotBase64):
        raise InputError(f"{path} is not a report of an agent") from None
    if without and not federation.go_on_after:
        raise InputError(f"{path} is about a run without {', '.join(without)}, which was not agreed upon")
    if without:
        federation = federation.without(without)
    if run != federation.run:
        raise InputError(f"{path} is about the run {str(run)[:12]}, the federation file is {federation.run[:12]}")
    if member not in federation.names:
        raise InputError(f"{path} is of {member!r}, which is no member")
    me = federation.names.index(member)
    if not signed_by(federation.members[me].certificate, canonical(report), signature):
        raise InputError(f"{path} was changed, or {member} has not signed it")
    if released != [(tick, to_plain(event)) for tick, event in planned(federation, me).items()]:
        raise InputError(f"{path} is signed, but {member} did not release what was planned")
    checked: dict[str, Any] = report
    return checked
