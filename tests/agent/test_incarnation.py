"""Two processes of one member that live at the same time are proven, by the first honest neighbour that meets both."""

import agent_network
import agent_worker as worker
import pytest
from agent_worker import NAMES
from speaking import Speaker

import tacit
from tacit.agent import incarnation
from tacit.agent.identity import Identity
from tacit.agent.incarnation import Incarnations
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Incarnation, Standing, Twin
from tacit.errors import Over

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, ELM = 0, 1, 4


@pytest.fixture
def net(network):
    return network("broadcast")


@pytest.fixture
def start(net, identities):
    """Starts a process of a member, as often as it is called; from a store of its own, if it is a copy."""

    def started(name, copy=""):
        if copy and not (net.folder / copy).exists():
            (net.folder / copy).mkdir()
            for path in (net.folder / "fed.toml", net.folder / "data.npz", *net.folder.glob(f"{name}.store*")):
                (net.folder / copy / path.name).write_bytes(path.read_bytes())
        folder = net.folder / copy
        found = worker.participant(folder, net.kind, NAMES.index(name), identities, tacit.SecureNoise()).started()
        return Incarnations(found)

    return started


def says(speaker, listener):
    """What a process says to another, over the wire."""
    listener.take(name(speaker), Standing.FromString(speaker.standing(name(listener)).SerializeToString()))


def name(process):
    return process._participant.name


def test_a_restart_needs_nobody(start):
    alder = start("alder")
    for number in range(1, 4):
        birch = start("birch")
        assert birch.own.number == number
        for _ in range(2):
            says(birch, alder)
            says(alder, birch)


def test_a_copy_and_its_original_stop_and_nobody_else(start):
    alder, first = start("alder"), start("birch")
    says(first, alder)
    copy = start("birch", "copy")  # of the store before the second start
    second = start("birch")
    assert (copy.own.number, second.own.number) == (2, 2)
    says(second, alder)
    with pytest.raises(BadMessage, match=r"there are two copies of it: processes 2 \(\w{8}\) and 2 \(\w{8}\)"):
        says(copy, alder)
    for each in (copy, second):
        with pytest.raises(
            Over, match=r"alder knows process 2 \(\w+\) of birch, and this is process 2 \(\w+\)"
        ) as over:
            says(alder, each)
        assert over.value.exit_code == 78
        with pytest.raises(BadMessage, match="there are two copies of it"):
            says(each, alder)
    elm = start("elm")
    says(elm, alder)
    says(alder, elm)


def test_an_older_process_that_is_still_alive_ends_both(start):
    """birch's first process lives on, as in a failover in which the old host comes back."""
    alder, first, second = start("alder"), start("birch"), start("birch")
    says(first, alder)
    says(second, alder)
    says(alder, second)  # of the first, nobody knows whether it lives
    with pytest.raises(BadMessage, match="process 1 speaks, but process 2 has started since"):
        says(first, alder)
    says(alder, second)  # what was under way when it died may come late
    with pytest.raises(Over, match=r"alder knows process 2 .* and this is process 1"):
        says(alder, first)
    with pytest.raises(BadMessage, match="process 1 speaks"):
        says(first, alder)  # with its proof that it is alive
    with pytest.raises(Over, match=r"alder shows that process 1 .* of birch was alive after process 2 .* had started"):
        says(alder, second)
    with pytest.raises(BadMessage, match="process 1 was alive after process 2 had started"):
        says(second, alder)
    with pytest.raises(BadMessage):  # and so is every later one
        says(third := start("birch"), alder)
    with pytest.raises(Over, match="was alive after process 2"):
        says(alder, third)


def test_what_was_known_is_known_after_a_restart(start):
    alder, first, second = start("alder"), start("birch"), start("birch")
    says(second, alder)
    with pytest.raises(BadMessage, match="process 1 speaks, but process 2 has started since"):
        says(first, start("alder"))


