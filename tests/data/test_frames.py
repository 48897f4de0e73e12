"""Data frames and Parquet files: the same encoding as the same records in a CSV file."""

import builtins

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from tacit.data import Bands, Category, Classes, Number, Schema, as_table, read_csv, read_parquet, read_table
from tacit.errors import InputError

RECORDS = {
    "age": [39, 50, 18, 71],
    "gain": [0.1, 2174.25, 1e-5, 1e17],
    "smokes": [True, False, False, True],
    "ward": ["surgery", " medicine ", 'say "a, b"', "naïve 日本"],
    "beds": [1, 2, 1, 2],
    "y": ["no", "yes", "no", "yes"],
}


def of_pandas(records):
    frame = pandas.DataFrame(records)
    return frame.astype({"ward": "category"}) if "ward" in records else frame


def of_polars(records):
    frame = polars.DataFrame(records, strict=False)
    return frame.with_columns(polars.col("ward").cast(polars.Categorical)) if "ward" in records else frame


def of_arrow(records):
    table = pyarrow.table(records)
    if "ward" in records:
        place = table.schema.get_field_index("ward")
        return table.set_column(place, "ward", table["ward"].dictionary_encode())
    return table


def arrow_to_csv(table, path):
    plain = [column.cast(pyarrow.string()) if pyarrow.types.is_dictionary(column.type) else column for column in table]
    arrow_csv.write_csv(pyarrow.table(plain, names=table.column_names), path)


LIBRARIES = {
    "pandas": (of_pandas, lambda frame, path: frame.to_csv(path, index=False)),
    "polars": (of_polars, lambda frame, path: frame.write_csv(path)),
    "arrow": (of_arrow, arrow_to_csv),
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    """How a library makes a frame, and how it writes one as CSV."""
    return LIBRARIES[request.param]


def schema(booleans=("False", "True"), **settings):
    return Schema(
        label=Classes("y", positive=("yes",), negative=("no",)),
        columns=(
            Number("age", bounds=(0, 70)),
            Bands("gain", edges=(0, 1, 1000, 1e18)),
            Number("gain", bounds=(0, 1e4), scale="log"),
            Category("smokes", categories=booleans),
            Category("ward", categories=("surgery", "medicine", 'say "a, b"', "naïve 日本")),
            Category("beds", categories=("2", "1")),
        ),
        **settings,
    )


def dense(data):
    return data.X if isinstance(data.X, np.ndarray) else data.X.toarray()


def equal(one, other):
    assert np.array_equal(dense(one), dense(other))
    assert (one.y is None and other.y is None) or np.array_equal(one.y, other.y)
    assert np.array_equal(one.kept, other.kept)
    assert (one.names, one.clipped, one.unknown) == (other.names, other.clipped, other.unknown)


class TestTheEncodingOfAFrame:
    def test_is_that_of_the_csv_its_library_writes(self, library, tmp_path):
        make, write = library
        frame = make(RECORDS)
        write(frame, tmp_path / "records.csv")
        table = read_csv(tmp_path / "records.csv")
        spelled = tuple(sorted(set(table.columns["smokes"])))  # polars and Arrow write true, pandas writes True
        agreed = schema(spelled)
        equal(agreed.encode(frame), agreed.encode(table))
        assert agreed.encode(frame).clipped == {"age": 1, "gain": 1}

    def test_is_the_same_for_all_libraries(self, library):
        make, _ = library
        expected = schema().encode(of_pandas(RECORDS))
        equal(schema().encode(make(RECORDS)), expected)
        other = schema(("false", "true")).encode(make(RECORDS))
        assert np.array_equal(dense(other), dense(expected))

    def test_of_numbers_of_32_bits(self, library, tmp_path):
        make, write = library
        frame = make({"age": np.array([0.1, 16777216, 39.7, 1e-7], dtype=np.float32), "y": RECORDS["y"]})
        write(frame, tmp_path / "records.csv")
        agreed = Schema(label=schema().label, columns=(Number("age", bounds=(0, 1e8)),))
        equal(agreed.encode(frame), agreed.encode(read_csv(tmp_path / "records.csv")))

    def test_of_random_records(self, library, tmp_path):
        make, write = library
        rng = np.random.default_rng(3)
        frame = make(
            {
                "age": rng.integers(-(10**12), 10**12, 500),
                "gain": rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500),
                "ward": rng.choice(["a", "b", "c"], 500).tolist(),
                "y": rng.choice(["no", "yes"], 500).tolist(),
            }
        )
        write(frame, tmp_path / "records.csv")
        columns = (
            Number("age", bounds=(-1e12, 1e12)),
            Number("gain", bounds=(-1e300, 1e300)),
            Category("ward", categories=("a", "b", "c")),
        )
        agreed = Schema(label=schema().label, columns=columns)
        equal(agreed.encode(frame), agreed.encode(read_csv(tmp_path / "records.csv")))

    @pytest.mark.parametrize("missing_values", [("?", ""), ("?",), ()])
    def test_counts_cells_without_a_value_as_missing(self, library, missing_values):
        make, _ = library
        lacks = RECORDS | {
            "age": [39, None, 18, 71],
            "gain": [0.1, 1.0, float("nan"), 1e17],
            "smokes": [True, False, False, None],
            "ward": [None, "medicine", "surgery", "surgery"],
        }
        zero = schema(missing="zero", missing_values=missing_values).encode(make(lacks))
        there = dense(zero) != 0
        assert not there[1, 0]
        assert not there[2, 1:5].any()
        assert not there[3, 5:7].any()
        assert not there[0, 7:11].any()
        assert there[:, 5:7].sum() == there[:, 7:11].sum() == 3
        with pytest.raises(InputError, match="every row of the data frame has a missing value"):
            schema(missing="drop", missing_values=missing_values).encode(make(lacks))
        with pytest.raises(InputError, match=r"the data frame row 2, column 'age' holds ''"):
            schema(missing_values=missing_values).encode(make(lacks))

    def test_takes_not_a_time_and_objects(self):
        frame = pandas.DataFrame({"when": [pandas.Timestamp("2024-01-31"), pandas.NaT], "odd": [True, 3]}, dtype=object)
        table = as_table(frame)
        assert table.nulls["when"].tolist() == [False, True]
        assert table.columns["when"][0].startswith("2024-01-31")
        assert table.columns["odd"].tolist() == ["True", "3"]

    def test_takes_lazy_frames_and_other_types(self):
        agreed = Schema(label=schema().label, columns=(Number("age", bounds=(0, 70)),))
        eager = agreed.encode(of_polars(RECORDS))
        equal(agreed.encode(of_polars(RECORDS).lazy()), eager)
        equal(agreed.encode(pandas.DataFrame(RECORDS).convert_dtypes()), eager)

    def test_names_the_row_of_a_bad_cell(self, library):
        make, _ = library
        agreed = Schema(label=schema().label, columns=(Number("age", bounds=(0, 70)),))
        with pytest.raises(InputError, match=r"finite number is needed; the data frame row 2, column 'age' holds 'x'"):
            agreed.encode(make({"age": ["1", "x"], "y": ["no", "yes"]}))
        with pytest.raises(InputError, match=r"the data frame has no column 'age'; its columns are: y"):
            agreed.encode(make({"y": ["no", "yes"]}))


