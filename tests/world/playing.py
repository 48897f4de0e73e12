"""Plays schedules, one after the other, in a folder in memory."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.agent.monitoring.logs import log
from world.disk import machine
from world.lives import Lines, template
from world.schedule import Schedule, World

_MEMORY = Path("/dev/shm")


class Stage:
    """Where worlds are made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        self._templates = folder / "templates"
        self._templates.mkdir()

    def play(self, schedule: Schedule, *, trace: bool = False) -> World:
        """A world that is over. Its violations say whether it went well."""
        self._count += 1
        place = self.folder / str(self._count)
        place.mkdir()
        world = World(schedule, place, self._templates, trace=trace)
        try:
            with machine():
                world.play()
        finally:
            world.close()
            shutil.rmtree(place)
        return world


@contextmanager
def stage() -> Iterator[Stage]:
    """Inside, worlds can be played."""
    lines, propagate, level = Lines(), log.propagate, log.level
    with tempfile.TemporaryDirectory(prefix="tacit-world-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        log.addHandler(lines)
        log.propagate = False
        log.setLevel(logging.INFO)
        template.cache_clear()
        try:
            yield Stage(Path(folder))
        finally:
            log.removeHandler(lines)
            log.propagate = propagate
            log.setLevel(level)
