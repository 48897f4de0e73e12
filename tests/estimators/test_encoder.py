"""The encoder makes the features of a schema, and learns nothing from records."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit.data import Bands, Category, Classes, Number, Schema
from tacit.estimators import FederatedClassifier, PrivateFusedLogisticRegression, SchemaEncoder

SCHEMA = Schema(
    label=Classes("back", positive=("yes",), negative=("no",)),
    columns=(
        Number("age", bounds=(0, 120)),
        Category("ward", categories=("heart", "eyes")),
        Bands("days", edges=(0, 3, 30)),
        Number("days", bounds=(0, 30), scale="log"),
    ),
    intercept=True,
    row_norm=1.0,
    missing="zero",
    unknown="zero",
)
FEATURES = ["age", "ward=heart", "ward=eyes", "days=0..3", "days=3..30", "days"]


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "id": [f"p{k}" for k in range(n)],  # not in the schema
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 150, n)),
        "ward": rng.choice(np.array(["heart", "eyes", "?", "elsewhere"], dtype=object), n),
        "days": rng.integers(-2, 40, n),
        "back": rng.choice(["yes", "no"], n),
    }
    columns["ward"][::7] = None
    return columns


@pytest.mark.parametrize("missing", ["refuse", "zero"])
def test_scikit_learn_takes_it_for_one_of_its_own(missing):
    """All checks hold. One needs a setting of scipy."""
    results = check_estimator(SchemaEncoder(bounds=(-10, 10), missing=missing), on_skip=None, on_fail=None)
    assert len(results) > 40
    other = {r["check_name"]: r["status"] for r in results if r["status"] != "passed"}
    assert other.items() <= {"check_array_api_input": "skipped"}.items()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
def test_it_encodes_as_the_schema_does(library, tmp_path):
    columns = records(60)
    frames = pytest.importorskip(library)
    own = pytest.importorskip("pandas").DataFrame(columns)
    expected = replace(SCHEMA, intercept=False, row_norm=0.0).encode(own, labelled=False).X
    expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
    if library == "numpy":
        X = own[["age", "ward", "days"]].to_numpy(dtype=object)
    else:
        X = frames.table(own) if library == "pyarrow" else frames.DataFrame(columns)
    file = tmp_path / "schema.toml"
    file.write_text(SCHEMA.to_toml())
    for schema in (SCHEMA, file, str(file)):
        encoder = SchemaEncoder(schema)
        found = encoder.fit_transform(X)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
        assert encoder.get_feature_names_out().tolist() == FEATURES
        assert found.min() == 0
        assert found.max() == 1


def test_it_learns_nothing_from_records():
    """What was fitted is the same whatever the records were, and each row is encoded by itself."""
    pandas = pytest.importorskip("pandas")
    one, other, new = (pandas.DataFrame(records(40, seed)) for seed in range(3))
    other["age"], other["ward"] = 1e9, "nowhere"
    fitted = [SchemaEncoder(SCHEMA).fit(frame) for frame in (one, other)]
    assert pickle.dumps(fitted[0]) == pickle.dumps(fitted[1])
    rows = fitted[0].transform(new)
    np.testing.assert_array_equal(rows, fitted[1].transform(new))
    np.testing.assert_array_equal(rows, np.vstack([fitted[0].transform(new[k : k + 1]) for k in range(40)]))
    np.testing.assert_array_equal(rows, pickle.loads(pickle.dumps(fitted[0])).transform(new))
    np.testing.assert_array_equal(rows, clone(fitted[0]).fit_transform(new))


def test_in_front_of_an_estimator_the_rows_are_those_of_the_schema():
    """The estimator has the intercept and the norm: rows are what `tacit train` makes of the same schema."""
    frame = pytest.importorskip("pandas").DataFrame(records(300))
    whole = SCHEMA.encode(frame)
    rows = whole.X if isinstance(whole.X, np.ndarray) else whole.X.toarray()
    settings = {"epsilon": 1.0, "bounds": (0, 1), "classes": ["no", "yes"], "random_state": 0}
    line = make_pipeline(SchemaEncoder(SCHEMA), FederatedClassifier(**settings)).fit(frame, frame["back"])
    direct = FederatedClassifier(**settings, intercept=False).fit(rows, frame["back"])
    np.testing.assert_allclose(line.decision_function(frame), direct.decision_function(rows), atol=1e-9)
    fused = make_pipeline(SchemaEncoder(SCHEMA), PrivateFusedLogisticRegression(classes=["no", "yes"], random_state=0))
    assert fused.fit(frame, frame["back"]).predict(frame).shape == (300,)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[30.0, 2.0], [np.nan, 3.0], [150.0, np.nan]]),
        np.array([[30, 2], [np.nan, 3], [150, np.nan]], dtype=np.float32),
        np.array([[30, "2"], [None, "3"], ["150", "?"]], dtype=object),
        np.array([[30.0, 2.0], [float("nan"), 3.0], [150, None]], dtype=object),
        np.array([["30", "2"], ["", "3"], ["150", "?"]]),
        [[30, "2"], ["?", "3"], [150, ""]],
    ],
    ids=["floats", "float32", "texts", "objects", "strings", "lists"],
)
@pytest.mark.parametrize("categories", [[1, 2], ["1", "2"], np.array([1.0, 2.0])], ids=["numbers", "texts", "array"])
def test_arrays_of_every_kind(X, categories):
    encoder = SchemaEncoder(bounds={0: (0, 120)}, categories={1: categories}, missing="zero", unknown="zero").fit(X)
    assert encoder.transform(X).tolist() == [[0.25, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1=1", "x1=2"]


def test_integers_truths_and_pandas_own_missing_value():
    pandas = pytest.importorskip("pandas")
    assert SchemaEncoder(bounds=(0, 4)).fit_transform(np.array([[1, 9]])).tolist() == [[0.25, 1.0]]
    for X in (np.array([[True], [False]]), pandas.DataFrame({"x": [True, False]})):
        truths = SchemaEncoder(categories={0: [True, False]}).fit_transform(X)
        assert truths.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    lacking = pandas.DataFrame({"x": pandas.array([1, None], dtype="Int64")})
    for X in (lacking, lacking.to_numpy(dtype=object)):
        assert SchemaEncoder(bounds=(0, 2), missing="zero").fit_transform(X).tolist() == [[0.5], [0.0]]
    tenth = np.array([[0.1]], dtype=np.float32)  # 0.1, not 0.10000000149
    assert SchemaEncoder(categories={0: ["0.1"]}).fit_transform(tenth).tolist() == [[1.0]]


def test_frames_come_out_if_they_are_wanted():
    frame = pytest.importorskip("pandas").DataFrame(records(5))
    told = SchemaEncoder(SCHEMA).set_output(transform="pandas").fit_transform(frame)
    assert list(told.columns) == FEATURES
    with pytest.raises(ValueError, match="feature names"):
        SchemaEncoder(SCHEMA).fit(frame).transform(frame.rename(columns={"age": "years"}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a schema, or bounds and categories"),
        ({"schema": SCHEMA, "unknown": "zero"}, "leave out unknown"),
        ({"schema": replace(SCHEMA, drafted=True)}, "were read from records"),
        ({"schema": replace(SCHEMA, missing="drop")}, "y would keep the row"),
        ({"schema": replace(SCHEMA, columns=(*SCHEMA.columns, Number("dose", bounds=(0, 1))))}, "no column 'dose'"),
        ({"schema": "nowhere.toml"}, "nowhere.toml"),
        ({"bounds": (0, 1), "missing": "drop"}, "y would keep the row"),
        ({"bounds": (0, 1), "missing": "mean"}, 'missing must be "drop", "zero" or "refuse"'),
        ({"bounds": (1, 0)}, "lo < hi"),
        ({"bounds": {"age": (0, 1)}}, "'days' has none"),
        ({"bounds": {"dose": (0, 1)}}, "'dose', which is not a column of X"),
        ({"bounds": (0, 1), "categories": {7: ["a"]}}, "7, which is not a column of X"),
        ({"bounds": (0, 1), "categories": {"age": "old"}}, "categories of a column are a list"),
        ({"bounds": (0, 1), "categories": ["old"]}, "categories is a dict"),
        ({"categories": {"age": ["old", "old"]}, "bounds": (0, 1)}, "'old' is there twice"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings, message):
    frame = pytest.importorskip("pandas").DataFrame({"age": [1.0], "days": [2], "ward": ["eyes"]})
    if "schema" not in settings:
        frame = frame[["age", "days"]]
    with pytest.raises(tacit.InputError, match=message) as error:
        SchemaEncoder(**settings).fit(frame)
    assert "\n" not in str(error.value)


def test_cells_that_the_schema_does_not_allow_are_refused():
    strict = replace(SCHEMA, missing="refuse", unknown="refuse")
    frame = pytest.importorskip("pandas").DataFrame({"age": [1.0, 2.0], "ward": ["eyes", "heart"], "days": [2, 3]})
    encoder = SchemaEncoder(strict).fit(frame)
    with pytest.raises(tacit.InputError, match="one of the column's categories"):
        encoder.transform(frame.assign(ward=["eyes", "elsewhere"]))
    with pytest.raises(tacit.InputError, match="no value may be missing"):
        encoder.transform(frame.assign(age=[1.0, None]))
    with pytest.raises(tacit.InputError, match="has the 3 columns of the schema"):
        SchemaEncoder(strict).fit(np.ones((2, 4)))
