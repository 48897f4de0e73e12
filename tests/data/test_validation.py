"""Validation finds everything that encoding refuses, and says where and what to do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data import Bands, Category, Classes, Finding, Number, Schema, Sites, Table, Target, read_csv, validate
from tacit.data.table import RaggedError
from tacit.data.validation import ragged
from tacit.errors import InputError


def table(**columns: list[str]) -> Table:
    return Table({name: np.array(cells, dtype=object) for name, cells in columns.items()}, source="people.csv")


def schema(**how) -> Schema:
    return Schema(
        label=how.pop("label", Classes("died", positive=("yes",), negative=("no",))),
        columns=(
            Number("age", bounds=(0, 110)),
            Bands("age", edges=(0, 18, 120)),
            Category("sex", categories=("Female", "Male")),
        ),
        **how,
    )


GOOD = {"age": ["30", "40", "50", "60"], "sex": ["Male", "Female", "Male", "Male"], "died": ["no", "yes", "no", "no"]}


def found(agreed=None, **cells) -> list[Finding]:
    return validate(table(**GOOD | cells), agreed or schema())


def test_a_good_file_has_nothing():
    assert found() == []


@pytest.mark.parametrize(
    ("cells", "column", "problem", "values"),
    [
        (
            {"sex": ["male", "fe male", "male", "Femal"]},
            "sex",
            "unknown category",
            [
                ("male", 2, [1, 3], "did you mean 'Male'? (case or blanks)"),
                ("fe male", 1, [2], "did you mean 'Female'? (case or blanks)"),
                ("Femal", 1, [4], "did you mean 'Female'?"),
            ],
        ),
        (
            {"sex": ["Male", "N/A", "7", "Male"]},
            "sex",
            "unknown category",
            [
                ("N/A", 1, [2], "does it mean missing? List it in missing_values"),
                ("7", 1, [3], 'correct it, or add it to the schema, or set unknown = "zero" there'),
            ],
        ),
        (
            {"age": ["30", "12,5", "2024-01-31", "70 kg"]},
            "age",
            "not a number",
            [
                ("12,5", 1, [2], "a decimal comma? Write 12.5"),
                ("2024-01-31", 1, [3], "a date: write a number, such as an age"),
                ("70 kg", 1, [4], "a unit? Write 70"),
            ],
        ),
        (
            {"age": ["30", "1.234,5", "nan", "inf"]},
            "age",
            "not a number",
            [
                ("1.234,5", 1, [2], "a decimal comma? Write 1234.5"),
                ("nan", 1, [3], "does it mean missing? List it in missing_values"),
                ("inf", 1, [4], "correct it, or list it in missing_values of the schema"),
            ],
        ),
        (
            {"died": ["no", "Yes", "no", "no"]},
            "died",
            "unknown label",
            [("Yes", 1, [2], "did you mean 'yes'? (case or blanks)")],
        ),
        (
            {"sex": ["?", "", "?", "Male"]},
            "sex",
            "missing",
            [
                ("?", 2, [1, 3], "fill it in, or set missing in the schema"),
                ("", 1, [2], "fill it in, or set missing in the schema"),
            ],
        ),
    ],
)
def test_problems(cells, column, problem, values):
    assert [(each.column, each.problem, each.warning) for each in found(**cells)] == [(column, problem, False)]
    assert found(**cells)[0].values == values
    assert found(**cells)[0].cells == sum(value[1] for value in values)


def test_a_record_without_a_label_has_to_be_taken_out():
    missing, unknown = found(schema(missing="zero"), died=["no", "yes", "", "unknown"])
    assert missing.values[0].suggestion == "fill it in, or take the record out"
    assert unknown.values[0].suggestion == "does it mean missing? Fill it in, or take the record out"


def test_a_draft_says_that_labels_are_spelled_alike():
    _, notes = Schema.draft(table(**GOOD | {"died": ["no", "Yes", "yes", "maybe"]}), label="died")
    assert "label 'died': 'Yes' and 'yes' differ only by case or blanks; write one of them everywhere" in notes


def test_values_outside_the_bounds_are_warnings():
    number, bands = found(age=["30", "999", "120", "-5"])
    code = "a code for missing? Empty the cell, or list it in missing_values"
    assert (number.problem, number.cells, number.warning) == ("clipped", 3, True)
    assert [tuple(value) for value in number.values] == [
        ("999", 1, [2], f"outside 0 to 110: counts as 110; {code}"),
        ("120", 1, [3], "outside 0 to 110: counts as 110"),
        ("-5", 1, [4], "outside 0 to 110: counts as 0"),
    ]
    assert bands.values[1].suggestion == "outside 0 to 120: counts in the nearest band"


def test_a_numeric_label_is_checked_by_its_bounds():
    target = schema(label=Target("died", bounds=(0, 10)))
    clipped = found(target, died=["1", "2", "3", "11"])
    assert [(each.column, each.problem, each.warning) for each in clipped] == [("died", "clipped", True)]
    wrong = found(target, died=["1", "2", "3", "x"])
    assert [(each.column, each.problem, each.warning) for each in wrong] == [("died", "not a number", False)]


def test_a_missing_column_and_the_rest_of_the_file():
    cells = {"age": ["30", "x", "50", "60"], "Sex ": GOOD["sex"], "died": GOOD["died"]}
    lacking, number = validate(table(**cells), schema())
    assert (lacking.column, lacking.problem, lacking.values[0].suggestion) == (
        "sex",
        "missing column",
        "did you mean 'Sex '? Rename it",
    )
    for columns, advice in (
        (["sex_at_birth", "age"], "did you mean 'sex_at_birth'? Rename it"),
        (["sex_at_birth", "sex_now", "age"], "add it"),  # which of the two, only a person can know
    ):
        (lacking,) = validate(table(**dict.fromkeys(columns, GOOD["age"]), died=GOOD["died"]), schema())
        assert lacking.values[0].suggestion == advice
    assert (number.column, number.problem) == ("age", "not a number")
    assert {each.column for each in validate(table(other=["1"]), schema(missing="drop"))} == {"age", "sex", "died"}


def test_what_the_schema_forgives_is_a_warning():
    agreed = schema(missing="zero", unknown="zero")
    missing, unknown = found(agreed, age=["", "40", "50", "60"], sex=["Male", "male", "Male", "Male"])
    assert (missing.problem, missing.warning) == ("missing", True)
    assert missing.values[0].suggestion == "counts as 0, the lower bound; counts as none of the bands"
    assert (unknown.problem, unknown.warning) == ("unknown category", True)
    assert unknown.values[0].suggestion.endswith("counts as none of those listed")
    (label,) = found(agreed, died=["", "no", "no", "no"])  # a row without its label is of no use
    assert (label.problem, label.warning) == ("missing", False)
    (empty,) = found(agreed, sex=["", *GOOD["sex"][1:]])
    assert empty.values[0].suggestion == "counts as none of those listed"
    (dropped,) = found(schema(missing="drop"), age=["", "40", "50", "60"], sex=["male", *GOOD["sex"][1:]])
    assert (dropped.values[0].suggestion, dropped.warning) == ("the rows are left out", True)


def test_sites_and_ids():
    agreed = schema(sites=Sites("hospital", ("alder", "birch")), ids=("patient", "visit"))
    cells = {
        "hospital": ["alder", "Birch", "", "cedar"],
        "patient": ["1", "1", "2", "2"],
        "visit": ["1", "2", "1", "1"],
    }
    sites, twice = found(agreed, **cells)
    assert (sites.column, sites.problem, sites.warning) == ("hospital", "unknown site", False)
    assert [value.suggestion for value in sites.values] == [
        "did you mean 'birch'? (case or blanks)",
        "every record needs a site",
        "correct it, or add it to the names in [sites]",
    ]
    assert (twice.column, twice.problem, twice.cells, twice.warning) == ("patient, visit", "duplicate id", 2, True)
    assert twice.values[0][:3] == ("2 1", 2, [3, 4])
    absent = found(agreed)
    assert [(each.column, each.problem, each.warning) for each in absent] == [
        (name, "missing column", True) for name in ("hospital", "patient", "visit")
    ]


def test_long_lists_are_cut_and_counted():
    cells = {"age": ["30"] * 60, "died": ["no"] * 60, "sex": ["x"] * 30 + [f"y{k}" for k in range(30)]}
    (each,) = validate(table(**cells), schema())
    assert (each.cells, len(each.values), each.more) == (60, 5, 26)
    assert each.values[0][:3] == ("x", 30, [1, 2, 3, 4, 5])


def test_lines_of_another_length(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex,died\n30,Male,no\n12,5,Male,no\n\n40,Male\n50,male,no\n13,5,Male,no\n")
    with pytest.raises(RaggedError, match=r"must have the 3 cells of the header; people\.csv line 3 has 4;") as error:
        read_csv(path)
    each = ragged(error.value)
    assert (each.cells, [value[:3] for value in each.values]) == (3, [("4 cells", 2, [3, 7]), ("2 cells", 1, [5])])
    (unknown,) = validate(error.value.rest, schema())
    assert unknown.values[0][:3] == ("male", 1, [6])


CELLS = {
    "age": st.sampled_from(["30", "5e1", "130", "-1", "x", "12,5", "nan", "", "?"]),
    "sex": st.sampled_from(["Female", "Male", "male", "", "?"]),
    "died": st.sampled_from(["yes", "no", "No", "", "?"]),
}


@settings(max_examples=300, deadline=None)
@given(
    cells=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5),
    missing=st.sampled_from(["refuse", "zero", "drop"]),
    unknown=st.sampled_from(["refuse", "zero"]),
)
def test_a_file_has_problems_if_and_only_if_encoding_refuses_it(cells, missing, unknown):
    agreed = schema(missing=missing, unknown=unknown)
    people = table(**{name: [row[name] for row in cells] for name in CELLS})
    listed = validate(people, agreed)
    problems = [each for each in listed if not each.warning]
    try:
        data, refused = agreed.encode(people), None
    except InputError as error:
        data, refused = None, str(error)
    if refused is None:
        assert not problems
        assert {each.column for each in listed if each.problem == "clipped"} == set(data.clipped)
        assert {e.column: e.cells for e in listed if e.problem == "unknown category"} == data.unknown
    elif "every row" in refused:
        assert "every row lacks a value" in [each.problem for each in problems]
    else:  # the cell that encode names is in the list
        values = [(each.column, value) for each in problems for value in each.values]
        named = [f"row {at}, column {name!r} holds {value.text!r}" for name, value in values for at in value.first]
        assert any(each in refused for each in named)


def test_what_the_schema_says_already_is_not_advised():
    (unknown,) = found(schema(unknown="zero"), sex=["Male", "7", "Male", "Male"])
    assert unknown.values[0].suggestion == "correct it, or add it to the schema; counts as none of those listed"
