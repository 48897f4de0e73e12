"""`tacit ledger`, as a user meets it."""

import json
import sys
import types
from pathlib import Path

import pytest
import typer
from ledger_worker import cost, open_ledger
from test_ledger import CAP, released, tamper

from tacit import cli
from tacit.cli import ledger as ledger_command
from tacit.privacy.events import Pure


@pytest.fixture
def tacit(monkeypatch, capsys, tmp_path):
    """Runs `tacit ledger ARGS` with the simple accountant; gives (exit code, standard output, standard error)."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.add_typer(ledger_command.app, name="ledger")
    accountant = types.ModuleType("tacit.privacy.filters")
    accountant.epsilon = cost
    monkeypatch.setitem(sys.modules, "tacit.privacy.filters", accountant)
    monkeypatch.setattr(cli, "app", app)
    monkeypatch.chdir(tmp_path)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tacit", "ledger", *map(str, args)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


def test_cap_then_show_then_verify(tacit, tmp_path):
    with open_ledger(tmp_path) as ledger:
        assert tacit("show", "ledger")[1].endswith("no cap is set: nothing can be spent\n")
        code, out, _ = tacit("cap", "ledger", "--epsilon", 2, "--delta", 1e-6, "--json")
        assert (code, json.loads(out)) == (0, {"cap": {"epsilon": 2.0, "delta": 1e-6}, "spent": 0.0})
        released(ledger, 3)
        ledger.reserve("[red]autumn", 0, Pure(0.25))
        head = ledger.head()
    code, out, _ = tacit("show", "ledger")
    assert code == 0
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["spring", "3", "3", "1.5", "3", "x", "Pure(epsilon=0.5)"],
        ["[red]autumn", "1", "0", "0.25", "1", "x", "Pure(epsilon=0.25)"],
    ]
    assert "spent: epsilon = 1.75; cap: epsilon = 2 at delta = 1e-06" in out
    shown = json.loads(tacit("show", "ledger", "--json")[1])
    assert shown["spent"] == 1.75
    assert shown["runs"][0] == {
        "run": "spring", "rounds": 3, "stored": 3, "events": {"Pure(epsilon=0.5)": 3}, "epsilon": 1.5,
    }  # fmt: skip
    code, out, _ = tacit("verify", "ledger", "--head", head)
    assert code == 0
    assert "adds up: 4 reservations, 3 payloads" in out
    assert f"head: {head}" in out
    assert json.loads(tacit("verify", "ledger", "--json")[1])["head"] == head


def test_errors_are_one_line_and_exit_code_2(tacit, tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
        released(ledger, 3)
    (tmp_path / "text").write_text("no database " * 100)
    for args, reason in [
        (("show", "absent"), "is not there"),
        (("verify", "text"), "not a database"),
        (("verify", "ledger", "--head", "0" * 64), "rows were lost"),
        (("cap", "ledger", "--epsilon", 1, "--delta", 1e-6), "epsilon = 1.5 is spent already"),
        (("cap", "ledger", "--epsilon", 0, "--delta", 1e-6), "positive"),
        (("cap", "ledger", "--epsilon", 1, "--delta", 1), "between 0 and 1"),
    ]:
        code, out, err = tacit(*args)
        assert (code, out) == (2, "")
        assert reason in err
        assert err.count("\n") == 1
    tamper(Path("ledger"), "UPDATE entries SET body = x'00' WHERE number = 3")
    code, _, err = tacit("verify", "ledger")
    assert code == 2
    assert "row 3: its content is not what was written" in err
