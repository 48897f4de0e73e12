"""Totals: the protocol equals the sum to the last bit, and a coalition sees uniform words but for the others' sum."""

import itertools
from collections import Counter

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import ConsensusADMM, GradientDescent, SummedGradientDescent
from tacit.core.graph import Graph
from tacit.core.schedule import Broadcast, Turn
from tacit.errors import Dropout, ExchangeError, InputError
from tacit.exchange import IdealTotals, Plain, SecretSharedSums, SecretSharedTotals
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.keys import KEY_BYTES, RepeatableWords
from tacit.exchange.network_sharing import NetworkSharer
from tacit.exchange.totals import SHARE_BYTES, TotalInbox, totals_point
from tacit.exchange.tree import Tree
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.sensitivity import LARGEST_TOTAL, SHARE_GRID

GRAPHS = {
    "complete": Graph.complete(6),
    "ring": Graph.ring(5),
    "path": Graph.path(4),
    "star": Graph.star(5),
    "pair": Graph.complete(2),
    "random": Graph.random(9, 14, seed=2),
    "regular": Graph.regular(12, 4),
}
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def on_grid(rows):
    return np.round(rows / SHARE_GRID) * SHARE_GRID


# The protocol and the sum


@graphs
def test_the_protocol_equals_the_sum_to_the_last_bit(graph):
    """Rows of all sizes up to the largest; against whole numbers, too."""
    n, d, rng = graph.agents, 64, np.random.default_rng(0)
    links = [exchange.open(graph) for exchange in (IdealTotals(), SecretSharedTotals())]
    turn = Broadcast(graph).turn(0)
    for t in range(3):
        rows = on_grid(rng.choice([-1, 1], (n, d)) * 2.0 ** rng.uniform(-36, np.log2(LARGEST_TOTAL / n), (n, d)))
        rows[:, 0], rows[:, 1] = on_grid(np.full(n, LARGEST_TOTAL / n) - SHARE_GRID), -rows[:, 0]
        ideal, shared = (link.deliver(unprotected(rows), turn, t) for link in links)
        np.testing.assert_array_equal(ideal.sum(), shared.sum())
        exact = [sum(int(x / SHARE_GRID) for x in column) for column in rows.T]
        assert [int(x / SHARE_GRID) for x in shared.sum()[n - 1]] == exact
        assert shared.counts.tolist() == ideal.counts.tolist() == [[n]] * n
    assert links[0].sent == links[1].sent
    edges = len(graph.edges)
    assert links[1].sent["messages"] == 2 * edges + 3 * (2 * edges + 2 * (n - 1))


@graphs
@pytest.mark.parametrize("private", [True, False])
def test_a_run_is_the_same_with_and_without_the_protocol(graph, private):
    n = graph.agents
    problem = tacit.Problem(make_parts(sizes=tuple(range(7, 7 + n))), l2=0.1, radius=8.0)
    method = SummedGradientDescent(step=0.3, deviation=0.2 if private else None, colluders=0)
    runs = [
        tacit.simulate(method, problem, graph, rounds=6, noise=tacit.SeededNoise(1), record=True, exchange=exchange)
        for exchange in (None, IdealTotals(), SecretSharedTotals())
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.trajectory, runs[0].trajectory)
        assert run.spent == runs[0].spent
        assert run.history["bytes"].tolist() == runs[0].history["bytes"].tolist()
    assert np.all(runs[2].trajectory == runs[2].trajectory[:, :1])  # all members have the same model, bit by bit
    assert np.abs(runs[2].estimate).max() > 0.01


