"""Secret-shared sums: exact, hiding, and refused rather than wrong."""

import itertools
import os
import sys
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from conftest import make_parts

import tacit
from tacit.algorithms import (
    ConsensusADMM,
    GradientDescent,
    PrimalPerturbedADMM,
    RandomAggregationGD,
    RandomCoordinateDescent,
    RecycledADMM,
)
from tacit.core.release import Inbox
from tacit.core.schedule import Broadcast, Cycle
from tacit.errors import Dropout, ExchangeError, InputError
from tacit.exchange import Plain, SecretSharedSums, revealed
from tacit.exchange import keys as keys_module
from tacit.exchange.fixed_point import FixedPoint
from tacit.exchange.keys import KEY_BYTES, Channel, RepeatableWords, SecureWords
from tacit.exchange.secret_shared import SummedInbox, shared_sum
from tacit.exchange.sharing import Group, Sharer
from tacit.privacy.mechanisms import unprotected

POINT = FixedPoint(bound=1000.0, members=5)
TRIO = Group((0, 1, 2), (0, 1, 2))


def meet(members):
    for a, b in itertools.permutations(members, 2):
        a.meet(b.agent, b.public)
    return members


def sharers(n, *, point=POINT, run=b"a run", **settings):
    return meet([Sharer(i, run, point, **settings) for i in range(n)])


def sharings_of(group, members):
    return {i: members[i].in_group(group) for i in group.members}


def rows_of(n, d=4, seed=0):
    return dict(enumerate(np.random.default_rng(seed).normal(size=(n, d))))


def by_hand(sender, receiver, message):
    return message


def heard(sharings, done, listener):
    return sharings[listener].heard(done.totals[listener])


# Fixed point


def test_the_modulus_is_large_enough_and_not_a_bit_larger():
    for bound, members, bits in itertools.product((1e-9, 0.3, 1.0, 7.0, 65536.0, 1e12), (3, 10, 1001), (48, 63, 64)):
        try:
            f = FixedPoint(bound, members, bits).fraction_bits
        except InputError:
            assert 2 * members * bound >= 2**bits - 2
            continue
        assert 2**bits > 2 * members * bound * 2**f
        assert 2**bits <= 2 * members * (bound * 2 ** (f + 1) + 0.5) + 2
    assert FixedPoint(1e-300, 3).fraction_bits == 1000


def test_sums_at_the_bound_do_not_wrap():
    for bound, members in ((1.0, 3), (65536.0, 10), (0.1, 7), (2.0**60 - 1, 3)):
        point = FixedPoint(bound, members)
        for sign in (1.0, -1.0):
            total = np.zeros(1, dtype=np.uint64)
            for _ in range(members):
                total += point.encode(np.array([sign * bound]))
            exact = sign * members * bound
            assert abs(point.decode(total)[0] - exact) <= point.error(members) + 2**-52 * abs(exact)


def test_reconstruction_within_the_bound_over_1e5_vectors():
    """Sums of 5 vectors of 8 entries each, 1e5 times, of all sizes up to the bound; against exact integers."""
    rng, n, d, point = np.random.default_rng(1), 5, 8, FixedPoint(2.0**16, 5)
    rows = rng.choice([-1, 1], size=(n, 100_000 * d)) * 2.0 ** rng.uniform(-60, 16, size=(n, 100_000 * d))
    rows[:, :d], rows[:, d : 2 * d] = 2.0**16, -(2.0**16)
    group = Group(tuple(range(n)), (0, 3))
    sharings = sharings_of(group, sharers(n, point=point))
    done = shared_sum(sharings, dict(enumerate(rows)), 0, by_hand, listeners=(0, 3))
    exact = rows.astype(np.longdouble).sum(axis=0)
    found = point.decode(done.totals[0])
    off = np.abs(found - exact)
    assert np.all(off <= point.error(n) + 2.0**-53 * np.abs(exact))
    assert off.max() > point.error(n) / 4  # the bound is not a loose one
    assert np.any(found < -1e5)
    np.testing.assert_array_equal(done.totals[0], done.totals[3])
    others = rows[[0, 1, 2, 4]].astype(np.longdouble).sum(axis=0)
    assert np.all(np.abs(heard(sharings, done, 3) - others) <= point.error(4) + 2.0**-53 * np.abs(others))


# What a colluder sees


class Listed:
    """The given arrays in place of random words, one for each seed; notes the words of each seed that it gets."""

    def __init__(self, agent, arrays, book):
        self.names = [bytes([agent, k]) + bytes(KEY_BYTES - 2) for k in range(len(arrays))]
        key = os.urandom(KEY_BYTES)  # asked for first: it seals the partial sum
        self.book, self.left, self.seen = book, iter([key, *self.names]), []
        book.update(zip(self.names, arrays, strict=True))

    def seed(self, about):
        return next(self.left)

    def add(self, seed, total):
        total += self.book[seed]
        self.seen.append(self.book[seed])


