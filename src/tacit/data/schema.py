"""A schema says how a file becomes numbers, so that all organisations encode alike.

Agree on it before anybody looks at data, from public knowledge only: a bound or a category that was read from private
records reveals something about them. As a TOML file:

    version = 1
    intercept = true             # one more feature that is always one; default false
    row_norm = 1.0               # scale every row to x / max(1, ||x||/row_norm); 0, the default, leaves rows alone
    missing = "drop"             # a row with a missing value: "drop" it; "zero", its features stay zero;
                                 # or "refuse", the default, the file
    missing_values = ["?", ""]   # the cells that mean missing; this is the default
    unknown = "zero"             # a category that is not listed: "zero", its features stay zero, and it is counted in
                                 # Dataset.unknown; or "refuse", the default, the file
    ids = ["patient"]            # columns that `tacit predict` copies to its output; the model does not learn from them
    drafted = true               # bounds and categories were read from records: private training refuses the schema

    [label]
    column = "income"
    positive = [">50K", ">50K."]     # +1
    negative = ["<=50K", "<=50K."]   # -1
    positive_share = 0.25            # optional and public: what a model starts from, for rare positives
    weights = [1, 3]                 # optional and public: how much a negative and a positive record count

    [sites]                      # optional: the organisations that hold the records, for `tacit train --site`
    column = "hospital"
    names = ["alder", "birch"]   # all of them, from public knowledge; a record of another site is refused

    [[columns]]
    name = "age"
    kind = "bands"               # one feature per half-open interval [17, 25), [25, 65), [65, 100)
    edges = [17, 25, 65, 100]

    [[columns]]
    name = "capital-gain"
    kind = "number"              # one feature in [0, 1]
    bounds = [0, 99999]          # values outside are clipped, and counted in Dataset.clipped
    scale = "log"                # log1p(v-lo)/log1p(hi-lo); the default "linear" is (v-lo)/(hi-lo)

    [[columns]]
    name = "sex"
    kind = "category"            # one feature per category, in this order; for another value see `unknown`
    categories = ["Female", "Male"]

A label of three or more classes:

    [label]
    column = "ward"
    kind = "multiclass"
    classes = ["surgery", "medicine", "eyes"]
    shares = [0.5, 0.4, 0.1]     # optional and public: how frequent each is
    weights = [1, 1, 4]          # optional and public: how much a record of each counts

A numeric label is scaled from its bounds to [-1, 1]:

    [label]
    column = "income"
    kind = "number"
    bounds = [0, 200000]

Features are in the order of the columns, the intercept last. Columns of the file that are not in the schema are
ignored. A column may be used twice, with different kinds. The intercept counts in the norm of a row, because it counts
in the sensitivity.
"""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import Bands, Category, Classes, Label, Multiclass, Number, Sites, Target
from tacit.data.dataset import Dataset
from tacit.data.encoding import encode
from tacit.data.frames import as_table
from tacit.data.present_cells import Present, present
from tacit.data.schema_toml import write
from tacit.data.table import Table
from tacit.data.text import read_text
from tacit.errors import InputError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_COLUMNS = {kind.kind: kind for kind in (Number, Bands, Category)}
_LABELS = {kind.kind: kind for kind in (Classes, Multiclass, Target)}
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Schema:
    """How a file becomes numbers; the module's docstring explains the fields.

    >>> schema = Schema(
    ...     label=Classes("income", positive=(">50K",), negative=("<=50K",)),
    ...     columns=(Number("age", bounds=(17, 97)), Category("sex", categories=("Female", "Male"))),
    ...     intercept=True,
    ... )
    >>> schema.feature_names
    ('age', 'sex=Female', 'sex=Male', 'intercept')
    >>> text = {"age": ["37", "99"], "sex": ["Male", "Female"], "income": ["<=50K", ">50K"]}
    >>> table = Table({name: np.array(cells, dtype=object) for name, cells in text.items()}, source="two people")
    >>> data = schema.encode(table)
    >>> data.X.tolist(), data.y.tolist(), data.clipped
    ([[0.25, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0]], [-1.0, 1.0], {'age': 1})
    """

    label: Label
    columns: tuple[Number | Bands | Category, ...]
    intercept: bool = False
    row_norm: float = 0.0
    missing: str = "refuse"
    missing_values: tuple[str, ...] = ("?", "")
    drafted: bool = False
    sites: Sites | None = None
    unknown: str = "refuse"
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        for name in ("intercept", "drafted"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false; got {getattr(self, name)!r}; write one of them")
        number = isinstance(self.row_norm, int | float) and not isinstance(self.row_norm, bool)
        if not (number and np.isfinite(self.row_norm) and self.row_norm >= 0):
            raise InputError(f"row_norm must be a finite number, 0 or more; got {self.row_norm!r}; 1.0 is usual")
        object.__setattr__(self, "row_norm", float(self.row_norm))
        if self.missing not in ("drop", "zero", "refuse"):
            raise InputError(f'missing must be "drop", "zero" or "refuse"; got {self.missing!r}; choose one of them')
        if self.unknown not in ("zero", "refuse"):
            raise InputError(f'unknown must be "zero" or "refuse"; got {self.unknown!r}; choose one of them')
        for name in ("missing_values", "ids"):
            values = getattr(self, name)
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise InputError(f"{name} must be a list of strings; got {values!r}; write them in quotes, in [ ]")
            object.__setattr__(self, name, tuple(values))
        if not self.columns:
            raise InputError("a schema needs at least one column; got none; add [[columns]]")
        self._check_names()

    def _check_names(self) -> None:
        names = self.feature_names
        twice = [name for k, name in enumerate(names) if name in names[:k]]
        if twice:
            raise InputError(f"feature names must differ; {twice[0]!r} is there twice; remove one of the columns")
        label = self.label
        if any(column.name == label.column for column in self.columns):
            raise InputError(f"the label must not be a feature; column {label.column!r} is both; remove it from one")
        if self.sites is not None and self.sites.column == label.column:
            raise InputError(f"the sites must not be the label; column {label.column!r} is both; name another column")
        for k, name in enumerate(self.ids):
            if name == label.column or any(column.name == name for column in self.columns):
                raise InputError(
                    f"an id must not be the label or a feature; column {name!r} is both; remove it from one"
                )
            if name in self.ids[:k]:
                raise InputError(f"ids must differ; {name!r} is there twice; remove one")
        listed = [(column.name, column.categories) for column in self.columns if isinstance(column, Category)]
        if isinstance(label, Classes):
            listed.append((label.column, label.positive + label.negative))
        elif isinstance(label, Multiclass):
            listed.append((label.column, label.classes))
        if self.sites is not None:
            listed.append((self.sites.column, self.sites.names))
        for name, values in listed:
            unsure = sorted(set(values) & set(self.missing_values))
            if unsure:
                raise InputError(
                    f"a value is either missing or means something; {unsure[0]!r} of column {name!r} is also in "
                    "missing_values; take it out of one"
                )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, in order."""
        names = tuple(name for column in self.columns for name in column.features)
        return (*names, "intercept") if self.intercept else names

    @property
    def dimension(self) -> int:
        """Number of encoded features."""
        return len(self.feature_names)

    @property
    def model_dimension(self) -> int:
        """Number of a model's weights: one for each feature, or for each feature and class."""
        return self.label.outputs * self.dimension

    @property
    def longest_row(self) -> float:
        """A bound on the norm of every row that can be encoded: a column's features have norm 1 at most."""
        return self.row_norm or math.sqrt(len(self.columns) + self.intercept)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Schema":
        """A schema from the plain data of `to_dict`, or of a TOML file.

        >>> Schema.from_dict({"version": 1, "label": {"column": "y", "kind": "number", "bounds": [0, 1]},
        ...                   "columns": [{"name": "x", "kind": "number", "bounds": [0, 1]}]}).dimension
        1
        """
        if not isinstance(data, Mapping):
            raise InputError(f"a schema must be a table of settings; got {data!r}; see the documentation of Schema")
        settings = dict(data)
        if settings.pop("version", None) != _VERSION:
            raise InputError(
                f"the schema must say version = {_VERSION}; got {data.get('version')!r}; add it, or use the tacit "
                "that wrote the file"
            )
        _check_keys(settings, cls, "the schema")
        for key, form in {"columns": "[[columns]]", "missing_values": "[...]", "ids": "[...]"}.items():
            if not isinstance(settings.get(key, []), list):
                raise InputError(f"{key} must be a list; got {settings[key]!r}; write {form}")
        settings["label"] = _part(settings["label"], _LABELS, "[label]", default="classes")
        settings["columns"] = tuple(
            _part(column, _COLUMNS, f"[[columns]] number {k}") for k, column in enumerate(settings["columns"], start=1)
        )
        if "sites" in settings:
            settings["sites"] = _sites(settings["sites"])
        return cls(**settings)

    @property
    def digest(self) -> str:
        """The SHA-256 of everything here."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can carry; `from_dict` takes it back."""
        return {
            "version": _VERSION,
            "intercept": self.intercept,
            "row_norm": self.row_norm,
            "missing": self.missing,
            "missing_values": list(self.missing_values),
            # Only if they say something: schemas without them stay as they are, in federations, too.
            **({"unknown": self.unknown} if self.unknown != "refuse" else {}),
            **({"ids": list(self.ids)} if self.ids else {}),
            **({"drafted": True} if self.drafted else {}),
            "label": _plain_part(self.label),
            **({} if self.sites is None else {"sites": _plain_sites(self.sites)}),
            "columns": [_plain_part(column) for column in self.columns],
        }

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema file."""
        text = read_text(path)
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"the schema must be TOML; {Path(path).name} is not: {error}; correct that line") from None
        except InputError as error:
            raise InputError(f"{Path(path).name}: {error}") from None

    def to_toml(self) -> str:
        """The text of a schema file; `from_toml` takes it back."""
        return write(self.to_dict())

    @classmethod
    def draft(cls, table: "Table | IntoFrame", label: str) -> tuple["Schema", list[str]]:
        """A first schema, read from a table or a data frame, with notes on what was left out and what to replace.

        >>> text = {"age": ["37", "51"], "id": ["a1", "a2"], "ill": ["no", "yes"]}
        >>> table = Table({name: np.array(cells, dtype=object) for name, cells in text.items()}, source="two people")
        >>> schema, notes = Schema.draft(table, label="ill")
        >>> schema.feature_names
        ('age', 'intercept')
        """
        from tacit.data.draft import draft  # draft imports this module

        return draft(table, label)

    def used(self, labelled: bool = True) -> list[str]:
        """The columns of a file that become features and, if `labelled`, the label."""
        features = [column.name for column in self.columns]
        return list(dict.fromkeys([*features, self.label.column] if labelled else features))

    def present(self, table: Table, columns: Sequence[str], labelled: bool = True) -> Present:
        """Which rows of a table are kept, and which of their cells in these columns are there."""
        return present(table, columns, self.missing, self.missing_values, self.label.column if labelled else None)

    def forgives(self, column: Any) -> bool:
        """Whether a value that this column does not know leaves its features zero."""
        return self.unknown == "zero" and isinstance(column, Category)

    def id_cells(self, table: "Table | IntoFrame", rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The cells of the columns in `ids`, as text, by column: of all rows, or of these (`Dataset.kept`)."""
        table = as_table(table)
        table.require(self.ids)
        cells = {name: table.strings(name) for name in self.ids}
        return {name: np.array(each if rows is None else each[rows], dtype=object) for name, each in cells.items()}

    def encode(self, table: "Table | IntoFrame", *, labelled: bool = True) -> Dataset:
        """The rows of a table or a data frame as features and labels; without labels if `labelled` is false.

        The matrix is a csr_array when fewer than half of its entries are non-zero, an ndarray otherwise.
        """
        return encode(self, as_table(table), labelled)

    def labelled(self, data: Dataset, table: "Table | IntoFrame") -> Dataset:
        """The records of a table that were encoded without labels, with them; those that lack one are left out."""
        table = as_table(table)
        rows = self.present(table, self.used())
        for fault in rows.faults:
            raise fault
        y = self.label.encode(table.cells(self.label.column, rows.kept)).value
        there = np.flatnonzero(np.isin(data.kept, rows.kept))
        return replace(data if len(there) == len(data) else data.take(there), y=y)


def _part(data: Any, kinds: Mapping[str, Any], where: str, default: str | None = None) -> Any:
    """One [label] or [[columns]] entry as an object of its kind."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must be a table of settings; got {data!r}; see the documentation of Schema")
    settings = dict(data)
    kind = settings.pop("kind", default)
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"the kind in {where} must be one of {', '.join(kinds)}; got {kind!r}; choose one of them")
    _check_keys(settings, kinds[kind], f"{where} of kind {kind!r}")
    naming = fields(kinds[kind])[0].name
    if not isinstance(settings[naming], str):
        raise InputError(f"{naming} in {where} must be a string; got {settings[naming]!r}; put it in quotes")
    return kinds[kind](**settings)


def _sites(data: Any) -> Sites:
    if not isinstance(data, Mapping):
        raise InputError(
            f"[sites] must be a table with column and names; got {data!r}; see the documentation of Schema"
        )
    _check_keys(data, Sites, "[sites]")
    return Sites(**data)


def _plain_sites(sites: Sites) -> dict[str, Any]:
    return {"column": sites.column, "names": list(sites.names)}


def _plain_part(part: Any) -> dict[str, Any]:
    plain = {f.name: getattr(part, f.name) for f in fields(part)}
    said = {key: value for key, value in plain.items() if value is not None}
    listed = {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}
    naming = next(iter(listed))
    return {naming: listed.pop(naming), "kind": part.kind, **listed}


def _check_keys(settings: Mapping[str, Any], kind: Any, where: str) -> None:
    """Refuse keys that the dataclass does not have, and the absence of those it must have."""
    known = {f.name for f in fields(kind)}
    needed = {f.name for f in fields(kind) if f.default is MISSING}
    for key in settings:
        if key not in known:
            raise InputError(f"{where} may set {', '.join(sorted(known))}; got {key!r}; correct or remove it")
    for key in sorted(needed):
        if key not in settings:
            raise InputError(f"{where} must set {key}; it is absent; add it")
