"""A second place for the ledger's head: whatever has left is in it, and a ledger that has forgotten some is refused."""

import os
import shutil
import subprocess
import sys

import ledger_worker
import pytest
from ledger_case import CAP, released, tamper
from ledger_worker import ROUND, RUN, cost, open_ledger

from tacit.errors import MachineError
from tacit.privacy.ledger import About, AnotherVersion, Cap, Ledger, LedgerError, Records
from tacit.privacy.ledger.entries import LedgerUnavailable
from tacit.privacy.ledger.second import VARIABLE, SecondPlace, rewritten

DIGEST, NONCE = bytes(range(32)), bytes(16)
ABOUT = About("dvp", "spring study", Records("sha256:ab", 100))
# Every call that writes to a ledger which has paid for a round of RUN.
WRITES = {
    "cap": lambda ledger: ledger.set_cap(CAP),
    "run": lambda ledger: ledger.reserve_run("autumn", {0: ROUND, 1: ROUND}, ABOUT),
    "rounds": lambda ledger: ledger.reserve_run("autumn", {0: ROUND, 1: ROUND, 2: ROUND}),
    "reserve": lambda ledger: ledger.reserve("autumn", 0, ROUND),
    "start": lambda ledger: ledger.start(RUN, NONCE),
    "store": lambda ledger: ledger.store(RUN, 0, b"one"),
    "mark": lambda ledger: ledger.mark(RUN, 0, DIGEST, 1),
}


@pytest.fixture
def heads(tmp_path, monkeypatch):
    """The folder on other storage."""
    folder = tmp_path / "heads"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.fixture
def ledger(heads, tmp_path):
    with open_ledger(tmp_path) as made:
        made.set_cap(CAP)
        made.reserve(RUN, 0, ROUND)
        made.start(RUN, NONCE)
        yield made


def kept(heads):
    (path,) = heads.iterdir()
    rows, head = path.read_text().split()
    return int(rows), head


def state(folder):
    """The ledger, as a copy would have it."""
    return {path.name: path.read_bytes() for path in folder.glob("ledger*")}


def put_back(folder, copy):
    for path in folder.glob("ledger*"):
        path.unlink()
    for name, content in copy.items():
        (folder / name).write_bytes(content)


def refusal(folder, kind=LedgerError):
    with pytest.raises(LedgerError) as refused:
        open_ledger(folder)
    assert isinstance(refused.value, AnotherVersion) == (kind is AnotherVersion)
    assert refused.value.exit_code == kind.exit_code
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_call_that_returned_is_in_the_second_place(ledger, heads, write):
    before = ledger.head().rows
    write(ledger)
    assert kept(heads) == ledger.head()[1:]
    assert ledger.head().rows > before
    (path,) = heads.iterdir()
    assert path.name == f"{ledger.book}.head"
    assert (path.stat().st_size, path.stat().st_mode & 0o777) == (86, 0o600)


def test_the_second_place_is_synced_after_the_ledger_and_before_the_call_returns(ledger, heads, monkeypatch):
    """And under the ledger's lock: an older head never replaces a newer one of another process."""
    order, db, fsync = [], ledger._file.db, os.fsync
    assert db.execute("PRAGMA synchronous").fetchall() == [(2,)]  # FULL: a commit returns when it is on the disk
    db.set_trace_callback(lambda sql: order.append(sql) if sql == "COMMIT" else None)
    monkeypatch.setattr(os, "fsync", lambda file: (fsync(file), order.append((kept(heads)[0], db.in_transaction))))
    ledger.mark(RUN, 0, DIGEST, 1)
    assert order == ["COMMIT", (ledger.head().rows, True)]


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_nothing_is_done(tmp_path, monkeypatch, value):
    monkeypatch.delenv(VARIABLE, raising=False) if value is None else monkeypatch.setenv(VARIABLE, value)
    monkeypatch.chdir(tmp_path)
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
        synced, locked = [], []
        monkeypatch.setattr(os, "fsync", synced.append)
        ledger._file.db.set_trace_callback(lambda sql: locked.append(sql) if sql.startswith("BEGIN") else None)
        released(ledger, 2)
        assert not synced
        assert len(locked) == 4
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"ledger"}