def test_nobody_can_make_up_a_process_or_a_twin(net, start, identities):
    alder, elm = start("alder"), Speaker(net.federation, Identity.load(identities / "elm"))
    birch = Speaker(net.federation, Identity.load(identities / "birch"))
    later = Speaker(net.federation, Identity.load(identities / "birch"), number=2)
    forged = Incarnation(member=ALDER, number=9, nonce=bytes(16), signature=elm.own.signature)
    older = Twin(older=birch.own, newer=later.own, signature=elm._identity.sign(b"both live"))
    of_itself = Twin(older=birch.own, newer=later.own, signature=birch.own.signature)
    lies = {
        "not signed": (Standing(), "names no process of elm"),
        "of birch": (Standing(own=birch.own), "names no process of elm"),
        "another number": (
            Standing(own=Incarnation(member=ELM, number=7, nonce=elm.own.nonce, signature=elm.own.signature)),
            "names a process of elm that elm has not signed",
        ),
        "a newer alder": (Standing(own=elm.own, known=[forged]), "a process of alder that alder has not signed"),
        "many": (Standing(own=elm.own, known=[alder.own] * 3), "knows too many processes"),
        "number 0": (Standing(own=Incarnation(member=ELM, nonce=bytes(16), signature=b"x")), "names no process"),
    }
    for standing, complaint in lies.values():
        with pytest.raises(BadMessage, match=complaint):
            alder.take("elm", standing)
    for twin in (older, of_itself):
        with pytest.raises(BadMessage, match="two processes of birch that birch has not signed"):
            alder.take("birch", Standing(own=birch.own, twins=[twin]))
    same = Twin(older=birch.own, newer=birch.own)
    with pytest.raises(BadMessage, match="are not two processes"):
        alder.take("birch", Standing(own=birch.own, twins=[same]))
    alder.take("elm", elm.standing())  # nothing of it has done any harm
    alder.take("birch", birch.standing())


def test_an_old_statement_that_is_played_back_stops_nobody(start):
    """elm keeps all that birch has ever said, and shows it to birch's next process, and to alder."""
    alder, elm, first = start("alder"), start("elm"), start("birch")
    says(first, elm)
    kept = first.standing("elm")
    second = start("birch")
    says(second, alder)
    second.take("elm", Standing(own=elm.own, known=[kept.own]))
    says(second, alder)
    says(alder, second)


def test_a_process_of_another_run_is_none(net, network, identities):
    other = network("broadcast", "other")
    birch = Speaker(other.federation, Identity.load(identities / "birch"))
    alder = Incarnations(worker.participant(net.folder, net.kind, ALDER, identities, tacit.SecureNoise()).started())
    with pytest.raises(BadMessage, match="birch has not signed"):
        alder.take("birch", birch.standing())


def test_a_neighbour_that_starts_again_and_again_fills_no_disk(net, start, identities, monkeypatch):
    monkeypatch.setattr(incarnation, "_STARTS", 3)
    monkeypatch.setattr(incarnation, "_PER_SECOND", 0.0)
    alder, birch = start("alder"), Identity.load(identities / "birch")
    for number in range(1, 4):
        alder.take("birch", Speaker(net.federation, birch, number).standing())
    fourth = Speaker(net.federation, birch, 4).standing()
    for _ in range(9):  # it asks again
        with pytest.raises(BadMessage, match="it starts too often: 4 times"):
            alder.take("birch", fourth)
    monkeypatch.setattr(incarnation, "_STARTS", 4)  # as after some time
    alder.take("birch", fourth)


def test_the_largest_standing_is_within_its_size(net, identities):
    identity, last = Identity.load(identities / "birch"), 2**31 - 1
    birch, later = (Speaker(net.federation, identity, number) for number in (last - 1, last))
    twin = Twin(older=birch.own, newer=later.own, signature=bytes(72))
    full = Standing(own=later.own, known=[birch.own, later.own], twins=[twin, twin])
    assert len(full.SerializeToString()) <= incarnation.STANDING_SIZE