def test_a_draft_of_a_frame_is_that_of_its_csv(library, tmp_path):
    make, write = library
    records = {name: cells * 10 for name, cells in RECORDS.items() if name != "smokes"}
    frame = make(records)
    write(frame, tmp_path / "records.csv")
    drafted, notes = Schema.draft(frame, "y")
    assert (drafted, notes) == Schema.draft(read_csv(tmp_path / "records.csv"), "y")
    assert [column.name for column in drafted.columns] == ["age", "gain", "ward", "beds"]
    assert Schema.draft(make({"a": [1, 2], "y": [True, False]}), "y")[0].label.positive == ("True",)


@pytest.mark.parametrize("records", [None, [[1, 2]], np.eye(2), {"age": [1]}, "people.csv", polars.Series([1])])
def test_anything_else_is_refused_in_one_line(records):
    for call in (lambda: schema().encode(records), lambda: Schema.draft(records, "y")):
        with pytest.raises(InputError) as error:
            call()
        assert f"got {type(records).__name__}" in str(error.value)
        assert "\n" not in str(error.value)


def test_frames_that_are_no_tables_of_records_are_refused(library):
    make, _ = library
    with pytest.raises(InputError, match="at least one row is needed; the data frame has none"):
        as_table(make({"age": []}))
    with pytest.raises(InputError, match="'a' more than once"):
        as_table(make({"a": [1], " a": [2]}))


class TestParquet:
    @pytest.fixture
    def file(self, tmp_path):
        parquet.write_table(of_arrow(RECORDS), tmp_path / "people.parquet")
        return tmp_path / "people.parquet"

    def test_is_read_by_its_suffix(self, file, tmp_path):
        equal(schema().encode(read_table(file)), schema().encode(of_arrow(RECORDS)))
        of_pandas(RECORDS).to_csv(tmp_path / "people.csv", index=False)
        assert read_table(tmp_path / "people.csv").where(0) == "people.csv line 2"

    def test_a_bad_cell_is_named_by_row(self, file):
        with pytest.raises(InputError, match=r"people\.parquet row 2, column 'age' holds '50'"):
            Schema(label=schema().label, columns=(Category("age", ("39",)),)).encode(read_parquet(file))

    def test_files_that_cannot_be_read(self, tmp_path):
        (tmp_path / "text.parquet").write_text("age\n3\n")
        with pytest.raises(InputError, match=r"the file must be Parquet; text\.parquet is not"):
            read_table(tmp_path / "text.parquet")
        with pytest.raises(InputError, match=r"the file must exist; .*none\.parquet does not"):
            read_table(tmp_path / "none.parquet")
        (tmp_path / "folder.parquet").mkdir()
        with pytest.raises(InputError, match=r"folder\.parquet is a directory"):
            read_table(tmp_path / "folder.parquet")

    def test_without_pyarrow_the_extra_is_named(self, file, monkeypatch):
        real = builtins.__import__

        def without(name, *args, **kwargs):
            if name.split(".")[0] == "pyarrow":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(InputError, match=r"pip install 'tacit-learn\[parquet\]'"):
            read_parquet(file)