def test_an_old_ledger_is_refused_and_the_newest_is_not(ledger, heads, tmp_path):
    copies = []
    for write in WRITES.values():
        copies.append(state(tmp_path))
        if write not in (WRITES["mark"], WRITES["rounds"]):  # they say the same as others
            write(ledger)
    newest, second = state(tmp_path), kept(heads)
    ledger.close()
    for copy in copies[:-3]:
        put_back(tmp_path, copy)
        assert "ledger is an old copy, or was rewritten: it had" in refusal(tmp_path, AnotherVersion)
        with pytest.raises(AnotherVersion):  # no command takes the second place back
            rewritten(tmp_path / "ledger", heads)
        assert kept(heads) == second
    put_back(tmp_path, newest)
    with open_ledger(tmp_path) as again:
        again.reserve(RUN, 1, ROUND)
        assert kept(heads) == again.head()[1:]


def test_a_ledger_that_was_emptied_or_rewritten_is_refused(ledger, heads, tmp_path):
    ledger.close()
    whole = state(tmp_path)
    tamper(tmp_path / "ledger", "DELETE FROM entries")
    refusal(tmp_path, AnotherVersion)
    put_back(tmp_path, whole)
    tamper(tmp_path / "ledger", "DELETE FROM entries WHERE number = 3")
    with pytest.MonkeyPatch.context() as without:
        without.delenv(VARIABLE)
        with open_ledger(tmp_path) as fork:  # as long as before, with another row
            fork.start(RUN, DIGEST[:16])
            assert fork.head().rows == kept(heads)[0]
    refusal(tmp_path, AnotherVersion)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_one_transaction_behind_needs_nobody(ledger, heads, tmp_path, monkeypatch, write):
    before = kept(heads)
    with monkeypatch.context() as dying:
        dying.setattr(SecondPlace, "follow", lambda self: None)
        write(ledger)
    rows = ledger.head().rows
    assert kept(heads) == before
    with open_ledger(tmp_path) as again:
        assert kept(heads) == before  # to look changes nothing
        again.start("another run", NONCE)
        assert kept(heads) == again.head()[1:]
        assert again.head().rows == rows + 1


@pytest.mark.parametrize("first", WRITES)
@pytest.mark.parametrize("then", ["cap", "start"])
def test_more_than_one_transaction_behind_needs_somebody(ledger, heads, tmp_path, first, then):
    (path,) = heads.iterdir()
    old = path.read_bytes()
    WRITES[first](ledger)
    WRITES[then](ledger)
    newest = kept(heads)
    path.write_bytes(old)
    said = refusal(tmp_path)
    assert f"is older than {tmp_path / 'ledger'}: it has 3 of {newest[0]} rows" in said
    with pytest.raises(LedgerError, match="is older than"):  # a process that runs sees it, too, and writes nothing
        ledger.reserve(RUN, 5, ROUND)
    assert ledger.head().rows == newest[0]
    assert said.endswith(f"tacit ledger head {tmp_path / 'ledger'} --to {heads}")
    assert rewritten(tmp_path / "ledger", heads)[1:] == (3, ledger.head())
    assert kept(heads) == newest
    open_ledger(tmp_path).close()


def test_a_file_that_is_missing_is_made_for_a_new_ledger_only(heads, tmp_path):
    new = open_ledger(tmp_path)
    (path,) = heads.iterdir()
    path.write_bytes(b"")  # the process died before it wrote anything
    open_ledger(tmp_path).close()
    path.unlink()
    open_ledger(tmp_path).close()
    assert kept(heads) == new.head()[1:]
    new.set_cap(CAP)
    new.close()
    for lose in (path.unlink, path.touch):
        lose()
        assert f"{path} is missing" in refusal(tmp_path)
    assert not path.stat().st_size
    rewritten(tmp_path / "ledger", heads)
    open_ledger(tmp_path).close()


@pytest.mark.parametrize(
    "damage", [b"\xff" * 86, b"9" * 20 + b" " + b"a" * 64 + b"\n", b"1 2\n", b"0" * 500], ids=range(4)
)
def test_a_damaged_file_is_refused(ledger, heads, tmp_path, damage):
    (path,) = heads.iterdir()
    path.write_bytes(damage)
    assert f"{path} is damaged" in refusal(tmp_path)
    rewritten(tmp_path / "ledger", heads)
    assert kept(heads) == ledger.head()[1:]


