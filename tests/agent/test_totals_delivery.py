"""Totals between agents: `tacit.agent.totals_delivery` in one process, with function calls for a network."""

import asyncio
from collections import Counter
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, D
from speaking import unpacked

import tacit
from tacit.agent.federation import SUMS, TOTALS, Federation
from tacit.agent.guarantee import guaranteed, statement
from tacit.agent.run_keys import signed_text
from tacit.agent.totals_delivery import SHARE, SUM, TOTAL, USE, TotalsDelivery
from tacit.agent.transport.server import Signal
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Key, Message, Question
from tacit.algorithms import RecycledADMM
from tacit.core.release import Inbox
from tacit.errors import ExchangeError, GraphError, InputError
from tacit.exchange import keys
from tacit.exchange.totals import totals_point
from tacit.exchange.tree import Tree
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import SharedGaussian
from tacit.privacy.mechanisms import unprotected
from tacit.privacy.sensitivity import SHARE_GRID
from tacit.run.trust import Trust

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)
FIVE = range(5)


class Here:
    """A neighbour in this process: it is asked until it gives an answer that is accepted."""

    def __init__(self, agents, me, peer):
        self._agents, self._me, self._peer = agents, me, peer

    async def ask(self, tick, read, *, phase=0, shares=()):
        run = self._agents.run
        question = Question(run=bytes.fromhex(run), sender=self._me, tick=tick, phase=phase, shares=shares)
        while True:
            while (answer := self._agents.answer(self._peer, question)) is None:
                await asyncio.sleep(0)
            try:
                return read(unpacked(answer, run, self._peer, tick, phase))
            except (BadMessage, ExchangeError) as error:
                self._agents.refused.append(str(error))


class Agents:
    """Five agents in one process. What each says at tick t is rows[t][i]."""

    def __init__(self, net, identities, rows):
        self.net, self.rows, self.run, self.graph = net, rows, net.federation.run, net.federation.graph
        self.participants = [worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise()) for i in FIVE]
        self.deliveries = [self.delivery(i) for i in FIVE]
        self.answers, self.refused = {}, []
        self.altered = lambda i, question, message: message
        for i in FIVE:
            self.introduce(i)

    def delivery(self, i):
        peers = {j: Here(self, i, j) for j in self.graph.neighbours(i).tolist()}
        return TotalsDelivery(self.participants[i], peers, Signal())

    def introduce(self, i):
        for j in self.graph.neighbours(i).tolist():
            self.deliveries[i].take_key(self.deliveries[j].own_key)

    def answer(self, i, question):
        message = self.participants[i].store.message(question.tick)
        answer = None if message is None else self.deliveries[i].answer(question, message)
        if answer is None:
            return None
        asked = (i, question.tick, question.phase, question.sender)
        self.answers.setdefault(asked, set()).add(answer)
        return self.altered(i, question, Message.FromString(answer)).SerializeToString()

    def commit(self, t, *members):
        for i in members:
            delivery, store = self.deliveries[i], self.participants[i].store
            message = delivery.message(t, unprotected(self.rows[t][i : i + 1]))
            store.commit(t, delivery.memory, message, self.participants[i].events[t])

    def hear(self, t, *members):
        """The totals that these members hear."""

        async def own():
            pass

        async def all_of_them():
            coming = [
                self.deliveries[i].hear(t, self.graph.neighbours(i).tolist(), own, lambda j: None) for i in members
            ]
            return await asyncio.wait_for(asyncio.gather(*coming), 20)

        return np.array([inbox.sum()[0] for inbox in asyncio.run(all_of_them())])

    def tick(self, t):
        self.commit(t, *FIVE)
        return self.hear(t, *FIVE)

    def restart(self, *members):
        for i in members:
            self.deliveries[i] = self.delivery(i)
            self.deliveries[i].remember(self.participants[i].store.state()[1])

    def asked_again(self, i):
        """Everything that agent i has answered is asked again, of its last two ticks."""
        for agent, tick, phase, sender in list(self.answers):
            if agent == i and tick >= self.deliveries[i]._sharer.round - 1:
                self.answer(i, Question(run=bytes.fromhex(self.run), sender=sender, tick=tick, phase=phase))


