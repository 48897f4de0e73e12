"""What agents need to know about a method, and which runs they cannot take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.algorithms import SharingADMM
from tacit.core.algorithm import Algorithm, traits
from tacit.core.schedule import Broadcast
from tacit.errors import InputError
from tacit.run.spec import RunSpec

if TYPE_CHECKING:
    from tacit.run.setting import Setting


def check(spec: RunSpec) -> None:
    """Refuses a run that agents cannot take, and a method that cannot run on its graph."""
    if spec.tolerance is not None:
        raise InputError("agents do not stop early: leave out tolerance, and say how many rounds there are")
    if spec.count:
        raise InputError(
            "agents do not count the positives: write their share into the schema (positive_share), and leave out count"
        )
    if isinstance(spec.method, SharingADMM):
        raise InputError(
            "sharing-admm: its agents have variables of their own, which a linear constraint ties together, and the "
            "members of a federation fit one model: take another method"
        )
    spec.method.schedule(spec.graph)  # refuses another number of agents, or too few edges
    if spec.trust.dropouts and not traits(spec.method).carried:
        raise InputError(f"{type(spec.method).__name__} cannot go on without a member: leave out dropouts")


def all_speak(spec: RunSpec) -> bool:
    """Whether all members speak at every tick."""
    return isinstance(spec.method.schedule(spec.graph), Broadcast)


def needs_totals(method: Algorithm) -> bool:
    """Whether it needs sums over all members."""
    return traits(method).totals


def check_sums(setting: Setting) -> None:
    """Refuses secret-shared sums for a method in which not all members speak at once, or that looks at single rows."""
    if not all_speak(setting.spec):
        raise InputError(f"{setting.name} cannot use secret-shared sums: one member speaks at a time")
    if not traits(setting.algorithm).sums(setting.algorithm):
        raise InputError(f"{setting.name} cannot use secret-shared sums: it looks at the rows of single neighbours")