def cases(spoil=lambda s01, s02, s10, s12: (s01, s02, s10, s12), own_choice=(0, 0)):
    """Every case of N = 3, modulus 8, rows in {-1, 0, 1}: 27 inputs times 8^4 shares of the honest agents 0 and 1, as
    coordinates of one run of the protocol itself. Agent 2 hears the sum and chooses its own shares as it likes.

    Gives {(x0, x1, x2): how often agent 2 has which view}; a view is both shares it gets and both partial sums.
    """
    point, book = FixedPoint(bound=1.0, members=3, bits=3), {}
    words = [np.arange(8, dtype=np.uint64)] * 4
    x0, x1, x2, *drawn = (a.ravel() for a in np.meshgrid(*[np.arange(-1.0, 2.0)] * 3, *words, indexing="ij"))
    s01, s02, s10, s12 = spoil(*drawn)
    chosen = [np.full_like(s01, word) for word in own_choice]
    sources = [Listed(i, arrays, book) for i, arrays in enumerate(([s01, s02], [s10, s12], chosen))]
    sharings = sharings_of(TRIO, meet([Sharer(i, b"tiny", point, words=sources[i]) for i in range(3)]))
    sealed = {i: sharings[i].shares(x, 0) for i, x in enumerate((x0, x1, x2))}
    for i, j in itertools.permutations(sharings, 2):
        sharings[j].receive(i, sealed[i][j])
    collector, partials = sharings[2].collect(), [sharings[i].partial() for i in (0, 1)]
    for i in (0, 1):
        collector.receive(i, partials[i])
    np.testing.assert_array_equal(point.decode(collector.total()), x0 + x1 + x2)
    view = np.array([*sources[2].seen[2:], *(sharings[2]._open(i, partials[i]) for i in (0, 1))]).T
    found: dict = {}
    for x, seen in zip(np.array([x0, x1, x2]).T.astype(int).tolist(), view.tolist(), strict=True):
        found.setdefault(tuple(x), Counter())[tuple(seen)] += 1
    return found


def depends_on_the_honest_sum_alone(found):
    by_sum: dict = {}
    return all(views == by_sum.setdefault((x0 + x1, x2), views) for (x0, x1, x2), views in found.items())


def is_uniform(found):
    """Shares and one partial sum take all 8^3 values equally often; the other partial sum follows from the sum."""
    evenly = dict.fromkeys(itertools.product(range(8), repeat=3), 8)
    return all(len(views) == 8**3 and {seen[:3]: n for seen, n in views.items()} == evenly for views in found.values())


@pytest.mark.parametrize("own_choice", [(0, 0), (3, 5)])
def test_a_colluders_view_is_uniform_and_depends_on_the_honest_sum_alone(own_choice):
    found = cases(own_choice=own_choice)
    assert len(found) == 27
    assert is_uniform(found)
    assert depends_on_the_honest_sum_alone(found)
    assert found[0, 0, 0] != found[0, 1, 0]  # the sum itself is seen


