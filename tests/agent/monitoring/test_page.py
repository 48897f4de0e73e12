"""The page to watch: who gets it, who does not, and that it never disturbs the agent."""

import http.client
import json
import logging
import re
import socket
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from tacit.agent.monitoring import page as pages
from tacit.agent.monitoring.page import LastLines, Page
from tacit.errors import InputError, MachineError

STATE = {"title": "spring", "members": [{"member": "<script>alert(1)</script>"}]}


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    monkeypatch.setattr(pages, "_LAST_WORD", 0.1)


@pytest.fixture
def page():
    made = Page("127.0.0.1:0", lambda: dict(STATE))
    yield made
    made.close()


def place(page):
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]{32}/)", page.address)
    return int(found[1]), found[2]


def get(page, path=None, method="GET", **fields):
    """Status, fields and body of an answer."""
    port, own = place(page)
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.request(method, own if path is None else path, headers=fields)
    answer = line.getresponse()
    found = answer.status, answer.headers, answer.read()
    line.close()
    return found


def test_the_page_and_its_data(page):
    status, fields, body = get(page)
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", fields["Content-Security-Policy"])[1]
    assert status == 200
    assert f'<script nonce="{nonce}">'.encode() in body
    assert b"http" not in body  # nothing of anybody else
    status, _, body = get(page, place(page)[1] + "state.json")
    assert (status, json.loads(body)) == (200, STATE | {"ended": None})


def test_strict_fields(page):
    one, two = (get(page)[1] for _ in range(2))
    assert one["Content-Security-Policy"] != two["Content-Security-Policy"]  # a nonce is used once
    for fields in (one, get(page, "/")[1], get(page, place(page)[1] + "state.json")[1]):
        assert fields["Content-Security-Policy"].startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in fields["Content-Security-Policy"]
        assert "unsafe" not in fields["Content-Security-Policy"]
        wanted = {
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        assert {name: fields[name] for name in wanted} == wanted


def test_nothing_without_the_secret(page):
    own = place(page)[1]
    for path in ("/", "/state.json", "/favicon.ico", own[:-2] + "/", own.swapcase(), own + "other", own.rstrip("/")):
        status, _, body = get(page, path)
        assert (status, body) == (404, b"Not Found\n")
    other = Page("127.0.0.1:0", dict)
    other.close()
    assert other.address.split("/")[3] != own.strip("/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_nothing_can_be_written(page, method):
    assert get(page, method=method)[0] == 405


@pytest.mark.parametrize(
    "fields",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_not_for_other_sites_in_the_same_browser(page, fields):
    assert get(page, **fields)[0] == 403


def raw(page, sent):
    with socket.create_connection(("127.0.0.1", place(page)[0]), timeout=20) as line:
        line.sendall(sent)
        return line.recv(1 << 16)


def test_nonsense(page):
    host = f"Host: 127.0.0.1:{place(page)[0]}\r\n".encode()
    for head in (b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno field\r\n\r\n", b"\xff / HTTP/1.1\r\n\r\n"):
        assert b" 400 " in raw(page, head)
    assert b" 400 " in raw(page, b"GET / HTTP/1.1\r\n" + 2 * host + b"\r\n")
    assert b" 404 " in raw(page, b"GET * HTTP/1.1\r\n" + host + b"\r\n")
    assert get(page)[0] == 200


def test_clients_that_are_slow_or_many_or_long(page, monkeypatch):
    monkeypatch.setattr(pages, "_PATIENCE", 0.2)
    port = place(page)[0]
    idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3 * pages._CLIENTS)]
    for line in idle:  # each is closed: at once if there are too many, or when its time is over
        with suppress(ConnectionResetError):
            assert line.recv(1) == b""
        line.close()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line, suppress(OSError):
        for _ in range(1000):
            line.sendall(b"x" * 65536)
        assert line.recv(1) == b""
    monkeypatch.setattr(pages, "_PATIENCE", 20.0)
    assert get(page)[0] == 200


def test_an_error_is_shown_and_harms_nobody():
    def broken():
        raise ValueError("the store is gone")

    page = Page("127.0.0.1:0", broken)
    assert json.loads(get(page, place(page)[1] + "state.json")[2])["problem"] == "the store is gone"
    page.close()


def test_a_page_that_has_failed_harms_nobody(monkeypatch, caplog):
    async def broken(*_, **__):
        raise OSError("no more files")

    monkeypatch.setattr(pages.asyncio, "start_server", broken)
    page = Page("127.0.0.1:0", lambda: dict(STATE))
    page.close()
    page.close()
    assert "the page to watch has stopped: no more files; the agent goes on" in caplog.text


def test_looks_are_rare_if_they_are_slow():
    """However many ask: looking takes a twentieth of the time at most."""
    looks = []

    def slowly():
        looks.append(time.monotonic())
        time.sleep(0.1)
        return dict(STATE)

    page = Page("127.0.0.1:0", slowly)
    for _ in range(5):
        get(page, place(page)[1] + "state.json")
    page.close()
    assert all(after - before >= 0.1 / pages._SHARE for before, after in pairwise(looks))
    assert len(looks) < 5


def test_somebody_who_watches_learns_how_it_ended():
    page = Page("127.0.0.1:0", lambda: dict(STATE))
    path = place(page)[1] + "state.json"
    get(page, path)
    page._ended, page._next = {"error": "no room"}, 0.0
    assert json.loads(get(page, path)[2])["ended"] == {"error": "no room"}
    page.close("no room")
    with pytest.raises(OSError, match="refused"):
        get(page)


@pytest.mark.parametrize(
    "where", ["0.0.0.0:8642", "192.168.1.5:8642", "[::]:1", "alder.example:80", "127.0.0.1", ":1", "x"]
)
def test_only_this_machine(where):
    with pytest.raises(InputError, match="--page"):
        Page(where, dict)


def test_a_port_that_is_taken(page):
    with pytest.raises(MachineError, match=f"cannot listen at 127.0.0.1:{place(page)[0]}.*name another port"):
        Page(f"127.0.0.1:{place(page)[0]}", dict)


def test_the_last_lines_of_a_log():
    kept, log = LastLines(), logging.Logger("tacit.test")
    log.addHandler(kept)
    for k in range(300):
        log.warning("line %d", k)
    assert len(kept.lines()) == 100
    assert re.fullmatch(r"\d\d:\d\d:\d\d line 299", kept.lines()[-1])
