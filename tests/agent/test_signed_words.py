"""What members have signed while a run goes on: a contradiction is proven, and nobody can make one up."""

import resource
from hashlib import sha256

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_worker import NAMES, D
from speaking import Speaker

import tacit
from tacit.agent import signed_words
from tacit.agent.heard import MessageChain
from tacit.agent.identity import Identity
from tacit.agent.signed_words import MOST, SAID_SIZE, Statements
from tacit.agent.transport.wire import BadMessage, bare, packed_row
from tacit.agent.transport.wire_pb2 import Contradiction, Message, Said
from tacit.errors import Over

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, ELM = 0, 1, 2, 4


@pytest.fixture
def net(network):
    return network("broadcast")


@pytest.fixture
def member(net, identities):
    def made(name):
        found = worker.participant(net.folder, net.kind, NAMES.index(name), identities, tacit.SecureNoise())
        return Statements(found)

    return made


@pytest.fixture
def speaker(net, identities):
    return lambda name: Speaker(net.federation, Identity.load(identities / name))


def row(net, sender, tick, value=0.0):
    return packed_row(net.federation.run, sender, tick, np.full(D, value))


def heard(listener, sender, raw, chain):
    """A listener takes a message in."""
    message = Message.FromString(raw)
    longer = chain.then(message.tick, sha256(bare(message)).digest())
    listener.hear(sender, message, longer)
    return longer


def speak(member, net, *values, first=0):
    """A member commits rows."""
    participant = member._participant
    for tick, value in enumerate(values, first):
        raw = row(net, participant.me, tick, value)
        participant.store.commit(tick, {}, raw, participant.events.get(tick, tacit.privacy.events.Unprotected()))
        member.speak(tick)


def accused(contradictions):
    return {name: each.one.tick for name, each in contradictions.items()}


def test_what_is_added_to_a_message_is_no_part_of_it(net, speaker):
    raw = row(net, BIRCH, 3, 0.5)
    assert bare(Message.FromString(speaker("birch").spoken(raw))) == raw


def test_words_that_are_not_signed_are_not_taken(net, member, speaker):
    alder, birch = member("alder"), speaker("birch")
    raw, other = row(net, BIRCH, 0, 1.0), row(net, BIRCH, 0, 2.0)
    spoken = birch.spoken(raw)
    added = spoken[len(raw) :]
    for wrong, complaint in {
        raw: "has not signed what it says at tick 0",
        other + added: "what it says at tick 0 is not what it has signed",
        row(net, BIRCH, 1) + added: "has not signed what it says at tick 1",
    }.items():
        with pytest.raises(BadMessage, match=complaint):
            heard(alder, BIRCH, wrong, MessageChain())
    forged = Message.FromString(spoken)
    forged.own.signature = bytes(70)
    with pytest.raises(BadMessage, match="birch has not signed what is shown as its words"):
        heard(alder, BIRCH, forged.SerializeToString(), MessageChain())
    heard(alder, BIRCH, spoken, MessageChain())


def test_two_neighbours_of_a_member_with_two_faces_prove_it(net, member, speaker):
    alder, cedar = member("alder"), member("cedar")
    faces = {alder: speaker("birch"), cedar: speaker("birch")}
    chains = dict.fromkeys(faces, MessageChain())
    for tick in range(4):
        for listener, birch in faces.items():
            speak(listener, net, 0.0, first=tick)
            said_to = row(net, BIRCH, tick, 1.0 if tick == 1 and listener is cedar else 0.0)
            chains[listener] = heard(listener, BIRCH, birch.spoken(said_to), chains[listener])
        for one, other in ((alder, CEDAR), (cedar, ALDER)):
            faces_of = next(each for each in faces if each is not one)
            faces_of.take(one.others(other))
        assert set(alder.contradictions) == set(cedar.contradictions) == (set() if tick < 1 else {"birch"})
        if tick == 1:
            break
    assert accused(alder.contradictions) == {"birch": 1}
    elm = member("elm")
    elm.take_contradictions(alder.contradictions.values())  # passed on, and checked again
    assert accused(elm.contradictions) == {"birch": 1}
    with pytest.raises(BadMessage, match="it has signed two versions of a tick"):
        heard(alder, BIRCH, faces[alder].spoken(row(net, BIRCH, 2)), chains[alder])