EVEN = np.uint64(6)
BUGS = {  # bug -> whether the view is still uniform, whether it still depends on the sum alone
    "the colluder's share is biased": (lambda a, b, c, d: (a, b & EVEN, c, d), False, True),
    "honest shares are biased": (lambda a, b, c, d: (a & EVEN, b, c & EVEN, d), False, False),
    "one share for all": (lambda a, b, c, d: (b, b, d, d), False, False),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_show(bug):
    spoil, uniform, sum_alone = BUGS[bug]
    found = cases(spoil)
    assert is_uniform(found) == uniform
    assert depends_on_the_honest_sum_alone(found) == sum_alone


def test_secure_words_are_uniform_to_the_bit():
    """Each of 64 bits in 2^16 words: false alarm below 1e-6 by a union of 64 normal tails at 6 deviations."""
    words, total = SecureWords(), np.zeros(2**16, dtype=np.uint64)
    words.add(words.seed(b""), total)
    ones = np.unpackbits(total.view(np.uint8)).reshape(-1, 64).sum(axis=0).astype(int)
    assert np.all(np.abs(ones - 2**15) < 6 * 2**7)
    biased = total & np.uint64(2**63 - 1)
    assert np.abs(np.unpackbits(biased.view(np.uint8)).reshape(-1, 64).sum(axis=0).astype(int) - 2**15).max() > 6 * 2**7


def test_words_do_not_depend_on_the_chunk():
    seed, one, many = bytes(32), np.zeros(1000, dtype=np.uint64), np.zeros(1000, dtype=np.uint64)
    SecureWords().add(seed, one)
    SecureWords(chunk=7).add(seed, many)
    np.testing.assert_array_equal(one, many)
    SecureWords().add(seed, one)
    np.testing.assert_array_equal(one, many + many)  # it adds


# What is refused


def begun(**settings):
    sharings = sharings_of(TRIO, sharers(3, **settings))
    return sharings, {i: sharings[i].shares(row, 0) for i, row in rows_of(3).items()}


def no_sum(sharings):
    """Nobody has a partial sum, so nothing was summed."""
    for sharing in sharings.values():
        with pytest.raises(Dropout):
            sharing.partial()


def test_a_tampered_share_is_refused_and_the_good_one_still_counts():
    sharings, sealed = begun()
    good = sealed[0][1]
    for place in (0, 31, 32, len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(ExchangeError, match="altered"):
            sharings[1].receive(0, bytes(bad))
    for bad in (good[:-1], b"", good + b"x"):
        with pytest.raises(ExchangeError, match="altered"):
            sharings[1].receive(0, bad)
    assert sharings[1].missing == (0, 2)
    no_sum(sharings)
    for i, j in itertools.permutations(sharings, 2):
        sharings[j].receive(i, sealed[i][j])
    collector = sharings[0].collect()
    for i in (1, 2):
        collector.receive(i, sharings[i].partial())
    np.testing.assert_allclose(sharings[0].heard(collector.total()), rows_of(3)[1] + rows_of(3)[2], atol=1e-12)


def test_messages_of_others_rounds_attempts_groups_and_runs_are_refused():
    sharings, sealed = begun()
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharings[1].receive(2, sealed[0][1])  # another sender
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharings[1].receive(0, sealed[0][2])  # another receiver
    sharings[1].receive(0, sealed[0][1])
    with pytest.raises(ExchangeError, match="expects no share"):
        sharings[1].receive(0, sealed[0][1])  # a second time
    sharings[1].shares(rows_of(3)[1], 0, attempt=1)
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharings[1].receive(0, sealed[0][1])  # another attempt
    sharings[1].shares(rows_of(3)[1], 1)
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharings[1].receive(0, sealed[0][1])  # another round
    no_sum(sharings)


def test_members_who_were_told_different_things_exchange_nothing():
    members = sharers(4)
    group = Group((0, 1, 2, 3), (0,))
    sharings, rows = sharings_of(group, members), rows_of(4)
    sealed = sharings[0].shares(rows[0], 0, members=(0, 1, 2))
    sharings[1].shares(rows[1], 0)
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharings[1].receive(0, sealed[1])
    other = members[1].in_group(Group((0, 1, 2), (0,)))  # the same members, but another group
    other.shares(rows[1], 0)
    with pytest.raises(ExchangeError, match="meant for another use"):
        other.receive(0, sealed[1])


def test_another_run_has_other_keys():
    """Even with the same key pairs: the run is part of the keys."""
    ours, theirs = sharers(3), [Sharer(i, b"another run", POINT) for i in range(3)]
    for a, b in zip(ours, theirs, strict=True):
        b._keys = a._keys
    sealed = sharings_of(TRIO, ours)[0].shares(rows_of(3)[0], 0)
    sharing = sharings_of(TRIO, meet(theirs))[1]
    sharing.shares(rows_of(3)[1], 0)
    with pytest.raises(ExchangeError, match="meant for another use"):
        sharing.receive(0, sealed[1])


def test_no_sum_of_a_small_modulus_wraps_also_where_rounding_goes_up():
    """Every number of members and many bounds, for a modulus of 2^8: the largest sum is below half of it."""
    sums = []
    for members, bound in itertools.product(range(1, 40), np.linspace(0.05, 70.0, 1500).tolist()):
        try:
            point = FixedPoint(bound, members, bits=8)
        except InputError:
            continue
        sums.append(members * round(Fraction(bound) * 2**point.fraction_bits))
    assert len(sums) > 10_000
    assert max(sums) == 127


def test_a_channel_has_a_key_of_its_own():
    """Of another run, another purpose or another pair nothing can be opened: so a nonce may come again there."""
    secret, other, run, purpose = (bytes([k]) * 32 for k in range(4))
    first = Channel(secret, run, purpose)
    sealed = first.seal(bytes(12), b"a seed", b"about")
    assert first.open(bytes(12), sealed, b"about") == b"a seed"
    for channel in (Channel(other, run, purpose), Channel(secret, run[1:], purpose), Channel(secret, run, purpose[1:])):
        assert channel.seal(bytes(12), b"a seed", b"about") != sealed
        with pytest.raises(ExchangeError, match="a sealed message was refused"):
            channel.open(bytes(12), sealed, b"about")


def test_seeds_that_are_made_of_a_secret_differ_in_every_byte_of_their_use():
    """And are the same for the same use: two rows behind one seed would show their difference."""
    about = bytes(range(96))
    uses = [about, *(about[:k] + b"!" + about[k + 1 :] for k in range(96) if about[k] != 33), about[:-1], b""]
    seeds = [RepeatableWords(b"secret").seed(use) for use in uses]
    assert len(set(seeds)) == len(uses)
    assert seeds == [RepeatableWords(b"secret").seed(use) for use in uses]
    assert RepeatableWords(b"another").seed(about) not in seeds


def test_a_tampered_or_strange_partial_sum_is_refused():
    sharings, sealed = begun()
    for i, j in itertools.permutations(sharings, 2):
        sharings[j].receive(i, sealed[i][j])
    collector, good = sharings[0].collect(), sharings[1].partial()
    bad = bytearray(good)
    bad[3] ^= 4
    with pytest.raises(ExchangeError, match="altered"):
        collector.receive(1, bytes(bad))
    with pytest.raises(ExchangeError, match="altered"):
        collector.receive(2, good)
    collector.receive(1, good)
    with pytest.raises(ExchangeError, match="expects no partial sum"):
        collector.receive(1, good)
    with pytest.raises(Dropout, match=r"no partial sum from \[2\]"):
        collector.total()
    collector.receive(2, sharings[2].partial())
    np.testing.assert_allclose(sharings[0].heard(collector.total()), rows_of(3)[1] + rows_of(3)[2], atol=1e-12)


def test_an_agent_that_is_no_listener_hears_nothing():
    """Neither does it get the keys of the partial sums."""
    group = Group((0, 1, 2), (0,))
    sharings, rows = sharings_of(group, sharers(3)), rows_of(3)
    sealed = {i: sharings[i].shares(rows[i], 0) for i in sharings}
    for i, j in itertools.permutations(sharings, 2):
        sharings[j].receive(i, sealed[i][j])
    assert {len(sealed[i][0]) for i in (1, 2)} == {80}
    assert {len(sealed[0][1]), len(sealed[2][1]), len(sealed[0][2])} == {48}
    with pytest.raises(ExchangeError, match="not a listener"):
        sharings[1].collect()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([0.0, np.nan, 0.0, 0.0], "not finite"),
        ([0.0, np.inf, 0.0, 0.0], "not finite"),
        ([0.0, -1000.1, 0.0, 0.0], "too large for the modulus"),
        ([[0.0, 1.0]], "one axis"),
    ],
)
def test_rows_that_cannot_be_summed(bad, message):
    sharings, rows = sharings_of(TRIO, sharers(3)), rows_of(3)
    with pytest.raises(InputError, match=message):
        shared_sum(sharings, rows | {2: np.array(bad)}, 0, by_hand, listeners=(0,))
    with pytest.raises(ExchangeError, match="shares"):
        sharings[2].partial()  # it has not begun, the others wait for it
    for i in (0, 1):
        with pytest.raises(Dropout):
            sharings[i].partial()
    done = shared_sum(sharings, rows, 1, by_hand, listeners=(0,))
    np.testing.assert_allclose(heard(sharings, done, 0), rows[1] + rows[2], atol=1e-12)


