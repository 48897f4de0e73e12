"""The log of an agent: what a line has, what it never has, and that it never holds up or ends anything."""

import asyncio
import json
import logging
import os
import re
import sys
import threading
import time
from datetime import datetime

import pytest

from tacit.agent.monitoring.logs import Format, Formatter, Level, Lines, kept, log
from tacit.agent.monitoring.progress import Progress
from tacit.errors import InputError


@pytest.fixture
def progress():
    made = Progress()
    made.enter("alder", "ab" * 32, 65)
    made.show("computing", 3)
    return made


def logged(form, progress, *folders, level=Level.INFO):
    """What is written of three lines."""
    written = []
    with kept(form, level, progress, folders, written.append):
        log.debug("nobody reads this")
        log.info("met all\nneighbours")
        log.warning("a strange \x1b[2Jcaller")
    return written


def test_a_line_of_text_has_time_run_tick_and_level(progress):
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z run=abababababababab tick=3 tacit: "
    first, second = logged(Format.TEXT, progress)
    assert re.fullmatch(form + "info: met all neighbours", first)
    assert re.fullmatch(form + r"warning: a strange \?\[2Jcaller", second)


def test_a_line_of_json(progress):
    first, _ = map(json.loads, logged(Format.JSON, progress))
    at = datetime.fromisoformat(first.pop("time")).timestamp()
    assert abs(time.time() - at) < 60
    assert first == {
        "level": "info",
        "member": "alder",
        "run": "ab" * 8,
        "tick": 3,
        "message": "met all neighbours",
    }


def test_levels(progress):
    assert len(logged(Format.TEXT, progress, level=Level.DEBUG)) == 3
    assert len(logged(Format.TEXT, progress, level=Level.WARNING)) == 1
    assert logged(Format.TEXT, progress, level=Level.ERROR) == []


def test_files_are_named_without_their_folders(progress):
    written = []
    with kept(Format.TEXT, Level.INFO, progress, ["/home/anna/ward 7", "keys", "."], written.append):
        log.info("/home/anna/ward 7/a.csv, 'keys/key.pem' and monkeys/x.txt")
    assert written[0].endswith(": a.csv, 'key.pem' and monkeys/x.txt")


def test_of_an_unexpected_error_only_kind_and_place(progress):
    """Its text may quote a record; asyncio puts it into its own message, too."""
    written = []
    with kept(Format.JSON, Level.INFO, progress, [], written.append):
        try:
            float("Anna Smith")
        except ValueError as error:
            log.critical("", exc_info=True)
            logging.getLogger("asyncio").error("never retrieved: %r", error, exc_info=error)
        log.error("an error that we know", exc_info=InputError("column 'age' is missing"))
    unexpected, other, known = (json.loads(line)["message"] for line in written)
    for said in (unexpected, other):
        assert re.fullmatch(r"an error in the program \(ValueError\) at test_logs\.py:\d+", said)
    assert known == "column 'age' is missing"


def test_what_was_cancelled_is_no_news(progress):
    written = []
    with kept(Format.TEXT, Level.INFO, progress, [], written.append):
        logging.getLogger("asyncio").error("never retrieved", exc_info=asyncio.CancelledError())
        log.info("goes on")
    assert [line.rsplit(": ", 1)[1] for line in written] == ["goes on"]


def test_what_a_thread_fails_with_is_no_traceback(progress, capfd):
    def fail():
        raise ValueError("SECRET")

    written = []
    with kept(Format.TEXT, Level.INFO, progress, (), written.append):
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    (line,) = written
    assert "an error in the program (ValueError) at" in line
    assert "SECRET" not in line + "".join(capfd.readouterr())


@pytest.mark.parametrize("kind", ["closed", "full", "full disk"])
def test_lines_that_cannot_be_written_are_lost_and_nobody_waits(kind, progress, monkeypatch):
    reading, writing = os.pipe()
    if kind == "closed":
        os.close(reading)
    elif kind == "full disk":
        os.dup2(os.open("/dev/full", os.O_WRONLY), writing)
    stream = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stderr", stream)
    began = time.thread_time()
    with kept(Format.TEXT, Level.INFO, progress, []) as lines:
        for _ in range(4000):
            log.info("x" * 100)  # more than a pipe holds, and then more than the queue does
    assert lines.lost > 0
    assert time.thread_time() - began < 5.0  # seconds of computing: nothing was tried again and again
    stream.close()  # nothing is left in a buffer, which would fail here
    if kind == "full":
        os.close(reading)


def test_a_record_that_cannot_be_formatted_is_lost(progress):
    lines = Lines(lambda line: None)
    lines.setFormatter(Formatter(Format.TEXT, progress, []))
    lines.handle(logging.LogRecord("x", logging.INFO, "", 0, "%d", ("word",), None))
    lines.close()
    assert lines.lost == 1
