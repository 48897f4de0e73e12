"""The errors. Every message says which rule was broken, by which value, and what to do."""

import errno
import math
from numbers import Integral, Real
from typing import Any

__all__ = [
    "Dropout",
    "EngineError",
    "ExchangeError",
    "GraphError",
    "InputError",
    "MachineError",
    "NotConnected",
    "NotConverged",
    "NotNow",
    "Over",
    "TacitError",
]


NEW_RUN = "agree on a new run under another title, which is paid for anew"  # what is left to do when a run is over


class TacitError(Exception):
    """Parent of every error that tacit raises on purpose. A command that fails with it ends with its `exit_code`: by
    these a supervisor knows whether to start it again (sysexits.h)."""

    exit_code = 2  # a mistake in the command or in a file

    def __reduce__(self) -> tuple[Any, ...]:  # from one process to another, whatever `__init__` takes
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[TacitError], args: tuple[Any, ...], state: dict[str, Any]) -> TacitError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(TacitError):
    """A file, an argument or a data set is not valid."""


class NotNow(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """The command was stopped, or waited too long. Nothing is lost: the same command goes on."""

    exit_code = 75


class MachineError(TacitError):
    """The machine does not let the command go on now: a full disk, an address in use, too little memory. Nothing is
    lost: once that is mended, the same command goes on."""

    exit_code = 74


class EngineError(TacitError):
    """The processes or the cluster that should do the work cannot do it."""


class Over(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """This run is over for this member: the same command will never succeed."""

    exit_code = 78


class GraphError(TacitError):
    """The agents cannot talk as asked: the graph is not connected, or not a graph."""


class NotConnected(GraphError):  # noqa: N818 (a state of affairs, not a mistake)
    """The graph is not connected; `components` lists its groups of agents."""

    def __init__(self, components: list[list[int]], names: list[str] | None = None) -> None:
        self.components = components
        called = [[str(i) if names is None else names[i] for i in c] for c in components]
        shown = "; ".join("{" + ", ".join(c[:8] + ["..."] * (len(c) > 8)) + "}" for c in called[:6])
        super().__init__(f"the graph is not connected: it falls into {len(components)} components: {shown}")


class NotConverged(TacitError):  # noqa: N818 (a state of affairs, not a mistake)
    """A local solver did not reach the gradient norm that it must guarantee; `reached` is where it stopped."""

    def __init__(self, message: str, reached: Any) -> None:
        super().__init__(message)
        self.reached = reached


class ExchangeError(TacitError):
    """A message between agents was refused, or a rule of their protocol would have been broken."""


class Dropout(ExchangeError):  # noqa: N818 (a state of affairs, not a mistake)
    """Agents did not send what the others need; `agents` says which."""

    def __init__(self, agents: list[int], message: str) -> None:
        super().__init__(message)
        self.agents = agents


_OF_THE_MACHINE = {
    errno.EADDRINUSE,
    errno.EADDRNOTAVAIL,
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


def of_the_machine(error: BaseException) -> bool:
    """Whether an error may go away by itself, or with more room: nobody has made a mistake."""
    if isinstance(error, OSError):
        return error.errno in _OF_THE_MACHINE
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)


def failed(error: OSError, text: str) -> TacitError:
    """The error with this text: of the machine, or of whoever named the file or the address.

    >>> failed(OSError(errno.ENOSPC, "No space left on device"), "x.store: no space").exit_code
    74
    >>> failed(OSError(errno.EACCES, "Permission denied"), "x.store: not allowed").exit_code
    2
    """
    return (MachineError if of_the_machine(error) else InputError)(text)


def whole(name: str, value: Any, least: int) -> int:
    """The value as a plain int. Raises an error if it is not a whole number, `least` or more; True and 2.0 are not
    whole numbers.

    >>> whole("rounds", 1.5, 0)
    Traceback (most recent call last):
    ...
    tacit.errors.InputError: rounds must be a whole number, 0 or more, not 1.5
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return int(value)


def number(name: str, value: Any, *, zero: bool = False) -> float:
    """The value as a plain float. Raises an error if it is not a positive, finite number (or zero, if that is
    allowed); True is not a number.

    >>> number("l2", 1), number("l2", 0, zero=True)
    (1.0, 0.0)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        found = math.nan
    else:
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
    if not (0 < found < math.inf or (zero and found == 0)):
        raise InputError(f"{name} must be {'zero or ' if zero else ''}a positive number, not {value!r}")
    return found
