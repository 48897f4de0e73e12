"""`tacit ledger`, as a user sees it."""

import json
import re
import sys
import types
from pathlib import Path

import pytest
import typer
from ledger_case import CAP, released, tamper
from ledger_worker import RUN, cost, open_ledger

from tacit import cli
from tacit.cli import ledger as ledger_command
from tacit.privacy import filters
from tacit.privacy.events import Gaussian, Pure, SharedGaussian
from tacit.privacy.ledger import Cap, Ledger

SMALL = ("--epsilon", 1, "--delta", 1e-6)


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
        assert "no cap is set, so nothing can be spent: set one with tacit ledger cap" in tacit("show", "ledger")[1]
        code, out, _ = tacit("cap", "ledger", "--epsilon", 2, "--delta", 1e-6, "--json")
        assert (code, json.loads(out)) == (0, {"cap": {"epsilon": 2.0, "delta": 1e-6}, "spent": 0.0, "left": 2.0})
        released(ledger, 3)
        ledger.reserve("[red]autumn", 0, Pure(0.25))
        head = ledger.head().head
    code, out, _ = tacit("show", "ledger")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("ward 7, since ")
    assert re.fullmatch(r"cap epsilon = 2 at delta = 1e-06, set \S+ by \S.*, without a reason", lines[1])
    assert [line.split() for line in lines[2:5]] == [
        ["when", "run", "what", "epsilon", "total", "left"],
        ["spring", "1.5", "1.5", "0.5"],
        ["[red]autumn", "0.25", "1.75", "0.25"],
    ]
    assert "spent: epsilon = 1.75 of 2 at delta = 1e-06; left: 0.25" in out
    assert "room for one more run like the last one" in out
    assert "  3 x Pure(epsilon=0.5)" in tacit("show", "ledger", "--events")[1].splitlines()
    shown = json.loads(tacit("show", "ledger", "--json")[1])
    assert (shown["spent"], shown["left"], shown["forecast"]["more"]) == (1.75, 0.25, 1)
    spring = {"run": "spring", "when": "", "method": "", "title": "", "cohorts": None, "rounds": 3, "stored": 3}
    spring |= {"epsilon": 1.5, "total": 1.5, "left": 0.5, "events": {"Pure(epsilon=0.5)": 3}}
    assert shown["runs"][0] == spring
    code, out, _ = tacit("verify", "ledger", "--head", head)
    assert code == 0
    assert "adds up: 4 reservations, 3 releases" in out
    assert f"head: {head}" in out
    assert json.loads(tacit("verify", "ledger", "--json")[1])["head"] == head


