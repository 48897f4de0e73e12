"""Columns of text as Arrow keeps them: how a large CSV file is read, and what many distinct texts lie in.

`pyarrow` is an extra, and nothing imports this module before it is needed: the import takes 47 MB.
"""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute as compute
from pyarrow import csv as arrow_csv

from tacit.data.strings import MOST_DISTINCT, Strings, Texts

_BLOCK = 1 << 23  # bytes; a record must be shorter
_HEAD = 1 << 16  # texts whose number of distinct ones decides how a column is kept
_BLANKS = "".join(letter for letter in map(chr, range(0x3001)) if letter.isspace())  # what `str.strip` takes off
# What Arrow and `float` both read as the number nearest to it. Python reads the rest: 1_0, inf, 1e999.
_PLAIN = r"^-?[0-9]{1,99}(\.[0-9]{0,99})?([eE][-+]?[0-9]{1,2})?$"


class ArrowTexts:
    """Texts in an Arrow array, one behind the other."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def _take(self, at: np.ndarray | None) -> Any:
        return self._array if at is None else self._array.take(pyarrow.array(at))

    def texts(self, at: np.ndarray | None) -> np.ndarray:
        return self._take(at).to_numpy(zero_copy_only=False)

    def numbers(self, at: np.ndarray | None) -> np.ndarray:
        texts = self._take(at)
        try:
            return texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        except pyarrow.ArrowInvalid:
            plain = compute.match_substring_regex(texts, _PLAIN).to_numpy(zero_copy_only=False)
        numbers = np.empty(len(texts))
        numbers[plain] = texts.filter(plain).cast(pyarrow.float64())
        numbers[~plain] = Texts(texts.filter(~plain).to_numpy(zero_copy_only=False)).numbers(None)
        return numbers

    def is_one_of(self, wanted: frozenset[str], at: np.ndarray | None) -> np.ndarray:
        texts = self._take(at).cast(pyarrow.large_binary())
        letters = pyarrow.array([text.encode("utf-8", "surrogatepass") for text in wanted], texts.type)
        return compute.is_in(texts, value_set=letters).to_numpy(zero_copy_only=False)


def strings(column: Any) -> Strings:
    """A column of text (a `ChunkedArray`), stripped: distinct texts and codes if there are few, else Arrow's own."""
    if len(column.slice(0, _HEAD).unique()) <= MOST_DISTINCT:
        coded = column.dictionary_encode().unify_dictionaries()
        if len(distinct := coded.chunk(0).dictionary) <= MOST_DISTINCT:
            texts = np.array([text.strip() for text in distinct.to_pylist()], dtype=object)
            codes = [chunk.indices.to_numpy().astype(np.uint16) for chunk in coded.chunks]
            return Strings(Texts(texts), np.concatenate(codes))
    wide = column.cast(pyarrow.large_string()).combine_chunks()  # a column can have 2 GB of text
    return Strings(ArrowTexts(compute.utf8_trim(wide, characters=_BLANKS)))


def read_cells(blocks: list[bytes], width: int) -> tuple[list[str], list[Strings]] | None:
    """The first record of a CSV file and the columns of the others; None if the csv module may read them otherwise.

    blocks, width : the file, in UTF-8, which is taken out of this list, and how many columns it has
    """
    names = [str(k) for k in range(width)]
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False, check_utf8=False
    )
    # One thread: it takes less CPU, and processes that fork have no others to lose.
    read = arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names)
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    raw = [pyarrow.BufferReader(b"".join(blocks))]
    blocks.clear()
    try:
        columns = arrow_csv.read_csv(raw.pop(), read, parse, convert).columns
    except pyarrow.ArrowInvalid:
        return None
    longest = max(compute.max(compute.binary_length(column)).as_py() for column in columns)
    if longest > csv.field_size_limit() or len(columns[0]) < 2:
        return None
    head = [column[0].as_py() for column in columns]
    for k, column in enumerate(columns):
        columns[k] = strings(column.slice(1))  # one column at a time is there twice
    return head, columns
