"""`--report`: the file says what the command says, belongs to its owner, and destroys nothing."""

import json
import re
from pathlib import Path

import pytest
from patients import SCHEMA

PRIVATE = ("--schema", "schema.toml", "--epsilon", 1, "--delta", 1e-3, "--method", "one-shot")


@pytest.fixture(autouse=True)
def schema(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("row_norm = 1.0", 'row_norm = 1.0\nmissing = "zero"'))


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', Path(path).read_text(encoding="utf-8"))[1])


def test_a_private_run(tacit, patients):
    code, out, err = tacit("train", patients, *PRIVATE, "--site", "hospital", "--json", "--report", "report.html")
    assert code == 0, err
    printed, shown, model = json.loads(out), data_of("report.html"), json.loads(Path("model.json").read_text())
    for key in ("rounds", "messages", "epsilon", "delta", "statement", "colluders", "coalitions"):
        assert shown[key] == printed[key]
    assert shown["agents"] == model["training"]["agents"]
    assert shown["edges"] == model["training"]["edges"]
    assert shown["bytes"] == shown["messages"] * 8 * len(model["weights"])
    assert "error" not in shown
    text = Path("report.html").read_text(encoding="utf-8")
    assert f"{printed['error']:.4f}" not in text
    assert Path("report.html").stat().st_mode & 0o777 == 0o600


def test_the_plan_that_a_report_names_costs_the_same(tacit, patients):
    for more in ((), ("--agents", 4, "--method", "shared-descent", "--colluders", 1)):
        assert (
            tacit("train", patients, *PRIVATE, *more, "--report", "report.html", "--out", f"{len(more)}.json")[0] == 0
        )
        shown = data_of("report.html")
        (step,) = shown["verify"]
        _, *words = step["command"].split()
        code, out, err = tacit(*words, "--json")
        assert code == 0, err
        assert json.loads(out)["epsilon"] == pytest.approx(shown["epsilon"], rel=1e-4)


def test_shared_noise_in_plain_words(tacit, patients):
    args = ("--agents", 4, "--method", "shared-descent", "--colluders", 1, "--report", "report.html")
    assert tacit("train", patients, *PRIVATE, *args)[0] == 0
    text = Path("report.html").read_text(encoding="utf-8")
    assert (
        "Any one of the 3 other members, with all that it knows, can improve a guess about one record from 50% to"
        in text
    )
    assert "1 (agreed)" in text


def test_liars_are_named(tacit, patients):
    args = ("--agents", 4, "--hostile", "flip:1", "--robust", "clipping", "--report", "report.html")
    code, _, err = tacit("train", patients, *PRIVATE, *args)
    assert (code, "wrote model.json and report.html" in err) == (0, True)
    assert "1 of 4 members lie (flip): a simulation of an attack" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("train",), ("compare",)])
@pytest.mark.parametrize("target", ["patients.csv", "schema.toml"])
def test_inputs_are_not_overwritten(tacit, patients, command, target):
    before = Path(target).read_text()
    code, _, err = tacit(*command, patients, "--schema", "schema.toml", "--report", target)
    assert (code, "is an input" in err, err.count("\n")) == (2, True, 1)
    assert Path(target).read_text() == before


@pytest.mark.parametrize("target", ["model.json", "model.png"])
def test_outputs_are_not_overwritten(tacit, patients, target):
    code, _, err = tacit("train", patients, "--schema", "schema.toml", "--report", target)
    assert (code, "--report would overwrite" in err) == (2, True)
    assert not Path(target).exists()
