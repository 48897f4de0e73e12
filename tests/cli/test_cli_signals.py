"""A signal at any moment ends `tacit agent run` with an exit code of docs/deploy.md: 75, or 0 if the work is done."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patients import SCHEMA

from tacit.agent.identity import Identity

# An agent whose run is over at once. `now` is called at one moment of its life.
SCRIPT = """
import asyncio, atexit, logging, os, sys

def now():
    os.kill(os.getpid(), {number})

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            now()

def at_the_last_line(record):
    if "rounds done" in record.getMessage():
        now()
    return True

async def left():
    try:
        await asyncio.sleep(60)
    finally:
        now()

async def take_part(participant, **_):
    if {moment!r} == "the loop ends":
        take_part.left = asyncio.create_task(left())
        await asyncio.sleep(0)

if {moment!r} == "imports":
    sys.meta_path.insert(0, Importing())
else:
    import tacit.agent.run
    tacit.agent.run.take_part = take_part
if {moment!r} == "the last line":
    logging.getLogger("tacit.agent").addFilter(at_the_last_line)
if {moment!r} == "Python ends":
    atexit.register(now)
sys.argv = ["tacit", *sys.argv[1:]]
from tacit.cli import main
main()
"""
CODES = {"imports": 75, "the loop ends": 0, "the last line": 75, "Python ends": 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", CODES)
def test_a_signal_at_any_moment(tacit, tmp_path, moment, number):
    Path("schema.toml").write_text(SCHEMA)
    members = []
    for k, name in enumerate(("alder", "birch")):
        Identity.new(name, tmp_path)
        members += ["--member", f"{name},127.0.0.1:{7441 + k},1,{name}/certificate.pem"]
    new = ("--title", "x", "--schema", "schema.toml", "--graph", "path", "--rounds", 5, *members)
    assert tacit("federation", "new", *new)[0] == 0
    Path("alder.csv").write_text("age,ward,died\n50,surgery,yes\n")
    run = ["agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv", "--exact"]
    script = SCRIPT.format(number=int(number), moment=moment)
    ended = subprocess.run([sys.executable, "-c", script, *run], capture_output=True, text=True, timeout=600)
    assert ended.returncode == CODES[moment], ended.stderr
    if CODES[moment] == 75:
        line = f"tacit: error: stopped by {number.name}; nothing is lost: start it again"
        assert ended.stderr.splitlines()[-1].endswith(line)
    assert "Traceback" not in ended.stderr
