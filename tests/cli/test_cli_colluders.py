"""`--colluders` and `--dropouts`: shared noise, as a user of train, plan and compare sees it."""

import json

import pytest
from patients import SCHEMA

from tacit.core.graph import Graph
from tacit.privacy.accounting import rounded_up
from tacit.run.model import Model


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "public.toml").write_text(SCHEMA)
    return "public.toml"


def training(patients, schema, *more):
    return "train", patients, "--schema", schema, "--agents", 5, "--epsilon", 2, "--delta", 1e-3, *more


def test_a_model_says_against_whom_it_is_private(tacit, patients, schema, tmp_path):
    code, out, err = tacit(*training(patients, schema, "--colluders", 2))
    assert code == 0, err
    privacy = Model.load(tmp_path / "model.json").privacy
    assert privacy["colluders"] == 2
    assert privacy["dropouts"] == 0
    sizes = [each["colluders"] for each in privacy["coalitions"]]
    costs = [each["epsilon"] for each in privacy["coalitions"]]
    assert sizes == [0, 1, 2, 3, 4]
    assert costs == sorted(costs)
    assert 1.99 < privacy["epsilon"] <= costs[2] == 2
    says = f"against any 2 of the 4 other members together; against 4: ({costs[4]:g}, 0.001)"
    assert privacy["statement"].startswith("(2, 0.001)-differentially private for every record")
    assert privacy["statement"].endswith(says)
    assert says in out
    assert "shared-descent" in out


def test_the_json_of_a_training_has_the_whole_curve(tacit, patients, schema):
    code, out, err = tacit(*training(patients, schema, "--colluders", 1, "--dropouts", 1, "--json"))
    assert code == 0, err
    found = json.loads(out)
    assert (found["algorithm"], found["colluders"], found["dropouts"]) == ("shared-descent", 1, 1)
    assert [each["colluders"] for each in found["coalitions"]] == [0, 1, 2, 3]  # the fifth is away
    assert found["coalitions"][1]["epsilon"] == rounded_up(found["epsilon"])
    assert 1.9 < found["epsilon"] <= 2
    assert "while at most 1 is away; against 3" in found["statement"]


def test_without_the_option_noise_is_local(tacit, patients, schema):
    code, out, err = tacit(*training(patients, schema, "--json"))
    assert code == 0, err
    found = json.loads(out)
    assert found["colluders"] == 4
    assert {each["epsilon"] for each in found["coalitions"]} == {2}
    assert found["statement"].endswith("against all other members together")


