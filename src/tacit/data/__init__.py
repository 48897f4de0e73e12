"""Data: read a file, encode it by a schema, distribute it among agents; UCI Adult is embedded."""

from typing import TYPE_CHECKING

from tacit.data import partition
from tacit.data.adult import a9a, adult, adult_schema, adult_table
from tacit.data.columns import Bands, Category, Classes, Label, Multiclass, Number, Sites, Target
from tacit.data.dataset import Dataset
from tacit.data.frames import as_table, read_parquet, read_table
from tacit.data.schema import Schema
from tacit.data.table import Table
from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.data.csv_file import read_csv
    from tacit.data.paper_data import load, read_libsvm, read_npz
    from tacit.data.validation import Finding, validate

__all__ = [
    "Bands",
    "Category",
    "Classes",
    "Dataset",
    "Finding",
    "Label",
    "Multiclass",
    "Number",
    "Schema",
    "Sites",
    "Table",
    "Target",
    "a9a",
    "adult",
    "adult_schema",
    "adult_table",
    "as_table",
    "load",
    "partition",
    "read_csv",
    "read_libsvm",
    "read_npz",
    "read_parquet",
    "read_table",
    "validate",
]

if not TYPE_CHECKING:
    _names = {
        "tacit.data.csv_file": ("read_csv",),
        "tacit.data.paper_data": ("load", "read_libsvm", "read_npz"),
        "tacit.data.validation": ("Finding", "validate"),
    }
    __getattr__ = lazily(__name__, _names)
