"""The command line, as a user sees it."""

import csv
import json
import os
from importlib import import_module

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.cli.predict import _digits
from tacit.core.losses import Logistic
from tacit.run.model import Model


def test_train_then_predict(tacit, patients, tmp_path):
    who = ["--label", "died", "--site", "hospital", "--graph", "ring", "--method", "admm"]
    how = ["--rounds", 300, "--penalty", 0.05, "--l2", 0.01, "--out", "model.json"]
    code, out, err = tacit("train", patients, *who, *how)
    assert code == 0, err
    assert "alder alone" in out
    assert "not private" in out
    assert "leak" in err  # the schema was drafted from the data
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")
    model = Model.load(tmp_path / "model.json")
    assert model.schema.feature_names == ("age", "ward=medicine", "ward=surgery", "intercept")  # not the hospital
    assert [a["name"] for a in model.training["agents"]] == ["alder", "birch", "cedar"]
    assert model.privacy["private"] is False
    assert model.training["converged"] is True

    code, out, err = tacit("predict", "model.json", patients, "--out", "p.csv", "--json")
    assert code == 0, err
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["died", "score", "probability"]
    assert len(rows) == 121
    with (tmp_path / patients).open() as file:
        truth = [row["died"] for row in csv.DictReader(file)]
    wrong = np.mean([p[0] != t for p, t in zip(rows[1:], truth, strict=True)])
    assert json.loads(out)["error"] == pytest.approx(wrong)
    assert wrong < 0.25
    assert all((float(p) > 0.5) == (float(score) > 0) == (label == "yes") for label, score, p in rows[1:])
    result = json.loads(out)
    assert result["auc"] == pytest.approx(roc_auc_score(truth, [float(row[1]) for row in rows[1:]]), abs=1e-4)
    assert result["positives_predicted"] == sum(row[0] == "yes" for row in rows[1:])


def test_together_comes_as_close_to_the_optimum_as_it_says(tacit, patients):
    who = ["--label", "died", "--agents", 4, "--graph", "random:5", "--json"]
    how = ["--penalty", 0.05, "--l2", 0.01, "--rounds", 1000, "--tolerance", 1e-8]
    code, out, _ = tacit("train", patients, *who, *how)
    result = json.loads(out)
    assert code == 0
    assert result["converged"]
    assert result["private"] is False
    assert result["together"]["loss"] == pytest.approx(result["pooled"]["loss"], abs=1e-7)
    assert len(result["alone"]) == 4


@pytest.mark.parametrize("algorithm", ["i-admm", "w-admm"])
def test_a_token_trains_with_fewer_messages(tacit, patients, algorithm):
    settings = ["--agents", 4, "--graph", "complete", "--json", "--l2", 0.01, "--rounds", 500, "--tolerance", 1e-5]
    code, out, err = tacit("train", patients, "--label", "died", "--method", algorithm, "--penalty", 0.5, *settings)
    result = json.loads(out)
    assert code == 0, err
    assert result["converged"]
    assert result["together"]["loss"] == pytest.approx(result["pooled"]["loss"], abs=1e-4)
    assert result["bytes"] == result["rounds"] * 4 * 7 * 8  # a tick for each of 4 agents, a token of 7 numbers
    assert "not above L" not in err


def test_no_rounds_are_no_training(tacit, patients):
    code, _, err = tacit("train", patients, "--label", "died", "--agents", 3, "--rounds", 0)
    assert code == 2
    assert "rounds must be a whole number, 1 or more" in err


def test_a_penalty_below_the_theorem_is_warned_of(tacit, patients):
    code, _, err = tacit("train", patients, "--label", "died", "--agents", 3, "--method", "i-admm", "--penalty", 0.001)
    assert code == 0
    assert "the penalty 0.001 is not above L = " in err
    code, _, err = tacit("train", patients, "--label", "died", "--agents", 4, "--method", "i-admm", "--graph", "star")
    assert code == 2
    assert "no Hamiltonian cycle: agent 1 has only one neighbour" in err


