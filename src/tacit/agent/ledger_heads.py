"""What members know of each other's ledgers, from one federation to the next.

A ledger that was restored from an old copy, or made anew for the same people, has forgotten what was spent, and its
file cannot show that. So agents show each other the heads of their ledgers when they meet (`Ledger.head`: a salted
hash, which tells nothing about the records). Each head is signed. An agent keeps the newest head that it has seen of
every neighbour, and shows it back when they meet again:

- An agent that is shown a head which it has signed itself, and which its ledger does not contain, stops before it pays:
  its ledger is an old copy, or a second one for the same population. (A neighbour cannot make this up: it needs the
  agent's signature.)
- An agent whose neighbour shows another ledger than before, or an older one, says so in its log, and puts both heads,
  with their signatures, into its report. It goes on: the neighbour's budget is the neighbour's. A neighbour that puts
  the right ledger back before this agent has paid made a mistake: then only the log has it.

A member that lies can sign what it likes. But its heads are in the reports of its neighbours and in its own, and an
auditor who asks for the ledger finds each of them in it, or knows that there is another one.

The file `ledgers.db` in the folder of an identity has the heads of neighbours, and those of the member's own ledgers:
a second ledger for a population that the folder knows is refused at once. (Under another name it is another
population: who the people are, only the member knows. Its neighbours' logs say that it is another one.) The file also
says which ledger has paid for a run: that one has the marks of what has left, so the run goes on with no other.

A population is named to neighbours by a tag that is made with a key of the identity: they can compare it, and cannot
read it. It stays the same when the identity gets a new key. Neighbours keep what they know under every certificate of
the member's chain (`tacit.agent.membership.renewal`): the member cannot get rid of it by a chain that is longer, or
shorter, than before.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit import database
from tacit.agent.identity import SIGNATURE_SIZE, Identity, fingerprint, signed_by
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Greeting, LedgerHead
from tacit.database import NO_TEXT
from tacit.errors import NEW_RUN, InputError, Over, failed
from tacit.privacy.ledger import Head, Ledger

if TYPE_CHECKING:
    from tacit.agent.participant import Participant

_DOMAIN = b"tacit: the head of my ledger"
_SIZES = {"population": 32, "book": 16, "head": 32}  # bytes
HEAD_SIZE = 256  # bytes of a signed head in a greeting, at most
_FILE = "ledgers.db"
# Heads of one neighbour in one run that are kept. An honest ledger grows at every tick, and is shown in greetings: some
# when agents meet, and then at most one in a second.
_MOST_CHANGES, _PER_SECOND = 1_000, 1.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS own (population TEXT PRIMARY KEY, book TEXT, rows INTEGER, head TEXT);
CREATE TABLE IF NOT EXISTS paid (run TEXT PRIMARY KEY, book TEXT);
CREATE TABLE IF NOT EXISTS seen (
    certificate TEXT, population TEXT, book TEXT, rows INTEGER, head TEXT, signature TEXT,
    PRIMARY KEY (certificate, population)
);
CREATE TABLE IF NOT EXISTS shown (
    certificate TEXT, run TEXT, what TEXT, population TEXT, book TEXT, rows INTEGER, head TEXT, signature TEXT,
    PRIMARY KEY (certificate, run, what)
);
"""


class Signed(NamedTuple):
    """A head that a member has signed."""

    population: str  # the tag of the population
    head: Head
    signature: str

    def of(self, certificates: Iterable[str]) -> bool:
        """Whether the owner of one of these certificates has signed it."""
        text, signature = signed_text(self.population, self.head), bytes.fromhex(self.signature)
        return any(signed_by(each, text, signature) for each in certificates)

    def plain(self) -> dict[str, Any]:
        """The ledger as a report states it."""
        return {"population": self.population, **self.head._asdict(), "signature": self.signature}


def signed_text(population: str, head: Head) -> bytes:
    """What a member signs about its ledger."""
    parts = (
        bytes.fromhex(population),
        bytes.fromhex(head.book),
        head.rows.to_bytes(8, "big"),
        bytes.fromhex(head.head),
    )
    return _DOMAIN + b"".join(parts)


