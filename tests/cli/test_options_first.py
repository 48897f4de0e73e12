"""A wrong option is found before the records are read, which may take minutes: here the file does not even exist."""

import pytest

from tacit.data import Classes, Number, Schema

SCHEMA = Schema(label=Classes("died", ("yes",), ("no",)), columns=(Number("age", (0, 100)),), row_norm=1.0)


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    return tmp_path / "schema.toml"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "nonsense"], "method is one of"),
        (["--graph", "nonsense"], "graph must be one of"),
        (["--graph", "random:x"], "write random:EDGES"),
        (["--graph", "nowhere.csv"], "nowhere.csv does not; check the path"),
        (["--hostile", "nonsense:1"], "hostile is KIND:COUNT"),
        (["--holdout", "1.5"], "rows held out must be at least 0 and below 1"),
        (["--loss", "nonsense"], "loss must be one of"),
        (["--loss", "multinomial"], "does not fit the label 'died'"),
        (["--l2", "-1"], "l2 must be zero or a positive number"),
        (["--tolerance", "0"], "tolerance must be a positive number"),
        (["--agents", "0"], "--agents must be"),
        (["--skew", "0"], "--skew must be a positive number"),
        (["--site", "ward", "--agents", "3"], "--site already says"),
        (["--site", "died"], "cannot be both the label and the site"),
        (["--label", "age"], "--label age contradicts the schema"),
        (["--class-weight", "1"], "--class-weight is two numbers"),
        (["--epsilon", "1"], 'write missing = "zero"'),
    ],
)
def test_train_refuses_wrong_options_first(tacit, schema, options, message):
    if options[0] == "--epsilon":
        schema.write_text(SCHEMA.to_toml().replace('"refuse"', '"drop"'))
    code, _, err = tacit("train", "nowhere-either.csv", "--schema", schema, *options)
    assert code == 2
    assert message in " ".join(err.split())
    assert "nowhere-either" not in err


def test_without_a_schema_the_label_is_asked_for_first(tacit):
    code, _, err = tacit("train", "nowhere-either.csv")
    assert (code, "--label is needed" in err) == (2, True)


def test_the_file_is_refused_if_the_options_are_right(tacit, schema):
    code, _, err = tacit("train", "nowhere-either.csv", "--schema", schema)
    assert (code, "nowhere-either.csv does not; check the path" in " ".join(err.split())) == (2, True)


def test_the_old_name_of_an_option_works_with_a_warning(tacit, schema, patients):
    code, _, err = tacit("train", patients, "--schema", "schema.toml", "--algorithm", "nonsense")
    assert (code, "warning: --algorithm is now called --method" in err) == (2, True)
    assert "method is one of" in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["r-admm", "--alpha", 1, "--gamma", 0.3], ["r-admm", "--set", "alpha=1", "--set", "gamma=0.3"]),
        (
            ["mr-admm", "--alpha=1", "--penalty", 0.5, "--growth", 1.1],
            ["mr-admm", "--set", "alpha=1", "--set", 'penalty={kind="geometric",first=0.5,ratio=1.1}'],
        ),
        (["ra-admm", "--alpha", 2, "--penalty", 3], ["ra-admm", "--set", "beta=2", "--penalty", 3]),
    ],
)
def test_old_options_of_a_plan_work_with_a_warning(tacit, old, new):
    code, out, err = tacit("plan", *old, "--rows", 900, "--rounds", 6, "--json")
    assert (code, err.count("is now --set NAME=VALUE")) == (0, 1), err
    assert tacit("plan", *new, "--rows", 900, "--rounds", 6, "--json") == (0, out, "")