def test_a_chain_that_differs_once_differs_for_good(net, member, speaker):
    """Two ticks later, statements about the newest tick are enough."""
    alder, cedar = member("alder"), member("cedar")
    chains = {alder: MessageChain(), cedar: MessageChain()}
    speak(alder, net, 0.0, 0.0, 0.0)
    birches = {alder: speaker("birch"), cedar: speaker("birch")}
    for tick in range(3):
        for listener, birch in birches.items():
            value = 1.0 if tick == 0 and listener is cedar else 0.0
            chains[listener] = heard(listener, BIRCH, birch.spoken(row(net, BIRCH, tick, value)), chains[listener])
    (newest,) = alder.others(CEDAR)
    assert newest.tick == 2
    cedar.take([newest])
    assert accused(cedar.contradictions) == {"birch": 2}


def test_nobody_can_make_up_a_contradiction(net, member, speaker):
    alder, birch, elm = member("alder"), speaker("birch"), speaker("elm")
    birch.spoken(row(net, BIRCH, 0))
    elm.spoken(row(net, ELM, 0))
    true = birch.said(0)
    forged = Said(member=BIRCH, tick=0, digest=bytes(32), signature=elm.said(0).signature)
    renamed = Said(member=BIRCH, tick=0, digest=elm.said(0).digest, signature=elm.said(0).signature)
    later = Said(member=BIRCH, tick=1, digest=bytes(32), signature=true.signature)
    for one, other, complaint in [
        (true, forged, "birch has not signed"),
        (true, renamed, "birch has not signed"),
        (true, true, "no contradiction"),
        (true, birch.said(0), "no contradiction"),  # signed once more
        (true, later, "no contradiction"),
        (true, elm.said(0), "no contradiction"),
        (Said(member=9, digest=bytes(32)), true, "does not exist"),
        (true, Said(member=BIRCH, tick=0, digest=b"x", signature=true.signature), "of another size"),
    ]:
        with pytest.raises(BadMessage, match=complaint):
            alder.take_contradictions([Contradiction(one=one, other=other)])
    alder.take([true])
    for lie in (forged, renamed, Said(member=9, digest=bytes(32)), Said(member=BIRCH, digest=bytes(31))):
        with pytest.raises(BadMessage):
            alder.take([lie])
    assert alder.contradictions == {}


def test_a_member_that_is_shown_what_it_has_signed_and_does_not_know_stops(net, member, identities):
    """Its store and its ledger were both put back."""
    alder = member("alder")
    speak(alder, net, 0.0, 1.0, 2.0)
    alder.take([alder.own(tick) for tick in range(3)])  # its own words
    alder._participant.store.close()
    for path in net.folder.glob("alder.store*"):
        path.unlink()
    again = member("alder")
    speak(again, net, 0.0)
    again.take([alder.own(0)])  # the same bytes were committed again
    with pytest.raises(Over, match="alder has signed something for tick 1 that this process does not know") as over:
        again.take([alder.own(1)])
    assert over.value.exit_code == 78
    speak(again, net, 5.0, first=1)
    with pytest.raises(Over, match="alder has signed two versions of tick 1"):
        again.take_contradictions([Contradiction(one=alder.own(1), other=again.own(1))])


@pytest.mark.parametrize("kind", ["secret-shared", "token"])
def test_what_others_cannot_compute_is_salted(network, identities, kind):
    """The chain is still the member's own: nobody can check a guess about what is sealed."""
    net = network(kind)
    participant = worker.participant(net.folder, kind, ALDER, identities, tacit.SecureNoise())
    alder = Statements(participant)
    raw = row(net, ALDER, 0)
    participant.store.commit(0, {}, raw, participant.events[0])
    alder.speak(0)
    digest = sha256(raw).digest()
    assert alder.own(0).digest != MessageChain().then(0, digest).digest
    salted = sha256(participant.store.secret + digest).digest()
    assert alder.own(0).digest == MessageChain().then(0, salted).digest
    assert Statements(participant).own(0).digest == alder.own(0).digest  # after a restart