@pytest.fixture(params=["totals", "totals, ring"])
def agents(request, network, identities):
    rows = np.round(np.random.default_rng(0).normal(size=(4, 5, D)) / SHARE_GRID) * SHARE_GRID
    return Agents(network(request.param), identities, rows)


def test_everybody_hears_the_sum_of_all(agents):
    assert all(each.complete for each in agents.deliveries)
    for t in range(4):
        np.testing.assert_array_equal(agents.tick(t), np.tile(agents.rows[t].sum(axis=0), (5, 1)))
    assert {len(versions) for versions in agents.answers.values()} == {1}
    assert agents.refused == []


def test_after_a_crash_the_same_bytes_leave(agents):
    """birch and cedar have spoken at tick 2, the others are behind or not, and all ask everything again."""
    for t in range(2):
        agents.tick(t)
    agents.commit(2, *FIVE)
    for lives in range(2):
        agents.restart(*FIVE)
        for i in FIVE:
            agents.deliveries[i]._begin(2)
            agents.asked_again(i)
        if lives == 0:
            agents.hear(2, *FIVE)
    assert {len(versions) for versions in agents.answers.values()} == {1}
    assert {tick for _, tick, phase, _ in agents.answers if phase == TOTAL} == {0, 1, 2}


def test_fresh_words_after_a_crash_would_be_noticed(agents, monkeypatch):
    """The planted bug of the test above."""
    monkeypatch.setattr(keys.RepeatableWords, "seed", lambda self, about: keys.fresh_key())
    agents.tick(0)
    agents.commit(1, *FIVE)
    agents.restart(BIRCH)
    agents.asked_again(BIRCH)
    assert max(len(versions) for versions in agents.answers.values()) == 2


@pytest.mark.parametrize("behind", FIVE)
def test_a_member_that_is_a_tick_behind_catches_up_with_others_that_have_crashed(agents, behind):
    """It gave its partial sum and died before it heard the total. The others have gone on, and have died, too."""
    totals = [agents.tick(t) for t in range(2)]
    others = [i for i in FIVE if i != behind]
    agents.commit(2, *others)
    agents.restart(*FIVE)
    assert agents.participants[behind].store.state()[0] == 1
    np.testing.assert_array_equal(agents.hear(1, behind)[0], totals[1][behind])
    agents.commit(2, behind)
    np.testing.assert_array_equal(agents.hear(2, *FIVE), np.tile(agents.rows[2].sum(axis=0), (5, 1)))
    assert {len(versions) for versions in agents.answers.values()} == {1}


def test_every_phase_is_for_those_whom_it_concerns(agents):
    for t in range(3):
        agents.tick(t)
    tree, run = Tree.of(agents.graph, 2), bytes.fromhex(agents.run)
    answered = set()
    for i in FIVE:
        for j in agents.graph.neighbours(i).tolist():
            for phase in range(5):
                allowed = (SHARE, *[SUM] * (tree.parent[i] == j), *[TOTAL] * (tree.parent[j] == i))
                question = Question(run=run, sender=j, tick=2, phase=phase)
                if phase in allowed:
                    answered.add((i, phase))
                    assert agents.answer(i, question) is not None
                else:
                    with pytest.raises(BadMessage, match=f"{NAMES[j]} has no question of phase {phase} to ask"):
                        agents.answer(i, question)
    assert Counter(phase for _, phase in answered)[SUM] == 4  # all but the root have a parent
    with pytest.raises(BadMessage, match="brings no shares; this one has 1"):
        agents.answer(ALDER, Question(run=run, sender=BIRCH, tick=2, shares=[b"x"]))


def test_a_tick_that_is_over_for_all_is_not_answered(agents):
    for t in range(4):
        agents.tick(t)
    run, tree = bytes.fromhex(agents.run), Tree.of(agents.graph, 0)
    child = next(i for i in FIVE if tree.parent[i] is not None)
    with pytest.raises(ExchangeError, match="has no share of round 0"):
        agents.answer(child, Question(run=run, sender=tree.parent[child], tick=0))
    with pytest.raises(BadMessage, match="tick 0 is over for all members"):
        agents.answer(child, Question(run=run, sender=tree.parent[child], tick=0, phase=SUM))


