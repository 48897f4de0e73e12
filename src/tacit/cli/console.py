"""Output: results go to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tacit.cli import names

if TYPE_CHECKING:
    from tacit.engines.work import Tell
    from tacit.run.budget import Budget

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def warn(message: str) -> None:
    """Prints one line that begins with `warning:`."""
    err.print(Text.assemble(("warning: ", "yellow"), message), soft_wrap=True)


_LARGE = 6 << 20  # bytes of a file that takes more than a second


@contextmanager
def working(what: str, file: str | Path) -> Iterator[None]:
    """Shows on a terminal what a command does with a large file, as long as it does it.

    what : such as reading
    file : the file of records; nothing is shown if it is small
    """
    path = Path(file)
    if not path.is_file() or path.stat().st_size < _LARGE:
        yield
        return
    note = " (the first time on a machine: some seconds more)" if what == "reading" else ""  # kernels are compiled
    with err.status(Text(f"{what} {path.name}{note}")):
        yield


def can_plot() -> bool:
    """Whether plots can be drawn; if not, prints one line that says why."""
    why = names.no_plot()
    if why is not None:
        err.print(f"no plot: {why}", markup=False, soft_wrap=True)
    return why is None


def check_total(budget: Budget, rows: int) -> None:
    """Refuses a delta that is too large for so many rows, unless there is a reason; warns of a total that protects
    hardly anybody."""
    for message in budget.warnings(rows):
        warn(message)


def tell(notes: list[str]) -> None:
    """Prints what drafting a schema found: first the warning that it read private data, then the details."""
    warn(notes[0])
    for note in notes[1:]:
        err.print(f"note: {note}", markup=False, soft_wrap=True)


def tell_written(*files: Path | None) -> None:
    """Says which files a command has written; None stands for a file that was not asked for."""
    err.print(f"wrote {' and '.join(str(file) for file in files if file is not None)}", markup=False, soft_wrap=True)


@contextmanager
def if_stopped(facts: Callable[[], str]) -> Iterator[None]:
    """Adds what was done until then, and what was not, to the line that Ctrl-C leaves (`tacit.cli`)."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(facts())
        raise


@contextmanager
def rounds_bar(total: int) -> Iterator[Progress]:
    """A progress bar over rounds; it disappears when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        bar.add_task("rounds", total=total)
        yield bar


@contextmanager
def work_bar() -> Iterator[Tell]:
    """One display for all that takes long: what is being done, how much of it is done, and how long the rest will
    take. It comes with the first call, and disappears when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True)

    def tell(what: str, done: int, total: int) -> None:
        if not bar.tasks:
            bar.start()
            bar.add_task(what)
        if done == 0:
            bar.reset(bar.task_ids[0], total=total)
        bar.update(bar.task_ids[0], description=what, completed=done, total=total)

    try:
        yield tell
    finally:
        if bar.tasks:  # otherwise it would leave an empty line
            bar.stop()
