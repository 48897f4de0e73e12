"""A browser without a screen, for tests and screenshots: Chromium, driven by its DevTools protocol over a pipe.

The protocol is lines of JSON that end with a zero byte, so no other package is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # in a container there is none; pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
)
_PATIENCE = 60.0  # seconds for one answer


def found() -> str | None:
    """The browser of this machine, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `console` has its messages of any level above information, `requests` the addresses it asked for."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._count, self._rest = write, read, 0, b""
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol, and gives its result."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        message |= {} if self._session is None else {"sessionId": self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self._events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._read, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser does not answer")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Sets the size of the window, and whether the reader prefers dark pages."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Goes to an address, and waits until it is loaded."""
        before = len(self._events)
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events[before:]):
            self._events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """The value of some JavaScript, which the page's own policy does not hinder."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, expression: str, within: float = 180.0) -> Any:
        """Waits until some JavaScript has a true value, and gives that."""
        end = time.monotonic() + within
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise RuntimeError(f"not within {within:g} s: {expression}\n{self.evaluate('document.body.innerText')}")
            time.sleep(0.05)
        return value

    def picture(self, height: int | None = None) -> bytes:
        """A PNG of the page, as wide as the window and as high as the page, or less."""
        width, full = self.evaluate("[innerWidth, Math.ceil(document.documentElement.getBoundingClientRect().height)]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(full, height or full), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    @property
    def console(self) -> list[str]:
        """Warnings and errors, of scripts and of the browser itself."""
        said = []
        for event in self._events:
            about = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                said.append(str(about["exceptionDetails"]))
            elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                said.append(str(about["args"]))
            elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                said.append(about["entry"]["text"])
        return said

    @property
    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        sent = [event for event in self._events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextmanager
def page() -> Iterator[Page]:
    """A tab of a browser that is started for it, with a profile of its own."""
    executable = found()
    if executable is None:
        raise RuntimeError("there is no browser")
    here_read, there_write = os.pipe()
    there_read, here_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads from the file 3 and writes to the file 4.
        shell = f'exec "$0" "$@" 3<&{there_read} 4>&{there_write}'
        command = ["bash", "-c", shell, executable, *_OPTIONS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            command, pass_fds=(there_read, there_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(there_read)
        os.close(there_write)
        try:
            yield Page(here_write, here_read)
        finally:
            process.kill()
            process.wait()
            os.close(here_read)
            os.close(here_write)