def test_no_row_leaves_as_it_is(agents):
    """Nor anything that is not as good as uniform."""
    agents.tick(0)
    point = totals_point(5)
    payloads = [Message.FromString(answer).payload for versions in agents.answers.values() for answer in versions]
    total = point.encode(agents.rows[0].sum(axis=0)).tobytes()
    for row in agents.rows[0]:
        for secret in (row.tobytes(), point.encode(row).tobytes()):
            assert not any(secret[:8] in payload for payload in payloads)
    below = [np.frombuffer(each, "<u8") for each in payloads if len(each) == 8 * D and each != total]
    assert len(below) == 4
    assert min(np.abs(words.view("<i8").astype(float)).max() for words in below) > 2.0**60  # of 15 uniform words


def damaged(kind):
    """A lie about one's own message."""

    def lie(message):
        return {
            "short": lambda: message.payload[:-1],
            "long": lambda: message.payload + b"x",
            "empty": lambda: b"",
            "garbage": lambda: b"\xff" * 48,
            "sealed for another": lambda: message.payload[:-1] + bytes([message.payload[-1] ^ 1]),
        }[kind]()

    return lie


@pytest.mark.parametrize("phase", [SHARE, SUM, TOTAL])
@pytest.mark.parametrize("kind", ["short", "long", "empty", "garbage", "sealed for another"])
def test_a_lie_that_can_be_seen_is_refused_and_changes_nothing(agents, phase, kind):
    """The liar tells the truth when it is asked again: everybody hears the total."""
    if phase != SHARE and kind == "sealed for another":
        pytest.skip("any words are the sum of something")
    lied = set()

    def altered(i, question, message):
        if question.phase == phase and (i, question.sender) not in lied:
            lied.add((i, question.sender))
            message.payload = damaged(kind)(message)
        return message

    agents.altered = altered
    np.testing.assert_array_equal(agents.tick(0), np.tile(agents.rows[0].sum(axis=0), (5, 1)))
    assert len(agents.refused) == len(lied) > 0


def test_a_wrong_phase_or_tick_in_an_answer_is_refused(agents):
    lies = [{"phase": 2}, {"tick": 7}, {"sender": 3}, {"run": b"another"}]

    def altered(i, question, message):
        if i == BIRCH and lies:
            for field, value in lies.pop().items():
                setattr(message, field, value)
        return message

    agents.altered = altered
    np.testing.assert_array_equal(agents.tick(0), np.tile(agents.rows[0].sum(axis=0), (5, 1)))
    assert len(agents.refused) == 4


def test_a_member_that_tells_everybody_another_sum_stops_nobody(agents):
    """Totals are then wrong, and different; they are finite numbers, and what members release costs what it did."""
    rng = np.random.default_rng(3)

    def altered(i, question, message):
        if i == BIRCH and question.phase != SHARE:
            message.payload = rng.integers(0, 2**64, size=D, dtype=np.uint64).tobytes()
        return message

    agents.altered = altered
    heard = np.array([agents.tick(t) for t in range(3)])
    assert np.isfinite(heard).all()
    assert len(np.unique(heard[:, :, 0])) > 3
    for participant in agents.participants:
        algorithm, problem = participant.federation.setting.algorithm, participant.problem
        view = agents.graph.view(np.array([participant.me]))
        start = np.zeros((1, D))
        state = algorithm.init(problem, view, start, Inbox(start, np.array([0, 1])))
        f = np.full((1, D), 1e300)
        _, release = algorithm.speak(state._replace(f=f), problem, view, participant.noise, 3)
        assert release.events == (participant.events[3],)
        assert np.isfinite(release.value).all()


def test_a_key_counts_with_the_signature_for_this_use_alone(agents):
    participant, other = agents.participants[BIRCH], keys.KeyPair().public
    for use, match in ((b"secret-shared sums", "has not signed the key"), (USE, "birch has another key than before")):
        signature = participant.identity.sign(signed_text(participant, use, BIRCH, other))
        with pytest.raises(BadMessage, match=match):
            agents.deliveries[ALDER].take_key(Key(member=BIRCH, public=other, signature=signature))


