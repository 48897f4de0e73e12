"""What every method has in common, and what it may say of itself besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tacit.core.graph import Graph, View
from tacit.core.problem import Problem
from tacit.core.release import Inbox, Release
from tacit.core.schedule import Schedule
from tacit.errors import TacitError

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


Answer = Callable[[Any], bool]  # of a method with all its parameters


def always(method: Any) -> bool:
    """Yes, whatever the parameters of the method are."""
    return True


def never(method: Any) -> bool:
    """No, whatever the parameters of the method are."""
    return False


def given(*names: str) -> Answer:
    """Whether one of these parameters is not None."""
    return lambda method: any(getattr(method, name) is not None for name in names)


@dataclass(frozen=True)
class Traits:
    """What a method declares of itself, as its class attribute `traits`. What may depend on its parameters is a
    function of the method. The defaults are for a method that says nothing: nothing is taken for granted.

    >>> from tacit.algorithms import RecycledADMM, WalkADMM
    >>> traits(WalkADMM).token, traits(RecycledADMM()).draws(RecycledADMM(alpha=1.0))
    (True, True)
    """

    token: bool = False  # one agent speaks at a time
    totals: bool = False  # it needs the sum over all members, and has bounds(facts) for them
    alone: bool = False  # it is for one holder of all records
    multiclass: bool = False  # the proof of its noise covers labels of several classes
    released: bool = False  # its estimate, wherever it has a budget, is made of released values and of nothing else
    laws: tuple[type, ...] = ()  # of the budgets of a noisy step
    carried: tuple[str, ...] = ()  # what of its state a member needs that missed a total; reach(...) bounds their norms
    draws: Answer = always  # agents draw random numbers, for noise or to keep something secret
    sums: Answer = never  # it listens to sums of its neighbours' rows alone, so secret-shared sums serve it
    strides: Answer = never  # stride(...) takes many ticks at once
    paper_bound: Answer = never  # paper_bound(...) is what its paper says that a step costs


def traits(method: Algorithm | type) -> Traits:
    """What a method declares, or its class. As with `kinds`, a declaration is not inherited: a class that changes a
    step of another one says for itself what holds of it."""
    kind = method if isinstance(method, type) else type(method)
    if "traits" not in vars(kind):
        return Traits()
    found = method.traits  # type: ignore[union-attr]
    if not isinstance(found, Traits):
        raise TacitError(f"{kind.__name__}.traits must be a Traits, not {found!r}")
    return found


def kinds(algorithm: Algorithm, problem: Problem, rounds: int) -> np.ndarray | None:
    """Which of its ticks a method declares to cost the same: (rounds,) of whole numbers; None if it declares nothing.

    A method may have `kinds(problem, rounds)`. Ticks t with the same number cost an agent the same, whenever it speaks
    at them, and the paper's bound on them is the same. What they cost is not said here: a plan lets the method speak at
    the first tick of every kind, and counts the others. It does so with a state that has seen only those first ticks,
    so no cost may follow from the state: what is counted over the run has to follow from t.

    A declaration is not inherited. A class that changes a step of another one may change its cost, so it makes its own.
    """
    if "kinds" not in vars(type(algorithm)):
        return None
    declared = algorithm.kinds(problem, rounds)  # type: ignore[attr-defined]
    if declared is None:  # of a method that is made of another one, which declares nothing
        return None
    found = np.asarray(declared)
    if found.shape != (rounds,) or found.dtype.kind not in "iu":
        raise TacitError(
            f"{type(algorithm).__name__}.kinds must give a whole number for each of {rounds} ticks, not an array of "
            f"shape {found.shape} of {found.dtype}"
        )
    return found