def test_rows_of_different_length():
    """Sealed shares are seeds, so it is seen in the partial sums, before anything is summed."""
    sharings, rows = sharings_of(TRIO, sharers(3)), rows_of(3)
    with pytest.raises(ExchangeError, match="has 5 numbers, not 4"):
        shared_sum(sharings, rows | {1: np.zeros(5)}, 0, by_hand, listeners=(0,))


def test_bounds_that_leave_no_room():
    with pytest.raises(InputError, match="too large for the modulus 2\\^64"):
        FixedPoint(2.0**62, 3)
    for bound in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(InputError, match="bound must be"):
            SecretSharedSums(bound=bound).open(tacit.Graph.ring(3))
    assert FixedPoint(1, 3) == FixedPoint(np.float32(1.0), 3)
    assert FixedPoint(np.float32(1.0), 3).fraction_bits == 61


def test_two_members_are_too_few():
    with pytest.raises(InputError, match="at least 3 members"):
        sharers(2)[0].in_group(Group((0, 1), (0, 1)))
    with pytest.raises(InputError, match="least cannot be 2"):
        Sharer(0, b"", POINT, least=2)
    with pytest.raises(InputError, match="at least 4 members"):
        sharers(3, least=4)[0].in_group(TRIO)


def test_a_peer_without_keys_or_with_bad_ones():
    alone = Sharer(0, b"", POINT)
    with pytest.raises(ExchangeError, match="no key of agent 1"):
        alone.in_group(TRIO)
    with pytest.raises(ExchangeError, match="public key was refused"):
        alone.meet(1, bytes(32))  # a point of low order: the secret would be known
    with pytest.raises(ExchangeError, match="public key was refused"):
        alone.meet(1, b"short")
    alone.meet(1, Sharer(1, b"", POINT).public)
    with pytest.raises(ExchangeError, match="once"):
        alone.meet(1, Sharer(1, b"", POINT).public)
    with pytest.raises(InputError, match="must be of"):
        alone.in_group(Group((1, 2, 3), (1,)))


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tacit.exchange.sharing", None)
    with pytest.raises(InputError, match="pip install"):
        SecretSharedSums().open(tacit.Graph.ring(3))


