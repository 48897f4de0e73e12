"""`tacit agent doctor`, `backup` and `restore`: what is in order is said so, and what is not is named."""

import csv
import json
import shutil
import socket
import ssl
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from patients import SCHEMA
from ports import free_ports

from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.ledger_heads import Books
from tacit.agent.participant import reserved
from tacit.agent.store import Store
from tacit.agent.transport.tls import PROTOCOL
from tacit.cli import doctor
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Ledger

ROWS = {"alder": 60, "birch": 50, "cedar": 40}
WHOLE = {"federation", "identity", "certificates", "data", "ledger", "store", "disk", "peers", "port"}


@pytest.fixture
def look(tmp_path, monkeypatch, tacit):
    """What the doctor finds, as {what: [(level, text)]}, and its exit code."""
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)
    rng, members = np.random.default_rng(0), []
    for (name, rows), port in zip(ROWS.items(), free_ports(3), strict=True):
        Identity.new(name, tmp_path)
        with open(f"{name}.csv", "w", newline="") as file:
            records = [(rng.integers(20, 90), rng.choice(["surgery", "medicine"]), "yes") for _ in range(rows)]
            csv.writer(file).writerows([("age", "ward", "died"), *records])
        members += ["--member", f"{name},127.0.0.1:{port},{rows},{name}/certificate.pem"]
    made = ("--title", "x", "--schema", "schema.toml", "--graph", "ring", "--epsilon", "2", "--delta", "1e-5", *members)
    assert tacit("federation", "new", *made, "--out", "fed.toml")[0] == 0
    made = ("alder.ledger", "--population", "of alder", "--epsilon", "2", "--delta", "1e-5")
    assert tacit("ledger", "new", *made)[0] == 0

    def looked(**changed):
        given = {"federation": "fed.toml", "identity": "alder", "data": "alder.csv", "ledger": "alder.ledger"} | changed
        options = [word for key, value in given.items() if value for word in (f"--{key}", value)]
        code, out, err = tacit("agent", "doctor", *options, "--json")
        assert out, err
        found = {}
        for each in json.loads(out):
            found.setdefault(each["what"], []).append((each["level"], each["text"]))
        return code, found

    return looked


def levels(found):
    return {what: {level for level, _ in lines} for what, lines in found.items()}


def test_all_is_well_before_the_start(look, tacit):
    code, found = look()
    assert code == 0
    assert found.keys() == WHOLE
    assert levels(found) == {what: {"ok"} for what in WHOLE} | {"peers": {"warn"}}  # they are not started
    assert not list(Path("alder").glob("*.store*"))
    code, out, _ = tacit("agent", "doctor", "--federation", "fed.toml", "--identity", "alder", "--data", "alder.csv")
    assert (code, "fail  ledger        a private run needs one: give --ledger" in out) == (1, True)


@pytest.mark.parametrize(
    ("changed", "what", "text"),
    [
        ({"data": "birch.csv"}, "data", "50 rows; the federation file says 60"),
        ({"data": "none.csv"}, "data", "none.csv"),
        ({"identity": "nobody"}, "identity", "nobody"),
        ({"ledger": "schema.toml"}, "ledger", "schema.toml"),
        ({"identity": "alder/key.pem"}, "identity", "alder/key.pem is a file: name the folder"),
        ({"federation": "schema.toml"}, "federation", "schema.toml: it is a schema, not a federation file"),
    ],
)
def test_what_is_wrong_is_named(look, changed, what, text):
    code, found = look(**changed)
    assert code == 1
    assert "fail" in levels(found)[what]
    assert any(text in line for _, line in found[what])


def test_a_ledger_that_is_not_the_one_of_the_runs_before(look, tacit):
    assert not Path("alder/ledgers.db").exists()
    shutil.copy("alder.ledger", "old.ledger")
    assert tacit("ledger", "cap", "alder.ledger", "--epsilon", "3", "--delta", "1e-5", "--why", "x")[0] == 0
    with Ledger(Path("alder.ledger"), cost=epsilon) as ledger:
        Books(Path("alder")).note_own(ledger)
    assert levels(look()[1])["ledger"] == {"ok"}
    code, found = look(ledger="old.ledger")
    assert (code, levels(found)["ledger"]) == (1, {"fail"})
    assert "an old copy" in found["ledger"][0][1]
    other = ("birch.ledger", "--population", "of birch", "--epsilon", "2", "--delta", "1e-5")
    assert tacit("ledger", "new", *other)[0] == 0
    code, found = look(ledger="birch.ledger")
    assert (code, levels(found)["ledger"]) == (0, {"warn", "ok"})
    assert found["ledger"][0][1].startswith("its population is not one")


def test_a_ledger_by_cohorts_needs_their_column(look, tacit):
    made = ("new.ledger", "--population", "by year", "--epsilon", "2", "--delta", "1e-5", "--cohorts", "admitted")
    assert tacit("ledger", "new", *made)[0] == 0
    code, found = look(ledger="new.ledger")
    assert (code, levels(found)["ledger"]) == (1, {"fail"})
    assert "the column 'admitted', which alder.csv does not have" in found["ledger"][0][1]


def test_an_expired_certificate(look, monkeypatch):
    from tacit.agent import identity

    late = identity.datetime(2100, 1, 1, tzinfo=identity.UTC)

    class Later(identity.datetime):
        @classmethod
        def now(cls, tz=None):
            return late

    monkeypatch.setattr(identity, "datetime", Later)
    code, found = look()
    assert (code, levels(found)["certificates"]) == (1, {"fail"})
    assert "expired on" in found["certificates"][0][1]


