"""`tacit agent run` and `status`, seen from outside: logs without secrets, lines that are lost, all members at once."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from patience import all_ended
from patients import SCHEMA

from tacit.agent.identity import Identity

NAMES = ("alder", "birch", "cedar")
SECRET = "planted"  # in folders, in cells


@pytest.fixture
def members(tmp_path, monkeypatch, tacit):
    """Three members with the same six records, in folders whose names nobody should read."""
    home = tmp_path / f"{SECRET}-folder"
    home.mkdir()
    monkeypatch.chdir(home)
    Path("schema.toml").write_text(SCHEMA)
    Path("good.csv").write_text(f"age,ward,died,name\n{'50,surgery,yes,' + SECRET}\n" + "30,medicine,no,x\n" * 5)
    agree = ["federation", "new", "--title", "s", "--schema", "schema.toml", "--rounds", "5", "--out", "fed.toml"]
    for k, name in enumerate(NAMES):
        Identity.new(name, home)
        agree += ["--member", f"{name},127.0.0.1:{7441 + k},6,{name}/certificate.pem"]
    assert tacit(*agree)[0] == 0
    return home


def options(home, data="good.csv"):
    files = ["--federation", home / "fed.toml", "--identity", home / "alder", "--data", home / data]
    return [*files, "--exact", "--listen", "127.0.0.1:0", "--patience", "0.2", "--log-level", "debug"]


@pytest.mark.parametrize(
    ("line", "said", "code"),
    [
        ("50,surgery,yes,x", "waiting for birch, cedar for 0.2 s", 75),
        (f"{SECRET},surgery,yes,x", "a value at bad.csv line 2, column 'age' does not fit the schema", 2),
        (f"50,surgery,{SECRET},x", "a value at bad.csv line 2, column 'died' does not fit the schema", 2),
        ("50,surgery,yes,x,more", "bad.csv line 2 has 5", 2),
        ("400,surgery,yes,x", "column 'age': some values lie outside the schema's bounds", 75),
    ],
)
def test_no_line_has_a_secret_or_a_record(members, tacit, line, said, code):
    Path("bad.csv").write_text(Path("good.csv").read_text().replace(f"50,surgery,yes,{SECRET}", line))
    for form in ("text", "json"):
        found, out, err = tacit("agent", "run", *options(members, "bad.csv"), "--log-format", form)
        assert (found, out) == (code, "")
        assert said in err
        assert SECRET not in err
        secrets = Path("alder/key.pem").read_text().splitlines()[1:-1]
        assert len(secrets) >= 3
        assert not any(secret in err for secret in secrets)
        if form == "json":
            for each in err.splitlines():
                fields = json.loads(each)
                assert fields.keys() == {"time", "level", "member", "run", "tick", "message"}
                assert (fields["member"], len(fields["run"])) == ("alder", 16)  # known before the records are read
        else:
            assert all(re.match(r"\S+Z run=\S+ tick=\d+ tacit: \w+: ", each) for each in err.splitlines()), err


def test_a_page_is_not_for_machines(members, tacit):
    code, _, err = tacit("agent", "run", *options(members), "--page", "127.0.0.1:0", "--log-format", "json")
    assert (code, "leave out --log-format json" in err) == (2, True)


def test_an_agent_whose_lines_nobody_takes_ends_as_usual(members):
    """With its log on a full disk, in a closed pipe, or in one that is full and that nobody reads."""
    command = [sys.executable, "-m", "tacit", "agent", "run", *map(str, options(members))]
    full = os.open("/dev/full", os.O_WRONLY)
    closed, unread = os.pipe(), os.pipe()
    os.close(closed[0])
    os.set_blocking(unread[1], False)
    with suppress(BlockingIOError):
        while True:
            os.write(unread[1], bytes(4096))
    os.set_blocking(unread[1], True)
    agents = []
    for k, stream in enumerate((full, closed[1], unread[1])):
        own = ["--store", str(members / f"{k}.store")]
        agents.append(subprocess.Popen([*command, *own], stdout=stream, stderr=stream))
    assert all_ended(agents, 120)
    for each in (full, closed[1], *unread):
        os.close(each)
    assert [agent.returncode for agent in agents] == [75, 75, 75]


def test_all_members_at_once(members, tacit):
    show = ("agent", "status", "--federation", "fed.toml")
    tacit("agent", "run", *options(members))
    code, out, err = tacit(*show, "--folder", ".", "--watch")
    assert code == 0, err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["member", "round", "doing", "neighbours", "epsilon"]
    words = " ".join(out.split())
    assert "alder 0/5 " in words
    assert "birch it has not started yet" in words
    found = json.loads(tacit(*show, "--folder", ".", "--json")[1])
    assert [one["member"] for one in found] == list(NAMES)
    assert found[0]["seconds_since"] == {"birch": None, "cedar": None}
    assert "alder 0/5 " in " ".join(tacit(*show, "--identity", "alder", "--watch")[1].split())


def test_what_status_refuses(members, tacit):
    show = ("agent", "status", "--federation", "fed.toml")
    for more, reason in {
        (): "give --identity, the folder of one member, or --folder",
        ("--identity", "alder", "--folder", "."): "give --identity, the folder of one member, or --folder",
        ("--folder", ".", "--store", "x"): "--store is for one member",
        ("--folder", ".", "--json", "--watch"): "--json prints once",
        ("--folder", "alder"): "alder has no folder of a member; they are: alder, birch, cedar",
    }.items():
        code, _, err = tacit(*show, *more)
        assert (code, reason in err, err.count("\n")) == (2, True, 1), err
