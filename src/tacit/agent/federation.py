"""What the members of a federation have agreed upon: one TOML file that every one of them holds.

    version = 1
    tacit = "0.1.0"              # what all of them run: the settings of a private run are computed from this file
    title = "ward study, spring" # the same federation runs again under another title
    rounds = 64
    dimension = 12               # of the model: what the schema comes to
    edges = [["alder", "birch"], ["birch", "cedar"]]
    exchange = "rows"            # or "secret-shared sums": nobody sees a single row (docs/secret-sharing.md)
    radius = 256                 # nothing is heard of models farther from zero; public, from the recipe; up to 2^40
    robust = "none"              # or "clipping", "trimmed", "median": how members listen, against one that lies
    go_on_after = 0              # seconds without a member after which the others go on without it; 0: they wait
    quorum = 0                   # how many of a member's neighbours must sign that it is away; 0: more than half

    [method]                     # private, by a recipe: every setting follows from the budget and the numbers of rows
    name = "mr-admm"
    epsilon = 1
    delta = 1e-6

    [method]                     # or plain, exact values are exchanged: "admm", or "i-admm", on a token
    name = "admm"
    penalty = 0.001
    l2 = 0.00003
    loss = "logistic"

    [[members]]
    name = "alder"
    address = "alder.example:7443"
    rows = 4000                  # public, as everywhere in tacit
    certificate = '''
    -----BEGIN CERTIFICATE-----
    ...
    '''

    [schema]                     # as in a schema file, with [schema.label] and [[schema.columns]]

Two files agree if they say the same, however they are written: every part has a hash of its canonical content, and the
hash of all of them names the run. When two agents meet they show each other the hashes of the parts, so that each can
say which part differs.

`quorum` matters only with `go_on_after`. The others go on without a member if that many of its neighbours have signed
that they have had no sign of life from it (`tacit.agent.absence`). A member that has fewer neighbours needs all of
them. With 0, more than half of the neighbours must sign: 1 of 1, 2 of 2, 2 of 3, 3 of 4.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent.identity import canonical_certificate, check_dates, check_name, common_name, read_certificate
from tacit.algorithms import ConsensusADMM, IncrementalADMM
from tacit.core.algorithm import Algorithm
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Logistic, Loss, Squared
from tacit.core.problem import check_radius
from tacit.data import Classes, Schema, schema_toml
from tacit.data.public import require_public
from tacit.data.text import read_text
from tacit.errors import InputError, NotConnected, number
from tacit.exchange.listening import ROBUST, check_robust
from tacit.privacy.plan import Facts
from tacit.workflows.recipes import RECIPES, Setting

_VERSION = 1
ROWS, SUMS = "rows", "secret-shared sums"  # what neighbours get to know of each other
NONE = "none"  # no robust listening
# The radius where exact values are exchanged. Numbers and labels are scaled to public bounds: a model that lies farther
# out is no model of theirs, but for an l2 below 1e-9. And double precision has digits enough for what lies within.
FAR = 2.0**16
_LARGEST = 2**53  # whole numbers up to here are numbers of double precision
LEAST_ABSENCE = 10.0  # seconds: several times what passes between two signs of life (`tacit.agent.run`)

PLAIN_METHODS: dict[str, Callable[[float], Algorithm]] = {
    "admm": lambda penalty: ConsensusADMM(penalty=penalty),
    "i-admm": lambda penalty: IncrementalADMM(penalty=penalty),
}
PLAIN_LOSSES: dict[str, Callable[[], Loss]] = {"logistic": Logistic, "huber": HuberHinge, "squared": Squared}


@dataclass(frozen=True)
class Member:
    """An organisation: who it is, where it is reached, how many records it brings."""

    name: str
    address: str
    rows: int
    certificate: str  # canonical PEM

    def __post_init__(self) -> None:
        check_name(self.name)
        host, _, port = self.address.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise InputError(f"the address of {self.name} is HOST:PORT, not {self.address!r}")
        if not (isinstance(self.rows, int) and 1 <= self.rows <= _LARGEST):
            raise InputError(f"the rows of {self.name} are a whole number, 1 or more and at most 2^53")
        certificate = read_certificate(self.certificate, f"the certificate of {self.name}")
        if common_name(certificate) != self.name:
            raise InputError(f"the certificate of {self.name} is that of {common_name(certificate)}; put the right one")
        object.__setattr__(self, "certificate", canonical_certificate(certificate))


@dataclass(frozen=True)
class Private:
    """A method by its recipe: no member's records give away more than (epsilon, delta) over the whole run."""

    name: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if self.name not in RECIPES:
            raise InputError(f"a private method is one of {', '.join(RECIPES)}; not {self.name!r}")
        number("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise InputError(f"delta must lie between 0 and 1, not at {self.delta}")

    @property
    def token(self) -> bool:
        """Whether one member speaks at a time."""
        return RECIPES[self.name].token


@dataclass(frozen=True)
class Plain:
    """A method that exchanges exact values, with its settings."""

    name: str
    penalty: float
    l2: float
    loss: str

    def __post_init__(self) -> None:
        if self.name not in PLAIN_METHODS:
            raise InputError(
                f"a method without epsilon is one of {', '.join(PLAIN_METHODS)}; not {self.name!r}; "
                f"private ones need epsilon and delta: {', '.join(RECIPES)}"
            )
        number("penalty", self.penalty)
        number("l2", self.l2, zero=True)
        if self.loss not in PLAIN_LOSSES:
            raise InputError(f"the loss is one of {', '.join(PLAIN_LOSSES)}; not {self.loss!r}")

    @property
    def token(self) -> bool:
        """Whether one member speaks at a time."""
        return self.name == "i-admm"


@dataclass(frozen=True)
class Federation:
    """Everything that is agreed. Members stand in the order of their names: their places are the agents' ids."""

    title: str
    members: tuple[Member, ...]
    edges: tuple[tuple[str, str], ...]
    method: Private | Plain
    rounds: int
    schema: Schema
    exchange: str = ROWS
    radius: float = 0.0  # 0: the usual one, until the file is written
    robust: str = NONE
    go_on_after: float = 0.0
    quorum: int = 0
    agreed: Federation | None = None  # what the file says, if this is what is left of it: see `without`

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member.name)))
        object.__setattr__(self, "edges", tuple(sorted({(min(edge), max(edge)) for edge in self.edges})))
        if not (isinstance(self.title, str) and self.title and self.title.isprintable()):
            raise InputError(f"the title is a line of text, not {self.title!r}")
        if not (type(self.rounds) is int and 1 <= self.rounds < 2**32):  # the wire counts ticks in 32 bits
            raise InputError(f"rounds is a whole number, 1 or more and below 2^32, not {self.rounds!r}")
        for what in ("name", "address", "certificate"):
            values = [getattr(member, what) for member in self.members]
            if twice := [value for k, value in enumerate(values) if value in values[:k]]:
                raise InputError(f"two members have the same {what}: {twice[0]}")
        if self.exchange not in (ROWS, SUMS):
            raise InputError(f"the exchange is {ROWS!r} or {SUMS!r}, not {self.exchange!r}")
        if self.radius == 0 and isinstance(self.method, Plain):
            object.__setattr__(self, "radius", FAR)
        if self.radius != 0:
            check_radius(self.radius)
        if self.robust != NONE:
            check_robust(self.robust, int(self.graph.degree.min()))
            if self.method.token:
                raise InputError(
                    "robust listening compares rows: it is for methods in which all speak at once, in the open"
                )
            if self.exchange == SUMS:
                raise InputError("robust listening compares rows, and in secret-shared sums nobody sees one: choose")
        if not (self.go_on_after == 0 or LEAST_ABSENCE <= self.go_on_after < math.inf):
            raise InputError(f"go_on_after is 0, or {LEAST_ABSENCE:g} seconds or more, not {self.go_on_after}")
        if not (type(self.quorum) is int and self.quorum >= 0):
            raise InputError(f"quorum is a whole number, 0 or more, not {self.quorum!r}")
        degree = self.graph.degree
        if self.exchange == SUMS and (few := degree < 2).any():
            raise InputError(
                f"{self.names[int(few.argmax())]} has one neighbour, whose row would be its sum: in secret-shared sums "
                "every member needs two"
            )
        if isinstance(self.method, Private):
            require_public(self.schema)
        elif (self.method.loss == "squared") == isinstance(self.schema.label, Classes):
            raise InputError(f"the loss {self.method.loss!r} does not fit the label {self.schema.label.column!r}")

    @property
    def names(self) -> list[str]:
        """Of the members; agent i is names[i]."""
        return [member.name for member in self.members]

    @cached_property
    def graph(self) -> Graph:
        """Who talks to whom, by ids."""
        for edge in self.edges:
            for end in edge:
                if end not in self.names:
                    raise InputError(f"the edge {'-'.join(edge)} leads to {end!r}, which is no member")
        try:
            pairs = [(self.names.index(a), self.names.index(b)) for a, b in self.edges]
            return Graph.from_edges(pairs, len(self.members))
        except NotConnected as error:
            raise NotConnected(error.components, self.names) from None

    @cached_property
    def setting(self) -> Setting:
        """The algorithm with all its parameters, the rounds and the public facts: a function of the file alone."""
        if isinstance(self.method, Private):
            found = self._recipe_setting()
            if found.rounds != self.rounds:
                raise InputError(
                    f"the file says rounds = {self.rounds}; {self.method.name} takes {found.rounds} with this budget"
                )
            return found
        rows = np.array([member.rows for member in self.members])
        facts = Facts(
            sizes=rows, dimension=self.schema.dimension, loss=PLAIN_LOSSES[self.method.loss](),
            scale=rows / rows.mean(), l2=self.method.l2, radius=self.radius,
        )  # fmt: skip
        return Setting(PLAIN_METHODS[self.method.name](self.method.penalty), self.rounds, facts)

    @property
    def absent(self) -> list[str]:
        """The members without whom the others go on."""
        return [] if self.agreed is None else [name for name in self.agreed.names if name not in self.names]

    def needed(self, neighbours: int) -> int:
        """How many of a member's neighbours must have signed that it is away.

        If the file says nothing, more than half: one liar among two or more proves nothing.
        """
        return max(1, min(self.quorum or neighbours // 2 + 1, neighbours))

    def without(self, names: Iterable[str]) -> Federation:
        """What is left if these members stay away: a run of its own, from the start, with a setting of its own.

        A message of the one run is none of the other: their hashes differ. Refused is what cannot be done without them.
        """
        agreed, gone = self.agreed or self, {*self.absent, *names}
        if unknown := gone - set(agreed.names):
            raise InputError(f"{', '.join(sorted(unknown))}: no member of this federation")
        left = tuple(member for member in agreed.members if member.name not in gone)
        if len(left) < 2:
            raise InputError("fewer than two members are left")
        if self.exchange == SUMS and isinstance(self.method, Plain):
            raise InputError("the sum of the same exact rows with and without a member would give its row away")
        edges = tuple(edge for edge in agreed.edges if gone.isdisjoint(edge))
        return replace(agreed, members=left, edges=edges, agreed=agreed).with_rounds()

    def with_rounds(self) -> Federation:
        """With as many rounds as the recipe takes, if there is one."""
        if not isinstance(self.method, Private):
            return self
        found = self._recipe_setting()
        made = replace(self, rounds=found.rounds, radius=found.facts.radius)
        made.__dict__["setting"] = found  # found once: the calibration takes seconds
        return made

    def _recipe_setting(self) -> Setting:
        assert isinstance(self.method, Private)
        rows = np.array([member.rows for member in self.members])
        recipe, method = RECIPES[self.method.name], self.method
        return recipe.setting(
            rows, self.schema.dimension, self.graph, method.epsilon, method.delta, self.radius or None
        )  # fmt: skip

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """A hash of every part of the file."""
        if self.agreed is not None:
            return self.agreed.parts
        content: dict[str, Any] = {
            "tacit": __version__,
            "title": self.title,
            "edges": self.edges,
            "method": {key: _same(value) for key, value in asdict(self.method).items()},
            "rounds": self.rounds,
            "exchange": self.exchange,
            "radius": _same(self.radius),
            "robust": self.robust,
            "go_on_after": _same(self.go_on_after),
            "quorum": self.quorum,
            "schema": self.schema.to_dict(),
            **{f"member {member.name}": asdict(member) for member in self.members},
        }
        return {part: sha256(_canonical(value)).digest()[:16] for part, value in sorted(content.items())}

    @cached_property
    def run(self) -> str:
        """The hash of all parts, and of who is absent, which names the run."""
        return self.run_without(self.absent)

    def run_without(self, absent: list[str]) -> str:
        """The name of the run that is left without these members, who stand in the order of their names."""
        content: dict[str, Any] = {part: value.hex() for part, value in self.parts.items()}
        return sha256(_canonical(content | ({"absent": absent} if absent else {}))).hexdigest()

    def place(self, name: str, certificate: str) -> int:
        """The id of the member who has this name and this certificate."""
        if name not in self.names:
            raise InputError(f"{name} is no member of this federation; its members are: {', '.join(self.names)}")
        i = self.names.index(name)
        if self.members[i].certificate != certificate:
            raise InputError(
                f"the federation file has another certificate for {name} than the identity; renew one of them"
            )
        return i

    def check_dates(self) -> None:
        """Refuses certificates that are not valid now."""
        for member in self.members:
            check_dates(read_certificate(member.certificate, f"the certificate of {member.name}"))

    def to_toml(self) -> str:
        """The text of the file."""
        if self.radius == 0:
            raise InputError("the radius follows from the method's recipe, and is not there yet: take with_rounds()")
        head = {
            "version": _VERSION, "tacit": __version__, "title": self.title, "rounds": self.rounds,
            "dimension": self.schema.dimension, "edges": [list(edge) for edge in self.edges],
            "exchange": self.exchange, "radius": self.radius, "robust": self.robust, "go_on_after": self.go_on_after,
            "quorum": self.quorum,
        }  # fmt: skip
        blocks = [schema_toml.lines(head), schema_toml.lines(asdict(self.method), "method")]
        for member in self.members:
            plain = {key: value for key, value in asdict(member).items() if key != "certificate"}
            blocks.append(schema_toml.lines(plain, "[members]") + f"certificate = '''\n{member.certificate}'''\n")
        return "\n".join([*blocks, schema_toml.write(self.schema.to_dict(), under="schema")])

    @classmethod
    def from_toml(cls, text: str, source: str = "the federation file") -> Federation:
        """What `to_toml` wrote, or somebody by hand."""
        try:
            plain = tomllib.loads(text)
        except ValueError as error:  # no TOML, or a number of thousands of digits
            raise InputError(f"{source} is not TOML: {error}") from None
        try:
            _check_sizes(plain)
            return cls._from_plain(plain)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def load(cls, path: Path) -> Federation:
        """Reads a federation file."""
        return cls.from_toml(read_text(path), Path(path).name)

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Federation:
        own = ("version", "tacit", "title", "rounds", "dimension", "edges", "exchange")
        more = ("radius", "robust", "go_on_after", "quorum", "method", "members", "schema")
        _check_keys(plain, (*own, *more), "a federation")
        if plain["version"] != _VERSION:
            raise InputError(
                f"version must be {_VERSION}, not {plain['version']!r}: write it anew (tacit federation new)"
            )
        if plain["tacit"] != __version__:
            raise InputError(f"it was agreed upon for tacit {plain['tacit']}; this is {__version__}: all run the same")
        edges, members, method = plain["edges"], plain["members"], plain["method"]
        if not (
            isinstance(edges, list) and all(isinstance(e, list) and list(map(type, e)) == [str] * 2 for e in edges)
        ):
            raise InputError(f'edges are pairs of names, [["alder", "birch"], ...]; got {edges!r}')
        if not (isinstance(members, list) and all(isinstance(member, dict) for member in members)):
            raise InputError("members are tables; write [[members]]")
        if type(plain["go_on_after"]) not in (int, float):
            raise InputError(f"go_on_after is a number of seconds, not {plain['go_on_after']!r}")
        if type(plain["radius"]) not in (int, float) or not plain["radius"] > 0:
            raise InputError(f"radius is a positive number, the largest norm of a model, not {plain['radius']!r}")
        if not isinstance(plain["robust"], str):
            raise InputError(f"robust is {NONE!r} or one of {', '.join(ROBUST)}, not {plain['robust']!r}")
        if not isinstance(method, dict):
            raise InputError("method is a table; write [method]")
        schema = Schema.from_dict(plain["schema"])
        if plain["dimension"] != schema.dimension:
            raise InputError(f"dimension = {plain['dimension']} does not fit the schema, which has {schema.dimension}")
        kind = Private if "epsilon" in method else Plain
        return cls(
            title=plain["title"],
            members=tuple(_made(Member, member, "a member") for member in members),
            edges=tuple((a, b) for a, b in edges),
            method=_made(kind, method, "the method"),
            rounds=plain["rounds"],
            schema=schema,
            exchange=plain["exchange"],
            radius=plain["radius"],
            robust=plain["robust"],
            go_on_after=plain["go_on_after"],
            quorum=plain["quorum"],
        )


def difference(mine: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> list[str]:
    """The parts in which two federation files differ.

    >>> difference({"rounds": b"1", "title": b"x"}, {"rounds": b"2", "title": b"x"})
    ['rounds']
    """
    unknown = ["a part unknown here"] if theirs.keys() - mine.keys() else []  # what others call it is not repeated
    return [part for part in mine if mine[part] != theirs.get(part)] + unknown


def _made(kind: Any, settings: dict[str, Any], what: str) -> Any:
    wanted = {f.name: f.type for f in fields(kind)}
    _check_keys(settings, tuple(wanted), what)
    for key, value in settings.items():
        right = {"str": str, "int": int, "float": (int, float)}[str(wanted[key])]
        if not isinstance(value, right) or isinstance(value, bool):  # type: ignore[arg-type]
            raise InputError(f"{key} of {what} has the wrong type: {value!r}")
    return kind(**settings)


def _check_sizes(plain: Any, name: str = "a number") -> None:
    """Refuses whole numbers that are none of double precision, wherever they stand: TOML has them of any length."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            _check_sizes(value, key)
    elif isinstance(plain, list):
        for value in plain:
            _check_sizes(value, name)
    elif isinstance(plain, int) and abs(plain) > _LARGEST:
        raise InputError(f"{name} is too large: whole numbers go up to 2^53")


def _check_keys(settings: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in settings:
        if key not in known:
            raise InputError(f"{what} sets {', '.join(known)}; got {key!r}; correct or remove it")
    for key in known:
        if key not in settings:
            raise InputError(f"{what} must set {key}; it is absent; add it")


def _same(value: Any) -> Any:
    """1 and 1.0 are one number, whichever way the file writes it."""
    return float(value) if isinstance(value, int) else value


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
