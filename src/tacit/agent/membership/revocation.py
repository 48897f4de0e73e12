"""Members that this member refuses from now on: its own decision, in a file of its own, about nobody else's agents.

`revoked.json` in the folder of an identity lists certificates by their fingerprints. An agent reads it when it starts.
A member of whose chain (`tacit.agent.membership.renewal`) one certificate is listed is refused at the door, and what it
signs does not count: a renewal does not help it. This holds in every federation, until the member comes with a new
identity that all have agreed upon.

One member cannot have another left out in this way. Others go on hearing the revoked member until their operators
decide the same. Where the federation file lets members go on without one that is away, each neighbour that refuses it
signs that it is away, and the run goes on without it once a quorum has signed (`tacit.agent.membership.absence`).
Otherwise the agent that refuses it stops: a run needs all its members.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.agent import documents
from tacit.agent.documents import DIGEST, TEXT, TIME
from tacit.agent.federation import Federation
from tacit.agent.identity import fingerprint
from tacit.errors import InputError
from tacit.files import alone, write_private

_FILE = "revoked.json"
_SHAPE = {"revoked": [{"name": TEXT, "certificate": DIGEST, "when": TIME, "why": TEXT}]}


def revoked(home: Path) -> frozenset[str]:
    """The fingerprints of the certificates that the owner of this folder refuses."""
    return frozenset(each["certificate"] for each in _read(home))


def namesakes(home: Path, federation: Federation) -> list[str]:
    """The members of a federation that have the name of a revoked one, and are let in: they have other certificates."""
    listed = {each["name"] for each in _read(home)}
    return [name for name in federation.names if name in listed and name not in federation.refused]


def revoke(home: Path, name: str, certificates: Iterable[str], why: str) -> None:
    """Adds a member, with all certificates of its chain."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with alone(home / _FILE):  # two operators may revoke two members at the same time
        listed = _read(home)
        known = {each["certificate"] for each in listed}
        listed += [
            {"name": name, "certificate": each, "when": now, "why": why}
            for each in map(fingerprint, certificates)
            if each not in known
        ]
        write_private(home / _FILE, json.dumps({"revoked": listed}, indent=1) + "\n")


def _read(home: Path) -> list[dict[str, Any]]:
    path = home / _FILE
    if not path.exists():
        return []
    plain = documents.read(path, "a list of revoked certificates")
    if found := documents.misfits(plain, _SHAPE):  # fail closed: a list that cannot be read must not let anybody in
        raise InputError(f"{path} is not a list of revoked certificates: {found[0]}; correct it")
    return list(plain["revoked"])