def test_what_a_liar_puts_into_a_total_reaches_all_members_alike(monkeypatch):
    """Whatever word is added, all members decode the same number: what they do next depends on the total alone, not on
    how their own rows round beside a huge one."""
    graph, rng = Graph.complete(4), np.random.default_rng(5)
    link, turn = SecretSharedTotals().open(graph), Broadcast(graph).turn(0)
    lie = rng.integers(0, 2**64, size=32, dtype=np.uint64)
    partial = NetworkSharer.partial
    monkeypatch.setattr(
        NetworkSharer, "partial", lambda self: partial(self) + (lie if self.agent == 2 else np.uint64(0))
    )
    heard = link.deliver(unprotected(on_grid(rng.normal(size=(4, 32)))), turn, 0).sum()
    assert np.abs(heard).max() > 2.0**15
    assert np.all(heard == heard[0])


# What a coalition sees


class Listed:
    """The given arrays in place of random words, one for each neighbour, in their order; a seed is only its name."""

    def __init__(self, agent, arrays, book):
        self.names = [bytes([agent, k]) + bytes(KEY_BYTES - 2) for k in range(len(arrays))]
        self.book, self.left = book, iter(self.names)
        book.update(zip(self.names, arrays, strict=True))

    def seed(self, about):
        return next(self.left)

    def add(self, seed, total):
        total += self.book[seed]


RING = Graph.ring(4)  # 0 - 1 - 2 - 3 - 0
POINT = FixedPoint(bound=1.0, members=3, bits=3)  # modulo 8


def views(coalition, *, own_choice=0, spoil=None):
    """Every case on a ring of four, modulo 8, as coordinates of one run of the protocol: honest rows in {-1, 0, 1}, all
    words of the shares that honest members send each other, and two words for each share that they send the coalition,
    which knows it. The coalition's rows and shares are as it likes.

    Gives {honest rows: how often the coalition has which view}: the shares that it gets, and all honest partial sums.
    """
    honest = [i for i in range(4) if i not in coalition]
    sent = [(i, j) for i in honest for j in RING.neighbours(i).tolist()]
    words = [np.arange(8) if j in honest else np.array([1, 6]) for i, j in sent]
    axes = np.meshgrid(*[np.arange(-1, 2)] * len(honest), *words, indexing="ij")
    rows = dict(zip(honest, (a.ravel().astype(float) for a in axes), strict=False))
    shares = dict(zip(sent, (a.ravel().astype(np.uint64) for a in axes[len(honest) :]), strict=True))
    if spoil is not None:
        shares = spoil(shares)
    size, book = axes[0].size, {}
    members = []
    for i in range(4):
        arrays = [shares.get((i, j), np.full(size, own_choice, np.uint64)) for j in RING.neighbours(i).tolist()]
        members.append(NetworkSharer(i, RING.neighbours(i).tolist(), b"tiny", POINT, words=Listed(i, arrays, book)))
    for a, b in RING.edges:
        members[a].meet(b, members[b].public)
        members[b].meet(a, members[a].public)
    for i, member in enumerate(members):
        member.begin(rows.get(i, np.full(size, float(own_choice % 2))), 0)
    for member in members:
        for j in member.neighbours:
            members[j].receive(member.agent, member.share(j))
    sums = [member.partial() for member in members]
    total = sum(sums) & POINT.mask
    mine = len(coalition) * (own_choice % 2)
    np.testing.assert_array_equal(total, (sum(rows.values()).astype(int) + mine) % 8)  # as many shares in as out
    known = [shares[i, j] for i, j in sent if j in coalition]
    seen = np.array([*known, *(sums[i] for i in honest)]).T.tolist()
    found: dict = {}
    for x, view in zip(np.array(list(rows.values())).T.astype(int).tolist(), seen, strict=True):
        found.setdefault(tuple(x), Counter())[tuple(view)] += 1
    return found


def depends_on_the_sum_alone(found):
    by_sum: dict = {}
    return all(seen == by_sum.setdefault(sum(x), seen) for x, seen in found.items())


def is_uniform(found, honest):
    """All partial sums but one take all values equally often; the last follows from the total."""
    for seen in found.values():
        free = Counter()
        for view, n in seen.items():
            free[view[:-1]] += n
        shares = len(next(iter(seen))) - honest
        if len(seen) != len(free) or len(free) != 2**shares * 8 ** (honest - 1) or len(set(free.values())) != 1:
            return False
    return True


