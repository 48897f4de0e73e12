"""Docstrings as Markdown, for the reference on the site (mkdocs.yml names this file)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from griffe import Extension, Object

sys.path.append(str(Path(__file__).resolve().parent))
import reference


class AsMarkdown(Extension):
    """Turns every docstring into Markdown, which takes >>> for a quotation."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Is called for everything that is found in the source."""
        if obj.docstring is not None:
            obj.docstring.value = reference.as_markdown(obj.docstring.value)
