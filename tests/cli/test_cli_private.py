"""Planning, comparing and training under a budget, as a user sees them."""

import csv
import json
import math
import re

import numpy as np
import pytest
from patients import SCHEMA

from tacit.core.graph import Graph
from tacit.lab.theory import samples
from tacit.run.model import Model
from tacit.run.recipes import RECIPES


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "public.toml").write_text(SCHEMA)
    return "public.toml"


@pytest.mark.parametrize("method", ["dvp", "pvp", "m-admm", "r-admm"])
@pytest.mark.parametrize("law", ["gaussian", "pure"])
def test_a_plan_keeps_to_its_total(tacit, method, law):
    run = ["--rows", "4000,8000,6000", "--graph", "path", "--rounds", 6, "--penalty", 0.5]
    total = ["--epsilon", 0.8, "--delta", 1e-6, "--law", law]
    code, out, err = tacit("plan", method, *run, *total, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert 0.79 < found["epsilon"] <= 0.8
    assert [agent["rows"] for agent in found["agents"]] == [4000, 8000, 6000]
    kinds = {event["event"] for agent in found["agents"] for event in agent["round"]} - {"Free"}
    assert kinds == {{"pure": "Pure"}.get(law, "Gaussian" if method == "pvp" else "ObjectiveGaussian")}


def test_the_plan_of_a_private_training(tacit, patients, schema, tmp_path):
    """`tacit plan --epsilon` is what `tacit train --epsilon` does."""
    code, _, err = tacit("train", patients, "--schema", schema, "--site", "hospital", "--epsilon", 3, "--holdout", 0)
    assert code == 0, err
    model = Model.load(tmp_path / "model.json")
    rows = ",".join(str(agent["rows"]) for agent in model.training["agents"])
    code, out, err = tacit("plan", "--rows", rows, "--epsilon", 3, "--dimension", 4, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["budget"]["multiplier"] == pytest.approx(model.training["parameters"]["budget"]["multiplier"])
    assert found["epsilon"] == pytest.approx(model.privacy["epsilon"])


def test_a_plan_shows_the_papers_bound_beside_the_totals(tacit):
    args = ("plan", "r-admm", "--rows", 8000, "--agents", 3, "--set", "alpha=1", "--scale", 1750, "--l2", 0.044)
    code, out, _ = tacit(*args, "--rounds", 50, "--penalty", 1, "--json")
    assert code == 0
    agent = json.loads(out)["agents"][0]
    assert agent["paper"] == pytest.approx(25 * 2 * 1750 / 8000 * (1.4 * 0.25 / (0.044 + 4) + 1))  # (32)
    assert agent["total"]["plain_sum"] < agent["paper"]
    code, out, _ = tacit(*args)
    assert code == 0
    assert "the network's total: epsilon" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["dvp"], "dvp is private: give epsilon"),
        (["dvp", "--epsilon", 1e-9, "--set", "alpha=1"], "the run costs epsilon = "),
        (["magic", "--epsilon", 1], "method is one of dvp"),
        (["dvp", "--epsilon", 0], "epsilon must be a positive number"),
        (["dvp", "--epsilon", 1, "--delta", 0], "delta must lie between 0 and 1"),
        (["dvp", "--epsilon", 1, "--delta", 1], "delta must lie between 0 and 1"),
        (["dvp", "--epsilon", 1, "--rows", "many"], "--rows is a number"),
        (["dvp", "--epsilon", 1, "--rows", "5,0"], "a number from 1"),
        (["dvp", "--epsilon", 1, "--rows", "5,6", "--agents", 3], "leave --agents out"),
        (["dvp", "--epsilon", 1, "--penalty", 1, "--rounds", 0], "rounds must be a whole number, 1 or more"),
        (["dvp", "--epsilon", 1, "--rounds", 9], "rounds is for a run with settings of your own"),
        (["dvp", "--epsilon", 1, "--penalty", 1, "--loss", "squared"], "no bound on its slope"),
        (["dvp", "--epsilon", 1, "--penalty", 1, "--law", "cauchy"], "must be one of gaussian, pure"),
        (["one-shot", "--epsilon", 1, "--penalty", 1], "one-shot has no 'step'"),
        (["dp-admm", "--set", "alpha=1"], "dp-admm has no 'alpha'"),
        (["pi-admm", "--epsilon", 1, "--graph", "path"], "no Hamiltonian cycle: agent 0 has only one neighbour"),
        (["dvp", "--set", "alpha=-1"], "alpha must be positive"),
        (["dvp", "--set", "alpha"], "a parameter is NAME=VALUE"),
        (["dvp", "--set", "alpha=one"], "a parameter is NAME=VALUE"),
        (["--epsilon", 1, "--set", "gamma=1"], "or name the method that it is about"),
        (["dvp", "--epsilon", 1, "--penalty", 1e-9, "--l2", 0], "what is paid apart from it"),
    ],
)
def test_bad_plans_are_one_line(tacit, args, says):
    code, out, err = tacit("plan", *args)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_compare(tacit, patients, schema, tmp_path, short_recipes):
    args = ("compare", patients, "--schema", schema, "--agents", 3, "--epsilon", 2, "--delta", 1e-3)
    code, out, err = tacit(*args, "--seeds", 2, "--out", "found", "--json")
    assert code == 0, err
    found = json.loads(out)
    methods = {method["name"]: method for method in found["methods"]}
    assert {"dvp", "pvp", "m-admm", "r-admm", "mr-admm", "one-shot", "alone", "gradient-descent"} <= methods.keys()
    assert {"pi-admm", "early-stopping", "central", "no-privacy", "majority"} <= methods.keys()
    for name, method in methods.items():
        assert 0 <= method["error"] <= 1
        assert math.isfinite(method["loss"])
        assert method["private"] == (name not in ("no-privacy", "majority"))
        assert method["decentralised"] == (name not in ("central", "no-privacy", "majority"))
        if method["private"]:
            assert 1.9 < method["epsilon"] <= 2
            assert method["delta"] == 1e-3
    best = methods[found["recommended"]]
    assert best["private"]
    assert best["decentralised"]
    together = [m for m in methods.values() if m["colluders"] == 2 and m["messages"]]  # against all others
    assert best["error"] <= min(m["error"] for m in together) + 0.002
    assert (tmp_path / "found" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "found" / "comparison.csv").open() as file:
        assert len(list(csv.reader(file))) == 1 + 2 * len(methods)
    code, out, _ = tacit(*args, "--seeds", 1)
    assert code == 0
    assert "Recommended: " in out or "No private method does better" in out
    assert "privacy: none of this table" in out
    code, out, err = tacit(
        *("compare", patients, "--schema", schema, "--site", "hospital", "--seeds", 1, "--json"),
        *("--report", "report.html"),
    )
    assert code == 0, err
    shown = json.loads(
        re.search(r'id="data">(.*?)</script>', (tmp_path / "report.html").read_text(encoding="utf-8"))[1]
    )
    assert {key: shown[key] for key in json.loads(out)} == json.loads(out)
    found = [m for m in json.loads(out)["methods"] if not m["name"].startswith("shared")]
    assert {method["messages"] % 6 for method in found} == {0}  # three hospitals on a ring
    code, out, err = tacit(*args, "--seeds", 1, "--graph", "path", "--json")
    assert code == 0, err
    assert {m["name"] for m in json.loads(out)["methods"]} == methods.keys() - {
        "pi-admm",  # a path has no cycle for a token
        "shared-descent:1",  # and whoever is in its middle cuts it in two
    }


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--epsilon", -1], "epsilon must be a positive number"),
        (["--delta", 2], "delta must lie between 0 and 1"),
        (["--seeds", 0], "--seeds must be 1 or more"),
        (["--agents", 0], "agent"),
        (["--site", "hospital", "--agents", 3], "leave out --agents"),
        (["--graph", "cube"], "graph must be one of"),
        (["nothing.csv", "--label", "x"], "nothing.csv"),
        (["--data", "nothing.csv", "--label", "x"], "nothing.csv"),  # the old spelling
    ],
)
def test_bad_comparisons_are_one_line(tacit, patients, schema, args, says):
    given = [] if "nothing.csv" in args else [patients, "--schema", schema]
    code, out, err = tacit("compare", *given, *args)
    assert (code, out) == (2, "")
    assert says in err


