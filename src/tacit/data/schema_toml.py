"""TOML text of a schema. The standard library reads TOML but does not write it."""

import json
from collections.abc import Mapping
from typing import Any

from tacit.data.columns import plain


def write(schema: Mapping[str, Any]) -> str:
    """The data of `Schema.to_dict` as TOML.

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
    settings = {key: value for key, value in schema.items() if key not in ("label", "columns")}
    blocks = [_lines(settings), "[label]\n" + _lines(schema["label"])]
    blocks += ["[[columns]]\n" + _lines(column) for column in schema["columns"]]
    return "\n".join(blocks)


def _lines(settings: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in settings.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return plain(float(value))
