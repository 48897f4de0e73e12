"""Features from public knowledge: a transformer that learns nothing from records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.data.arrays import array_table
from tacit.data.columns import Category, Number, Target, plain
from tacit.data.frames import as_table
from tacit.data.schema import Schema
from tacit.data.table import Table
from tacit.errors import InputError
from tacit.estimators.scaling import public_bounds


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encodes records by a schema, or by public bounds and categories, as features in [0, 1].

    Put it before a private estimator with `bounds=(0, 1)`. `fit` keeps the names and the number of the columns, and
    nothing of their cells: so what the estimator states holds for the whole pipeline. After a scaler, an imputer or an
    encoder that was fitted on the records it does not hold.

    All parameters are public: choose them without looking at the records.

    schema : a `tacit.data.Schema`, or its TOML file. Of a frame, columns that it does not name are left out; an array
        has the columns of the schema, in its order. The intercept and the norm of rows are the estimator's: the encoder
        does neither. A row cannot be dropped: `missing` is "zero" or "refuse".
    bounds : without a schema, public bounds of the columns that have no categories: (lo, hi) for all, a pair for each,
        or a dict by column. Values are clipped to them.
    categories : without a schema, a dict from column to its categories. Each becomes a feature of zeros and ones. A
        column is its name or its place.
    missing, unknown : without a schema, what happens to a cell without a value, and to a category that is not listed:
        "refuse", the default, or "zero", and its features stay zero

    After `fit`: `schema_`, by which it encodes, `n_features_in_`, `feature_names_in_`.

    >>> encoder = SchemaEncoder(bounds={"age": (0, 120)}, categories={"ward": ["heart", "eyes"]}, missing="zero")
    >>> import polars
    >>> frame = polars.DataFrame({"age": [30, 150, None], "ward": ["eyes", "heart", "heart"]})
    >>> encoder.fit_transform(frame).tolist()
    [[0.25, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'ward=heart', 'ward=eyes']
    """

    def __init__(
        self,
        schema: Schema | str | os.PathLike[str] | None = None,
        *,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        missing: str | None = None,
        unknown: str | None = None,
    ) -> None:
        self.schema = schema
        self.bounds = bounds
        self.categories = categories
        self.missing = missing
        self.unknown = unknown

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        rule = self.schema.missing if isinstance(self.schema, Schema) else self.missing
        tags.input_tags.allow_nan = rule == "zero"
        tags.input_tags.categorical = tags.input_tags.string = True  # cells are text, as in a file: "39" is a number
        return tags

    def fit(self, X: Any, y: Any = None) -> SchemaEncoder:
        """Takes note of the columns, and of nothing else."""
        given = self._given()
        missing = self.missing or "refuse" if given is None else given.missing
        if _is_frame(X):
            validate_data(self, X, skip_check_array=True)
            self._columns = _names(X)
        else:
            X = _array(self, X, missing, reset=True)
            self._columns = [f"x{k}" for k in range(X.shape[1])] if given is None else _in_order(given, X.shape[1])
        self.schema_ = self._public_schema(self._columns) if given is None else given
        Table({name: np.empty(0, dtype=object) for name in self._columns}, "X").require(self._used())
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of each row, (n, features), in [0, 1]."""
        check_is_fitted(self)
        if _is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            frame = nw.from_native(X, eager_only=True)
            used = [name for name in frame.columns if str(name).strip() in self._used()]
            table = as_table(frame.select(used).to_native(), "X")
        else:
            table = array_table(_array(self, X, self.schema_.missing, reset=False), self._columns)
        encoded: Any = self.schema_.encode(table, labelled=False).X
        return np.asarray(encoded.toarray() if scipy.sparse.issparse(encoded) else encoded)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features."""
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is not None and len(input_features) != self.n_features_in_:
            raise ValueError(f"input_features should have length equal to number of features ({self.n_features_in_})")
        if input_features is not None and known is not None and list(input_features) != known.tolist():
            raise ValueError("input_features is not equal to feature_names_in_")
        return np.array(self.schema_.feature_names, dtype=object)

    def _used(self) -> list[str]:
        return self.schema_.used(labelled=False)

    def _given(self) -> Schema | None:
        """The schema that was given, for features alone; None if bounds or categories were."""
        public = [name for name in ("bounds", "categories", "missing", "unknown") if getattr(self, name) is not None]
        if self.schema is None:
            if self.bounds is None and self.categories is None:
                raise InputError("an encoder needs a schema, or bounds and categories, from public knowledge; give one")
            return None
        if public:
            raise InputError(f"the schema says all of it; leave out {public[0]}, or the schema")
        schema = self.schema if isinstance(self.schema, Schema) else Schema.from_toml(Path(self.schema))
        if schema.drafted:
            raise InputError(
                "the schema says drafted = true: its bounds and categories were read from records; replace them by "
                "public knowledge, and remove that line"
            )
        return replace(schema, intercept=False, row_norm=0.0, missing=_kept(schema.missing))

    def _public_schema(self, columns: Sequence[str]) -> Schema:
        """From bounds and categories, for these columns."""
        categories = {} if self.categories is None else _by_name(self.categories, columns, "categories")
        rest = [name for name in columns if name not in categories]
        bounds: dict[str, Any] = {}
        if rest or self.bounds is not None:
            given = _by_name(self.bounds, columns, "bounds") if isinstance(self.bounds, Mapping) else self.bounds
            bounds = dict(zip(rest, public_bounds(given, len(rest), rest).tolist(), strict=True))
        label = "label"  # a schema has one; it is not used
        while label in columns:
            label += "_"
        return Schema(
            label=Target(label, bounds=(0.0, 1.0)),
            columns=tuple(
                Category(name, _texts(categories[name])) if name in categories else Number(name, tuple(bounds[name]))
                for name in columns
            ),
            missing=_kept(self.missing or "refuse"),
            unknown=self.unknown or "refuse",
        )


