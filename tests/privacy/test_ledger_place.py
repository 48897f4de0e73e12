"""A ledger is one file under one name: SQLite keeps what was written last, and its locks, beside the name."""

import copy
import os
import sys
from pathlib import Path

import pytest
from ledger_worker import ROUND, RUN, cost, open_ledger

from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger, LedgerError
from tacit.privacy.ledger import file as ledger_file


@pytest.fixture
def path(tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(Cap(2 * ROUND.epsilon, 1e-6))
    return tmp_path / "ledger"


def test_a_ledger_with_a_second_name_is_refused(path, tmp_path, monkeypatch):
    """Two processes, one under each name, would each spend the whole cap, and the file would know of one of them."""
    monkeypatch.setattr(ledger_file, "_ONE_NAME", 0.0)
    other = tmp_path / "elsewhere"
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(LedgerError, match=r"has 2 names \(hard links\)"):
            Ledger(name, cost=cost)
    assert not list(tmp_path.glob("*-wal"))  # nothing was written
    other.unlink()
    with Ledger(path, cost=cost) as ledger:
        ledger.reserve(RUN, 0, ROUND)
        os.link(path, other)  # while it is in use
        with pytest.raises(LedgerError, match="hard links"):
            ledger.reserve(RUN, 1, ROUND)


def test_a_symbolic_link_is_the_same_name(path, tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    link.symlink_to(path)
    with Ledger(path, cost=cost) as one, Ledger(link, cost=cost) as other:
        one.reserve("one", 0, ROUND)
        other.reserve("other", 0, ROUND)
        for each in (one, other):
            with pytest.raises(BudgetExceeded):
                each.reserve("third", 0, ROUND)


def test_a_process_may_go_to_another_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger("ledger", cost=cost) as ledger:
        (tmp_path / "folder").mkdir()
        monkeypatch.chdir("folder")
        with Ledger.open("ledger", population="others", cost=cost), copy.copy(ledger) as copied:
            assert copied.book == ledger.book  # a fit in another process pays from the ledger that it was given
        ledger.reserve(RUN, 0, ROUND)
        assert ledger.spent().total() == 1


@pytest.mark.parametrize("how", ["replaced", "moved", "removed"])
def test_nothing_leaves_once_another_file_is_at_the_path(path, tmp_path, how):
    """A restored backup, or a tool that synchronises folders, replaces a file: the process would go on to write into
    the one that is no longer there."""
    old = path.read_bytes()
    with Ledger(path, cost=cost) as ledger:
        ledger.reserve(RUN, 0, ROUND)
        start = ledger.start(RUN, bytes(16))
        if how == "removed":
            path.unlink()
        else:
            path.rename(tmp_path / "moved")
        if how == "replaced":
            path.write_bytes(old)
        with pytest.raises(LedgerError, match=r"was moved or replaced|is not there any more"):
            ledger.mark(RUN, 0, bytes(32), start)


def test_a_file_that_is_mounted_by_itself_is_refused(path, tmp_path, monkeypatch):
    """Two containers that are each given the file, and not its folder, have two logs: as with two names."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(ledger_file, "_MOUNTS", mounts)
    line = "36 35 98:0 /vol/ledger {} rw,noatime master:1 - ext4 /dev/root rw\n"
    mounts.write_text(line.format(path.parent) + line.format(f"{path}-2"))
    Ledger(path, cost=cost).close()
    mounts.write_text(line.format(path))
    with pytest.raises(LedgerError, match=r"mounted by itself.*mount its folder"):
        Ledger(path, cost=cost)
    spaced = tmp_path / "ward 7"
    path.rename(spaced)
    mounts.write_text(line.format(str(spaced).replace(" ", "\\040")))
    with pytest.raises(LedgerError, match="mounted by itself"):
        Ledger(spaced, cost=cost)
    mounts.unlink()  # another system: it cannot be known
    Ledger(spaced, cost=cost).close()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "ext4", "overlay"])
def test_a_ledger_on_a_network_file_system_is_refused(path, tmp_path, monkeypatch, kind):
    """Two machines would each spend the whole cap: what SQLite shares between processes ends at a machine."""
    mounts, device = tmp_path / "mountinfo", os.stat(path).st_dev
    monkeypatch.setattr(ledger_file, "_MOUNTS", mounts)
    line = "36 35 {}:{} / {} rw,noatime shared:7 master:1 - {} server:/vol rw\n"
    here = (os.major(device), os.minor(device), path.parent, kind)
    mounts.write_text(line.format(0, 0, "/elsewhere", "nfs4") + line.format(*here))
    if kind in ("ext4", "overlay"):
        Ledger(path, cost=cost).close()
        return
    with pytest.raises(LedgerError, match=rf"lies on a network file system \({kind}\).*a disk of the one machine"):
        Ledger(path, cost=cost)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's own list")
def test_the_list_of_mounts_is_read_as_the_kernel_writes_it():
    found = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    assert "/" in found
    assert ledger_file._is_mount(Path("/"))
    assert not ledger_file._is_mount(Path("/no such file"))
    assert ledger_file._network(Path("/proc")) is None
    assert {"proc"} == {line[line.index("-") + 1] for line in ledger_file._mounts() if line[4] == "/proc"}


def test_a_new_ledger_has_one_name_at_once(tmp_path, monkeypatch):
    """Also if the disk loses all that comes after the sync of its folder."""
    synced, links = os.fsync, []

    def fsync(opened):
        if (tmp_path / "ledger").exists():
            links.append((tmp_path / "ledger").stat().st_nlink)
        synced(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    open_ledger(tmp_path).close()
    assert links
    assert set(links) == {1}
