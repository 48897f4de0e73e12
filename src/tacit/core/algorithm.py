"""What every method has in common, and nothing else."""

from __future__ import annotations

from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Schedule

if TYPE_CHECKING:
    from tacit.privacy.noise import Noise


class Algorithm(Protocol):
    """A frozen dataclass of hyper-parameters with these methods; the state is a NamedTuple of arrays.

    The first axis of every array of the state is "the agents of this block": all of them in a
    simulation, one where an organisation runs its own agent. A method does not know which. It may name its parameters
    as it likes: they are passed by position.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def schedule(self, graph: Graph, /) -> Schedule:
        """Which agents speak to which, at every tick."""
        ...

    def init(self, problem: Problem, view: View, start: np.ndarray, heard: Inbox, /) -> Any:
        """The state before the first tick. The starts, own (n, d) and heard, are public and data-independent."""
        ...

    def speak(self, state: Any, problem: Problem, view: View, noise: Noise | None, t: int, /) -> tuple[Any, Release]:
        """Local work, and what leaves the agent."""
        ...

    def listen(self, state: Any, inbox: Inbox, view: View, t: int, /) -> Any:
        """Takes in what the neighbours said."""
        ...

    def estimate(self, state: Any, /) -> np.ndarray:
        """Each agent's present model, (n, d)."""
        ...

    def residuals(self, state: Any, view: View, /) -> tuple[np.ndarray, np.ndarray]:
        """How far each agent is from agreement and from optimality, both relative, (n,) each."""
        ...
