"""The schema: known answers, laws of the encoding, and every refusal."""

import copy
import json
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from tacit.data import Bands, Category, Classes, Dataset, Multiclass, Number, Schema, Sites, Table, Target
from tacit.errors import InputError

INCOME = Classes("income", positive=(">50K",), negative=("<=50K",))


def table(**columns: list[str]) -> Table:
    return Table({name: np.array(cells, dtype=object) for name, cells in columns.items()}, source="people.csv")


def dense(data: Dataset) -> np.ndarray:
    return data.X.toarray() if isinstance(data.X, csr_array) else data.X


def survey(rows: int = 200, seed: int = 0) -> Table:
    """Random people, some cells missing."""
    rng = np.random.default_rng(seed)
    return table(
        age=[str(age) for age in rng.integers(10, 110, rows)],
        gain=[f"{gain:.2f}" for gain in rng.exponential(1000, rows)],
        job=rng.choice(["clerk", "cook", "?", "farmer"], rows).tolist(),
        town=rng.choice([f"town{k}" for k in range(30)], rows).tolist(),
        income=rng.choice(["<=50K", ">50K"], rows).tolist(),
    )


SURVEY = Schema(
    label=INCOME,
    columns=(
        Number("age", bounds=(17, 90)),
        Bands("age", edges=(17, 25.5, 65, 100)),
        Number("gain", bounds=(0, 2000), scale="log"),
        Category("job", categories=("clerk", "cook", "farmer")),
        Category("town", categories=tuple(f"town{k}" for k in range(30))),
    ),
    intercept=True,
    row_norm=1.0,
    missing="zero",
)


def variant(**settings: object) -> Schema:
    return Schema.from_dict({**SURVEY.to_dict(), **settings})


