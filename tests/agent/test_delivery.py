"""Secret-shared sums between agents: `tacit.agent.delivery` in one process, with function calls for a network."""

import asyncio
from dataclasses import replace
from hashlib import sha256

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_worker import D
from speaking import unpacked

import tacit
from tacit.agent.able import check_sums
from tacit.agent.certificate import signed_report
from tacit.agent.delivery import _USE, Rows, Sums
from tacit.agent.federation import talk
from tacit.agent.run_keys import signed_text
from tacit.agent.transport.wire import BadMessage, packed_row
from tacit.agent.transport.wire_pb2 import Key, Message, Question
from tacit.algorithms import IncrementalADMM
from tacit.core.release import Inbox
from tacit.errors import ExchangeError, InputError
from tacit.exchange import keys
from tacit.exchange.fixed_point import FixedPoint
from tacit.privacy.mechanisms import unprotected

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


class Here:
    """A neighbour in this process."""

    def __init__(self, agents, me, peer):
        self._agents, self._me, self._peer = agents, me, peer

    async def ask(self, tick, read, *, phase=0, shares=()):
        run = self._agents.run
        question = Question(run=bytes.fromhex(run), sender=self._me, tick=tick, phase=phase, shares=shares)
        answer = self._agents.answer(self._peer, question)
        return read(unpacked(answer, run, self._peer, tick, phase))


class Agents:
    """Five agents in one process. What each says at tick t is rows[t][i]."""

    def __init__(self, net, identities, rows):
        self.net, self.identities, self.rows, self.run = net, identities, rows, net.federation.run
        self.graph = net.federation.graph
        self.participants = [
            worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise()) for i in range(5)
        ]
        self.deliveries = [self.delivery(i) for i in range(5)]
        self.answers = {}
        self.altered = lambda i, question, answer: answer
        self.introduce(*range(5))

    def delivery(self, i):
        peers = {j: Here(self, i, j) for j in self.graph.neighbours(i).tolist()}
        return Sums(self.participants[i], peers)

    def introduce(self, *members):
        for _ in range(2):  # first the neighbours, then those whom they know
            for i in members:
                for j in self.graph.neighbours(i).tolist():
                    for key in (self.deliveries[j].own_key, *self.deliveries[j].keys):
                        self.deliveries[i].take_key(key)

    def message(self, i, t):
        return self.deliveries[i].message(t, unprotected(self.rows[t][i : i + 1]))

    def answer(self, i, question):
        answer = self.deliveries[i].answer(question, self.message(i, question.tick))
        self.answers.setdefault((i, question.tick, question.phase, question.sender), set()).add(answer)
        return self.altered(i, question, answer)

    def hear(self, i, t):
        async def own():
            return self.message(i, t)

        near = self.graph.neighbours(i).tolist()
        return asyncio.run(self.deliveries[i].hear(t, near, own, lambda j: None)).sum()[0]

    def restart(self, i):
        self.deliveries[i] = self.delivery(i)
        self.introduce(i)


@pytest.fixture
def agents(network, identities):
    rows = np.random.default_rng(0).normal(size=(3, 5, D))
    return Agents(network("secret-shared"), identities, rows)


def test_everybody_hears_the_sum_of_its_neighbours(agents):
    point = FixedPoint(2.0**16, 4)
    assert all(each.complete for each in agents.deliveries)
    for t in range(3):
        for i in range(5):
            near = agents.graph.neighbours(i).tolist()
            words = sum(point.encode(agents.rows[t][j]) for j in near)
            np.testing.assert_array_equal(agents.hear(i, t), point.decode(words))
    assert all(len(versions) == 1 for versions in agents.answers.values())


def say_again(agents, i, t):
    """Agent i dies after it has answered everything, and is asked everything again."""
    questions = [(tick, phase, sender) for agent, tick, phase, sender in agents.answers if (agent, tick) == (i, t)]
    agents.restart(i)
    for j in {sender for _, _, sender in questions}:
        agents.restart(j)
        agents.hear(j, t)


def test_after_a_crash_the_same_bytes_leave(agents):
    for i in range(5):
        agents.hear(i, 0)
    say_again(agents, BIRCH, 0)
    assert {len(versions) for versions in agents.answers.values()} == {1}


def test_fresh_words_after_a_crash_would_be_noticed(agents, monkeypatch):
    """The planted bug of the test above."""
    monkeypatch.setattr(keys.RepeatableWords, "seed", lambda self, about: keys.fresh_key())
    for i in range(5):
        agents.hear(i, 0)
    say_again(agents, BIRCH, 0)
    assert max(len(versions) for versions in agents.answers.values()) == 2


def test_no_row_leaves_as_it_is(agents):
    """Not even to a neighbour that asks for the same tick in every way there is."""
    for i in range(5):
        agents.hear(i, 0)
    payloads = [Message.FromString(answer).payload for versions in agents.answers.values() for answer in versions]
    point = FixedPoint(2.0**16, 4)
    for row in agents.rows[0]:
        assert not any(row.tobytes()[:16] in payload for payload in payloads)
        assert not any(point.encode(row).tobytes()[:16] in payload for payload in payloads)
    ask = Question(run=bytes.fromhex(agents.run), sender=ALDER, tick=0, phase=2)
    with pytest.raises(BadMessage, match="there is no question of phase 2 with 0 shares"):
        agents.answer(BIRCH, ask)