def test_private_training(tacit, patients, schema, tmp_path):
    args = ("train", patients, "--schema", schema, "--site", "hospital", "--epsilon", 3, "--delta", 1e-3)
    code, out, err = tacit(*args, "--out", "model.json")
    assert code == 0, err
    assert "differentially private for every record" in out
    model = Model.load(tmp_path / "model.json")
    assert model.privacy["private"] is True
    assert 2.9 < model.privacy["epsilon"] <= 3
    assert model.training["rounds"] > 1
    code, out, _ = tacit(*args, "--method", "one-shot", "--json", "--out", "one.json")
    assert code == 0
    found = json.loads(out)
    assert found["private"] is True
    assert found["epsilon"] <= 3
    again = Model.load(tmp_path / "one.json")
    tacit(*args, "--method", "one-shot", "--out", "other.json")
    assert (again.weights != Model.load(tmp_path / "other.json").weights).all()  # fresh noise, not the seed's


def test_the_sites_of_a_schema(tacit, patients, tmp_path):
    """`tacit schema --site` drafts them; agents are those of the list, in its order."""
    code, _, err = tacit("schema", patients, "--label", "died", "--site", "hospital", "--out", "schema.toml")
    assert code == 0, err
    assert "sites in column 'hospital': alder, birch, cedar; list all that take part" in err
    text = (tmp_path / "schema.toml").read_text()
    assert '[sites]\ncolumn = "hospital"\nnames = ["alder", "birch", "cedar"]\n' in text
    public = text.replace("drafted = true", "").replace('"drop"', '"zero"').replace('"alder", "birch", "cedar"', "{}")
    (tmp_path / "schema.toml").write_text(public.replace("{}", '"cedar", "alder", "birch"'))
    code, _, err = tacit("train", patients, "--schema", "schema.toml", "--site", "hospital", "--epsilon", 3)
    assert code == 0, err
    model = Model.load(tmp_path / "model.json")
    assert [agent["name"] for agent in model.training["agents"]] == ["cedar", "alder", "birch"]
    (tmp_path / "new.csv").write_text("age,ward\n50,surgery\n")  # a model is used without knowing the site
    assert tacit("predict", "model.json", "new.csv")[0] == 0


