"""pyarrow, which reads large CSV files, says what Python's csv module and `float` say, on badly written files, too.

TACIT_FUZZ=20000 runs more random files than the few of a usual run.
"""

import csv
import io
import itertools
import os
import sys
import threading
from time import process_time

import numpy as np
import pyarrow
import pytest

from tacit.data import Category, Classes, Number, Schema, csv_file, read_csv
from tacit.data.arrow import ArrowTexts
from tacit.data.csv_file import by_arrow, by_csv
from tacit.data.encoding import index_type
from tacit.data.strings import Strings
from tacit.data.table import RaggedError
from tacit.data.text import read_blocks
from tacit.errors import InputError

FILES = int(os.environ.get("TACIT_FUZZ", "150"))
PIECES = [
    *[",", ",", ",", "\n", "\n", "\r\n", "\r", '"', '"', '""', " ", "\t", "\x00", "\x1f", "\xa0", "\u3000", "\u2009"],
    *["a", "b", "7", "0.5", "-1e3", "?", "é", "日本", "x y", "nan", "1_0", "٣", ";"],
]


def result(read):
    """What a reader makes of a file: a table, or an error, and its lines and cells."""
    try:
        table = read()
    except RaggedError as error:
        return str(error), error.lines, contents(error.rest)
    except InputError as error:
        return str(error)
    return contents(table)


def contents(table):
    return table.lines.tolist(), {name: table.strings(name).tolist() for name in table.columns}


