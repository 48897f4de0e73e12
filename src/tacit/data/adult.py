"""UCI Adult, embedded, and a9a, which is built from it.

Adult: Barry Becker and Ronny Kohavi, 1996, UCI Machine Learning Repository, CC BY 4.0, DOI 10.24432/C5XW20. All
48,842 records, those of adult.data (split = train) before those of adult.test; `tools/build_adult.py` makes the file.
"""

from functools import cache
from pathlib import Path

import numpy as np

from tacit.data.dataset import Dataset
from tacit.data.schema import Schema
from tacit.data.table import Table
from tacit.errors import InputError

_HERE = Path(__file__).parent
_SCALINGS = {"public": "adult.toml", "paper": "adult-paper.toml"}


def adult_table() -> Table:
    """The 48,842 records as text.

    >>> table = adult_table()
    >>> len(table), table.columns["occupation"][0]
    (48842, 'Adm-clerical')
    """
    table = _read()
    return table.select(table.columns)


@cache
def _read() -> Table:
    """The records; reading them takes half a second, and memory of 6 MB keeps them. Nobody may write to this table."""
    from tacit.data.csv_file import read_csv

    return read_csv(_HERE / "adult.csv.gz")


def adult_schema(scaling: str = "public") -> Schema:
    """How `adult` encodes: "public" by bounds known without the data, "paper" by column maxima (a leak).

    >>> adult_schema("paper").dimension
    104
    """
    if scaling not in _SCALINGS:
        raise InputError(f"scaling must be one of {', '.join(_SCALINGS)}; got {scaling!r}; choose one of them")
    return Schema.from_toml(_HERE / "schemas" / _SCALINGS[scaling])


def adult(scaling: str = "public") -> Dataset:
    """The 45,222 records without missing values, encoded; the label is +1 for an income above 50,000 dollars.

    >>> adult("paper").X.shape
    (45222, 104)
    """
    return adult_schema(scaling).encode(_read())


def a9a() -> tuple[Dataset, Dataset]:
    """The LIBSVM data set a9a, train and test, built from Adult exactly: 123 binary features.

    >>> train, test = a9a()
    >>> train.X.shape, test.X.shape
    ((32561, 123), (16281, 123))
    """
    table = _read()
    data = Schema.from_toml(_HERE / "schemas" / "a9a.toml").encode(table)
    train = table.is_one_of("split", ["train"])
    return data.take(np.flatnonzero(train)), data.take(np.flatnonzero(~train))