def test_private_training_on_a_token(tacit, patients, schema, tmp_path):
    args = ("train", patients, "--schema", schema, "--site", "hospital", "--epsilon", 3, "--delta", 1e-3)
    code, out, err = tacit(*args, "--method", "pi-admm")
    assert code == 0, err
    assert "not above L" not in err  # that would reveal something about the records
    model = Model.load(tmp_path / "model.json")
    assert model.privacy["private"] is True
    assert 2.9 < model.privacy["epsilon"] <= 3
    assert model.training["algorithm"] == "IncrementalADMM"
    averaging = Graph.ring(3).mixing_rounds()  # everybody at once, in the end
    assert model.training["rounds"] == RECIPES["pi-admm"].solves + averaging  # in each of them every agent speaks once
    (tmp_path / "model.json").unlink()
    code, out, err = tacit(*args, "--method", "pi-admm", "--graph", "star")
    assert (code, out) == (2, "")
    assert "no Hamiltonian cycle" in err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--label", "died"], "give --schema"),
        (["--schema", "public.toml", "--penalty", 1], "leave out penalty"),
        (["--schema", "public.toml", "--loss", "logistic"], "leave out loss"),
        (["--schema", "public.toml", "--method", "admm"], "method is one of dvp"),
        (["--schema", "public.toml", "--delta", 0], "delta must lie between 0 and 1"),
        (["--schema", "draft.toml"], "drafted = true"),
        (["--schema", "dropping.toml"], 'missing = "drop" would let the number of rows'),
        (["--schema", "long.toml"], "row_norm = 2; write 1.0"),
        (["--schema", "public.toml", "--skew", 1], "--skew divides the rows by their labels"),
        (["--schema", "public.toml", "--site", "died"], "both the label and the site"),
        (["--schema", "two.toml"], "one of the schema's sites; patients.csv line 24, column 'hospital' holds 'cedar'"),
        (["--schema", "four.toml"], "every agent needs a row; 'dogwood' has none"),
        (["--schema", "four.toml", "--site", "ward"], "contradicts the schema, whose sites are in column 'hospital'"),
    ],
)
def test_private_training_refuses(tacit, patients, schema, tmp_path, args, says):
    tacit("schema", patients, "--label", "died", "--site", "hospital", "--out", "draft.toml")
    (tmp_path / "dropping.toml").write_text(SCHEMA.replace("row_norm", 'missing = "drop"\nrow_norm'))
    (tmp_path / "long.toml").write_text(SCHEMA.replace("row_norm = 1.0", "row_norm = 2.0"))
    for name, sites in {"two": ["alder", "birch"], "four": ["dogwood", "alder", "birch", "cedar"]}.items():
        (tmp_path / f"{name}.toml").write_text(f'{SCHEMA}\n[sites]\ncolumn = "hospital"\nnames = {sites}\n')
    code, out, err = tacit("train", patients, "--site", "hospital", "--epsilon", 1, *args)
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "model.json").exists()


