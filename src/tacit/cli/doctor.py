"""`tacit agent doctor`: everything that an agent needs, looked at in one go. Nothing is written, nothing is spent."""

from __future__ import annotations

import json as json_format
import shutil
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer

from tacit.agent.transport.sockets import host_and_port
from tacit.cli.console import out as screen
from tacit.cli.records import encoded_for_a_log, read_for_a_log, records_of
from tacit.errors import Over, TacitError

if TYPE_CHECKING:
    from tacit.agent.federation import Federation, Member
    from tacit.data import Table

T = TypeVar("T")
OK, WARN, FAIL = "ok", "warn", "fail"
_SOON = timedelta(days=30)  # a certificate that expires in less is worth a warning
_AHEAD = 60.0  # seconds by which the last heartbeat may lie ahead of the clock
_TIMEOUT = 3.0  # seconds for a neighbour to answer
_ROOM = 100 * 2**20  # bytes of a disk to be left beside what the run needs


class Check(NamedTuple):
    """What was looked at, what came of it (ok, warn, fail), and what to know or to do."""

    what: str
    level: str
    text: str


def show(findings: list[Check], json: bool) -> None:
    """Prints the findings; the exit code is 1 if something has to be mended."""
    if json:
        typer.echo(json_format.dumps([each._asdict() for each in findings]))
    else:
        for what, level, text in findings:
            screen.print(f"{level:4}  {what:12}  {text}", markup=False, soft_wrap=True)
    if any(level == FAIL for _, level, _ in findings):
        raise typer.Exit(1)


def examined(
    federation: Path, identity: Path, data: str, ledger: Path | None, store: Path | None, listen: str | None
) -> list[Check]:
    """All that can be looked at. What rests on a thing that failed is left out."""
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.membership.revocation import revoked
    from tacit.agent.monitoring.status import store_name

    found: list[Check] = []
    written = _tried(found, "federation", lambda: Federation.load(federation).refusing(revoked(identity)))
    own = _tried(found, "identity", lambda: Identity.load(identity))
    table = _tried(found, "data", lambda: read_for_a_log(data))
    if written is None or own is None:
        return found
    me = _tried(found, "identity", lambda: written.place(own.name, own.certificate))
    if me is None:
        return found
    agreed = _as_of_now(written, own.name)
    path = identity / store_name(agreed) if store is None else store
    near = [agreed.members[j] for j in agreed.graph.neighbours(me)]
    checks: dict[str, Callable[[], Iterator[Check]]] = {
        "federation": lambda: _federation(agreed),
        "identity": lambda: iter([Check("identity", OK, f"{own.name}, in {identity}")]),
        "certificates": lambda: _certificates(agreed, own.name, federation, identity),
        "renewal": lambda: _renewal(agreed, near, federation, identity),
        "refused": lambda: _refused(agreed, identity),
        "data": lambda: _data(agreed, me, table),
        "ledger": lambda: _ledger(agreed, me, ledger, identity, table),
        "store": lambda: _store(path, agreed, own.name, ledger),
        "disk": lambda: _disk(path, agreed, me),
        "peers": lambda: _peers(agreed, near, identity),
    }
    for what, check in checks.items():
        try:
            found += check()
        except TacitError as error:
            found.append(Check(what, FAIL, " ".join(str(error).split())))
    alive = any(each.what == "store" and "runs now" in each.text for each in found)
    found.append(_port(listen or agreed.members[me].address, alive))
    return found


def _as_of_now(written: Federation, own: str) -> Federation:
    try:
        return written.as_of_now(own)
    except TacitError:
        return written  # `_certificates` says whose date is wrong


def _tried(found: list[Check], what: str, act: Callable[[], T]) -> T | None:
    try:
        return act()
    except TacitError as error:
        found.append(Check(what, FAIL, " ".join(str(error).split())))
        return None


def _federation(agreed: Federation) -> Iterator[Check]:
    from tacit.agent.able import check_sums
    from tacit.agent.federation import SUMS

    rounds = agreed.setting.rounds  # refuses noise that does not keep the budget
    if agreed.exchange == SUMS:
        check_sums(agreed.setting)
    yield Check("federation", OK, f"{agreed.title!r}, {rounds} rounds, run {agreed.run[:16]}")


