"""How many agents a graph can lose and stay connected, exactly.

Even (1975): a graph is k-connected if between any two of its first k agents that are not neighbours there are k ways
without a common agent, and from every later agent there are k ways to k different agents before it, without a common
agent but the first. (Take k - 1 agents out. What is left of the first k agents hangs together. The first agent that
does not hang together with them would reach earlier agents by ways that all lead through the k - 1.) Ways to many ends
are short in most graphs: so this takes about as long as reading the edges, where flows between pairs take that long for
every pair.
"""

from __future__ import annotations

import numpy as np

from tacit.core.jit import entry, kernel

FREE, END, CLOSED = 0, 1, 2  # an agent that a way may pass, one at which it ends, and one that it must not touch


def connectivity(indptr: np.ndarray, indices: np.ndarray) -> int:
    """The least number of agents without whom the others are no longer connected; N - 1 for a complete graph.

    indptr, indices : the neighbours of each agent, in CSR form, of a graph that is connected
    """
    degree = np.diff(indptr)
    n, least = len(degree), int(degree.min())
    if least == n - 1 or least <= 1 or (least == 2 and degree.max() == 2):
        return least  # complete, a tree's leaf, a ring
    sure, most = 1, least  # nearly always as many as the least degree; if not, the middle of what is possible
    k = most
    while sure < most:
        if _is_connected(indptr, indices, k):
            sure = k
        else:
            most = k - 1
        k = (sure + most + 1) // 2
    return sure


@kernel
def _ways(indptr, indices, source, k, kind, before, seen, reached, queue, used, mark, clock):  # type: ignore[no-untyped-def]
    """How many ways lead from the source to different ends without a common agent, counted up to k: a flow in which an
    agent lets one unit through, from its entry, 2 i, to its exit, 2 i + 1. Each search finds a way, or a detour that
    takes one step of an earlier way back for every step that it shares with it."""
    begun, touched, count = clock + 1, 0, 0
    while count < k:
        clock += 1
        head, tail, found = 0, 1, -1
        queue[0] = 2 * source + 1
        seen[2 * source], seen[2 * source + 1] = clock, clock
        while head < tail and found < 0:
            here = queue[head]
            i, head = here // 2, head + 1
            if here % 2 == 0:  # at an entry: through the agent if nobody passes it, or back along the way that does
                there = here + 1 if before[i] < 0 else 2 * before[i] + 1
                if seen[there] != clock:
                    seen[there], reached[there], queue[tail] = clock, here, there
                    tail += 1
                continue
            for j in indices[indptr[i] : indptr[i + 1]]:
                if kind[j] != CLOSED and before[j] != i and seen[2 * j] != clock:
                    seen[2 * j], reached[2 * j], queue[tail] = clock, here, 2 * j
                    tail += 1
                    if kind[j] == END and before[j] < 0:
                        found = 2 * j
                        break
            if i != source and before[i] >= 0 and seen[2 * i] != clock:  # and back through the agent
                seen[2 * i], reached[2 * i], queue[tail] = clock, here, 2 * i
                tail += 1
        if found < 0:
            break
        there = found  # first take back the steps of earlier ways, then add those of the new one
        while there != 2 * source + 1:
            here = reached[there]
            if here % 2 == 0 and here // 2 != there // 2:
                before[here // 2] = -1
            there = here
        there = found
        while there != 2 * source + 1:
            here = reached[there]
            i, j = here // 2, there // 2
            if here % 2 == 1 and i != j:
                before[j] = i
                if mark[j] != begun:
                    mark[j], used[touched] = begun, j
                    touched += 1
            there = here
        count += 1
    for a in range(touched):
        before[used[a]] = -1
    return clock, count


@entry
def _is_connected(indptr, indices, k):  # type: ignore[no-untyped-def]
    """Whether the graph stays connected without any k - 1 agents; k is at most the least degree."""
    n = len(indptr) - 1
    kind = np.zeros(n, dtype=np.uint8)
    before = np.full(n, -1, dtype=np.int32)  # who comes before an agent on the ways found so far
    seen = np.zeros(2 * n, dtype=np.int64)  # when an agent's entry (2 i) or exit (2 i + 1) was reached last
    reached = np.empty(2 * n, dtype=np.int64)  # from where
    queue = np.empty(2 * n, dtype=np.int64)
    used, mark = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.int64)
    clock = 0
    for t in range(k):  # k ways between the first agents: to the neighbours of the second, without itself
        near = indices[indptr[t] : indptr[t + 1]]
        for s in range(t):
            if (near == s).any():
                continue
            kind[near] = END
            kind[t] = CLOSED
            clock, ways = _ways(indptr, indices, s, k, kind, before, seen, reached, queue, used, mark, clock)
            kind[near] = FREE
            kind[t] = FREE
            if ways < k:
                return False
    kind[:k] = END
    for s in range(k, n):
        clock, ways = _ways(indptr, indices, s, k, kind, before, seen, reached, queue, used, mark, clock)
        if ways < k:
            return False
        kind[s] = END
    return True
