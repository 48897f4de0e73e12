"""Members that share their noise, on the command line: `tacit federation new --colluders`."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import test_cli_agent
from test_cli_agent import ROWS, with_free_ports

from tacit.agent.federation import Federation
from tacit.agent.participant import reserved
from tacit.cli.ledger import _of_federation

hospitals = test_cli_agent.hospitals  # fixture
NEW = ["federation", "new", "--title", "spring", "--schema", "schema.toml", "--epsilon", "2", "--secret-shared"]
NEW += [
    word
    for k, (name, rows) in enumerate(ROWS.items())
    for word in ("--member", f"{name},127.0.0.1:{7441 + k},{rows},{name}/certificate.pem")
]


def test_three_hospitals_share_their_noise(hospitals, tacit):
    code, shown, err = tacit(*with_free_ports([*NEW, "--colluders", "1"]))
    assert code == 0, err
    assert "(2, 1e-05) against any one of the 2 other members; against 2: (" in shown
    assert "alder at 127.0.0.1:" in shown
    assert "talks to birch, cedar" in shown
    assert tacit("federation", "show", "federation.toml")[1] == shown
    for name in ROWS:
        made = tacit("ledger", "new", f"{name}.ledger", "--population", name, "--epsilon", "2", "--delta", "1e-5")
        assert made[0] == 0
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
    said = [agent.communicate(timeout=240)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0, 0], said
    assert "the members share their noise: (2, 1e-05) against any one of the 2 other members" in said[0]
    models = [json.loads(Path(f"{name}.json").read_text()) for name in ROWS]
    assert models[0]["weights"] == models[1]["weights"] == models[2]["weights"]
    largest = models[0]["privacy"]["coalitions"][2]["epsilon"]
    assert models[0]["privacy"]["statement"].endswith(f"members; against 2: ({largest:g}, 1e-05)")
    assert [each["colluders"] for each in models[0]["privacy"]["coalitions"]] == [0, 1, 2]
    code, out, err = tacit("federation", "verify", "federation.toml", "alder.report.json")
    assert code == 0, err
    assert "by plan (2, 1e-05) against any one of the 2 other members; against 2: (" in out
    report = json.loads(Path("alder.report.json").read_text())["report"]
    assert (report["colluders"], report["dropouts"]) == (1, 0)
    assert {release["event"]["event"] for release in report["releases"]} == {"SharedGaussian"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--colluders", "3"], "of 3 members, 3 colluders and 0 dropouts leave none"),
        (["--colluders", "1", "--graph", "path"], "shared noise allows 0 colluders and dropouts together, not 1"),
        (["--colluders", "1", "--dropouts", "1"], "dropouts needs go_on_after"),
        (["--colluders", "1", "--go-on-after", "60"], "go_on_after needs dropouts"),
        (["--dropouts", "1"], "dropouts are of members that share their noise: give colluders, too"),
        (["--method", "shared-descent"], "say how many members may collude (colluders = 1)"),
        (["--colluders", "1", "--method", "mr-admm"], "every member adds all of its noise"),
        (["--colluders", "-1"], "colluders"),
        (["--colluders", "1", "--robust", "clipping"], "members that share their noise see sums alone"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(hospitals, tacit, more, reason):
    code, _, err = tacit(*NEW, *more)
    assert (code, reason in err.replace("\n", " ")) == (2, True), err
    assert not Path("federation.toml").exists()


def test_noise_that_is_shared_needs_a_budget(hospitals, tacit):
    without = [word for word in NEW if word not in ("--epsilon", "2")]
    code, _, err = tacit(*without, "--colluders", "1")
    assert (code, "give epsilon, too" in " ".join(err.split())) == (2, True)


def test_a_ledger_is_asked_for_the_tick_that_a_drop_out_leaves_in_doubt(hospitals, tacit):
    """The plan has one release for each round; what a member pays for has one more for a member that may go away."""
    args = [*NEW, "--colluders", "0", "--dropouts", "1", "--go-on-after", "30"]
    code, _, err = tacit(*with_free_ports(args))
    assert code == 0, err
    federation = Federation.load(Path("federation.toml"))
    asked = _of_federation(Path("federation.toml"), "alder")
    assert asked.total() == federation.rounds + 1
    assert asked == Counter(reserved(federation, 0).values())