def test_no_folder_no_start(ledger, heads, tmp_path):
    heads.rename(tmp_path / "pulled out")
    assert f"{heads} is not there" in refusal(tmp_path, LedgerUnavailable)
    rows = ledger.head().rows
    with pytest.raises(MachineError, match=r"is not there.*costs nothing more"):
        ledger.mark(RUN, 0, DIGEST, 1)
    assert ledger.head().rows == rows
    with pytest.raises(LedgerError, match="is not there"):
        Ledger.new(tmp_path / "other", population="ward 8", cost=cost)
    (tmp_path / "pulled out").rename(heads)
    ledger.mark(RUN, 0, DIGEST, 1)
    assert kept(heads) == ledger.head()[1:]


def test_a_write_that_fails_lets_nothing_leave_and_costs_nothing(ledger, heads, tmp_path, monkeypatch):
    """The share goes away in the middle of a call: rows are in the ledger, the call raises, and is made again."""

    def broken(file):
        raise OSError(5, "Input/output error")

    for again in (False, True):
        with monkeypatch.context() as away:
            away.setattr(os, "fsync", broken)
            with pytest.raises(MachineError, match="cannot be used: Input/output error; nothing may leave") as refused:
                ledger.reserve_run("autumn", {0: ROUND, 1: ROUND}, ABOUT)
        assert "\n" not in str(refused.value)
        assert ledger.spent()[ROUND] == 3, again
    with open_ledger(tmp_path) as other:
        other.reserve_run("autumn", {0: ROUND, 1: ROUND}, ABOUT)
        assert other.spent()[ROUND] == 3
        assert kept(heads) == other.head()[1:]


def test_of_two_live_copies_with_one_second_place_one_stops(ledger, heads, tmp_path):
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    with Ledger(tmp_path / "copy", cost=cost) as copy:
        ledger.mark(RUN, 0, DIGEST, 1)
        with pytest.raises(AnotherVersion, match="copy is an old copy"):
            copy.mark(RUN, 0, DIGEST[::-1], 1)
        assert not copy.marks(RUN)


def test_the_slower_one_stops_even_in_the_middle_of_a_call(ledger, heads, tmp_path, monkeypatch):
    shutil.copy(tmp_path / "ledger", tmp_path / "copy")
    with Ledger(tmp_path / "copy", cost=cost) as copy:
        monkeypatch.setattr(copy, "_catch_up", lambda: ledger.mark(RUN, 0, DIGEST, 1))
        with pytest.raises(AnotherVersion, match="copy is an old copy"):
            copy.mark(RUN, 0, DIGEST[::-1], 1)
    assert kept(heads) == ledger.head()[1:]
    ledger.reserve(RUN, 1, ROUND)


def test_a_foreign_ledger_names_no_file_outside_the_folder(heads, tmp_path):
    open_ledger(tmp_path).close()
    (path,) = heads.iterdir()
    path.unlink()
    tamper(tmp_path / "ledger", "UPDATE meta SET book = '../outside'")
    open_ledger(tmp_path).close()
    assert [path.name for path in heads.iterdir()] == ["outside.head"]
    assert not (tmp_path / "outside.head").exists()


def work(job, folder, *settings):
    command = [sys.executable, ledger_worker.__file__, job, folder, *map(str, settings)]
    subprocess.run(command, check=True, timeout=300)


def assert_one_version(folder):
    lines = {tuple(line.split()) for line in (folder / "sent").read_text().splitlines()}
    assert len({tick for tick, _ in lines}) == len(lines)
    return len(lines)


def test_a_kill_between_the_two_writes_needs_nobody(ledger, heads, tmp_path):
    ledger.set_cap(Cap(100.0, 1e-6))
    work("between", tmp_path, 15)
    assert assert_one_version(tmp_path) == 31
    assert kept(heads) == ledger.head()[1:]
    assert ledger.spent()[ROUND] == 31


def test_a_kill_at_any_moment_needs_nobody(ledger, heads, tmp_path):
    ledger.set_cap(Cap(1e9, 1e-6))  # nobody knows how far they get
    work("kills", tmp_path, 20, 7)
    with open_ledger(tmp_path) as again:
        again.verify()
        again.set_cap(Cap(1e9, 1e-7))
        assert kept(heads) == again.head()[1:]


def test_many_processes_at_once(heads, tmp_path):
    """They open the ledger, and write to it, while others are between their two writes."""
    work("race", tmp_path, 4, 20.0)
    with open_ledger(tmp_path) as ledger:
        assert ledger.spent()[ROUND] == 40
        assert kept(heads) == ledger.head()[1:]
