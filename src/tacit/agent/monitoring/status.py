"""How far an agent is, as plain data: from its store and its ledger, which a process may be writing to.

`tacit agent status` prints it, and the page to watch shows it (`tacit.agent.monitoring.page`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.agent import store as stores
from tacit.agent.federation import TOTALS, Federation
from tacit.agent.participant import reduced_store
from tacit.errors import InputError, TacitError
from tacit.privacy.accounting import totals
from tacit.privacy.events import Event
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Ledger

_ALIVE = 10.0  # a process without a heartbeat for so many seconds is not running


def _present(agreed: Federation, path: Path) -> tuple[Federation, stores.Status, list[Event]]:
    """The run in which an agent is now, if it had to leave others, and the events of all that one budget pays for."""
    events: list[Event] = []
    while (found := stores.status(path)).without:
        events += found.events if agreed.exchange == TOTALS else []
        agreed = agreed.without(found.without)
        path = reduced_store(path, agreed)
    return agreed, found, events + found.events


def everybody(agreed: Federation, path: Path) -> dict[str, Any]:
    """What `tacit federation status --json` prints: all members, as one member's agent knows them.

    It is made of what members sign for each other and pass on in any case: that they have met, and up to which tick
    they have spoken. A member that is no neighbour shows nothing else, and nothing here comes from records.
    """
    present, found, _ = _present(agreed, path)
    now = time.time()

    def member(name: str) -> dict[str, Any]:
        there, own = name in present.names, name == found.member
        tick = found.tick if own else found.rounds if name in found.finished else found.reached.get(name, -1)
        last = found.peers.get(name)
        return {
            "member": name,
            "left_out": not there,
            "met": there and (tick >= 0 or present.names.index(name) in found.met),
            "round": min(tick, found.rounds) if there and tick >= 0 else None,
            "neighbour": name in found.peers,
            "seconds_since": None if last is None else now - last,
            "accused": found.accused.get(name),
        }

    return {
        "title": agreed.title,
        "run": found.run,
        "rounds": found.rounds,
        "seen_by": found.member,
        "seconds_ago": None if found.heartbeat is None else now - found.heartbeat,
        "doing": found.doing,
        "members": [member(name) for name in agreed.names],
    }


def status(agreed: Federation, path: Path) -> dict[str, Any]:
    """What `tacit agent status --json` prints."""
    agreed, found, events = _present(agreed, path)
    budget, now = agreed.spec.budget, time.time()
    spent = totals(Counter(events), budget.delta).best if budget is not None and events else None
    return {
        "member": found.member,
        "run": found.run,
        "round": min(max(found.tick, 0), found.rounds),
        "rounds": found.rounds,
        "alive": found.heartbeat is not None and now - found.heartbeat < _ALIVE,
        "doing": found.doing,
        "seconds_since": {name: None if last is None else now - last for name, last in found.peers.items()},
        "epsilon": spent,
        "released": len(events),
        "without": agreed.absent,
        "accused": found.accused,
    }


def statuses(agreed: Federation, folder: Path) -> list[dict[str, Any]]:
    """The status of every member whose identity lies in this folder; `problem` says why there is none."""
    found = []
    for name in agreed.names:
        path = folder / name / store_name(agreed)
        if not path.parent.is_dir():
            continue
        try:
            found.append(status(agreed, path) | {"problem": None})
        except TacitError as error:
            found.append({"member": name, "problem": str(error) if path.exists() else "it has not started yet"})
    if not found:
        raise InputError(f"{folder} has no folder of a member; they are: {', '.join(agreed.names)}")
    return found


def store_name(agreed: Federation) -> str:
    """Of an agent's store in the folder of its identity."""
    return f"{agreed.run[:16]}.store"


class Watched:
    """One agent that is watched from outside. `log` gives the last lines of its log."""

    def __init__(
        self, name: str, federation: Federation, store: Path, ledger: Path | None, log: Callable[[], list[str]]
    ) -> None:
        self._name, self._federation, self._store, self._log = name, federation, store, log
        self._ledger = ledger
        self._opened: Ledger | None = None

    def look(self) -> dict[str, Any]:
        """Status, budget and log. Nothing here can fail: what cannot be read is said."""
        agreed = self._federation.spec.budget
        budget = None if agreed is None else {"epsilon": agreed.epsilon, "delta": agreed.delta}
        plain: dict[str, Any] = {"member": self._name, "private": agreed is not None, "budget": budget, "status": None}
        try:
            plain["status"] = status(self._federation, self._store)
            plain["ledger"] = self._spent()
            plain["problem"] = None
        except TacitError as error:
            plain |= {"ledger": None, "problem": str(error) if self._store.exists() else "it has not started yet"}
        return plain | {"log": self._log()}

    def _spent(self) -> dict[str, Any] | None:
        if self._ledger is None:
            return None
        if self._opened is None:  # in the thread that looks: SQLite wants that
            self._opened = Ledger(self._ledger, cost=epsilon)
        cap = self._opened.cap()
        limit = None if cap is None else {"epsilon": cap.epsilon, "delta": cap.delta}
        return {"spent": self._opened.epsilon(), "cap": limit}
