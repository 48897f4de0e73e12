"""The ledger: never overspent, never two payloads for one round, never quietly changed; not even by a crash."""

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from hashlib import sha256

import ledger_worker as worker
import pytest
from ledger_case import CAP, released, tamper
from ledger_worker import ROUND, RUN, cost, open_ledger

from tacit.errors import InputError, MachineError
from tacit.privacy.events import Free, Pure, Unprotected
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger, LedgerError
from tacit.privacy.ledger.file import create, last_charge


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path) as made:
        made.set_cap(CAP)
        yield made


# Crashes


def work(job, folder, *settings):
    """Runs a job of ledger_worker.py in a process of its own."""
    command = [sys.executable, worker.__file__, job, str(folder), *map(json.dumps, settings)]
    subprocess.run(command, check=True, timeout=300)


def faults(folder):
    """How what was sent contradicts the ledger: empty if every release is recorded, paid for, and was sent in one
    version only."""
    found = []
    sent = {}
    for line in (folder / "sent").read_text().splitlines():
        tick, digest = line.split()
        sent.setdefault(int(tick), set()).add(digest)
    with Ledger(folder / "ledger", cost=cost) as ledger:
        checked = ledger.verify()
        for tick, digests in sent.items():
            if len(digests) > 1:
                found.append(f"round {tick} was sent in {len(digests)} versions")
            payload = ledger.payload(RUN, tick)
            if payload is None or sha256(payload).hexdigest() not in digests:
                found.append(f"round {tick} was sent and is not recorded")
        reserved = [entry.tick for entry in ledger.entries() if entry.kind == "reserve"]
        if ledger.spent() != Counter({ROUND: len(reserved)}) or checked.epsilon != ROUND.epsilon * len(reserved):
            found.append("what is spent is not what was reserved")
        if reserved != list(range(len(reserved))) or not set(sent) <= set(reserved):
            found.append("a round was paid for twice, or not at all")
    return found