# Nonces


def watch_nonces(monkeypatch):
    """Every (key, nonce) under which anything is sealed."""
    used = []

    class Watched:
        def __init__(self, key):
            self.key, self.aead = key, keys_module_aead(key)

        def encrypt(self, nonce, message, about):
            used.append((self.key, nonce))
            return self.aead.encrypt(nonce, message, about)

        def decrypt(self, nonce, sealed, about):
            return self.aead.decrypt(nonce, sealed, about)

    monkeypatch.setattr(keys_module, "AESGCM", Watched)
    return used


keys_module_aead = keys_module.AESGCM


def test_no_nonce_is_used_twice_with_a_key(monkeypatch):
    """On a graph whose neighbourhoods overlap, over rounds and attempts."""
    used = watch_nonces(monkeypatch)
    graph = tacit.Graph.random(6, 11, seed=3)
    link, turn = SecretSharedSums().open(graph), Broadcast(graph).turn(0)
    for t in range(3):
        link.deliver(unprotected(np.ones((6, 2))), turn, t)
    sharings = sharings_of(Group((0, 1, 2, 3), (0, 1)), sharers(4))
    lost = iter([None])
    shared_sum(sharings, rows_of(4), 0, lambda i, j, m: next(lost, m) if i == 3 else m, listeners=(0, 1), redo=True)
    assert len(used) > 200
    assert len(set(used)) == len(used)


def test_a_planted_reuse_of_nonces_shows(monkeypatch):
    used = watch_nonces(monkeypatch)
    monkeypatch.setattr("tacit.exchange.sharing.GroupSharing._nonce", lambda self: bytes(12))
    sharings = sharings_of(TRIO, sharers(3))
    for t in range(2):
        shared_sum(sharings, rows_of(3), t, by_hand, listeners=(0,))
    assert len(set(used)) < len(used)


# Dropouts


def losing(*lost):
    """A network that loses what these agents send, the first time each message is sent."""
    left = set(lost)

    def carry(sender, receiver, message):
        if (sender, receiver) in left:
            left.remove((sender, receiver))
            return None
        return message

    return carry


QUARTET = Group((0, 1, 2, 3), (0, 1))


def test_a_dropout_among_shares_is_refused_or_left_out():
    rows = rows_of(4)
    sharings = sharings_of(QUARTET, sharers(4))
    with pytest.raises(Dropout, match="did not arrive") as error:
        shared_sum(sharings, rows, 0, losing((3, 1)), listeners=(0, 1))
    assert error.value.agents == [3]
    done = shared_sum(sharings, rows, 1, losing((3, 1)), listeners=(0, 1), redo=True)
    assert done.members == (0, 1, 2)
    np.testing.assert_array_equal(done.totals[0], done.totals[1])
    np.testing.assert_allclose(heard(sharings, done, 0), rows[1] + rows[2], atol=1e-12)
    done = shared_sum(sharings, rows, 2, losing(), listeners=(0, 1), redo=True)  # it is back
    np.testing.assert_allclose(heard(sharings, done, 0), rows[1] + rows[2] + rows[3], atol=1e-12)


def test_a_dropout_among_partial_sums_leaves_no_sum_and_no_second_attempt():
    rows, sharings = rows_of(4), sharings_of(QUARTET, sharers(4))

    def carry(i, j, message):
        return None if (i, j) == (3, 0) and len(message) == 8 * 4 + 16 else message

    with pytest.raises(Dropout, match="no partial sum from \\[3\\]"):
        shared_sum(sharings, rows, 0, carry, listeners=(0,), redo=True)
    for i in (0, 1, 2):
        with pytest.raises(ExchangeError, match="difference of two sums"):
            sharings[i].shares(rows[i], 0, members=(0, 1, 2), attempt=1)


def test_too_many_dropouts():
    rows = rows_of(4)
    with pytest.raises(ExchangeError, match="2 members are left"):
        shared_sum(sharings_of(QUARTET, sharers(4)), rows, 0, losing((2, 0), (3, 0)), listeners=(0,), redo=True)
    with pytest.raises(ExchangeError, match="fewer than 4"):
        shared_sum(sharings_of(QUARTET, sharers(4, least=4)), rows, 0, losing((3, 0)), listeners=(0,), redo=True)
    with pytest.raises(Dropout, match="listeners \\[1\\]"):
        shared_sum(sharings_of(QUARTET, sharers(4)), rows, 0, losing((1, 0)), listeners=(0, 1), redo=True)