def test_a_plan_is_that_of_the_training(tacit, patients, schema, tmp_path):
    assert tacit(*training(patients, schema, "--colluders", 2, "--holdout", 0))[0] == 0
    model = Model.load(tmp_path / "model.json")
    rows = ",".join(str(agent["rows"]) for agent in model.training["agents"])
    args = ("plan", "--rows", rows, "--epsilon", 2, "--delta", 1e-3, "--dimension", 4, "--colluders", 2)
    code, out, err = tacit(*args, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["name"] == "shared-descent"
    assert found["coalitions"] == model.privacy["coalitions"]
    code, out, err = tacit(*args)
    assert code == 0, err
    assert "against any 2 of the 4 other members together; against 4" in out


def test_a_sparse_graph_says_what_holds_if_it_is_cut(tacit):
    """Four random neighbours each: four members that collude can cut one off, and see its noise alone."""
    code, out, err = tacit("plan", "--rows", 800, "--agents", 30, "--epsilon", 1, "--colluders", 3, "--json")
    assert code == 0, err
    costs = [each["epsilon"] for each in json.loads(out)["coalitions"]]
    assert costs[3] == 1
    assert len(costs) == 30
    assert costs[2] < 1 < costs[4] == costs[29]


def test_a_plan_takes_the_method_of_the_training(tacit):
    code, out, err = tacit("plan", "--rows", "8000", "--epsilon", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["name"] == "mr-admm"
    assert json.loads(out)["colluders"] == 4
    code, out, err = tacit("plan", "--rows", "800", "--agents", 12, "--epsilon", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["name"] == "pvp"


def test_compare_shows_shared_noise_and_recommends_local_noise(tacit, patients, schema, short_recipes):
    args = ("compare", patients, "--schema", schema, "--agents", 5, "--epsilon", 2, "--delta", 1e-3)
    code, out, err = tacit(*args, "--seeds", 1, "--json")
    assert code == 0, err
    found = json.loads(out)
    colluders = {method["name"]: method["colluders"] for method in found["methods"]}
    assert colluders["shared-descent:1"] == 1
    assert colluders["shared-descent:2"] == 2
    assert colluders["mr-admm"] == colluders["alone"] == 4
    assert colluders["no-privacy"] is colluders["majority"] is colluders["central"] is None
    assert colluders[found["recommended"]] == 4
    code, out, err = tacit(*args, "--seeds", 1, "--colluders", 3)
    assert code == 0, err
    assert "shared-descent:3" in out
    assert "shared-descent:1" not in out


def test_a_comparison_leaves_out_what_a_graph_does_not_carry(tacit, patients, schema, short_recipes):
    args = ("compare", patients, "--schema", schema, "--agents", 5, "--epsilon", 2, "--delta", 1e-3)
    code, out, err = tacit(*args, "--seeds", 1, "--graph", "ring", "--json")
    assert code == 0, err
    names = {method["name"] for method in json.loads(out)["methods"]}
    assert "shared-descent:1" in names
    assert "shared-descent:2" not in names
    code, out, err = tacit(*args, "--seeds", 1, "--graph", "ring", "--colluders", 2)
    assert (code, out) == (2, "")
    assert "2 members can cut this graph in two" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--colluders", 5], "of 5 members, 5 colluders and 0 dropouts leave none"),
        (["--colluders", 4, "--dropouts", 1], "of 5 members, 4 colluders and 1 dropouts leave none"),
        (["--colluders", -1], "colluders must be a whole number, 0 or more, not -1"),
        (["--colluders", 1, "--dropouts", -1], "dropouts must be a whole number, 0 or more, not -1"),
        (["--dropouts", 1], "give colluders, too"),
        (["--colluders", 1, "--method", "mr-admm"], "leave out colluders and dropouts, or take shared-descent"),
        (["--method", "shared-descent"], "say how many members may collude (colluders = 1)"),
        (
            ["--colluders", 1, "--robust", "clipping"],
            "robust listening compares rows, and members that share",
        ),
        (["--colluders", 1, "--hostile", "flip:1"], "--hostile is about single rows"),
        (["--colluders", 2, "--graph", "ring"], "2 members can cut this graph in two"),
        (["--colluders", 1, "--graph", "star"], "1 members can cut this graph in two"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(tacit, patients, schema, options, says, tmp_path):
    code, out, err = tacit(*training(patients, schema, *options))
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("tacit: error:")
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["train", "adult", "--colluders", 1], "give epsilon, too"),
        (["plan", "--epsilon", 1, "--colluders", 5], "of 5 members, 5 colluders and 0 dropouts leave none"),
        (["plan", "mr-admm", "--epsilon", 1, "--colluders", 1], "or take shared-descent"),
        (["plan", "shared-descent", "--epsilon", 1], "say how many members may collude"),
        (["plan", "--epsilon", 1, "--colluders", 2, "--graph", "ring"], "2 members can cut this graph in two"),
        (["plan", "dvp", "--set", "alpha=1", "--colluders", 1], "give epsilon, too"),
        (["compare", "--colluders", 5], "of 5 members, 5 colluders and 0 dropouts leave none"),
        (["compare", "--colluders", 1, "--hostile", "flip:1"], "--hostile is about single rows"),
    ],
)
def test_other_commands_refuse_in_one_line(tacit, args, says):
    code, out, err = tacit(*args)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_the_default_graph_of_a_training(tacit, patients, schema, tmp_path):
    """Five agents with local noise talk on a ring, and with shared noise all with all."""
    for options, graph in (([], Graph.ring(5)), (["--colluders", 1], Graph.complete(5))):
        out = f"{len(graph.edges)}-edges.json"
        assert tacit(*training(patients, schema, *options), "--out", out)[0] == 0
        edges = Model.load(tmp_path / out).training["edges"]
        assert [tuple(edge) for edge in edges] == list(graph.edges)
