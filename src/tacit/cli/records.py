"""The records of a command: read, encoded by their schema, and shared out among the agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.cli import names, options
from tacit.cli.console import tell, warn, working
from tacit.data import Classes, Dataset, Schema, Sites, Table, partition
from tacit.data.table import CellError, HeaderError
from tacit.errors import InputError, number, whole

if TYPE_CHECKING:
    from tacit.engines import Ray
    from tacit.engines.records_in_parts import RecordsInParts
    from tacit.privacy.ledger import Ledger, Records

Telling = Callable[[Mapping[str, int], Mapping[str, int], int, int], None]
NOT_COVERED = " (not covered by the guarantee: keep this to yourself)"
NOISY = "noisy"  # of --positive-share: measured by a noisy count


class Division(NamedTuple):
    """How the rows are divided among the agents: by a column, or among so many agents."""

    site: str | None
    agents: int | None
    skew: float | None


@dataclass(frozen=True)
class Given:
    """The records of a command, what they mean, and whose they are."""

    file: options.File
    label: options.Label = None
    site: options.Site = None
    agents: options.Agents = None
    skew: options.Skew = None
    schema: options.SchemaFile = None
    positive_share: options.PositiveShare = None
    class_weight: options.ClassWeight = None

    @property
    def division(self) -> Division:
        """The rule that says whose record each one is."""
        return Division(self.site, self.agents, self.skew)

    @property
    def count(self) -> bool:
        """Whether a noisy count measures the share of positives."""
        return self.positive_share == NOISY

    @property
    def inputs(self) -> list[str | Path]:
        """The files that are read."""
        return [self.file, *([] if self.schema is None else [self.schema])]

    def agreed(self) -> Schema | None:
        """The schema that is known without the records; None: it is drafted."""
        known = agreed(self.file, self.label, self.site, self.schema)
        return None if known is None else rare(known, self.positive_share, self.class_weight)

    def read(self) -> tuple[Table, Schema]:
        """The file, and its schema."""
        table, schema = read(self.file, self.label, self.site, self.schema)
        return table, rare(schema, self.positive_share, self.class_weight)


def rare(schema: Schema, share: str | None, weight: str | None) -> Schema:
    """The schema with the share of positives and the class weights of the options, if they are given."""
    label = schema.label
    if share is None and weight is None:
        return schema
    if not isinstance(label, Classes):
        raise InputError("--positive-share and --class-weight are for a label of two classes; leave them out")
    if share is not None and share != NOISY:
        label = replace(label, positive_share=_float(share, "--positive-share is a number such as 0.06, or noisy"))
    if weight == "balanced":
        if label.positive_share is None:
            raise InputError("--class-weight balanced follows from the share of positives: give --positive-share 0.06")
        label = replace(label, weights=(0.5 / (1 - label.positive_share), 0.5 / label.positive_share))
    elif weight is not None:
        rule = "--class-weight is two numbers, for negative and positive records, such as 1,5; or balanced"
        numbers = [_float(text, rule) for text in weight.split(",")]
        if len(numbers) != 2:
            raise InputError(f"{rule}; not {weight!r}")
        label = replace(label, weights=(numbers[0], numbers[1]))
    return replace(schema, label=label)


def _float(text: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{rule}; not {text!r}") from None


def encoded(table: Table, schema: Schema, note: str = "") -> Dataset:
    """The records as numbers. Warns of values clipped or unknown and of rows left out, each time with the note."""
    data = schema.encode(table)
    _warn(data.clipped, data.unknown, len(data), len(table), note)
    return data


def encoded_for_a_log(table: Table, schema: Schema) -> Dataset:
    """The records as numbers. An error names the rule and the place of a value, but not the value, which would stand in
    a log."""
    try:
        return schema.encode(table)
    except HeaderError as error:
        raise InputError(error.quiet) from None
    except CellError as error:
        where = error.cells.where(int(error.bad[0]))
        raise InputError(
            f"a value at {where} does not fit the schema: {error.rule}; tacit validate shows all of them"
        ) from None


def read_for_a_log(file: str) -> Table:
    """The records. An error does not show the first line of the file, which may be a record."""
    try:
        return names.records(file)
    except HeaderError as error:
        raise InputError(error.quiet) from None


def _warn(clipped: Mapping[str, int], unknown: Mapping[str, int], used: int, rows: int, note: str) -> None:
    for column, count in clipped.items():
        outside = f"{count:,} of {rows:,} values lie outside the schema's bounds and were clipped"
        warn(f"column {column!r}: {outside}{note}")
    for column, count in unknown.items():
        strange = f"{count:,} of {rows:,} values are no category of the schema, so their features are zero"
        warn(f"column {column!r}: {strange}{note}")
    if used < rows:
        warn(f"{rows - used:,} of {rows:,} rows lack a value and were left out{note}")


def records_of(table: Table, ledger: Ledger) -> Records:
    """What a ledger has to know about a file of records."""
    from tacit.data.cohorts import cohorts_of, digest

    return _known(digest(table), len(table), cohorts_of(table, ledger.cohorts) if ledger.cohorts else None, ledger)


def _known(digest: str, rows: int, cohorts: tuple[str, ...] | None, ledger: Ledger) -> Records:
    from tacit.data.cohorts import require_one_grain
    from tacit.privacy.ledger import Records

    require_one_grain({*(cohorts or ()), *ledger.by_cohort()})
    return Records(digest, rows, cohorts)


class ReadFile(NamedTuple):
    """What the driver learns about a file of records that another process has read."""

    rows: int
    clipped: dict[str, int]
    unknown: dict[str, int]
    digest: str
    cohorts: tuple[str, ...] | None


def _read_part(file: str, schema: Schema, cohorts: str | None) -> tuple[Any, Any, ReadFile]:
    from tacit.data.cohorts import cohorts_of, digest

    table = read_for_a_log(file)
    data = encoded_for_a_log(table, schema)
    found = cohorts_of(table, cohorts) if cohorts else None
    return data.X, data.y, ReadFile(len(table), data.clipped, data.unknown, digest(table), found)


@contextmanager
def in_parts(
    files: str, schema: Schema, ledger: Ledger | None, engine: Ray, tell: Telling
) -> Iterator[tuple[RecordsInParts, Records | None]]:
    """The records of all files of a pattern, in processes of a Ray cluster, and what a ledger has to know about them.

    A ledger sees the files together, in the order of their names, as one file of records. `tell` hears what was done to
    some of them: clipped and unknown values by column, how many rows are used, and how many there are."""
    from tacit.engines.records_in_parts import RecordsInParts

    found = sorted(glob(files))
    if not found:
        raise InputError(f"no file is named {files}; quote the pattern, so that the shell leaves it to tacit")
    column = None if ledger is None else ledger.cohorts
    with RecordsInParts.opened(engine, [partial(_read_part, file, schema, column) for file in found]) as records:
        parts: list[ReadFile] = records.about
        clipped: Counter[str] = sum((Counter(part.clipped) for part in parts), Counter())
        unknown: Counter[str] = sum((Counter(part.unknown) for part in parts), Counter())
        rows = sum(part.rows for part in parts)
        tell(clipped, unknown, len(records), rows)
        if ledger is None:
            yield records, None
            return
        cohorts = sorted({cohort for part in parts for cohort in part.cohorts or ()}) if column else None
        whole = sha256("".join(part.digest for part in parts).encode()).hexdigest()
        yield records, _known(whole, rows, None if cohorts is None else tuple(cohorts), ledger)


def agreed(file: str, label: str | None, site: str | None, schema: Path | None) -> Schema | None:
    """The schema that is known without the records: the given one, or that of the embedded data; None: it is drafted.
    Refuses options that contradict it."""
    if schema is None and file == "adult" and label in (None, "income"):
        from tacit.data import adult_schema

        return adult_schema()
    if schema is None:
        if label is None:
            raise InputError("--label is needed: the column to predict (or --schema, which names it)")
        if label == site:
            raise InputError(f"column {site!r} cannot be both the label and the site")
        return None
    given = Schema.from_toml(schema)
    if site is not None and site == given.label.column:
        raise InputError(f"column {site!r} cannot be both the label and the site")
    if site is not None and given.sites is not None and site != given.sites.column:
        raise InputError(
            f"--site {site} contradicts the schema, whose sites are in column {given.sites.column!r}; change one"
        )
    if label is not None and label != given.label.column:
        raise InputError(f"--label {label} contradicts the schema, whose label is {given.label.column!r}; leave it out")
    return given


def read(file: str, label: str | None, site: str | None, schema: Path | None) -> tuple[Table, Schema]:
    """The file, and its schema: the given one, or that of the embedded data, or a draft."""
    given = agreed(file, label, site, schema)
    with working("reading", file):
        table = names.records(file)
    if site is not None:
        require_site(table, site)
    if given is None:
        assert label is not None
        given, notes = draft_without(table, label, site)
        tell(notes)
    elif any(column.name == site for column in given.columns) and schema is not None:
        warn(f"the schema learns from {site!r}, the column of sites: a new site could not use the model")
    return table, given


def draft_without(table: Table, label: str, site: str | None) -> tuple[Schema, list[str]]:
    """A draft without the column of sites: the model must not learn from the site of a record."""
    if site is None:
        return Schema.draft(table, label)
    require_site(table, site)
    if site == label:
        raise InputError(f"column {site!r} cannot be both the label and the site")
    return Schema.draft(table.select(name for name in table.columns if name != site), label)


def require_site(table: Table, site: str) -> None:
    """Refuses a table without the column of sites."""
    if site not in table.columns:
        raise InputError(f"{table.source} has no column {site!r} for --site; {table.its_columns()}")


def check_division(division: Division) -> None:
    """Refuses what no file of records would allow."""
    site, agents, skew = division
    if site is not None and (agents is not None or skew is not None):
        raise InputError("--site already says which agent holds which rows; leave out --agents and --skew")
    if agents is not None:
        whole("--agents", agents, 1)
    if skew is not None:
        number("--skew", skew)


def share_out(
    table: Table, data: Dataset, division: Division, seed: int, sites: Sites | None = None
) -> tuple[list[np.ndarray], list[str]]:
    """Which rows of the data each agent holds, and the names of the agents.

    table, data : the file, and its encoded records
    division, seed : how to divide the rows, and the seed for that
    sites : the list of sites in the schema, if there is one
    """
    check_division(division)
    site, agents, skew = division
    if site is not None:
        cells = table.strings(site)[data.kept]
        if len(empty := np.flatnonzero(cells.is_one_of([""]))):
            row = int(data.kept[empty[0]])
            raise InputError(f"every record needs a site; {table.where(row)} has no {site!r}; fill it in")
        if sites is not None:
            return partition.by_place(sites.place(table.cells(site, data.kept)), sites.names), list(sites.names)
        parts, found = partition.by_column(cells)
        return parts, list(map(str, found))
    n = 5 if agents is None else agents
    assert data.y is not None
    parts = partition.equal(len(data), n, seed) if skew is None else partition.dirichlet(data.y, n, skew, seed)
    return parts, [f"agent {i}" for i in range(n)]
