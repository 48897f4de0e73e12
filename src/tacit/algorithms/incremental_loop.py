"""Visits of incremental ADMM one after the other, compiled: for plain runs, where a tick of Python takes longest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.core import jit, losses
from tacit.core.jit import drop_stale_kernels, entry, kernel
from tacit.core.problem import Problem, not_converged, reachable
from tacit.core.solvers import block, gram, quasi_newton


def handed_on(x: Any, centre: Any, x_before: Any, y_before: Any, z: Any, rho: Any, penalty: float, network: int) -> Any:
    """(4b) and (5), with `centre` for z + y_i/rho: the change of y_i, the new y_i and the token."""
    y = rho * (centre - x)
    return y - y_before, y, z + ((x - y / penalty) - (x_before - y_before / penalty)) / network


_handed_on = kernel(handed_on)


@entry
def _visits(  # type: ignore[no-untyped-def]
    holders, penalty, exact, network, l2, tolerance, enough, starts, grams,
    kind, shape, rows, lo, hi, targets, c,  # RowStore.data
    x, y, seen, change,
):  # fmt: skip
    """The token goes from each holder to the next, the last of which only receives it. Changes the four arrays in
    place; returns the visit at which the solver gave up, or -1, and
    the gradient norm there, which had to be `enough` at most."""
    here, place = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    rho, norms, new = np.array([penalty + l2]), np.zeros(1), np.empty((1, x.shape[1]))
    aims = np.array([tolerance])
    z = seen[holders[0]].copy()
    for k in range(len(holders) - 1):
        i = holders[k]
        here[0] = i
        centre = z + y[i] / penalty
        if exact:  # (4a)
            new[0] = x[i]
            b = (-penalty * centre).reshape((1, len(z)))
            norms[0] = np.inf
            if starts[i] >= 0:
                gram.minimise(
                    place, here, starts, grams, kind, shape, rows, lo, hi, targets, c, rho, b, new, aims, norms
                )
            if not norms[0] <= tolerance:  # as in RowStore.minimise
                quasi_newton.minimise(place, here, kind, shape, rows, lo, hi, targets, c, rho, b, new, aims, norms)
            if not norms[0] <= enough:
                return k, norms[0]
        else:  # (8)
            block.gradients(here, kind, shape, rows, lo, hi, targets, c, x[i : i + 1], new)
            new[0] = centre - (new[0] + l2 * x[i]) / penalty
        change[i], y[i], z = _handed_on(new[0], centre, x[i].copy(), y[i].copy(), z, penalty, penalty, network)
        x[i] = new[0]
        seen[i] = z
        seen[holders[k + 1]] = z
    return -1, 0.0


drop_stale_kernels(
    [_visits], [Path(__file__), Path(losses.__file__), Path(jit.__file__), *Path(block.__file__).parent.glob("*.py")]
)


def visits(holders: np.ndarray, problem: Problem, penalty: float, exact: bool, state: tuple[np.ndarray, ...]) -> None:
    """Changes x, y, token and change, all (N, d), as the visits of these holders do; the last only gets the token."""
    store = problem.store
    enough = reachable(problem.tolerance, penalty + problem.l2)
    settings = (float(penalty), exact, problem.agents, problem.l2, problem.tolerance, enough)
    starts, grams = store.grams
    small = np.empty(0) if grams is None else grams  # not None, for which another kernel would be compiled
    stuck, norm = _visits(holders, *settings, starts, small, *store.data, *state)
    if stuck >= 0:
        raise not_converged(int(holders[stuck]), norm, enough, state[0])
