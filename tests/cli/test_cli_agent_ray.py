"""An agent whose records lie in parts on a Ray cluster, among agents that have theirs in one file."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from patience import all_ended
from patients import SCHEMA
from ports import free_ports

from tacit.agent.identity import Identity

ROWS = {"alder": 400, "birch": 250}
TOTAL = ("--epsilon", "2", "--delta", "1e-5")


def write(file, rows):
    with open(file, "w", newline="") as opened:
        csv.writer(opened).writerows([["age", "ward", "died"], *rows])


@pytest.mark.cluster
def test_an_agent_with_records_in_parts_is_one_like_any_other(tmp_path, monkeypatch, tacit):
    monkeypatch.chdir(tmp_path)
    rng, ports = np.random.default_rng(0), free_ports(2)
    Path("schema.toml").write_text(SCHEMA)
    members = []
    for (name, count), port in zip(ROWS.items(), ports, strict=True):
        Identity.new(name, tmp_path)
        ages, wards = rng.integers(20, 90, count), rng.choice(["surgery", "medicine"], count)
        rows = [[a, w, "yes" if a + 20 * (w == "surgery") > 70 else "no"] for a, w in zip(ages, wards, strict=True)]
        write(f"{name}.csv", rows)
        for k, part in enumerate((rows[:90], rows[90:200], rows[200:])):
            write(f"{name}-{k}.csv", part)
        members += ["--member", f"{name},127.0.0.1:{port},{count},{name}/certificate.pem"]
        assert tacit("ledger", "new", f"{name}.ledger", "--population", name, *TOTAL)[0] == 0
    agree = ("federation", "new", "--title", "two", "--schema", "schema.toml", "--graph", "complete", *members)
    code, _, err = tacit(*agree, *TOTAL, "--out", "federation.toml")
    assert code == 0, err

    def agent(name, *data):
        words = ["--federation", "federation.toml", "--identity", name, "--ledger", f"{name}.ledger", *data]
        return subprocess.Popen(
            [sys.executable, "-m", "tacit", "agent", "run", *words, "--out", f"{name}.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"COLUMNS": "200"},
        )

    agents = [agent("alder", "--data", "alder-*.csv", "--engine", "ray"), agent("birch", "--data", "birch.csv")]
    assert all_ended(agents, 240)
    said = [each.communicate()[0] for each in agents]
    assert [each.returncode for each in agents] == [0, 0], said
    plans = [re.search(r"\d+ releases.*", text)[0] for text in said]
    assert plans[0] == plans[1]
    reports = [json.loads(Path(f"{name}.report.json").read_text())["report"] for name in ROWS]
    for key in ("run", "rounds", "epsilon", "delta", "private"):
        assert reports[0][key] == reports[1][key]
    assert reports[0]["private"] is True
    assert tacit("federation", "verify", "federation.toml", "alder.report.json")[0] == 0
