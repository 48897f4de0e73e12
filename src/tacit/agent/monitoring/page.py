"""A page to watch: what an agent is doing, for a browser on the same machine.

The page only shows what `tacit agent status`, the ledger and the log have; nothing can be changed through it. It runs
in a thread of its own: a browser that is slow, or asks for nonsense, does not hold up the agent, and an error here ends
the page alone.

Who may look?

- Nobody on another machine: it listens at a loopback address only.
- No other user of this machine: the address contains a secret of 192 bits, and without it there is nothing but "not
  found". (The address is printed once, to standard error.)
- No other web page in the same browser. It does not know the secret. What a browser asks for on behalf of another site
  is refused, by the name that it calls this server by (`Host`, against rebinding of names) and by where the question
  comes from (`Sec-Fetch-Site`). No other page may show this one in a frame, or read it; it sends no address to others.
- Names of members and lines of the log may be hostile: the page's script only ever sets text, and the policy of the
  page lets no other script run, and nothing be loaded from or sent to anybody else.
- A client that opens many connections, or sends slowly: there are at most `_CLIENTS` at a time, each has `_PATIENCE`
  seconds for one question of `_HEAD` bytes.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from logging import Handler, LogRecord
from pathlib import Path
from typing import Any

from tacit.agent.monitoring.logs import log
from tacit.errors import InputError, failed
from tacit.html.markup import STYLE

_HEAD = 8192  # bytes of a question
_PATIENCE = 5.0  # seconds for a question and its answer
_CLIENTS = 16  # connections at a time
_OFTEN = 0.5  # seconds between two looks, at least
_SHARE = 0.05  # of one processor, at most, for looking
_LAST_WORD = 3.0  # seconds for which somebody who watches can still learn how it ended
_LINES = 100  # of the log
_TEMPLATE = Path(__file__).with_name("page.html")

Look = Callable[[], dict[str, Any]]


class Page:
    """A server of one page. `look` gives what it shows; it is called in the page's own thread."""

    def __init__(self, where: str, look: Look) -> None:
        host, port = loopback(where)
        self._look, self._seen, self._next = look, b"", 0.0
        self._token = secrets.token_urlsafe(24)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise failed(
                error, f"--page: cannot listen at {where}: {error.strerror or error}; name another port"
            ) from None
        shown = f"[{host}]" if ":" in host else host
        self._port = self._socket.getsockname()[1]
        self.address = f"http://{shown}:{self._port}/{self._token}/"
        self._hosts = {f"{name}:{self._port}" for name in (shown, "localhost")}
        self._clients, self._asked = 0, -1e9
        self._ended: dict[str, Any] | None = None
        self._told, self._ready = threading.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="page", daemon=True)
        self._thread.start()
        self._ready.wait(_PATIENCE)

    def show(self, look: Look) -> None:
        """Shows something else from now on."""
        self._look, self._next = look, 0.0

    def close(self, error: str | None = None) -> None:
        """The end. If somebody watches, the page stays until it has shown that, and the error, for some seconds."""
        self._ended, self._next = {"error": error}, 0.0
        if time.monotonic() - self._asked < _LAST_WORD:
            self._told.wait(_LAST_WORD)
        with suppress(RuntimeError):  # it has ended already
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_PATIENCE)
        self._socket.close()

    # In the thread

    def _serve(self) -> None:
        try:
            asyncio.run(self._listen())
        except Exception as error:
            log.warning(f"the page to watch has stopped: {error}; the agent goes on")
        finally:
            self._ready.set()

    async def _listen(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._client, sock=self._socket, limit=_HEAD)
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        async with server:
            await self._stop.wait()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients >= _CLIENTS:
            writer.transport.abort()
            return
        self._clients += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it has gone, is too slow, or says too much
        finally:
            writer.transport.abort()
            self._clients -= 1

    def _answer(self, head: bytes) -> bytes:
        """The whole answer to one question."""
        try:
            path = self._allowed(head)
        except _Denied as refused:
            return _response(refused.status, "text/plain", f"{refused.status.phrase}\n".encode())
        if path == "":
            nonce = secrets.token_urlsafe(16)
            return _response(HTTPStatus.OK, "text/html", _page(nonce), nonce)
        self._asked = time.monotonic()
        body = self._state()
        if self._ended is not None:
            self._told.set()
        return _response(HTTPStatus.OK, "application/json", body)

    def _allowed(self, head: bytes) -> str:
        """What is asked for: "" or "state.json". Refuses everything else, and everybody without the secret."""
        try:
            first, *lines = head.decode("ascii").split("\r\n")
            method, target, version = first.split(" ")
            pairs = [line.split(":", 1) for line in lines if line]
            fields = {name.strip().lower(): value.strip() for name, value in pairs}
        except ValueError:
            raise _Denied(HTTPStatus.BAD_REQUEST) from None
        if version not in ("HTTP/1.0", "HTTP/1.1") or len(fields) < len(pairs):
            raise _Denied(HTTPStatus.BAD_REQUEST)
        if fields.get("host") not in self._hosts or fields.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise _Denied(HTTPStatus.FORBIDDEN)
        if method != "GET":
            raise _Denied(HTTPStatus.METHOD_NOT_ALLOWED)
        _, token, path, *_ = [*target.split("/"), "", ""]
        known = hmac.compare_digest(token.encode(), self._token.encode())
        if not known or target not in (f"/{token}/", f"/{token}/state.json"):
            raise _Denied(HTTPStatus.NOT_FOUND)
        return path

    def _state(self) -> bytes:
        """What the page shows, looked at not too often."""
        if (start := time.monotonic()) >= self._next:
            try:
                self._seen = json.dumps(self._look() | {"ended": self._ended}, allow_nan=False).encode()
            except Exception as error:
                self._seen = json.dumps(
                    {"title": "", "members": [], "ended": self._ended, "problem": str(error)}
                ).encode()
            took = time.monotonic() - start
            self._next = time.monotonic() + max(_OFTEN, took / _SHARE)
        return self._seen


class _Denied(Exception):  # noqa: N818 (an answer, not a mistake)
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status


def loopback(where: str) -> tuple[str, int]:
    """Host and port of an address that only this machine reaches.

    >>> loopback("localhost:8642"), loopback("[::1]:0")
    (('127.0.0.1', 8642), ('::1', 0))
    """
    host, colon, port = where.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise InputError(f"--page is HOST:PORT, such as 127.0.0.1:8642; not {where!r}")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = False
    if not own:
        raise InputError(
            f"--page listens on this machine only: take 127.0.0.1:{port} or [::1]:{port}, not {where!r}; from another "
            "machine, use an SSH tunnel"
        )
    return host, int(port)


def _page(nonce: str) -> bytes:
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("{{nonce}}", nonce).replace("{{style}}", STYLE).encode()


def _response(status: HTTPStatus, kind: str, body: bytes, nonce: str | None = None) -> bytes:
    scripts = "" if nonce is None else f" script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self';"
    fields = {
        "Content-Type": f"{kind}; charset=utf-8",
        "Content-Length": len(body),
        "Content-Security-Policy": f"default-src 'none';{scripts} img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Connection": "close",
    }
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        fields["Allow"] = "GET"
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class LastLines(Handler):
    """Keeps the last lines of a log, with the time of each."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_LINES)

    def emit(self, record: LogRecord) -> None:
        """Keeps one line of the log, with its time."""
        self._lines.append(f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()}")

    def lines(self) -> list[str]:
        """The last ones, the newest at the end."""
        return list(self._lines)