class TestKnownAnswers:
    def test_linear_and_log_numbers(self):
        schema = Schema(label=INCOME, columns=(Number("a", bounds=(-10, 30)), Number("b", bounds=(1, 10), scale="log")))
        data = schema.encode(table(a=["-10", "0", "30"], b=["1", "4", "1e1"], income=["<=50K", ">50K", ">50K"]))
        np.testing.assert_allclose(
            dense(data), [[0, 0], [0.25, math.log(4) / math.log(10)], [1, 1]], rtol=1e-15, atol=0
        )
        assert data.y.tolist() == [-1, 1, 1]
        assert data.clipped == {}

    def test_bands_are_half_open(self):
        schema = Schema(label=INCOME, columns=(Bands("a", edges=(0, 10, 20)),))
        data = schema.encode(table(a=["0", "9.999", "10", "19"]), labelled=False)
        assert dense(data).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert data.clipped == {}

    def test_values_outside_are_clipped_and_counted(self):
        schema = Schema(
            label=Target("y", bounds=(0, 10)), columns=(Number("a", bounds=(0, 10)), Bands("b", edges=(0, 1, 2)))
        )
        data = schema.encode(table(a=["-1", "11", "5"], b=["-1", "1", "2"], y=["0", "10", "20"]))
        assert dense(data).tolist() == [[0, 1, 0], [1, 0, 1], [0.5, 0, 1]]
        assert data.clipped == {"a": 2, "b": 2, "y": 1}
        assert data.y.tolist() == [-1, 1, 1]

    def test_a_column_used_twice_counts_each_clipped_row_once(self):
        schema = Schema(label=INCOME, columns=(Number("a", bounds=(0, 10)), Bands("a", edges=(0, 5, 20))))
        assert schema.encode(table(a=["15", "25", "3"]), labelled=False).clipped == {"a": 2}

    def test_target_is_scaled_to_plus_minus_one(self):
        schema = Schema(label=Target("y", bounds=(100, 300)), columns=(Number("a", bounds=(0, 1)),))
        assert schema.encode(table(a=["1", "1", "1"], y=["100", "250", "300"])).y.tolist() == [-1, 0.5, 1]

    def test_feature_names(self):
        columns = (Number("age", bounds=(0, 1)), Bands("age", edges=(17, 25, 99.5)), Category("job", ("a", "b")))
        schema = Schema(label=INCOME, columns=columns, intercept=True)
        assert schema.feature_names == ("age", "age=17..25", "age=25..99.5", "job=a", "job=b", "intercept")
        assert schema.dimension == 6

    def test_missing_drop_zero_refuse(self):
        people = table(a=["1", "?", "1"], job=["x", "x", ""], income=[">50K", "<=50K", ">50K"])
        columns = (Number("a", bounds=(0, 1)), Category("job", categories=("x",)))
        dropped = Schema(label=INCOME, columns=columns, missing="drop").encode(people)
        assert (dropped.kept.tolist(), dense(dropped).tolist(), dropped.y.tolist()) == ([0], [[1, 1]], [1])
        zeroed = Schema(label=INCOME, columns=columns, missing="zero").encode(people)
        assert dense(zeroed).tolist() == [[1, 1], [0, 1], [1, 0]]
        with pytest.raises(InputError, match=r"people\.csv row 2, column 'a' holds '\?'"):
            Schema(label=INCOME, columns=columns).encode(people)

    def test_unknown_categories_refused_or_zeroed_and_counted(self):
        people = table(a=["x", "z", "?", "z"], b=["1", "1", "1", "7"], income=[">50K"] * 4)
        columns = (Category("a", categories=("x", "y")), Category("b", categories=("1",)), Category("b", ("7",)))
        with pytest.raises(InputError, match=r"people\.csv row 2, column 'a' holds 'z'"):
            Schema(label=INCOME, columns=columns, missing="zero").encode(people)
        zeroed = Schema(label=INCOME, columns=columns, missing="zero", unknown="zero").encode(people)
        assert dense(zeroed).tolist() == [[1, 0, 1, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        assert zeroed.unknown == {"a": 2, "b": 4}  # "b" is used twice, and no cell is in both lists
        assert zeroed.take([0]).unknown == zeroed.unknown
        for cells in ({"income": ["?"] * 4}, {"income": ["50K"] * 4}):
            with pytest.raises(InputError, match="column 'income'"):
                Schema(label=INCOME, columns=columns, missing="zero", unknown="zero").encode(
                    table(**{"a": ["x"] * 4, "b": ["1"] * 4} | cells)
                )

    def test_ids_are_text_of_the_file_and_not_needed_to_encode(self):
        schema = variant(ids=["ward", "patient"], missing="drop")
        people = survey(5)
        data = schema.encode(people)
        assert np.array_equal(dense(data), dense(variant(missing="drop").encode(people)))
        with pytest.raises(InputError, match=r"people\.csv has no column 'ward'"):
            schema.id_cells(people)
        people.columns["patient"] = np.array(["007", "8", "9", "10", "11"], dtype=object)
        people.columns["ward"] = np.array(["", "a", "b", "c", "d"], dtype=object)
        cells = schema.id_cells(people)
        assert (list(cells), cells["patient"].tolist()) == (["ward", "patient"], ["007", "8", "9", "10", "11"])
        assert schema.id_cells(people, np.array([2, 0]))["patient"].tolist() == ["9", "007"]
        assert variant().id_cells(people) == {}


class TestLaws:
    @pytest.mark.parametrize("missing", ["drop", "zero"])
    def test_unlabelled_features_equal_labelled_ones(self, missing):
        people, schema = survey(), variant(missing=missing)
        labelled = schema.encode(people)
        del people.columns["income"]
        unlabelled = schema.encode(people, labelled=False)
        assert unlabelled.y is None
        assert np.array_equal(dense(unlabelled), dense(labelled))
        assert np.array_equal(unlabelled.kept, labelled.kept)

    def test_permuting_rows_permutes_the_encoding(self):
        people = survey()
        order = np.random.default_rng(1).permutation(len(people))
        shuffled = Table({name: cells[order] for name, cells in people.columns.items()}, source="shuffled")
        one, other = SURVEY.encode(people), SURVEY.encode(shuffled)
        assert np.array_equal(dense(one)[order], dense(other))
        assert np.array_equal(one.y[order], other.y)
        assert one.clipped == other.clipped != {}

    def test_a_row_is_encoded_alike_alone_and_among_others(self):
        """All organisations encode alike: nothing is learnt from the rest of the file."""
        people = survey()
        together = dense(SURVEY.encode(people))
        for row in (0, 7, 199):
            alone = Table({name: cells[[row]] for name, cells in people.columns.items()}, source="alone")
            assert np.array_equal(dense(SURVEY.encode(alone))[0], together[row])

    def test_rows_are_scaled_down_to_row_norm_and_never_up(self):
        free = dense(variant(row_norm=0).encode(survey()))
        for bound in (0.5, 1.9, 100.0):
            norms = np.linalg.norm(free, axis=1)
            scaled = dense(variant(row_norm=bound).encode(survey()))
            np.testing.assert_allclose(scaled, free / np.maximum(1, norms / bound)[:, None], rtol=1e-14)
            assert np.linalg.norm(scaled, axis=1).max() <= bound * (1 + 1e-12)

    def test_numbers_stay_in_the_unit_interval(self):
        X = dense(variant(row_norm=0).encode(survey()))
        assert X.min() >= 0
        assert X.max() <= 1

    def test_sparse_below_half_full_and_dense_otherwise(self):
        sparse = SURVEY.encode(survey()).X
        assert isinstance(sparse, csr_array)
        assert (sparse.data.dtype, sparse.indices.dtype, sparse.indptr.dtype) == (np.float64, np.int32, np.int32)
        assert sparse.data.all()
        assert all(
            np.all(np.diff(sparse.indices[a:b]) > 0) for a, b in zip(sparse.indptr[:-1], sparse.indptr[1:], strict=True)
        )
        half = Schema(label=INCOME, columns=(Category("job", ("a", "b")),)).encode(
            table(job=["a", "b"]), labelled=False
        )
        assert isinstance(half.X, np.ndarray)

    def test_json_and_toml_round_trips(self, tmp_path):
        names = ('say "x"', "back\\slash", "tab\tnew\nline", "naïve 日本 🐍", "del\x7f", "a#b=[c]")
        odd = Schema(
            label=Target("y", bounds=(-0.1, 1e300)),
            columns=(
                Category(names[0], categories=names),
                Bands("b", edges=(0.1, 1 / 3, 2**60)),
                Number("c", (0, 1e-300), "log"),
            ),
            missing="zero",
            missing_values=(),
            row_norm=1 / 3,
            sites=Sites("town", names=names),
            unknown="zero",
            ids=(names[1], "patient"),
        )
        path = tmp_path / "schema.toml"
        for schema in (SURVEY, odd):
            assert Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False))) == schema
            path.write_text(schema.to_toml(), encoding="utf-8")
            assert Schema.from_toml(path) == schema
        assert odd != SURVEY


