"""Rare events, several classes and numbers, with and without privacy, as a user sees them."""

import csv
import json

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score, root_mean_squared_error

from tacit.core.losses import HuberHinge, PseudoHuber
from tacit.core.multinomial import Multinomial
from tacit.run.model import Model

ROWS = 1500
HEAD = """version = 1
intercept = true
row_norm = 1.0
missing = "zero"

[label]
column = {label}

[[columns]]
name = "age"
kind = "number"
bounds = [20, 90]

[[columns]]
name = "dose"
kind = "number"
bounds = [0, 1]
"""
LABELS = {
    "rare": '"ill"\npositive = ["yes"]\nnegative = ["no"]\npositive_share = 0.06',
    "several": '"ward"\nkind = "multiclass"\nclasses = ["eyes", "medicine", "surgery"]',
    "number": '"days"\nkind = "number"\nbounds = [0, 30]',
}


@pytest.fixture
def records(tmp_path):
    """1,500 made-up patients: 6% are ill, of three wards, and stay some days."""
    rng = np.random.default_rng(0)
    age, dose = rng.integers(20, 90, ROWS), rng.random(ROWS)
    score = (age - 55) / 20 + 3 * (dose - 0.5) + 0.3 * rng.normal(size=ROWS)
    ill = np.where(score > np.quantile(score, 0.94), "yes", "no")
    ward = np.select([score < -1, score < 1], ["eyes", "medicine"], "surgery")
    days = np.clip(15 + 5 * score + rng.normal(size=ROWS), 0, 30)
    with (tmp_path / "records.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "ill", "ward", "days"])
        writer.writerows(zip(age, dose.round(4), ill, ward, days.round(3), strict=True))
    for name, label in LABELS.items():
        (tmp_path / f"{name}.toml").write_text(HEAD.format(label=label))
    return "records.csv"


def column(path, name):
    with path.open() as file:
        return [row[name] for row in csv.DictReader(file)]


def test_a_rare_event(tacit, records, tmp_path):
    """Privately: the labels may all be "no", but records are ranked, and the result says so in plain words."""
    code, out, err = tacit("train", records, "--schema", "rare.toml", "--agents", 3, "--epsilon", 3, "--delta", 1e-5)
    assert code == 0, err
    assert "AUC" in out
    assert "not covered by the guarantee" in out
    model = Model.load(tmp_path / "model.json")
    assert model.loss == HuberHinge(1.0).centred(0.06)
    assert model.privacy["private"] is True

    code, out, err = tacit("predict", "model.json", records, "--top", 90, "--json")
    assert code == 0, err
    truth = column(tmp_path / records, "ill")
    scores = np.array(column(tmp_path / "predictions.csv", "score"), float)
    found = json.loads(out)
    assert found["auc"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-4)
    assert found["auc"] > 0.8
    assert found["positives_predicted"] == 90
    chosen = np.array(column(tmp_path / "predictions.csv", "ill")) == "yes"
    assert scores[chosen].min() >= scores[~chosen].max()

    assert tacit("predict", "model.json", records, "--threshold", 0.1)[0] == 0
    probability = np.array(column(tmp_path / "predictions.csv", "probability"), float)
    chosen = np.array(column(tmp_path / "predictions.csv", "ill")) == "yes"
    assert (chosen == (probability > 0.1)).mean() > 0.999  # the file has six digits
    assert 0.01 < probability.mean() < 0.15  # it starts from 6%


def test_a_model_that_answers_no_to_everybody_says_so(tacit, records):
    code, out, err = tacit("train", records, "--schema", "rare.toml", "--agents", 3, "--l2", 10)  # exact, hardly learns
    assert code == 0, err
    assert "answers 'no' to every record" in out


def test_a_share_by_a_noisy_count(tacit, records, tmp_path):
    text = (tmp_path / "rare.toml").read_text().replace("positive_share = 0.06", "")
    (tmp_path / "unknown.toml").write_text(text)
    budget = ["--epsilon", 3, "--delta", 1e-5, "--positive-share", "noisy", "--json"]
    code, out, err = tacit("train", records, "--schema", "unknown.toml", "--agents", 3, *budget)
    assert code == 0, err
    found, model = json.loads(out), Model.load(tmp_path / "model.json")
    assert 0 < found["positive_share"] < 0.2
    assert model.schema.label.positive_share == found["positive_share"]
    assert 2.9 < found["epsilon"] <= 3


def test_class_weights(tacit, records, tmp_path):
    weights = ["--class-weight", "balanced", "--json"]
    code, out, err = tacit("train", records, "--schema", "rare.toml", "--agents", 3, *weights)
    assert code == 0, err
    assert json.loads(out)["positives_predicted"] > 10  # of 150 held out, 9 are ill
    assert Model.load(tmp_path / "model.json").loss.weights == pytest.approx((0.5 / 0.94, 0.5 / 0.06))


@pytest.mark.parametrize("budget", [[], ["--epsilon", 5]], ids=["exact", "private"])
def test_several_classes(tacit, records, tmp_path, budget):
    code, out, err = tacit("train", records, "--schema", "several.toml", "--agents", 3, "--json", *budget)
    assert code == 0, err
    found = json.loads(out)
    assert found["error"] < found["majority_error"] - 0.05
    assert isinstance(Model.load(tmp_path / "model.json").loss, Multinomial)
    code, out, err = tacit("predict", "model.json", records, "--json")
    assert code == 0, err
    truth, said = column(tmp_path / records, "ward"), column(tmp_path / "predictions.csv", "ward")
    assert json.loads(out)["error"] == pytest.approx(np.mean([a != b for a, b in zip(truth, said, strict=True)]))
    every = [column(tmp_path / "predictions.csv", f"probability of {name}") for name in ("eyes", "medicine", "surgery")]
    np.testing.assert_allclose(np.array(every, float).sum(axis=0), 1, atol=2e-6)
    best = np.array(every, float).max(axis=0)
    np.testing.assert_allclose(np.array(column(tmp_path / "predictions.csv", "probability"), float), best)


@pytest.mark.parametrize("budget", [[], ["--epsilon", 5]], ids=["exact", "private"])
def test_numbers(tacit, records, tmp_path, budget):
    code, out, err = tacit("train", records, "--schema", "number.toml", "--agents", 3, "--json", *budget)
    assert code == 0, err
    assert json.loads(out)["r2"] > 0.5
    if budget:
        assert isinstance(Model.load(tmp_path / "model.json").loss, PseudoHuber)
    code, out, err = tacit("predict", "model.json", records, "--json")
    assert code == 0, err
    truth = np.array(column(tmp_path / records, "days"), float)
    said = np.array(column(tmp_path / "predictions.csv", "days"), float)
    assert json.loads(out)["rmse"] == pytest.approx(root_mean_squared_error(truth, said))
    assert json.loads(out)["r2"] == pytest.approx(r2_score(truth, said))
    score = np.array(column(tmp_path / "predictions.csv", "score"), float)
    np.testing.assert_allclose(np.clip(score, 0, 30), said)


def test_ids_come_first_and_labels_may_be_unknown(tacit, tmp_path):
    """A record that lacks a value keeps its id; a label that nobody knows yet is no reason to fail."""
    (tmp_path / "t.csv").write_text("who,x,y\n" + "\n".join(f"p{i},{i % 7},{int(i % 7 > 3)}" for i in range(40)))
    schema = 'version = 1\nmissing = "drop"\nids = ["who"]\n[label]\ncolumn = "y"\npositive = ["1"]\nnegative = ["0"]\n'
    (tmp_path / "ids.toml").write_text(schema + '[[columns]]\nname = "x"\nkind = "number"\nbounds = [0, 6]\n')
    assert tacit("train", "t.csv", "--schema", "ids.toml", "--agents", 2)[0] == 0
    (tmp_path / "new.csv").write_text("x,who,y\n1,ann,?\n?,bob,0\n6,cas,maybe\n")
    code, _, err = tacit("predict", "model.json", "new.csv")
    assert code == 0, err
    assert "were not compared with the labels" in err
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    assert lines[0] == "who,y,score,probability"
    assert lines[1].startswith("ann,")
    assert lines[2] == "bob,,,"
    assert lines[3].startswith("cas,1,")


def test_the_top_is_measured_as_it_is_written(tacit, tmp_path):
    """Where some labels are missing, what is measured is about the records that the file calls positive."""
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(f"{i % 7},{int(i % 7 > 3)}" for i in range(70)))
    schema = 'version = 1\nmissing = "drop"\n[label]\ncolumn = "y"\npositive = ["1"]\nnegative = ["0"]\n'
    (tmp_path / "s.toml").write_text(schema + '[[columns]]\nname = "x"\nkind = "number"\nbounds = [0, 6]\n')
    assert tacit("train", "t.csv", "--schema", "s.toml", "--agents", 2)[0] == 0
    (tmp_path / "new.csv").write_text("x,y\n6,?\n6,\n5,1\n1,0\n0,0\n")
    code, out, err = tacit("predict", "model.json", "new.csv", "--top", 3, "--json")
    assert code == 0, err
    assert column(tmp_path / "predictions.csv", "y") == ["1", "1", "1", "0", "0"]
    found = json.loads(out)
    assert (found["positives_predicted"], found["error"]) == (1, 0)  # two of the three have no label


