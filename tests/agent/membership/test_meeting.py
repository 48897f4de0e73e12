"""Nobody pays for a run before every member itself has signed that it has met its neighbours; and what a neighbour says
that it has heard ends nobody."""

import asyncio
import re
import threading
import time

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import Intermediary, assert_as_simulated
from agent_worker import NAMES, D
from frames import Serving
from speaking import Speaker

import tacit
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.loop import AgentLoop
from tacit.agent.membership import absence, meeting
from tacit.agent.membership.liveness import HEARTBEAT
from tacit.agent.membership.meeting import Meeting
from tacit.agent.signed_words import MOST
from tacit.agent.transport.sizes import largest_question
from tacit.agent.transport.wire import BadMessage, packed_row
from tacit.agent.transport.wire_pb2 import Absence, Contradiction, Greeting, Message, Met, Question, Said
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


def participant_of(net, i, identities):
    return worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise())


def signed(net, i, identities):
    """What a member signs when it has met all its neighbours."""
    signature = Identity.load(identities / NAMES[i]).sign(meeting._signed(net.federation, i))
    return Met(member=i, signature=signature)


def loop_of(participant):
    return AgentLoop(participant.started(), lambda doing, done, rounds: None)


class Liar(Intermediary):
    """Somebody with elm's key, in elm's place: all its greetings are the same, and all its rows are zero."""

    def __init__(self, federation, identities, **greeting):
        self._federation, self._identity = federation, Identity.load(identities / "elm")
        self._speaker = Speaker(federation, self._identity)
        self._said = self._speaker.greeting(**greeting).SerializeToString()

    async def _open(self):
        address = self._federation.members[ELM].address
        certificates = [member.certificate for member in self._federation.members]
        self._server = await Serving(address, self._identity, certificates, self._answer).open()

    async def _answer(self, method, caller, raw):
        if method == "Greet":
            return self._said
        return self._speaker.spoken(packed_row(self._federation.run, ELM, Question.FromString(raw).tick, np.zeros(D)))

    async def _close(self):
        await self._server.close()


def test_one_liar_makes_nobody_pay(network, identities):
    """elm says that all have met, and even that dogwood has signed it. dogwood never comes."""
    net = network("recycled")
    forged = Met(member=DOGWOOD, signature=Identity.load(identities / "elm").sign(b"dogwood is here"))
    with Liar(net.federation, identities, met=[signed(net, ELM, identities), forged]):
        net.start(ALDER, BIRCH, CEDAR)
        for i in (ALDER, BIRCH):
            net.says(i, "elm: dogwood has not signed that it has met all its neighbours")
        time.sleep(2 * HEARTBEAT)  # in which a wrong decision would be made
        for i in (ALDER, BIRCH, CEDAR):
            assert {entry.kind for entry in net.entries(i)} == {"cap", "start"}
            assert net.tick(i) == -1
        net.stop()


def lies(net, identities):
    """What elm shows of dogwood, and why it is refused."""
    elm, dogwood = (Identity.load(identities / name) for name in ("elm", "dogwood"))
    participant = participant_of(net, ELM, identities)
    other = participant_of(net, ELM, identities).without(["alder"])
    away = Absence(witness=DOGWOOD, absent=CEDAR)
    right, unsigned, nobody = (
        meeting._signed(participant.federation, DOGWOOD),
        "dogwood has not signed",
        "a member that does not exist",
    )
    return {
        "no signature": (Met(member=DOGWOOD), unsigned),
        "garbage": (Met(member=DOGWOOD, signature=b"x" * 70), unsigned),
        "forged": (Met(member=DOGWOOD, signature=elm.sign(right)), unsigned),
        "of itself": (Met(member=DOGWOOD, signature=elm.sign(meeting._signed(participant.federation, ELM))), unsigned),
        "of another run": (
            Met(member=DOGWOOD, signature=dogwood.sign(meeting._signed(other.federation, DOGWOOD - 1))),
            unsigned,
        ),
        "of another member": (
            Met(member=DOGWOOD, signature=dogwood.sign(meeting._signed(participant.federation, ELM))),
            unsigned,
        ),
        "of something else": (
            Met(member=DOGWOOD, signature=dogwood.sign(absence._signed(net.federation, away))),
            unsigned,
        ),
        "long": (Met(member=DOGWOOD, signature=dogwood.sign(right) + bytes(9)), nobody),
        "no member": (Met(member=2**32 - 1, signature=dogwood.sign(right)), nobody),
        "too many": ([Met(member=DOGWOOD, signature=dogwood.sign(right))] * 6, "6 statements"),
    }


