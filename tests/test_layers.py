"""What stands on what: a module imports from its own layer and from those below it, never from above."""

import ast
from pathlib import Path

import pytest

import tacit

ROOT = Path(tacit.__file__).parent
# From the ground up. The privacy of a whole run is found by running methods, so these four modules stand above them.
LAYERS = [
    ["tacit", "tacit.errors", "tacit.files"],
    ["tacit.core", "tacit.losses"],
    ["tacit.data"],
    ["tacit.privacy"],
    ["tacit.exchange", "tacit.composite"],
    ["tacit.algorithms", "tacit.simulation", "tacit.theory"],
    ["tacit.privacy.plan", "tacit.privacy.audit", "tacit.privacy.network", "tacit.privacy.transcript"],
    ["tacit.attacks", "tacit.extend", "tacit.estimators"],
    ["tacit.workflows", "tacit.model"],
    ["tacit.agent", "tacit.papers"],
    ["tacit.report"],
    ["tacit.cli", "tacit.__main__"],
]
LAYER = {name: height for height, names in enumerate(LAYERS) for name in names}


def layer(module):
    """The height of the longest name in the table that the module is, or is within."""
    parts = module.split(".")
    known = [".".join(parts[:k]) for k in range(len(parts), 1, -1) if ".".join(parts[:k]) in LAYER]
    assert known or module == "tacit", f"{module} is in no layer"
    return LAYER[known[0]] if known else 0


def modules(root=ROOT):
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(tree, names):
    """The modules of ours that a file imports when it runs: not what is there for the type checker alone."""
    only_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in names else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "tacit")


NAMES = dict(modules())


def upward(module, text):
    """What a module with this text imports from above its own layer."""
    return [found for found in imports(ast.parse(text), NAMES) if layer(found) > layer(module)]


@pytest.mark.parametrize("module", NAMES)
def test_dependencies_point_one_way(module):
    assert upward(module, NAMES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ["from tacit.privacy import noise", "def f():\n    import tacit.cli", "from tacit.algorithms import EXTRA"]
)
def test_an_import_from_above_is_seen(text):
    assert upward("tacit.core.problem", text)
