"""What the members of a federation have agreed on. `tacit.agent.federation_toml` describes the file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent import able, federation_toml
from tacit.agent.documents import DIGEST
from tacit.agent.identity import (
    canonical_certificate,
    check_dates,
    check_name,
    check_own_signature,
    common_name,
    fingerprint,
    has_expired,
    read_certificate,
    signed_by,
)
from tacit.agent.membership.renewal import Chain, Renewal
from tacit.core.constants import check_radius
from tacit.core.graph import Graph
from tacit.data import Schema
from tacit.data.public import require_public
from tacit.data.text import read_text
from tacit.errors import InputError, NotConnected
from tacit.exchange.total_bounds import TotalBounds
from tacit.privacy.events import MOST_ROUNDS, Event
from tacit.run.parts import name_of
from tacit.run.recipes import RECIPES
from tacit.run.request import Request, check_records
from tacit.run.setting import Setting, check_trust
from tacit.run.spec import RunSpec
from tacit.run.trust import Reserve

ROWS, SUMS, TOTALS = "rows", "secret-shared sums", "secret-shared totals"  # what members learn about each other
TICKS = 200  # of a run without a budget, if nobody says how many: agents do not stop early
LEAST_ABSENCE = 10.0  # seconds: several times the time between two signs of life (`tacit.agent.membership.liveness`)


@dataclass(frozen=True)
class Member:
    """An organisation: its name, its address, how many records it has, and its certificate."""

    name: str
    address: str
    rows: int
    certificate: str  # canonical PEM

    def __post_init__(self) -> None:
        check_name(self.name)
        host, _, port = self.address.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise InputError(f"the address of {self.name} is HOST:PORT, not {self.address!r}")
        if not (isinstance(self.rows, int) and 1 <= self.rows <= federation_toml.LARGEST):
            raise InputError(f"the rows of {self.name} are a whole number, 1 or more and at most 2^53")
        certificate = read_certificate(self.certificate, f"the certificate of {self.name}")
        if common_name(certificate) != self.name:
            raise InputError(
                f"the certificate of {self.name} belongs to {common_name(certificate)}; put in the right one"
            )
        check_own_signature(certificate)
        object.__setattr__(self, "certificate", canonical_certificate(certificate))


@dataclass(frozen=True, eq=False)
class Federation:
    """Everything that is agreed on. Members are sorted by name; a member's place is its agent's id."""

    title: str
    members: tuple[Member, ...]
    spec: RunSpec  # the run; its graph is about the members in this order
    schema: Schema
    exchange: str = ROWS
    go_on_after: float = 0.0
    quorum: int = 0
    predecessor: str = ""  # the run of the version before this one, if there is one
    renewals: tuple[Renewal, ...] = ()  # new certificates of members: no part of the agreement
    revoked: frozenset[str] = field(default=frozenset(), repr=False)  # fingerprints: what this member alone refuses
    expired: frozenset[str] = field(
        default=frozenset(), repr=False
    )  # members that were too late when this agent started
    agreed: Federation | None = None  # what the file says, if some of its members are absent: see `without`

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member.name)))
        if not (isinstance(self.title, str) and self.title and self.title.isprintable()):
            raise InputError(f"the title is a line of text, not {self.title!r}")
        if self.rounds > MOST_ROUNDS:
            raise InputError(f"{self.rounds:,} rounds are more than the {MOST_ROUNDS:,} that are allowed")
        for what in ("name", "address", "certificate"):
            values = [getattr(member, what) for member in self.members]
            if twice := [value for k, value in enumerate(values) if value in values[:k]]:
                raise InputError(f"two members have the same {what}: {twice[0]}")
        if len(self.members) < 2:
            raise InputError("a federation has two members or more")
        if self.graph.agents != len(self.members):
            raise InputError(f"the run is for {self.graph.agents} agents, not for {len(self.members)} members")
        if self.predecessor != "" and not DIGEST.fits(self.predecessor):
            raise InputError(f"predecessor is the name of a run, 64 hexadecimal digits, not {self.predecessor!r}")
        for each in self.renewals if self.agreed is None else ():
            if each.member not in self.names:
                raise InputError(f"there is a renewal of {each.member}, which is not a member")
        _ = self._chains  # refuses renewals that are not one chain
        if self.exchange not in (ROWS, SUMS, TOTALS):
            raise InputError(f"the exchange is {ROWS!r}, {SUMS!r} or {TOTALS!r}, not {self.exchange!r}")
        if not (self.go_on_after == 0 or LEAST_ABSENCE <= self.go_on_after < math.inf):
            raise InputError(f"go_on_after is 0, or {LEAST_ABSENCE:g} seconds or more, not {self.go_on_after}")
        if not (type(self.quorum) is int and self.quorum >= 0):
            raise InputError(f"quorum is a whole number, 0 or more, not {self.quorum!r}")
        degree = self.graph.degree
        if self.exchange == SUMS and (few := degree < 2).any():
            raise InputError(
                f"{self.names[int(few.argmax())]} has one neighbour, so its sum would be that neighbour's row: with "
                "secret-shared sums every member needs two neighbours"
            )
        self._check_run()
        self._check_totals()

    def _check_run(self) -> None:
        """Refuses a run that is not about these records, or that agents cannot run."""
        spec = self.spec
        check_radius(spec.radius)
        check_records(spec, self.schema.label, self.schema.digest)
        if spec.budget is not None:
            require_public(self.schema)
        able.check(spec)
        if spec.trust.robust is not None and self.exchange != ROWS:
            raise InputError(f"robust listening compares rows, but {self.exchange} hide them: choose one of the two")
        check_trust(spec)

    def _check_totals(self) -> None:
        """Refuses sums over all members for a method that needs rows, and rows for one that needs these sums."""
        needed = able.needs_totals(self.spec.method)
        if needed != (self.exchange == TOTALS):
            name = name_of(self.spec.method)
            raise InputError(
                f"{name} needs sums over all members, so it needs the exchange {TOTALS!r}"
                if needed
                else f"{name} needs its neighbours' rows, so it cannot use the exchange {TOTALS!r}; shared-descent can"
            )
        if not needed:
            return
        if self.agreed is None and bool(self.go_on_after) != bool(self.dropouts):
            raise InputError(
                "go_on_after needs dropouts: how many members may be away, so that their noise is not counted on"
                if self.go_on_after
                else "dropouts needs go_on_after: after how many seconds the others go on without a member"
            )

    @property
    def private(self) -> bool:
        """Whether a budget was agreed on. Without one nothing is claimed, and nothing is paid for."""
        return self.spec.budget is not None

    @property
    def rounds(self) -> int:
        """How many ticks there are."""
        return self.spec.rounds

    @property
    def graph(self) -> Graph:
        """Who talks to whom, by ids."""
        return self.spec.graph

    @property
    def reserve(self) -> Reserve | None:
        """Whose share of the noise is not counted on; None if nobody shares noise."""
        return self.spec.trust.reserve

    @property
    def dropouts(self) -> int:
        """How many members may be away, where members share their noise."""
        return self.spec.trust.dropouts

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Who talks to whom, by names."""
        return tuple((self.names[a], self.names[b]) for a, b in self.graph.edges)

    @cached_property
    def names(self) -> list[str]:
        """The names of the members; agent i is names[i]."""
        return [member.name for member in self.members]

    @cached_property
    def _chains(self) -> dict[str, Chain]:
        """The certificates of all members of the agreed run, by name."""
        if self.agreed is not None:
            return self.agreed._chains
        return {
            member.name: Chain.of(member.certificate, [each for each in self.renewals if each.member == member.name])
            for member in self.members
        }

    def certificate(self, name: str) -> str:
        """The certificate of a member that all have agreed upon: of a run, it is always the same."""
        chain = self._chains[name]
        return chain.certificates[chain.agreed]

    def certificates(self, name: str) -> tuple[str, ...]:
        """All certificates of a member, the first one first: what was signed with one of them was signed by it."""
        return self._chains[name].certificates

    def accepted(self, name: str, at: datetime | None = None) -> tuple[str, ...]:
        """The certificates with which a member may speak now, or at another time; none if the member is
        refused."""
        return () if name in self._refused_names else self._chains[name].accepted(at or datetime.now(UTC))

    def signer(self, name: str, text: bytes, signature: bytes) -> str | None:
        """The certificate with which a member has signed a text; None if it has not signed it."""
        return next((each for each in reversed(self.certificates(name)) if signed_by(each, text, signature)), None)

    def signed_live(self, name: str, text: bytes, signature: bytes) -> bool:
        """Whether a member has signed a text with a key that counts now. A stolen key that was renewed or revoked
        proves nothing against its member."""
        return self.signer(name, text, signature) in self.accepted(name)

    def refusing(self, revoked: Iterable[str]) -> Federation:
        """The same for a member that refuses certificates with these fingerprints
        (`tacit.agent.membership.revocation`)."""
        return replace(self, revoked=frozenset(revoked))

    @cached_property
    def _refused_names(self) -> frozenset[str]:
        """The members of whose chain one certificate is revoked (a renewal does not help), and those that were too late
        for a renewal."""
        chains = self._chains if self.revoked else ()
        revoked = (n for n in chains if not self.revoked.isdisjoint(map(fingerprint, self.certificates(n))))
        return self.expired.union(revoked)

    @property
    def refused(self) -> dict[str, str]:
        """The members of this run that this agent refuses, and why."""
        why = {True: "its certificate has expired", False: "it is revoked here"}
        return {name: why[name in self.expired] for name in self.names if name in self._refused_names}

    @cached_property
    def renewed(self) -> bytes:
        """A digest of all renewals, which agents compare; empty if there are none."""
        plain = [[each.old, each.new, each.until] for chain in self._chains.values() for each in chain.renewals]
        return sha256(_canonical(plain)).digest()[:16] if plain else b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Federation) and self._says == other._says

    def __hash__(self) -> int:
        return hash(self._says)

    @property
    def _says(self) -> tuple[Any, ...]:
        return self.run, self.renewals, self.revoked, self.expired

    @cached_property
    def setting(self) -> Setting:
        """The run with the public facts of its problem: a function of the file alone. Refuses noise that does not keep
        the budget."""
        if self.exchange == TOTALS and self.agreed is not None:
            return self._restricted(self.agreed)
        return Setting.of(self.spec, self._sizes, self.schema.model_dimension, self.schema.longest_row)

    @property
    def _sizes(self) -> np.ndarray:
        return np.array([member.rows for member in self.members])

    @cached_property
    def total_bounds(self) -> TotalBounds | None:
        """Within which agents use a total, where the members share their noise: a function of the file alone."""
        algorithm: Any = self.setting.algorithm
        return algorithm.bounds(self.setting.facts) if self.exchange == TOTALS else None

    @cached_property
    def plans(self) -> list[dict[int, Event]]:
        """What each release of each member will cost, by ticks: a function of the file alone."""
        algorithm, rounds = self.setting.algorithm, self.setting.rounds
        schedule = algorithm.schedule(self.graph)
        ticks: list[list[int]] = [[] for _ in self.members]
        for t in range(rounds):
            for i in schedule.turn(t).speakers.tolist():
                ticks[i].append(t)
        costs = self.setting.plan.events
        return [dict(zip(when, events, strict=True)) for when, events in zip(ticks, costs, strict=True)]

    @cached_property
    def hearings(self) -> dict[tuple[str, str], list[int]]:
        """The ticks at which a member hears a neighbour, by the names of both: (listener, speaker)."""
        schedule = self.setting.algorithm.schedule(self.graph)
        found: dict[tuple[str, str], list[int]] = {}
        for t in range(self.setting.rounds):
            speakers, listeners, indptr, indices = schedule.turn(t)
            for k, listener in enumerate(listeners.tolist()):
                for speaker in speakers[indices[indptr[k] : indptr[k + 1]]].tolist():
                    found.setdefault((self.names[listener], self.names[speaker]), []).append(t)
        return found

    @property
    def absent(self) -> list[str]:
        """The members without whom the others go on."""
        return [] if self.agreed is None else [name for name in self.agreed.names if name not in self.names]

    def needed(self, neighbours: int) -> int:
        """How many of a member's neighbours must have signed that it is away.

        Without a quorum in the file, more than half: one liar among two or more proves nothing.
        """
        return max(1, min(self.quorum or neighbours // 2 + 1, neighbours))

    def without(self, names: Iterable[str]) -> Federation:
        """The federation without these members: a run of its own, from the start, with a setting of its own; or, with
        totals, from where the other run was left, with its setting (`tacit.agent.membership.dropout`).

        The two runs have different hashes, so no message of one is valid in the other. Refuses a federation that cannot
        run without these members.
        """
        absent = frozenset({*self.absent, *names})
        if absent not in self._reduced:
            self._reduced[absent] = self._without(absent)
        return self._reduced[absent]

    @cached_property
    def _reduced(self) -> dict[frozenset[str], Federation]:
        """By absent members: computed once, because a calibration takes seconds."""
        return {}

    def _without(self, absent: frozenset[str]) -> Federation:
        agreed = self.agreed or self
        if unknown := absent - set(agreed.names):
            raise InputError(f"{', '.join(sorted(unknown))}: not a member of this federation")
        remaining = tuple(member for member in agreed.members if member.name not in absent)
        if len(remaining) < 2:
            raise InputError("fewer than two members are left")
        if self.exchange == SUMS and not self.private:
            raise InputError("the sum of the same exact rows with and without a member would reveal its row")
        ids = [agreed.names.index(member.name) for member in remaining]
        graph = _among([(a, b) for a, b in agreed.graph.edges if a in ids and b in ids], ids, agreed.names)
        if self.exchange == TOTALS:
            if len(absent) > agreed.dropouts:
                raise InputError(
                    f"{', '.join(sorted(absent))} would be absent, and the noise allows for {agreed.dropouts} dropouts"
                )
            left = agreed.dropouts - len(absent)
            method: Any = agreed.spec.method
            trust = replace(agreed.spec.trust, dropouts=left)
            spec = replace(agreed.spec, method=replace(method, dropouts=left), graph=graph, trust=trust)
            return replace(agreed, members=remaining, spec=spec, agreed=agreed)
        found = replace(agreed, members=remaining, spec=agreed._spec_for(remaining, graph), agreed=agreed)
        _ = found.setting.plan  # refuses noise that does not keep the budget, and a method that cannot run without them
        return found

    def _spec_for(self, members: Sequence[Member], graph: Graph) -> RunSpec:
        """The run of the members that are left, from the start: with the numbers that its recipe has for them, or with
        those that it has."""
        spec = self.spec
        if not spec.recipe:
            return replace(spec, graph=graph)
        assert spec.budget is not None
        known = ([member.rows for member in members], self.schema.model_dimension, graph, spec.budget, spec.trust)
        return RECIPES[spec.recipe].for_label(self.schema.label).setting(*known, schema=spec.schema).spec

    @property
    def budgeted(self) -> Federation:
        """The federation whose budget pays for this run: the agreed one, where a run goes on where another was left."""
        return (self.agreed or self) if self.exchange == TOTALS else self

    def _restricted(self, agreed: Federation) -> Setting:
        """The setting of the agreed run, for those of its members that are left: step, noise and weights stay."""
        kept = [agreed.names.index(name) for name in self.names]
        return Setting(self.spec, agreed.setting.facts.take(kept))

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """A hash of every part of the file."""
        if self.agreed is not None:
            return self.agreed.parts
        content: dict[str, Any] = {
            "tacit": __version__,
            "title": self.title,
            "edges": self.edges,
            "exchange": self.exchange,
            "go_on_after": float(self.go_on_after),
            "quorum": self.quorum,
            "schema": self.schema.to_dict(),
            **({"predecessor": self.predecessor} if self.predecessor else {}),
            **{f"run.{key}": value for key, value in self._plain_run().items()},
            **{f"member {member.name}": asdict(member) for member in self.members},
        }
        return {part: sha256(_canonical(value)).digest()[:16] for part, value in sorted(content.items())}

    def _plain_run(self) -> dict[str, Any]:
        """The run as data, without its graph: that is in the edges."""
        return {key: value for key, value in self.spec.plain().items() if key != "graph"}

    @cached_property
    def run(self) -> str:
        """The name of the run: the hash of all parts and of the absent members."""
        return self.run_without(self.absent)

    def run_without(self, absent: list[str]) -> str:
        """The name of the run without these members, which are sorted by name."""
        content: dict[str, Any] = {part: value.hex() for part, value in self.parts.items()}
        return sha256(_canonical(content | ({"absent": absent} if absent else {}))).hexdigest()

    def place(self, name: str, certificate: str) -> int:
        """The id of the member with this name and this certificate."""
        if name not in self.names:
            raise InputError(f"{name} is not a member of this federation; its members are: {', '.join(self.names)}")
        if certificate not in self.certificates(name):
            raise InputError(
                f"the certificate of {name} in the federation file is not that of the identity; if it was renewed, add "
                "the statement to the file (tacit federation accept)"
            )
        if certificate not in self.accepted(name):
            raise InputError(
                f"the certificate of {name} was renewed, and counts no more: use the new key (tacit federation accept "
                "--identity)"
            )
        return self.names.index(name)

    def as_of_now(self, own: str) -> Federation:
        """The same for an agent of this member that starts now. Refuses a file in which a member's last certificate is
        not valid; of a revoked member, none is used.

        Where the others may go on without a member, one whose certificate has expired stops nobody: it is refused as a
        revoked one is, and so it is away. An expired certificate can sign no renewal, so this stays so.
        """
        dated = {
            name: read_certificate(self.certificates(name)[-1], f"the certificate of {name}") for name in self.names
        }
        late = {name for name, each in dated.items() if has_expired(each)} if self.go_on_after else set()
        late -= {own, *self.refused}
        for name in sorted(set(self.names) - late - set(self.refused)):
            check_dates(dated[name])
        return replace(self, expired=self.expired | late) if late else self

    def to_toml(self) -> str:
        """The text of the file."""
        settings = {
            "title": self.title,
            "dimension": self.schema.dimension,
            "edges": [list(edge) for edge in self.edges],
            **{key: getattr(self, key) for key in ("exchange", "go_on_after", "quorum")},
            **({"predecessor": self.predecessor} if self.predecessor else {}),
        }
        members = [asdict(member) for member in self.members]
        text = federation_toml.write(settings, self._plain_run(), members, self.schema.to_dict())
        return "\n".join([text, *(each.to_toml() for name in self.names for each in self._chains[name].renewals)])

    @classmethod
    def from_toml(cls, text: str, source: str = "the federation file") -> Federation:
        """Reads the text of a federation file; `source` is what an error calls it."""
        plain = federation_toml.loads(text, source)
        try:
            return cls._from_plain(plain)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def load(cls, path: Path) -> Federation:
        """Reads a federation file, and refuses one that is not valid."""
        return cls.from_toml(read_text(path), Path(path).name)

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Federation:
        federation_toml.check(plain)
        schema = Schema.from_dict(plain["schema"])
        if plain["dimension"] != schema.dimension:
            raise InputError(f"dimension = {plain['dimension']} does not fit the schema, which has {schema.dimension}")
        members = sorted(
            (federation_toml.made(Member, member, "a member") for member in plain["members"]), key=lambda m: m.name
        )
        graph = talk([member.name for member in members], plain["edges"])
        pairs = {"agents": graph.agents, "edges": [list(edge) for edge in graph.edges]}
        return cls(
            members=tuple(members),
            spec=RunSpec.from_plain(plain["run"] | {"graph": pairs}),
            schema=schema,
            **{key: plain[key] for key in ("title", "exchange", "go_on_after", "quorum")},
            **{key: plain[key] for key in ("predecessor",) if key in plain},
            renewals=tuple(federation_toml.made(Renewal, each, "a renewal") for each in plain.get("renewals", [])),
        )


def agreement(
    title: str, members: Iterable[Member], graph: Graph, request: Request, schema: Schema, **settings: Any
) -> Federation:
    """The federation of somebody who asks for a run. All numbers follow from public facts: with a budget from its
    recipe; without one, agents do not stop early.

    graph : of the members in the order of their names
    settings : other fields of the federation; the exchange is by default what the method needs
    """
    ordered = sorted(members, key=lambda member: member.name)
    if request.total is not None:
        require_public(schema)
    facts = ([member.rows for member in ordered], schema.model_dimension, graph)
    spec = request.resolved(schema.label, *facts, row_norm=schema.longest_row, schema=schema.digest).spec
    if spec.budget is None and request.spec is None:
        spec = replace(spec, rounds=TICKS if request.rounds is None else spec.rounds, tolerance=None)
    settings = {"exchange": TOTALS if able.needs_totals(spec.method) else ROWS} | settings
    return Federation(title, tuple(ordered), spec, schema, **settings)


def talk(names: Sequence[str], edges: Iterable[Sequence[str]]) -> Graph:
    """Who talks to whom, by ids, from pairs of names."""
    for edge in edges:
        for end in edge:
            if end not in names:
                raise InputError(f"the edge {'-'.join(edge)} leads to {end!r}, which is not a member")
    ids = range(len(names))
    return _among({(names.index(min(edge)), names.index(max(edge))) for edge in edges}, ids, names)


def _among(pairs: Iterable[tuple[int, int]], ids: Sequence[int], names: Sequence[str]) -> Graph:
    """The graph of those of the members that have these ids."""
    place = {i: k for k, i in enumerate(ids)}
    try:
        return Graph.from_edges([(place[a], place[b]) for a, b in pairs], len(ids))
    except NotConnected as error:
        raise NotConnected(error.components, [names[i] for i in ids]) from None


def difference(mine: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> list[str]:
    """The parts in which two federation files differ.

    >>> difference({"rounds": b"1", "title": b"x"}, {"rounds": b"2", "title": b"x"})
    ['rounds']
    """
    unknown = (
        ["a part unknown here"] if theirs.keys() - mine.keys() else []
    )  # its name is not repeated: others chose it
    return [part for part in mine if mine[part] != theirs.get(part)] + unknown


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
