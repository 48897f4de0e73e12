"""The runs in examples/specs are read, planned, trained and compared as they are, at every front."""

import dataclasses
import inspect
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import tacit.algorithms
from tacit.data import Classes, Number, Schema, Target
from tacit.estimators import FederatedClassifier
from tacit.privacy.noise import SeededNoise
from tacit.run.budget import Budget
from tacit.run.model import Model
from tacit.run.request import specified
from tacit.run.setting import Setting
from tacit.run.spec import RunSpec

FOLDER = Path(__file__).parent.parent.parent / "examples" / "specs"
FILES = sorted(FOLDER.glob("*.toml"))
QUICK = ("dynamic-dp-pvp-budgets", "recycled-admm-private-own", "dp-accadmm")  # at every front; the others are slow
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
at_fronts = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow) for path in FILES],
    ids=lambda path: path.stem,
)


def methods(spec):
    """The method, and the one in it."""
    found = [spec.method]
    while (inner := getattr(found[-1], "method", None)) is not None:
        found.append(inner)
    return found


def dimension(spec):
    """The number of weights that the method is for; three, if it is for any."""
    inner = methods(spec)[-1]
    if isinstance(inner, tacit.algorithms.SharingADMM):
        return inner.A.shape[2]
    return inner.term.dimension if hasattr(inner, "term") else 3


def sizes(spec):
    return [200] if spec.graph.agents == 1 else [20] * spec.graph.agents


def schema(spec):
    """With an intercept, and a label that the loss is for."""
    label = Target("y", bounds=(-3, 3)) if spec.loss.numbers else Classes("y", positive=("yes",), negative=("no",))
    columns = tuple(Number(f"x{j}", bounds=(-1, 1)) for j in range(dimension(spec) - 1))
    return Schema(label=label, columns=columns, row_norm=1.0, intercept=True)