def _certificates(agreed: Federation, own: str, file: Path, home: Path) -> Iterator[Check]:
    """The last one of every member: agents refuse a file in which one has expired, unless they may go on without that
    member."""
    from tacit.agent.identity import check_dates, expiry, read_certificate

    for name in agreed.names:
        certificate = read_certificate(agreed.certificates(name)[-1], f"the certificate of {name}")
        try:
            check_dates(certificate)
        except TacitError as error:
            yield Check("certificates", WARN if name in agreed.expired else FAIL, str(error))
            continue
        until = expiry(certificate)
        soon, text = until - datetime.now(UTC) < _SOON, f"{name}: valid until {until:%Y-%m-%d %H:%M} UTC"
        if soon and name == own:
            text += f"; renew it: tacit federation renew {file} --identity {home}"
        elif soon:
            text += f"; ask {name} to renew it (tacit federation renew)"
        yield Check("certificates", WARN if soon else OK, text)


def _renewal(agreed: Federation, near: list[Member], file: Path, home: Path) -> Iterator[Check]:
    """Whether the neighbours let the new key in already."""
    from tacit.agent.membership import renewal

    if (coming := renewal.waiting(home)) is None:
        return
    command = f"tacit federation accept {file} STATEMENT --identity {home}"
    text = f"the old key counts until {coming.until}; when all have accepted the statement, give {command}"
    yield Check("renewal", WARN, text)
    for member in (each for each in near if each.name not in agreed.refused):
        try:
            let_in = _lets_in(member, agreed, home / renewal.NEXT)
        except ssl.SSLError:
            let_in = False
        except OSError as error:
            yield Check("renewal", WARN, f"{member.name}: cannot tell whether it has accepted the new key ({error})")
            continue
        text = "lets the new key in" if let_in else "has not accepted the new key, or has not started again since"
        yield Check("renewal", OK if let_in else WARN, f"{member.name} {text}")


def _refused(agreed: Federation, home: Path) -> Iterator[Check]:
    from tacit.agent.membership.revocation import namesakes

    for name in namesakes(home, agreed):
        yield Check("refused", WARN, f"{name} was revoked here with another certificate; this file lets it in again")
    for name, why in agreed.refused.items():
        what = "the run goes on without it if enough of its neighbours sign that it is away"
        if not agreed.go_on_after:
            what = "the run cannot go on without it: agree on a new version of the federation"
        yield Check("refused", WARN if agreed.go_on_after else FAIL, f"{name} is refused: {why}; {what}")


def _data(agreed: Federation, me: int, table: Table | None) -> Iterator[Check]:
    if table is None:
        return
    data = encoded_for_a_log(table, agreed.schema)  # what this command prints may be sent to others
    kinds = ("outside the schema's bounds", data.clipped), ("not in the schema's categories", data.unknown)
    for kind, columns in kinds:
        for column, count in columns.items():
            text = f"column {column!r}: {count:,} of {len(table):,} values are {kind}; tacit validate shows them"
            yield Check("data", WARN, text)
    rows = agreed.members[me].rows
    if len(data) != rows:
        text = f"{len(data):,} rows; the federation file says {rows:,}: use the agreed file, or write a new federation"
        yield Check("data", FAIL, text)
    else:
        yield Check("data", OK, f"{rows:,} rows that fit the schema")


def _ledger(agreed: Federation, me: int, path: Path | None, home: Path, table: Table | None) -> Iterator[Check]:
    from tacit.agent.ledger_heads import Books
    from tacit.agent.participant import reserved
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Ledger

    if not agreed.private:
        yield Check("ledger", WARN, "no budget is agreed on: nothing of this run is private")
        return
    if path is None:
        yield Check("ledger", FAIL, "a private run needs one: give --ledger")
        return
    with Ledger(path, cost=epsilon) as opened:
        opened.verify()
        books = Books(home)
        if books.path.exists():  # it would be made otherwise
            books.require_current(opened)
            books.require_payer(agreed.run, opened)
            if not books.knows(opened.population):
                what = "give the right --ledger, or go on if these are other people"
                text = f"its population is not one that this identity has paid for before: {what}"
                yield Check("ledger", WARN, text)
        charged = None if table is None else records_of(table, opened)
        paid = any(each.run == agreed.run for each in opened.runs())
        if not paid:
            opened.check_run(Counter(reserved(agreed, me).values()), records=charged)
        state = f"{opened.population}: this run {'is paid for' if paid else 'fits'}"
        yield Check("ledger", OK, f"{state}; epsilon = {opened.epsilon():.4g} is spent, the cap is {opened.cap()}")