@pytest.mark.parametrize("kind", ["recycled", "secret-shared", "totals"])
def test_a_report_lists_digests_with_which_nobody_can_check_a_guess_of_a_hidden_row(network, identities, kind):
    """Of open rows the digest is that of the message, so that neighbours can compare it."""
    net = network(kind)
    participant = worker.participant(net.folder, net.kind, ALDER, identities, tacit.SecureNoise())
    message = packed_row(net.federation.run, ALDER, 0, np.ones(D))
    participant.store.commit(0, {"f": np.ones((1, D))}, message, tacit.Gaussian(20.0))
    (listed,) = signed_report._released(participant)["releases"]
    assert (listed["sha256"] == sha256(message).hexdigest()) == (kind == "recycled")
    assert len(bytes.fromhex(listed["sha256"])) == 32


def test_a_listener_cannot_put_its_own_key_between_two_members(agents, network, identities):
    """alder and cedar are not neighbours; birch introduces them."""
    other = network("secret-shared", "another run")
    alder = Sums(worker.participant(other.folder, other.kind, ALDER, identities, tacit.SecureNoise()), {})
    mine = keys.KeyPair().public
    forged = Key(member=CEDAR, public=mine, signature=agents.participants[BIRCH].identity.sign(b"cedar's, I swear"))
    for key in (forged, agents.deliveries[CEDAR].own_key):  # birch's own; cedar's, which it has signed for another run
        with pytest.raises(BadMessage, match="cedar has not signed the key"):
            alder.take_key(key)


def test_a_member_whose_key_changes_has_lost_its_store(agents):
    other = keys.KeyPair().public
    participant = agents.participants[BIRCH]
    signature = participant.identity.sign(signed_text(participant, _USE, BIRCH, other))
    key = Key(member=BIRCH, public=other, signature=signature)
    with pytest.raises(BadMessage, match="birch has another key than before"):
        agents.deliveries[ALDER].take_key(key)


@pytest.mark.parametrize("phase", [0, 1])
def test_what_is_altered_on_the_way_is_refused_and_changes_nothing(agents, phase):
    def altered(i, question, answer):
        message = Message.FromString(answer)
        if (i, question.phase) == (BIRCH, phase):
            agents.altered = lambda i, question, answer: answer  # once
            message.payload = message.payload[:-1] + bytes([message.payload[-1] ^ 1])
        return message.SerializeToString()

    agents.altered = altered
    with pytest.raises(ExchangeError):
        agents.hear(ELM, 0)
    agents.restart(ELM)
    np.testing.assert_allclose(agents.hear(ELM, 0), agents.rows[0][[ALDER, BIRCH, DOGWOOD]].sum(axis=0), atol=1e-12)


def test_an_old_tick_is_not_shared_again(agents):
    agents.hear(ALDER, 0)
    agents.hear(ALDER, 1)
    with pytest.raises(ExchangeError, match="rounds and attempts only grow"):
        agents.answer(BIRCH, Question(run=bytes.fromhex(agents.run), sender=ALDER, tick=0))


def test_nothing_is_said_before_all_keys_are_known(agents):
    delivery = Sums(agents.participants[BIRCH], {})
    delivery._keys.known.clear()
    ask = Question(run=bytes.fromhex(agents.run), sender=ALDER, tick=0)
    assert delivery.answer(ask, agents.message(BIRCH, 0)) is None


@pytest.mark.parametrize("delivery", [Rows, Sums])
def test_a_row_with_a_share_of_the_noise_leaves_in_a_total_only(network, identities, delivery):
    """A row of a method that shares its noise, as its mechanism has made it."""
    totals, sums = network("totals"), network("secret-shared", "sums")
    own = worker.participant(totals.folder, totals.kind, BIRCH, identities, tacit.SecureNoise())
    view, algorithm = own.federation.graph.view(np.array([BIRCH])), own.federation.setting.algorithm
    start = np.zeros((1, D))
    _, release = algorithm.speak(
        algorithm.init(own.problem, view, start, Inbox(start, np.array([0, 1]))), own.problem, view, own.noise, 0
    )
    other = worker.participant(sums.folder, sums.kind, BIRCH, identities, tacit.SecureNoise())
    with pytest.raises(InputError, match="protected only in a sum over all members"):
        delivery(other, {}).message(0, release)


def test_methods_that_cannot_do_with_sums_are_refused(network):
    federation = network("secret-shared").federation
    check_sums(federation.setting)
    with pytest.raises(InputError, match="i-admm cannot use secret-shared sums: one member speaks at a time"):
        check_sums(replace(federation.setting, spec=replace(federation.spec, method=IncrementalADMM())))
    graph = talk(federation.names, [edge for edge in federation.edges if edge != ("alder", "elm")])
    with pytest.raises(InputError, match="alder has one neighbour"):
        replace(federation, spec=replace(federation.spec, graph=graph))
