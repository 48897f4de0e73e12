"""`tacit identity`, `federation`, `agent`: the steps of docs/deploy.md, and what is refused in each of them."""

import base64
import csv
import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from ledger_format_2 import moved_back
from patience import all_ended
from patients import SCHEMA
from ports import free_ports

from tacit import __version__
from tacit.agent import identity
from tacit.agent.federation import Federation, difference, talk
from tacit.agent.identity import Identity, check_dates, read_certificate
from tacit.agent.participant import planned
from tacit.agent.store import Store
from tacit.algorithms import Geometric, PenaltyPerturbedADMM
from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge
from tacit.errors import GraphError, InputError
from tacit.privacy.events import Gaussian
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import canonical
from tacit.run.budget import Budget
from tacit.run.model import Model
from tacit.run.recipes import RECIPES
from tacit.run.spec import RunSpec

ROWS = {"alder": 400, "birch": 250, "cedar": 150}


def commands():
    text = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    return [shlex.split(block.replace("\\\n", " ")) for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)]


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """Records, a schema and identities of three hospitals."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("schema.toml").write_text(SCHEMA)
    for name, rows in ROWS.items():
        Identity.new(name, tmp_path)
        with open(f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "ward", "died"])
            for _ in range(rows):
                age, ward = rng.integers(20, 90), rng.choice(["surgery", "medicine"])
                writer.writerow([age, ward, "yes" if age + 20 * (ward == "surgery") > 70 else "no"])
    return tmp_path


def with_free_ports(command):
    """The ports in the docs may be in use on this machine."""
    ports = {f"{7441 + k}": str(port) for k, port in enumerate(free_ports(len(ROWS)))}
    return [re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", word) for word in command]


def test_the_deployment_of_the_docs(hospitals, tacit):
    found = [words for words in commands() if words[1] != "train"]
    new, agree, show, ledger, run, status, verify, make, certify, predict, watched = found
    assert watched[: len(run)] == run
    ports = dict(zip(ROWS, map(str, free_ports(3)), strict=True))
    for name in ROWS:
        Path(f"{name}/key.pem").unlink()
        Path(f"{name}/certificate.pem").unlink()
        Path(name).rmdir()
        assert tacit(*(word.replace("alder", name) for word in new[1:]))[0] == 0
        assert os.stat(f"{name}/key.pem").st_mode & 0o777 == 0o600
        assert tacit(*(word.replace("alder", name) for word in ledger[1:]))[0] == 0
    code, out, err = tacit(*with_free_ports(agree[1:]))
    assert code == 0, err
    assert "every record protected by (2, 1e-05) in total" in out
    assert tacit(*show[1:])[1] == out
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", "tacit"]
            + [word.replace("alder", name).replace("8642", ports[name]) for word in watched[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ROWS
    ]
    assert all_ended(agents, 240)
    said = [agent.communicate()[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0, 0], said
    assert "65 releases, 64 with noise: epsilon = 2 at delta = 1e-05" in said[0].replace("\n", " ")
    for name, text in zip(ROWS, said, strict=True):
        assert f"watch it at http://127.0.0.1:{ports[name]}/" in text
        data = re.search(r'id="data">(.*?)</script>', Path(f"{name}.html").read_text(encoding="utf-8"))[1]
        shown, report = json.loads(data), json.loads(Path(f"{name}.report.json").read_text())["report"]
        for key in ("title", "member", "run", "rounds", "epsilon", "delta", "private", "without", "listening"):
            assert shown[key] == (f"{report['title']}: {name}" if key == "title" else report[key])
        assert shown["messages"] == len(report["releases"])
        assert [step["command"].split()[1:3] for step in shown["verify"]] == [
            *(["federation", "show"], ["federation", "verify"], ["ledger", "verify"])
        ]
        for step in shown["verify"]:
            assert tacit(*step["command"].split()[1:])[0] == 0
    for name in ROWS:
        code, out, err = tacit(*(word.replace("alder", name) for word in status[1:]))
        assert f"{name}: round 65 of 65; finished" in out, err
        code, out, err = tacit(*(word.replace("alder", name) for word in verify[1:]))
        assert (code, f"signed by {name}: 65 releases as planned; epsilon = 2 at delta = 1e-05" in out) == (0, True), (
            err
        )
        assert "labelled records:\n  error 0." in tacit("predict", f"{name}.json", f"{name}.csv")[1]
        assert tacit("ledger", "verify", f"{name}.ledger")[0] == 0
    assert "signed by alder: 65 releases as planned; epsilon = 2 at delta = 1e-05" in tacit(*verify[1:])[1]
    assert tacit(*make[1:])[1] == "spring study: the reports of alder, birch, cedar agree\n"
    code, out, err = tacit(*certify[1:])
    assert (code, "The model file is the model that alder signed" in out) == (0, True), err
    Path("new-patients.csv").write_text("age,ward\n50,surgery\n30,medicine\n")
    assert tacit(*predict[1:])[0] == 0
    whole = json.loads(Path("alder.report.json").read_text())["report"]
    forged = [
        ("epsilon", 0.001),
        ("epsilon", "abc"),
        ("epsilon", None),
        ("delta", 1e-30),
        ("rounds", 1),
        ("title", "x"),
    ]
    for key, value in forged:  # signed by its member, and false
        report = whole | {key: value}
        signature = base64.b64encode(Identity.load(Path("alder")).sign(canonical(report))).decode()
        Path("forged.json").write_text(json.dumps({"report": report, "signature": signature}))
        code, _, err = tacit("federation", "verify", "federation.toml", "forged.json")
        assert (code, f"claims that {key} is {value!r}" in err, err.count("\n")) == (2, True, 1), err
    report = Path("alder.report.json")
    report.write_text(report.read_text().replace('"rounds": 65', '"rounds": 64'))
    assert "was changed, or alder has not signed it" in tacit(*verify[1:])[2]
    again = tacit(*run[1:])  # a finished run costs nothing more, and gives the same model
    assert again[0] == 0, again


def test_several_classes_over_the_wire(hospitals, tacit):
    """Rows of a model of K classes are K times as long; all members end with the same model."""
    text = Path("schema.toml").read_text()
    label = '[label]\ncolumn = "stay"\nkind = "multiclass"\nclasses = ["short", "usual", "long"]\n'
    Path("schema.toml").write_text(re.sub(r"\[label\]\n(?:\w+ = .*\n)+", label, text))
    for name in ROWS:
        with open(f"{name}.csv", newline="") as file:
            rows = list(csv.reader(file))
        with open(f"{name}.csv", "w", newline="") as file:
            stays = ["stay", *(["short", "usual", "long"][(int(age) > 40) + (int(age) > 65)] for age, *_ in rows[1:])]
            csv.writer(file).writerows([*row, stay] for row, stay in zip(rows, stays, strict=True))
        assert tacit("ledger", "new", f"{name}.ledger", "--population", name, "--epsilon", 4, "--delta", 1e-5)[0] == 0
    members = [f"{name},127.0.0.1:{7441 + k},{ROWS[name]},{name}/certificate.pem" for k, name in enumerate(ROWS)]
    options = [word for member in members for word in ("--member", member)]
    agree = ["federation", "new", "--title", "stay", "--schema", "schema.toml", "--epsilon", "4", *options]
    code, out, err = tacit(*with_free_ports(agree))
    assert code == 0, err
    assert "gradient-descent" in out
    run = [sys.executable, "-m", "tacit", "agent", "run", "--federation", "federation.toml"]
    agents = [
        subprocess.Popen(
            [*run, "--identity", name, "--data", f"{name}.csv", "--ledger", f"{name}.ledger", "--out", f"{name}.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ROWS
    ]
    assert all_ended(agents, 240)
    said = [agent.communicate()[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0, 0], said
    models = [Model.load(f"{name}.json").weights for name in ROWS]
    assert models[0].shape == (3, 4)
    mean = np.mean(models, axis=0)
    assert max(np.linalg.norm(model - mean) for model in models) < 0.01 * np.linalg.norm(mean)
    assert tacit("federation", "verify", "federation.toml", "alder.report.json")[0] == 0


def agreed(tacit, *more, rows=None):
    members = [
        f"{name},127.0.0.1:{7441 + k},{(rows or ROWS)[name]},{name}/certificate.pem" for k, name in enumerate(ROWS)
    ]
    options = [word for member in members for word in ("--member", member)]
    Path("federation.toml").unlink(missing_ok=True)  # of another case
    return tacit(
        "federation", "new", "--title", "spring", "--schema", "schema.toml", *options, "--out", "federation.toml", *more
    )


def test_what_is_refused_before_anything_leaves(hospitals, tacit):
    def run(*more, expected=2):
        code, _, err = tacit("agent", "run", "--federation", "federation.toml", "--identity", "alder", *more)
        assert code == expected
        assert err.count("tacit: error: ") == 1
        return err

    assert agreed(tacit, "--rounds", 5)[0] == 0
    own = ("--data", "alder.csv")
    assert "has no budget, so nothing of it is private" in run(*own)
    assert "alder has 400 rows; the data has 250: use the agreed file" in run("--data", "birch.csv", "--exact")
    assert "schema.toml" in run("--data", "schema.toml", "--exact")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        for option, said in {
            "--listen": f"cannot listen at 127.0.0.1:{port}: the port is in use",
            "--page": f"--page: cannot listen at 127.0.0.1:{port}",
        }.items():
            assert said in run(*own, "--exact", option, f"127.0.0.1:{port}", expected=74)
    assert "--page listens on this machine only" in run("--data", "nothing.csv", "--page", "0.0.0.0:8642")
    assert "alder.csv is an input" in run(*own, "--exact", "--report", "alder.csv")
    assert "--report would overwrite model.report.json" in run(*own, "--exact", "--report", "model.report.json")
    assert "patience must be a positive number" in run(*own, "--exact", "--patience", "nan")
    assert "waiting for birch, cedar for 0.2 s without success" in run(
        *own, "--exact", "--listen", "127.0.0.1:0", "--patience", "0.2", expected=75
    )
    os.chmod("alder/key.pem", 0o644)
    assert "can be read by other users" in run(*own, "--exact")


def test_an_agent_that_the_machine_lets_not_go_on_says_so_and_is_started_again(hospitals, tacit, monkeypatch):
    """Too little memory, and a full disk, at whatever place nobody expected them."""
    assert agreed(tacit, "--rounds", 5)[0] == 0
    run = ("agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv", "--exact")
    for error, said in {
        MemoryError("of a record"): "too little memory",
        RuntimeError("can't start new thread"): "too little memory",
        OSError(28, "No space left on device", "/home/alder"): "No space left on device",
    }.items():
        monkeypatch.setattr("tacit.agent.run.take_part", Mock(side_effect=error))
        code, _, err = tacit(*run)
        assert (code, err.count("tacit: error: ")) == (74, 1)
        assert err.endswith(f"the machine does not let this agent go on ({said}): mend that, and start it again\n")
    limit = (100 << 20, 100 << 20)
    little = subprocess.run(
        [sys.executable, "-m", "tacit", *run],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True,
        text=True,
    )
    assert (little.returncode, little.stderr.count("\n")) == (74, 1)
    assert "this process may use 100 MB of addresses" in little.stderr


def test_a_federation_file_does_not_destroy_what_it_is_made_from(hospitals, tacit):
    certificate = Path("alder/certificate.pem").read_text()
    members = ["--member", "alder,127.0.0.1:7441,400,alder/key.pem"]
    code, _, err = tacit("federation", "new", "--title", "x", "--schema", "schema.toml", "--epsilon", 1, *members)
    assert (code, "is a private key, which must not leave its folder" in err) == (2, True), err
    for name in ("schema.toml", "alder/certificate.pem"):
        assert "writing to it would destroy it" in agreed(tacit, "--out", name)[2]
    assert Path("alder/certificate.pem").read_text() == certificate


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_told_to_stop_says_where(hospitals, tacit, number):
    assert agreed(tacit, "--rounds", 5)[0] == 0
    command = [sys.executable, "-m", "tacit", "agent", "run", "--federation", "federation.toml", "--identity", "alder"]
    command += ["--data", "alder.csv", "--exact", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        status = ("agent", "status", "--federation", "federation.toml", "--identity", "alder", "--json")
        while process.poll() is None:  # until it runs
            code, out, _ = tacit(*status)
            if code == 0 and json.loads(out)["alive"]:
                break
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 75, err
    line = f"tacit: error: stopped by {number.name} in round 0 of 5; nothing is lost: the same command goes on"
    assert err.splitlines()[-1].endswith(line), err


def test_a_ledger_that_cannot_pay(hospitals, tacit):
    assert agreed(tacit, "--epsilon", 2, "--delta", 1e-5)[0] == 0
    tacit("ledger", "new", "alder.ledger", "--data", "alder.csv", "--epsilon", 0.5, "--delta", 1e-5)
    start = ("agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv")
    assert "give --ledger" in tacit(*start)[2]
    code, _, err = tacit(*start, "--ledger", "alder.ledger")
    assert code == 77
    assert "the run is refused: epsilon = 0 is spent, it would be" in err


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ("a mark", r"the ledger shows that alder has sent messages in this run, but .* does not have tick 0 of them"),
        ("format 2", "this run was begun with an older version of tacit, whose ledger does not show which ticks"),
    ],
)
def test_an_open_run_that_the_store_does_not_know_ends_with_one_line(hospitals, tacit, known, says):
    assert agreed(tacit, "--epsilon", 2, "--delta", 1e-5)[0] == 0
    tacit("ledger", "new", "alder.ledger", "--data", "alder.csv", "--epsilon", 2, "--delta", 1e-5)
    federation = Federation.load(Path("federation.toml"))
    with Ledger("alder.ledger", cost=epsilon) as ledger:
        ledger.reserve_run(federation.run, planned(federation, 0))
        if known == "a mark":
            ledger.mark(federation.run, 0, bytes(32), ledger.start(federation.run, bytes(16)))
        else:
            ledger.store(federation.run, 0, b"the first message")
        spent = ledger.spent()
    if known == "format 2":
        moved_back(Path("alder.ledger"))
    before = len(list(hospitals.rglob("*.store*")))
    start = ("agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv")
    code, out, err = tacit(*start, "--ledger", "alder.ledger")
    assert code == 78
    assert re.search(says, err.splitlines()[-1])
    assert "agree on a new run under another title" in err.splitlines()[-1]
    assert "Traceback" not in out + err
    with Ledger("alder.ledger", cost=epsilon) as ledger:
        assert ledger.spent() == spent
    assert known != "a mark" or len(list(hospitals.rglob("*.store*"))) == before  # no store hides one that is put back


def test_a_restart_after_going_on_without_somebody(hospitals, tacit):
    """The run with cedar was not paid for; the run without cedar has used all that the ledger allows."""
    assert agreed(tacit, "--epsilon", 2, "--delta", 1e-5, "--go-on-after", 60)[0] == 0
    tacit("ledger", "new", "alder.ledger", "--population", "p", "--epsilon", 2, "--delta", 1e-5)
    start = ("agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv")
    start += ("--ledger", "alder.ledger", "--listen", "127.0.0.1:0", "--patience", 0.2)
    assert "without success" in tacit(*start)[2]
    federation = Federation.load(Path("federation.toml"))
    left = federation.without(["cedar"])
    (path,) = Path("alder").glob("*.store")
    Store(path, federation.run, "alder", federation.rounds).go_on(["cedar"])
    with Ledger(Path("alder.ledger"), cost=epsilon) as ledger:
        ledger.reserve_run(left.run, planned(left, 0))
    code, _, err = tacit(*start)
    assert left.run[:16] in err
    assert code == 75
    assert "waiting for birch for 0.2 s without success" in err


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        (5, "without: must be a list, not 5"),
        ([["cedar"]], "without.0: must be a text, not ['cedar']"),
        (["cedar"], "a run without cedar, which the federation file does not allow"),
    ],
)
def test_a_report_of_a_run_that_cannot_be(hospitals, tacit, without, reason):
    assert agreed(tacit, "--rounds", 5)[0] == 0
    report = {"member": "alder", "run": "", "without": without, "releases": [], "absences": [], "before": []}
    report |= dict.fromkeys(("spec", "spec digest"))
    report |= dict.fromkeys(("format", "tacit", "title", "rounds", "delta", "ledger", "ledgers", "epsilon"))
    report |= {"written": "2026-11-17T12:00:00+00:00", "private": False, "model": "ab" * 32, "heard": {}}
    report |= {"listening": {"radius": 1, "robust": "none", "moved": {}}}
    signature = base64.b64encode(Identity.load(Path("alder")).sign(canonical(report))).decode()
    Path("alder.report.json").write_text(json.dumps({"report": report, "signature": signature}))
    code, _, err = tacit("federation", "verify", "federation.toml", "alder.report.json")
    assert code == 2
    assert reason in err


def test_names_keys_and_dates(hospitals, tacit, monkeypatch):
    assert "stays as it is" in tacit("identity", "new", "alder")[2]
    assert "small letters" in tacit("identity", "new", "St. Alder")[2]
    with pytest.raises(InputError, match="belongs to birch"):
        Federation.from_toml(_file(tacit).replace('name = "birch"', 'name = "dogwood"').replace("birch", "dogwood"))
    alder = read_certificate(Path("alder/certificate.pem").read_text(), "alder's")
    check_dates(alder)
    start = ("agent", "run", "--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv", "--exact")
    for days, complaint in ((731, "the certificate of alder expired on"), (-2, "this machine's clock says")):
        monkeypatch.setattr(identity, "datetime", _clock(timedelta(days=days)))
        code, _, err = tacit(*start)
        assert (code, complaint in err) == (2, True), err
    monkeypatch.undo()
    monkeypatch.chdir(hospitals)
    assert not list(Path("alder").glob("*.store"))  # it was refused before anything was done
    Path("alder").rename("old")
    made = Identity.new("alder", hospitals, days=1)
    assert made.certificate != Path("old/certificate.pem").read_text()
    assert "the certificate of alder in the federation file is not that of the identity" in tacit(*start)[2]


def test_one_expired_certificate_stops_all_only_if_the_run_needs_it(hospitals, tacit, monkeypatch):
    shutil.rmtree("cedar")
    monkeypatch.setattr(identity, "datetime", _clock(timedelta(days=-3)))
    Identity.new("cedar", hospitals, days=2)
    monkeypatch.setattr(identity, "datetime", datetime)
    start = ("--federation", "federation.toml", "--identity", "alder", "--data", "alder.csv")
    run = ("agent", "run", *start, "--exact", "--listen", "127.0.0.1:0", "--patience", 0.2)
    assert agreed(tacit, "--rounds", 5)[0] == 0
    code, _, err = tacit(*run)
    assert (code, "the certificate of cedar expired on" in err, "tacit federation renew" in err) == (2, True, True), err
    assert agreed(tacit, "--rounds", 5, "--go-on-after", 60)[0] == 0
    code, _, err = tacit(*run)
    assert (code, "waiting for birch, cedar for 0.2 s" in err) == (75, True), err
    assert "this agent refuses cedar, because its certificate has expired, and goes on without it" in err
    found = json.loads(tacit("agent", "doctor", *start, "--json")[1])
    assert [(each["what"], each["level"]) for each in found if "cedar" in each["text"]] == [
        *(("certificates", "warn"), ("refused", "warn"))  # and it is not called
    ]


def _clock(off):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + off

    return Clock


def _file(tacit):
    assert agreed(tacit, "--rounds", 5)[0] == 0
    return Path("federation.toml").read_text()


def test_the_same_content_is_the_same_run_and_every_part_that_differs_is_named(hospitals, tacit):
    text = _file(tacit)
    federation = Federation.from_toml(text)
    assert Federation.from_toml(federation.to_toml()) == federation
    blocks = text.split("[[members]]")
    last, schema = blocks[-1].split("[schema]")
    shuffled = "[[members]]".join([blocks[0], last, blocks[1], blocks[2] + "[schema]" + schema])
    rewritten = (
        shuffled.replace("penalty = 0.001", "penalty = 1e-3")
        .replace("l2 = 3e-05", "l2 = 0.00003  # as we agreed")
        .replace("bounds = [0, 100]", "bounds = [0.0, 1e2]")
    )
    assert rewritten != text
    assert Federation.from_toml(rewritten).run == federation.run
    changes = {
        "title": ('title = "spring"', 'title = "autumn"'),
        "run.rounds": ("rounds = 5", "rounds = 6"),
        "exchange": ('exchange = "rows"', 'exchange = "secret-shared sums"'),
        "go_on_after": ("go_on_after = 0", "go_on_after = 60"),
        "quorum": ("quorum = 0", "quorum = 2"),
        "run.method": ("penalty = 0.001", "penalty = 0.002"),
        "edges": ('["alder", "birch"], ', ""),
        "member birch": ("127.0.0.1:7442", "127.0.0.1:7449"),
    }
    for part, (old, new) in changes.items():
        other = Federation.from_toml(text.replace(old, new))
        assert other.run != federation.run
        assert difference(federation.parts, other.parts) == [part]
    unnamed = re.sub("^schema = .*\n", "", text, flags=re.MULTILINE)
    other = Federation.from_toml(unnamed.replace("bounds = [0, 100]", "bounds = [0, 110]"))
    assert difference(Federation.from_toml(unnamed).parts, other.parts) == ["schema"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("version = 2\ntacit", "version = 1\ntacit", "version must be 2, not 1: write it anew"),
        (f'tacit = "{__version__}"', 'tacit = "0.0.9"', "agreed upon for tacit 0.0.9"),
        ("rounds = 5", "rounds = 0", "rounds must be a whole number"),
        ("rounds = 5", "rounds = true", "rounds must be a whole number"),
        ("rounds = 5", "rounds = 4294967296", "rounds are more than the"),
        ("rounds = 5", "", "a run needs rounds"),
        ("rounds = 5", "rounds = 5\ncolour = 1", "a run has no 'colour'"),
        ("quorum = 0", "quorum = 0\ncolour = 1", "got 'colour'"),
        ("dimension = 4", "dimension = 5", "does not fit the schema"),
        ('["alder", "birch"]', '["alder", "zebra"]', "which is not a member"),
        ('["alder", "birch"], ["alder", "cedar"], ', "", "not connected"),
        ('kind = "admm"', 'kind = "mr-admm"', "the kind of the method is one of"),
        ("bounds = [0, 100]", "bounds = [0, 110]", "planned for records of another schema"),
        ("rows = 400", "rows = 4.5", "rows of a member has the wrong type"),
        ("127.0.0.1:7441", "127.0.0.1", "is HOST:PORT"),
        ("127.0.0.1:7442", "127.0.0.1:7441", "same address"),
        ("BEGIN CERTIFICATE", "BEGIN", "not one certificate"),
        ("penalty = 0.001", "penalty = -1", "penalty must be"),
        ("[run]", "[[run]]", "run is a table"),
        (
            'exchange = "rows"',
            'exchange = "pigeons"',
            "the exchange is 'rows', 'secret-shared sums' or 'secret-shared totals'",
        ),
        ("go_on_after = 0", "go_on_after = 3", "go_on_after is 0, or 10 seconds or more"),
        ("go_on_after = 0", 'go_on_after = "soon"', "a number of seconds"),
        ("quorum = 0", "quorum = -1", "quorum is a whole number, 0 or more, not -1"),
        ("quorum = 0", "quorum = true", "quorum is a whole number"),
        ("quorum = 0", "quorum = 1.5", "quorum is a whole number"),
        ("quorum = 0\n", "", "must set quorum"),
        ("quorum = 0", f"quorum = {10**400}", "quorum is too large: whole numbers go up to 2\\^53"),
        ("go_on_after = 0", f"go_on_after = {10**400}", "go_on_after is too large"),
        ("rounds = 5", f"rounds = {10**400}", "rounds is too large"),
        ("rounds = 5", "rounds = 0x" + "f" * 5000, "rounds is too large"),
        ("rounds = 5", "rounds = 1" + "0" * 5000, "is not TOML"),
        ("rows = 400", f"rows = {10**400}", "rows is too large"),
        ("bounds = [0, 100]", f"bounds = [0, {10**400}]", "bounds is too large"),
        ("radius = 65536.0", f"radius = {10**400}", "radius is too large"),
        ("radius = 65536.0", "radius = 1e308", "the radius of models is at most 2\\^40"),
        ("radius = 65536.0", "radius = inf", "radius must be a positive number"),
        ("radius = 65536.0", "radius = nan", "radius must be a positive number"),
        ("radius = 65536.0", "radius = 0", "radius must be a positive number"),
        ("[run]\n", '[run]\ntrust = { robust = "" }\n', "robust is one of clipping"),
    ],
)
def test_a_file_that_cannot_be_meant(hospitals, tacit, old, new, reason):
    text = _file(tacit)
    assert old in text
    with pytest.raises(InputError if "connected" not in reason else Exception, match=reason):
        Federation.from_toml(text.replace(old, new))


def test_a_run_of_ones_own_is_agreed_on(hospitals, tacit):
    """With every parameter of a method, and refused in one line where other options contradict it."""
    spec = RunSpec(
        PenaltyPerturbedADMM(penalty=Geometric(0.5, 1.1), dual_step=0.4, budget=(Gaussian(20.0), Gaussian(30.0)) * 3),
        rounds=6,
        loss=HuberHinge(0.5),
        graph=Graph.ring(3),
        l2=0.05,
        radius=64.0,
        budget=Budget(3.0, 1e-5),
    )
    Path("run.toml").write_text(spec.to_toml())
    code, out, err = agreed(tacit, "--spec", "run.toml")
    assert code == 0, err
    assert "m-admm, 6 rounds, 4 features: every record protected by (3, 1e-05) in total" in out
    found = Federation.load(Path("federation.toml"))
    assert (found.spec.digest, found.setting.algorithm) == (spec.digest, spec.method)
    assert f"SHA-256 {spec.digest[:16]}" in out
    assert not found.spec.recipe
    for more in (["--epsilon", 1], ["--method", "dvp"], ["--graph", "path"], ["--rounds", 7], ["--robust", "median"]):
        code, _, err = agreed(tacit, "--spec", "run.toml", *more)
        assert (code, err.count("the file of a run says everything about it")) == (2, 1), err
    for old, new, complaint in (
        ("epsilon = 3.0", "epsilon = 0.1", "the run costs epsilon = "),
        ("rounds = 6", "rounds = 7", "budget"),
        ("l2 =", 'recipe = "m-admm"\nl2 =', "are not those of the recipe"),
        ("budget = { epsilon = 3.0, delta = 1e-05 }", "tolerance = 0.1", "agents do not stop early"),
    ):
        assert old in spec.to_toml()
        Path("run.toml").write_text(spec.to_toml().replace(old, new))
        code, _, err = agreed(tacit, "--spec", "run.toml")
        assert (code, complaint in " ".join(err.split()), err.count("tacit: error:")) == (2, True, 1), err
    assert not Path("federation.toml").exists()


def test_the_quorum_is_shown_to_all(hospitals, tacit):
    assert "neighbours" not in agreed(tacit, "--quorum", 2)[1]  # no member is left out
    out = agreed(tacit, "--go-on-after", 60)[1]
    assert "after 60 s without a member the others start again without it" in out
    assert "if more than half of its neighbours have signed that it is away" in out
    out = agreed(tacit, "--go-on-after", 60, "--quorum", 2)[1]
    assert "if 2 (all, if it has fewer) of its neighbours have signed that it is away" in out
    assert tacit("federation", "show", "federation.toml")[1] == out
    assert Federation.load(Path("federation.toml")).quorum == 2
    assert "quorum is a whole number, 0 or more, not -1" in agreed(tacit, "--quorum", -1)[2]


def test_a_private_token_needs_a_cycle(hospitals, tacit):
    code, out, err = agreed(tacit, "--epsilon", 2, "--method", "pi-admm")
    assert code == 0, err
    federation = Federation.load(Path("federation.toml"))
    assert f"pi-admm, {federation.rounds} rounds" in out
    assert federation.rounds == 3 * RECIPES["pi-admm"].solves + federation.graph.mixing_rounds()
    for me in range(3):
        assert len(planned(federation, me)) == RECIPES["pi-admm"].solves + federation.graph.mixing_rounds()
    with pytest.raises(GraphError, match="the cycle steps from 1 to 2, which are not neighbours"):
        replace(federation, spec=replace(federation.spec, graph=talk(federation.names, federation.edges[:2])))
    two = federation.without(["cedar"])  # two members hand the token to and fro
    assert two.rounds == 2 * RECIPES["pi-admm"].solves + 1
    code, _, err = agreed(tacit, "--epsilon", 2, "--method", "pi-admm", "--graph", "path")
    assert code == 2
    assert "no Hamiltonian cycle: agent 0 has only one neighbour" in err
    code, _, err = agreed(tacit, "--epsilon", 2, "--method", "pi-admm", "--secret-shared")
    assert code == 2
    assert "one member speaks at a time" in err


def test_a_token_has_nothing_to_compare(hospitals, tacit):
    """One member speaks at a time: `new` refuses it, and so does a file that was written by hand."""
    complaint = "robust listening compares rows: it is for methods in which all members speak at once"
    for method in (["--method", "i-admm"], ["--method", "pi-admm", "--epsilon", 2]):
        code, _, err = agreed(tacit, *method, "--robust", "clipping")
        assert (code, " ".join(err.split()).count(complaint)) == (2, 1), err
    assert not Path("federation.toml").exists()
    for robust in ("", "nonsense"):
        code, _, err = agreed(tacit, "--robust", robust)
        assert (code, "robust is one of clipping" in err) == (2, True), err
    assert agreed(tacit, "--method", "admm", "--robust", "clipping", "--rounds", 5)[0] == 0
    text = Path("federation.toml").read_text()
    with pytest.raises(InputError, match="all members speak at once"):
        Federation.from_toml(text.replace('kind = "admm"', 'kind = "i-admm"'))


def test_a_private_federation_needs_public_bounds(hospitals, tacit):
    for setting, reason in {
        'missing = "drop"': "depend on the records",
        "drafted = true": "read from records",
        "row_norm = 2.0": "norm at most 1",
    }.items():
        text = SCHEMA if "row_norm" not in setting else SCHEMA.replace("row_norm = 1.0\n", "")
        Path("schema.toml").write_text(text.replace("version = 1", f"version = 1\n{setting}"))
        code, _, err = agreed(tacit, "--epsilon", 2)
        assert code == 2
        assert reason in err


def test_the_demonstration_of_a_federation(tacit, tmp_path, monkeypatch):
    """The other half of `make demo`: all of it, with two organisations, fewer records and fewer exact rounds."""
    demo = import_module("tacit.cli.federation_demo")
    monkeypatch.setattr(demo, "_TRAIN", 8000)
    monkeypatch.setattr(demo, "_EXACT_ROUNDS", 20)
    code, out, err = tacit("federation", "demo", "--agents", 2, "--out", "shown", "--page", "127.0.0.1:0")
    assert code == 0, err
    assert re.search(r"^watch it at http://127\.0\.0\.1:\d+/[\w-]{32}/$", err, flags=re.MULTILINE)
    (apart,) = re.findall(r"largest difference between a weight and the simulation's: (\S+)", " ".join(out.split()))
    assert float(apart) <= 1e-9
    for kind in ("exact", "private"):
        for i in range(2):
            assert (tmp_path / "shown" / kind / f"agent-{i:02d}.json").exists()