@pytest.mark.slow
def test_200_kills_at_random_moments(tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(Cap(1e6, 1e-6))
    work("kills", tmp_path, 200, 20240229)
    assert faults(tmp_path) == []
    sent = (tmp_path / "sent").read_text().splitlines()
    assert len(sent) > 20  # the workers got somewhere before they died
    assert len(set(sent)) < len(sent)  # and some died so that the next sent the same bytes again


def behind(folder):
    """Copies of the main file that show less than what had left when they were made; and how many could be read."""
    found, read = [], 0
    for line in (folder / "copies").read_text().splitlines():
        name, seen = line.split()
        try:
            with Ledger(folder / name, cost=cost) as copy:
                reserved = copy.verify().reservations
        except LedgerError:
            continue  # made in the middle of a write: nobody spends from it
        read += 1
        if reserved < int(seen):
            found.append(f"{name} shows {reserved} rounds where {seen} had left")
    return found, read


@pytest.mark.slow
@pytest.mark.parametrize("planted", [False, True])
def test_a_copy_of_the_file_alone_is_never_behind_what_has_left(tmp_path, planted):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(Cap(1e6, 1e-6))
    count = int(os.environ.get("TACIT_KILLS", "25"))
    work("copies_unsettled" if planted else "copies", tmp_path, count, 20260229)
    found, read = behind(tmp_path)
    assert read > count  # nearly all copies can be read
    assert bool(found) == planted
    assert faults(tmp_path) == []


@pytest.mark.parametrize("point", worker.POINTS)
def test_a_death_at_each_point_of_a_round(tmp_path, point):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
    work("deaths", tmp_path, point, 5, False)
    assert faults(tmp_path) == []
    assert {line.split()[0] for line in (tmp_path / "sent").read_text().splitlines()} == set("01234")


def test_the_checker_catches_a_worker_that_sends_before_it_stores(tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
    work("deaths", tmp_path, "sent, not stored", 3, True)
    found = faults(tmp_path)
    assert [f"round {tick} was sent in 2 versions" for tick in range(3)] == found


def test_the_checker_catches_a_release_that_was_never_stored(tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
        ledger.reserve(RUN, 0, ROUND)
    worker.send(tmp_path, 0, b"unrecorded")
    assert faults(tmp_path) == ["round 0 was sent and is not recorded"]


def test_eight_processes_use_one_cap_fully_and_never_pass_it(tmp_path):
    epsilon = 100.2  # 200 rounds of 0.5, and not one more
    work("race", tmp_path, 8, epsilon)
    with open_ledger(tmp_path) as ledger:
        spent = ledger.verify().epsilon
        assert spent <= epsilon < spent + ROUND.epsilon
        assert sum(run.events.total() for run in ledger.runs()) == 200
        assert len(ledger.runs()) > 1  # they did meet
    assert [file.name for file in tmp_path.iterdir()] == ["ledger"]  # all made it at once: no drafts remain


def test_every_commit_waits_for_the_disk(ledger):
    assert ledger._file.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert ledger._file.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_log_torn_anywhere_leaves_a_whole_beginning_of_the_history(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger._file, "_settle", lambda: None)  # as if killed before the log went into the file
    released(ledger, 2)
    history = [entry.hash for entry in ledger.entries()]
    log = (tmp_path / "ledger-wal").read_bytes()
    torn = tmp_path / "torn"
    lengths = set()
    for size in range(0, len(log), 1499):
        shutil.copy(tmp_path / "ledger", torn)
        (tmp_path / "torn-wal").write_bytes(log[:size])
        with Ledger(torn, cost=cost) as survivor:
            hashes = [entry.hash for entry in survivor.entries()]
            assert hashes == history[: len(hashes)]
            survivor.verify()
            lengths.add(len(hashes))
    assert lengths == set(range(1, len(history)))  # each commit is lost whole or kept whole; the cap was settled before


# Reserving and storing


def test_a_repeated_reservation_costs_nothing(ledger):
    first = ledger.reserve(RUN, 0, Pure(4.0))
    assert ledger.reserve(RUN, 0, Pure(4.0)) == first
    assert ledger.spent() == Counter({Pure(4.0): 1})
    ledger.reserve(RUN, 1, Pure(4.0))
    assert ledger.epsilon() == 8.0
    assert ledger.payload(RUN, 0) is None


def test_a_round_cannot_change_its_event(ledger):
    ledger.reserve(RUN, 0, Pure(4.0))
    with pytest.raises(LedgerError, match=r"round 0 of 'spring' is reserved for Pure\(epsilon=4.0\)"):
        ledger.reserve(RUN, 0, Pure(3.0))
    assert ledger.epsilon() == 4.0


def test_a_reservation_above_the_cap_writes_nothing(ledger):
    ledger.reserve(RUN, 0, Pure(6.0))
    head = ledger.head()
    with pytest.raises(BudgetExceeded, match="epsilon = 6 is spent, it would be 11; the cap is epsilon = 10 at delta"):
        ledger.reserve(RUN, 1, Pure(5.0))
    with pytest.raises(BudgetExceeded, match="it would be inf"):
        ledger.reserve(RUN, 1, Unprotected())
    assert ledger.head() == head
    ledger.reserve(RUN, 1, Pure(4.0))  # to the last bit
    with pytest.raises(BudgetExceeded):
        ledger.reserve(RUN, 2, Pure(1e-9))


def test_a_cost_that_is_no_number_is_refused(tmp_path):
    with Ledger.open(
        tmp_path / "ledger", population="ward 7", cost=lambda planned, later, cap: planned.total()
    ) as made:
        made.set_cap(CAP)
    with Ledger(tmp_path / "ledger", cost=lambda planned, later, cap: float("nan")) as ledger:
        with pytest.raises(BudgetExceeded):
            ledger.reserve(RUN, 0, ROUND)
        with pytest.raises(BudgetExceeded):
            ledger.set_cap(CAP)


def test_free_releases_are_recorded_when_all_is_spent(ledger):
    ledger.reserve(RUN, 0, Pure(10.0))
    ledger.reserve(RUN, 1, Free("sent before"))
    ledger.store(RUN, 1, b"again")
    assert ledger.payload(RUN, 1) == b"again"
    assert ledger.epsilon() == 10.0


def test_without_a_cap_nothing_is_reserved(tmp_path):
    with open_ledger(tmp_path) as ledger:
        for event in (ROUND, Free("nothing leaves")):
            with pytest.raises(BudgetExceeded, match="has no cap; set one"):
                ledger.reserve(RUN, 0, event)
        with pytest.raises(BudgetExceeded, match="has no cap"):
            ledger.check_run(Counter({ROUND: 1}))
        assert ledger.remaining_rounds([ROUND], at_most=5) == 0
        assert list(ledger.entries()) == []


def test_a_round_has_one_payload(ledger):
    ledger.reserve(RUN, 0, ROUND)
    ledger.store(RUN, 0, b"noisy")
    head = ledger.head()
    ledger.store(RUN, 0, b"noisy")
    with pytest.raises(LedgerError, match="round 0 of 'spring' already has another payload"):
        ledger.store(RUN, 0, b"noisier")
    assert ledger.head() == head
    assert ledger.payload(RUN, 0) == b"noisy"


def test_an_unpaid_payload_is_refused(ledger):
    with pytest.raises(LedgerError, match="round 0 of 'spring' is not reserved"):
        ledger.store(RUN, 0, b"unpaid")
    assert ledger.payload(RUN, 0) is None


def test_two_open_ledgers_see_each_other(ledger, tmp_path):
    with open_ledger(tmp_path) as other:
        other.reserve("autumn", 0, Pure(6.0))
        with pytest.raises(BudgetExceeded):
            ledger.reserve(RUN, 0, Pure(5.0))
        other.set_cap(Cap(11.0, 1e-6))
        ledger.reserve(RUN, 0, Pure(5.0))
        assert other.spent() == Counter({Pure(6.0): 1, Pure(5.0): 1})
        assert [run.run for run in other.runs()] == ["autumn", RUN]


@pytest.mark.parametrize(("run", "tick"), [("", 0), ("two\nlines", 0), ("\ud800", 0), (RUN, -1), (RUN, 2**63)])
def test_rounds_that_cannot_be_named(ledger, run, tick):
    with pytest.raises(InputError):
        ledger.reserve(run, tick, ROUND)


def test_only_bytes_are_stored(ledger):
    ledger.reserve(RUN, 0, ROUND)
    with pytest.raises(InputError, match="as bytes, not as bytearray"):
        ledger.store(RUN, 0, bytearray(8))


# The cap


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 1e-6), (-1, 1e-6), (float("inf"), 1e-6), (float("nan"), 1e-6), (1, 0), (1, 1), (1, -1e-6), (1, float("nan"))],
)
def test_caps_that_are_none(epsilon, delta):
    with pytest.raises(InputError, match="a cap needs"):
        Cap(epsilon, delta)