def test_a_schema_makes_all_encode_alike(tacit, patients, tmp_path):
    code, _, err = tacit("schema", patients, "--label", "died", "--out", "schema.toml")
    assert code == 0
    assert "leak" in err
    text = (tmp_path / "schema.toml").read_text()
    assert "leak" in text
    (tmp_path / "schema.toml").write_text(text.replace("missing =", "# agreed\nmissing ="))
    code, out, err = tacit("train", patients, "--schema", "schema.toml", "--agents", 2, "--l2", 0.1, "--json")
    assert code == 0, err
    assert "leak" not in err  # nothing was drafted
    assert json.loads(out)["together"]["rows"] == 108


def test_numbers_are_predicted_too(tacit, patients, tmp_path):
    code, _, err = tacit("train", patients, "--label", "age", "--agents", 3, "--l2", 0.01, "--penalty", 0.1)
    assert code == 0, err
    code, out, _ = tacit("predict", "model.json", patients, "--json")
    assert code == 0
    ages = np.genfromtxt(tmp_path / patients, delimiter=",", skip_header=1, usecols=0)
    assert json.loads(out)["error"] < ages.std()


def test_one_class_only_is_allowed_and_warned_of(tacit, tmp_path):
    rows = [["x", "site", "y"]] + [[i, "a", i % 2] for i in range(20)] + [[i, "b", 1] for i in range(10)]
    with (tmp_path / "one.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    code, _, err = tacit("train", "one.csv", "--label", "y", "--site", "site")
    assert code == 0
    assert "b has rows of one class only" in err


def test_missing_values_have_empty_predictions(tacit, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(f"{i % 7},{int(i % 7 > 3)}" for i in range(40)))
    assert tacit("train", "t.csv", "--label", "y", "--agents", 2)[0] == 0
    (tmp_path / "new.csv").write_text("x\n1\n?\n6\n")
    code, _, err = tacit("predict", "model.json", "new.csv", "--out", "p.csv")
    assert code == 0
    assert "1 of 3 records lack a value" in err
    lines = (tmp_path / "p.csv").read_text().split()
    assert lines[2] == ",,"
    assert lines[1].startswith("0,")
    assert lines[3].startswith("1,")


def test_predictions_can_go_to_standard_output(tacit, patients):
    assert tacit("train", patients, "--label", "died", "--agents", 2, "--l2", 0.1)[0] == 0
    code, out, _ = tacit("predict", "model.json", patients, "--out", "-")
    assert code == 0
    assert len(out.splitlines()) == 121


def test_a_link_stays_a_link(tacit, patients, tmp_path):
    (tmp_path / "elsewhere.json").write_text("old")
    (tmp_path / "model.json").symlink_to(tmp_path / "elsewhere.json")
    assert tacit("train", patients, "--label", "died", "--agents", 2, "--l2", 0.1)[0] == 0
    assert (tmp_path / "model.json").is_symlink()
    assert Model.load(tmp_path / "elsewhere.json").loss == Logistic()


def test_a_schema_that_learns_from_the_site_is_warned_of(tacit, patients):
    tacit("schema", patients, "--label", "died", "--out", "with.toml")
    tacit("schema", patients, "--label", "died", "--site", "hospital", "--out", "without.toml")
    assert "learns from 'hospital'" in tacit("train", patients, "--schema", "with.toml", "--site", "hospital")[2]
    assert "learns from" not in tacit("train", patients, "--schema", "without.toml", "--site", "hospital")[2]


def test_one_agent_alone(tacit, patients):
    code, out, err = tacit("train", patients, "--label", "died", "--agents", 1, "--l2", 0.1)
    assert code == 0
    assert "1 round;" in out
    assert "Warning" not in err


@pytest.mark.slow
def test_demo(tacit, tmp_path, monkeypatch, short_recipes):
    demo = import_module("tacit.lab.cli.demo")
    compare = demo.compare_all
    monkeypatch.setattr(
        demo,
        "compare_all",
        lambda data, *args, **settings: compare(
            data.take(np.arange(0, len(data), 5)), *args, **settings | {"seeds": 1}
        ),
    )
    code, out, err = tacit("demo", "--out", "demo")
    assert code == 0, err
    assert "Five organisations" in out
    assert "warning" not in err  # it converges
    assert (tmp_path / "demo" / "convergence.png").exists()
    lines = {line[:30].strip(): line.split() for line in out.splitlines()}
    together, pooled = lines["together, nothing pooled"], lines["all data pooled (the optimum)"]
    assert abs(float(together[-2]) - float(pooled[-2])) < 0.002  # the error; then comes the AUC
    assert all(float(lines[f"{who} alone"][-2]) > float(together[-2]) for who in ("north", "east", "south", "west"))
    assert float(together[-1]) > 0.89


def bad(*args, why):
    return pytest.param(args, why, id=why)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        bad("compare", "--engine", "spark", why="--engine must be one of local, ray; not 'spark'"),
        bad("audit", "pvp", "--jobs", "0", why="--jobs must be a whole number, 1 or more, not 0"),
        bad("reproduce", "dp-admm", "--address", "auto", why="add --engine ray"),
        bad("compare", "--engine", "ray", "--address", "auto", "--jobs", "2", why="leave out jobs, or address"),
        bad("train", "nowhere.csv", "--label", "died", why="nowhere.csv"),
        bad("train", "patients.csv", "--label", "dead", why="no column 'dead'"),
        bad("train", "patients.csv", why="--label is needed"),
        bad("train", "nan.csv", "--label", "y", why="'nan'"),
        bad("train", "inf.csv", "--label", "y", why="'inf'"),
        bad("train", "patients.csv", "--label", "died", "--penalty", "0", why="penalty must be a positive number"),
        bad("train", "patients.csv", "--label", "died", "--penalty", "-1", why="penalty must be a positive number"),
        bad(
            "train",
            "patients.csv",
            "--label",
            "died",
            "--site",
            "hospital",
            "--graph",
            "cut.csv",
            why="components: {alder, birch}; {cedar}",
        ),
        bad("train", "patients.csv", "--label", "died", "--graph", "cube", why="graph must be one of ring"),
        bad("train", "patients.csv", "--label", "died", "--graph", "random:2", why="can be connected by 4 to 10 edges"),
        bad("train", "patients.csv", "--label", "died", "--method", "magic", why="method is one of admm"),
        bad("train", "patients.csv", "--label", "died", "--agents", "121", why="121"),
        bad("train", "patients.csv", "--label", "died", "--agents", "0", why="agents"),
        bad("train", "patients.csv", "--label", "died", "--method", "i-admm", "--rounds", "-1", why="not -1"),
        bad(
            "train",
            "patients.csv",
            "--label",
            "died",
            "--method",
            "i-admm",
            "--graph",
            "star",
            why="only one neighbour; take the method w-admm, or another graph",
        ),
        bad("train", "patients.csv", "--label", "died", "--site", "town", why="no column 'town' for --site"),
        bad("train", "patients.csv", "--label", "died", "--holdout", "1", why="below 1"),
        bad("train", "patients.csv", "--label", "died", "--out", "model.png", why="name it .json"),
        bad("train", "patients.csv", "--label", "died", "--out", "pipe.json", why="device or a pipe"),
        bad("train", "patients.csv", "--label", "age", "--loss", "logistic", why="take one of: squared, pseudo-huber"),
        bad("train", "semicolons.csv", "--label", "y", why="separated by commas"),
        bad("train", "homeless.csv", "--label", "y", "--site", "site", why="line 3 has no 'site'"),
        bad("train", "patients.csv", "--label", "died", "--site", "died", why="both the label and the site"),
        bad("train", "patients.csv", "--label", "died", "--out", "no/such/model.json", why="does not exist"),
        bad("train", "patients.csv", "--label", "died", "--loss", "hinge", why="loss must be one of logistic"),
        bad("train", "empty.csv", "--label", "died", why="empty.csv"),
        bad("predict", "patients.csv", "patients.csv", why="not a model file"),
        bad("predict", "missing.json", "patients.csv", why="no model file missing.json"),
        bad("schema", "patients.csv", "--label", "dead", why="no column 'dead'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tacit, patients, tmp_path, args, why):
    (tmp_path / "nan.csv").write_text("x,z,y\n1,2,0\nnan,3,1\n2,1,1\n")
    (tmp_path / "inf.csv").write_text("x,z,y\n1,2,0\ninf,3,1\n2,1,1\n")
    (tmp_path / "cut.csv").write_text("from,to\nalder,birch\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "semicolons.csv").write_text("x;y\n1;2\n")
    (tmp_path / "homeless.csv").write_text("x,site,y\n1,a,0\n2,,1\n3,b,1\n")
    os.mkfifo(tmp_path / "pipe.json")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    code, out, err = tacit(*args)
    assert code == 2
    assert out == ""
    errors = [line for line in err.splitlines() if not line.startswith(("warning:", "note:"))]
    assert len(errors) == 1, err
    assert errors[0].startswith("tacit: error: ")
    assert why in errors[0]
    assert sorted(path.name for path in tmp_path.rglob("*")) == before  # nothing written, nothing lost


def test_digits_are_those_of_python():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=5000) * 10.0 ** rng.integers(-8, 4, 5000)
    ties = (rng.integers(0, 10**8, 5000) + 0.5) / 1e6  # half a millionth, as nearly as a float can be
    exact = rng.integers(0, 10**6, 5000) / 2**7  # some with a 5 in the seventh place and nothing behind it
    edges = [0.0, -0.0, 5e-7, 2.5e-6, 999.9999994, 999.9999995, 999.9999996, 1e3, 1e300, np.inf, -np.inf, np.nan]
    values = np.concatenate([drawn, ties, -ties, exact, np.round(drawn, 6), edges])
    assert _digits(values) == [f"{value:.6f}" for value in values.tolist()]


def test_sites_that_differ_by_case_are_noted(tacit, patients, tmp_path):
    text = (tmp_path / patients).read_text().replace("birch", "Alder")
    (tmp_path / patients).write_text(text)
    _, _, err = tacit("schema", patients, "--label", "died", "--site", "hospital")
    assert "sites in column 'hospital': 'Alder' and 'alder' differ only by case or blanks" in err


def test_a_schema_that_is_there_is_not_overwritten(tacit, patients, tmp_path):
    draft = ("schema", patients, "--label", "died", "--out", "schema.toml")
    assert [tacit(*draft)[0] for _ in range(2)] == [0, 0]  # the same once more
    by_hand = (tmp_path / "schema.toml").read_text().replace("drafted = true\n", "")
    (tmp_path / "schema.toml").write_text(by_hand)
    code, _, err = tacit(*draft)
    assert (code, err.count("\n"), "name another file with --out" in err) == (2, 1, True)
    assert (tmp_path / "schema.toml").read_text() == by_hand


def test_only_their_owner_may_read_predictions(tacit, patients, tmp_path):
    assert tacit("train", patients, "--label", "died", "--site", "hospital", "--rounds", 5)[0] == 0
    assert tacit("predict", "model.json", patients)[0] == 0
    assert (tmp_path / "predictions.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_file_without_a_header_shows_no_record(tacit, patients, tmp_path, mark):
    """Its first line is a patient. A message may go to a log, or to somebody who helps."""
    assert tacit("schema", patients, "--label", "died", "--out", "schema.toml")[0] == 0
    rows = "Smith,71,North,North,08.08.2023,yes\nMiller,44,South,South,09.08.2023,no\n"
    (tmp_path / "twice.csv").write_text(rows.replace(",", mark))
    (tmp_path / "headless.csv").write_text(rows.replace("North,North", "North,A").replace(",", mark))
    for command in (
        ("schema", "--label", "died"),
        ("schema", "--label", "died", "--site", "hospital"),
        ("train", "--schema", "schema.toml", "--agents", 2),
        ("validate", "--schema", "schema.toml"),
    ):
        for file in ("headless.csv", "twice.csv"):
            code, out, err = tacit(command[0], file, *command[1:])
            said = " ".join((out + err).split())
            assert code in (1, 2)
            assert "separated by commas" in said if mark == ";" else "looks like a record: is it a header?" in said
            assert not any(cell in said for cell in ("Smith", "North", "08.08.2023"))