def believed(net, identities):
    """The lies that alder does not refuse as it should."""

    elm = Speaker(net.federation, Identity.load(identities / "elm"))

    async def refused(statements, complaint):
        participant = participant_of(net, ALDER, identities)
        loop = loop_of(participant)
        statements = statements if isinstance(statements, list) else [statements]
        try:
            loop.conversation.greeted("elm", elm.greeting(met=statements))
        except BadMessage as error:
            return (
                complaint in str(error) and not loop.conversation.meeting.for_greeting() and not participant.store.met()
            )
        return False

    return [name for name, lie in lies(net, identities).items() if not asyncio.run(refused(*lie))]


def test_no_lie_about_a_meeting_is_believed(network, identities):
    assert believed(network("going on"), identities) == []


def test_a_signature_that_is_not_checked_is_caught(network, identities, monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(Federation, "signer", lambda self, name, text, signature: self.certificates(name)[-1])
    assert {"no signature", "forged", "of another run"} <= set(believed(network("going on"), identities))


def test_signatures_are_passed_on_and_kept(network, identities):
    """alder gets cedar's from birch; what is unknown in it goes no further, and all of it fits."""
    net = network("going on")
    every = [signed(net, i, identities) for i in range(5)]
    padded = Met.FromString(every[CEDAR].SerializeToString() + b"\x9a\x06\x64" + bytes(100))
    assert len(padded.SerializeToString()) > 170
    birch = Speaker(net.federation, Identity.load(identities / "birch"))

    async def met():
        alder, elm = loop_of(participant_of(net, ALDER, identities)), loop_of(participant_of(net, ELM, identities))
        for statements in ([padded], every[1:], every[1:]):
            alder.conversation.greeted("birch", birch.greeting(met=statements))
        assert not alder.conversation.meeting.complete
        alder.conversation.meeting.sign()
        alder.conversation.meeting.sign()
        assert alder.conversation.meeting.complete
        greeting = alder.conversation.greeting("elm")
        assert len(greeting.met) == 5
        assert max(len(each.SerializeToString()) for each in greeting.met) < 80
        assert len(greeting.SerializeToString()) <= largest_question(net.federation)
        elm.conversation.greeted("alder", greeting)
        assert elm.conversation.meeting.complete

    asyncio.run(met())
    for i in (ALDER, ELM):  # after a restart
        assert Meeting(participant_of(net, i, identities)).complete
    assert not Meeting(participant_of(net, BIRCH, identities)).complete


def test_nobody_leaves_before_all_have_met(network, identities):
    """A liar says at the start that it has heard all. An agent that starts again must not take that for a run that has
    begun; and one that really is done stays until this agent has the signatures that it needs."""
    net = network("going on, token")

    async def leaving():
        loop = loop_of(participant_of(net, ALDER, identities))
        assert not loop.conversation.may_leave("elm")
        assert not loop.participant.store.finished_neighbours()
        loop.conversation.meeting.take([signed(net, i, identities) for i in range(5)])
        assert loop.conversation.may_leave("elm")
        assert loop.participant.store.finished_neighbours() == {"elm"}

    asyncio.run(leaving())


@pytest.mark.parametrize("kind", ["token", "recycled"])
def test_a_neighbour_gets_what_it_hears_and_nothing_else(network, identities, kind):
    """A token is for one neighbour at a time: the others get no answer, neither now nor later."""
    net = network(kind)

    async def asked():
        loop, answers = loop_of(participant_of(net, ALDER, identities)), []
        for t in range(loop.rounds + 3):
            for j in loop.neighbours:
                turn = loop.schedule.turn(t)
                place = np.flatnonzero(turn.listeners == j)
                hears = t < loop.rounds and len(place) == 1 and ALDER in turn.speakers
                if hears:
                    heard = turn.indices[turn.indptr[place[0]] : turn.indptr[place[0] + 1]]
                    hears = ALDER in turn.speakers[heard]
                question = Question(run=bytes.fromhex(net.federation.run), sender=j, tick=t)
                if hears:
                    assert loop.conversation.find(question) is None  # not yet
                else:
                    with pytest.raises(BadMessage, match="there is no message for"):
                        loop.conversation.find(question)
                answers.append(hears)
        return answers

    answers = asyncio.run(asked())
    assert any(answers)
    assert not all(answers)


def test_a_neighbour_with_another_file_is_not_met(network, identities):
    """Whichever part of it differs, or is missing; its name is told."""
    net = network("recycled")

    async def greeted():
        loop = loop_of(participant_of(net, ALDER, identities))
        right = loop.conversation.greeting("elm")
        assert right.parts
        for part in right.parts:
            wrong, less = Greeting(), Greeting()
            wrong.CopyFrom(right)
            less.CopyFrom(right)
            wrong.parts[part] = bytes(16)
            del less.parts[part]
            for greeting in (wrong, less):
                with pytest.raises(BadMessage, match=f"differs from ours in: {re.escape(part)}"):
                    loop.conversation.greeted("elm", greeting)

    asyncio.run(greeted())


def test_more_statements_than_a_member_may_pass_on_are_not_looked_at(network, identities):
    """Each would take a signature to check."""
    net = network("recycled")
    said = Said(member=CEDAR, tick=0, digest=bytes(32), signature=b"no signature")

    async def told(**statements):
        loop = loop_of(participant_of(net, ALDER, identities))
        talk = loop.conversation
        talk.statements.take = talk.statements.take_contradictions = lambda each: pytest.fail("was looked at")
        with pytest.raises(BadMessage, match="passes on more statements than it may"):
            talk._take("birch", Message(**statements))

    asyncio.run(told(said=[said] * (MOST + 2)))
    asyncio.run(told(contradictions=[Contradiction(one=said, other=said)] * 6))


def test_a_neighbour_that_boasts_of_what_it_has_heard_ends_nobody(network, identities):
    """The run starts as soon as the true elm is there."""
    net = network("recycled")
    with Liar(net.federation, identities, heard=3):
        net.start(ALDER, BIRCH, CEDAR, DOGWOOD)
        for i in (ALDER, BIRCH, DOGWOOD):
            net.says(i, f"elm: it says that it has heard {NAMES[i]} at tick 2, but {NAMES[i]}.store does not have")
        assert all(life.exitcode is None for life in net.lives.values())
    started_before(net, ELM)
    net.start(ELM)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(ALDER)
    assert_as_simulated(net)


def started_before(net, i):
    """A process of this member has been there before: the one that a test spoke for."""
    with Ledger(net.folder / f"{NAMES[i]}.ledger", cost=filters.epsilon) as ledger:
        ledger.start(net.federation.run, bytes(16))


def put_back(net, copy):
    """All files of birch's store. (Of an old copy of the main file alone, the store itself says that it is old.)"""
    for path in net.folder.glob("birch.store*"):
        path.unlink()
    for path, content in copy.items():
        path.write_bytes(content)


def test_an_old_copy_of_a_store_says_nothing(network):
    """It knows tick 0, and the ledger knows that ticks 1 to 3 have left: it stops, and draws no noise for them. With
    the newest copy all go on."""
    net = network("recycled")
    net.start(ALDER, CEDAR, DOGWOOD, ELM)
    copies = []
    for fault in (("may leave", 0), ("may leave", 3)):  # at tick 0, and three ticks later
        net.start(BIRCH, fault=fault)
        assert net.ended(BIRCH) == -9
        copies.append({path: path.read_bytes() for path in net.folder.glob("birch.store*")})
    old, newest = copies
    put_back(net, old)
    net.start(BIRCH, life=1)
    assert net.ended(BIRCH) == 1
    assert "birch.store does not have ticks 1, 2, 3 of them" in net.log(BIRCH)
    assert net.tick(BIRCH) == 0
    assert set(net.versions().values()) == {1}
    put_back(net, newest)
    net.start(BIRCH)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)