def test_a_liar_cannot_drive_out_what_can_be_compared(net, member, speaker):
    alder, birch = member("alder"), speaker("birch")
    speak(alder, net, 0.0)
    birch.spoken(row(net, BIRCH, 0))
    alder.take([birch.said(0)])
    assert net.federation.rounds > 6
    alder.take([birch.said(tick) for tick in range(1, net.federation.rounds)] + [birch.said(2**32 - 1)])
    assert set(alder._known[BIRCH]) == set(range(6))  # of five members, nobody can be farther ahead
    alder._window = 4
    alder._known.clear()
    for _ in range(2):
        alder.take([birch.said(tick) for tick in range(6)])
        assert set(alder._known[BIRCH]) == {2, 3, 4, 5}


def test_statements_go_round(net, member, speaker, monkeypatch):
    """The listener's own always, and the others in turn."""
    monkeypatch.setattr(signed_words, "MOST", 2)
    alder, others = member("alder"), [speaker(name) for name in NAMES[1:]]
    speak(alder, net, 0.0)
    for each in others:
        each.spoken(row(net, each.place, 0))
        alder.take([each.said(0)])
    sent = [[each.member for each in alder.others(BIRCH)] for _ in range(3)]
    assert sent == [[1, 2, 3], [1, 4, 2], [1, 3, 4]]
    assert [each.member for each in alder.others(-1)] == [1, 2]  # somebody who has left the run


def test_nobody_else_chooses_what_a_listener_gets(net, member, speaker, monkeypatch):
    """elm asks once after each question of birch's. With one turn for all, birch would never hear of dogwood."""
    monkeypatch.setattr(signed_words, "MOST", 1)
    alder, others = member("alder"), [speaker(name) for name in ("cedar", "dogwood")]
    speak(alder, net, 0.0)
    for each in others:
        each.spoken(row(net, each.place, 0))
        alder.take([each.said(0)])
    got = set()
    for _ in range(4):
        got |= {each.member for each in alder.others(BIRCH)}
        alder.others(ELM)
    assert got == {each.place for each in others}


def test_words_of_a_later_tick_do_not_hide_two_faces(net, member, speaker):
    """birch has signed the same about a tick far ahead for everybody, and then says two things."""
    alder, cedar = member("alder"), member("cedar")
    ahead = speaker("birch")
    ahead.spoken(row(net, BIRCH, 4))
    for listener, value in ((alder, 0.0), (cedar, 1.0)):
        listener.take([ahead.said(4)])
        speak(listener, net, 0.0)
        heard(listener, BIRCH, speaker("birch").spoken(row(net, BIRCH, 0, value)), MessageChain())
    assert [(each.member, each.tick) for each in alder.others(BIRCH)] == [(BIRCH, 4)]  # its own: all that is known
    cedar.take(alder.others(CEDAR))
    assert accused(cedar.contradictions) == {"birch": 0}


def test_the_sizes_of_what_is_added(net, speaker):
    birch = speaker("birch")
    birch.spoken(row(net, BIRCH, 0))
    assert MOST >= 4
    assert len(Message(own=birch.said(2**31)).SerializeToString()) <= SAID_SIZE


def test_statements_do_not_keep_the_messages_that_they_came_with(net, member, speaker):
    """Of a part of a message, protobuf keeps the whole message. A row of 100,000 numbers takes 800 kB."""
    alder, birch = member("alder"), speaker("birch")
    rounds, found = net.federation.rounds, []
    speak(alder, net, *([0.0] * rounds))
    for tick in range(rounds):
        message = Message(own=birch.said(tick), payload=bytes(20_000_000))
        message = Message.FromString(message.SerializeToString())
        alder.take([message.own])
        found.append(resident())
    assert len(alder._known[BIRCH]) == rounds > 8
    assert found[-1] - found[4] < 40e6  # kept, they would take 80 MB more at least


def resident():
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