def test_errors_are_one_line(tacit, tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
        released(ledger, 3)
    (tmp_path / "text").write_text("no database " * 100)
    for args, reason in [
        (("show", "absent"), "does not exist"),
        (("verify", "text"), "not a database"),
        (("verify", "ledger", "--head", "0" * 64), "rows were lost"),
        (("cap", "ledger", "--epsilon", 1, "--delta", 1e-6), "epsilon = 1.5 is spent already"),
        (("cap", "ledger", "--epsilon", 0, "--delta", 1e-6), "positive"),
        (("cap", "ledger", "--epsilon", 1, "--delta", 1), "between 0 and 1"),
    ]:
        code, out, err = tacit(*args)
        assert (code, out) == (77 if "is spent" in reason else 2, "")  # refused by the ledger, or a mistake
        assert reason in err
        assert err.count("\n") == 1
    tamper(Path("ledger"), "UPDATE entries SET body = x'00' WHERE number = 3")
    code, _, err = tacit("verify", "ledger")
    assert code == 2
    assert "row 3: its content is not what was written" in err


def test_new_then_check(tacit, tmp_path):
    (tmp_path / "ward-7.csv").write_bytes(b"age\n44\n")
    code, out, _ = tacit("new", "w.ledger", "--population", "patients of ward 7", "--epsilon", 2, "--delta", 1e-6)
    assert code == 0
    assert out.splitlines()[0] == "w.ledger: the ledger of patients of ward 7"
    assert "spent: epsilon = 0 of 2 at delta = 1e-06" in out
    with Ledger(tmp_path / "w.ledger", cost=cost) as ledger:
        ledger.reserve_run(RUN, {0: Pure(0.25)})
        head = ledger.head()
    code, out, _ = tacit("check", "w.ledger", "--event", "pure:0.25", "--event", "pure:0.1", "--rounds", 5)
    assert code == 0
    assert "spent: epsilon = 0.25 of 2 at" in out
    assert "the run fits: with it epsilon would be 2 " in out
    code, out, err = tacit("check", "w.ledger", "--event", "pure:0.25", "--rounds", 8, "--data", "ward-7.csv")
    assert (code, err) == (1, "")
    assert out == (
        "the run is refused: epsilon = 0.25 is spent, it would be 2.25; the cap is epsilon = 2 at delta = 1e-06; "
        "7 of its rounds would still fit\n"
        "to go on: plan the run with a smaller epsilon, or have a larger cap decided (tacit ledger cap)\n"
    )
    code, out, _ = tacit("check", "w.ledger", "--event", "pure:0.25", "--rounds", 8, "--json")
    budget = {"cap": {"epsilon": 2.0, "delta": 1e-6}, "spent": 0.25, "left": 1.75}
    answer = {"would": 2.25, "fits": False, "rounds_that_fit": 7, "counted_by": "accountant"}
    assert (code, json.loads(out)) == (1, budget | answer)
    with Ledger(tmp_path / "w.ledger", cost=cost) as ledger:
        assert ledger.head() == head  # asking spends nothing
        ledger.store(RUN, 0, b"payload")
    shown = json.loads(tacit("check", "w.ledger", "--event", "pure:0.25", "--rounds", 7, "--json")[1])
    assert (shown["fits"], shown["counted_by"]) == (True, "filter")
    code, out, _ = tacit("new", "named", "--population", "ward 8", "--json")
    assert (code, json.loads(out)["population"], json.loads(out)["cap"]) == (0, "ward 8", None)
    code, out, _ = tacit("check", "named", "--event", "pure:0.25", "--rounds", 7)
    assert (code, out) == (1, "the run is refused: named has no cap; set one with: tacit ledger cap\n")
    code, out, err = tacit("new", "a", "--data", "ward-7.csv", "--json")  # the old way
    assert (code, json.loads(out)["population"]) == (0, "records of ward-7.csv")
    assert "the old way to name a population" in err


def test_new_and_check_refuse_in_one_line_and_lose_nothing(tacit, tmp_path):
    with open_ledger(tmp_path) as ledger:
        ledger.set_cap(CAP)
        released(ledger, 3)
        head = ledger.head()
    (tmp_path / "text").write_text("no database " * 100)
    (tmp_path / "ward-7.csv").write_bytes(b"age\n44\n")
    for args, reason in [
        (("new", "ledger", "--population", "ward 7"), "exists and is not changed"),
        (("new", "text", "--population", "ward 7"), "exists and is not changed"),
        (("new", "x"), "say whose records the ledger is about"),
        (("new", "x", "--population", "ward 7", "--from", "ledger"), "--from needs a cap"),
        (("new", "x", "--population", "w", *SMALL, "--from", "ledger"), "ledger is not a ledger of format 1"),
        (("new", "x", "--population", "w", *SMALL, "--who", "a\nb"), "whoever sets a cap needs a name"),
        (("new", "x", "--population", ""), "needs a name"),
        (("new", "x", "--population", "two\nlines"), "needs a name"),
        (("new", "no/x", "--population", "ward 7"), "does not exist; create it first"),
        (("new", "x", "--population", "ward 7", "--epsilon", 1), "give both or neither"),
        (("new", "x", "--population", "ward 7", "--delta", 0.1), "give both or neither"),
        (("new", "x", "--population", "ward 7", "--epsilon", 0, "--delta", 0.1), "positive"),
        (("new", "x", "--population", "ward 7", "--epsilon", "nan", "--delta", 0.1), "positive"),
        (("new", "x", "--population", "ward 7", "--epsilon", 1, "--delta", 1), "between 0 and 1"),
        (("new", "x", "--population", "ward 7", "--epsilon", 1, "--delta", 0), "between 0 and 1"),
        (("check", "absent", "--event", "pure:1", "--rounds", 1), "does not exist"),
        (("check", "text", "--event", "pure:1", "--rounds", 1), "not a database"),
        (
            ("check", "ledger", "--event", "pure:1", "--rounds", 1, "--data", "absent"),
            "the file must exist; absent",
        ),
        (("check", "ledger"), "say which run to check"),
        (("check", "ledger", "--event", "pure:1"), "give --rounds, too"),
        (("check", "ledger", "--plan", "text"), "is not a plan"),
        (("verify", "ledger", "--data", "ward-7.csv"), "no run in ledger has used the records of ward-7.csv"),
        (("check", "ledger", "--event", "pure:1", "--rounds", 0), "between 1 and 100,000, not 0"),
        (("check", "ledger", "--event", "pure:1", "--rounds", 100_001), "between 1 and 100,000, not 100001"),
        (("check", "ledger", "--event", "pure:0", "--rounds", 1), "positive, finite epsilon, not 0"),
        (("check", "ledger", "--event", "pure:-1", "--rounds", 1), "positive, finite epsilon, not -1"),
        (("check", "ledger", "--event", "gaussian:inf", "--rounds", 1), "positive, finite multiplier, not inf"),
        (("check", "ledger", "--event", "laplace:2:0", "--rounds", 1), "1 or more, not 0"),
        (("check", "ledger", "--event", "laplace:2:1.5", "--rounds", 1), "laplace:MULTIPLIER:COORDINATES; not 'lap"),
        (("check", "ledger", "--event", "zcdp:0.1:-1", "--rounds", 1), "xi of 0 or more"),
        (("check", "ledger", "--event", "pure", "--rounds", 1), "write pure:EPSILON; not 'pure'"),
        (("check", "ledger", "--event", "pure:1:2", "--rounds", 1), "write pure:EPSILON; not 'pure:1:2'"),
        (("check", "ledger", "--event", "magic:1", "--rounds", 1), "one of pure, laplace, gaussian, zcdp; not 'magic'"),
    ]:
        code, out, err = tacit(*args)
        assert (code, out) == (2, ""), args
        assert reason in err
        assert err.count("\n") == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger", "text", "ward-7.csv"]
    with open_ledger(tmp_path) as ledger:
        assert ledger.verify(head.head).head == head
    tamper(Path("ledger"), "UPDATE entries SET body = x'00' WHERE number = 3")
    code, out, err = tacit("check", "ledger", "--event", "pure:1", "--rounds", 1)
    assert (code, out) == (2, "")
    assert "row 3: its content is not what was written" in err


def test_a_total_of_shared_noise_says_against_whom_it_holds(tmp_path, capsys):
    with Ledger.new(tmp_path / "ledger", population="ward 7", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(4.0, 1e-5))
        ledger.reserve_run("local", {0: Gaussian(40.0)})
    shown = [show_of(tmp_path, capsys)]
    with Ledger(tmp_path / "ledger", cost=filters.epsilon) as ledger:
        ledger.reserve_run("spring", {0: SharedGaussian(20.0, members=5, colluders=3)})
        ledger.reserve_run("autumn", {0: SharedGaussian(20.0, members=5, colluders=1)})
    shown.append(show_of(tmp_path, capsys))
    assert [json.loads(found)["colluders"] for _, found in shown] == [None, 1]
    assert ["holds if at most 1 of their other members" in text for text, _ in shown] == [False, True]


def show_of(folder, capsys):
    """What `tacit ledger show` prints, and with --json."""
    found = []
    for json_wanted in (False, True):
        ledger_command.show(folder / "ledger", json=json_wanted)
        found.append(capsys.readouterr().out)
    return [found[0].replace("\n", " "), found[1]]


def test_a_second_place_for_the_head(tacit, tmp_path, monkeypatch):
    for folder in ("heads", "others"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TACIT_LEDGER_HEADS", "heads")
    assert tacit("new", "a.ledger", "--population", "ward 7", *SMALL)[0] == 0
    old = Path("a.ledger").read_bytes()
    assert tacit("cap", "a.ledger", "--epsilon", 2, "--delta", 1e-6)[0] == 0
    (made,) = Path("heads").iterdir()
    assert tacit("head", "a.ledger")[1] == f"{made}: 2 rows (before: 2)\n"  # to the folder of the variable
    code, out, _ = tacit("head", "a.ledger", "--to", "others", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["file"], found["rows_before"], found["rows"]) == (f"others/{made.name}", 0, 2)
    assert (Path("others") / made.name).read_text() == made.read_text() == f"{2:020} {found['head']}\n"
    Path("a.ledger").write_bytes(old)
    for command in ("show", "verify", "head"):
        code, out, err = tacit(command, "a.ledger")
        assert (code, out) == (78, "")
        assert re.fullmatch(r"tacit: error: a.ledger is an old copy, .* Put the newest copy of the ledger back\n", err)
    monkeypatch.setenv("TACIT_LEDGER_HEADS", "nowhere")
    code, out, err = tacit("show", "a.ledger")
    assert (code, out, err.count("\n")) == (74, "", 1)
    assert "nowhere is not there" in err
