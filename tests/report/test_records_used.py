"""What a report says of the columns is what the encoder does."""

import numpy as np

from tacit.data import Bands, Category, Classes, Number, Schema, Table
from tacit.report.run_facts import records_used

SCHEMA = Schema(
    label=Classes("died", positive=("yes",), negative=("no",)),
    columns=(
        Number("age", bounds=(18, 118)),
        Number("stay", bounds=(1, 30), scale="log"),
        Bands("pulse", edges=(0, 60, 200)),
        Category("why", categories=("Pneumonia, bacterial", "Heart failure")),
    ),
    missing="zero",
    unknown="zero",
)


def features(**cells):
    """Of one record."""
    table = Table({name: np.array([cell], dtype=object) for name, cell in cells.items()}, source="people.csv")
    return np.asarray(SCHEMA.encode(table).X[[0]].todense()).ravel()


def test_what_a_missing_value_counts_as():
    said = records_used(SCHEMA)["missing"]
    assert "A missing number counts as its lower bound" in said
    assert "a missing category counts as none of those listed" in said
    lowest = features(age="18", stay="1", pulse="?", why="another", died="no")
    assert (features(age="?", stay="?", pulse="?", why="?", died="no") == lowest).all()
    assert not lowest[:-1].any()  # in no band, of no category; the last one is the intercept


def test_categories_with_commas_can_be_told_apart():
    assert records_used(SCHEMA)["columns"][-1]["read"] == "Pneumonia, bacterial; Heart failure"