@pytest.mark.parametrize("own_choice", [0, 5])
@pytest.mark.parametrize("coalition", [(3,), (2, 3), (0, 3)])
def test_the_view_is_uniform_given_the_sum_if_the_others_are_connected(coalition, own_choice):
    found = views(coalition, own_choice=own_choice)
    assert len(found) == 3 ** (4 - len(coalition))
    assert depends_on_the_sum_alone(found)
    assert is_uniform(found, honest=4 - len(coalition))
    assert found[(0,) * (4 - len(coalition))] != found[(1,) + (0,) * (3 - len(coalition))]  # the sum itself is seen


def test_a_coalition_that_cuts_the_others_apart_sees_each_part():
    """1 and 3 know all shares of 0 and of 2, so each row: the graph of two-connected members allows one colluder."""
    found = views((1, 3))
    assert not depends_on_the_sum_alone(found)
    assert not set(found[1, -1]) & set(found[0, 0])  # no view fits both
    with pytest.raises(tacit.errors.GraphError, match="can cut this graph"):
        SummedGradientDescent(step=0.1, deviation=1.0, colluders=2).schedule(RING)
    SummedGradientDescent(step=0.1, deviation=1.0, colluders=1).schedule(RING)


EVEN = np.uint64(6)
BUGS = {
    "both ways the same share": lambda s: s | {(1, 0): s[0, 1]},
    "shares are biased": lambda s: {ends: words & EVEN if 3 not in ends else words for ends, words in s.items()},
    "one share for both neighbours": lambda s: s | {(0, 1): s[0, 3], (1, 0): s[1, 0] * np.uint64(0)},
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug):
    found = views((3,), spoil=BUGS[bug])
    assert not depends_on_the_sum_alone(found)
    assert not is_uniform(found, honest=3)


# What is refused


def met(graph, run=b"a run", **settings):
    point = totals_point(graph.agents)
    members = [NetworkSharer(i, graph.neighbours(i).tolist(), run, point, **settings) for i in range(graph.agents)]
    for a, b in graph.edges:
        members[a].meet(b, members[b].public)
        members[b].meet(a, members[a].public)
    return members


def begun(rows, round=0):
    members = met(Graph.complete(len(rows)))
    for member, row in zip(members, rows, strict=True):
        member.begin(row, round)
    return members


def total_of(members):
    for a, b in itertools.permutations(members, 2):
        if b.agent in a.neighbours and a.agent in b._awaited:
            b.receive(a.agent, a.share(b.agent))
    words = sum(member.partial() for member in members)
    return members[0].point.decode(words)


ROWS = on_grid(np.random.default_rng(3).normal(size=(3, 5)))


def test_tampered_shares_are_refused_and_change_nothing():
    members = begun(ROWS)
    good = members[0].share(1)
    assert len(good) == SHARE_BYTES
    for place in (0, 11, 12, 31, 43, 44, 59):
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(ExchangeError, match="altered"):
            members[1].receive(0, bytes(bad))
    for bad in (b"", good[:-1], good + b"x"):
        with pytest.raises(ExchangeError, match=f"bytes, not {SHARE_BYTES}"):
            members[1].receive(0, bad)
    for bad in (members[0].share(2), members[2].share(0)):
        with pytest.raises(ExchangeError, match="altered"):
            members[1].receive(0, bad)
    with pytest.raises(ExchangeError, match="altered"):
        members[1].receive(2, good)  # in another's name
    with pytest.raises(Dropout, match=r"no share from \[0, 2\]"):
        members[1].partial()
    np.testing.assert_array_equal(total_of(members), ROWS.sum(axis=0))


