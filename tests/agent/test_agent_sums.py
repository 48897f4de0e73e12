"""Secret-shared sums between agents, in one process: `tacit.agent.delivery` with function calls for a wire."""

import asyncio
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_worker import D

import tacit
from tacit.agent.delivery import Sums, _signed
from tacit.agent.federation import Plain
from tacit.agent.participant import check_sums
from tacit.agent.wire import BadMessage, unpacked
from tacit.agent.wire_pb2 import Key, Message, Question
from tacit.errors import ExchangeError, InputError
from tacit.exchange import keys
from tacit.exchange.fixed_point import FixedPoint

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


class Here:
    """A neighbour in this process."""

    def __init__(self, table, me, peer):
        self._table, self._me, self._peer = table, me, peer

    async def ask(self, tick, read, *, phase=0, shares=()):
        run = self._table.run
        question = Question(run=bytes.fromhex(run), sender=self._me, tick=tick, phase=phase, shares=shares)
        answer = self._table.answer(self._peer, question)
        return read(unpacked(answer, run, self._peer, tick, phase))


class Table:
    """Five agents around it. What each says at tick t is rows[t][i]."""

    def __init__(self, net, identities, rows):
        self.net, self.identities, self.rows, self.run = net, identities, rows, net.federation.run
        self.graph = agent_network.worker_graph()
        self.participants = [
            worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise()) for i in range(5)
        ]
        self.lines = [self.line(i) for i in range(5)]
        self.answers = {}
        self.altered = lambda i, question, answer: answer
        self.introduce(*range(5))

    def line(self, i):
        peers = {j: Here(self, i, j) for j in self.graph.neighbours(i).tolist()}
        return Sums(self.participants[i], peers)

    def introduce(self, *agents):
        for _ in range(2):  # first the neighbours, then those whom they know
            for i in agents:
                for j in self.graph.neighbours(i).tolist():
                    for key in (self.lines[j].own_key, *self.lines[j].keys):
                        self.lines[i].take_key(key)

    def message(self, i, t):
        return self.lines[i].message(t, self.rows[t][i], silent=False)

    def answer(self, i, question):
        answer = self.lines[i].answer(question, self.message(i, question.tick))
        self.answers.setdefault((i, question.tick, question.phase, question.sender), set()).add(answer)
        return self.altered(i, question, answer)

    def hear(self, i, t):
        async def own():
            return self.message(i, t)

        near = self.graph.neighbours(i).tolist()
        return asyncio.run(self.lines[i].hear(t, near, own, lambda j: None)).sum()[0]

    def restart(self, i):
        self.lines[i] = self.line(i)
        self.introduce(i)


@pytest.fixture
def table(network, identities):
    rows = np.random.default_rng(0).normal(size=(3, 5, D))
    return Table(network("secret-shared"), identities, rows)


def test_everybody_hears_the_sum_of_its_neighbours(table):
    point = FixedPoint(2.0**16, 4)
    assert all(line.complete for line in table.lines)
    for t in range(3):
        for i in range(5):
            near = table.graph.neighbours(i).tolist()
            words = sum(point.encode(table.rows[t][j]) for j in near)
            np.testing.assert_array_equal(table.hear(i, t), point.decode(words))
    assert all(len(versions) == 1 for versions in table.answers.values())


def say_again(table, i, t):
    """Agent i dies after it has answered everything, and is asked everything again."""
    questions = [(tick, phase, sender) for agent, tick, phase, sender in table.answers if (agent, tick) == (i, t)]
    table.restart(i)
    for j in {sender for _, _, sender in questions}:
        table.restart(j)
        table.hear(j, t)


def test_after_a_crash_the_same_bytes_leave(table):
    for i in range(5):
        table.hear(i, 0)
    say_again(table, BIRCH, 0)
    assert {len(versions) for versions in table.answers.values()} == {1}


