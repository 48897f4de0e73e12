"""The data of a report of `tacit train`: from what was trained to what `tacit.report.pages.run` shows.

Of a private run only what the guarantee covers, or what is public, goes in.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tacit.data import Schema
from tacit.data.columns import Bands, Category, Classes, Label, Multiclass, Number, Target
from tacit.html.words import counted, written
from tacit.privacy.accounting import delta_warning
from tacit.report.metrics_in_words import in_words
from tacit.run.recipes import RECIPES, Recipe
from tacit.run.training import PrivatelyTrained, Trained

_MOST = 400  # points of a curve
_VALUES = 8  # of a category that are listed
# Of the model file: shown elsewhere.
_APART = ["agents", "edges", "rounds", "converged", "robust", "simulated attack", "parameters", "positive_share"]
_APART += ["without", "federation", "member", "spec"]  # of an agent


def privately(trained: PrivatelyTrained, title: str, name: str, graph: str, records: dict[str, Any]) -> dict[str, Any]:
    """The data of a private run, by the method of this name, on the graph that was asked for, on `records_used`."""
    training = trained.model.training
    rows = [each["rows"] for each in training["agents"]]
    warning = delta_warning(trained.delta, max(rows))
    counts = trained.positive_share is not None
    return common(training, name) | {
        "title": _title(title, name, training),
        "records": records,
        "rounds": trained.rounds,
        "messages": trained.messages,
        "bytes": trained.bytes,
        **{key: trained.model.privacy[key] for key in ("private", "statement", "epsilon", "delta")},
        **trained.guarantee.as_plain(),
        "positive_share": counts,
        "warnings": [] if warning is None else [f"{warning}."],
        "verify": [] if counts else _verify(trained, name, graph, rows),
    }


def exactly(trained: Trained, title: str, name: str, records: dict[str, Any]) -> dict[str, Any]:
    """The data of a run without privacy, on `records_used`: everything."""
    training, history = trained.model.training, trained.run.history
    measured = trained.together.measured
    step = -(-len(history["round"]) // _MOST)
    curves = {"average training loss": "model_loss", "largest disagreement of two members": "consensus_error"}
    return common(training, name) | {
        "title": _title(title, name, training),
        "records": records,
        "rounds": trained.rounds,
        "messages": int(history["messages"][-1]),
        "bytes": int(history["bytes"][-1]),
        **{key: trained.model.privacy[key] for key in ("private", "statement")},
        "converged": trained.run.converged,
        "consensus_error": float(history["consensus_error"][-1]),
        "history": {called: history[key][::step].tolist() for called, key in curves.items()},
        "measured": [] if measured is None else in_words(measured, trained.model.schema.label),
        "verify": [],
    }


def records_used(
    schema: Schema, *, held_out: int = 0, population: str | None = None, cohorts: Iterable[str] | None = None
) -> dict[str, Any]:
    """Which records and columns a run used: what the schema says, and what a ledger knows of the people."""
    return {
        "label": {"column": schema.label.column, "read": _read(schema.label)},
        "columns": [{"column": each.name, "read": _read(each)} for each in schema.columns],
        "missing": _MISSING[schema.missing],
        "unknown": _UNKNOWN[schema.unknown],
        "public_share": getattr(schema.label, "positive_share", None),
        "held_out": held_out,
        "population": population,
        "cohorts": None if cohorts is None else sorted(cohorts),
    }


_MISSING = {
    "drop": "Records with a missing value were left out.",
    "zero": "A missing number counts as its lower bound; a missing category counts as none of those listed, "
    "and a missing number in bands as in none of them.",
    "refuse": "No value may be missing.",
}


_UNKNOWN = {
    "zero": "A category that is not listed counts as none of them.",
    "refuse": "Other categories than those listed were refused.",
}


def _read(column: Number | Bands | Category | Label) -> str:
    """How a column becomes numbers, in a few words."""
    if isinstance(column, Number | Target):
        low, high = column.bounds
        return f"a number from {low:g} to {high:g}"
    if isinstance(column, Bands):
        return f"a number in {counted(len(column.edges) - 1, 'band')} from {column.edges[0]:g} to {column.edges[-1]:g}"
    if isinstance(column, Classes):
        return f"{_some(column.positive, ' or ')}, against {_some(column.negative, ' or ')}"
    # A category may have a comma of its own: pneumonia, bacterial.
    return _some(column.classes if isinstance(column, Multiclass) else column.categories, "; ")


def _some(values: Sequence[str], between: str) -> str:
    """Values of a list, of a long one only the first."""
    more = f" and {len(values) - _VALUES} more" if len(values) > _VALUES else ""
    return f"{between.join(values[:_VALUES])}{more}"


def _title(file: str, method: str, training: Mapping[str, Any]) -> str:
    return f"{file}: {counted(len(training['agents']), 'member')}, {method}"


def common(training: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a model file says about any run, by the method of this name."""
    recipe = _recipe(training)
    title = training["algorithm"] if recipe is None else recipe.title
    return written() | {
        "agents": training["agents"],
        "edges": training["edges"],
        "method": {"name": name, "title": title},
        "settings": {key: value for key, value in training.items() if key not in _APART} | training["parameters"],
        "attack": training.get("simulated attack"),
        "robust": training.get("robust"),
    }


def _recipe(training: Mapping[str, Any]) -> Recipe | None:
    """The recipe that chose the numbers, if one did."""
    return RECIPES.get(training.get("spec", {}).get("recipe", ""))


def _verify(trained: PrivatelyTrained, name: str, graph: str, rows: Sequence[int]) -> list[dict[str, str]]:
    """How to compute the cost again without the records; a file of edges has names that a plan does not know."""
    recipe = _recipe(trained.model.training)
    if recipe is None or graph.endswith(".csv"):
        return []
    found = trained.guarantee
    sizes = [str(rows[0]), "--agents", str(len(rows))] if len(set(rows)) == 1 else [",".join(map(str, rows))]
    words = [
        "tacit",
        "plan",
        name,
        "--rows",
        *sizes,
        "--epsilon",
        f"{found.epsilon:.6g}",
        "--delta",
        f"{found.delta:g}",
    ]
    words += [] if graph == "auto" else ["--graph", graph]
    if recipe.traits.totals:
        words += ["--colluders", str(found.colluders), "--dropouts", str(found.dropouts)]
    what = "Compute the cost again. This needs public facts alone, and no records:"
    return [{"what": what, "command": shlex.join(words)}]
