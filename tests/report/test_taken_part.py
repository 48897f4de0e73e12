"""What an agent's report and its page show, from a store and a ledger alone."""

import time
from contextlib import closing
from pathlib import Path

import agent_network
import numpy as np
import pytest
from agent_worker import NAMES, participant

from tacit.agent.certificate.trained_model import model_of
from tacit.agent.ledger_heads import Signed
from tacit.agent.monitoring.status import Watched
from tacit.privacy.events import Free
from tacit.privacy.ledger import Head
from tacit.privacy.noise import SecureNoise
from tacit.report.pages import run
from tacit.report.taken_part import taken_part

identities, network = agent_network.identities, agent_network.network  # fixtures
FILES = {"federation": Path("federation.toml"), "report": Path("a.report.json"), "ledger": Path("a b.ledger")}


@pytest.mark.parametrize("kind", ["going on", "going on, totals"])
def test_the_data_of_a_report(network, identities, kind):
    net = network(kind)
    own = participant(net.folder, kind, 0, identities, SecureNoise())
    with closing(own.store):
        own.store.commit(0, {"x": np.zeros(3), "rows moved": np.zeros((1, 3))}, b"first", Free("a test"))
        left = own.without(["dogwood"])
        with closing(left.store):
            left.store.commit(0, {"x": np.zeros(3), "rows moved": np.zeros((1, 3))}, b"second!", Free("a test"))
            model = model_of(left.federation, left.name, np.zeros(left.problem.dimension))
            if left.books is not None:
                before, after = (Signed("ab" * 32, Head("cd" * 16, rows, "ef" * 32), "00") for rows in (9, 4))
                shown = {"newest": after, "before": before, "after": after}
                left.books.keep_shown(left.federation.members[1].certificate, left.federation.run, shown)
            plain = taken_part(left, model, FILES)
    assert (plain["member"], plain["without"], plain["run"]) == ("alder", ["dogwood"], left.federation.run)
    assert (plain["messages"], plain["bytes"]) == (2, 12)
    assert [each["name"] for each in plain["agents"]] == [name for name in NAMES if name != "dogwood"]
    assert plain["verify"][-1]["command"] == "tacit ledger verify 'a b.ledger'"
    text = run(plain)
    assert "dogwood dropped out. The others went on without it." in text
    if kind == "going on":
        assert "epsilon" not in plain
        assert "Exact values left the members." in text
        assert "An earlier run was left because members were away." in text
    else:
        assert plain["epsilon"] == 2.0
        assert plain["ledger"]["cap"]["epsilon"] == 10.0
        assert "Any one of the 4 other members, with all that it knows, can improve a guess" in text
        assert "An earlier run" not in text  # one budget pays for both
        assert "birch showed an old copy of its ledger: it had 9 rows, now 4. Ask birch which" in text
        assert "cedar has shown no ledger." in text


def test_what_is_watched(network, identities):
    """Before the agent has started, while it runs, and when its store cannot be read."""
    net = network("going on, totals")
    watched = Watched("alder", net.federation, net.path(0), net.folder / "alder.ledger", lambda: ["a line"])
    assert watched.look() == {
        "member": "alder",
        "private": True,
        "budget": {"epsilon": 2.0, "delta": 1e-5},
        "status": None,
        "ledger": None,
        "problem": "it has not started yet",
        "log": ["a line"],
    }
    own = participant(net.folder, "going on, totals", 0, identities, SecureNoise())
    with closing(own.store):
        own.store.heartbeat(time.time(), {"birch": None}, "waiting for birch")
        seen = watched.look()
        assert seen["status"]["doing"] == "waiting for birch"
        assert seen["status"]["seconds_since"] == {"birch": None}
        assert seen["ledger"] == {"spent": 0.0, "cap": {"epsilon": 10.0, "delta": 1e-5}}
        own.store.go_on(["dogwood"])
        with closing(own.without(["dogwood"]).store) as left:
            left.heartbeat(time.time(), {"birch": 0.0}, "computing")
        assert watched.look()["status"] | {"seconds_since": None} == {
            "member": "alder",
            "run": net.federation.without(["dogwood"]).run,
            "round": 0,
            "rounds": net.federation.rounds,
            "alive": True,
            "doing": "computing",
            "seconds_since": None,
            "epsilon": None,
            "released": 0,
            "without": ["dogwood"],
            "accused": {},
        }
    net.path(0).write_bytes(b"nonsense" * 1000)
    for end in ("-wal", "-shm"):
        Path(f"{net.path(0)}{end}").unlink(missing_ok=True)
    assert "is damaged: file is not a database" in watched.look()["problem"]