def contradiction(before: Head, after: Head) -> str | None:
    """Why two heads that a member showed one after the other cannot be of one ledger that only grew."""
    if after.book != before.book:
        return "another ledger for the same population"
    if after.rows < before.rows:
        return f"an old copy of its ledger: it had {before.rows:,} rows, now {after.rows:,}"
    if after.rows == before.rows and after.head != before.head:
        return "a ledger whose rows were rewritten"
    return None


class Books:
    """The file in the folder of an identity."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE

    def require_new(self, population: str) -> None:
        """Refuses a population that has a ledger already."""
        if self._own(population) is not None:
            raise InputError(
                f"{self.path.parent} knows a ledger of {population!r}: go on with that one; a second one would not "
                "know what was spent"
            )

    def knows(self, population: str) -> bool:
        """Whether this identity has paid from a ledger of this population, or from no ledger at all."""
        with self._open() as db:
            own = [row[0] for row in db.execute("SELECT population FROM own")]
        return not own or population in own

    def require_current(self, ledger: Ledger) -> None:
        """Refuses another ledger for a population than the one that was used before, and an old copy of it."""
        _require_contained(self._own(ledger.population), ledger)

    def require_payer(self, run: str, ledger: Ledger) -> None:
        """Refuses another ledger than the one that has paid for a run. It has the marks of what may have left; in a
        ledger of other people there are none."""
        with self._open() as db:
            found = db.execute("SELECT book FROM paid WHERE run = ?", (run,)).fetchone()
        if found is not None and found[0] != ledger.book:
            raise Over(
                f"this run was paid for from another ledger than {ledger.path}, which does not know what has left in "
                f"it: put that one back, or {NEW_RUN}"
            )

    def note_payer(self, run: str, ledger: Ledger) -> None:
        """Keeps which ledger has paid for a run. To be called before anything leaves. A second process, with another
        ledger, may have been faster."""
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO paid VALUES (?, ?)", (run, ledger.book))
        self.require_payer(run, ledger)

    def note_own(self, ledger: Ledger) -> None:
        """Keeps the head of a ledger that is about to be spent from, or was. A second process, with a copy of the
        ledger, may have been faster: then the copy is refused."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            _require_contained(_own_head(db, ledger.population), ledger)
            db.execute("INSERT OR REPLACE INTO own VALUES (?, ?, ?, ?)", (ledger.population, *ledger.head()))

    def of_run(self, certificate: str, run: str) -> dict[str, Signed]:
        """What a neighbour has shown in a run: the `newest` head; and if it contradicted one before, `before` and
        `after`."""
        return dict(self._read("shown WHERE certificate = ? AND run = ?", fingerprint(certificate), run))

    def known(self, certificate: str) -> dict[str, Signed]:
        """The newest head of each of a neighbour's populations, of any run."""
        found = self._read("seen WHERE certificate = ?", fingerprint(certificate))
        return {signed.population: signed for _, signed in found}

    def keep_shown(self, certificate: str, run: str, shown: Mapping[str, Signed]) -> None:
        """Keeps what a neighbour has shown in a run, for the report."""
        with self._open() as db:
            for what, each in shown.items():
                row = (fingerprint(certificate), run, what, each.population, *each.head, each.signature)
                db.execute("INSERT OR REPLACE INTO shown VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def forget_contradiction(self, certificate: str, run: str) -> None:
        """For a neighbour that has put the right ledger back before this agent paid."""
        with self._open() as db:
            what = "certificate = ? AND run = ? AND what != 'newest'"
            db.execute(f"DELETE FROM shown WHERE {what}", (fingerprint(certificate), run))  # a literal  # nosec B608

    def keep_newest(self, certificate: str, signed: Signed) -> None:
        """Keeps the newest head of a neighbour's ledger, to be shown back in later runs."""
        row = (fingerprint(certificate), signed.population, *signed.head, signed.signature)
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?)", row)

    def _own(self, population: str) -> Head | None:
        with self._open() as db:
            return _own_head(db, population)

    def _read(self, where: str, *values: str) -> list[tuple[str, Signed]]:
        what = "what" if where.startswith("shown") else "''"
        query = f"SELECT {what}, population, book, rows, head, signature FROM {where}"  # literals  # nosec B608
        with self._open() as db:
            return [(row[0], Signed(row[1], Head(*row[2:5]), row[5])) for row in db.execute(query, values)]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Opened for every use: agents of several runs share the file."""
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
                db.executescript(_SCHEMA)
                yield db
        except OSError as error:
            raise failed(error, f"{self.path} cannot be used: {error}") from None
        except sqlite3.Error as error:
            raise database.failed(error, f"{self.path} cannot be used: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{self.path} is damaged: {NO_TEXT}") from None


@dataclass
class _Neighbour:
    """What a neighbour has shown of its ledgers, and what of that is in the log."""

    before: Mapping[str, Signed]  # the newest head of each of its populations, before this run
    newest: Signed | None = None  # the longest that it showed in this run
    at_meeting: Signed | None = None  # what it showed when all met
    changes: int = 0  # how often it has shown something new
    other_people: bool = False  # the log says that it pays from the ledger of another population
    accused: bool = False  # the log says that it contradicts itself
    forgiven: bool = False  # it has put the right ledger back: that counts once


class Heads:
    """The heads of ledgers that an agent shows, and is shown, in one run.

    A neighbour is judged by what was known of it when this agent started, and is shown that. A head that is longer than
    what was known may be that of a fork: only its owner can tell. So what was known is replaced only when all have met:
    by then every owner has seen it, and has stopped if its ledger does not contain it.
    """

    def __init__(self, participant: Participant) -> None:
        self._participant, self._books = participant, participant.books
        self._refused: str | None = None  # why this agent must not pay
        names = () if self._books is None else participant.federation.names
        self._known = {name: _Neighbour(self._remembered(name)) for name in names}
        self._met = participant.has_paid  # also in an earlier process
        self._began = participant.clock.steady()
        self._checked: set[Head] = set()  # own heads that the ledger contains

    def own(self) -> LedgerHead | None:
        """This member's ledger with its signed head, for a greeting."""
        ledger, identity = self._participant.ledger, self._participant.identity
        if ledger is None or self._books is None:
            return None
        population, head = population_tag(identity, ledger.population), ledger.head()
        return _packed(Signed(population, head, identity.sign(signed_text(population, head)).hex()))

    def seen(self, name: str) -> LedgerHead | None:
        """What this agent knew of the ledger that a neighbour pays from, for a greeting."""
        known = self._known.get(name)
        found = None if known is None or known.newest is None else known.before.get(known.newest.population)
        return None if found is None else _packed(found)

    def take(self, name: str, greeting: Greeting) -> str | None:
        """Notes what a neighbour shows; gives a line for the log if it contradicts what the neighbour showed before."""
        if self._books is None:
            return None
        if greeting.HasField("seen"):
            self._shown_back(name, _unpacked(greeting.seen))
        return self._note(name, _unpacked(greeting.ledger)) if greeting.HasField("ledger") else None

    def require_current(self) -> None:
        """Refuses a ledger that is not the one that neighbours know. To be called when this agent has met all its
        neighbours, before it says so: then nobody pays for a run in which this agent cannot take part."""
        if self._refused is not None:
            raise Over(self._refused)

    def settle(self) -> None:
        """All have met: from now on, the newest heads are what is known."""
        self._met = True
        for name, known in self._known.items():
            known.at_meeting = known.newest
            if known.newest is not None:
                self._keep_newest(name, known.newest)

    def _shown_back(self, name: str, signed: Signed) -> None:
        participant, ledger = self._participant, self._participant.ledger
        if signed.head in self._checked or ledger is None:
            return
        if not signed.of(participant.federation.certificates(participant.name)):
            raise BadMessage("it shows a head of a ledger that {} has not signed", participant.name)
        if signed.population != population_tag(participant.identity, ledger.population):
            return
        if ledger.contains(signed.head):
            self._checked.add(signed.head)
        else:
            self._refused = (
                f"{name} has seen {signed.head.rows:,} rows of the ledger of {ledger.population!r}, signed by "
                f"{participant.name}; {ledger.path} does not have them: it is an old copy, or a second ledger. Nothing "
                "is spent; put the right one back"
            )

    def _note(self, name: str, signed: Signed) -> str | None:
        neighbour = self._known[name]
        last = neighbour.newest
        if last is not None and last.population != signed.population:
            raise BadMessage("it shows the ledger of a second population in one run")
        if last is not None and signed.head.book == last.head.book and signed.head.rows <= last.head.rows:
            return None  # no news: greetings may overtake each other
        if not signed.of(self._participant.federation.accepted(name)):
            raise BadMessage("it shows a ledger whose head it has not signed")
        changes = neighbour.changes + 1
        if changes > _MOST_CHANGES + _PER_SECOND * (self._participant.clock.steady() - self._began):
            raise BadMessage("it has shown another head of its ledger {} times in this run", changes)
        neighbour.changes = changes
        before = self._judged_by(name, signed.population)
        wrong = None if before is None else contradiction(before.head, signed.head)
        assert self._books is not None
        shown = {"newest": signed}
        if before is not None and wrong is not None:
            shown |= {"before": before, "after": signed}
        whose, run = self._participant.federation.certificate(name), self._participant.federation.run
        self._books.keep_shown(whose, run, shown)
        neighbour.newest = signed
        if wrong is None and not self._met and neighbour.accused and not neighbour.forgiven:
            neighbour.accused, neighbour.forgiven = False, True
            self._books.forget_contradiction(whose, run)
            return f"{name} has put the right ledger back"
        if self._met:
            self._keep_newest(name, signed)
        if neighbour.before and before is None and not neighbour.other_people:
            neighbour.other_people = True
            return f"{name} pays from the ledger of another population than before"
        if wrong is None or neighbour.accused:
            return None
        neighbour.accused = True
        return f"{name} shows {wrong}; both are in the report"

    def _judged_by(self, name: str, population: str) -> Signed | None:
        """What a neighbour had shown before this run, or else what it showed when all met."""
        return self._known[name].before.get(population, self._known[name].at_meeting)

    def _keep_newest(self, name: str, signed: Signed) -> None:
        """Not if it contradicts what was known: that stays, as evidence."""
        before = self._judged_by(name, signed.population)
        if self._books is None or (before is not None and contradiction(before.head, signed.head) is not None):
            return
        for certificate in self._participant.federation.certificates(name):
            known = self._books.known(certificate).get(signed.population)
            if known is None or contradiction(known.head, signed.head) is None:
                self._books.keep_newest(certificate, signed)

    def _remembered(self, name: str) -> dict[str, Signed]:
        """The newest head of each of a member's populations, under any of its certificates. Of two that contradict each
        other, the one under the older certificate."""
        found: dict[str, Signed] = {}
        assert self._books is not None
        for certificate in self._participant.federation.certificates(name):
            for population, signed in self._books.known(certificate).items():
                if population not in found or contradiction(found[population].head, signed.head) is None:
                    found[population] = signed
        return found


