"""Budgets on the command line: `tacit train --ledger` month after month, cohorts, plans, totals that protect nobody."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from patients import SCHEMA

from tacit.agent.identity import Identity
from tacit.privacy.filters import epsilon
from tacit.privacy.ledger import Cap, Ledger

TRAIN = ["--schema", "schema.toml", "--agents", 3, "--epsilon", 1, "--delta", 1e-5, "--method", "one-shot"]


@pytest.fixture
def tacit(tacit, tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tacit


def patients(path, months, ending="\n"):
    """150 patients of each month so far: the file of a month begins with all files before."""
    rng = np.random.default_rng(7)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator=ending)
        writer.writerow(["age", "ward", "died", "admitted"])
        for month in range(months):
            for _ in range(150):
                age, ward = rng.integers(20, 90), rng.choice(["surgery", "medicine"])
                writer.writerow(
                    [age, ward, "yes" if age > 55 else "no", f"2026-{month + 1:02d}-{rng.integers(1, 29):02d}"]
                )


def shown(tacit, file="p.ledger"):
    code, out, err = tacit("ledger", "show", file, "--json")
    assert code == 0, err
    return json.loads(out)


def test_next_months_file_is_charged_to_the_same_people(tacit, tmp_path):
    assert tacit("ledger", "new", "p.ledger", "--population", "patients", "--epsilon", 2, "--delta", 1e-5)[0] == 0
    files = ((1, "\n"), (1, "\r\n"), (2, "\n"))  # saved once more in another way, and a month later
    for k, (month, ending) in enumerate(files):
        patients("p.csv", month, ending)
        code, _, err = tacit("train", "p.csv", *TRAIN, "--epsilon", 0.5, "--ledger", "p.ledger", "--out", f"{k}.json")
        assert code == 0, err
    found = shown(tacit)
    assert [each["rows"] for each in found["files"]] == [150, 300]  # the CRLF file is the first one
    assert [(run["method"], run["title"]) for run in found["runs"]] == [("one-shot", "tacit train p.csv")] * 3
    assert [run["epsilon"] for run in found["runs"]] == [pytest.approx(0.5, rel=1e-3)] * 3
    with Ledger("p.ledger", cost=epsilon) as ledger:
        spent = ledger.epsilon()
        assert all(run.released == 1 for run in ledger.runs())
    assert found["spent"] == spent > 0.9
    lines = tacit("ledger", "show", "p.ledger")[1].splitlines()
    assert len([line for line in lines if "one-shot tacit" in line]) == 3
    assert max(len(line) for line in lines if "one-shot" in line) <= 80


def test_a_run_that_the_ledger_refuses_draws_no_noise_and_writes_no_model(tacit, tmp_path):
    patients("p.csv", 1)
    assert tacit("ledger", "new", "p.ledger", "--population", "p", "--epsilon", 0.9, "--delta", 1e-5)[0] == 0
    code, out, err = tacit("train", "p.csv", *TRAIN, "--ledger", "p.ledger")
    assert (code, out) == (77, "")
    assert "is refused: epsilon = 0 is spent, it would be 1; the cap is epsilon = 0.9 at delta = 1e-05" in err
    assert not (tmp_path / "model.json").exists()
    assert shown(tacit)["runs"] == []
    code, _, err = tacit("train", "p.csv", "--schema", "schema.toml", "--agents", 3, "--ledger", "p.ledger")
    assert (code, "no ledger can pay for a run without privacy" in err) == (2, True)
    code, _, err = tacit("train", "p.csv", *TRAIN, "--ledger", "absent")
    assert (code, "absent does not exist" in err) == (2, True)


def test_cohorts_of_a_public_column(tacit):
    new = ("ledger", "new", "p.ledger", "--population", "patients", "--cohorts", "admitted")
    assert tacit(*new, "--epsilon", 1.2, "--delta", 1e-5)[0] == 0
    patients("p.csv", 1)
    assert tacit("train", "p.csv", *TRAIN, "--ledger", "p.ledger")[0] == 0
    patients("p.csv", 2)
    code, _, err = tacit("train", "p.csv", *TRAIN, "--ledger", "p.ledger", "--out", "all.json")
    assert (code, "is refused" in err) == (77, True)  # those of January have paid already
    rows = Path("p.csv").read_text().splitlines()
    Path("february.csv").write_text("\n".join([rows[0], *(row for row in rows if "2026-02" in row)]) + "\n")
    assert tacit("train", "february.csv", *TRAIN, "--ledger", "p.ledger", "--out", "february.json")[0] == 0
    found = shown(tacit)
    assert [(each["cohort"], each["runs"]) for each in found["cohorts"]] == [("2026-01", 1), ("2026-02", 1)]
    assert found["spent"] == max(each["spent"] for each in found["cohorts"]) < 1.01
    assert "cohort 2026-02: epsilon = " in tacit("ledger", "show", "p.ledger")[1]
    check = ("ledger", "check", "p.ledger", "--event", "pure:0.5", "--rounds", 1, "--json")
    assert [tacit(*check)[0], tacit(*check, "--data", "february.csv")[0]] == [1, 1]
    Path("p.csv").write_text(Path("p.csv").read_text().replace("admitted", "arrived"))
    code, _, err = tacit("train", "p.csv", *TRAIN, "--ledger", "p.ledger", "--out", "all.json")
    assert (code, "has cohorts by the column 'admitted', which p.csv does not have" in err) == (2, True)


def test_check_knows_plans_and_federations(tacit, tmp_path):
    with Ledger.new("p.ledger", population="patients", cost=epsilon) as ledger:
        ledger.set_cap(Cap(1.0, 1e-5))
    members = []
    for k, name in enumerate(("alder", "birch", "cedar")):
        Identity.new(name, tmp_path)
        members += ["--member", f"{name},127.0.0.1:{7441 + k},{(k + 1) * 1000},{name}/certificate.pem"]
    new = ("federation", "new", "--title", "spring", "--schema", "schema.toml", *members, "--delta", 1e-5)
    for total, fits in ((0.9, True), (1.1, False)):
        assert tacit(*new, "--epsilon", total, "--out", f"{total}.toml")[0] == 0
        check = ("ledger", "check", "p.ledger", "--federation", f"{total}.toml", "--member", "birch")
        code, out, err = tacit(*check, "--json")
        assert (code, json.loads(out)["fits"]) == (0 if fits else 1, fits), err
        assert json.loads(out)["would"] == pytest.approx(total, rel=2e-2)
        plan = tacit("plan", "mr-admm", "--rows", "1000,2000,3000", "--epsilon", total, "--delta", 1e-5, "--json")[1]
        (tmp_path / "plan.json").write_text(plan)
        code, out, err = tacit("ledger", "check", "p.ledger", "--plan", "plan.json", "--json")
        assert (code, json.loads(out)["fits"]) == (0 if fits else 1, fits), err
        assert json.loads(out)["would"] == pytest.approx(total, rel=2e-2)
    assert "is refused: epsilon = 0 is spent" in tacit(*check)[1]
    code, _, err = tacit(*check[:-1], "dogwood")
    assert (code, "one of alder, birch, cedar; not 'dogwood'" in err) == (2, True)
    with Ledger("p.ledger", cost=epsilon) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["cap"]  # nothing is spent


@pytest.mark.parametrize(
    "command",
    [
        ["train", "p.csv", *TRAIN],
        ["compare", "p.csv", "--schema", "schema.toml", "--agents", 3, "--epsilon", 1],
        ["plan", "one-shot", "--rows", "50,50,50", "--epsilon", 1],
    ],
    ids=["train", "compare", "plan"],
)
@pytest.mark.parametrize("delta", [0.5, 1 / 150])
def test_a_delta_of_one_over_the_rows_is_refused(tacit, command, delta):
    patients("p.csv", 1)
    code, out, err = tacit(*command, "--delta", delta)
    assert (code, out) == (2, "")
    assert "a method that publishes whole records could promise that" in err
    assert err.count("\n") == 1


def test_a_delta_is_allowed_with_a_reason_and_a_large_epsilon_warns(tacit, tmp_path):
    patients("p.csv", 1)
    code, _, err = tacit("train", "p.csv", *TRAIN, "--delta", 0.5, "--allow-delta", "a made-up file")
    assert code == 0, err
    assert "warning: delta = 0.5 is not small beside one over 150 rows" in err
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["privacy"]["delta was allowed because"] == "a made-up file"
    code, _, err = tacit("train", "p.csv", *TRAIN, "--delta", 0.5, "--allow-delta", " ")
    assert code == 2
    code, _, err = tacit("plan", "one-shot", "--rows", "500,500", "--epsilon", 25)
    assert (code, "warning: epsilon = 25 protects nobody" in err) == (0, True)


def test_a_comparison_says_that_it_spends_nothing(tacit):
    patients("p.csv", 1)
    args = ["--schema", "schema.toml", "--agents", 3, "--epsilon", 1, "--seeds", 1, "--delta", 1e-4]
    code, _, err = tacit("compare", "p.csv", *args)
    assert code == 0, err
    assert "spends nothing from a ledger" in " ".join(err.split())


PAID = "tacit: stopped; p.ledger has paid this run's epsilon and keeps it"


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("tacit.cli.records.read", "tacit: stopped; nothing was spent; no model was written"),
        ("tacit.run.setting.simulate", f"{PAID}; no model was written"),
        ("tacit.run.training.how", f"{PAID}; no model was written"),
        ("tacit.cli.train.tell_written", f"{PAID}; model.json was written"),
    ],
)
def test_ctrl_c_says_what_was_paid_and_written(tacit, monkeypatch, where, says):
    patients("p.csv", 1)
    assert tacit("ledger", "new", "p.ledger", "--population", "p", "--epsilon", 2, "--delta", 1e-5)[0] == 0
    monkeypatch.setattr(where, interrupted)
    code, _, err = tacit("train", "p.csv", *TRAIN, "--ledger", "p.ledger")
    assert (code, err.splitlines()[-1]) == (130, says)
    assert bool(shown(tacit)["runs"]) == ("has paid" in says)
    assert Path("model.json").exists() == ("model.json" in says)


def test_ctrl_c_leaves_a_line_without_a_ledger_too(tacit, monkeypatch):
    patients("p.csv", 1)
    monkeypatch.setattr("tacit.cli.train.train_together", interrupted)
    code, _, err = tacit("train", "p.csv", "--schema", "schema.toml", "--agents", 3)
    assert (code, err.splitlines()[-1]) == (130, "tacit: stopped; no model was written")
    monkeypatch.setattr("tacit.cli.validate.find", interrupted)
    assert tacit("validate", "p.csv", "--schema", "schema.toml") == (130, "", "tacit: stopped\n")


@pytest.mark.parametrize("option", [("--delta", 1e-6), ("--allow-delta", "made up")])
def test_an_option_of_a_private_run_is_refused_without_epsilon(tacit, tmp_path, option):
    """A hospital that gives a delta means a private run: exact models must not be exchanged instead."""
    patients("p.csv", 1)
    code, _, err = tacit("train", "p.csv", "--schema", "schema.toml", "--agents", 3, *option)
    assert (code, f"{option[0]} is for a run with --epsilon" in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "model.json").exists()
    Identity.new("alder", tmp_path)
    member = ("--member", "alder,127.0.0.1:7441,100,alder/certificate.pem")
    new = ("federation", "new", "--title", "x", "--schema", "schema.toml", *member)
    code, _, err = tacit(*new, *option)
    assert (code, f"{option[0]} is for a run with --epsilon" in err) == (2, True)
    for setting in (("--penalty", 1), ("--l2", 1), ("--loss", "logistic"), ("--rounds", 9)):
        code, _, err = tacit(*new, "--epsilon", 1, *setting)
        assert (code, f"leave out {setting[0][2:]}" in err) == (2, True)


def test_a_private_model_is_not_replaced(tacit):
    """It has cost epsilon. The refusal comes before the ledger pays for another one."""
    patients("p.csv", 1)
    assert tacit("ledger", "new", "p.ledger", "--population", "p", "--epsilon", 4, "--delta", 1e-5)[0] == 0
    exact = ("train", "p.csv", "--schema", "schema.toml", "--agents", 3, "--rounds", 5)
    assert [tacit(*exact)[0] for _ in range(2)] == [0, 0]
    private = ("train", "p.csv", *TRAIN, "--ledger", "p.ledger")
    assert tacit(*private)[0] == 0  # replaces the exact one
    kept = Path("model.json").read_text()
    for again in (private, exact):
        code, _, err = tacit(*again)
        assert (code, err.count("\n"), "name another file with --out, or move it" in err) == (2, 1, True)
    assert (Path("model.json").read_text(), len(shown(tacit)["runs"])) == (kept, 1)


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_bad_epsilon_is_refused_before_all_else(tacit, wrong):
    patients("p.csv", 1)
    rule = f"tacit: error: epsilon must be a positive number, not {float(wrong)}\n"
    assert tacit("train", "p.csv", *TRAIN, "--epsilon", wrong) == (2, "", rule)


def test_a_decimal_comma_gets_a_hint(tacit):
    code, _, err = tacit("train", "p.csv", "--schema", "schema.toml", "--epsilon", "1,5")
    assert (code, "a decimal comma? Write 1.5" in err) == (2, True)
    code, _, err = tacit("predict", "model.json", "p.csv", "--threshold", "0,1")
    assert (code, "a decimal comma? Write 0.1" in err) == (2, True)
    code, _, err = tacit("plan", "--epsilon", "")
    assert (code, "write a number such as 0.5" in err) == (2, True)


def test_the_option_that_allows_a_delta_is_named_as_it_is_written(tacit):
    patients("p.csv", 1)
    assert "(--allow-delta; allow_delta in Python; reason in" in tacit("train", "p.csv", *TRAIN, "--delta", 0.1)[2]


def test_a_site_with_few_records_is_warned_of(tacit):
    patients("p.csv", 1)
    lines = Path("p.csv").read_text().splitlines()
    sites = ["site", "cedar", *(["alder", "birch"] * 75)[:149]]
    Path("p.csv").write_text("\n".join(map(",".join, zip(lines, sites, strict=True))) + "\n")
    how = ("--schema", "schema.toml", "--epsilon", 1, "--method", "one-shot")
    code, _, err = tacit("train", "p.csv", *how, "--site", "site")
    assert (code, "warning: fewer than 10 records to train on: cedar; so few add more noise" in err) == (0, True)
    assert "fewer than" not in tacit("train", "p.csv", *how, "--agents", 3, "--out", "other.json")[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--dimension", 10**12), "--dimension must lie between 1 and 16,777,216"),
        (("--agents", 1_000_000, "--rows", 50, "--delta", 1e-9, "--graph", "complete"), "at most 134,217,728 edges"),
    ],
)
def test_a_plan_of_too_much_is_refused_in_a_line(options, words, tacit):
    """It asked for terabytes of memory, and ended with a traceback."""
    code, out, err = tacit("plan", "pvp", "--epsilon", 1, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_without_memory_a_command_ends_with_a_line(tacit, monkeypatch):
    def full(*given, **more):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("tacit.run.request.Request.resolved", full)
    code, out, err = tacit("plan", "pvp", "--epsilon", 1)
    assert (code, out, err) == (2, "", "tacit: error: not enough memory: Unable to allocate 9 TiB\n")


def test_agents_that_are_alike_are_one_line_of_a_plan(tacit):
    """In the order of their first; a plan for a million of them hashed the events of each."""
    code, out, err = tacit("plan", "pvp", "--epsilon", 1, "--rows", "4000,9000,4000,2000")
    assert code == 0, err
    assert re.findall(r"^(\d[\d, ]*?) {2,}", out, re.MULTILINE) == ["0, 2", "1", "3"]