def records(spec, rows, seed=0):
    """Made-up rows and labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows, dimension(spec) - 1)).round(3)
    return X, (X[:, 0] + 0.2 * rng.normal(size=rows)).round(3)


def written(spec, folder, rows):
    """As a file of records, and its schema."""
    X, y = records(spec, rows)
    labels = y if spec.loss.numbers else np.where(y > 0, "yes", "no")
    lines = [",".join(map(str, (*row, label))) for row, label in zip(X, labels, strict=True)]
    names = [f"x{j}" for j in range(X.shape[1])]
    (folder / "records.csv").write_text("\n".join([",".join([*names, "y"]), *lines]) + "\n")
    (folder / "schema.toml").write_text(schema(spec).to_toml())
    return "records.csv", "--schema", "schema.toml"


def planned(spec, n=None):
    setting = specified(spec, schema(spec).label, sizes(spec) if n is None else n, dimension(spec))
    delta = 1e-5 if spec.budget is None else spec.budget.delta
    return setting, setting.guarantee(delta).epsilon


def comment(path):
    return re.sub(r"\n# ", " ", path.read_text(encoding="utf-8").partition("\n\n")[0].removeprefix("# "))


def test_every_method_is_there():
    """Those that are no example of their own are inside one: `Averaged` and `SummedDPADMM` hold another method."""
    public = {getattr(tacit.algorithms, name) for name in tacit.algorithms.__all__}  # imported when they are asked for
    known = {each for each in public if inspect.isclass(each) and hasattr(each, "speak")}
    assert len(known) > 20
    shown = {type(method) for path in FILES for method in methods(RunSpec.from_toml(path))}
    assert known - {tacit.algorithms.Algorithm} == shown


def test_the_index_lists_every_file_once():
    named = re.findall(r"\]\(([\w-]+\.toml)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(named) == [path.name for path in FILES]


@each_file
def test_a_file_says_where_its_numbers_come_from(path):
    said = comment(path)
    ours = path.stem.startswith("ours-")
    assert "Cost: " in said
    assert "None of the five papers" in said or "From the paper: " in said
    assert "Ours: " in said if ours else "The paper leaves open: " in said


@each_file
def test_a_file_comes_back_with_the_same_digest(path, tmp_path):
    spec = RunSpec.from_toml(path)
    (tmp_path / "again.toml").write_text(spec.to_toml(), encoding="utf-8")
    again = RunSpec.from_toml(tmp_path / "again.toml")
    assert (again.digest, again.plain()) == (spec.digest, spec.plain())
    assert again.to_toml() == spec.to_toml()


@each_file
def test_a_plan_costs_what_the_file_says(path):
    """And what the run costs that follows; its models are finite."""
    spec, said = RunSpec.from_toml(path), comment(path)
    setting, cost = planned(spec)
    assert math.isfinite(cost) == ("Cost: finite" in said)
    assert math.isfinite(cost) or "Cost: infinite" in said
    if spec.budget is not None:
        assert 0.7 * spec.budget.epsilon < cost <= spec.budget.epsilon
    X, y = records(spec, sum(sizes(spec)))
    rows = np.hstack([X, np.ones((len(X), 1))])
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    y = y if spec.loss.numbers else np.where(y > 0, 1.0, -1.0)
    ends = np.cumsum(sizes(spec))[:-1]
    parts = list(zip(np.split(rows, ends), np.split(y, ends), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the papers' penalties are not those of their theorems
        done = setting.simulate(parts, SeededNoise(0) if setting.draws else None)
    assert np.all(np.isfinite(done.run.estimate))
    assert np.abs(done.weights).max() > 0
    assert list(done.run.spent) == list(setting.plan.spent)


@at_fronts
def test_the_command_plans_it(path, tacit):
    spec = RunSpec.from_toml(path)
    rows = ",".join(map(str, sizes(spec)))
    code, out, err = tacit("plan", "--spec", path, "--rows", rows, "--dimension", dimension(spec), "--json")
    assert code == 0, err
    found, (_, cost) = json.loads(out), planned(spec)
    assert found["spec digest"] == spec.digest
    assert found["epsilon"] == (pytest.approx(cost, rel=1e-6) if math.isfinite(cost) else None)
    code, out, err = tacit("plan", "--spec", path, "--rows", rows, "--dimension", dimension(spec))
    assert code == 0, err
    assert ("nothing is protected" in out) == math.isinf(cost)


@at_fronts
@pytest.mark.filterwarnings("ignore")  # the papers' penalties are not those of their theorems
def test_the_command_trains_it(path, tacit, tmp_path):
    spec = RunSpec.from_toml(path)
    files = written(spec, tmp_path, sum(sizes(spec)))
    code, _, err = tacit("train", *files, "--spec", path, "--holdout", 0)
    assert code == 0, err
    model = Model.load(tmp_path / "model.json")
    assert model.training["spec digest"] == spec.digest
    assert np.all(np.isfinite(model.weights))
    assert model.privacy["private"] == (spec.budget is not None)
    _, cost = planned(spec, [agent["rows"] for agent in model.training["agents"]])
    if spec.budget is not None:
        assert model.privacy["epsilon"] == pytest.approx(cost, rel=1e-6)
    else:
        assert ("with its noise the run was" in model.privacy["statement"]) == math.isfinite(cost)


@pytest.mark.parametrize(
    "stems",
    [
        ("dynamic-dp-pvp-budgets", "ours-gradient-descent"),
        pytest.param(
            ("recycled-admm-private-mr", "recycled-admm-m", "dynamic-dp-dvp-dynamic", "recycled-admm-plain"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("local-dp-algorithm-1", "local-dp-algorithm-2-star", "local-dp-exact"), marks=pytest.mark.slow),
        pytest.param(("incremental-admm-w", "incremental-admm-coca", "incremental-admm-pi1"), marks=pytest.mark.slow),
    ],
    ids=lambda stems: stems[0],
)
@pytest.mark.filterwarnings("ignore")
def test_the_command_compares_them(stems, tacit, tmp_path):
    specs = [RunSpec.from_toml(FOLDER / f"{stem}.toml") for stem in stems]
    files = written(specs[0], tmp_path, 2 * sum(sizes(specs[0])))
    asked = [option for stem in stems for option in ("--spec", FOLDER / f"{stem}.toml")]
    code, out, err = tacit("compare", *files, *asked, "--seeds", 2, "--json")
    assert code == 0, err
    found = {each["name"].partition(" ")[2]: each for each in json.loads(out)["methods"]}
    for spec in specs:
        result = found[spec.digest[:8]]
        assert math.isfinite(result["error"])
        _, cost = planned(spec)
        assert result["private"] == math.isfinite(cost)
        if spec.budget is not None:
            assert result["epsilon"] <= spec.budget.epsilon * (1 + 1e-9)


def test_a_run_for_records_of_another_schema_is_refused_at_every_front(tacit, tmp_path):
    """A comparison took it."""
    spec = dataclasses.replace(RunSpec.from_toml(FOLDER / "dynamic-dp-pvp-budgets.toml"), schema="0" * 64)
    files = written(spec, tmp_path, sum(sizes(spec)))
    (tmp_path / "run.toml").write_text(spec.to_toml())
    rows = ",".join(map(str, sizes(spec)))
    for command in (
        ("plan", "--rows", rows, *files[1:]),
        ("train", *files, "--holdout", 0),
        ("compare", *files, "--seeds", 1, "--jobs", 1),
    ):
        code, _, err = tacit(*command, "--spec", "run.toml")
        assert (code, "planned for records of another schema" in err) == (2, True), command


@pytest.mark.parametrize(
    ("delta", "reason"),
    [(1e-6, ""), pytest.param(0.01, "made-up records", marks=pytest.mark.filterwarnings("ignore:delta = 0.01"))],
)
def test_an_estimator_fits_one(delta, reason):
    """Also with a delta for which the file says why it is right."""
    spec = RunSpec.from_toml(FOLDER / "dynamic-dp-pvp-budgets.toml")
    spec = dataclasses.replace(spec, budget=Budget(spec.budget.epsilon, delta, reason))
    X, y = records(spec, 100)
    sites = np.repeat(np.arange(5), 20)
    total = {"epsilon": spec.budget.epsilon, "delta": spec.budget.delta}
    model = FederatedClassifier(**total, method=spec, random_state=0, bounds=(-1, 1), classes=[0, 1])
    fitted = model.fit(X, (y > 0).astype(int), sites=sites)
    assert fitted.spec_.digest == spec.digest
    assert fitted.privacy_.epsilon <= spec.budget.epsilon


def test_a_constraint_with_a_model_for_each_member_is_refused():
    """Every front keeps one model for all, which would be a mean without meaning."""
    spec = RunSpec.from_toml(FOLDER / "local-dp-sharing.toml")
    assert spec.method.agrees
    for change in ({"c": np.array([1.0, 0.0, 0.0, 0.0])}, {"A": 2 + spec.method.A}, {"A": spec.method.A[:, :2, :]}):
        rows = {} if "c" in change or len(change["A"][0]) == 4 else {"c": np.zeros(2), "groups": None}
        changed = dataclasses.replace(spec, method=dataclasses.replace(spec.method, **change, **rows))
        assert not changed.method.agrees
        with pytest.raises(tacit.TacitError, match=r"lets members have different models.*\(tacit\.simulate\)"):
            planned(changed)
    facts = spec.facts(sizes(spec), 2)
    parts = [(np.eye(2).repeat(10, axis=0), np.repeat([1.0, -1.0], 10))] * 3
    apart = dataclasses.replace(spec.method, c=np.array([1.0, 0.0, 0.0, 0.0]))  # x_1 = x_2 + (1, 0)
    run = tacit.simulate(apart, Setting(spec, facts).problem(parts), spec.graph, rounds=400, noise=SeededNoise(0))
    difference = run.estimate[0] - run.estimate[1]
    assert np.linalg.norm(difference - [1.0, 0.0]) < 0.2
