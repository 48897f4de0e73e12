"""What the members of a federation have agreed on. `tacit.agent.federation_toml` describes the file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tacit import __version__
from tacit.agent import federation_toml
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
from tacit.agent.method import ExactMethod, PrivateMethod
from tacit.agent.renewal import Chain, Renewal
from tacit.algorithms import summed
from tacit.core.graph import Graph
from tacit.core.problem import check_radius
from tacit.data import Schema
from tacit.data.public import require_public
from tacit.data.text import read_text
from tacit.errors import InputError, NotConnected
from tacit.exchange.listening import check_robust
from tacit.exchange.total_bounds import TotalBounds
from tacit.privacy.events import MOST_ROUNDS, Event
from tacit.privacy.plan import Facts, plan
from tacit.workflows.exact import ALGORITHMS
from tacit.workflows.losses import exact_loss
from tacit.workflows.recipes import RECIPES, Calibration, Reserve, Setting

ROWS, SUMS, TOTALS = "rows", "secret-shared sums", "secret-shared totals"  # what members learn about each other
NONE = "none"  # no robust listening
# The radius where exact values are exchanged. Numbers and labels are scaled to public bounds, so no model of them lies
# farther out, unless l2 is below 1e-9. Double precision has enough digits for what lies within.
EXACT_RADIUS = 2.0**16
LEAST_ABSENCE = 10.0  # seconds: several times the time between two signs of life (`tacit.agent.liveness`)


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


@dataclass(frozen=True)
class Federation:
    """Everything that is agreed on. Members are sorted by name; a member's place is its agent's id."""

    title: str
    members: tuple[Member, ...]
    edges: tuple[tuple[str, str], ...]
    method: PrivateMethod | ExactMethod
    rounds: int
    schema: Schema
    exchange: str = ROWS
    radius: float = 0.0  # 0: the default, until the file is written
    robust: str = NONE
    go_on_after: float = 0.0
    quorum: int = 0
    colluders: int = 0  # with totals: so many members together learn no more than the budget allows,
    dropouts: int = 0  # while so many are away
    predecessor: str = ""  # the run of the version before this one, if there is one
    renewals: tuple[Renewal, ...] = ()  # new certificates of members: no part of the agreement
    revoked: frozenset[str] = field(default=frozenset(), repr=False)  # fingerprints: what this member alone refuses
    expired: frozenset[str] = field(
        default=frozenset(), repr=False
    )  # members that were too late when this agent started
    agreed: Federation | None = None  # what the file says, if some of its members are absent: see `without`

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member.name)))
        object.__setattr__(self, "edges", tuple(sorted({(min(edge), max(edge)) for edge in self.edges})))
        if not (isinstance(self.title, str) and self.title and self.title.isprintable()):
            raise InputError(f"the title is a line of text, not {self.title!r}")
        if not (type(self.rounds) is int and 1 <= self.rounds <= MOST_ROUNDS):
            raise InputError(f"rounds is a whole number from 1 to {MOST_ROUNDS:,}, not {self.rounds!r}")
        for what in ("name", "address", "certificate"):
            values = [getattr(member, what) for member in self.members]
            if twice := [value for k, value in enumerate(values) if value in values[:k]]:
                raise InputError(f"two members have the same {what}: {twice[0]}")
        if self.predecessor != "" and not DIGEST.fits(self.predecessor):
            raise InputError(f"predecessor is the name of a run, 64 hexadecimal digits, not {self.predecessor!r}")
        for each in self.renewals if self.agreed is None else ():
            if each.member not in self.names:
                raise InputError(f"there is a renewal of {each.member}, which is not a member")
        _ = self._chains  # refuses renewals that are not one chain
        if self.exchange not in (ROWS, SUMS, TOTALS):
            raise InputError(f"the exchange is {ROWS!r}, {SUMS!r} or {TOTALS!r}, not {self.exchange!r}")
        if self.radius == 0 and isinstance(self.method, ExactMethod):
            object.__setattr__(self, "radius", EXACT_RADIUS)
        if self.radius != 0:
            check_radius(self.radius)
        if self.robust != NONE:
            check_robust(self.robust, int(self.graph.degree.min()))
            if self.method.token:
                raise InputError("robust listening compares rows: it is for methods in which all members speak at once")
            if self.exchange != ROWS:
                raise InputError(
                    f"robust listening compares rows, but {self.exchange} hide them: choose one of the two"
                )
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
        self._check_totals()
        if isinstance(self.method, PrivateMethod):
            require_public(self.schema)
        else:
            exact_loss(self.method.loss, self.schema.label)  # refuses one that does not fit

    def _check_totals(self) -> None:
        """Refuses shared noise outside of totals, totals without it, and a reserve that the graph does not allow."""
        if not (type(self.colluders) is int and type(self.dropouts) is int and min(self.reserve) >= 0):
            raise InputError(
                f"colluders and dropouts are whole numbers, 0 or more, not {self.colluders!r} and {self.dropouts!r}"
            )
        if self.method.shared != (self.exchange == TOTALS):
            raise InputError(
                f"{self.method.name} shares its noise among the members, so it needs the exchange {TOTALS!r}"
                if self.method.shared
                else f"{self.method.name} does not share its noise, so it cannot use the exchange {TOTALS!r}; "
                "shared-descent can"
            )
        if self.exchange != TOTALS:
            if self.colluders or self.dropouts:
                raise InputError(f"colluders and dropouts are for the exchange {TOTALS!r}, not for {self.exchange!r}")
            return
        self.reserve.shares(len(self.members))  # refuses a reserve that leaves nobody
        summed.check_graph(self.graph, *self.reserve)  # refuses a graph that so many members can cut in two
        if self.agreed is None and bool(self.go_on_after) != bool(self.dropouts):
            raise InputError(
                "go_on_after needs dropouts: how many members may be away, so that their noise is not counted on"
                if self.go_on_after
                else "dropouts needs go_on_after: after how many seconds the others go on without a member"
            )

    @property
    def reserve(self) -> Reserve:
        """Whose share of the noise is not counted on."""
        return Reserve(self.colluders, self.dropouts)

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
        """The same for a member that refuses certificates with these fingerprints (`tacit.agent.revocation`)."""
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

    @cached_property
    def graph(self) -> Graph:
        """Who talks to whom, by ids."""
        for edge in self.edges:
            for end in edge:
                if end not in self.names:
                    raise InputError(f"the edge {'-'.join(edge)} leads to {end!r}, which is not a member")
        try:
            pairs = [(self.names.index(a), self.names.index(b)) for a, b in self.edges]
            return Graph.from_edges(pairs, len(self.members))
        except NotConnected as error:
            raise NotConnected(error.components, self.names) from None

    @cached_property
    def setting(self) -> Setting:
        """The algorithm with all its parameters, the rounds and the public facts: a function of the file alone."""
        if self.exchange == TOTALS and self.agreed is not None:
            return self._restricted(self.agreed.setting)
        if isinstance(self.method, PrivateMethod):
            found = self._recipe_setting(self.method.calibration)
            if found.rounds != self.rounds:
                raise InputError(
                    f"the file says rounds = {self.rounds}; {self.method.name} needs {found.rounds} with this budget"
                )
            return found
        rows = np.array([member.rows for member in self.members])
        facts = Facts(
            sizes=rows,
            dimension=self.schema.model_dimension,
            loss=exact_loss(self.method.loss, self.schema.label),
            scale=rows / rows.mean(),
            l2=self.method.l2,
            radius=self.radius,
        )
        return Setting(ALGORITHMS[self.method.name].make(self.method.penalty, self.graph), self.rounds, facts)

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
        costs = plan(algorithm, self.setting.facts, self.graph, rounds).events
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
        totals, from where the other run was left, with its setting (`tacit.agent.dropout`).

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
        if self.exchange == SUMS and isinstance(self.method, ExactMethod):
            raise InputError("the sum of the same exact rows with and without a member would reveal its row")
        edges = tuple(edge for edge in agreed.edges if absent.isdisjoint(edge))
        if self.exchange == TOTALS:
            if len(absent) > agreed.dropouts:
                raise InputError(
                    f"{', '.join(sorted(absent))} would be absent, and the noise allows for {agreed.dropouts} dropouts"
                )
            left = agreed.dropouts - len(absent)
            return replace(agreed, members=remaining, edges=edges, agreed=agreed, dropouts=left)
        return replace(agreed, members=remaining, edges=edges, agreed=agreed).with_rounds()

    @property
    def budgeted(self) -> Federation:
        """The federation whose budget pays for this run: the agreed one, where a run goes on where another was left."""
        return (self.agreed or self) if self.exchange == TOTALS else self

    def with_rounds(self) -> Federation:
        """The same with the rounds, the noise and the radius of the recipe, if the method is private."""
        if not isinstance(self.method, PrivateMethod):
            return self
        found = self._recipe_setting(None)
        assert found.calibration is not None
        method = replace(self.method, **found.calibration._asdict())
        made = replace(self, method=method, rounds=found.rounds, radius=found.facts.radius)
        made.__dict__["setting"] = found  # computed once: the calibration takes seconds
        return made

    def _recipe_setting(self, given: Calibration | None) -> Setting:
        assert isinstance(self.method, PrivateMethod)
        rows = np.array([member.rows for member in self.members])
        return (
            RECIPES[self.method.name]
            .for_label(self.schema.label)
            .setting(
                rows,
                self.schema.model_dimension,
                self.graph,
                self.method.epsilon,
                self.method.delta,
                self.radius or None,
                averaged=self.robust == NONE,
                reserve=self.reserve if self.exchange == TOTALS else None,
                given=given,
            )
        )

    def _restricted(self, agreed: Setting) -> Setting:
        """The setting of the agreed run, for those of its members that are left: step, noise and weights stay."""
        assert self.agreed is not None
        kept = [self.agreed.names.index(name) for name in self.names]
        facts = agreed.facts
        left = Facts(
            sizes=facts.sizes[kept],
            dimension=facts.dimension,
            loss=facts.loss,
            scale=facts.scale[kept],
            l2=facts.l2,
            radius=facts.radius,
        )
        algorithm: Any = agreed.algorithm
        return Setting(replace(algorithm, dropouts=self.dropouts), agreed.rounds, left)

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
            **({"predecessor": self.predecessor} if self.predecessor else {}),
            **self._reserved,
            **{f"member {member.name}": asdict(member) for member in self.members},
        }
        return {part: sha256(_canonical(value)).digest()[:16] for part, value in sorted(content.items())}

    @property
    def _reserved(self) -> dict[str, int]:
        """What only files with totals have."""
        return dict(self.reserve._asdict()) if self.exchange == TOTALS else {}

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
        if self.radius == 0 or (isinstance(self.method, PrivateMethod) and self.method.calibration is None):
            raise InputError(
                "radius and noise follow from the method's recipe and are not computed yet: call with_rounds() first"
            )
        settings = {
            "title": self.title,
            "rounds": self.rounds,
            "dimension": self.schema.dimension,
            "edges": [list(edge) for edge in self.edges],
            **{key: getattr(self, key) for key in ("exchange", "radius", "robust", "go_on_after", "quorum")},
            **({"predecessor": self.predecessor} if self.predecessor else {}),
            **self._reserved,
        }
        members = [asdict(member) for member in self.members]
        text = federation_toml.write(settings, asdict(self.method), members, self.schema.to_dict())
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
        """Reads a federation file."""
        return cls.from_toml(read_text(path), Path(path).name)

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Federation:
        federation_toml.check(plain, reserve=plain.get("exchange") == TOTALS)
        schema, method = Schema.from_dict(plain["schema"]), plain["method"]
        if plain["dimension"] != schema.dimension:
            raise InputError(f"dimension = {plain['dimension']} does not fit the schema, which has {schema.dimension}")
        kind = PrivateMethod if "epsilon" in method else ExactMethod
        if kind is PrivateMethod and not (method.get("deviation") and method.get("multiplier")):
            raise InputError(
                "it says nothing about its noise, as files of tacit 0.1: write it anew (tacit federation new)"
            )
        return cls(
            members=tuple(federation_toml.made(Member, member, "a member") for member in plain["members"]),
            edges=tuple((a, b) for a, b in plain["edges"]),
            method=federation_toml.made(kind, method, "the method"),
            schema=schema,
            **{key: plain[key] for key in ("title", "rounds", "exchange", "radius", "robust", "go_on_after", "quorum")},
            **{key: plain[key] for key in (*federation_toml.RESERVE, "predecessor") if key in plain},
            renewals=tuple(federation_toml.made(Renewal, each, "a renewal") for each in plain.get("renewals", [])),
        )


def difference(mine: Mapping[str, bytes], theirs: Mapping[str, bytes]) -> list[str]:
    """The parts in which two federation files differ.

    >>> difference({"rounds": b"1", "title": b"x"}, {"rounds": b"2", "title": b"x"})
    ['rounds']
    """
    unknown = (
        ["a part unknown here"] if theirs.keys() - mine.keys() else []
    )  # its name is not repeated: others chose it
    return [part for part in mine if mine[part] != theirs.get(part)] + unknown


def _same(value: Any) -> Any:
    """1 and 1.0 are the same number, however the file writes it."""
    return float(value) if isinstance(value, int) else value


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
