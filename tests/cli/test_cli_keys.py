"""`tacit federation renew`, `accept`, `revoke` and `new --predecessor`: the steps of docs/deploy.md, and refusals."""

import base64
import csv
import json
import re
import shlex
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from patients import SCHEMA
from ports import free_ports

from tacit import files
from tacit.agent import identity
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity, fingerprint
from tacit.agent.membership import renewal, revocation
from tacit.agent.membership.renewal import NEXT
from tacit.cli import federation_keys

ROWS = {"alder": 4, "birch": 4, "cedar": 4}


def steps():
    """The commands of the chapter, in order."""
    text = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    chapter = text[text.index("\n## Keys and members change") : text.index("\n## A report to read")]
    blocks = re.findall(r"```console\n(.*?)```", chapter, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n") if line.strip()]
    return [shlex.split(line.strip().removeprefix("$ "))[1:] for line in lines]


@pytest.fixture
def sites(tmp_path, tacit, monkeypatch):
    """A folder for each member, with its identity and its own copy of the federation file; gives a way to go there."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    members = []
    for (name, rows), port in zip(ROWS.items(), free_ports(3), strict=True):
        Identity.new(name, tmp_path)
        members += ["--member", f"{name},127.0.0.1:{port},{rows},{name}/certificate.pem"]
    made = ("--title", "spring", "--schema", "schema.toml", "--graph", "ring", *members, "--out", "federation.toml")
    assert tacit("federation", "new", *made)[0] == 0
    for name in ROWS:
        site = tmp_path / f"at {name}"
        site.mkdir()
        shutil.copytree(tmp_path / name, site / name)
        for file in ("federation.toml", "schema.toml"):
            shutil.copy(tmp_path / file, site / file)

    def at(name):
        monkeypatch.chdir(tmp_path / f"at {name}")
        return tmp_path / f"at {name}"

    return at


def doctor(tacit):
    with open("alder.csv", "w", newline="") as file:
        csv.writer(file).writerows([("age", "ward", "died"), *[(40 + k, "surgery", "yes") for k in range(4)]])
    given = ("--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv", "--json")
    found = {}
    for each in json.loads(tacit("agent", "doctor", *given)[1]):
        found[each["what"], each["level"]] = found.get((each["what"], each["level"]), "") + each["text"] + "\n"
    return found


def test_the_steps_of_the_docs(sites, tacit):
    renew, accept, change, revoke, succeed, show = steps()
    home = sites("alder")
    run, old = Federation.load(Path("federation.toml")).run, Identity.load(Path("alder"))
    code, out, err = tacit(*renew)
    assert code == 0, err
    (new,) = re.findall("SHA-256 ([0-9a-f]{64})", out)
    first = Path("alder.renewal.toml").read_text()
    assert "send alder.renewal.toml to birch, cedar" in out
    assert tacit(*renew)[0] == 0
    assert Path("alder.renewal.toml").read_text() == first
    assert Identity.load(Path("alder")) == old
    assert "tacit federation accept federation.toml STATEMENT --identity alder" in doctor(tacit)["renewal", "warn"]
    for name in ("birch", "cedar"):
        site = sites(name)
        shutil.copy(home / "alder.renewal.toml", site)
        file = Path("federation.toml")
        file.write_text("# our copy\n" + file.read_text())
        code, out, err = tacit(*accept)
        assert (code, f"{new}: compare it with alder" in out) == (0, True), err
        text = file.read_text()
        assert text.startswith("# our copy\n")
        code, out, err = tacit(*accept)
        assert (code, err, file.read_text()) == (0, "federation.toml has it already\n", text)
        assert Federation.load(file).run == run
        assert new in tacit(*("federation", "show", "federation.toml"))[1]
    sites("alder")
    code, out, err = tacit(*change)
    assert (code, f"{new}: its key is in alder now" in out) == (0, True), err
    assert fingerprint(Identity.load(Path("alder")).certificate) == new
    assert not Path("alder", NEXT).exists()
    assert ("renewal", "warn") not in doctor(tacit)
    assert tacit(*change)[0] == 0
    # Revoked: the agent reads the list
    assert doctor(tacit)["certificates", "ok"]
    code, out, err = tacit(*revoke)
    assert (code, "this run cannot go on without it" in out) == (0, True), err
    assert "birch is refused: it is revoked here" in doctor(tacit)["refused", "fail"]
    given = ("--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv", "--exact")
    code, out, err = tacit("agent", "run", *given)
    assert (code, "refused here: birch (it is revoked here). This run cannot go on" in err) == (78, True), err
    # The next version
    shutil.copytree(home.parent / "cedar", home / "cedar")
    code, out, err = tacit(*succeed)
    assert code == 0, err
    assert f"the next version of the run {run[:16]}" in out
    assert "birch is no longer a member" in out
    later = Federation.load(Path("autumn.toml"))
    assert later.predecessor == run
    assert later.certificates("alder") == (old.certificate, Identity.load(Path("alder")).certificate)
    assert later.accepted("alder") == later.certificates("alder")[1:]
    assert "alder has another certificate" not in out
    assert tacit(*show)[1] == out


def test_a_false_predecessor(sites, tacit):
    sites("alder")
    *_, succeed, show = steps()
    for name in ("alder", "cedar"):
        shutil.copytree(f"../{name}", f"{name}2")
    text = Path("federation.toml").read_text()
    at = succeed.index("--epsilon")  # a calibration takes a second
    words = [word.replace("cedar/", "cedar2/") for word in succeed[:at] + succeed[at + 2 :]]
    Identity.new("cedar", Path("cedar2"))
    assert tacit(*[word.replace("cedar2/", "cedar2/cedar/") for word in words])[0] == 0
    out = tacit(*show)[1]
    assert "cedar has another certificate, and no renewal leads to it: compare it with cedar, SHA-256" in out
    Path("federation.toml").write_text(text.replace('title = "spring"', 'title = "winter"'))
    code, _, err = tacit(*show)
    assert (code, "names another predecessor" in err) == (2, True)
    Path("autumn.toml").unlink()
    named = ["0" * 63 + "1" if word == "federation.toml" else word for word in words]
    code, out, err = tacit(*named)
    assert (code, "the next version of the run 0000000000000000" in out) == (0, True), err
    code, out, err = tacit(*["0123" if word == "federation.toml" else word for word in words])
    assert (code, "0123" in err) == (2, True)


def statement(old, new, ago=timedelta(0)):
    """A renewal, made by hand."""
    until = (datetime.now(UTC) - ago).isoformat(timespec="seconds")
    signed = renewal._signed(old.certificate, new.certificate, until)
    signatures = (base64.b64encode(each.sign(signed)).decode() for each in (old, new))
    return renewal.Renewal(old.name, until, *signatures, old.certificate, new.certificate).to_toml()


def test_what_is_not_accepted(sites, tacit, monkeypatch):
    """A second renewal of one key, a statement of somebody else, one that was changed, one that comes too late."""
    sites("alder")
    shutil.copytree("alder", "stolen")
    for home in ("alder", "stolen"):
        assert tacit("federation", "renew", "federation.toml", "--identity", home, "--out", f"{home}.toml")[0] == 0
    Path("changed.toml").write_text(re.sub('until = "20..', 'until = "2099', Path("alder.toml").read_text()))
    Path("more.toml").write_text(Path("alder.toml").read_text() + 'title = "ours"\n')
    assert tacit("federation", "accept", "federation.toml", "alder.toml")[0] == 0
    text = Path("federation.toml").read_text()
    Identity.new("mallory", Path())
    Path("huge.toml").write_text(Path("alder.toml").read_text() + 100_000 * "#\n")
    old = Identity.load(Path("stolen"))
    Path("sooner.toml").write_text(statement(old, Identity.load(Path("alder", NEXT))))
    Path("earlier.toml").write_text(statement(Identity.made("alder", 30), old))  # what is known must not begin anew
    for file, complaint in {
        "stolen.toml": "two renewals of one certificate of alder",
        "changed.toml": "alder",
        "earlier.toml": "tells it nothing new",
        "huge.toml": "has more than 65,536 bytes",
        "sooner.toml": "has this renewal with another time",
        "more.toml": "a renewal sets member, until",
        "schema.toml": "is not a statement of a renewal",
        "none.toml": "none.toml",
    }.items():
        code, out, err = tacit("federation", "accept", "federation.toml", file)
        assert (code, out, complaint in err, err.count("\n")) == (2, "", True, 1), err
        assert Path("federation.toml").read_text() == text
    code, _, err = tacit("federation", "renew", "federation.toml", "--identity", "mallory")
    assert (code, "mallory is not a member" in err) == (2, True)
    code, _, err = tacit("federation", "renew", "federation.toml", "--identity", "alder", "--overlap-days", 91)
    assert code == 2

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(731)

    sites("birch")
    shutil.copy("../at alder/alder.toml", "alder.toml")
    monkeypatch.setattr(identity, "datetime", Later)
    Path("future.toml").write_text(statement(old, Identity.made("alder", 30)))
    monkeypatch.setattr(identity, "datetime", datetime)
    code, _, err = tacit("federation", "accept", "federation.toml", "future.toml")
    assert (code, "the certificate of alder is valid from" in err) == (2, True)
    monkeypatch.setattr(identity, "datetime", Later)
    code, _, err = tacit("federation", "accept", "federation.toml", "alder.toml")
    assert (code, "the certificate of alder expired" in err) == (2, True)


def test_a_time_that_is_over_is_said(sites, tacit):
    sites("alder")
    made = statement(Identity.load(Path("alder")), Identity.made("alder", 30), ago=timedelta(minutes=30))
    Path("alder.toml").write_text(made)
    code, out, _ = tacit("federation", "accept", "federation.toml", "alder.toml")
    (until,) = re.findall('until = "(.*)"', made)
    assert (code, f"the old one counts no more, since {until}: a report that it has signed after" in out) == (0, True)


def at_the_same_time(monkeypatch, module, *commands):
    """Runs functions in threads. Each waits, before it replaces a file, until the other one is as far, or for a second:
    it has read the file by then, and if both have, one of the changes is lost."""
    both, really = threading.Barrier(len(commands)), module.replacing

    def late(path):
        with suppress(threading.BrokenBarrierError):
            both.wait(1.0)
        return really(path)

    monkeypatch.setattr(module, "replacing", late)
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(command) for command in commands]:
            done.result()


def test_two_statements_that_are_accepted_at_the_same_time(sites, tacit, monkeypatch):
    home = sites("cedar")
    for name in ("alder", "birch"):
        shutil.copytree(home.parent / name, name)
        assert tacit("federation", "renew", "federation.toml", "--identity", name)[0] == 0
    file = Path("federation.toml").absolute()
    accepted = (partial(federation_keys.accept, file, Path(f"{name}.renewal.toml")) for name in ("alder", "birch"))
    at_the_same_time(monkeypatch, federation_keys, *accepted)
    assert {each.member for each in Federation.load(file).renewals} == {"alder", "birch"}
    assert {path.name for path in home.iterdir()} == {
        *("alder", "birch", "cedar", "schema.toml", "federation.toml", "alder.renewal.toml", "birch.renewal.toml")
    }


def test_two_members_that_are_revoked_at_the_same_time(sites, monkeypatch):
    home = sites("cedar") / "cedar"
    known = {name: Federation.load(Path("federation.toml")).certificates(name) for name in ("alder", "birch")}
    at_the_same_time(monkeypatch, files, *(partial(revocation.revoke, home, *each, "x") for each in known.items()))
    assert len(revocation.revoked(home)) == 2


def test_two_renewals_of_one_key_at_the_same_time_are_one(sites, monkeypatch):
    home, both = sites("alder") / "alder", threading.Barrier(2)

    def late(name, days):
        with suppress(threading.BrokenBarrierError):
            both.wait(1.0)  # each has seen that there is no new key yet
        return made(name, days)

    made = Identity.made
    monkeypatch.setattr(Identity, "made", late)
    with ThreadPoolExecutor() as threads:
        found = [threads.submit(renewal.begin, home, 30, 1) for _ in range(2)]
        assert found[0].result() == found[1].result() == renewal.waiting(home)


def test_whom_one_can_revoke(sites, tacit):
    sites("alder")
    for member, complaint in (("alder", "you cannot revoke yourself"), ("mallory", "mallory is not a member")):
        given = ("federation.toml", member, "--identity", "alder", "--why", "x")
        code, _, err = tacit("federation", "revoke", *given)
        assert (code, complaint in err) == (2, True)
    assert not Path("alder/revoked.json").exists()
    Path("alder/revoked.json").write_text('{"revoked": [{"name": "birch"}]}')
    found = doctor(tacit)
    assert "is not a list of revoked certificates" in found["federation", "fail"]  # nobody is let in by a broken list


def test_the_doctor_names_the_command_in_time(sites, tacit, tmp_path):
    sites("alder")
    Identity.new("alder", Path("alder"), days=20)
    short = (Path("alder") / "alder" / "certificate.pem").read_text()
    text = Path("federation.toml").read_text()
    Path("federation.toml").write_text(text.replace(Identity.load(Path("alder")).certificate, short))
    for file in ("key.pem", "certificate.pem"):
        (Path("alder") / "alder" / file).replace(Path("alder") / file)
    assert "renew it: tacit federation renew federation.toml --identity alder" in doctor(tacit)["certificates", "warn"]


def test_a_file_that_says_something_else_is_not_overwritten(sites, tacit):
    """One with renewals, or one that was agreed upon with other settings. The same content is no mistake."""
    at = sites("alder")
    for name in ("birch", "cedar"):
        shutil.copytree(f"../{name}", name)
    before = (at / "federation.toml").read_bytes()
    members = [
        word
        for each in Federation.load(at / "federation.toml").members
        for word in ("--member", f"{each.name},{each.address},{each.rows},{each.name}/certificate.pem")
    ]
    made = ("federation", "new", "--title", "spring", "--schema", "schema.toml", "--graph", "ring", *members)
    assert tacit(*made)[0] == 0
    assert (at / "federation.toml").read_bytes() == before
    complaint = "federation.toml exists, and says something else"
    code, out, err = tacit(*made, "--rounds", 5)
    assert (code, out, complaint in err, err.count("\n")) == (2, "", True, 1), err
    assert (at / "federation.toml").read_bytes() == before
    assert tacit("federation", "renew", "federation.toml", "--identity", "alder")[0] == 0
    assert tacit("federation", "accept", "federation.toml", "alder.renewal.toml")[0] == 0
    after = (at / "federation.toml").read_bytes()
    code, _, err = tacit(*made)
    assert (code, complaint in err) == (2, True), err
    assert (at / "federation.toml").read_bytes() == after != before
    (at / "federation.toml").unlink()
    assert tacit(*made, "--rounds", 5)[0] == 0