def test_a_first_attempt_that_was_given_up_cannot_be_completed_later():
    """Agent 3 was only late: with its share the first attempt would give the sum with it, beside the one without."""
    rows, sharings = rows_of(4), sharings_of(QUARTET, sharers(4))
    first = {i: sharings[i].shares(rows[i], 0) for i in sharings}
    for i, j in itertools.permutations(sharings, 2):
        if i != 3:
            sharings[j].receive(i, first[i][j])
    sharings[3].partial()  # the late one has all it needs
    second = {i: sharings[i].shares(rows[i], 0, members=(0, 1, 2), attempt=1) for i in (0, 1, 2)}
    for i in (0, 1, 2):
        with pytest.raises(ExchangeError):
            sharings[i].receive(3, first[3][i])
        for j in second[i]:
            sharings[j].receive(i, second[i][j])
        with pytest.raises(ExchangeError, match="only grow"):
            sharings[i].shares(rows[i], 0)
    with pytest.raises(ExchangeError, match="sent a partial sum"):
        sharings[3].shares(rows[3], 0, attempt=2)
    collector = sharings[0].collect()
    with pytest.raises(ExchangeError, match="expects no partial sum"):
        collector.receive(3, sharings[3].partial())


def test_an_agent_is_counted_in_all_sums_of_a_round_or_in_none():
    """Listeners 0 and 4 both hear 1, 2, 3: the sum with 3 minus the sum without it would be the row of 3."""
    rows, members = rows_of(5), sharers(5)
    here, there = (sharings_of(Group(m, (m[-1] if 4 in m else 0,)), members) for m in ((0, 1, 2, 3), (1, 2, 3, 4)))
    shared_sum(here, rows, 0, by_hand, listeners=(0,))
    with pytest.raises(ExchangeError, match=r"counts \[3\] beside one that does not"):
        shared_sum(there, rows, 0, losing((3, 1)), listeners=(4,), redo=True)
    done = shared_sum(here, rows, 1, losing((3, 1)), listeners=(0,), redo=True)
    again = shared_sum(there, rows, 1, losing((3, 1)), listeners=(4,), redo=True)  # left out of both
    assert done.members == (0, 1, 2)
    assert again.members == (1, 2, 4)
    shared_sum(there, rows, 2, losing((3, 1)), listeners=(4,), redo=True)
    with pytest.raises(ExchangeError, match=r"counts \[3\] beside one that does not"):
        shared_sum(here, rows, 2, by_hand, listeners=(0,))


# Coalitions


def test_what_a_coalition_learns():
    """By the rank of the sums, against a check by least squares."""
    rng = np.random.default_rng(0)
    new = tacit.Graph
    for graph in (new.ring(6), new.path(5), new.star(5), new.complete(5), new.random(7, 12, seed=1)):
        A = np.zeros((graph.agents, graph.agents))
        for i, j in graph.edges:
            A[i, j] = A[j, i] = 1
        for _ in range(20):
            coalition = rng.choice(graph.agents, size=rng.integers(0, graph.agents), replace=False).tolist()
            known = np.vstack([A[coalition], np.eye(graph.agents)[coalition]])
            expected = []
            for h in set(range(graph.agents)) - set(coalition):
                e = np.eye(graph.agents)[h]
                if len(known) and np.linalg.norm(known.T @ np.linalg.lstsq(known.T, e, rcond=None)[0] - e) < 1e-9:
                    expected.append(h)
            assert revealed(graph, coalition) == expected
    assert revealed(tacit.Graph.complete(5), [0, 1, 2]) == []
    assert revealed(tacit.Graph.complete(5), [0, 1, 2, 3]) == [4]
    assert revealed(tacit.Graph.path(3), [0]) == [1]
    with pytest.raises(InputError, match="has agents that"):
        revealed(tacit.Graph.path(3), [3])


def test_an_agent_left_out_of_one_sum_and_counted_in_another_can_be_revealed_by_a_chain():
    """Listeners 6 to 9 hear 0+1+2, 0+3+4, 1+2+5, 3+4+5. Without 0 in the second sum they have 5, then 1+2, then 0."""
    heard = {6: (0, 1, 2), 7: (0, 3, 4), 8: (1, 2, 5), 9: (3, 4, 5)}
    graph = tacit.Graph.from_edges([(i, j) for i, near in heard.items() for j in near])
    assert revealed(graph, heard) == []
    assert revealed(graph, heard, left_out={7: [0]}) == [0, 5]
    assert revealed(graph, heard, left_out={6: [0], 7: [0]}) == [5]


# In the loop

GRAPHS = {
    "ring": tacit.Graph.ring(5),
    "complete": tacit.Graph.complete(5),
    "random": tacit.Graph.from_edges([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (2, 4)]),
}
METHODS = {
    "admm": ConsensusADMM(),
    "r-admm": RecycledADMM(gamma=1.0),
    "gradient descent": GradientDescent(step=0.1, mixing=0.15),
    "private pvp": PrimalPerturbedADMM(alpha=1.0),
    "one coordinate": RandomCoordinateDescent(step=0.2),
    "private mean": RandomAggregationGD(step=0.2, weight=(0.5, 0.5), budget=tacit.Gaussian(20.0)),
}
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


