"""Damage to a store is noticed: single bits that change, files that are lost, old copies, stores of another version.

`TACIT_FLIPS=2000 pytest tests/agent/test_journal.py -k flipped` flips more bits, and prints what came of them.
"""

import os
import random
import re
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from tacit.agent.heard import MessageChain
from tacit.agent.store import Store, check, status
from tacit.errors import Over, TacitError
from tacit.privacy.events import Pure

FLIPS = int(os.environ.get("TACIT_FLIPS", "60"))
RUN, RNG = "ab" * 32, np.random.default_rng(3)
BEATS = [
    ("not started", {}),
    ("computing", {"birch": 12.5, "cedar": None}),
    ("waiting for birch", {"birch": 13.5, "cedar": 4.0}),
]
FILES = ("", "-wal", "-head", "-state0", "-state1")


def opened(path):
    return Store(path, RUN, "alder", 40)


def spoken(store, tick):
    state = {"f": np.full((1, 40), tick + 0.5), "dual": np.arange(40.0).reshape(1, 40) * tick}
    message = random.Random(tick).randbytes(1200)
    store.commit(tick, state, message, Pure(0.25), {"birch": MessageChain(tick, bytes(31) + bytes([tick]))})


def content(path):
    """All that can be read. Of the heartbeats, only the last is kept, and a -wal file that is damaged at its end may
    show one before: each is a true one."""
    with closing(opened(path)) as store:
        tick, arrays = store.state()
        parts = ("secret", "releases", "heard", "keys", "met", "failure", "without", "left_at", "absences")
        found = {name: value() if callable(value := getattr(store, name)) else value for name in parts}
        found |= {name: array.tolist() for name, array in arrays.items()}
        found |= {"tick": tick, "messages": [store.message(t) for t in range(40)]}
        found |= {"near": (store.finished_neighbours(), store.notified_neighbours())}
    seen = status(path)
    assert (seen.doing, seen.peers) in BEATS
    return found | {"status": replace(seen, heartbeat=None, doing="", peers={})}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The files that a process leaves when it is killed: part of its commits is in the -wal file alone."""
    folder = tmp_path_factory.mktemp("killed")
    path = folder / "alder.store"
    store = opened(path)
    for k in (0, 2):
        store.keep_key(k, b"key%d" % k * 9)
        store.keep_met({k: b"met%d" % k * 9})
    for tick in range(25):
        spoken(store, tick)
        if tick == 14:
            store.heartbeat(time.time(), BEATS[1][1], BEATS[1][0])
            store._journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.mark_finished("birch")
    store.heartbeat(time.time(), BEATS[2][1], BEATS[2][0])
    copied = tmp_path_factory.mktemp("copied")
    for part in FILES:
        shutil.copy(f"{path}{part}", copied)
    store.close()
    return copied


def restored(killed, folder):
    folder.mkdir()
    for part in FILES:
        shutil.copy(killed / f"alder.store{part}", folder)
    return folder / "alder.store"


def outcome(path, before, after, where):
    """What the store says about its damage; None if there is nothing to say about."""
    try:
        assert content(path) == before, where
        with closing(opened(path)) as store:
            spoken(store, 25)
        assert content(path) == after, f"{where}, after a commit"
    except TacitError as error:
        return str(error)


def test_no_flipped_bit_is_silent(killed, tmp_path, capsys):
    """Either it is named in one line, or everything that is read, and read after one more commit, is as it was."""
    sound = restored(killed, tmp_path / "sound")
    before = content(sound)
    with closing(opened(sound)) as store:
        spoken(store, 25)
    after = content(sound)
    assert before != after
    rng, seen = random.Random(8), Counter()
    sizes = [(part, (killed / f"alder.store{part}").stat().st_size) for part in FILES]
    for number in range(FLIPS):
        path = restored(killed, tmp_path / str(number))
        (part,) = rng.choices([part for part, _ in sizes], [size for _, size in sizes])
        with open(f"{path}{part}", "r+b") as file:
            at = rng.randrange(dict(sizes)[part])
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ (1 << rng.randrange(8))]))
        named = outcome(path, before, after, f"{part} at {at}")
        assert named is None or re.fullmatch(r".* (is damaged|is an old copy|cannot be used).*", named), named
        seen[part or "main", "harmless" if named is None else "named"] += 1
        shutil.rmtree(path.parent)
    assert seen.total() == FLIPS
    with capsys.disabled():
        if FLIPS > 1000:
            for (part, what), count in sorted(seen.items()):
                print(f"\n{part}: {what} {count}", end="")


def test_a_flipped_bit_of_the_state_is_named(killed, tmp_path):
    """Also in numbers that look as well as before. The slot of the state before is not read."""
    path, found = restored(killed, tmp_path / "here"), {0: [], 1: []}
    before = content(path)
    for slot, said in found.items():
        file = path.with_name(f"alder.store-state{slot}")
        raw = file.read_bytes()
        for at in np.linspace(len(raw) // 2, len(raw) - 1, 20, dtype=int).tolist():
            file.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            try:
                said.append(content(path) == before)
            except TacitError as error:
                said.append(re.search(f"state{slot} is damaged: .* does not fit its digest", str(error))[0])
        file.write_bytes(raw)
    damaged = [f"state{slot} is damaged: the state after tick 24 does not fit its digest" for slot in (0, 1)]
    assert found in ({0: [damaged[0]] * 20, 1: [True] * 20}, {0: [True] * 20, 1: [damaged[1]] * 20})


def test_a_commit_that_ends_in_the_middle_leaves_the_state_before(tmp_path, monkeypatch):
    """The state is written, and then nobody says so."""

    def killed_now():
        raise OSError("killed")

    store = opened(tmp_path / "alder.store")
    for tick in range(4):  # both slots have been used
        spoken(store, tick)
        with monkeypatch.context() as patched:
            patched.setattr(store._journal, "writing", killed_now)
            with pytest.raises(OSError, match="killed"):
                spoken(store, tick + 1)
        with closing(opened(tmp_path / "alder.store")) as again:
            found, state = again.state()
            assert (found, state["f"][0, 0]) == (tick, tick + 0.5)
    store.close()


def test_a_store_is_for_its_owner_and_its_run_alone(killed, tmp_path):
    path = restored(killed, tmp_path / "here")
    opened(path).close()
    for other in ((RUN[::-1], "alder", 40), (RUN, "birch", 40), (RUN, "alder", 41)):
        with pytest.raises(TacitError, match="is the store of alder in the run abababab"):
            Store(path, *other)
    umask = os.umask(0)
    try:
        with closing(Store(tmp_path / "new.store", RUN, "alder", 40, alone=True)) as store:
            spoken(store, 0)
            spoken(store, 1)
            modes = {each.suffix: oct(each.stat().st_mode & 0o777) for each in tmp_path.glob("new.store*")}
    finally:
        os.umask(umask)
    assert modes.keys() >= {".store", ".store-head", ".store-state0", ".store-state1"}
    assert set(modes.values()) == {"0o600"}, modes


@pytest.mark.parametrize("part", ["", "-wal", "-head", "-state0"])
def test_a_file_that_is_lost_is_named(killed, tmp_path, part):
    path = restored(killed, tmp_path / "here")
    os.unlink(f"{path}{part}")
    before = sorted(each.name for each in path.parent.iterdir())
    with pytest.raises(Over, match=r"is lost|is damaged|is an old copy"):
        opened(path)
    # Nothing is made in its place that would hide the file when it is put back.
    now = [each.name for each in sorted(path.parent.iterdir()) if each.stat().st_size and each.suffix != ".store-shm"]
    assert now == before
    shutil.copy(killed / f"alder.store{part}", path.parent)
    assert content(path)["tick"] == 24


def test_an_old_copy_is_named(killed, tmp_path):
    path = restored(killed, tmp_path / "here")
    with closing(opened(path)) as store:
        spoken(store, 25)
    shutil.copy(killed / "alder.store", path)  # as the checkpoint after tick 14 had it
    with pytest.raises(Over, match=r"old copy, or its end is damaged: it has \d+ entries"):
        opened(path)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM journal WHERE entry = 9",
        "DELETE FROM journal WHERE entry > 60",
        "UPDATE journal SET key = '30' WHERE entry = 9",
        "UPDATE journal SET kind = 'met' WHERE kind = 'key'",
        "UPDATE journal SET body = (SELECT body FROM journal WHERE kind = 'release' AND key = '3'), hashed ="
        " (SELECT hashed FROM journal WHERE kind = 'release' AND key = '3') WHERE kind = 'release' AND key = '4'",
    ],
)
def test_entries_cannot_be_dropped_renamed_or_exchanged(killed, tmp_path, change):
    path = restored(killed, tmp_path / "here")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(change).rowcount > 0
    with pytest.raises(Over, match=r"is damaged|is an old copy"):
        opened(path)
    with pytest.raises(Over, match=rf"^{re.escape(str(path))} is"):  # and not the copy that was read
        check(path)


def test_an_entry_that_the_head_does_not_know_yet_is_chained_to_the_one_before(killed, tmp_path):
    """After a crash between the entry and the head, nothing else vouches for it."""
    path = restored(killed, tmp_path / "here")
    head = (killed / "alder.store-head").read_bytes()
    with closing(opened(path)) as store:
        store.keep_key(3, b"a key of the last moment")
    (path.parent / "alder.store-head").write_bytes(head)
    with closing(opened(path)) as store:
        assert store.keys()[3] == b"a key of the last moment"
    (path.parent / "alder.store-head").write_bytes(head)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("UPDATE journal SET key = '4' WHERE kind = 'key' AND key = '3'").rowcount == 1
    with pytest.raises(Over, match="does not fit the chain of digests"):
        opened(path)


def test_a_description_of_the_tables_that_is_not_text_is_named(tmp_path):
    """SQLite quotes it in its message, which Python then cannot read."""
    path = tmp_path / "alder.store"
    opened(path).close()
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"NULL")] ^= 128
    path.write_bytes(raw)
    with pytest.raises(Over, match=r"alder.store is damaged: its tables"):
        opened(path)


def test_an_agent_that_was_killed_when_it_made_its_store_makes_it_again(tmp_path):
    """Killed while SQLite goes over to its log, which takes a journal: an empty file is to be put back."""
    path, other = tmp_path / "alder.store", tmp_path / "other.store"
    opened(other).close()
    path.write_bytes(other.read_bytes()[:4096])
    numbers = (0, 1, 0, 512, 4096)  # entries, a nonce; of the file: pages, its sectors and its pages in bytes
    header = bytes.fromhex("d9d505f920a163d7") + b"".join(each.to_bytes(4, "big") for each in numbers)
    (tmp_path / "alder.store-journal").write_bytes(header.ljust(512, b"\0"))
    (tmp_path / "alder.store-head").write_text(f"{-1:010d} {bytes(32).hex()}\n")
    with closing(Store(path, "a" * 64, "alder", 100, alone=True)) as store:
        spoken(store, 0)
    assert status(path).tick == 0
    assert not (tmp_path / "alder.store-journal").exists()


def test_damage_while_the_agent_runs_is_noticed_when_a_message_is_read(tmp_path):
    with closing(opened(tmp_path / "alder.store")) as store:
        spoken(store, 0)
        with closing(sqlite3.connect(tmp_path / "alder.store", isolation_level=None)) as db:
            db.execute("UPDATE journal SET body = zeroblob(1200) WHERE kind = 'release'")
        with pytest.raises(Over, match="the release 0 does not fit its digest; nothing was sent"):
            store.message(0)


def test_a_store_of_the_former_version_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "alder.store"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE run (run TEXT NOT NULL, member TEXT NOT NULL, rounds INTEGER NOT NULL)")
        db.execute("CREATE TABLE releases (tick INTEGER PRIMARY KEY, message BLOB NOT NULL, event TEXT NOT NULL)")
        db.commit()
    raw = path.read_bytes()
    for read in (opened, status):
        with pytest.raises(Over, match=r"was written by tacit 0\.1: finish that run with that version"):
            read(path)
    assert path.read_bytes() == raw
