"""Agents that are killed and start again: the same models, the same ledgers, no message with two versions.

Where they are killed: "committed" and "may leave" lie between the commit and the first time that anybody can ask,
"answering" between the commit and the sending, "answered" a moment after the bytes were sent, when nobody knows whether
they have arrived.
"""

import asyncio
import random
import resource
import time
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

import agent_network
import agent_worker as worker
import pytest
from agent_network import assert_as_simulated, assert_consistent

import tacit
from tacit.agent.loop import AgentLoop
from tacit.agent.transport.wire_pb2 import Question
from tacit.errors import MachineError, NotNow, Over, TacitError
from tacit.privacy import filters
from tacit.privacy.ledger import AnotherVersion, Ledger

KILLS = 8  # `make chaos` kills more often
identities, network = agent_network.identities, agent_network.network  # fixtures


def faults(text):
    """(point, n): the n-th time that the agent passes a point."""
    return [(point, int(n)) for point, n in (each.strip().rsplit(" ", 1) for each in text.split(","))]


FAULTS = {
    "recycled": faults(
        """paid 0, computed 0, committed 0, marked in the ledger 0, may leave 0, asked 2, committed 1, may leave 2,
        asked 4, computed 1, committed 0, marked in the ledger 0, answering 0, answered 1, finished 0"""
    ),
    "token": faults(
        """paid 0, asked 0, computed 0, committed 0, marked in the ledger 0, may leave 0, asked 0, computed 0,
        may leave 1, committed 0, marked in the ledger 0, finished 0"""
    ),
    "secret-shared": faults(
        """paid 0, committed 0, answering 0, answering 1, may leave 0, answered 0, asked 1, answered 2, asked 3,
        computed 1, marked in the ledger 1, finished 0"""
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_an_agent_that_dies_at_every_point_of_its_way(network, kind):
    """Once with the noise that the simulation has; the token with other noise in every life, as it really is."""
    net, fresh = network(kind), kind == "token"
    net.start(0, 2, 3, 4)
    for life, fault in enumerate(FAULTS[kind], start=1):
        net.start(1, fault=fault, life=life * fresh)
        assert net.ended(1) == -9, fault
    net.start(1)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    if fresh:
        assert_consistent(net)
    else:
        assert_as_simulated(net)


def test_what_leaves_before_it_is_committed_is_caught(network):
    """The test above can fail: a planted bug gives a message two versions."""
    net = network("token")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("forgets to commit, and to mark", 1))
    assert net.ended(1) == -9
    net.start(1, life=1)
    assert net.ended(1) == 0
    assert max(net.versions().values()) == 2


def test_what_is_marked_and_not_committed_ends_the_run(network):
    """With the same bug and a ledger that knows, no second version leaves."""
    net = network("token")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("forgets to commit", 1))
    assert net.ended(1) == -9
    net.start(1, life=1)
    assert net.ended(1) == 1
    assert "the ledger shows that birch has sent messages in this run" in net.log(1)
    assert max(net.versions().values()) == 1


@pytest.mark.slow
def test_agents_that_are_killed_at_random_moments_of_the_run(network):
    """Between two deaths everybody gets at least one tick further."""
    net, rng = network("recycled, long"), random.Random(5)
    net.start(*range(5), slow=0.05)
    moments = []
    while len(moments) < KILLS:
        reached = min(net.tick(i) for i in range(5))
        for i in range(5):
            net.reaches(i, reached + 1)
        time.sleep(rng.uniform(0.0, 0.3))
        victim = rng.randrange(5)
        net.lives[victim].kill()
        assert net.ended(victim) == -9
        moments.append(net.tick(victim))
        net.start(victim, slow=0.05)
    assert len(set(moments)) >= KILLS // 2, moments  # spread over the run
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["token", "secret-shared"])
def test_agents_that_are_killed_as_soon_as_they_come_back(network, kind):
    net, rng = network(kind), random.Random(6)
    net.start(*range(5), slow=0.1)
    killed = 0
    while killed < KILLS:
        time.sleep(rng.uniform(0.0, 0.8))
        victim = rng.randrange(5)
        net.lives[victim].kill()
        killed += net.ended(victim) == -9  # or it had ended by itself
        net.start(victim, slow=0.1)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(1)
    assert_as_simulated(net)


