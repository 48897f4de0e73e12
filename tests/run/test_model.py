"""Model files, and how training compares models."""

import json

import numpy as np
import pytest

from tacit.core.graph import Graph
from tacit.core.losses import HuberHinge, Logistic, PseudoHuber, Squared
from tacit.core.multinomial import Multinomial
from tacit.data import Classes, Dataset, Multiclass, Number, Schema, Target
from tacit.errors import InputError
from tacit.files import replacing
from tacit.privacy.noise import SecureNoise, SeededNoise
from tacit.run.model import Model
from tacit.run.request import Request
from tacit.run.training import as_json, train

CLASSES = Schema(label=Classes("ill", positive=("yes",), negative=("no",)), columns=(Number("x", bounds=(0, 1)),))
WARDS = Schema(label=Multiclass("ward", classes=("a", "b", "c")), columns=(Number("x", bounds=(0, 1)),))
NUMBERS = Schema(label=Target("age", bounds=(20, 80)), columns=(Number("x", bounds=(0, 1)),))


def data(x, y=None):
    x = np.asarray(x, dtype=float)[:, None]
    return Dataset(x, None if y is None else np.asarray(y, dtype=float), ("x",), np.arange(len(x)))


def test_classes():
    model = Model(np.array([2.0]), CLASSES, Logistic())
    records = data([1.0, -1.0, 0.5], [1, 1, 1])
    assert model.predictions(records).tolist() == ["yes", "no", "yes"]
    assert model.predictions(records, np.array([False, True, False])).tolist() == ["no", "yes", "no"]
    np.testing.assert_allclose(model.probabilities(records), 1 / (1 + np.exp([-2.0, 2.0, -1.0])))
    assert model.measured(records).error == pytest.approx(1 / 3)
    assert Model(np.array([2.0]), CLASSES, HuberHinge(0.5)).probabilities(records) is None


def test_the_offset_counts_in_scores_and_probabilities():
    rare = Logistic().centred(0.06)
    model = Model(np.array([2.0]), CLASSES, rare)
    records = data([0.0, 1.0])
    np.testing.assert_allclose(model.scores(records), [rare.offset, rare.offset + 2])
    np.testing.assert_allclose(model.probabilities(records), 1 / (1 + np.exp(-rare.offset - np.array([0.0, 2.0]))))


def test_weights_move_the_label_and_not_the_probability():
    """A positive counts 9 times as much: the label is positive from a probability of 0.1 on."""
    model = Model(np.array([1.0]), CLASSES, Logistic(weights=(1.0, 9.0)))
    records = data([-0.1, 0.1])
    assert model.predictions(records).tolist() == ["no", "yes"]
    low, high = model.probabilities(records)
    assert 0.09 < low < 0.1 < high < 0.11


def test_several_classes():
    model = Model(np.array([1.0, 0.0, -1.0]), WARDS, Multinomial(3))  # flat, as agents exchange them
    assert model.weights.shape == (3, 1)
    records = data([2.0, -2.0, 0.5], [0, 2, 1])
    assert model.predictions(records).tolist() == ["a", "c", "a"]
    e = np.exp([[2.0, 0.0, -2.0], [-2.0, 0.0, 2.0], [0.5, 0.0, -0.5]])
    np.testing.assert_allclose(model.probabilities(records), e / e.sum(axis=1, keepdims=True))
    assert model.measured(records).error == pytest.approx(1 / 3)


def test_numbers():
    model = Model(np.array([0.5]), NUMBERS, Squared())
    assert model.predictions(data([1.0, 0.0, -1.0, 9.0])).tolist() == [65.0, 50.0, 35.0, 80.0]  # clipped to the bounds
    assert model.measured(data([1.0, 0.0], [0.5, 0.1])).rmse == pytest.approx(np.sqrt((0 + 3.0**2) / 2))


@pytest.mark.parametrize(
    ("schema", "loss"),
    [(CLASSES, PseudoHuber()), (CLASSES, Multinomial(2)), (NUMBERS, Logistic()), (WARDS, Multinomial(4))],
)
def test_a_loss_must_fit_the_label(schema, loss):
    with pytest.raises(InputError, match="cannot have the loss"):
        Model(np.ones(schema.model_dimension), schema, loss)


