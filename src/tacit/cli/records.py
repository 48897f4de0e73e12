"""The records of a command: read, encoded by their schema, and shared out among the agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.cli import names
from tacit.cli.console import tell, warn
from tacit.cli.schema import draft_without, require_site
from tacit.data import Classes, Dataset, Schema, Sites, Table, adult_schema, partition
from tacit.data.cohorts import cohorts_of, digest, require_one_grain
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger, Records

NOT_COVERED = " (not covered by the guarantee: keep this to yourself)"
NOISY = "noisy"  # of --positive-share: measured by a noisy count


class Division(NamedTuple):
    """How the rows are divided among the agents: by a column, or among so many agents."""

    site: str | None
    agents: int | None
    skew: float | None


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
    for column, count in data.clipped.items():
        outside = f"{count:,} of {len(table):,} values lie outside the schema's bounds and were clipped"
        warn(f"column {column!r}: {outside}{note}")
    for column, count in data.unknown.items():
        strange = f"{count:,} of {len(table):,} values are no category of the schema, so their features are zero"
        warn(f"column {column!r}: {strange}{note}")
    if len(data) < len(table):
        warn(f"{len(table) - len(data):,} of {len(table):,} rows lack a value and were left out{note}")
    return data


def records_of(table: Table, ledger: Ledger) -> Records:
    """What a ledger has to know about a file of records."""
    from tacit.privacy.ledger import Records

    cohorts = cohorts_of(table, ledger.cohorts) if ledger.cohorts else None
    require_one_grain({*(cohorts or ()), *ledger.by_cohort()})
    return Records(digest(table), len(table), cohorts)


def read(file: str, label: str | None, site: str | None, schema: Path | None) -> tuple[Table, Schema]:
    """The file, and its schema: the given one, or that of the embedded data, or a draft."""
    table = names.records(file)
    if site is not None:
        require_site(table, site)
    if schema is not None:
        given = Schema.from_toml(schema)
        if site is not None and site == given.label.column:
            raise InputError(f"column {site!r} cannot be both the label and the site")
        if site is not None and given.sites is not None and site != given.sites.column:
            raise InputError(
                f"--site {site} contradicts the schema, whose sites are in column {given.sites.column!r}; change one"
            )
        if any(column.name == site for column in given.columns):
            warn(f"the schema learns from {site!r}, the column of sites: a new site could not use the model")
        if label is not None and label != given.label.column:
            raise InputError(
                f"--label {label} contradicts the schema, whose label is {given.label.column!r}; leave it out"
            )
        return table, given
    if file == "adult" and label in (None, "income"):
        return table, adult_schema()
    if label is None:
        raise InputError("--label is needed: the column to predict (or --schema, which names it)")
    drafted, notes = draft_without(table, label, site)
    tell(notes)
    return table, drafted


def share_out(
    table: Table, data: Dataset, division: Division, seed: int, sites: Sites | None = None
) -> tuple[list[np.ndarray], list[str]]:
    """Which rows of the data each agent holds, and the names of the agents.

    table, data : the file, and its encoded records
    division, seed : how to divide the rows, and the seed for that
    sites : the list of sites in the schema, if there is one
    """
    site, agents, skew = division
    if site is not None:
        if agents is not None or skew is not None:
            raise InputError("--site already says which agent holds which rows; leave out --agents and --skew")
        cells = table.columns[site][data.kept]
        if np.any(cells == ""):
            row = int(data.kept[np.argmax(cells == "")])
            raise InputError(f"every record needs a site; {table.where(row)} has no {site!r}; fill it in")
        if sites is not None:
            return partition.by_place(sites.place(table.cells(site, data.kept)), sites.names), list(sites.names)
        parts, found = partition.by_column(cells)
        return parts, list(map(str, found))
    n = 5 if agents is None else agents
    assert data.y is not None
    parts = partition.equal(len(data), n, seed) if skew is None else partition.dirichlet(data.y, n, skew, seed)
    return parts, [f"agent {i}" for i in range(n)]
