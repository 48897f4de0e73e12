"""A module imports from its own layer and from those below it, never from above."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import layers

MODULES = layers.modules()


def upward(module, text):
    """What a module with this text imports from above its own layer."""
    return [found for found in layers.imports(text, MODULES) if layers.layer(found) > layers.layer(module)]


@pytest.mark.parametrize("module", MODULES)
def test_dependencies_point_one_way(module):
    assert upward(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ["from tacit.privacy import noise", "def f():\n    import tacit.cli", "from tacit.algorithms import EXTRA"]
)
def test_an_import_from_above_is_seen(text):
    assert upward("tacit.core.problem", text)


def test_a_module_that_is_in_no_layer_is_seen():
    with pytest.raises(KeyError, match="in no layer"):
        layers.layer("tacit.attic.junk")


def test_the_picture_is_that_of_the_imports():
    """`python tools/layers.py` draws it again."""
    assert layers.PICTURE.read_text(encoding="utf-8") == layers.picture()
