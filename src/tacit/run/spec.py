"""Everything public about a run that is not about who takes part: one frozen thing, which a file can hold.

The file is TOML. A recipe writes it with the numbers that it chose, a person may change it, and every command that
takes a spec runs what it says (`RunSpec.from_toml`). Its digest names the run.

    rounds = 64                     # ticks: how often something may be said
    tolerance = 1e-4                # stop earlier, when all residuals are below it; only where nothing is private
    l2 = 1e-05                      # each agent's regularisation
    scale = 1.0                     # C, the weight of the loss; every row of every agent weighs the same
    radius = 64.0                   # models farther from zero are ignored
    count = true                    # a noisy count of the positives comes first, out of the budget
    graph = { kind = "ring", agents = 5 }         # or edges = [[0, 1], [1, 2], ...] in place of the kind
    method = { kind = "r-admm", penalty = { kind = "geometric", first = 1.0, ratio = 1.04 }, gamma = 0.5, ... }
    loss = { kind = "huber", width = 1.0 }
    budget = { epsilon = 1.0, delta = 1e-05 }     # without it nothing is claimed
    trust = { colluders = 1, dropouts = 0 }       # where members share their noise; robust = "clipping" elsewhere
    recipe = "mr-admm"              # which recipe chose the numbers; leave it out if you change one of them
    schema = "5f0e..."              # the SHA-256 of the schema of the records, if they have one
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from textwrap import fill
from types import NoneType
from typing import Any

import numpy as np

from tacit.algorithms import Averaged
from tacit.core.algorithm import Algorithm
from tacit.core.constants import RADIUS
from tacit.core.facts import Facts
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Loss
from tacit.data.text import read_text
from tacit.errors import InputError, TacitError, number, whole
from tacit.run.budget import Budget
from tacit.run.option import check_types
from tacit.run.parts import LOSSES, METHODS, name_of, read, written
from tacit.run.trust import Trust

MOST_AGENTS = 1_000_000
_LONGEST = 2**24  # characters of a file
_WIDTH = 100  # of a list; longer ones take several lines
_TYPES = {"str": "a text", "bool": "true or false"}


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
    scale: float = 1.0
    count: bool = False
    tolerance: float | None = None
    recipe: str = ""
    schema: str = ""

    def __post_init__(self) -> None:
        check_types(self, loss=(Loss,), graph=(Graph,), budget=(Budget, NoneType), trust=(Trust,))
        check_types(self, recipe=(str,), schema=(str,), count=(bool,))
        if not hasattr(self.method, "speak") or isinstance(self.method, type):
            raise InputError(f"the method of a run is an instance of an algorithm, not {self.method!r}")
        # Plain numbers: 1, 1.0 and those of numpy give one digest.
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, 1))
        for name in ("l2", "radius", "scale"):
            object.__setattr__(self, name, number(name, getattr(self, name), zero=name == "l2"))
        if self.count and self.budget is None:
            raise InputError("a noisy count of the positives is paid for by a budget: give it, or leave out count")
        if self.count and not isinstance(self.loss, HuberHinge):
            raise InputError("a share of positives is for a label of two classes")
        if self.count and self.trust.robust is not None:
            raise InputError(
                "a noisy count of positives is a plain average, which every member that lies can move: give their "
                "share as a number, or leave out robust"
            )
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", number("tolerance", self.tolerance))
            if self.budget is not None:
                raise InputError("a private run does not stop early, which would tell about records: no tolerance")

    @property
    def digest(self) -> str:
        """The SHA-256 of everything here."""
        return sha256(json.dumps(self.plain(), sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """That of the recipe that chose the numbers, or of the method."""
        method = self.method.method if isinstance(self.method, Averaged) else self.method
        return self.recipe or name_of(method)

    @property
    def described(self) -> dict[str, Any]:
        """What a model file, a report and a certificate say about the run."""
        return {"spec": self.plain(), "spec digest": self.digest}

    def plain(self) -> dict[str, Any]:
        """As data that TOML and JSON can carry."""
        found: dict[str, Any] = {
            "rounds": self.rounds,
            "l2": self.l2,
            "radius": self.radius,
            "graph": {"agents": self.graph.agents, "edges": [list(edge) for edge in self.graph.edges]},
            "method": written(self.method),
            "loss": written(self.loss),
        }
        for name, usual in (("scale", 1.0), ("count", False), ("tolerance", None), ("recipe", ""), ("schema", "")):
            if (value := getattr(self, name)) != usual:
                found[name] = value
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
        settings["graph"] = _graph(settings["graph"])
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
        text = read_text(path)  # also what an editor on Windows has saved, with a byte order mark
        if len(text) > _LONGEST:
            raise InputError(f"{path} is not a spec of a run: it has more than {_LONGEST:,} characters")
        try:
            plain = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a TOML file such as tacit plan --spec-out writes: {error}; correct that line"
            ) from None
        if "version" in plain:
            raise InputError(
                f"{path} is a schema or a federation file, not the file of a run, which tacit plan --spec-out writes"
            )
        try:
            return cls.from_plain(plain)
        except TacitError as error:  # of a graph, too
            raise InputError(f"{path}: {error}") from None

    def facts(self, sizes: Sequence[int] | np.ndarray, dimension: int) -> Facts:
        """What is public of the problem, for members with these numbers of rows. Every row has the same weight."""
        rows = np.asarray(sizes)
        if len(rows) != self.graph.agents:
            raise InputError(f"the run is for {self.graph.agents} agents, not for {len(rows)}: plan it for them")
        scale = self.scale * (rows / rows.mean())
        return Facts(sizes=rows, dimension=dimension, loss=self.loss, scale=scale, l2=self.l2, radius=self.radius)


def _table(plain: Any, kind: Any, what: str) -> dict[str, Any]:
    """A table with the fields of a dataclass."""
    known = {each.name: str(each.type) for each in fields(kind)}
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    if not isinstance(plain, dict):
        raise InputError(f"{what} is a table, not {plain!r}")
    for key, value in plain.items():
        if key not in known:
            raise InputError(f"{what} has no {key!r}: it has {', '.join(known)}")
        right = known[key].partition(" ")[0]
        if right in _TYPES and type(value).__name__ != right:
            raise InputError(f"{key} of {what} is {_TYPES[right]}, not {value!r}")
    for key in needed:
        if key not in plain:
            raise InputError(f"{what} needs {key}")
    return dict(plain)


def _graph(plain: Any) -> Graph:
    """From its edges, or from the name of a kind."""
    if not isinstance(plain, dict) or plain.keys() not in ({"agents", "edges"}, {"agents", "kind"}):
        raise InputError('graph is a table: { kind = "ring", agents = 5 }, or with edges in place of the kind')
    agents = whole("agents", plain["agents"], 1)
    if agents > MOST_AGENTS:
        raise InputError(f"a run is for {MOST_AGENTS:,} agents at most, not for {agents:,}")
    if "edges" in plain:
        return Graph(agents, _pairs(plain["edges"]))
    return Graph.ring(1) if agents == 1 else Graph.named(str(plain["kind"]), agents)


def _pairs(edges: Any) -> list[tuple[int, int]]:
    if not (isinstance(edges, list) and all(isinstance(e, list) and list(map(type, e)) == [int, int] for e in edges)):
        raise InputError("edges are pairs of agents, [[0, 1], [1, 2], ...]")
    return [(a, b) for a, b in edges]


def in_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {in_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        parts = list(map(in_toml, value))
        if len(line := ", ".join(parts)) <= _WIDTH:
            return f"[{line}]"
        # What is no number may have a space inside.
        flat = not any(isinstance(each, str | list | dict) for each in value)
        return "[\n" + (fill(line, _WIDTH) if flat else ",\n".join(parts)) + "\n]"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} cannot be written")
    # What JSON writes for a number, a text, true and false is TOML, too, except that TOML wants DEL escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
