"""Reading CSV: what is read, and what is refused in which words."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tacit.data import Table, read_csv
from tacit.errors import InputError


def write(folder: Path, content: bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_cells_are_stripped_and_nothing_else(tmp_path):
    table = read_csv(write(tmp_path, b"age , income\n 39,<=50K.\n 050 , >50K\n"))
    assert {name: cells.tolist() for name, cells in table.columns.items()} == {
        "age": ["39", "050"],
        "income": ["<=50K.", ">50K"],
    }
    assert (len(table), table.source) == (2, "people.csv")


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.csv", bytes), ("a.csv.gz", gzip.compress)],
)
def test_plain_and_compressed_with_byte_order_mark_and_crlf(tmp_path, name, pack):
    table = read_csv(write(tmp_path, pack(b"\xef\xbb\xbfa,b\r\n1,2\r\n"), name))
    assert {key: cells.tolist() for key, cells in table.columns.items()} == {"a": ["1"], "b": ["2"]}


def test_many_blocks_of_rows_keep_their_order(tmp_path):
    rows = 10_000
    table = read_csv(write(tmp_path, b"k\n" + b"".join(b"%d\n" % k for k in range(rows))))
    assert table.columns["k"].tolist() == [str(k) for k in range(rows)]


def test_line_numbers_survive_blank_lines_and_quoted_line_breaks(tmp_path):
    table = read_csv(write(tmp_path, b'a,b\n\n1,"two\nlines"\n3,4\n'))
    assert table.lines.tolist() == [3, 5]
    assert table.columns["b"].tolist() == ["two\nlines", "4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a header line is needed; people.csv is empty"),
        (b"\n\n", "a header line is needed; people.csv is empty"),
        (b"a,b\n", "at least one row is needed; people.csv has a header only"),
        (b"a,b\n1,2\n3\n", "the 2 cells of the header; people.csv line 3 has 1;"),
        (b"a,b\n1,2\n\n3,4,5\n", "the 2 cells of the header; people.csv line 4 has 3;"),
        (b"a,b, a\n1,2,3\n", "people.csv has 'a' more than once"),
        (b"PK\x03\x04\x14\x00\xff", "people.csv is one of Excel, or a zip archive; save it as CSV"),
        (b"a;b\n1;2\n", "the header of people.csv has none: 'a;b'; save it with commas"),
        (b"a,b\n1,2\n3,\xff\n", "must be UTF-8; people.csv line 3 holds the byte 0xff"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, content, message):
    with pytest.raises(InputError) as error:
        read_csv(write(tmp_path, content))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_and_directory_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv does not; check the path"):
        read_csv(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_csv(tmp_path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9]])
def test_broken_gzip_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"must be readable; .*people\.csv\.gz is not"):
        read_csv(write(tmp_path, content, "people.csv.gz"))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="one length; memory has"):
        Table({"a": np.array(["1"]), "b": np.array(["1", "2"])}, source="memory")