def test_a_port_in_use(look):
    host, port = Federation.load(Path("fed.toml")).members[0].address.split(":")
    with socket.create_server((host, int(port))):
        code, found = look()
    assert (code, levels(found)["port"]) == (1, {"fail"})
    assert look(listen=f"127.0.0.1:{free_ports(1)[0]}")[0] == 0


@contextmanager
def answering(address, name, protocol=PROTOCOL):
    """A server with this certificate that asks for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([protocol])
    context.load_cert_chain(f"{name}/certificate.pem", f"{name}/key.pem")
    host, port = address.split(":")
    with socket.create_server((host, int(port))) as listening:

        def serve():
            plain, _ = listening.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    connection.send(b"x")
            except OSError:
                plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(10)


def test_neighbours_are_known_by_their_certificates(look):
    _, birch, cedar = Federation.load(Path("fed.toml")).members
    with answering(birch.address, "birch"), answering(cedar.address, "alder"):
        code, found = look()
    assert code == 1
    assert [level for level, _ in found["peers"]] == ["ok", "fail"]
    assert "cedar" in found["peers"][1][1]
    with answering(birch.address, "birch", "h2"):
        code, found = look()
    assert code == 1
    assert found["peers"][0][0] == "fail"
    assert "another version of tacit" in found["peers"][0][1]


def test_a_store_is_looked_at_and_put_back(look, tacit, monkeypatch):
    agreed = Federation.load(Path("fed.toml"))
    path = Path("alder") / f"{agreed.run[:16]}.store"
    with closing(Store(path, agreed.run, "alder", agreed.rounds)) as store:
        store.commit(0, {"f": np.ones((1, 3))}, b"said", agreed.plans[0][0])
    code, found = look()
    assert (code, found["store"]) == (0, [("ok", f"every digest fits; round 0 of {agreed.rounds}")])
    with closing(Store(path, agreed.run, "alder", agreed.rounds)) as store:  # of an agent that has stopped since
        store.heartbeat(1_000_000.0, {}, "waiting for birch")
    with monkeypatch.context() as patched:
        patched.setattr(doctor, "time", SimpleNamespace(time=lambda: 1_000_003.0))
        assert look()[1]["store"][0][1].endswith(f"round 0 of {agreed.rounds}; its agent was alive 3 s ago")
    which = ("--federation", "fed.toml", "--identity", "alder")
    assert tacit("agent", "backup", *which, "--out", "alder.backup")[0] == 0
    state = path.with_name(path.name + "-state0")
    state.write_bytes(state.read_bytes()[:-1] + b"\1")
    code, found = look()
    assert (code, levels(found)["store"]) == (1, {"fail"})
    assert "the state after tick 0 does not fit its digest" in found["store"][0][1]
    code, out, err = tacit("agent", "restore", *which, "alder.backup")
    assert (code, out) == (0, f"restored: alder, round 0 of {agreed.rounds}\n"), err
    assert look()[0] == 0
    shutil.copy("alder.backup", "old.backup")
    with closing(Store(path, agreed.run, "alder", agreed.rounds)) as store:
        store.commit(1, {"f": np.zeros((1, 3))}, b"said more", agreed.plans[0][1])
    code, _, err = tacit("agent", "restore", *which, "old.backup")
    assert (code, "old.backup is older than" in err) == (78, True), err


@pytest.mark.parametrize("planted", ["SECRET,surgery,yes", "50,SECRET,yes", "50,surgery,SECRET"])
def test_no_value_of_a_record_is_shown(look, planted):
    lines = Path("alder.csv").read_text().splitlines()
    Path("bad.csv").write_text("\n".join([*lines[:2], planted, *lines[3:], ""]))
    code, found = look(data="bad.csv")
    ((level, text),) = found["data"]
    assert (code, level) == (1, "fail")
    column = lines[0].split(",")[planted.split(",").index("SECRET")]
    assert f"bad.csv line 3, column '{column}' does not fit the schema: a" in text  # and the rule
    assert "SECRET" not in json.dumps(found)


def test_the_first_line_of_a_file_without_a_header_is_not_shown(look):
    Path("bad.csv").write_text("SECRET,surgery,yes\n")
    code, found = look(data="bad.csv")
    assert code == 1
    assert "SECRET" not in json.dumps(found)


def test_a_store_that_is_lost_after_messages_were_sent(look):
    agreed = Federation.load(Path("fed.toml"))
    with Ledger(Path("alder.ledger"), cost=epsilon) as ledger:
        ledger.reserve_run(agreed.run, reserved(agreed, 0))
        assert levels(look()[1])["store"] == {"ok"}  # paid, and nothing sent yet
        ledger.store(agreed.run, 0, b"said")
    code, found = look()
    assert (code, levels(found)["store"]) == (1, {"fail"})
    assert "has sent messages in this run, but" in found["store"][0][1]


def test_a_store_that_is_older_than_the_ledger(look):
    agreed = Federation.load(Path("fed.toml"))
    path = Path("alder") / f"{agreed.run[:16]}.store"
    with closing(Store(path, agreed.run, "alder", agreed.rounds)) as store:
        store.commit(0, {"f": np.ones((1, 3))}, b"said", agreed.plans[0][0])
    with Ledger(Path("alder.ledger"), cost=epsilon) as ledger:
        ledger.reserve_run(agreed.run, reserved(agreed, 0))
        ledger.store(agreed.run, 0, b"said")
        assert levels(look()[1])["store"] == {"ok"}
        ledger.store(agreed.run, 1, b"said more")
    code, found = look()
    assert (code, levels(found)["store"]) == (1, {"fail"})
    assert "up to tick 1, but" in found["store"][0][1]
    assert "ends at tick 0: it is an old copy" in found["store"][0][1]