@pytest.mark.parametrize(
    ("heard", "complaint"), [(1, "at tick 0, but alder.store"), (2**32 - 1, "ticks; the run has 12")]
)
def test_more_than_there_is_was_heard(network, identities, heard, complaint):
    net = network("broadcast")
    speaker = Speaker(net.federation, Identity.load(identities / "birch"))

    class Boasting:
        name = "birch"

        async def greet(self, mine, read):
            return read(speaker.greeting(heard=self.heard))

    async def greeted(heard):
        loop = loop_of(participant_of(net, ALDER, identities))
        loop.peers[BIRCH] = Boasting()
        Boasting.heard = heard
        return await loop._greet(BIRCH)

    asyncio.run(greeted(0))
    with pytest.raises(BadMessage, match=complaint):
        asyncio.run(greeted(heard))


@pytest.mark.parametrize(("kind", "aside"), [("going on", True), ("broadcast", False)])
def test_an_agent_that_might_be_missed_never_computes_where_it_answers(network, identities, monkeypatch, kind, aside):
    """Its last step was brief; nobody knows that of the next."""
    net, threads = network(kind), []

    def speak(self, *args):
        threads.append(threading.current_thread() is not threading.main_thread())
        return speak.real(self, *args)

    async def spoken():
        loop = loop_of(participant_of(net, ALDER, identities))
        speak.real = type(loop.algorithm).speak
        loop.participant.events  # noqa: B018 (a plan speaks, too)
        monkeypatch.setattr(type(loop.algorithm), "speak", speak)
        loop._compute_seconds = 0.0
        await loop._speak(0)

    asyncio.run(spoken())
    assert threads == [aside]