def _kept(missing: str) -> str:
    if missing == "drop":
        raise InputError('missing = "drop" cannot be done here: y would keep the row; write "zero" or "refuse"')
    return missing


def _is_frame(X: Any) -> bool:
    return nw.dependencies.is_into_dataframe(X)


def _names(frame: Any) -> list[str]:
    return [str(name).strip() for name in nw.from_native(frame, eager_only=True).columns]


def _array(encoder: SchemaEncoder, X: Any, missing: str, *, reset: bool) -> np.ndarray:
    finite = "allow-nan" if missing == "zero" else True
    return np.asarray(validate_data(encoder, X, reset=reset, dtype=None, ensure_all_finite=finite))


def _in_order(schema: Schema, columns: int) -> list[str]:
    used = schema.used(labelled=False)
    if len(used) != columns:
        raise InputError(
            f"an array has the {len(used)} columns of the schema, in its order ({', '.join(used)}); X has {columns}; "
            "choose them, or give a data frame"
        )
    return used


def _by_name(given: Mapping[Any, Any], columns: Sequence[str], what: str) -> dict[str, Any]:
    """What is given by column, by the names of the columns."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is a dict from column to its {what}, not {given!r}")
    found = {}
    for key, value in given.items():
        place = isinstance(key, int | np.integer) and 0 <= key < len(columns)
        name = columns[int(key)] if place else key
        if name not in columns:
            raise InputError(f"{what} has {key!r}, which is not a column of X; its columns are: {', '.join(columns)}")
        found[name] = value
    return found


def _texts(categories: Any) -> tuple[str, ...]:
    """Categories as their cells are written."""
    if isinstance(categories, str) or not isinstance(categories, Sequence | np.ndarray):
        raise InputError(f"the categories of a column are a list, not {categories!r}")
    listed = categories.tolist() if isinstance(categories, np.ndarray) else categories
    return tuple(plain(float(value)) if isinstance(value, float | np.floating) else str(value) for value in listed)
