"""Every method can be named wherever a method can be: train, plan, compare, federation new."""

import json

import numpy as np
import pytest
from patients import SCHEMA

from tacit.run.exact import ALGORITHMS
from tacit.run.model import Model
from tacit.run.recipes import RECIPES


@pytest.fixture
def schema(patients, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return "schema.toml"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_exact_training(tacit, patients, schema, name):
    """Each goes towards the optimum; DGD and a token without memory end near it."""
    args = ["train", patients, "--schema", schema, "--agents", 3, "--method", name, "--holdout", 0, "--json"]
    code, out, err = tacit(*args, "--rounds", 400, "--l2", 0.05)
    assert code == 0, err
    found = json.loads(out)
    best, start = found["pooled"]["loss"], np.log(2)
    assert found["together"]["loss"] < best + 0.1 * (start - best)
    assert not found["private"]


@pytest.mark.usefixtures("short_recipes")
@pytest.mark.parametrize("name", RECIPES)
def test_private_training_and_its_plan(tacit, patients, schema, name):
    recipe = RECIPES[name]
    who = ["--agents", 1 if recipe.traits.alone else 3, *(["--colluders", 1] if recipe.traits.totals else [])]
    budget = ["--epsilon", 2, "--delta", 1e-3]
    args = ["train", patients, "--schema", schema, "--method", name, "--holdout", 0, *who, *budget, "--json"]
    code, out, err = tacit(*args)
    assert code == 0, err
    found, model = json.loads(out), Model.load("model.json")
    assert (found["algorithm"], found["private"]) == (name, True)
    assert 1.9 < found["epsilon"] <= 2
    rows = ",".join(str(each["rows"]) for each in model.training["agents"])
    planned = ["plan", name, "--rows", rows, "--dimension", len(model.weights), *budget, "--json"]
    code, out, err = tacit(*planned, *(who if recipe.traits.alone else who[2:]))
    assert code == 0, err
    assert json.loads(out)["epsilon"] == pytest.approx(found["epsilon"], rel=1e-3)


@pytest.mark.usefixtures("short_recipes")
def test_a_comparison_of_chosen_methods(tacit, patients, schema):
    chosen = ["ra-admm", "rcd", "dp-accadmm", "shared-dp-accadmm"]
    args = ["compare", patients, "--schema", schema, "--agents", 3, "--seeds", 1, "--epsilon", 2, "--json"]
    code, out, err = tacit(*args, "--delta", 1e-3, *(word for name in chosen for word in ("--method", name)))
    assert code == 0, err
    names = {each["name"] for each in json.loads(out)["methods"]}
    assert names == {"ra-admm", "rcd", "dp-accadmm", "shared-dp-accadmm:1", *ALTERNATIVES}
    code, _, err = tacit(*args, "--method", "nonsense")
    assert (code, err.count("\n")) == (2, 1)


ALTERNATIVES = ("early-stopping", "alone", "central", "no-privacy", "majority")

GROWING = 'penalty={kind="geometric",first=1,ratio=1.04}'


def test_plans_with_the_papers_own_settings(tacit):
    code, out, _ = tacit("plan", "mr-admm", "--set", "alpha=1", "--set", GROWING, "--set", "gamma=0.5", "--json")
    found = json.loads(out)
    assert (code, found["algorithm"]) == (0, "RecycledADMM")
    constant = json.loads(tacit("plan", "mr-admm", "--set", "alpha=1", "--penalty", 1, "--json")[1])
    assert constant["agents"][0]["paper"] > found["agents"][0]["paper"]  # a larger penalty leaves less to the curvature
    for wrong in (
        ["plan", "dvp", "--penalty", 1, "--epsilon", 1, "--set", "growth=2"],
        ["plan", "m-admm", "--penalty", 1, "--epsilon", 1, "--set", "gamma=2"],
        ["plan", "pi-admm", "--set", "alpha=1"],
        ["plan", "mr-admm", "--epsilon", 1, "--rounds", 2],
    ):
        code, _, err = tacit(*wrong)
        assert (code, err.count("\n")) == (2, 1), err


def test_what_a_coalition_learns(tacit):
    code, out, _ = tacit("coalition", "sums", "--agents", 6, "--members", "0,2,4", "--json")
    assert (code, json.loads(out)) == (0, {"members": [0, 2, 4], "revealed": [1, 3, 5]})
    assert tacit("coalition", "sums", "--agents", 6, "--members", "0,2", "--json")[1].endswith('"revealed": []}\n')
    few = ["--agents", 4, "--rows", 500, "--dimension", 3, "--delta", 1e-4, "--json"]
    code, out, _ = tacit("coalition", "token-gd", *few)
    table = np.array(json.loads(out)["epsilon"])
    # The next on the cycle learns all that the plan charges, others less.
    assert (table[0, 1], table[0, 0]) == (pytest.approx(1.0, rel=1e-3), 0.0)
    assert 1 > table[0, 2] > table[0, 3] > 0
    together = json.loads(tacit("coalition", "token-gd", *few, "--members", "2,3")[1])["epsilon"]
    assert set(together) == {"0", "1"}
    assert together["0"] > table[0, 2] * (1 - 1e-6)
    for wrong in (["sums"], ["nonsense"], ["sums", "--members", "9"], ["sums", "--members", "a"]):
        code, _, err = tacit("coalition", *wrong)
        assert (code, err.count("\n")) == (2, 1), err