def test_fresh_words_after_a_crash_would_be_noticed(table, monkeypatch):
    """The planted bug of the test above."""
    monkeypatch.setattr(keys.RepeatableWords, "seed", lambda self, about: keys.fresh_key())
    for i in range(5):
        table.hear(i, 0)
    say_again(table, BIRCH, 0)
    assert max(len(versions) for versions in table.answers.values()) == 2


def test_no_row_leaves_as_it_is(table):
    """Not even to who asks for the same tick in every way there is."""
    for i in range(5):
        table.hear(i, 0)
    payloads = [Message.FromString(answer).payload for versions in table.answers.values() for answer in versions]
    point = FixedPoint(2.0**16, 4)
    for row in table.rows[0]:
        assert not any(row.tobytes()[:16] in payload for payload in payloads)
        assert not any(point.encode(row).tobytes()[:16] in payload for payload in payloads)
    ask = Question(run=bytes.fromhex(table.run), sender=ALDER, tick=0, phase=2)
    with pytest.raises(BadMessage, match="phase 2 with 0 shares is no question"):
        table.answer(BIRCH, ask)


def test_a_listener_cannot_put_its_own_key_between_two_members(table, network, identities):
    """alder and cedar are not neighbours; birch introduces them."""
    other = network("secret-shared", "another run")
    alder = Sums(worker.participant(other.folder, other.kind, ALDER, identities, tacit.SecureNoise()), {})
    mine = keys.KeyPair().public
    forged = Key(member=CEDAR, public=mine, signature=table.participants[BIRCH].identity.sign(b"cedar's, I swear"))
    for key in (forged, table.lines[CEDAR].own_key):  # birch's own; cedar's, which it has signed for another run
        with pytest.raises(BadMessage, match="cedar has not signed the key"):
            alder.take_key(key)


def test_a_member_whose_key_changes_has_lost_its_store(table):
    other = keys.KeyPair().public
    participant = table.participants[BIRCH]
    key = Key(member=BIRCH, public=other, signature=participant.identity.sign(_signed(participant, BIRCH, other)))
    with pytest.raises(BadMessage, match="birch has another key than before"):
        table.lines[ALDER].take_key(key)


@pytest.mark.parametrize("phase", [0, 1])
def test_what_is_altered_on_the_way_is_refused_and_changes_nothing(table, phase):
    def altered(i, question, answer):
        message = Message.FromString(answer)
        if (i, question.phase) == (BIRCH, phase):
            table.altered = lambda i, question, answer: answer  # once
            message.payload = message.payload[:-1] + bytes([message.payload[-1] ^ 1])
        return message.SerializeToString()

    table.altered = altered
    with pytest.raises(ExchangeError):
        table.hear(ELM, 0)
    table.restart(ELM)
    np.testing.assert_allclose(table.hear(ELM, 0), table.rows[0][[ALDER, BIRCH, DOGWOOD]].sum(axis=0), atol=1e-12)


def test_an_old_tick_is_not_shared_again(table):
    table.hear(ALDER, 0)
    table.hear(ALDER, 1)
    with pytest.raises(ExchangeError, match="rounds and attempts only grow"):
        table.answer(BIRCH, Question(run=bytes.fromhex(table.run), sender=ALDER, tick=0))


def test_nothing_is_said_before_all_keys_are_known(table):
    line = Sums(table.participants[BIRCH], {})
    line._known.clear()
    ask = Question(run=bytes.fromhex(table.run), sender=ALDER, tick=0)
    assert line.answer(ask, table.message(BIRCH, 0)) is None


def test_methods_that_cannot_do_with_sums_are_refused(network):
    federation = network("secret-shared").federation
    check_sums(federation)
    with pytest.raises(InputError, match="one member speaks at a time"):
        check_sums(replace(federation, method=Plain("i-admm", 1.0, 0.1, "logistic")))
    with pytest.raises(InputError, match="alder has one neighbour"):
        replace(federation, edges=tuple(edge for edge in federation.edges if edge != ("alder", "elm")))
