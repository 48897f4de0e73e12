"""Backups are whole, come back whole, and never lead to an older store than there was."""

import os
import random
import shutil
from contextlib import closing

import pytest
from test_journal import RUN, content, killed, opened, restored, spoken

from tacit.agent import backup
from tacit.agent.store import Store
from tacit.errors import InputError, NotNow, Over, TacitError

__all__ = ["killed"]  # a fixture


@pytest.fixture
def path(killed, tmp_path):
    return restored(killed, tmp_path / "here")


def test_a_backup_of_an_agent_that_runs_comes_back_on_an_empty_disk(path, tmp_path):
    running = opened(path)
    spoken(running, 25)
    (found,) = backup.write(path, tmp_path / "alder.backup")
    assert (found.tick, found.member) == (25, "alder")
    assert oct((tmp_path / "alder.backup").stat().st_mode)[-3:] == "600"
    running.close()
    before = content(path)
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    assert backup.restore(tmp_path / "alder.backup", path, RUN, "alder")[0].tick == 25
    assert content(path) == before
    assert {each.stat().st_mode & 0o077 for each in path.parent.iterdir()} == {0}


def test_a_damaged_store_is_replaced(path, tmp_path):
    backup.write(path, tmp_path / "alder.backup")
    before = content(path)
    path.write_bytes(path.read_bytes()[:5000])
    (path.parent / "alder.store-wal").write_bytes(os.urandom(4000))  # would hide what is put back
    with pytest.raises(Over, match="is damaged"):
        opened(path)
    backup.restore(tmp_path / "alder.backup", path, RUN, "alder")
    assert content(path) == before


@pytest.mark.parametrize("damage", ["none", "no store", "no head", "end cut off"])
def test_an_older_backup_is_refused(path, tmp_path, damage):
    backup.write(path, tmp_path / "alder.backup")
    store = opened(path)
    spoken(store, 25)
    store.close()
    if damage == "no store":
        path.unlink()
    elif damage == "no head":
        (path.parent / "alder.store-head").unlink()
    elif damage == "end cut off":
        path.write_bytes(path.read_bytes()[:-9000])
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(Over, match=r"is older than .*alder\.store"):
        backup.restore(tmp_path / "alder.backup", path, RUN, "alder")
    assert {each: before[each] for each in path.parent.iterdir() if each in before} == before


def test_a_store_has_one_agent_at_a_time(path, tmp_path):
    """A second one would write to the slots of the first, and a restored file would not be the one that is used."""
    backup.write(path, tmp_path / "alder.backup")
    with closing(Store(path, RUN, "alder", 40, alone=True)):
        for act in (
            lambda: Store(path, RUN, "alder", 40, alone=True),
            lambda: backup.restore(tmp_path / "alder.backup", path, RUN, "alder"),
        ):
            with pytest.raises(NotNow, match=r"alder\.store is in use by an agent that runs"):
                act()
    backup.restore(tmp_path / "alder.backup", path, RUN, "alder")
    Store(path, RUN, "alder", 40, alone=True).close()
    new = tmp_path / "new.store"
    with closing(Store(new, RUN, "alder", 40, alone=True)), pytest.raises(NotNow):
        Store(new, RUN, "alder", 40, alone=True)


def test_another_run_and_other_files_are_refused(path, tmp_path):
    backup.write(path, tmp_path / "alder.backup")
    for run, member in (("cd" * 32, "alder"), (RUN, "birch")):
        with pytest.raises(InputError, match="is not a backup of"):
            backup.restore(tmp_path / "alder.backup", path, run, member)
    (tmp_path / "other").write_text("not a backup")
    with pytest.raises(InputError, match="cannot be read as a backup"):
        backup.restore(tmp_path / "other", path, RUN, "alder")
    with pytest.raises(InputError, match="there is no store"):
        backup.write(tmp_path / "none.store", tmp_path / "x")


def test_a_damaged_backup_is_refused_or_comes_back_whole(path, tmp_path):
    backup.write(path, tmp_path / "alder.backup")
    before, raw, rng = content(path), (tmp_path / "alder.backup").read_bytes(), random.Random(4)
    for number in range(15):
        at = rng.randrange(len(raw))
        (tmp_path / "flipped").write_bytes(raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :])
        place = tmp_path / str(number) / "alder.store"
        place.parent.mkdir()
        try:
            backup.restore(tmp_path / "flipped", place, RUN, "alder")
        except TacitError:
            assert not list(place.parent.iterdir())
        else:
            assert content(place) == before