@pytest.mark.parametrize(
    ("schema", "loss"),
    [
        (CLASSES, Logistic(offset=0.1, weights=(1.0, 2.5))),
        (CLASSES, HuberHinge(1.0).centred(0.06)),
        (CLASSES, Squared()),
        (NUMBERS, PseudoHuber(0.25)),
        (WARDS, Multinomial(3).centred([0.2, 0.3, 0.5])),
    ],
    ids=repr,
)
def test_round_trip(tmp_path, schema, loss):
    weights = 0.1 + 0.2 * np.arange(schema.model_dimension)
    model = Model(weights, schema, loss, training={"rounds": 3}, privacy={"private": False})
    model.save(tmp_path / "m.json")
    again = Model.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.weights, model.weights)
    for name in ("schema", "loss", "training", "privacy"):
        assert getattr(again, name) == getattr(model, name)


def test_large_weights_are_no_mistake(tmp_path):
    Model(np.array([1e99]), CLASSES, Logistic()).save(tmp_path / "m.json")
    assert Model.load(tmp_path / "m.json").weights.tolist() == [1e99]


def test_a_file_of_version_1_is_read(tmp_path):
    path = tmp_path / "m.json"
    Model(np.array([1.0]), CLASSES, Logistic()).save(path)
    for name, loss in (("Logistic", Logistic()), ("Squared", Squared())):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 1, "loss": name}))
        assert Model.load(path).loss == loss
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 1, "loss": "HuberHinge"}))
    assert Model.load(path).probabilities(data([1.0])) is None  # its width is not known


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version 3"),
        ({"format": "other"}, "'other'"),
        ({"weights": [1.0, 2.0]}, "one weight for each"),
        ({"weights": [float("inf")]}, "finite"),
        ({"weights": [1e101]}, "below 1e\\+100"),
        ({"training": {"by": "\ud800"}}, "not a model file"),
        ({"weights": [10**400]}, "not a model file"),
        ({"features": ["y"]}, "features are not those"),
        ({"loss": "Magic"}, "loss is one of"),
        ({"loss": {"name": "HuberHinge", "width": -1.0}}, "positive width"),
        ({"loss": {"name": "Logistic", "depth": 1.0}}, "not a model file"),
        ({"loss": 3}, "not a model file"),
        ({"schema": {}}, "not a model file"),
        ({"schema": None}, "not a model file"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = tmp_path / "m.json"
    Model(np.array([1.0]), CLASSES, Logistic()).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        Model.load(path)


def test_what_was_there_survives_a_failed_write(tmp_path):
    path = tmp_path / "m.json"
    path.write_text("old")

    def fail():
        with replacing(path) as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]  # no draft left behind


def test_training_compares_like_with_like():
    """Every organisation alone has its own optimum, measured on held-out records."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    y = np.where(x + rng.normal(size=90) > 0, 1.0, -1.0)
    y[:20] *= -1  # the first organisation has learned the opposite
    everybody, parts = data(x, y), [np.arange(20), np.arange(20, 60)]
    test = everybody.take(np.arange(60, 90))
    setting = Request(penalty=0.1, l2=0.1, rounds=300, tolerance=1e-9).on(CLASSES, parts, Graph.path(2))
    result = train(setting, everybody, CLASSES, parts, names=["odd", "even"], test=test)
    assert [line.who for line in result.alone] == ["odd alone", "even alone"]
    assert result.alone[0].error > 0.5 > result.alone[1].error
    assert [line.rows for line in result.alone] == [20, 40]
    assert result.together.loss == pytest.approx(result.pooled.loss, abs=1e-6)
    assert result.pooled.loss <= min(line.loss for line in result.alone)
    assert result.together.error == pytest.approx(result.model.measured(test).error)


@pytest.mark.parametrize(
    ("noise", "said"),
    [(SecureNoise(), "-differentially private, if its schema and all"), (SeededNoise(3), "noise there was is seeded")],
    ids=["secure", "seeded"],
)
def test_noise_without_a_budget_is_no_private_run(noise, said):
    """Neither in a model file nor in plain data; and what noise that somebody can draw again hides is not stated."""
    x = np.random.default_rng(0).uniform(-1, 1, size=40)
    everybody, parts = data(x, np.where(x > 0, 1.0, -1.0)), [np.arange(20), np.arange(20, 40)]
    setting = Request(method="dvp", own=("alpha=0.01",), l2=0.1, rounds=3).on(CLASSES, parts, Graph.path(2))
    trained = train(setting, everybody, CLASSES, parts, noise=noise)
    assert said in trained.model.privacy["statement"]
    assert as_json(trained)["private"] is trained.model.privacy["private"] is False