GROWING = 'penalty={kind="geometric",first=1,ratio=1.1}'


def test_a_plan_with_theory(tacit, tmp_path):
    code, out, _ = tacit(
        "plan", "r-admm", "--set", "alpha=100", "--scale", 1750, "--theory", "--graph", "complete", "--json"
    )
    assert code == 0
    said = json.loads(out)["theory"]
    assert any("smallest gamma that meets (i) and (ii)" in line for line in said)
    assert sum("rows times an unknown constant" in line for line in said) == 2
    (tmp_path / "measured.csv").write_text("alpha,loss\n0.01,0.56\n0.05,0.45\n0.1,0.42\n0.5,0.4\n1,0.4\n")
    code, out, _ = tacit(
        "plan", "pvp", "--epsilon", 1, "--penalty", 1, "--theory", "--design", "measured.csv", "--json"
    )
    assert code == 0
    said = json.loads(out)["theory"]
    assert "minimises L_acc - U" in said[-1]
    assert any("set it, as in alpha=1" in line for line in said)  # Theorem 12 is about the paper's noise
    assert not any("Corollary 15" in line for line in said)  # it is about a final step, which this plan has not
    (tmp_path / "rising.csv").write_text("alpha,loss\n0.1,0.4\n0.2,0.5\n0.3,0.6\n")
    code, out, err = tacit("plan", "pvp", "--epsilon", 1, "--design", "rising.csv")
    assert (code, out) == (2, "")
    assert "do not fall" in err
    code, out, err = tacit("plan", "r-admm", "--epsilon", 1, "--design", "measured.csv")
    assert (code, out) == (2, "")
    assert "--design is for dvp and pvp" in err


def test_a_plan_with_theory_is_about_its_own_method(tacit):
    plan = ("plan", "mr-admm", "--set", "alpha=100", "--scale", 1750, "--set", "gamma=0.25", "--set", GROWING)
    code, out, _ = tacit(*plan, "--theory", "--graph", "complete", "--json")
    assert code == 0
    said = json.loads(out)["theory"]
    assert [line.split(" (")[0] for line in said] == [
        "Theorem IV.1",
        "Theorem VI.1",
        "Theorem VI.2",
        "Lemmas E.1 and E.3",
    ]
    assert "with gamma = 0.25," in said[0]
    code, out, _ = tacit(
        "plan", "dvp", "--set", "alpha=100", "--scale", 1750, "--theory", "--graph", "complete", "--json"
    )
    assert code == 0
    rows = "29,957 rows times an unknown constant"  # 100 ln(20)/0.01
    assert rows in said[1]
    assert rows in json.loads(out)["theory"][0]
    code, out, _ = tacit("plan", "m-admm", "--set", "alpha=1", "--theory", "--json")
    assert json.loads(out)["theory"] == ["no theorem of the papers is about PenaltyPerturbedADMM with these settings"]


def test_the_design_asks_the_measured_points(tacit, tmp_path):
    """The fitted c6 is above 5: the curve alone would say that no alpha is accurate enough, beside two that are."""
    (tmp_path / "slow.csv").write_text("alpha,loss\n0.01,238\n0.05,40.1\n0.1,18\n0.3,4.97\n0.5,2.76\n1,1.29\n")
    plan = ("plan", "pvp", "--set", "alpha=1", "--design", "slow.csv", "--json")
    code, out, _ = tacit(*plan, "--worst-loss", 3)
    assert code == 0
    said = json.loads(out)["theory"][-1]
    assert "misses the measured losses by up to a factor of 4." in said
    assert "alpha of 0.4783 and more reaches c3 = 3" in said
    _, out, _ = tacit(*plan, "--worst-loss", 3, "--floor", 1.2)
    floored = json.loads(out)["theory"][-1]
    assert "alpha) + 1.2, which" in floored
    code, out, err = tacit(*plan, "--worst-loss", 1)
    assert (code, out) == (2, "")
    assert "no measured alpha is accurate enough: the least loss is 1.29, and c3 is 1" in err


