"""What a call has promised is there after a power cut at any moment after it: ledgers, stores, keys, files."""

import itertools
import os
import sqlite3
from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from ledger_worker import cost
from power_cut import Disk

from tacit.agent.identity import Identity, write_secret
from tacit.agent.store import Store
from tacit.errors import InputError
from tacit.files import write_private
from tacit.privacy.events import Pure
from tacit.privacy.ledger import Cap, Ledger


@pytest.fixture
def place(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def after_a_cut(tmp_path, place, monkeypatch):
    """Gives the folders that a power cut may leave, now."""
    disk, number = Disk(place, monkeypatch), itertools.count()

    def cut():
        return [disk.cut(tmp_path / f"after {next(number)}", new_names=new) for new in (False, True)]

    return cut


def test_a_ledger_keeps_every_call(place, after_a_cut):
    digest = sha256(b"what leaves").digest()
    calls = [
        lambda ledger: ledger.set_cap(Cap(9.0, 1e-6), who="a test"),
        lambda ledger: ledger.reserve_run("spring", {0: Pure(0.5), 1: Pure(0.5)}),
        lambda ledger: ledger.store("spring", 0, b"one"),
        lambda ledger: ledger.start("summer", bytes(16)),
        lambda ledger: ledger.reserve("summer", 0, Pure(0.25)),
        lambda ledger: ledger.mark("summer", 0, digest, 1),
    ]
    with Ledger.new(place / "ledger", population="ward 7", cost=cost) as ledger:
        for done in range(len(calls) + 1):
            head = ledger.head()
            for folder in after_a_cut():
                with Ledger(folder / "ledger", cost=cost) as found:
                    assert found.verify().head == head
                    assert found.payload("spring", 0) == (b"one" if done >= 3 else None)
                    assert found.spent() == Counter({Pure(0.5): 2 * (done >= 2), Pure(0.25): 1 * (done >= 5)})
                    assert found.marks("summer") == ({0: digest} if done == 6 else {})
            if done < len(calls):
                calls[done](ledger)


def test_a_store_keeps_what_may_leave(place, after_a_cut):
    """The state and the message of every tick, and the secret."""
    store = Store(place / "a.store", "run", "alder", 9)
    secret = store.secret
    for tick in range(5):  # both slots are written, and written again
        state, message = {"x": np.full(400, tick + 0.5)}, b"message %d" % tick
        store.commit(tick, state, message, Pure(0.5))
        for folder in after_a_cut():
            again = Store(folder / "a.store", "run", "alder", 9)
            found_tick, found = again.state()
            assert (found_tick, again.message(tick), again.secret) == (tick, message, secret)
            assert np.array_equal(found["x"], state["x"])
            assert [each for each, *_ in again.releases()] == list(range(tick + 1))
            again.close()
    store.close()


def test_a_file_is_the_old_one_or_the_new_one_whole(place, after_a_cut):
    write_private(place / "list", "old")
    os.sync()
    for text in ("newer", "newest"):
        write_private(place / "list", text)
        before, after = after_a_cut()
        assert (after / "list").read_text() == text
        assert not (before / "list").exists() or (before / "list").read_text() in ("old", "newer")


def test_a_secret_is_whole(place, after_a_cut):
    write_secret(place / "key", b"secret")
    _, after = after_a_cut()
    assert (after / "key").read_bytes() == b"secret"
    assert (place / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o660])
def test_a_key_that_others_can_use_in_any_way_is_refused(tmp_path, mode):
    made = Identity.new("alder", tmp_path)
    key = tmp_path / "alder" / "key.pem"
    assert Identity.load(tmp_path / "alder") == made
    key.chmod(mode)
    with pytest.raises(InputError, match="can be read by other users; run chmod 600"):
        Identity.load(tmp_path / "alder")


def test_the_disk_loses_what_was_not_synced(place, after_a_cut):
    """Planted: a file, a name and a commit that nobody has synced."""
    (place / "plain").write_bytes(b"never synced")
    db = sqlite3.connect(place / "db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE t (x)")
    before, after = after_a_cut()
    assert list(before.iterdir()) == []
    assert (after / "plain").read_bytes() == b""
    with sqlite3.connect(after / "db") as found:
        assert found.execute("SELECT * FROM sqlite_master").fetchall() == []
    db.close()