def test_a_share_counts_once_and_in_its_round_and_run_alone():
    members = begun(ROWS)
    early = members[0].share(1)
    members[1].receive(0, early)
    with pytest.raises(ExchangeError, match="expects no share"):
        members[1].receive(0, early)
    with pytest.raises(ExchangeError, match="expects no share"):
        members[1].receive(1, early)
    np.testing.assert_array_equal(total_of(members), ROWS.sum(axis=0))
    for member, row in zip(members, 2 * ROWS, strict=True):
        member.begin(row, 1)
    with pytest.raises(ExchangeError, match="altered"):
        members[1].receive(0, early)
    assert members[0].share(1, round=0) == early  # again, for a neighbour that is behind: the same bytes
    np.testing.assert_array_equal(total_of(members), 2 * ROWS.sum(axis=0))
    for round in (1, 0, -1):
        with pytest.raises(ExchangeError, match="rounds only grow"):
            members[0].begin(ROWS[0], round)
    with pytest.raises(ExchangeError, match="no share of round 7"):
        members[0].share(1, round=7)
    other = met(Graph.complete(3), run=b"another run")
    other[1].begin(ROWS[1], 0)
    with pytest.raises(ExchangeError, match="altered"):
        other[1].receive(0, early)


def test_a_member_meets_its_neighbours_once():
    members = met(Graph.path(3))
    with pytest.raises(ExchangeError, match="every neighbour once"):
        members[0].meet(1, members[1].public)
    with pytest.raises(ExchangeError, match="every neighbour once"):
        members[0].meet(2, members[2].public)


def test_rows_that_cannot_be_summed_begin_no_round():
    members = met(Graph.complete(3))
    for bad, message in ((np.nan, "not finite"), (np.inf, "not finite"), (LARGEST_TOTAL / 3 * 1.001, "too large")):
        with pytest.raises(InputError, match=message):
            members[0].begin(np.array([0.0, bad]), 0)
        assert members[0].round == -1


def test_a_member_put_back_from_an_old_copy_does_not_hide_two_rows_behind_the_same_words():
    """It has forgotten its row of round 0 and says another one, with the same secret. Its partial sums must not differ
    by the difference of the two rows."""
    graph, partials = Graph.complete(3), []
    for row in (ROWS[0], ROWS[0] + 5 * SHARE_GRID):
        members = [
            NetworkSharer(i, graph.neighbours(i).tolist(), b"run", totals_point(3), words=RepeatableWords(bytes([i])))
            for i in range(3)
        ]
        for a, b in itertools.permutations(members, 2):
            a.meet(b.agent, b.public)
        for member, own in zip(members, (row, *ROWS[1:]), strict=True):
            member.begin(own, 0)
        for j in (1, 2):
            members[0].receive(j, members[j].share(0))
        partials.append(members[0].partial())
    steps = (partials[1] - partials[0]).view(np.int64)
    assert np.all(np.abs(steps.astype(float)) > 2.0**40)  # each fails for correct code with a probability of 2^-22


def test_a_member_that_was_killed_repeats_its_messages():
    """With the same secret, and the same row, as its store has it."""
    ends = [NetworkSharer(0, [1], b"run", totals_point(2), words=RepeatableWords(b"s" * 32)) for _ in range(2)]
    peer = NetworkSharer(1, [0], b"run", totals_point(2))
    ends[1]._keys = ends[0]._keys
    for end in ends:
        end.meet(1, peer.public)
        end.begin(ROWS[0], 4)
    assert ends[0].share(1) == ends[1].share(1)


def test_a_total_counts_the_listener_once():
    with pytest.raises(InputError, match="own row in it"):
        TotalInbox(np.ones((3, 2)), np.full((3, 1), 3)).with_own(np.ones((3, 2)))


