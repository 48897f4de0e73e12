"""What is seen of an agent while it runs: its log, a page, metrics, a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tacit.agent.monitoring.logs import Lines, log
from tacit.agent.monitoring.progress import Progress
from tacit.cli.console import err, rounds_bar
from tacit.errors import MachineError, TacitError, of_the_machine

if TYPE_CHECKING:
    from tacit.agent.loop import Watch
    from tacit.agent.participant import Participant


def above_the_bar() -> Callable[[str], None] | None:
    """Writes lines to a terminal, where a bar may be; None if the error stream is no terminal."""
    return (lambda line: err.print(line, markup=False, soft_wrap=True)) if err.is_terminal else None


@contextmanager
def ending_in_the_log() -> Iterator[None]:
    """An error is one line of the log, and its exit code: 1 if nobody expected it."""
    try:
        yield
    except TacitError as error:
        log.error(str(error))
        raise typer.Exit(error.exit_code) from None
    except Exception as error:
        if of_the_machine(error):
            lacking = error.strerror if isinstance(error, OSError) else "too little memory"
            log.error(f"the machine does not let this agent go on ({lacking}): mend that, and start it again")
            raise typer.Exit(MachineError.exit_code) from None
        log.critical("", exc_info=True)
        raise typer.Exit(1) from None


def last_words(lines: Lines) -> Callable[[str], None]:
    """Logs why the process ends, and sees to it that the line is written."""

    def end(why: str) -> None:
        log.error(why)
        lines.close()

    return end


@contextmanager
def bar(shown: bool, rounds: int) -> Iterator[Watch]:
    """A progress bar; gives what moves it."""
    if not shown:
        yield lambda doing, done, rounds: None
        return
    with rounds_bar(rounds) as made:
        yield lambda doing, done, rounds: made.update(made.task_ids[0], description=doing, completed=done, total=rounds)


@contextmanager
def measured(where: str | None, progress: Progress, ledger: Path | None, lines: Lines) -> Iterator[None]:
    """Serves metrics, if they are asked for."""
    if where is None:
        yield
        return
    from tacit.agent.monitoring.prometheus import Metrics, is_local

    served = Metrics(where, progress, ledger, lambda: lines.lost)
    log.info(f"metrics and a health check are at port {served.port}")
    if not is_local(where):
        log.warning("metrics are open to whoever reaches this address: the times of steps may depend on records")
    try:
        yield
    finally:
        served.close()


@contextmanager
def watched(where: str | None, participant: Participant, ledger: Path | None, lines: Lines) -> Iterator[None]:
    """Serves a page to watch the agent, if one is asked for; says on it how the agent ended."""
    if where is None:
        yield
        return
    from tacit.agent.monitoring.page import LastLines, Page
    from tacit.agent.monitoring.status import Watched

    first, last = [participant, *participant.earlier()][-1], LastLines()
    member = Watched(participant.name, first.federation, first.store.path, ledger, last.lines)
    page = Page(where, lambda: {"title": first.federation.title, "members": [member.look()]})
    lines.say(f"watch it at {page.address}")
    failure: str | None = "stopped"
    log.addHandler(last)
    try:
        yield
        failure = None
    except TacitError as error:
        failure = str(error)
        raise
    finally:
        page.close(failure)
        log.removeHandler(last)