def test_the_cap_moves_but_never_below_what_is_spent(ledger):
    ledger.reserve(RUN, 0, Pure(6.0))
    with pytest.raises(BudgetExceeded, match=r"the cap cannot be epsilon = 5\.9 at .*: epsilon = 6 is spent"):
        ledger.set_cap(Cap(5.9, 1e-6))
    assert ledger.cap() == CAP
    ledger.set_cap(Cap(6.0, 1e-5))
    assert ledger.cap() == Cap(6.0, 1e-5)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(RUN, 1, Pure(0.1))
    ledger.set_cap(Cap(7.0, 1e-6))
    ledger.reserve(RUN, 1, Pure(1.0))
    ledger.verify()


def test_a_run_is_refused_before_it_starts_with_the_rounds_that_fit(ledger):
    ledger.reserve("before", 0, Pure(3.0))
    one_round = [Pure(0.5), Pure(1.0), Free("a number all know")]
    ledger.check_run(Counter({Pure(0.5): 4, Pure(1.0): 4}), one_round)
    with pytest.raises(BudgetExceeded, match=r"the run is refused: .*; 4 of its rounds would still fit"):
        ledger.check_run(Counter(one_round * 9), one_round)
    with pytest.raises(BudgetExceeded, match=r"it would be 12\.5; the cap is epsilon = 10 at delta = 1e-06$"):
        ledger.check_run(Counter({Pure(9.5): 1}))
    assert ledger.remaining_rounds(one_round, at_most=100) == 4
    assert ledger.remaining_rounds(one_round, at_most=3) == 3
    assert ledger.remaining_rounds([Unprotected()], at_most=3) == 0
    assert ledger.remaining_rounds([Free("nothing leaves")], at_most=3) == 3


def test_a_checked_run_does_not_ask_a_slow_accountant_again(ledger, tmp_path):
    asked = []

    def slow(planned, later, cap):
        asked.append((planned, later))
        return cost(planned, later, cap)

    with Ledger(tmp_path / "ledger", cost=slow) as checked:
        checked.check_run(Counter({ROUND: 10}))
        for tick in range(10):
            checked.reserve(RUN, tick, ROUND)
        assert len(asked) == 1
        ledger.reserve("another run, in between", 0, Pure(4.5))
        checked.reserve(RUN, 10, ROUND)
        assert len(asked) == 2  # no longer part of what was found to fit
        with pytest.raises(BudgetExceeded):
            checked.reserve(RUN, 11, ROUND)