def _own_head(db: sqlite3.Connection, population: str) -> Head | None:
    """The head that is kept of the ledger of a population."""
    found = db.execute("SELECT book, rows, head FROM own WHERE population = ?", (population,)).fetchone()
    return None if found is None else Head(*found)


def _require_contained(known: Head | None, ledger: Ledger) -> None:
    if known is not None and not ledger.contains(known):
        raise Over(
            f"{ledger.path} is not the ledger of {ledger.population!r} that was used here before, or an old copy of "
            f"it: that one had {known.rows:,} rows; put it back"
        )


def population_tag(identity: Identity, population: str) -> str:
    """Names a population to others: always the same, and nobody else can find out which."""
    return hmac.digest(identity.population_key, population.encode(), "sha256").hex()


def _packed(signed: Signed) -> LedgerHead:
    return LedgerHead(
        population=bytes.fromhex(signed.population),
        book=bytes.fromhex(signed.head.book),
        rows=signed.head.rows,
        head=bytes.fromhex(signed.head.head),
        signature=bytes.fromhex(signed.signature),
    )


def _unpacked(raw: LedgerHead) -> Signed:
    if any(len(getattr(raw, name)) != size for name, size in _SIZES.items()) or len(raw.signature) > SIGNATURE_SIZE:
        raise BadMessage("it shows a head of a ledger that is not one")
    if raw.rows >= 2**63:
        raise BadMessage("it shows a ledger with {} rows", raw.rows)
    return Signed(raw.population.hex(), Head(raw.book.hex(), raw.rows, raw.head.hex()), raw.signature.hex())
