"""Documents from templates. What a value says is escaped.

A document stands alone in one file, with its style and, as JSON, all its numbers. It needs no network and runs no
script; its security policy allows neither.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tacit.html import pictures, words
from tacit.html.markup import STYLE, Markup
from tacit.report import cost

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(template: str, title: str, kind: str, plain: dict[str, Any], said: dict[str, Any]) -> str:
    """A whole file. `kind` says what it is a report of; `plain` is the data that all of it is made of, and `said` what
    the template uses."""
    return environment().get_template(template).render(said, title=title, kind=kind, plain=plain)


@cache
def environment() -> Environment:
    """How templates are read, and what they can use."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False}
    made.globals |= {"policy": POLICY, "style": Markup(STYLE), "gauge": pictures.gauge, "best_guess": cost.guess}
    made.filters |= {
        "commas": "{:,}".format,
        "number": cost.number,
        "rounded_down": cost.rounded_down,
        "counted": words.counted,
        "listed": words.listed,
        "moment": words.moment,
        "finite": _finite,
    }
    return made


def _finite(plain: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