@pytest.fixture
def problem():
    return tacit.Problem(make_parts(), scale=3.0, l2=0.5)


class Rounded:
    """Plain messages, each rounded to the grid, and added as integers."""

    def __init__(self, point):
        self.scale, self.sent = 2.0**point.fraction_bits, {"messages": 0, "bytes": 0}

    def open(self, graph):
        return self

    def deliver(self, release, turn, t):
        whole = np.rint(release.value * self.scale).astype(np.int64)
        near = [turn.indices[low:high] for low, high in itertools.pairwise(turn.indptr)]
        return SummedInbox(np.array([whole[j].sum(axis=0) for j in near]) / self.scale, np.diff(turn.indptr)[:, None])


@graphs
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize("bound", [2.0**16, 2.0**45])
def test_a_run_is_that_of_messages_rounded_to_the_grid_to_the_last_bit(method, graph, bound, problem):
    settings = {"rounds": 30, "record": True, "noise": tacit.SeededNoise(4)}
    point = FixedPoint(bound, 1 + int(graph.degree.max()))
    shared = tacit.simulate(method, problem, graph, exchange=SecretSharedSums(bound=bound), **settings)
    rounded = tacit.simulate(method, problem, graph, exchange=Rounded(point), **settings)
    plain = tacit.simulate(method, problem, graph, **settings)
    np.testing.assert_array_equal(shared.trajectory, rounded.trajectory)
    assert shared.spent == plain.spent  # hiding messages lowers no charge
    assert shared.private == plain.private
    if bound == 2.0**16:
        np.testing.assert_allclose(shared.trajectory, plain.trajectory, rtol=0, atol=1e-9)


@graphs
@pytest.mark.parametrize("bound", [2.0**16, 2.0**45])
def test_consensus_admm_reaches_the_optimum_up_to_the_rounding(graph, bound, problem):
    """By (9) the multipliers add up to -eta/2 times all roundings, each at most 2^-(f+1): after T rounds

        ||sum_i grad O_i(f_i)|| <= T eta sum_j V_j sqrt(d) 2^-(f+1) + ||sum_i imbalance_i||,

    and sum_i O_i, whose curvature is N l2 at least, is minimal at the optimum.
    """
    T, eta, point = 250, 1.0, FixedPoint(bound, 1 + int(graph.degree.max()))
    run = tacit.simulate(ConsensusADMM(penalty=eta), problem, graph, rounds=T, exchange=SecretSharedSums(bound=bound))
    curvature = problem.scale.max() / 4 + problem.l2  # logistic, rows of norm at most 1
    drift = T * eta * graph.degree.sum() * np.sqrt(problem.dimension) * point.error(1)
    rest = np.linalg.norm(run.state.imbalance.sum(axis=0)) + 5 * 1e-9  # and what the solver leaves
    rest += curvature * np.linalg.norm(run.estimate - run.model, axis=1).sum()
    off = np.linalg.norm(run.model - problem.optimum())
    assert off <= (drift + rest) / (5 * problem.l2)
    if bound == 2.0**45:
        assert drift > 10 * rest  # the rounding is what is measured
    else:
        plain = tacit.simulate(ConsensusADMM(penalty=eta), problem, graph, rounds=T)
        assert np.abs(run.model - plain.model).max() < 1e-10


def test_bytes_and_messages_are_those_of_the_protocol(problem):
    d = problem.dimension
    run = tacit.simulate(ConsensusADMM(), problem, tacit.Graph.complete(5), rounds=2, exchange=SecretSharedSums())
    assert run.history["messages"].tolist() == [20, 60, 100]  # keys; then shares and partial sums, all to all
    assert np.diff(run.history["bytes"]).tolist() == [20 * (80 + 8 * d + 16)] * 2
    assert run.history["bytes"][0] == 20 * 32
    ring = tacit.simulate(ConsensusADMM(), problem, tacit.Graph.ring(5), rounds=1, exchange=SecretSharedSums())
    # a listener and two neighbours: four shares along an edge, two that the listener relays, and two partial sums
    assert np.diff(ring.history["messages"]).tolist() == [5 * (4 + 2 * 2 + 2)]
    assert np.diff(ring.history["bytes"]).tolist() == [5 * (2 * 80 + (2 + 2 * 2) * 48 + 2 * (8 * d + 16))]


