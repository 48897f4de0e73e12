"""Marks: what may have left is known for good, whatever becomes of the file that has the bytes."""

import shutil
import sqlite3
import threading
from contextlib import closing
from hashlib import sha256

import pytest
from ledger_case import CAP, released, tamper
from ledger_format_2 import moved_back
from ledger_worker import ROUND, RUN, cost, open_ledger

from tacit.errors import InputError
from tacit.privacy.ledger import AnotherVersion, Ledger, LedgerError

ONE, OTHER = sha256(b"one").digest(), sha256(b"other").digest()
NONCE = bytes(16)


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path) as made:
        made.set_cap(CAP)
        yield made


def paid(ledger, rounds=3):
    ledger.reserve_run(RUN, dict.fromkeys(range(rounds), ROUND))
    return ledger.start(RUN, NONCE)


def test_a_round_has_one_mark_for_good(ledger, tmp_path):
    start = paid(ledger)
    ledger.mark(RUN, 0, ONE, start)
    ledger.mark(RUN, 0, ONE, start)
    rows = ledger.head().rows
    with pytest.raises(AnotherVersion, match="something else may have left at tick 0") as refused:
        ledger.mark(RUN, 0, OTHER, start)
    assert refused.value.exit_code == 78
    assert ledger.head().rows == rows  # what was refused has written nothing
    with open_ledger(tmp_path) as again:
        assert again.marks(RUN) == {0: ONE}
        assert again.verify().released == 1


def test_what_is_reserved_is_in_the_file_itself_and_a_mark_is_on_the_disk_with_the_log(ledger, tmp_path):
    """A copy without the log beside it has paid for all that has left; one with the log has every mark, too."""
    assert ledger._file.rows("PRAGMA synchronous") == [(2,)]  # FULL: a commit returns when the log is on the disk
    start = paid(ledger)
    ledger.mark(RUN, 0, ONE, start)
    for name, parts in (("alone", ["ledger"]), ("with the log", ["ledger", "ledger-wal"])):
        (tmp_path / name).mkdir()
        for part in parts:
            shutil.copy(tmp_path / part, tmp_path / name / part)
    with open_ledger(tmp_path / "alone") as copy:
        assert set(copy.reserved(RUN)) == {0, 1, 2}
    with open_ledger(tmp_path / "with the log") as copy:
        assert copy.marks(RUN) == {0: ONE}


def test_payloads_are_marks_too(ledger):
    start = paid(ledger)
    ledger.store(RUN, 0, b"one")
    assert ledger.marks(RUN) == {0: ONE}
    ledger.mark(RUN, 0, ONE, start)
    with pytest.raises(AnotherVersion):
        ledger.mark(RUN, 0, OTHER, start)
    ledger.mark(RUN, 1, ONE, start)
    with pytest.raises(AnotherVersion, match="kept elsewhere"):
        ledger.store(RUN, 1, b"one")


def test_what_is_not_paid_for_cannot_be_marked(ledger):
    start = paid(ledger, rounds=3)
    with pytest.raises(LedgerError, match=r"round 3 .* is not reserved"):
        ledger.mark(RUN, 3, ONE, start)
    with pytest.raises(InputError, match="32 bytes"):
        ledger.mark(RUN, 0, b"short", start)
    with pytest.raises(LedgerError, match=r"process 2 .* is not in"):
        ledger.mark(RUN, 0, ONE, 2)


def test_starts_only_grow_and_the_last_one_alone_may_mark(ledger, tmp_path):
    first = paid(ledger)
    with open_ledger(tmp_path) as other:
        second = other.start(RUN, bytes(range(16)))
        assert (first, second) == (1, 2)
        assert other.start("another run", NONCE) == 1
        other.mark(RUN, 0, ONE, second)
    with pytest.raises(AnotherVersion, match="process 2 of this agent has started"):
        ledger.mark(RUN, 1, ONE, first)
    with pytest.raises(AnotherVersion):
        ledger.mark(RUN, 0, ONE, first)  # not even the same bytes: it cannot know what the other one does next


def test_two_processes_that_start_at_once_get_two_numbers(ledger, tmp_path):
    paid(ledger)
    numbers = []

    def start():
        with open_ledger(tmp_path) as mine:
            numbers.append(mine.start(RUN, NONCE))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(numbers) == [2, 3, 4, 5]