def test_the_design_takes_the_users_worth_of_privacy(tacit, tmp_path):
    """omega_1 to omega_4 of (28), against a search over the alphas that the points allow."""
    measured = np.array([0.01, 0.05, 0.1, 0.2, 1.0])
    losses = 0.2 * np.exp(-25 * measured) + 0.4
    table = "\n".join(f"{a:.17g},{loss:.17g}" for a, loss in zip(measured, losses, strict=True))
    (tmp_path / "curve.csv").write_text(f"alpha,loss\n{table}\n")
    alphas = np.linspace(np.interp(-0.45, -losses, measured), 1, 200_001)
    plan = ("plan", "pvp", "--set", "alpha=1", "--design", "curve.csv", "--worst-loss", 0.45, "--json")
    found = []
    for weights in ("0.02,6,9,1", "0.01,6,9,1", "0.02,60,9,1", "0.02,6,1,30"):
        code, out, err = tacit(*plan, "--utility", weights)
        assert code == 0, err
        w1, w2, w3, w4 = map(float, weights.split(","))
        J = 0.2 * np.exp(-25 * alphas) + 0.4 - w1 * np.log(w2 / (w3 * alphas + w4 * alphas**2))
        alpha, least = re.search(r"alpha = (\S+) \(.+\) minimises L_acc - U: ([\d.]+),", out).groups()
        assert float(least) == pytest.approx(J.min(), rel=1e-5)
        assert float(alpha) == pytest.approx(alphas[J.argmin()], rel=1e-3)
        found.append((alpha, least))
    assert len(set(found)) == len(found)
    _, out, _ = tacit(*plan)
    assert f"alpha = {found[0][0]} " in out  # the paper's weights, if none are given
    for wrong, why in (("0.02,6,9", "four numbers"), ("0.02,6,9,x", "four numbers"), ("0.02,6,9,0", "w4 must be")):
        code, out, err = tacit(*plan, "--utility", wrong)
        assert (code, out) == (2, "")
        assert why in err


def test_the_theorems_keep_the_probability_that_is_asked_for(tacit):
    """Theorem 13 holds with 1 - 3 delta, Theorem 12 with 1 - 2 delta: delta is a third, or half, of --failure."""
    aim = ("--dimension", 10, "--theory", "--failure", 0.15)
    code, out, _ = tacit("plan", "pvp", "--set", "alpha=1", "--graph", "complete", *aim, "--json")
    assert code == 0
    rows = {line.split(" (")[0]: line for line in json.loads(out)["theory"]}
    rest = {"f_ref": 10.0, "alpha_acc": 0.1, "C": 1.0, "alpha": 1.0, "d": 10, "eta": 1.0, "degree": 4}
    for name, expected in (
        ("Theorem 12", samples.pvp_hidden(**rest, delta=0.075)),
        ("Theorem 13 and Corollary 14", samples.pvp(**rest, delta=0.05)),
    ):
        assert f"{expected:,.0f} rows times" in rows[name]


def test_a_plan_shows_no_bound_where_the_papers_condition_fails(tacit):
    """(32) needs 2 c1 < B/C (rho/N + 2 eta V): 0.5 < 0.1 is false."""
    settings = ("plan", "r-admm", "--set", "alpha=1", "--rows", 100, "--agents", 3, "--scale", 100, "--l2", 0.0001)
    code, out, _ = tacit(*settings, "--penalty", 0.025, "--json")
    assert code == 0
    assert [agent["paper"] for agent in json.loads(out)["agents"]] == [None] * 3
    code, out, _ = tacit(*settings, "--penalty", 0.2, "--json")
    assert all(agent["paper"] > 0 for agent in json.loads(out)["agents"])


def test_the_old_spelling_of_the_file_warns(tacit, patients, schema):
    args = ["--schema", schema, "--agents", 3, "--epsilon", 2, "--delta", 1e-3, "--seeds", 2, "--method", "one-shot"]
    code, out, err = tacit("compare", patients, *args, "--json")
    assert (code, "--data" in err) == (0, False)
    code, same, err = tacit("compare", "--data", patients, *args, "--json")
    assert (code, same) == (0, out)
    assert "warning: --data is now the argument: tacit compare FILE" in err
    code, _, err = tacit("compare", patients, "--data", patients, *args)
    assert (code, "give the file once" in err) == (2, True)
    found = {each["name"]: each["difference"] for each in json.loads(out)["methods"]}
    assert found["one-shot"] == {"mean": 0, "low": 0, "high": 0}  # it is recommended
    assert found["majority"]["low"] <= found["majority"]["mean"] <= found["majority"]["high"]