def test_a_lost_store_is_noticed(network):
    net = network("recycled")
    net.start(0, 2, 3, 4)
    net.start(1, fault=("may leave", 3))
    assert net.ended(1) == -9
    for path in net.folder.glob("birch.store*"):
        path.unlink()
    net.start(1)
    assert net.ended(1) == 1
    assert "the ledger shows that birch has sent messages in this run" in net.log(1)
    assert not list(net.folder.glob("birch.store*"))  # a new one would hide the one that is put back


def test_nothing_is_answered_before_it_is_committed_and_marked(network, identities):
    """Whoever asks while a tick is committed, or marked, gets nothing of it; and then at once."""
    net, found = network("recycled"), {}
    alder = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())

    def asking(where, call):
        def called(*how):
            found[f"before it is {where}"] = loop.committed(0)
            call(*how)
            found[f"when it was {where}"] = loop.committed(0)

        return called

    async def spoken():
        nonlocal loop
        loop = AgentLoop(alder.started(), lambda doing, done, rounds: None)
        loop._pay()
        alder.store.commit = asking("committed", alder.store.commit)
        alder.ledger.mark = asking("marked", alder.ledger.mark)
        await loop._speak(0)
        return loop.conversation.find(question)

    loop, question = None, Question(run=bytes.fromhex(net.federation.run), sender=1, tick=0)
    assert asyncio.run(spoken()) is not None
    places = ("before it is committed", "when it was committed", "before it is marked", "when it was marked")
    assert found == dict.fromkeys(places)


def test_noise_that_came_to_nothing_is_not_drawn_again(network, identities):
    """Noise is drawn, and nothing comes of it; started again, alder could try until it likes what it draws."""
    net = network("recycled")

    class Failing(tacit.SecureNoise):
        def perturb(self, *args):
            super().perturb(*args)
            raise MemoryError("no room for the row")

    broken = worker.participant(net.folder, net.kind, 0, identities, Failing())

    async def spoken():
        loop = AgentLoop(broken.started(), lambda doing, done, rounds: None)
        loop._pay()
        await loop._speak(0)

    with pytest.raises(MemoryError):
        asyncio.run(spoken())
    again = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    with pytest.raises(TacitError, match=r"over for alder: tick 0 failed after its noise was drawn \(no room for"):
        again.check()


def test_a_failure_that_the_store_cannot_keep_is_kept_by_the_ledger(network, identities):
    net = network("recycled")

    class Failing(tacit.SecureNoise):
        def perturb(self, *args):
            raise MemoryError("no room for the row")

    broken = worker.participant(net.folder, net.kind, 0, identities, Failing())

    def full(*args):
        raise TacitError("the disk is full")

    broken.store.fail = full

    async def spoken():
        loop = AgentLoop(broken.started(), lambda doing, done, rounds: None)
        loop._pay()
        await loop._speak(0)

    with pytest.raises(TacitError, match="the disk is full"):
        asyncio.run(spoken())
    broken.store.close()
    again = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    with pytest.raises(Over, match="does not have tick 0 of them"):
        again.check()