def test_comparisons_and_plans(tacit, records, short_recipes):
    for name, fields in (("several", ["majority_error"]), ("number", ["rmse", "r2"]), ("rare", ["auc"])):
        setting = ["--schema", f"{name}.toml", "--agents", 3, "--epsilon", 5, "--seeds", 1, "--json"]
        code, out, err = tacit("compare", records, *setting)
        assert code == 0, err
        methods = {method["name"]: method for method in json.loads(out)["methods"]}
        assert ("mean" if name == "number" else "majority") in methods
        assert {"pvp", "mr-admm", "gradient-descent", "pi-admm", "central", "no-privacy"} <= methods.keys()
        for method in methods.values():
            assert all(field in method for field in fields)
        assert methods["no-privacy"]["error"] <= methods["pvp"]["error"] + 0.02
        plan = ["plan", "pvp", "--schema", f"{name}.toml", "--rows", "500,600,700", "--epsilon", 1, "--json"]
        code, out, err = tacit(*plan)
        assert code == 0, err
        assert json.loads(out)["epsilon"] <= 1


TRAIN = ("train", "records.csv", "--agents", "3")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*TRAIN, "--schema", "rare.toml", "--positive-share", "6%"), "--positive-share is a number such as 0.06"),
        ((*TRAIN, "--schema", "rare.toml", "--positive-share", "1.5"), "must be above 0 and below 1"),
        ((*TRAIN, "--schema", "rare.toml", "--positive-share", "nan"), "must be finite"),
        ((*TRAIN, "--schema", "rare.toml", "--positive-share", "noisy"), "give epsilon"),
        (
            (*TRAIN, "--schema", "rare.toml", "--epsilon", "1", "--method", "one-shot", "--positive-share", "noisy"),
            "cannot pay for a noisy count",
        ),
        ((*TRAIN, "--schema", "rare.toml", "--class-weight", "5"), "two numbers"),
        ((*TRAIN, "--schema", "rare.toml", "--class-weight", "1,x"), "two numbers"),
        ((*TRAIN, "--schema", "rare.toml", "--class-weight", "1,-2"), "2 positive numbers"),
        ((*TRAIN, "--schema", "number.toml", "--positive-share", "0.1"), "a label of two classes"),
        ((*TRAIN, "--schema", "several.toml", "--class-weight", "1,2"), "a label of two classes"),
        ((*TRAIN, "--schema", "several.toml", "--loss", "huber"), "take one of: multinomial"),
        ((*TRAIN, "--schema", "several.toml", "--epsilon", "1", "--method", "rcd"), "take one of: dvp, pvp"),
        (("compare", "records.csv", "--schema", "rare.toml", "--positive-share", "noisy"), "as a number"),
        (("plan", "rcd", "--schema", "several.toml", "--epsilon", "1"), "take one of: dvp, pvp"),
        (("plan", "pvp", "--schema", "rare.toml", "--dimension", "4", "--epsilon", "1"), "leave out --dimension"),
    ],
)
def test_bad_options_are_one_line(tacit, records, tmp_path, args, says):
    code, out, err = tacit(*args)
    assert (code, out) == (2, "")
    assert says in err
    assert [line for line in err.splitlines() if "error:" in line] == [err.strip().splitlines()[-1]]
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("schema", "args", "says"),
    [
        ("rare", ["--threshold", "1.5"], "from 0 to 1"),
        ("rare", ["--top", "-1"], "zero or more"),
        ("rare", ["--top", "5", "--threshold", "0.5"], "give one of them"),
        ("number", ["--top", "5"], "two classes"),
    ],
)
def test_bad_predictions_are_one_line(tacit, records, tmp_path, schema, args, says):
    assert tacit("train", records, "--schema", f"{schema}.toml", "--agents", 2)[0] == 0
    code, out, err = tacit("predict", "model.json", records, *args)
    assert (code, out) == (2, "")
    assert says in err
    assert not (tmp_path / "predictions.csv").exists()
