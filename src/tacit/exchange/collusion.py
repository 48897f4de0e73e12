"""What agents that combine what they hear learn about the others, in spite of secret-shared sums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from tacit.core.graph import Graph
from tacit.errors import InputError


def revealed(
    graph: Graph, coalition: Iterable[int], left_out: Mapping[int, Collection[int]] | None = None
) -> list[int]:
    """The agents outside the coalition whose row it can compute from its own rows and its sums of one round.

    Each agent i of the coalition hears the sum over its neighbours. As equations in the rows of the others, these are
    the indicators of N(i) without the coalition. The row of h follows from them if and only if the unit vector e_h is
    in their span, that is, a row of the reduced echelon form. Fractions make the answer exact.

    `left_out` names, for a listener, the agents that its sum of that round does not count because they dropped out.

    The answer holds for *any* messages, and then also for any number of rounds: each has unknowns of its own. If rows
    of different rounds are the same, `revealed_by_repeats` has more; a method without noise relates them, too
    (`tacit.lab.attacks.sums`).

    >>> revealed(Graph.complete(5), [0, 1, 2]), revealed(Graph.ring(5), [0, 2])  # they hear 1 + 4 and 1 + 3
    ([], [])
    >>> revealed(Graph.ring(6), [0, 2, 4])  # they hear 1 + 5, 1 + 3, 3 + 5
    [1, 3, 5]
    """
    return revealed_by_repeats(graph, coalition, [left_out or {}])


def revealed_by_repeats(
    graph: Graph, coalition: Iterable[int], rounds: Sequence[Mapping[int, Collection[int]]]
) -> list[int]:
    """The same, if every agent says the same row in several rounds; `rounds` has the `left_out` of each of them.

    >>> revealed_by_repeats(Graph.complete(5), [0], [{}, {0: [4]}])  # 1 + 2 + 3 + 4, then 1 + 2 + 3
    [4]
    """
    ours = set(coalition)
    if not ours <= set(range(graph.agents)):
        raise InputError(f"the coalition {sorted(ours)} has agents that are not in the graph")
    others = [h for h in range(graph.agents) if h not in ours]
    equations = []
    for left_out in rounds:
        for i in sorted(ours):
            heard = set(graph.neighbours(i)) - set(left_out.get(i, ()))
            equations.append([Fraction(h in heard) for h in others])
    return [others[row.index(Fraction(1))] for row in _reduced(equations) if sum(x != 0 for x in row) == 1]


def _reduced(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """The non-zero rows of the reduced echelon form."""
    done = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in range(done, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [x / rows[done][column] for x in rows[done]]
        for r, row in enumerate(rows):
            if r != done and row[column]:
                rows[r] = [x - row[column] * y for x, y in zip(row, rows[done], strict=True)]
        done += 1
    return rows[:done]
