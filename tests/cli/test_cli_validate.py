"""`tacit validate`, and Parquet files on the command line."""

import csv
import io
import json

import pandas
import pytest
from rich.console import Console

from tacit.cli import console

SCHEMA = """
version = 1
intercept = true
row_norm = 1.0
ids = ["patient"]
{more}
[label]
column = "died"
positive = ["yes"]
negative = ["no"]

[[columns]]
name = "age"
kind = "number"
bounds = [0, 100]

[[columns]]
name = "ward"
kind = "category"
categories = ["surgery", "medicine"]
"""


@pytest.fixture
def folder(tmp_path, patients):
    (tmp_path / "schema.toml").write_text(SCHEMA.format(more=""))
    (tmp_path / "zero.toml").write_text(SCHEMA.format(more='unknown = "zero"\n'))
    rows = [
        ["patient", "age", "ward", "died"],
        ["p1", "61", "surgery", "yes"],
        ["p2", "12,5", "Surgery", "no"],
        ["p2", "130", "medicine", "No"],
        ["p3", "", "cardiology with a very long name that does not fit a line", "no"],
    ]
    with (tmp_path / "dirty.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    with (tmp_path / "dirty.csv").open("a") as file:
        file.write("p4,50\n")
    pandas.DataFrame(rows[1:], columns=rows[0]).to_parquet(tmp_path / "dirty.parquet")
    clean = pandas.read_csv(tmp_path / patients)
    clean.assign(patient=range(len(clean))).to_csv(tmp_path / "clean.csv", index=False)
    clean.assign(patient=range(len(clean))).to_parquet(tmp_path / "clean.parquet")
    return tmp_path


def test_everything_in_one_run(tacit, folder):
    code, out, err = tacit("validate", "dirty.csv", "--schema", "schema.toml")
    assert code == 1
    for said in (
        "problem: wrong length, 1 line",
        "problem: column 'age': not a number, 1 cell",
        "a decimal comma? Write 12.5",
        "problem: column 'age': missing, 1 cell",
        "problem: column 'ward': unknown category, 2 cells",
        "did you mean 'surgery'?",
        "problem: column 'died': unknown label, 1 cell",
        "warning: column 'age': clipped, 1 cell",
        "warning: column 'patient': duplicate id, 2 cells",
        "dirty.csv: 5 problems, 2 warnings; training cannot use it",
    ):
        assert said in out
    assert max(map(len, out.splitlines())) <= 80
    assert "keep it inside your organisation" in err


def test_as_json(tacit, folder):
    code, out, err = tacit("validate", "dirty.csv", "--schema", "schema.toml", "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["usable"], found["problems"], found["warnings"], found["places"]) == (False, 5, 2, "line")
    ward = next(each for each in found["findings"] if each["column"] == "ward")
    assert ward["values"][0] == {
        "text": "Surgery",
        "cells": 1,
        "first": [3],
        "suggestion": "did you mean 'surgery'? (case or blanks)",
    }
    assert "findings" in found["not_covered_by_the_guarantee"]
    assert "keep it inside your organisation" in err


def test_a_parquet_file_has_rows(tacit, folder):
    code, out, _ = tacit("validate", "dirty.parquet", "--schema", "schema.toml", "--json")
    found = json.loads(out)
    assert (code, found["problems"], found["places"]) == (1, 4, "row")
    assert next(each for each in found["findings"] if each["column"] == "ward")["values"][0]["first"] == [2]
    code, _, err = tacit("train", "dirty.parquet", "--schema", "schema.toml")
    assert code == 2
    assert "dirty.parquet row 4, column 'age' holds ''" in err


def test_the_exit_code_says_whether_training_can_use_the_file(tacit, folder):
    for name in ("clean.csv", "clean.parquet"):
        code, out, err = tacit("validate", name, "--schema", "schema.toml")
        assert (code, out, err) == (0, f"{name}: 0 problems, 0 warnings; training can use it\n", "")
    lines = (folder / "clean.csv").read_text().splitlines()
    (folder / "odd.csv").write_text("\n".join([*lines, "130,cardiology,alder,no,p"]))
    code, out, _ = tacit("validate", "odd.csv", "--schema", "zero.toml")
    assert code == 0
    assert "odd.csv: 0 problems, 2 warnings; training can use it" in out
    code, _, err = tacit("train", "odd.csv", "--schema", "zero.toml", "--rounds", 3)
    assert code == 0
    assert "column 'ward': 1 of 121 values are no category of the schema" in err
    assert tacit("validate", "odd.csv", "--schema", "schema.toml")[0] == 1
    assert tacit("train", "odd.csv", "--schema", "schema.toml", "--rounds", 3)[0] == 2


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["nowhere.csv", "--schema", "schema.toml"], "nowhere.csv"),
        (["clean.csv", "--schema", "nowhere.toml"], "nowhere.toml"),
        (["schema.toml", "--schema", "clean.csv"], "must be TOML"),
        (["broken.parquet", "--schema", "schema.toml"], "must be Parquet; broken.parquet is not"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(tacit, folder, args, why):
    (folder / "broken.parquet").write_text("no")
    code, out, err = tacit("validate", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err


def test_parquet_and_csv_give_the_same(tacit, folder):
    said = {}
    for kind in ("csv", "parquet"):
        _, draft, _ = tacit("schema", f"clean.{kind}", "--label", "died", "--site", "hospital")
        code, _, err = tacit(
            "train", f"clean.{kind}", "--schema", "schema.toml", "--rounds", 20, "--out", f"{kind}.json"
        )
        assert code == 0, err
        assert tacit("predict", f"{kind}.json", f"clean.{kind}", "--out", f"{kind}-out.csv")[0] == 0
        model = json.loads((folder / f"{kind}.json").read_text())
        said[kind] = (draft, model["weights"], (folder / f"{kind}-out.csv").read_text())
    assert said["csv"] == said["parquet"]
    assert 'ids = ["patient"]' in said["csv"][0]


def test_a_terminal_shows_that_a_large_file_is_read(tmp_path, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, width=80))
    for size, shown in ((10, False), (7 << 20, True)):
        file = tmp_path / f"{size} [b].csv"
        file.write_bytes(b"x" * size)
        with console.working("reading", file):
            pass
        assert (f"reading {file.name} (the first time" in screen.getvalue()) == shown
    with console.working("reading", "adult"):  # no file
        pass
