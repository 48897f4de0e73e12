"""The files of deploy/ fit the program: options, exit codes, metrics, dependencies."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tacit import cli
from tacit.agent.monitoring import prometheus
from tacit.agent.monitoring.progress import Progress
from tacit.errors import InputError, MachineError, NotNow, Over
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import BudgetExceeded, Cap, Ledger
from tacit.privacy.ledger.entries import LedgerUnavailable

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "tacit-agent.service").read_text()
COMPOSE = (DEPLOY / "compose.yaml").read_text()


def settings(name):
    return [value.split() for value in re.findall(rf"^{name}=(.*)$", UNIT, flags=re.MULTILINE)]


def started():
    """The commands that start an agent, in a unit and in a container: the words after `tacit`."""
    unit = re.search(r"^ExecStart=\S+/tacit (.*?)(?<!\\)$", UNIT, flags=re.MULTILINE | re.DOTALL)[1]
    compose = re.search(r"command: >-\n(.*?)\n  user:", COMPOSE, flags=re.DOTALL)[1]
    return [shlex.split(text.replace("\\\n", " ")) for text in (unit, compose)]


@pytest.mark.parametrize("words", started(), ids=["unit", "compose"])
def test_an_agent_is_started_with_options_that_it_has(words):
    run = cli.load("agent").commands["run"]
    assert words[:2] == ["agent", "run"]
    run.make_context("run", words[2:])  # parses them, and refuses what it does not know
    with pytest.raises(Exception, match="No such option"):
        run.make_context("run", [*words[2:], "--no-such-option"])


def test_a_supervisor_knows_when_to_start_it_again():
    never = {str(kind.exit_code) for kind in (InputError, Over, BudgetExceeded)}
    assert set(settings("RestartPreventExitStatus")[0]) == never
    again = {str(kind.exit_code) for kind in (NotNow, MachineError, LedgerUnavailable)}
    assert set(settings("RestartForceExitStatus")[0]) == again
    assert settings("SuccessExitStatus") == [[str(NotNow.exit_code)]]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_for_systemd(tmp_path):
    """The program need not be installed: another one stands in its place."""
    unit = tmp_path / "tacit-agent.service"
    for text, faults in ((UNIT, ""), (UNIT.replace("Type=notify", "Type=nonsense"), "nonsense")):
        unit.write_text(text.replace("/opt/tacit/bin/tacit", sys.executable))
        found = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60
        )
        said = [line for line in found.stderr.splitlines() if "tacit-agent.service" in line]
        assert bool(said) == bool(faults), found.stderr
        assert faults in "".join(said)


@pytest.mark.parametrize("lock", ["requirements.lock", "build.lock"])
def test_a_lock_has_a_hash_for_every_package_and_no_address(lock):
    text = (DEPLOY / lock).read_text()
    assert "://" not in text
    assert "index" not in text
    entries = re.split(r"\n(?=[a-z])", text.split("make lock\n")[1].replace("\\\n", " "))
    assert all(re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", each) for each in entries)


def test_the_lock_has_what_an_agent_needs():
    """If this fails, run `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["exchange"], *extras["agent"]]
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", (DEPLOY / "requirements.lock").read_text(), re.MULTILINE))
    assert len(wanted) > 8
    for each in wanted:
        name, _, floor = each.partition(">=")
        if not name.startswith("tacit"):
            assert numbers(locked[name]) >= numbers(floor), each


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def test_every_panel_and_every_alert_has_metrics_that_there_are(tmp_path):
    with Ledger.new(tmp_path / "l", population="p", cost=epsilon) as ledger:
        ledger.set_cap(Cap(1.0, 1e-5))
    progress, registry = Progress(), CollectorRegistry()
    progress.contacts = lambda: {"birch": 0.0}
    progress.traffic.refuse("a kind")
    progress.accused["birch"] = 3
    progress.heartbeat()
    registry.register(prometheus._AgentMetrics(progress, tmp_path / "l", lambda: 0))
    there = set(re.findall(rb"^(tacit_\w+)", generate_latest(registry), flags=re.MULTILINE))
    alerts = re.findall(r"^        expr: (.*)$", (DEPLOY / "alerts.yml").read_text(), flags=re.MULTILINE)
    assert len(alerts) > 8
    for alert in alerts:
        assert {name.encode() for name in re.findall(r"tacit_\w+", alert)} <= there, alert
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    shown = {name for each in panels for one in each["targets"] for name in re.findall(r"tacit_\w+", one["expr"])}
    assert len(shown) > 10
    assert {name.encode() for name in shown} <= there
    table = (DEPLOY.parent / "docs" / "deploy.md").read_text().split("[start:metrics]")[1].split("[end:metrics]")[0]
    said = {name.encode() for name in re.findall(r"`(tacit_\w+)`", table)} | {b"tacit_tick_seconds_sum"}
    assert said == there
