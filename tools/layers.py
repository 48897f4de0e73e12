"""The layers of the package, read from its imports, and the picture of them in docs/design.md.

python tools/layers.py    # draws docs/images/layers.svg again
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tacit"
PICTURE = ROOT / "docs" / "images" / "layers.svg"
# From the bottom up. A release carries events, so they are below the core. The privacy of a whole run is computed by
# running methods: three modules of privacy are above them. The laboratory is above the product: it imports the product,
# never the other way.
LAYERS = [
    ["tacit", "tacit.database", "tacit.errors", "tacit.files", "tacit.html", "tacit.lazy"],
    ["tacit.engines", "tacit.privacy.events", "tacit.privacy.formulas"],
    ["tacit.core", "tacit.engines.records_in_parts", "tacit.losses", "tacit.data"],
    ["tacit.privacy"],
    ["tacit.exchange", "tacit.composite"],
    ["tacit.algorithms", "tacit.simulation"],
    ["tacit.privacy.plan", "tacit.privacy.network", "tacit.privacy.transcript"],
    ["tacit.extend", "tacit.run", "tacit.model"],
    ["tacit.agent", "tacit.estimators"],
    ["tacit.report"],
    ["tacit.cli", "tacit.__main__"],
    ["tacit.lab", "tacit.lab.attacks", "tacit.lab.audit", "tacit.lab.theory"],
    ["tacit.lab.comparison", "tacit.lab.papers"],
    ["tacit.lab.charts", "tacit.lab.listings"],
    ["tacit.lab.cli"],
]
_HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
# These only re-export what is defined elsewhere.
_FRONTS = {"tacit", "tacit.losses", "tacit.model", "tacit.__main__"}


def place(module: str) -> str:
    """The longest name in the table above that the module is, or is within."""
    parts = module.split(".")
    known = [name for k in range(len(parts), 0, -1) if (name := ".".join(parts[:k])) in _HEIGHT]
    if known[0] == "tacit" and module != "tacit":
        raise KeyError(f"{module} is in no layer")
    return known[0]


def layer(module: str) -> int:
    """The number of the module's layer; 0 is the lowest."""
    return _HEIGHT[place(module)]


def modules() -> dict[str, Path]:
    """Every module of the package, with its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(text: str, known: dict[str, Path]) -> Iterator[str]:
    """The modules of tacit that a file imports when it runs; not those for the type checker alone."""
    tree = ast.parse(text)
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    only_types = {id(inner) for guard in guards for inner in ast.walk(guard)}
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "tacit")


def picture() -> str:
    """The layers as boxes, and lines to what each box imports (left out where another line implies it)."""
    known, edges, sizes = modules(), nx.DiGraph(), dict.fromkeys(_HEIGHT, 0)
    for module, path in known.items():
        sizes[place(module)] += 1
        for found in imports(path.read_text(encoding="utf-8"), known):
            if place(found) != place(module) and not {place(found), place(module)} & _FRONTS:
                edges.add_edge(place(module), place(found))
    boxes, width, row = {}, 760, 62
    drawn = [[name for name in names if name not in _FRONTS] for names in LAYERS]
    for height, names in enumerate(reversed(drawn)):
        step = width / len(names)
        for k, name in enumerate(names):
            boxes[name] = (step * (k + 0.5), 30 + row * height)
    lines = []
    for a, b in sorted(nx.transitive_reduction(edges).edges):
        (x1, y1), (x2, y2) = boxes[a], boxes[b]
        lines.append(f'<line x1="{x1:.0f}" y1="{y1 + 15:.0f}" x2="{x2:.0f}" y2="{y2 - 15:.0f}" stroke="#9ab"/>')
    for name, (x, y) in boxes.items():
        label = name.removeprefix("tacit.") + (f" ({sizes[name]})" if sizes[name] > 1 else "")
        lines.append(
            f'<rect x="{x - 80:.0f}" y="{y - 15:.0f}" width="160" height="30" rx="4" fill="#eef3f8" stroke="#456"/>'
        )
        lines.append(f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{label}</text>')
    size = f'viewBox="0 0 {width} {row * len(drawn)}" font-family="sans-serif" font-size="14"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join(lines) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