def messy(rng):
    """A file that is often nearly CSV."""
    if rng.random() < 0.4:
        return "".join(rng.choice(PIECES, rng.integers(0, 60)))
    width, end = rng.integers(1, 4), rng.choice(["\n", "\r\n", "\r"])
    rows = [",".join(f"c{k}" for k in range(width))]
    for _ in range(rng.integers(0, 12)):
        cells = ["".join(rng.choice(PIECES, rng.integers(0, 4))) for _ in range(width)]
        quoted = [f'"{cell}"' if rng.random() < 0.3 else cell for cell in cells]
        rows.append(",".join(quoted))
    return end.join(rows) + end * int(rng.integers(0, 2))


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Reads bytes with both readers, in blocks of this size. Whatever pyarrow reads must be what the csv module reads,
    and what the csv module refuses it must leave alone. Gives what was read, and whether pyarrow read it."""

    def both(raw, size):
        path = tmp_path / "people.csv"
        path.write_bytes(raw)
        monkeypatch.setattr(csv_file, "read_blocks", lambda name: read_blocks(name, size))
        plain, table = result(lambda: by_csv(path)), by_arrow(path)
        assert table is None or contents(table) == plain, raw
        return plain, table is not None

    return both


def test_both_readers_agree_on_messy_files(compare):
    rng = np.random.default_rng(FILES)
    kinds = {"table": 0, "ragged": 0, "refused": 0, "by pyarrow": 0}
    for _ in range(FILES):
        raw = messy(rng).encode()
        if rng.random() < 0.05:
            raw += b"\xff\n"
        found, by_pyarrow = compare(raw, 1 << 20)
        kinds["refused" if isinstance(found, str) else "table" if len(found) == 2 else "ragged"] += 1
        kinds["by pyarrow"] += by_pyarrow
    assert min(kinds.values()) > FILES / 50  # the files are of all kinds
    assert kinds["by pyarrow"] == kinds["table"]  # whatever is good


def test_both_readers_agree_in_small_blocks(compare, monkeypatch):
    rng = np.random.default_rng(FILES + 1)
    by_pyarrow = 0
    for _ in range(FILES):
        raw = b"a,b,c\n" + messy(rng).encode()
        monkeypatch.setattr("tacit.data.arrow._BLOCK", int(rng.integers(6, 60)))
        by_pyarrow += compare(raw, int(rng.integers(6, 30)))[1]
    assert by_pyarrow > FILES / 50


@pytest.mark.parametrize(
    "raw",
    [
        b'a,b\n"x\n' + b"y," * 70_000 + b"\n1,2\n",  # a quote that is never closed
        b'a,b\n1,2\n"' + b"y" * 131_073 + b'",2\n',
        b'a,b\n1,2\n"' + b"y" * 131_072 + b'",2\n',
        b"a,b\n1," + "é".encode() * 131_072 + b"\n",
        b"a,b\n1," + "é".encode() * 131_073 + b"\n3\n",
        b'a,b\n1,2\n"' + b"y\n" * 600_000,
    ],
)
def test_cells_that_are_too_long_are_refused_alike(compare, raw):
    compare(raw, 1 << 20)


def test_blanks_are_those_of_strip(compare):
    blanks = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace() and chr(code) not in "\r\n"]
    near = [chr(ord(blank) + step) for blank in blanks for step in (-1, 1)]
    cells = [f"{blank}x {blank}{blank}" for blank in [*blanks, *near] if blank not in '\r\n",']
    (_, columns), _ = compare("\n".join(["a,b", *(f"{cell},." for cell in cells)]).encode(), 1 << 20)
    assert columns["a"] == [cell.strip() for cell in cells]


def of_arrow(texts):
    """These strings in Arrow, as columns of many distinct texts are kept."""
    return Strings(ArrowTexts(pyarrow.array(texts, pyarrow.large_string())))


def test_numbers_are_those_of_float():
    rng = np.random.default_rng(FILES + 2)
    words = ["", "+", "-", ".", "e", "E", "_", "0", "1", "9", "inf", "NaN", "infinity", "٣", "x", "00"]
    texts = ["".join(rng.choice(words, rng.integers(0, 8))) for _ in range(10 * FILES)]
    numbers = rng.normal(size=10 * FILES) * 10.0 ** rng.integers(-320, 308, 10 * FILES)
    texts += [form % number for number in numbers.tolist() for form in ("%r", "%.3f", "%.15g", "%.0e", "%.17g", "%d")]
    texts += [f"{n}e{k}" for n in (1, 2**53, 2**53 + 1, 10**17 + 1) for k in range(-25, 26)]
    texts += ["-0", "0e999", "1e999", "-1e-999", "9007199254740993", "5.", ".5", "1e", "1e+", "--1", "1.2.3", "0x10"]

    def plain(text):
        try:
            return float(text)
        except ValueError:
            return float("nan")

    expected = np.array([plain(text) for text in texts])
    assert of_arrow(texts).numbers().tobytes() == expected.tobytes()
    at = np.flatnonzero(np.isfinite(expected))[::-1]
    assert of_arrow(texts)[at].numbers().tobytes() == expected[at].tobytes()
    for text, number in zip(texts, expected, strict=True):  # alone: no neighbour makes pyarrow refuse it
        assert of_arrow([text]).numbers().tobytes() == number.tobytes(), text
    assert np.isfinite(expected).sum() > 30 * FILES


def test_what_is_asked_of_strings_in_arrow_is_what_the_strings_say():
    texts = ["a", "", "é", "?", "10", "?", "1", "", "日本"]
    strings = of_arrow(texts)
    at = np.array([5, 0, 8, 8, 1])
    for some, plain in ((strings, texts), (strings[at], [texts[k] for k in at]), (strings[2:5], texts[2:5])):
        assert some.tolist() == plain
        assert [some[k] for k in range(len(some))] == plain
        for wanted in (["?", ""], ["é", "1"], ["日本"], []):
            assert some.is_one_of(wanted).tolist() == [text in wanted for text in plain]
        assert some.places({"a": 3, "日本": 4}).tolist() == [{"a": 3, "日本": 4}.get(text, -1) for text in plain]
        found, which = some.distinct()
        assert found == list(dict.fromkeys(plain))
        assert [found[k] for k in which] == plain
    assert strings[-1] == texts[-1]
    with pytest.raises(IndexError):
        strings[len(texts)]


SCHEMA = Schema(
    label=Classes("y", ("yes",), ("no",)),
    columns=(Number("x", (0, 1)), Number("k", (0, 20_000)), Category("s", ("a", "b"))),
    missing="zero",
    row_norm=1.0,
)


def test_a_large_file_is_encoded_as_a_small_one_is(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    n = 6000
    x = [repr(value) if rng.random() > 0.01 else "?" for value in rng.uniform(-0.1, 1.1, n).tolist()]
    k = rng.integers(0, 20_000, n)  # few in a block, many in the file
    rows = zip(x, k, rng.choice(["a", "b", ' "b"'[1:], ""], n), rng.choice(["yes", "no"], n), strict=True)
    text = "x,k,s,y\r\n" + "".join(",".join(map(str, row)) + "\r\n" for row in rows)
    path = tmp_path / "people.csv"
    path.write_text(text, newline="")
    plain = SCHEMA.encode(by_csv(path))
    monkeypatch.setattr(csv_file, "read_blocks", lambda name: read_blocks(name, 40_000))
    monkeypatch.setattr("tacit.data.arrow._BLOCK", 40_000)
    table = by_arrow(path)
    kept = [type(table.strings(name).pool).__name__ for name in "xksy"]
    assert kept == ["ArrowTexts", "ArrowTexts", "Texts", "Texts"]
    large = SCHEMA.encode(table)
    assert large.X.tobytes() == plain.X.tobytes()
    assert large.y.tobytes() == plain.y.tobytes()
    assert (large.clipped, large.unknown) == (plain.clipped, plain.unknown)
    assert Schema.draft(table, "y") == Schema.draft(by_csv(path), "y")

    lines = text.split("\r\n")
    lines[4000] = "0.5O," + lines[4000].split(",", 1)[1]
    path.write_text("\r\n".join(lines), newline="")
    errors = [result(lambda read=read: SCHEMA.encode(read(path))) for read in (by_csv, by_arrow)]
    assert errors[0] == errors[1]
    assert "people.csv line 4001, column 'x' holds '0.5O'" in errors[0]


@pytest.fixture
def used(monkeypatch):
    """The readers that `read_csv` asks, one after the other; every file is large."""
    asked = []
    for name in ("by_csv", "by_arrow"):
        reader = getattr(csv_file, name)
        monkeypatch.setattr(csv_file, name, lambda *of, name=name, reader=reader: asked.append(name) or reader(*of))
    monkeypatch.setattr(csv_file, "_SMALL", 1)
    return asked


def test_the_size_of_a_file_chooses_the_reader(tmp_path, used, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    read_csv(path)
    monkeypatch.setattr(csv_file, "_SMALL", 9)
    read_csv(path)
    assert used == ["by_arrow", "by_csv"]


def test_what_pyarrow_refuses_the_csv_module_explains(tmp_path, used):
    path = tmp_path / "people.csv"
    path.write_text('a,b\n"1\n1",2\n3\n')
    with pytest.raises(RaggedError, match=r"people\.csv line 4 has 1"):
        read_csv(path)
    assert used == ["by_arrow", "by_csv"]


def test_a_large_pipe_is_read_once(tmp_path, used):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a,b\n1,2\n",))
    writer.start()
    assert read_csv(pipe).columns["b"].tolist() == ["2"]
    writer.join()
    assert used == ["by_csv"]


def test_without_pyarrow_the_csv_module_reads_large_files(tmp_path, used, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "tacit.data.arrow", None)
    assert read_csv(path).columns["b"].tolist() == ["2"]
    assert used == ["by_arrow", "by_csv"]


def test_bytes_that_are_not_utf8_are_reported_before_all_else(tmp_path, monkeypatch):
    path = tmp_path / "people.csv"
    path.write_bytes(b"\xef\xbb\xbfa,a\n1\n" + b"1,2\n" * 100 + b"3,\xe9\n")
    for size in (20, 1 << 20):
        monkeypatch.setattr(csv_file, "read_blocks", lambda name, size=size: read_blocks(name, size))
        with pytest.raises(InputError, match=r"people\.csv line 103 holds the byte 0xe9"):
            read_csv(path)


def test_many_columns_are_soon_compared(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"c{k}" for k in range(50_000)]
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    started = process_time()
    assert len(read_csv(path).columns) == 50_000
    assert process_time() - started < 10  # each name against all before it would take minutes


def test_the_rules_of_csv_are_those_of_the_module(compare):
    """Against Python's reader itself, and every short text of the letters that matter."""
    for letters in itertools.product('a,"\n\r', repeat=4):
        text = "h\n=\n" + "".join(letters)
        rows = [record for record in csv.reader(io.StringIO(text, newline="")) if record][1:]
        found, _ = compare(text.encode(), 1 << 20)
        _, columns = found if len(found) == 2 else found[2]
        assert columns["h"] == [row[0].strip() for row in rows if len(row) == 1]


def test_a_sparse_matrix_counts_with_32_bits_as_long_as_they_are_enough():
    assert [index_type(n, 10) for n in (0, 2**31 - 1, 2**31)] == [np.int32, np.int32, np.int64]
    assert index_type(10, 2**31) == np.int64
