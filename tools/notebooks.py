"""A notebook as a page of the site: its text, its code, and what it printed and drew when it was last run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """The notebook as Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            png = "".join(data["image/png"]).strip()
            yield f'<img alt="What the code above has drawn" src="data:image/png;base64,{png}">'
        elif printed := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
            yield f"```text\n{printed}\n```"