@pytest.mark.parametrize("met", [True, False])
def test_a_store_that_has_met_others_outlives_a_wrong_ledger(network, identities, met):
    """alder is started again, before it has spoken, with birch's ledger. Without its store, the others would not take
    its key again. Only a store that was made just now is removed."""
    net = network("secret-shared")
    alder, birch = (worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise()) for i in (0, 1))

    async def spoken():
        loop = AgentLoop(birch.started(), lambda doing, done, rounds: None)
        loop._pay()
        await loop._speak(0)

    asyncio.run(spoken())
    if met:
        alder.store.keep_met({1: b"birch has met alder"})
    secret, path = alder.store.secret, alder.store.path
    with pytest.raises(Over, match="or this is the ledger of another member"):
        replace(alder, ledger=birch.ledger).check()
    assert path.exists() == met
    alder.store.close()
    again = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    again.check()
    assert (again.store.secret == secret) == met


def test_what_another_process_has_marked_since_the_check_is_not_sent_in_another_version(network, identities):
    """birch has committed tick 0, and died before it was marked. A copy of it, which pays from the same ledger, marks
    its own version in the moment between the check and the start."""
    net = network("recycled")

    def committed(folder, unmarked):
        found = worker.participant(folder, net.kind, 1, identities, tacit.SecureNoise())
        made = replace(found, ledger=net_ledger)

        async def spoken():
            loop = AgentLoop(made.started(), lambda doing, done, rounds: None)
            loop._pay()
            if unmarked:
                vars(loop.participant)["mark"] = lambda *args: None
            await loop._speak(0)

        asyncio.run(spoken())
        return made

    copy = net.folder / "copy"
    copy.mkdir()
    for name in ("fed.toml", "data.npz", "birch.ledger"):
        (copy / name).write_bytes((net.folder / name).read_bytes())
    with closing(Ledger(net.folder / "birch.ledger", cost=filters.epsilon)) as net_ledger:
        birch = committed(net.folder, unmarked=True)
        birch.check()
        committed(copy, unmarked=False)

        async def run():
            loop = AgentLoop(birch.started(), lambda doing, done, rounds: None)
            try:
                await loop.run(0.1)
            finally:
                assert loop.committed(0) is None

        with pytest.raises(AnotherVersion, match="something else may have left at tick 0"):
            asyncio.run(run())


def test_a_disk_that_is_full_at_a_commit_is_as_a_crash(network, identities):
    """Nothing has left, and whether a file can be written depends on no record: the noise is drawn anew."""
    net = network("recycled")

    async def spoken(participant):
        loop = AgentLoop(participant.started(), lambda doing, done, rounds: None)
        loop._pay()
        await loop._speak(0)

    first = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    commit = first.store.commit

    def full(*args):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        commit(*args)

    first.store.commit = full
    try:
        with pytest.raises(MachineError, match=r"store-state0: File too large; nothing was sent"):
            asyncio.run(spoken(first))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert first.store.releases() == []
    first.store.close()
    again = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    again.check()
    asyncio.run(spoken(again))
    assert [tick for tick, _, _ in again.store.releases()] == [0]


def test_a_disk_that_is_full_at_a_mark_lets_nothing_leave_and_the_same_bytes_leave_later(network, identities):
    net = network("recycled")
    first = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    mark, loops = first.ledger.mark, []

    def full(*args):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        mark(*args)

    async def spoken():
        loops.append(AgentLoop(first.started(), lambda doing, done, rounds: None))
        loops[0]._pay()
        await loops[0]._speak(0)

    first.ledger.mark = full
    try:
        with pytest.raises(MachineError, match=r"alder\.ledger"):
            asyncio.run(spoken())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert loops[0].committed(0) is None
    said = first.store.message(0)
    assert said is not None
    for each in (first.store, first.ledger):
        each.close()
    again = worker.participant(net.folder, net.kind, 0, identities, tacit.SecureNoise())
    again.check()

    async def back():
        loop = AgentLoop(again.started(), lambda doing, done, rounds: None)
        loop._meet = nobody
        with pytest.raises(NotNow):
            await loop.run(0.1)
        return loop.committed(0)

    async def nobody(patience):
        raise NotNow("nobody else is there")

    assert asyncio.run(back()) == said
    assert again.ledger.marks(net.federation.run) == {0: sha256(said).digest()}