class TestRefusedCells:
    schema = Schema(label=INCOME, columns=(Number("a", bounds=(0, 1)), Category("job", ("x", "y"))), missing="zero")

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            ({"a": ["1", "one"]}, "row 2, column 'a' holds 'one'"),
            ({"a": ["1", "nan"]}, "row 2, column 'a' holds 'nan'"),
            ({"a": ["-inf", "1"]}, "row 1, column 'a' holds '-inf'"),
            ({"a": ["?", "x1"]}, "row 2, column 'a' holds 'x1'"),
            ({"job": ["x", "z"]}, "row 2, column 'job' holds 'z'"),
            ({"income": ["<=50K", "50K"]}, "row 2, column 'income' holds '50K'"),
            ({"income": ["?", ">50K"]}, "no value may be missing here; people.csv row 1, column 'income' holds '?'"),
        ],
    )
    def test_by_row_column_and_value(self, cells, message):
        people = table(**{"a": ["0", "1"], "job": ["x", "y"], "income": ["<=50K", ">50K"]} | cells)
        with pytest.raises(InputError) as error:
            self.schema.encode(people)
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    def test_line_of_the_file_is_named(self):
        people = Table({"a": np.array(["1", "no"], dtype=object)}, source="p.csv", lines=np.array([2, 5]))
        with pytest.raises(InputError, match=r"p\.csv line 5, column 'a' holds 'no'"):
            Schema(label=INCOME, columns=(Number("a", bounds=(0, 1)),)).encode(people, labelled=False)

    def test_absent_column_lists_those_there_are(self):
        with pytest.raises(InputError, match=r"no column 'job'; its columns are: a, b"):
            self.schema.encode(table(a=["1"], b=["1"]), labelled=False)

    def test_file_of_incomplete_rows_only(self):
        schema = Schema(label=INCOME, columns=(Number("a", bounds=(0, 1)),), missing="drop")
        with pytest.raises(InputError, match=r"every row of people\.csv has a missing value"):
            schema.encode(table(a=["?", ""]), labelled=False)


