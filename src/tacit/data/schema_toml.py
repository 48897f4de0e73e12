"""Writes a schema as TOML. The standard library reads TOML but does not write it."""

import json
from collections.abc import Mapping
from typing import Any

from tacit.data.columns import plain


def write(schema: Mapping[str, Any], under: str = "") -> str:
    """The data of `Schema.to_dict` as TOML; `under` names the table of a larger file that it goes into.

    >>> print(write({"version": 1, "label": {"column": "y"}, "columns": [{"name": "x", "edges": [0.0, 0.5]}]}))
    version = 1
    <BLANKLINE>
    [label]
    column = "y"
    <BLANKLINE>
    [[columns]]
    name = "x"
    edges = [0, 0.5]
    <BLANKLINE>
    """
    settings = {key: value for key, value in schema.items() if key not in ("label", "sites", "columns")}
    inside = f"{under}." if under else ""
    blocks = [lines(settings, under), lines(schema["label"], f"{inside}label")]
    blocks += [lines(schema["sites"], f"{inside}sites")] if "sites" in schema else []
    blocks += [lines(column, f"[{inside}columns]") for column in schema["columns"]]
    return "\n".join(blocks)


def lines(settings: Mapping[str, Any], table: str = "") -> str:
    """One line for each setting, after the line that names their table, if there is one."""
    head = f"[{table}]\n" if table else ""
    return head + "".join(f"{key} = {_value(value)}\n" for key, value in settings.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML string, except that TOML wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return plain(float(value))