def test_nothing_is_said_before_the_neighbours_keys_are_known(agents):
    agents.commit(0, *FIVE)
    agents.deliveries[BIRCH]._keys.known.clear()
    assert agents.answer(BIRCH, Question(run=bytes.fromhex(agents.run), sender=ALDER, tick=0)) is None


# The federation file


def test_the_file_says_who_may_collude(network):
    federation = network("totals, ring").federation
    text = federation.to_toml()
    assert 'exchange = "secret-shared totals"\n' in text
    assert "trust = { colluders = 1, dropouts = 0 }\n" in text
    again = Federation.from_toml(text)
    assert (again, again.run) == (federation, federation.run)
    assert trusting(federation, 0).run != federation.run
    assert federation.setting.algorithm.colluders == 1
    with pytest.raises(InputError, match=r"colluders must be a whole number, 0 or more, not 1\.5"):
        Federation.from_toml(text.replace("trust = { colluders = 1,", "trust = { colluders = 1.5,"))


def test_a_file_without_totals_is_as_it_was(network):
    text = network("going on, private").federation.to_toml()
    assert "colluders" not in text
    with pytest.raises(InputError, match="its members do not share their noise: leave out colluders and dropouts"):
        Federation.from_toml(text.replace("[run]\n", "[run]\ntrust = { colluders = 1 }\n"))


def trusting(federation, colluders, dropouts=0):
    """The same members, who trust others; so does their method."""
    method = replace(federation.spec.method, colluders=colluders, dropouts=dropouts)
    return replace(federation, spec=replace(federation.spec, method=method, trust=Trust(colluders, dropouts)))


def test_what_does_not_fit_together_is_refused(network):
    ring, complete = network("totals, ring").federation, network("totals", "complete").federation
    with pytest.raises(GraphError, match="2 members can cut this graph in two, so shared noise allows 1 colluders"):
        trusting(ring, 2)
    with pytest.raises(InputError, match="of 5 members, 5 colluders and 0 dropouts leave none"):
        replace(complete, spec=replace(complete.spec, trust=Trust(5)))
    with pytest.raises(InputError, match="robust listening compares rows, but secret-shared totals hide them"):
        replace(ring, spec=replace(ring.spec, trust=Trust(robust="clipping")))
    with pytest.raises(InputError, match="shared-descent needs sums over all members, so it needs"):
        replace(ring, exchange=SUMS)
    with pytest.raises(InputError, match="r-admm needs its neighbours' rows, so it cannot use"):
        replace(ring, spec=replace(ring.spec, method=RecycledADMM(), recipe="", trust=Trust()))
    with pytest.raises(InputError, match="go_on_after needs dropouts"):
        replace(complete, go_on_after=10.0)
    with pytest.raises(InputError, match="dropouts needs go_on_after"):
        trusting(complete, 1, 1)
    assert trusting(complete, 4).exchange == TOTALS


def test_the_statement_is_about_coalitions(network):
    """A member that adds no noise is as good as a colluder whose noise is known: one of the t."""
    federation = network("totals").federation
    found = guaranteed(federation)
    assert found.epsilon <= 2.0
    assert [t for t, _ in found.curve] == [0, 1, 2, 3, 4]
    assert found.curve[1].epsilon <= 2.0 < found.curve[2].epsilon < found.curve[4].epsilon
    text = statement(federation)
    assert text.startswith("(2, 1e-05) against any one of the 4 other members; against 2: (2.")
    assert text.count("against") == 4

    planned = network("totals", "again").federation
    (event,) = set(worker_events(planned))
    alone = epsilon(Counter({replace(event, colluders=4): planned.rounds}), 1e-5)
    assert found.curve[4].epsilon == pytest.approx(alone, rel=1e-3)  # t = N - 1 is local noise
    silent = SharedGaussian(event.multiplier, members=4, colluders=0)  # one of five adds nothing: four shares
    assert epsilon(Counter({silent: planned.rounds}), 1e-5) == pytest.approx(found.epsilon, rel=1e-9)


def worker_events(federation):
    from tacit.agent.participant import planned

    return planned(federation, ALDER).values()


def test_a_coalition_that_cuts_the_graph_in_two_faces_local_noise(network):
    found = guaranteed(network("totals, ring").federation)
    assert found.curve[1].epsilon < found.curve[2].epsilon == found.curve[4].epsilon