def test_what_fitted_under_another_cap_is_not_taken_to_fit(ledger):
    ledger.check_run(Counter({ROUND: 20}))
    ledger.set_cap(Cap(1.0, 1e-6))
    ledger.reserve(RUN, 0, ROUND)
    ledger.reserve(RUN, 1, ROUND)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(RUN, 2, ROUND)


# A whole run


def test_a_run_is_reserved_wholly_or_not_at_all(ledger):
    head = ledger.head()
    plan = {0: Pure(4.0), 3: Pure(1.0), 5: Pure(4.0), 7: Pure(4.0)}
    with pytest.raises(BudgetExceeded, match=r"the run 'spring' is refused: .* would be 13; .*; 3 of its rounds would"):
        ledger.reserve_run(RUN, plan)
    with pytest.raises(InputError):
        ledger.reserve_run(RUN, {0: ROUND, -1: ROUND})
    assert ledger.head() == head
    del plan[7]
    ledger.reserve_run(RUN, plan)
    assert [(entry.tick, entry.event()) for entry in ledger.entries() if entry.kind == "reserve"] == list(plan.items())
    assert ledger.payload(RUN, 3) is None


def test_a_restarted_run_pays_only_for_what_is_new(ledger):
    ledger.reserve_run(RUN, {0: Pure(4.0), 1: Pure(4.0)})
    head = ledger.head()
    ledger.reserve_run(RUN, {0: Pure(4.0), 1: Pure(4.0)})
    ledger.reserve(RUN, 1, Pure(4.0))
    assert ledger.head() == head
    with pytest.raises(LedgerError, match=r"round 1 of 'spring' is reserved for Pure\(epsilon=4.0\), not for Pure"):
        ledger.reserve_run(RUN, {2: Pure(1.0), 1: Pure(3.0)})
    assert ledger.head() == head
    ledger.reserve_run(RUN, {1: Pure(4.0), 2: Pure(2.0)})
    assert ledger.epsilon() == 10.0
    ledger.reserve_run(RUN, {1: Pure(4.0), 2: Pure(2.0)})  # fits, though nothing more would


def test_a_run_without_a_cap_is_refused(tmp_path):
    with open_ledger(tmp_path) as ledger:
        with pytest.raises(BudgetExceeded, match=r"the run 'spring' is refused: .* has no cap; set one with: [a-z ]+$"):
            ledger.reserve_run(RUN, {0: ROUND})
        ledger.reserve_run(RUN, {})
        assert list(ledger.entries()) == []


# Nothing is changed unseen


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body = x'00' WHERE kind = 'payload'",
        "DELETE FROM entries WHERE number = 2",
        "INSERT OR REPLACE INTO entries SELECT 2, kind, run, tick, x'00', previous, hash FROM entries WHERE number = 2",
        "INSERT OR REPLACE INTO entries SELECT 9, kind, run, tick, x'00', previous, hash FROM entries WHERE number = 3",
        "UPDATE meta SET population = 'ward 8'",
        "DELETE FROM meta",
        "INSERT INTO meta VALUES (2, 'ward 8', 'today', 'b', x'00', '')",
    ],
)
def test_rows_are_only_ever_appended(ledger, tmp_path, change):
    released(ledger, 3)
    assert len(list(ledger.entries())) == 7
    other = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|one population"):
        other.execute(change.replace("SELECT 9", "SELECT 8"))
    other.close()
    ledger.verify()


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        (["""UPDATE entries SET body = CAST('{"epsilon":0.1,"event":"Pure"}' AS BLOB) WHERE number = 4"""], 4),
        (["UPDATE entries SET body = x'00' WHERE number = 5"], 5),
        (["UPDATE entries SET tick = 7 WHERE number = 5"], 5),
        (["UPDATE entries SET run = 'autumn' WHERE number = 4"], 4),
        (
            [
                "UPDATE entries SET number = 99 WHERE number = 4",
                "UPDATE entries SET number = 4 WHERE number = 6",
                "UPDATE entries SET number = 6 WHERE number = 99",
            ],
            4,
        ),
        (["DELETE FROM entries WHERE number = 4"], 5),
        (["DELETE FROM entries WHERE number = 1"], 2),
        (["UPDATE meta SET population = 'ward 8'"], 1),
        (["UPDATE meta SET created = 'yesterday'"], 1),
        (["UPDATE entries SET hash = previous WHERE number = 7"], 7),
    ],
)
def test_an_edited_row_is_found_and_named(ledger, tmp_path, changes, row):
    released(ledger, 3)
    tamper(tmp_path / "ledger", *changes)
    with pytest.raises(LedgerError, match=f", row {row}: "):
        ledger.verify()
    with pytest.raises(LedgerError, match=f", row {row}: "):
        Ledger(tmp_path / "ledger", cost=cost)


