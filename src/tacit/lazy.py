"""Packages whose names are imported when they are first used: a run loads the methods that it runs, and no others."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package (PEP 562) with the names of each module; its own names are modules themselves."""
    module_of = {name: module for module, each in names.items() for name in each}

    def found(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = module_of[name]
        value = import_module(f"{module}.{name}") if module == package else getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)  # the next access does not call this function
        return value

    return found
