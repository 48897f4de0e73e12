"""Metrics as Prometheus reads them, and the health check."""

import http.client
import time

import finished_run
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit.agent.monitoring import prometheus
from tacit.agent.monitoring.progress import Progress
from tacit.agent.monitoring.prometheus import Metrics, address, health
from tacit.agent.run import take_part
from tacit.errors import InputError, MachineError
from tacit.privacy import filters
from tacit.privacy.events import Gaussian
from tacit.privacy.ledger import Cap, Ledger


def get(port, path, method="GET", **fields):
    """Status and text of an answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    line.request(method, path, headers=fields)
    answer = line.getresponse()
    found = answer.status, answer.read().decode()
    line.close()
    return found


def scraped(port):
    """{name: {labels: value}} of everything that is served."""
    status, text = get(port, "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@pytest.fixture
def served():
    progress = Progress()
    progress.enter("alder", "ab" * 32, 65)
    made = Metrics("0", progress)
    yield progress, made.port
    made.close()


def test_three_agents_at_work(tmp_path, monkeypatch):
    """What they serve at the end of a run of six rounds."""
    found = {}

    async def with_metrics(participant, finished, **others):
        progress = Progress()
        served = Metrics("0", progress)

        def ended(participant, model):
            finished(participant, model)
            found[participant.name] = scraped(served.port), get(served.port, "/healthz")

        try:
            return await take_part(participant, finished=ended, progress=progress, **others)
        finally:
            served.close()

    monkeypatch.setattr(finished_run, "take_part", with_metrics)
    run = finished_run.finished(tmp_path, finished_run.EXACT)
    for name in finished_run.NAMES:
        seen, (status, line) = found[name]
        others = {(other,) for other in finished_run.NAMES if other != name}
        assert [labels[:2] for labels in seen["tacit_agent"]] == [(name, run.federation.run[:16])]
        for key in ("tacit_round", "tacit_rounds", "tacit_commits_total", "tacit_tick_seconds_count"):
            assert seen[key] == {(): 6}
        assert seen["tacit_neighbour_connected"] == dict.fromkeys(others, 1)
        assert seen["tacit_waiting_seconds"] == dict.fromkeys(others, 0)
        # In every round two neighbours get a row of d numbers, and two give theirs.
        rows = 6 * 2 * 8 * run.federation.schema.model_dimension
        assert seen["tacit_sent_bytes_total"][()] > rows
        assert seen["tacit_received_bytes_total"][()] > rows
        assert (status, line.split(" for ")[0]) == (200, "round 6 of 6; heard all messages")
        assert "tacit_epsilon_spent" not in seen  # exact values: there is no budget


def test_whom_it_waits_for_and_what_was_refused(served):
    progress, port = served
    now = time.time()
    progress.contacts = lambda: {"birch": now, "cedar": now - 100, "elm": None}
    progress.show("waiting for birch, cedar", 4, ["birch", "cedar"])
    progress.heard("birch")
    progress.since -= 50
    progress.beyond = 3
    long = "birch: its Question is too long"
    for kind in [long, *(f"kind {k}" for k in range(300)), long]:
        progress.traffic.refuse(kind)
    found = scraped(port)
    assert found["tacit_neighbour_connected"] == {("birch",): 1, ("cedar",): 0, ("elm",): 0}
    assert found["tacit_waiting_seconds"][("birch",)] == found["tacit_waiting_seconds"][("elm",)] == 0
    assert 50 <= found["tacit_waiting_seconds"][("cedar",)] < 80
    assert 100 <= found["tacit_neighbour_quiet_seconds"][("cedar",)] < 130
    assert "tacit_accused" not in found
    assert found["tacit_totals_differ"] == {(): 0}
    progress.accused["elm"], progress.differing["elm"] = 3, 4
    assert scraped(port)["tacit_accused"] == {("elm",): 1}
    assert scraped(port)["tacit_totals_differ"] == {(): 1}
    assert found["tacit_totals_beyond_bounds_total"] == {(): 3}
    refused = found["tacit_refusals_total"]
    assert refused[long,] == 2
    assert (len(refused), sum(refused.values())) == (101, 302)


def test_the_budget_is_that_of_the_ledger(tmp_path):
    path = tmp_path / "alder.ledger"
    with Ledger.new(path, population="p", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(4.0, 1e-5))
        made = Metrics("0", Progress(), path)
        try:
            found = scraped(made.port)
            assert (found["tacit_epsilon_spent"][()], found["tacit_epsilon_left"][()]) == (0, 4)
            ledger.reserve_run("a run", {0: Gaussian(5.0)})
            found, spent = scraped(made.port), ledger.epsilon()
            assert 0 < spent < 4
            assert found["tacit_epsilon_spent"][()] == spent
            assert found["tacit_epsilon_left"][()] == 4 - spent
            ledger.set_cap(Cap(5.0, 1e-5))
            assert scraped(made.port)["tacit_epsilon_left"][()] == 5 - spent
        finally:
            made.close()


def test_health(served):
    progress, port = served
    assert get(port, "/healthz") == (503, "starting: it does not answer its neighbours yet\n")
    progress.heartbeat()
    progress.show("waiting for birch", 4, ["birch"])
    assert get(port, "/healthz") == (200, "round 4 of 65; waiting for birch for 0 s\n")
    progress.beat -= 100
    well, line = health(progress)
    assert not well
    assert line.startswith("stalled: no heartbeat for 100 s; it was waiting for birch in round 4 of 65")


def test_who_may_ask_for_what(served):
    _, port = served
    assert get(port, "/")[0] == get(port, "/metrics/..")[0] == 404
    assert get(port, "/metrics", method="POST")[0] == 405
    assert get(port, "/metrics", Host="evil.example")[0] == 403  # a web page that calls itself by its own name
    assert get(port, "/metrics", Host=f"localhost:{port}")[0] == 200


def test_a_port_that_is_taken(served):
    with pytest.raises(MachineError, match=r"--metrics: cannot listen at .*name another port"):
        Metrics(str(served[1]), Progress())


@pytest.mark.parametrize("where", ["x", "", "70000", "alder.example:80", "127.0.0.1", "127.0.0.1:x", "[::1]"])
def test_addresses_that_are_none(where):
    with pytest.raises(InputError, match="--metrics is a PORT of this machine"):
        address(where)


def test_only_a_port_is_of_this_machine():
    assert prometheus.is_local("9464")
    assert prometheus.is_local("[::1]:9464")
    assert not prometheus.is_local("0.0.0.0:9464")