def test_a_digit_that_moves_from_one_field_to_the_next_is_found(ledger, tmp_path):
    ledger.reserve(RUN, 12, ROUND)
    tamper(tmp_path / "ledger", f"UPDATE entries SET run = '{RUN}1', tick = 2 WHERE number = 2")
    with pytest.raises(LedgerError, match="row 2: its content is not what was written"):
        ledger.verify()


def test_a_row_before_the_first_is_found(ledger, tmp_path):
    released(ledger, 3)
    hidden = "INSERT INTO entries SELECT -1, kind, run, 9, body, previous, hash FROM entries WHERE number = 3"
    tamper(tmp_path / "ledger", "PRAGMA ignore_check_constraints = ON", hidden)
    assert ledger.payload(RUN, 9) == b"payload 0"  # this would be sent
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()


def cap_of(epsilon, delta=1e-6):
    """The body of a cap."""
    return json.dumps({"epsilon": epsilon, "delta": delta, "when": "today", "who": "me", "why": ""}).encode()


def forge(path, *rows):
    """Appends rows whose hashes are right and whose content breaks a rule."""
    with Ledger(path, cost=cost) as forger:
        for row in rows:
            forger._file.append(*row)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([("payload", RUN, 5, b"unpaid")], "row 8: its round was not reserved"),
        ([("reserve", RUN, 9, b'{"epsilon":8.6,"event":"Pure"}')], "row 8: more is spent than the cap"),
        (
            [("reserve", RUN, 9, b'{"epsilon":0.5,"event":"Pure"}'), ("cap", "", 0, cap_of(1.9))],
            "row 9: more is spent than the cap",
        ),
        ([("cap", "", 0, cap_of(1.9)), ("cap", "", 0, cap_of(9.0))], None),
        (
            [("cap", "", 0, cap_of(1.4)), ("cap", "", 0, cap_of(9.0))],
            "row 8: more is spent than the cap",
        ),
        ([("reserve", RUN, 9, b'{"epsilon":0.5,"event":"Pur"}')], "row 8: it cannot be read"),
        ([("cap", "", 0, cap_of(9.0, 2))], "row 8: it cannot be read"),
    ],
)
def test_a_broken_rule_is_found_though_the_chain_is_whole(ledger, tmp_path, rows, fault):
    released(ledger, 3)
    forge(tmp_path / "ledger", *rows)
    if fault is None:
        ledger.verify()
    else:
        with pytest.raises(LedgerError, match=fault):
            ledger.verify()


def test_a_ledger_without_its_triggers_or_its_index_is_refused(ledger, tmp_path):
    released(ledger, 3)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as db:
        for what in ("TRIGGER entries_delete", "INDEX once"):
            db.execute("BEGIN")
            db.execute(f"DROP {what}")
            db.execute("COMMIT")
            with pytest.raises(LedgerError, match="has lost the rules of a ledger"):
                ledger.verify()