@pytest.mark.parametrize("exchange", [Plain(), SecretSharedSums()], ids=["plain", "sums of neighbours"])
def test_shares_of_noise_leave_in_totals_alone(exchange):
    problem, graph = tacit.Problem(make_parts(), l2=0.1, radius=8.0), Graph.complete(5)
    method = SummedGradientDescent(step=0.1, deviation=0.2, colluders=1)
    settings = {"rounds": 1, "noise": tacit.SeededNoise(0)}
    with pytest.raises(InputError, match="protected only in a sum over all members"):
        tacit.simulate(method, problem, graph, exchange=exchange, **settings)
    with pytest.raises(InputError, match="needs the sum over all members"):
        tacit.simulate(SummedGradientDescent(step=0.1), problem, graph, exchange=exchange, rounds=1)


@pytest.mark.parametrize("robust", ["clipping", "trimmed", "median"])
def test_robust_listening_has_no_rows_to_compare(robust):
    problem = tacit.Problem(make_parts(), l2=0.1, radius=8.0)
    method = SummedGradientDescent(step=0.1, deviation=0.2, colluders=1)
    for exchange in (None, SecretSharedTotals()):
        with pytest.raises(InputError, match="robust listening compares rows"):
            tacit.simulate(
                method,
                problem,
                Graph.complete(5),
                rounds=1,
                noise=tacit.SeededNoise(0),
                exchange=exchange,
                robust=robust,
            )


def test_nobody_overhears_a_part_of_a_total():
    """Neither do simulated eavesdroppers: a row with a share of the noise is on no link."""
    problem, heard = tacit.Problem(make_parts(), l2=0.1, radius=8.0), []
    with pytest.raises(InputError, match="overheard is for plain messages"):
        tacit.simulate(
            SummedGradientDescent(step=0.1, deviation=0.2),
            problem,
            Graph.complete(5),
            rounds=1,
            noise=tacit.SeededNoise(0),
            overheard=lambda *said: heard.append(said),
        )
    assert not heard


@pytest.mark.parametrize("method", [ConsensusADMM(), GradientDescent(step=0.1, mixing=0.15)], ids=["admm", "descent"])
@pytest.mark.parametrize("exchange", [IdealTotals(), SecretSharedTotals()], ids=["ideal", "shared"])
def test_methods_on_neighbours_get_no_totals(method, exchange):
    """On a ring, a total is not what they ask for."""
    with pytest.raises(InputError, match="totals are for methods"):
        tacit.simulate(method, tacit.Problem(make_parts(), l2=0.1), Graph.ring(5), rounds=1, exchange=exchange)


@pytest.mark.parametrize("exchange", [IdealTotals(), SecretSharedTotals()])
def test_a_total_is_one_of_all_members(exchange):
    """Of some, it would have the noise of few; and who does not hear it goes another way."""
    link, everybody = exchange.open(Graph.complete(4)), np.arange(4)
    whole = Broadcast(Graph.complete(4)).turn(0)
    assert link.deliver(unprotected(np.ones((4, 2))), whole, 0).sum().tolist() == [[4.0, 4.0]] * 4
    none = np.zeros(1, dtype=int), np.zeros(0, dtype=int)
    for speakers, listeners in ((everybody[:3], everybody), (everybody, everybody[1:]), (everybody[::-1], everybody)):
        turn = Turn(speakers, listeners, *none)
        with pytest.raises(InputError, match="all of them must speak and listen"):
            link.deliver(unprotected(np.ones((len(speakers), 2))), turn, 1)


@graphs
def test_every_tick_has_a_spanning_tree_with_its_own_root(graph):
    n = graph.agents
    for t in range(n + 1):
        tree = Tree.of(graph, t)
        assert tree.order[0] == t % n
        assert sorted(tree.order) == list(range(n))
        assert len(tree.parent) == n
        for i, parent in enumerate(tree.parent):
            assert (parent is None) == (i == t % n)
            if parent is not None:
                assert (min(i, parent), max(i, parent)) in graph.edges
                assert tree.order.index(parent) < tree.order.index(i)
                assert i in tree.children(parent)
