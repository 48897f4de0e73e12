"""What a worker gets, and what an engine is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")
Done = Callable[[int, int], None]  # how many items are done, of how many
Tell = Callable[[str, int, int], None]  # the same, after the words for what is being done


class Workers(Protocol):
    """The open workers of an engine."""

    jobs: int  # how many items are worked on at once

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], done: Done | None = None) -> list[Result]:
        """The results, in the order of the items.

        function : a function or an object that can be pickled; it is sent to each worker once
        items : small, since each is sent by itself; what all of them need belongs to the function
        done : called at the start, and after each item that is finished

        The first error ends the map: nothing more is started, and what runs is stopped.
        """


class Engine(Protocol):
    """A place where work runs: this machine or a cluster."""

    def open(self) -> AbstractContextManager[Workers]:
        """Starts the workers, and stops them in the end."""


def limited(function: Callable[[Any], Any], item: Any, threads: int | None = None) -> Any:
    """function(item), with one thread for BLAS and so many for the solvers; as many as there are cores, if not given.

    Sums of BLAS depend on the number of its threads. The solvers' results do not.
    """
    if threads is not None:
        os.environ |= {"NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1"}  # the second for what loads later
    with threadpool_limits(limits=1):
        return function(item)
