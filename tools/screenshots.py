"""The pictures of reports and of the page in docs/images, from a real federation on this machine.

python tools/screenshots.py    # needs Chromium; some minutes

The ledger's years are made up: tests/documents.py.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tacit.html.words import written
from tacit.report.pages import ledger

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
import browser
from documents import LEDGER

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
_TACIT = [sys.executable, "-m", "tacit"]


def save(name: str, png: bytes) -> None:
    """Writes a picture with few colours: a third of the size."""
    made = Image.open(io.BytesIO(png)).convert("RGB").quantize(128)
    made.save(IMAGES / f"{name}.png", optimize=True)


def watched(tab: browser.Page, folder: Path) -> None:
    """Runs the demonstration, and takes a picture of its page in the middle of the private run."""
    command = [*_TACIT, "federation", "demo", "--out", "demo", "--page", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        line = next(line for line in demo.stderr if "http://" in line)
        tab.resize(1200)
        tab.open(line.split()[-1])
        tab.until("window.seen && seen.title === 'private run' && seen.members.every(m => m.status?.round > 20)", 600)
        save("page", tab.picture(height=1100))
        demo.stderr.read()
    assert demo.returncode == 0


def report(tab: browser.Page, folder: Path) -> None:
    """An agent that has finished writes its report again, at no cost."""
    name = "agent-00"
    command = [*_TACIT, "agent", "run", "--federation", "federation.toml", "--identity", name, "--data", f"{name}.csv"]
    command += ["--ledger", f"{name}.ledger", "--out", f"{name}.json", "--report", f"{name}.html"]
    subprocess.run(command, cwd=folder / "demo" / "private", check=True)
    shot(tab, "report-run", (folder / "demo" / "private" / f"{name}.html").as_uri(), 1500)


def shot(tab: browser.Page, name: str, address: str, height: int) -> None:
    """The upper part of a page."""
    tab.resize(860)
    tab.open(address)
    save(name, tab.picture(height))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, browser.page() as tab:
        folder = Path(made)
        (folder / "ledger.html").write_text(ledger(LEDGER | written()), encoding="utf-8")
        shot(tab, "report-ledger", (folder / "ledger.html").as_uri(), 1100)
        watched(tab, folder)
        report(tab, folder)
