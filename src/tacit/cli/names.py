"""The names that the command line knows its parts by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.algorithms import ConsensusADMM

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "admm": ConsensusADMM,
}
