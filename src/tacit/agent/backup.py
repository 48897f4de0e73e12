"""A backup of an agent's store in one file, and the way back, which never leads to an older store than there was.

The file is a tar archive of the store's files, and of those of the runs in which the agent went on without members. It
is a copy at one moment, which may be taken while the agent runs. It needs no digests of its own: those of the store are
checked when it is made and when it is restored.

An old store is worse than none: the agent would draw fresh noise for ticks that it has sent already. So a store is
restored only where nothing shows that there was a newer one: not the store itself, however damaged, not its head. What
is lost with the whole machine shows nothing; then the ledger and the neighbours do, when the agent starts
(`tacit.agent.store`).
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tacit.agent import journal, store
from tacit.errors import InputError, Over
from tacit.files import replacing, sync_folder

_PARTS = ("", "-head", "-state0", "-state1")  # of a store that no process has open


def write(path: Path, out: Path) -> list[store.Status]:
    """Writes a backup of the store at this path, and of those that follow from it; says what is in it."""
    found = [store.status(each) for each in _stores(path)]
    if not found:
        raise InputError(f"there is no store {path}: the agent has not been started yet, or it has another --store")
    with replacing(out) as draft, TemporaryDirectory(dir=out.resolve().parent, prefix=".tacit-") as scratch:
        for each in _stores(path):
            store.copy(each, Path(scratch) / each.name)
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                for part in sorted(Path(scratch).iterdir()):
                    if not part.name.endswith(("-wal", "-shm")):
                        archive.add(part, part.name.removeprefix(path.stem))
            file.flush()
            os.fsync(file.fileno())
    sync_folder(out.resolve().parent)
    return found


def restore(backup: Path, path: Path, run: str, member: str) -> list[store.Status]:
    """Puts the stores of a backup back to this path; says what they hold. Refuses a backup of another run or member, a
    damaged one, and one that is older than what is there or was there.

    If it is interrupted, do it again: until the last file is in its place, the agent does not start.
    """
    with (
        _held(path),
        TemporaryDirectory(dir=path.resolve().parent, prefix=".tacit-") as scratch,
    ):
        folder = Path(scratch)
        names = _unpacked(backup, folder, path.stem)
        found = [store.status(folder / name) for name in names]
        if not found or (found[0].run, found[0].member) != (run, member) or names[0] != path.name:
            raise InputError(f"{backup} is not a backup of {member} in the run {run[:12]}")
        for name, each in zip(names, found, strict=True):
            with closing(store.Store(folder / name, each.run, each.member, each.rounds)):
                pass  # checked
            known, held = journal.last_known(path.with_name(name)), journal.last_known(folder / name)
            if known > held:
                raise Over(
                    f"{backup} is older than {path.with_name(name)}, which has had {known + 1} entries; the backup has "
                    f"{held + 1}. To go on with it would be a second look at the records: agree on a new run"
                )
        for name in names:
            for part in ("-wal", "-shm"):  # SQLite would take them for parts of the file that is put back
                path.with_name(name + part).unlink(missing_ok=True)
            for part in ("-state0", "-state1", "", "-head"):
                if (folder / (name + part)).exists():
                    (folder / (name + part)).replace(path.with_name(name + part))
        sync_folder(path.resolve().parent)
    return found


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Refuses a store that an agent uses: it would go on with files that are no longer there."""
    file = journal.held(path)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def _stores(path: Path) -> list[Path]:
    """The store, and those of the runs without members, in the order in which the agent came to them."""
    later = sorted(path.parent.glob(f"{path.stem}.*.store"), key=lambda each: len(each.name))
    return [each for each in (path, *later) if each.exists()]


def _unpacked(backup: Path, folder: Path, stem: str) -> list[str]:
    """The names of the stores in a backup, whose files are written to this folder."""
    names = []
    try:
        with tarfile.open(backup, mode="r:") as archive:
            for part in archive:
                base = next((part.name.removesuffix(end) for end in _PARTS[1:] if part.name.endswith(end)), part.name)
                file = archive.extractfile(part) if part.isfile() else None
                if file is None or "/" in part.name or not base.endswith(".store"):
                    raise InputError(f"{backup} is not a backup of an agent: it holds {part.name!r}")
                with open(
                    os.open(folder / (stem + part.name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
                ) as to:
                    while piece := file.read(1 << 20):
                        to.write(piece)
                    to.flush()
                    os.fsync(to.fileno())
                names += [stem + part.name] if base == part.name else []
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"{backup} cannot be read as a backup of an agent: {error}") from None
    return sorted(names, key=len)