def _marked(path: Path | None, run: str) -> set[int]:
    """The ticks of a run that may have left, by the ledger; none if it cannot be read, which its own line says."""
    from tacit.privacy.filters import epsilon
    from tacit.privacy.ledger import Ledger

    if path is None:
        return set()
    try:
        with Ledger(path, cost=epsilon) as opened:
            return set(opened.marks(run))
    except TacitError:
        return set()


def _store(path: Path, agreed: Federation, name: str, ledger: Path | None) -> Iterator[Check]:
    from tacit.agent.store import check

    marked = _marked(ledger, agreed.run)  # before the store: an agent that runs commits to it first
    found = check(path)
    if found is None:
        if marked:
            raise Over(
                f"the ledger shows that {name} has sent messages in this run, but {path} is gone: put it back "
                "(tacit agent restore), or agree on a new run under another title"
            )
        yield Check("store", OK, "none yet: the agent has not been started")
        return
    if (found.run, found.member) != (agreed.run, name):
        raise Over(f"{path} is the store of {found.member} in the run {found.run[:12]}: give the right --store")
    # of runs that went on without somebody, the ledger counts releases, of which a store has a part
    if not found.without and max(marked, default=-1) > found.tick:
        raise Over(
            f"the ledger shows that {name} has sent messages up to tick {max(marked)}, but {path} ends at tick "
            f"{found.tick}: it is an old copy. Put the newest one back (tacit agent restore), or agree on a new run "
            "under another title"
        )
    ago = None if found.heartbeat is None else time.time() - found.heartbeat
    # An agent that was stopped has a recent heartbeat, too: this does not say that it runs.
    lately = ago is not None and abs(ago) < 10 and found.doing != "finished"
    now = f"; its agent was alive {abs(ago or 0):.0f} s ago" if lately else ""
    yield Check("store", OK, f"every digest fits; round {max(found.tick, 0)} of {found.rounds}{now}")
    if ago is not None and ago < -_AHEAD:
        yield Check("clock", WARN, f"the agent was last alive {-ago:.0f} s from now: set this machine's clock")
    else:
        yield Check("clock", OK, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")


def _disk(path: Path, agreed: Federation, me: int) -> Iterator[Check]:
    releases, dimension = len(agreed.plans[me]), agreed.setting.facts.dimension
    needed = 8 * dimension * (2 * releases + 20) + 4096 * releases  # here and in the ledger; and two states
    free = shutil.disk_usage(path.parent if path.parent.exists() else ".").free
    level = FAIL if free < needed else WARN if free < needed + _ROOM else OK
    what = "" if level == OK else ": make room, a full disk stops the agent"
    yield Check("disk", level, f"{free / 2**20:,.0f} MB are free, the run needs about {needed / 2**20:,.1f} MB{what}")


def _peers(agreed: Federation, near: list[Member], home: Path) -> Iterator[Check]:
    for member in near:
        if member.name in agreed.refused:
            continue
        try:
            let_in = _lets_in(member, agreed, home)
        except ssl.SSLError as error:
            yield Check("peers", FAIL, f"{member.name} at {member.address} is somebody else, or refuses us: {error}")
        except OSError as error:
            why = "it is not started, or a firewall is between"
            text = f"{member.name} at {member.address} does not answer ({error}): {why}"
            yield Check("peers", WARN, text)
        else:
            text = "answers, with its certificate" if let_in else "does not let us in: compare the federation files"
            yield Check("peers", OK if let_in else FAIL, f"{member.name} at {member.address} {text}")


def _lets_in(member: Member, agreed: Federation, home: Path) -> bool:
    """Whether a neighbour, whose certificate is checked, goes on after it has seen the one in this folder."""
    from tacit.agent.identity import Identity
    from tacit.agent.transport.tls import PROTOCOL, context
    from tacit.agent.transport.tls_streams import OTHER_VERSION

    tls = context(Identity.load(home), agreed.accepted(member.name), called=False)
    host, port = host_and_port(member.address)
    with (
        socket.create_connection((host, int(port)), timeout=_TIMEOUT) as plain,
        tls.wrap_socket(plain) as connection,
    ):
        if connection.selected_alpn_protocol() != PROTOCOL:
            raise ssl.SSLError(f"it {OTHER_VERSION}")
        return connection.recv(1) != b""


def _port(address: str, alive: bool) -> Check:
    host, port = host_and_port(address)
    try:
        family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, int(port)))
    except (OSError, ValueError) as error:
        if alive:
            return Check("port", OK, f"{address} is in use, by the agent itself")
        return Check("port", FAIL, f"cannot listen at {address} ({error}): give --listen, or end what uses the port")
    return Check("port", OK, f"{address} is free")