GOOD = {
    "version": 1,
    "label": {"column": "y", "positive": ["1"], "negative": ["0"]},
    "columns": [
        {"name": "a", "kind": "number", "bounds": [0, 1]},
        {"name": "b", "kind": "bands", "edges": [0, 1, 2]},
        {"name": "c", "kind": "category", "categories": ["u", "v"]},
    ],
}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 2, "version = 1; got 2"),
        (["colour"], "red", "got 'colour'"),
        (["intercept"], 1, "intercept must be true or false; got 1"),
        (["row_norm"], -1, "row_norm must be a finite number, 0 or more; got -1"),
        (["row_norm"], math.inf, "got inf"),
        (["row_norm"], "1", "got '1'"),
        (["missing"], "skip", "got 'skip'"),
        (["sites"], ["u"], "[sites] must be a table with column and names; got ['u']"),
        (["sites"], {"column": "d"}, "[sites] must set names; it is absent"),
        (["sites"], {"column": "d", "names": ["u"], "kind": "x"}, "[sites] may set column, names; got 'kind'"),
        (["sites"], {"column": 3, "names": ["u"]}, "column in [sites] must be a string; got 3"),
        (["sites"], {"column": "d", "names": ["u", "u"]}, "names in [sites] must differ; 'u' is there twice"),
        (["sites"], {"column": "d", "names": ["?"]}, "'?' of column 'd' is also in missing_values"),
        (["sites"], {"column": "y", "names": ["u"]}, "the sites must not be the label; column 'y' is both"),
        (["sites"], {"column": "c", "names": ["u"]}, None),  # a site may be learned from: `tacit train` warns
        (["unknown"], "drop", 'unknown must be "zero" or "refuse"; got \'drop\''),
        (["ids"], "patient", "ids must be a list; got 'patient'"),
        (["ids"], [3], "ids must be a list of strings; got [3]"),
        (["ids"], ["a"], "an id must not be the label or a feature; column 'a' is both"),
        (["ids"], ["p", "y"], "an id must not be the label or a feature; column 'y' is both"),
        (["ids"], ["p", "p"], "ids must differ; 'p' is there twice"),
        (["missing_values"], [0], "missing_values must be a list of strings; got [0]"),
        (["missing_values"], "?", "missing_values must be a list; got '?'"),
        (["missing_values"], ["u"], "'u' of column 'c' is also in missing_values"),
        (["missing_values"], ["0"], "'0' of column 'y' is also in missing_values"),
        (["columns"], [], "at least one column"),
        (["columns"], {"name": "a"}, "columns must be a list; got {'name': 'a'}"),
        (["columns", 0], "age", "[[columns]] number 1 must be a table of settings; got 'age'"),
        (["columns", 0, "kind"], "numbre", "[[columns]] number 1 must be one of number, bands, category; got 'numbre'"),
        (["columns", 0, "name"], 3, "name in [[columns]] number 1 must be a string; got 3"),
        (["columns", 0, "edges"], [1], "got 'edges'"),
        (["columns", 0, "bounds"], [1, 1], "column 'a' has [1.0, 1.0]"),
        (["columns", 0, "bounds"], [0, 1, 2], "column 'a' has [0.0, 1.0, 2.0]"),
        (["columns", 0, "bounds"], [0, math.nan], "bounds of column 'a' must be finite numbers; got nan"),
        (["columns", 0, "bounds"], [-1e308, 1e308], "at a finite distance"),
        (["columns", 0, "bounds"], [0, True], "got True"),
        (["columns", 0, "bounds"], [0, "1"], "got '1'"),
        (["columns", 0, "scale"], "cubic", "column 'a' has 'cubic'"),
        (["columns", 1, "edges"], [0], "column 'b' has [0]"),
        (["columns", 1, "edges"], [0, 2, 1], "column 'b' has [0, 2, 1]"),
        (["columns", 1, "edges"], [0, math.inf], "edges of column 'b' must be finite numbers; got inf"),
        (["columns", 1, "name"], "c", None),  # bands and categories of one column are allowed
        (["columns", 2, "categories"], ["u", "u"], "categories of column 'c' must differ; 'u' is there twice"),
        (["columns", 2, "categories"], [], "at least one string; got []"),
        (["columns", 2, "categories"], "uv", "at least one string; got 'uv'"),
        (["columns", 2, "categories"], [1], "got 1"),
        (["columns", 2, "categories"], [" u"], "got ' u'"),
        (["columns", 2, "name"], "y", "column 'y' is both"),
        (["columns", 1], {"name": "a", "kind": "number", "bounds": [0, 9]}, "'a' is there twice"),
        (["label"], {"column": "y"}, "[label] of kind 'classes' must set negative"),
        (["label", "positive"], ["0"], "'0' of label 'y' is both"),
        (["label", "kind"], "rank", "must be one of classes, multiclass, number; got 'rank'"),
        (["label", "positive_share"], 0, "must be above 0 and below 1"),
        (["label", "positive_share"], "0.1", "must be finite numbers; got '0.1'"),
        (["label", "weights"], [1, 0], "2 positive numbers"),
        (["label", "weights"], [1], "2 positive numbers"),
        (["label"], {"column": "y", "kind": "multiclass", "classes": ["0", "1"]}, "three classes or more"),
        (["label"], {"column": "y", "kind": "multiclass", "classes": ["0", "1", "?"]}, "'?' of column 'y'"),
        (
            ["label"],
            {"column": "y", "kind": "multiclass", "classes": ["0", "1", "2"], "shares": [0.5, 0.4, 0.2]},
            "add up to 1.1",
        ),
        (["label"], {"column": "y", "kind": "number", "bounds": [2, 1]}, "label 'y' has [2.0, 1.0]"),
    ],
)
def test_bad_schemas_are_refused_at_construction(path, value, message):
    data = copy.deepcopy(GOOD)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if message is None:
        Schema.from_dict(data)
        return
    with pytest.raises(InputError) as error:
        Schema.from_dict(data)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_schema_files_that_cannot_be_read_are_refused_by_name(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("version = \n")
    with pytest.raises(InputError, match=r"must be TOML; s\.toml is not: .*line 1"):
        Schema.from_toml(path)
    path.write_text("version = 1\nlabel = 3\ncolumns = []\n")
    with pytest.raises(InputError, match=r"^s\.toml: \[label\] must be a table of settings; got 3"):
        Schema.from_toml(path)
    with pytest.raises(InputError, match=r"none\.toml does not"):
        Schema.from_toml(tmp_path / "none.toml")


class TestDraft:
    def test_numbers_categories_and_the_warning(self):
        people = table(age=["20", "30", "?"], job=["cook", "clerk", "cook"], ill=["no", "yes", "no"])
        schema, notes = Schema.draft(people, label="ill")
        assert schema.columns == (Number("age", bounds=(20, 30)), Category("job", categories=("clerk", "cook")))
        assert schema.label == Classes("ill", positive=("yes",), negative=("no",))
        assert any("are themselves a leak" in note and "public knowledge" in note for note in notes)
        assert any("'age': 1 of 3 rows lack a value" in note for note in notes)
        assert len(schema.encode(people)) == 2

    @pytest.mark.parametrize(
        ("cells", "label"),
        [
            (["0", "1", "1"], Classes("y", positive=("1",), negative=("0",))),
            (["-1", "+1", "1.0"], Classes("y", positive=("+1", "1.0"), negative=("-1",))),
            (["10", "9", "?"], Classes("y", positive=("10",), negative=("9",))),
            (["<=50K", ">50K", ">50K"], Classes("y", positive=(">50K",), negative=("<=50K",))),
            (["1", "2", "3.5"], Target("y", bounds=(1, 3.5))),
            (["b", "c", "a"], Multiclass("y", classes=("a", "b", "c"))),
        ],
    )
    def test_labels(self, cells, label):
        assert Schema.draft(table(a=["1", "2", "3"], y=cells), label="y")[0].label == label

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            (["a", "a", "?"], "column 'y' of people.csv has 1: a;"),
            (["1", "1.0", "1"], "column 'y' of people.csv has 1: 1, 1.0;"),
            (["?", "", "?"], "column 'y' of people.csv has 0: none;"),
        ],
    )
    def test_labels_without_two_classes_are_refused(self, cells, message):
        with pytest.raises(InputError) as error:
            Schema.draft(table(a=["1", "2", "3"], y=cells), label="y")
        assert message in str(error.value)

    def test_absent_label_lists_the_columns(self):
        with pytest.raises(InputError, match=r"no column 'z'; its columns are: a, y"):
            Schema.draft(table(a=["1", "2"], y=["0", "1"]), label="z")

    @pytest.mark.parametrize(
        ("name", "cells", "note"),
        [
            ("patient_id", ["1", "1"] * 60, "its name says that it is an identifier"),
            ("PatientID", ["x", "y"] * 60, "its name says that it is an identifier"),
            ("code", [f"c{k}" for k in range(120)], "all its values differ"),
            ("number", [str(k) for k in range(5, 125)], "it numbers the rows"),
            ("text", [f"c{k}" for k in range(101)] + ["c0"] * 19, "it is text of 101 distinct values, more than 100"),
            ("always", ["x"] * 120, "it has 1 distinct values"),
        ],
    )
    def test_columns_left_out_with_a_note(self, name, cells, note):
        people = table(**{"paid": ["1", "2"] * 60, name: cells, "y": ["0", "1"] * 60})
        schema, notes = Schema.draft(people, label="y")
        assert [column.name for column in schema.columns] == ["paid"]
        assert any(f"column {name!r} is left out: {note}" in line for line in notes)

    def test_a_hundred_categories_are_few_enough(self):
        cells = [f"c{k:03}" for k in range(100)] + ["c000"] * 20
        schema, _ = Schema.draft(table(text=cells, y=["0", "1"] * 60), label="y")
        assert schema.columns == (Category("text", categories=tuple(sorted(set(cells)))),)

    def test_nothing_to_learn_from_is_refused(self):
        with pytest.raises(InputError, match=r"needs a column to learn from; people\.csv has none"):
            Schema.draft(table(id=["1", "2"], y=["0", "1"]), label="y")

    def test_draft_round_trips_and_encodes_its_own_file(self):
        schema, _ = Schema.draft(survey(), label="income")
        assert Schema.from_dict(schema.to_dict()) == schema
        assert schema.encode(survey()).clipped == {}

    def test_columns_that_look_like_ids_are_in_ids(self):
        columns = {
            "patient_id": ["1", "1"] * 60,
            "code": [f"c{k}" for k in range(120)],
            "number": [str(k) for k in range(120)],
            "note": [f"slept {k} hours" for k in range(120)],
            "phone": ["1", "2"] * 60,
            "paid": ["1", "2"] * 60,
        }
        schema, notes = Schema.draft(table(**columns, y=["0", "1"] * 60), label="y")
        assert schema.ids == ("patient_id", "code", "number")
        assert [column.name for column in schema.columns] == ["paid"]
        assert sum("it is in ids, so tacit predict copies it" in note for note in notes) == 3
        assert any("'note' is left out: all its values differ" in note for note in notes)

    @pytest.mark.parametrize(
        "cells",
        [
            ["2024-01-31", "2023-12-01", "2024-01-30"],
            ["31.1.2024", "1.12.2023", "30.1.2024"],
            ["1/31/24", "12/1/23 10:15", "1/30/24"],
            ["20240131", "20231201", "20240130"],
            ["2024-01-31 00:00:00", "2023-12-01T10:00", "2024-01-30"],
        ],
    )
    def test_dates_are_left_out(self, cells):
        schema, notes = Schema.draft(table(a=["1", "2", "3"], when=cells, y=["0", "1", "1"]), label="y")
        assert [column.name for column in schema.columns] == ["a"]
        assert any("column 'when' is left out: it holds dates" in note for note in notes)

    @pytest.mark.parametrize(
        ("cells", "doubt"),
        [
            (["18", "95", "999", "999.0"], "999 (2 times): far from the others, which lie between 18 and 95"),
            (["1", "2", "3", "99", "98"], "98 (once), 99 (once): far from the others"),
            (["0", "1", "2", "30", "-1"], "-1 (once): far from the others, which lie between 0 and 30"),
            (["18", "50", "95", "99"], None),
            (["-1", "1"], None),
            (["-5", "-1", "3", "8"], None),
            (["900", "999", "1001"], None),
            (["F", "M", "f"], "'F' and 'f' differ only by case or blanks"),
            (["New York", "Newark", "new  york"], "'New York' and 'new  york' differ only by case or blanks"),
            (["F", "M"], None),
            (["70", "71,5", "80"], "most of its values are numbers, but not '71,5'"),
        ],
    )
    def test_doubtful_values(self, cells, doubt):
        _, notes = Schema.draft(table(a=cells, y=["0", "1"] * (len(cells) // 2) + ["1"] * (len(cells) % 2)), label="y")
        doubts = [note for note in notes if note.startswith("column 'a': ")]
        assert len(doubts) == (doubt is not None)
        assert doubt is None or doubt in doubts[0]

    @pytest.mark.parametrize(
        ("cells", "note"),
        [
            ([f"{k % 40 + 60} kg" for k in range(240)], ": {}'60 kg': a unit? Write 60"),
            (
                [f"{k % 120},5" for k in range(240)],
                " is left out: it is text of 120 distinct values, more than 100; {}'0,5': a decimal comma? Write 0.5",
            ),
            (
                [f"{k},5" for k in range(240)],
                " is left out: all its values differ; {}'0,5': a decimal comma? Write 0.5",
            ),
            ([("1st", "2nd", "3rd")[k % 3] for k in range(240)], None),
        ],
    )
    def test_numbers_that_are_written_as_text_get_the_hint_of_validate(self, cells, note):
        _, notes = Schema.draft(table(a=["1", "2"] * 120, weight=cells, y=["0", "1"] * 120), label="y")
        assert [line for line in notes if "column 'weight'" in line] == (
            [f"column 'weight'{note}".format("most of its values look like numbers, such as ")] if note else []
        )

    def test_a_column_of_numbers_with_a_few_typos_stays_one(self):
        ages = [str(20 + k % 70) for k in range(300)]
        ages[7], ages[100], ages[200] = "4O", "n", "4O"
        wards = [("n", "w")[k % 2] for k in range(300)]
        records = table(age=ages, ward=wards, y=["0", "1", "1"] * 100)
        schema, notes = Schema.draft(records, label="y")
        assert schema.columns[0] == Number("age", bounds=(20, 89))
        listed = (
            "column 'age': its cells are numbers, but for '4O' (row 8), 'n' (row 101), '4O' (row 201); correct them"
        )
        assert listed in notes
        # A ward is called n: where it means something, it cannot mean missing.
        assert schema.missing_values == ("?", "", "NA", "N/A", "null", "4O")
        ages[100] = "50"
        records = table(age=ages, ward=wards, y=["0", "1", "1"] * 100)
        assert len(Schema.draft(records, label="y")[0].encode(records)) == 298

    def test_codes_beside_a_word_are_categories(self):
        cells = [str(k % 5) for k in range(99)] + ["other"]
        schema, _ = Schema.draft(table(a=cells, y=["0", "1"] * 50), label="y")
        assert isinstance(schema.columns[0], Category)

    def test_classes_that_differ_by_case_are_one(self):
        schema, notes = Schema.draft(table(a=["1", "2", "3"], y=["Yes", "no", "yes"]), label="y")
        assert schema.label == Classes("y", positive=("Yes", "yes"), negative=("no",))
        assert any(note.startswith("label 'y': Yes, yes is positive, no is negative; ") for note in notes)