def test_keys_are_agreed_on_once_a_run(problem, monkeypatch):
    made = []
    monkeypatch.setattr(
        "tacit.exchange.keys.KeyPair.agree",
        lambda self, public, agree=keys_module.KeyPair.agree: made.append(1) or agree(self, public),
    )
    tacit.simulate(ConsensusADMM(), problem, tacit.Graph.complete(5), rounds=4, exchange=SecretSharedSums())
    assert len(made) == 20


def test_a_run_goes_on_with_new_keys(problem):
    graph, exchange = tacit.Graph.complete(5), SecretSharedSums()
    whole = tacit.simulate(ConsensusADMM(), problem, graph, rounds=5, exchange=exchange)
    half = tacit.simulate(ConsensusADMM(), problem, graph, rounds=2, exchange=exchange)
    rest = tacit.simulate(ConsensusADMM(), problem, graph, rounds=5, exchange=exchange, resume=half)
    np.testing.assert_array_equal(whole.estimate, rest.estimate)
    assert rest.history["bytes"][-1] == whole.history["bytes"][-1] + 20 * 32
    mixed = tacit.simulate(ConsensusADMM(), problem, graph, rounds=5, exchange=Plain(), resume=half)
    np.testing.assert_allclose(mixed.estimate, whole.estimate, atol=1e-10)


@pytest.mark.parametrize("agents", [1, 2])
def test_fewer_than_three_agents_are_refused(agents):
    problem = tacit.Problem(make_parts(sizes=(7, 9)[:agents]))
    with pytest.raises(InputError, match="at least 3 members"):
        tacit.simulate(ConsensusADMM(), problem, tacit.Graph.complete(agents), rounds=1, exchange=SecretSharedSums())


@pytest.mark.parametrize("graph", [tacit.Graph.path(5), tacit.Graph.star(5)], ids=["path", "star"])
def test_graphs_with_pairs_are_refused_before_anything_is_said(graph, problem):
    with pytest.raises(InputError, match="at least 3 members"):
        tacit.simulate(ConsensusADMM(), problem, graph, rounds=1, exchange=SecretSharedSums())


def test_a_model_beyond_the_bound_stops_the_run(problem):
    with pytest.raises(InputError, match="too large for the modulus"):
        tacit.simulate(ConsensusADMM(), problem, GRAPHS["ring"], rounds=5, exchange=SecretSharedSums(bound=1e-3))


class Position(NamedTuple):
    x: np.ndarray


@dataclass(frozen=True)
class Curious:
    """A method that asks its inbox for something."""

    question: str
    token: bool = False

    def schedule(self, graph):
        return Cycle(graph, order=range(graph.agents)) if self.token else Broadcast(graph)

    def init(self, problem, view, start, heard):
        return Position(start)

    def speak(self, s, problem, view, noise, t):
        return s, unprotected(s.x + 1.0 + view.ids[:, None])

    def listen(self, s, inbox, view, t):
        answer = getattr(inbox, self.question)
        return Position(np.broadcast_to(answer() if callable(answer) else answer, s.x.shape))

    def estimate(self, s):
        return s.x

    def residuals(self, s, view):
        return np.zeros(len(s.x)), np.zeros(len(s.x))


def test_listeners_get_sums_and_counts_but_no_rows(problem):
    for question in ("sum", "mean", "counts"):
        method, graph = Curious(question), GRAPHS["random"]
        run = tacit.simulate(method, problem, graph, rounds=2, exchange=SecretSharedSums())
        plain = tacit.simulate(method, problem, graph, rounds=2)
        np.testing.assert_allclose(run.estimate, plain.estimate, atol=1e-12)
    with pytest.raises(InputError, match="no single rows"):
        tacit.simulate(
            RandomAggregationGD(step=0.2, weight=(0.4, 0.4)), problem, graph, rounds=1, exchange=SecretSharedSums()
        )
    for question in ("min", "max", "farthest_pair", "only", "rows", "indices"):
        tacit.simulate(Curious("max"), problem, GRAPHS["random"], rounds=1)
        with pytest.raises(InputError, match="no single rows"):
            tacit.simulate(Curious(question), problem, GRAPHS["random"], rounds=1, exchange=SecretSharedSums())
    assert isinstance(SummedInbox(np.ones((1, 1)), np.ones((1, 1))), Inbox)
    with pytest.raises(AttributeError):
        _ = SummedInbox(np.ones((1, 1)), np.ones((1, 1))).median


def test_nobody_overhears_rows_that_are_not_sent(problem):
    with pytest.raises(InputError, match="overheard is for plain messages"):
        tacit.simulate(
            ConsensusADMM(),
            problem,
            GRAPHS["ring"],
            rounds=1,
            exchange=SecretSharedSums(),
            overheard=lambda *said: None,
        )


def test_a_token_is_no_sum(problem):
    with pytest.raises(InputError, match="listens without speaking"):
        tacit.simulate(Curious("sum", token=True), problem, GRAPHS["ring"], rounds=1, exchange=SecretSharedSums())