def test_an_index_that_does_not_find_a_round_is_refused(ledger, tmp_path):
    """A round that is not found would be paid for, and its noise drawn, a second time."""
    released(ledger, 3)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as db:
        ((index,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'once'").fetchall()
    ledger.close()
    raw = bytearray((tmp_path / "ledger").read_bytes())
    page = slice(4096 * (index - 1), 4096 * index)
    assert raw[page].count(b"spring") == 6
    raw[page] = raw[page].replace(b"spring", b"sprung")
    (tmp_path / "ledger").write_bytes(raw)
    with pytest.raises(LedgerError, match="damaged"):
        open_ledger(tmp_path)


def test_a_reservation_before_any_cap_is_found(tmp_path):
    open_ledger(tmp_path).close()
    forge(tmp_path / "ledger", ("reserve", RUN, 0, b'{"epsilon":0.5,"event":"Pure"}'))
    with pytest.raises(LedgerError, match="row 1: it was reserved without a cap"):
        open_ledger(tmp_path)


@pytest.mark.parametrize("target", [b"payload 1", b'{"epsilon":0.5', b"ward 7", b"spring"])
def test_a_changed_byte_of_the_file_is_found(ledger, tmp_path, target):
    released(ledger, 3)
    ledger.close()
    file = tmp_path / "ledger"
    raw = file.read_bytes()
    assert target in raw
    file.write_bytes(raw.replace(target, target[:-1] + b"8"))
    with pytest.raises(LedgerError):
        Ledger(file, cost=cost)


def test_lost_last_rows_are_found_with_a_kept_head_only(ledger, tmp_path):
    released(ledger, 3)
    kept = ledger.head().head
    released(ledger, 5)
    assert ledger.verify(kept).released == 5
    newest = ledger.head().head
    tamper(tmp_path / "ledger", "DELETE FROM entries WHERE number > 9")
    with Ledger(tmp_path / "ledger", cost=cost) as shortened:
        shortened.verify()
        shortened.verify(kept)
        with pytest.raises(LedgerError, match="rows were lost or rewritten"):
            shortened.verify(newest)


def test_verify_reports_what_it_found(ledger):
    released(ledger, 3)
    ledger.reserve(RUN, 3, Pure(1.0))
    found = ledger.verify()
    assert (found.population, found.reservations, found.released) == ("ward 7", 4, 3)
    assert (found.cap, found.epsilon, found.head) == (CAP, 2.5, ledger.head())


# Files


def test_a_new_ledger_is_for_its_owner_only(ledger, tmp_path):
    released(ledger, 1)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"ledger": 0o600, "ledger-wal": 0o600, "ledger-shm": 0o600}


def test_of_two_processes_that_make_a_ledger_at_once_the_first_wins(ledger, tmp_path):
    assert not create(tmp_path / "ledger", "made a moment later")
    with open_ledger(tmp_path) as again:
        assert again.cap() == CAP


def test_a_ledger_is_found_again(ledger, tmp_path):
    released(ledger, 3)
    ledger.reserve(RUN, 3, Free("sent before"))
    rows, spent = list(ledger.entries()), ledger.spent()
    ledger.close()
    with open_ledger(tmp_path) as again:
        assert list(again.entries()) == rows
        assert again.spent() == spent
        assert again.cap() == CAP


def test_the_ledger_of_another_population_is_refused(ledger, tmp_path):
    with pytest.raises(LedgerError, match="is the ledger of 'ward 7', not of 'ward 8'"):
        Ledger.open(tmp_path / "ledger", population="ward 8", cost=cost)


def test_a_new_ledger_takes_the_place_of_no_file(ledger, tmp_path):
    released(ledger, 1)
    (tmp_path / "text").write_text("precious")
    for name in ("ledger", "text"):
        with pytest.raises(LedgerError, match="exists and is not changed"):
            Ledger.new(tmp_path / name, population="ward 7", cost=cost)
    assert (tmp_path / "text").read_text() == "precious"
    assert ledger.verify().released == 1
    with pytest.raises(InputError, match="needs a name"):
        Ledger.new(tmp_path / "new", population="", cost=cost)
    with Ledger.new(tmp_path / "new", population="ward 8", cost=cost) as made:
        assert (made.population, made.cap(), list(made.entries())) == ("ward 8", None, [])


def test_what_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "empty").touch()
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    for name, reason in [("text", "not a database"), ("empty", "not a ledger"), ("other", "not a ledger")]:
        with pytest.raises(LedgerError, match=reason):
            Ledger.open(tmp_path / name, population="ward 7", cost=cost)
    with pytest.raises(InputError, match="it is a folder"):
        Ledger.open(tmp_path, population="ward 7", cost=cost)
    with pytest.raises(InputError, match="does not exist"):
        Ledger.open(tmp_path / "no" / "ledger", population="ward 7", cost=cost)
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(tmp_path / "absent", cost=cost)


def test_another_format_is_refused(ledger, tmp_path):
    tamper(tmp_path / "ledger", "UPDATE meta SET format = 4")
    with pytest.raises(LedgerError, match="not a ledger of format 3"):
        open_ledger(tmp_path)