def test_what_is_reserved_after_a_mark_is_later(ledger, tmp_path):
    start = paid(ledger)
    assert not ledger.told()
    ledger.mark(RUN, 0, ONE, start)
    assert ledger.told()
    ledger.reserve("next", 0, ROUND)
    assert ledger.adaptive()
    with open_ledger(tmp_path) as again:
        assert again.adaptive()
    (run, _) = ledger.runs()
    assert (run.run, run.released, run.events.total()) == (RUN, 1, 3)


def test_a_start_before_the_payment_does_not_name_the_run(ledger):
    from tacit.privacy.ledger import About

    ledger.start(RUN, NONCE)
    ledger.reserve_run(RUN, {0: ROUND}, About("a method", "a title"))
    assert [run.title for run in ledger.runs()] == ["a title"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE entries SET body = x'00' WHERE kind = 'mark'", "not what was written"),
        ("DELETE FROM entries WHERE kind = 'start'", "does not continue"),
        ("UPDATE entries SET tick = 7 WHERE kind = 'mark'", "not what was written"),
    ],
)
def test_a_changed_mark_is_found(ledger, tmp_path, change, fault):
    ledger.mark(RUN, 0, ONE, paid(ledger))
    tamper(tmp_path / "ledger", change)
    with pytest.raises(LedgerError, match=fault):
        open_ledger(tmp_path)


@pytest.mark.parametrize(
    ("kind", "tick", "body", "fault"),
    [
        ("mark", 0, b"short", "it cannot be read"),
        ("mark", 9, ONE, "its round was not reserved"),
        ("start", 3, b'{"nonce":"","when":""}', "not the next start"),
        ("start", 2, b"{}", "it cannot be read"),
    ],
)
def test_rows_that_break_a_rule_are_refused_although_the_chain_fits(ledger, tmp_path, kind, tick, body, fault):
    paid(ledger)
    ledger._file.append(kind, RUN, tick, body)
    with pytest.raises(LedgerError, match=fault):
        open_ledger(tmp_path)


def test_a_ledger_of_the_format_before_is_moved_on_and_keeps_its_heads(ledger, tmp_path):
    released(ledger, 5)
    ledger.close()
    path = tmp_path / "ledger"
    moved_back(path)
    with closing(sqlite3.connect(path)) as db:
        before = db.execute("SELECT * FROM entries").fetchall()
        with pytest.raises(sqlite3.IntegrityError):  # it is the format before: a mark is unknown to it
            db.execute("INSERT INTO entries VALUES (99, 'mark', '', 0, x'', '', '')")
    with Ledger(path, cost=cost) as moved:
        head = moved.head()
        assert (moved.verify().released, moved.epsilon()) == (5, 5 * ROUND.epsilon)
        assert moved.begun_without_marks(RUN)
        assert not moved.begun_without_marks("another run")
        start = moved.start(RUN, NONCE)
        with pytest.raises(AnotherVersion):
            moved.mark(RUN, 0, ONE, start)
        moved.reserve(RUN, 5, ROUND)
        moved.mark(RUN, 5, ONE, start)  # one mark does not show what else has left
        assert moved.begun_without_marks(RUN)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT * FROM entries WHERE number <= ?", (len(before),)).fetchall() == before
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):  # the rules are there again
            db.execute("DELETE FROM entries")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute("INSERT OR REPLACE INTO entries VALUES (1, 'cap', '', 0, x'', '', '')")
    with Ledger(path, cost=cost) as again:
        assert again.contains(head)
        assert again.verify(head.head).reservations == 6


def test_many_processes_move_a_ledger_on_at_once(ledger, tmp_path):
    released(ledger, 3)
    ledger.close()
    moved_back(tmp_path / "ledger")
    found = []

    def open_it():
        with Ledger(tmp_path / "ledger", cost=cost) as mine:
            found.append(mine.verify().released)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [3] * 6


@pytest.mark.parametrize("rows", [0, 1, 3, 4])
def test_contains_looks_at_the_one_row_of_a_head(ledger, rows):
    released(ledger, 2)  # a cap, and two rows for each
    heads = ledger._heads()
    head = ledger.head()._replace(rows=rows, head=heads[rows])
    assert ledger.contains(head)
    assert not ledger.contains(head._replace(rows=rows + 1))
    assert not ledger.contains(head._replace(rows=99))
    assert not ledger.contains(head._replace(book="00" * 16))
