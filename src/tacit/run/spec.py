"""Everything public about a run that is not about who takes part: one frozen thing, which a file can hold.

The file is TOML. A recipe writes it with the numbers that it chose, a person may change it, and every command that
takes a spec runs what it says (`RunSpec.from_toml`). Its digest names the run.

    rounds = 64                     # ticks: how often something may be said
    l2 = 1e-05                      # each agent's regularisation
    radius = 64.0                   # models farther from zero are ignored
    graph = { agents = 5, edges = [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]] }
    method = { kind = "r-admm", penalty = { kind = "geometric", first = 1.0, ratio = 1.04 }, gamma = 0.5, ... }
    loss = { kind = "huber", width = 1.0 }
    budget = { epsilon = 1.0, delta = 1e-05 }     # without it nothing is claimed
    trust = { colluders = 1, dropouts = 0 }       # where members share their noise; robust = "clipping" elsewhere
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import Loss
from tacit.core.problem import RADIUS
from tacit.errors import InputError, number, whole
from tacit.exchange.listening import check_robust
from tacit.privacy.events import MOST_ROUNDS
from tacit.privacy.plan import Facts, Plan, plan
from tacit.run.limits import Budget
from tacit.run.parts import LOSSES, METHODS, read, written

_LONGEST = 2**24  # characters of a file


@dataclass(frozen=True)
class Trust:
    """Whom the members count on."""

    colluders: int | None = None  # None: every member adds all of its noise, and counts on nobody
    dropouts: int = 0
    robust: str | None = None  # how members listen; None: they take an average

    def __post_init__(self) -> None:
        if self.colluders is not None:
            whole("colluders", self.colluders, 0)
        whole("dropouts", self.dropouts, 0)
        if self.colluders is None and self.dropouts:
            raise InputError("dropouts are of members that share their noise: give colluders, too")
        check_robust(self.robust)


@dataclass(frozen=True)
class RunSpec:
    """A run, as far as it is public."""

    method: Algorithm
    rounds: int  # ticks
    loss: Loss
    graph: Graph
    l2: float = 0.0
    radius: float = RADIUS
    budget: Budget | None = None
    trust: Trust = field(default_factory=Trust)

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 1)
        if self.rounds > MOST_ROUNDS:
            raise InputError(f"{self.rounds:,} rounds are more than the {MOST_ROUNDS:,} that are allowed")
        number("l2", self.l2, zero=True)
        number("radius", self.radius)

    @property
    def digest(self) -> str:
        """The SHA-256 of everything here."""
        return sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """As data that TOML and JSON can carry."""
        found: dict[str, Any] = {
            "rounds": self.rounds,
            "l2": float(self.l2),
            "radius": float(self.radius),
            "graph": {"agents": self.graph.agents, "edges": [list(edge) for edge in self.graph.edges]},
            "method": written(self.method),
            "loss": written(self.loss),
        }
        for name, part in (("budget", self.budget), ("trust", self.trust)):
            chosen = {} if part is None else {f.name: getattr(part, f.name) for f in fields(part)}
            chosen = {key: value for key, value in chosen.items() if value not in (None, "")}
            if part is not None and chosen != {"dropouts": 0}:
                found[name] = chosen
        return found

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RunSpec:
        """What `plain` wrote. Refuses unknown keys, and what the parts refuse."""
        settings = _table(plain, cls, "a run")
        graph = _table(settings["graph"], Graph, "graph")
        settings["graph"] = Graph(graph["agents"], _pairs(graph["edges"]))
        settings["method"] = read(settings["method"], METHODS, "the method")
        settings["loss"] = read(settings["loss"], LOSSES, "the loss")
        for name, kind in (("budget", Budget), ("trust", Trust)):
            if name in settings:
                settings[name] = kind(**_table(settings[name], kind, name))
        return cls(**settings)

    def to_toml(self) -> str:
        """The text of a file."""
        return "".join(f"{key} = {in_toml(value)}\n" for key, value in self.plain().items())

    @classmethod
    def from_toml(cls, file: str | Path) -> RunSpec:
        """The spec in a file."""
        path = Path(file)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if len(text) > _LONGEST:
            raise InputError(f"{path} is not a spec of a run: it has more than {_LONGEST:,} characters")
        try:
            plain = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not TOML: {error}") from None
        try:
            return cls.from_plain(plain)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def facts(self, sizes: Sequence[int] | np.ndarray, dimension: int) -> Facts:
        """What is public of the problem, for members with these numbers of rows. Every row has the same weight."""
        rows = np.asarray(sizes)
        if len(rows) != self.graph.agents:
            raise InputError(f"the run is for {self.graph.agents} agents, not for {len(rows)}")
        scale = rows / rows.mean()
        return Facts(sizes=rows, dimension=dimension, loss=self.loss, scale=scale, l2=self.l2, radius=self.radius)

    def plan(self, facts: Facts) -> Plan:
        """What the run costs. Refuses one that costs more than its budget."""
        planned = plan(self.method, facts, self.graph, self.rounds)
        if self.budget is not None:
            cost = planned.epsilon(self.budget.delta)
            if not cost <= self.budget.epsilon:
                raise InputError(
                    f"the run costs epsilon = {cost:.6g} at delta = {self.budget.delta:g}, and its budget is "
                    f"{self.budget.epsilon:g}: give it more noise, or fewer rounds"
                )
        return planned


def _table(plain: Any, kind: Any, what: str) -> dict[str, Any]:
    """A table with the fields of a dataclass."""
    known = [each.name for each in fields(kind)]
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    if not isinstance(plain, dict):
        raise InputError(f"{what} is a table, not {plain!r}")
    for key in plain:
        if key not in known:
            raise InputError(f"{what} has no {key!r}: it has {', '.join(known)}")
    for key in needed:
        if key not in plain:
            raise InputError(f"{what} needs {key}")
    return dict(plain)


def _pairs(edges: Any) -> list[tuple[int, int]]:
    if not (isinstance(edges, list) and all(isinstance(e, list) and list(map(type, e)) == [int, int] for e in edges)):
        raise InputError("edges are pairs of agents, [[0, 1], [1, 2], ...]")
    return [(a, b) for a, b in edges]


def in_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {in_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(in_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} cannot be written")
    # What JSON writes for a number, a text, true and false is TOML, too, except that TOML wants DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