@pytest.mark.parametrize("page", [0, 1, 2, 3, 4])
def test_a_damaged_file_is_refused(ledger, tmp_path, page):
    released(ledger, 20, payload=b"payload %d" + bytes(1000))
    ledger.close()
    raw = bytearray((tmp_path / "ledger").read_bytes())
    raw[4096 * page + 4000 : 4096 * page + 4096] = bytes(96)  # a page is filled from its end
    (tmp_path / "ledger").write_bytes(raw)
    with pytest.raises(LedgerError) as caught:
        open_ledger(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_description_of_the_tables_that_is_not_text_is_refused(ledger, tmp_path):
    """SQLite quotes it in its message, which Python then cannot read."""
    ledger.close()
    raw = bytearray((tmp_path / "ledger").read_bytes())
    raw[raw.index(b"NULL")] ^= 128
    (tmp_path / "ledger").write_bytes(raw)
    with pytest.raises(LedgerError, match="is damaged: its tables"):
        open_ledger(tmp_path)


def test_a_lost_end_of_the_file_is_refused(ledger, tmp_path):
    released(ledger, 20, payload=b"payload %d" + bytes(1000))
    ledger.close()
    os.truncate(tmp_path / "ledger", 4096 * 4)
    with pytest.raises(LedgerError):
        open_ledger(tmp_path)


def test_a_ledger_that_is_missing_beside_its_log_is_not_created_again(ledger, tmp_path):
    released(ledger, 3)
    shutil.copy(tmp_path / "ledger-wal", tmp_path / "log")
    ledger.close()
    (tmp_path / "ledger").unlink()
    (tmp_path / "log").rename(tmp_path / "ledger-wal")
    with pytest.raises(LedgerError, match="is missing, but its newest rows are in"):
        open_ledger(tmp_path)


def test_a_full_disk_loses_nothing(ledger):
    released(ledger, 3)
    ledger.reserve(RUN, 3, ROUND)
    rows = list(ledger.entries())
    (pages,) = ledger._file.db.execute("PRAGMA page_count").fetchone()
    ledger._file.db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="full; nothing was written; free some space"):
        ledger.store(RUN, 3, bytes(50_000))
    assert list(ledger.entries()) == rows
    ledger._file.db.execute("PRAGMA max_page_count = 1000000")
    ledger.verify()
    ledger.store(RUN, 3, bytes(50_000))
    assert ledger.payload(RUN, 3) == bytes(50_000)


def test_a_disk_that_fills_while_a_run_is_reserved_leaves_none_of_it(ledger):
    head = ledger.head()
    (pages,) = ledger._file.db.execute("PRAGMA page_count").fetchone()
    ledger._file.db.execute(f"PRAGMA max_page_count = {pages + 5}")
    plan = dict.fromkeys(range(1000), Pure(1e-3))
    with pytest.raises(LedgerError, match="full; nothing was written"):
        ledger.reserve_run(RUN, plan)
    assert ledger.head() == head
    assert ledger.epsilon() == 0
    ledger._file.db.execute("PRAGMA max_page_count = 1000000")
    ledger.reserve_run(RUN, plan)
    assert ledger.verify().reservations == 1000


def test_a_disk_that_fills_at_any_byte_loses_nothing(ledger, tmp_path):
    released(ledger, 3)
    ledger.reserve(RUN, 3, ROUND)
    rows = list(ledger.entries())
    log = (tmp_path / "ledger-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in range(0, 30_000, 997):
        resource.setrlimit(resource.RLIMIT_FSIZE, (log + room, hard))
        try:
            with pytest.raises(MachineError, match="nothing was written"):  # a supervisor tries again
                ledger.store(RUN, 3, bytes(50_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(ledger.entries()) == rows
        with open_ledger(tmp_path) as another:
            assert list(another.entries()) == rows
    ledger.store(RUN, 3, bytes(50_000))
    ledger.verify()


def test_a_bit_that_changes_in_its_tables_is_one_line_for_everybody_who_reads_it(ledger, tmp_path):
    """Also for the metrics, which do not check the ledger: SQLite's own message quotes what is no text."""
    ledger.close()
    path = tmp_path / "ledger"
    whole = path.read_bytes()
    start = whole.index(b"CREATE TRIGGER entries_insert")
    for at in range(start, start + 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 128]) + whole[at + 1 :])
        with pytest.raises(LedgerError):
            open_ledger(tmp_path)
        with suppress(LedgerError):
            last_charge(path)


def test_a_ledger_that_cannot_be_made_leaves_nothing(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(LedgerError):
            open_ledger(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.reserve(RUN, 0, ROUND)
