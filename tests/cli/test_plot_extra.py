"""Without the extra `plot`: results come without plots, and a command that only draws plots is refused."""

import csv
import importlib
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tacit.run.model import Model

DRAWING = ("tacit.report.canvas", "tacit.report.plots", "tacit.lab.charts", "tacit.lab.papers.drawing")
MODULES = [("matplotlib", "matplotlib"), ("PIL", "Pillow")]


@pytest.fixture(params=MODULES, ids=[name for _, name in MODULES])
def missing(request, monkeypatch):
    """The name of a package that cannot be imported; the other one can."""
    module, name = request.param
    for loaded in [m for m in sys.modules if m in DRAWING or m.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    for drawing in DRAWING:
        monkeypatch.delattr(drawing, raising=False)
    return name


def advice(name):
    return f"no plot: {name} is missing; pip install 'tacit-learn[plot]'"


def pictures(folder):
    return list(folder.rglob("*.png"))


@pytest.mark.parametrize("style", [[], ["--json"]], ids=["text", "json"])
def test_training_saves_its_model(missing, tacit, patients, tmp_path, style):
    code, out, err = tacit("train", patients, "--label", "died", "--agents", 3, "--rounds", 5, *style)
    assert code == 0, err
    assert err.splitlines().count(advice(missing)) == 1
    assert Model.load(tmp_path / "model.json").training["rounds"] == 5
    assert not pictures(tmp_path)
    if style:
        assert json.loads(out)["plot"] is None
    else:
        assert "wrote model.json" in err.splitlines()


def test_a_comparison_saves_its_numbers(missing, tacit, patients, tmp_path, short_recipes):
    code, _, err = tacit("compare", patients, "--label", "died", "--agents", 3, "--seeds", 1, "--out", "found")
    assert code == 0, err
    assert err.splitlines().count(advice(missing)) == 1
    with (tmp_path / "found" / "comparison.csv").open(encoding="utf-8") as file:
        assert "majority" in {row["method"] for row in csv.DictReader(file)}
    assert not pictures(tmp_path)


def test_the_demo_saves_its_model(missing, tacit, tmp_path, monkeypatch):
    module = importlib.import_module("tacit.lab.cli.demo")
    train = module.run
    few = lambda setting: replace(setting, spec=replace(setting.spec, rounds=5))  # noqa: E731
    monkeypatch.setattr(module, "run", lambda setting, *args, **settings: train(few(setting), *args, **settings))
    for name in ("compare_all", "recommended", "show_comparison"):  # the second half, which is slow
        monkeypatch.setattr(module, name, lambda *args, **settings: SimpleNamespace(results=[]))
    code, _, err = tacit("demo", "--out", "demo")
    assert code == 0, err
    assert err.splitlines().count(advice(missing)) == 1
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["model.json"]


@pytest.mark.parametrize(
    "args",
    [
        ["reproduce", "recycled-admm", "fig1", "--quick", "--out", "found"],
        ["attack", "i-admm", "--agents", 3, "--out", "found"],
    ],
    ids=["reproduce", "attack"],
)
def test_a_picture_is_refused_before_any_work(missing, tacit, tmp_path, args):
    code, out, err = tacit(*args)
    assert code == 2
    assert out == ""
    assert err == f"tacit: error: {advice(missing)}\n"
    assert not (tmp_path / "found").exists()


def test_an_attack_without_a_picture_needs_no_extra(missing, tacit):
    code, out, err = tacit("attack", "i-admm", "--agents", 3)
    assert code == 0
    assert "exactly" in out
    assert "no plot" not in err


def test_the_module_says_what_it_needs(missing):
    with pytest.raises(ImportError, match=r"^plots need matplotlib and Pillow: .*'tacit-learn\[plot\]'$"):
        importlib.import_module("tacit.report.plots")
