"""A member that stays away: the others go on without it, all in the same run, or stop and say why they cannot.

And members that only say so: nobody goes, nobody pays.
"""

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import PARTS
from agent_worker import NAMES, SEED
from test_agent_attacks import call

import tacit
from tacit.agent import absence, meeting, report, run
from tacit.agent.federation import SUMS, Federation
from tacit.agent.identity import Identity
from tacit.agent.report import verified
from tacit.agent.run import _left_over, _Part, take_part
from tacit.agent.store import status
from tacit.agent.transport import Server, largest_question
from tacit.agent.wire import BadMessage
from tacit.agent.wire_pb2 import Absence, Greeting, Met
from tacit.core.graph import Graph
from tacit.errors import InputError, NotConnected, TacitError
from tacit.privacy import filters
from tacit.privacy.ledger import Cap
from tacit.privacy.plan import plan
from tacit.workflows.recipes import RECIPES

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


def assert_as_simulated_without(net, *absent):
    """Who is left has the models of a simulation in which the absent never were, and has told the ledger so."""
    federation = net.federation.without([NAMES[i] for i in absent])
    setting, left = federation.setting, [i for i in range(5) if i not in absent]
    problem = tacit.Problem(
        [PARTS[i] for i in left], loss=setting.facts.loss, scale=setting.facts.scale, l2=setting.facts.l2,
        radius=setting.facts.radius,
    )  # fmt: skip
    simulated = tacit.simulate(
        setting.algorithm, problem, federation.graph, rounds=setting.rounds, noise=tacit.SeededNoise(SEED)
    )
    models = [json.loads((net.folder / f"{NAMES[i]}.json").read_text()) for i in left]
    np.testing.assert_allclose(models, simulated.estimate, rtol=0, atol=1e-9)
    assert set(net.versions().values()) == {1}
    for i in left:
        assert status(net.path(i, federation)).tick == setting.rounds
        if net.kind in worker.PRIVATE:
            runs = {entry.run for entry in net.entries(i) if entry.kind == "reserve"}
            assert runs == {federation.run}  # the run that nobody spoke in costs nothing
    return federation


def test_a_member_dies_and_the_others_go_on(network):
    net = network("going on")
    net.start(*range(5), slow=0.1)
    net.reaches(DOGWOOD, 3)
    net.lives[DOGWOOD].kill()
    without = net.federation.without(["dogwood"])
    net.reaches(BIRCH, 3, run=without)
    net.lives[BIRCH].kill()  # and finds its way back to the others
    assert net.ended(BIRCH) == -9
    with net.held():
        net.start(BIRCH, DOGWOOD, slow=0.1)
        assert net.ended(DOGWOOD) == 1
    assert "the others go on without dogwood" in net.log(DOGWOOD)
    assert [net.ended(i) for i in (ALDER, BIRCH, CEDAR, ELM)] == [0] * 4, net.log(BIRCH)
    assert "dogwood has given no sign of life" in net.log(CEDAR)
    assert_as_simulated_without(net, DOGWOOD)
    for name in ("alder", "birch", "cedar", "elm"):
        report = verified(net.folder / f"{name}.report.json", net.federation)
        assert report["without"] == ["dogwood"]
        (before,) = report["before"]
        assert before["run"] == net.federation.run
        assert 3 <= len(before["releases"]) < net.federation.rounds


@pytest.mark.parametrize("kind", ["going on, token", "going on, private", "going on, secret-shared"])
def test_a_member_never_comes(network, kind):
    """A token's cycle is repaired; what is paid for is one run."""
    net = network(kind)
    net.start(BIRCH, CEDAR, DOGWOOD, ELM)
    assert [net.ended(i) for i in (BIRCH, CEDAR, DOGWOOD, ELM)] == [0] * 4, net.log(BIRCH)
    federation = assert_as_simulated_without(net, ALDER)
    assert federation.absent == ["alder"]


def test_what_cannot_go_on_says_why(network, identities):
    federation = network("going on").federation
    star = [("alder", name) for name in NAMES[1:]]
    with pytest.raises(NotConnected):
        replace(federation, edges=tuple(star)).without(["alder"])
    with pytest.raises(InputError, match="fewer than two members are left"):
        federation.without(NAMES[1:])
    with pytest.raises(InputError, match="would give its row away"):
        replace(federation, exchange=SUMS, go_on_after=0.0).without(["dogwood"])
    with pytest.raises(InputError, match="go_on_after is 0, or 10 seconds or more"):
        replace(federation, go_on_after=9.0)

    token = network("going on, token", "token")
    participant = worker.participant(token.folder, token.kind, CEDAR, identities, tacit.SecureNoise())
    with pytest.raises(TacitError, match=r"it is away; the run cannot go on without dogwood: .*Hamiltonian cycle"):
        _left_over(participant, ["dogwood"], "it is away")
    with pytest.raises(TacitError, match="the others go on without cedar"):
        _left_over(participant, ["cedar"], "birch says so")


def test_a_run_that_was_paid_for_is_paid_for_again(network, identities):
    net = network("going on, private")
    participant = worker.participant(net.folder, net.kind, CEDAR, identities, tacit.SecureNoise())
    participant.ledger.reserve_run(participant.federation.run, participant.events)
    participant.ledger.store(participant.federation.run, 0, b"the first bytes")
    left = _left_over(participant, ["dogwood"], "it is away")
    spent = participant.ledger.epsilon()
    left.ledger.reserve_run(left.federation.run, left.events)
    assert spent == pytest.approx(2.0, rel=1e-3)
    assert participant.ledger.epsilon() == pytest.approx(4.613, abs=1e-3)  # under a cap of 10

    poor = worker.participant(net.folder, net.kind, ELM, identities, tacit.SecureNoise())
    poor.ledger.set_cap(Cap(2.01, 1e-5))
    poor.ledger.reserve_run(poor.federation.run, poor.events)
    poor.ledger.store(poor.federation.run, 0, b"the first bytes")
    with pytest.raises(TacitError, match=r"cannot go on without dogwood: the run is refused: epsilon = 1\.98"):
        _left_over(poor, ["dogwood"], "it is away")


def test_a_restart_finds_the_run_that_it_can_pay_for(network, identities):
    """Of three runs, the first two were left before anybody had paid; the ledger has room for one."""
    net = network("going on, private")
    first = worker.participant(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())
    first.ledger.set_cap(Cap(2.01, 1e-5))
    second = first.without(["alder"])
    first.store.go_on(["alder"])
    third = second.without(["cedar"])
    second.store.go_on(["cedar"])
    third.ledger.reserve_run(third.federation.run, third.events)

    again = worker.participant(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())
    for left in (again, again.without(["alder"])):
        with pytest.raises(TacitError, match="the run is refused"):
            left.check()
    assert again.present().federation.absent == ["alder", "cedar"]
    again.present().check()


class Quiet:
    """A neighbour that does not answer."""

    def __init__(self, name):
        self.name = name

    async def greet(self, mine, read):
        await asyncio.sleep(60)


@pytest.mark.parametrize(("heard", "absent"), [(29, True), (30, False)])
def test_who_has_heard_all_and_dies_is_absent_if_it_is_needed(network, identities, monkeypatch, heard, absent):
    """birch says that it needs no more, and dies before alder has its last words, or after."""
    monkeypatch.setattr(run, "_HEARTBEAT", 0.01)
    participant = worker.participant(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())
    all_met(participant, identities)

    async def noticed():
        part = _Part(participant, lambda doing, done, rounds: None)
        part.peers[BIRCH], part._heard["birch"] = Quiet("birch"), heard
        part.left("birch")
        part._began = time.monotonic() - 11
        told = []
        monkeypatch.setattr(part, "_weigh", lambda: told.append(part.greeting("elm").absences))
        touch = asyncio.create_task(part.keep_in_touch(BIRCH))
        while len(told) < 3:  # three looks at its neighbour
            assert not touch.done()
            await asyncio.sleep(0.01)
        touch.cancel()
        return [each.absent for each in told[-1]] == [BIRCH]

    assert asyncio.run(noticed()) == absent


def test_who_cannot_watch_its_neighbours_any_longer_stops(network, identities, monkeypatch):
    participant = worker.participant(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())

    async def broken(self, j):
        raise TacitError("the disk is full")

    monkeypatch.setattr(_Part, "keep_in_touch", broken)
    with pytest.raises(TacitError, match="the disk is full"):
        asyncio.run(asyncio.wait_for(take_part(participant), 20))


class Late:
    """A neighbour that is back only after a while, and then says goodbye, too."""

    def __init__(self, name, part):
        self.name, self._part = name, part

    async def leave(self):
        await asyncio.sleep(0.3)
        asyncio.get_running_loop().call_later(0.1, self._part.left, self.name)


@pytest.mark.parametrize(("linger", "told", "lines"), [(10.0, {"birch", "elm"}, 0), (0.1, set(), 1)])
def test_who_comes_back_late_is_told_that_nobody_waits_for_it(
    network, identities, monkeypatch, caplog, linger, told, lines
):
    monkeypatch.setattr(run, "_FAREWELL", 0.1)
    participant = worker.participant(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())
    all_met(participant, identities)

    async def ended():
        part = _Part(participant, lambda doing, done, rounds: None)
        part.peers.update({j: Late(NAMES[j], part) for j in part.neighbours})
        await part.part_company(linger)

    asyncio.run(ended())
    assert participant.store.marked("told") == told
    assert ["staying for birch, elm for 0.1 s in vain" in each.getMessage() for each in caplog.records] == [
        True
    ] * lines


def all_met(participant, identities):
    """The signatures of all members that they have met their neighbours."""
    for i, name in enumerate(participant.federation.names):
        signature = Identity.load(identities / name).sign(meeting._signed(participant.federation, i))
        participant.store.keep_met(i, Met(member=i, signature=signature).SerializeToString())


def test_who_starts_again_after_others_have_left_waits_for_nobody_to_meet(network, identities):
    """A token that has not reached it yet, or never will: it has not spoken, and a neighbour is done."""
    participant = worker.participant(*_of(network("going on, token")), ALDER, identities, tacit.SecureNoise())

    async def met():
        return _Part(participant, lambda doing, done, rounds: None)._meeting.complete

    assert not asyncio.run(met())
    all_met(participant, identities)
    participant.store.left("birch")
    assert asyncio.run(met())


def test_two_members_that_stay_away_one_after_the_other(network):
    """In the run without dogwood, cedar has one neighbour left, and alder both of its own."""
    net = network("going on")
    net.start(*range(5), slow=0.1)
    net.reaches(DOGWOOD, 3)
    net.lives[DOGWOOD].kill()
    without = net.federation.without(["dogwood"])
    net.reaches(ALDER, 3, run=without)
    net.lives[ALDER].kill()
    net.reaches(CEDAR, 3, run=without.without(["alder"]))
    with net.held():
        net.start(ALDER, DOGWOOD)  # each gets the proof of the run that it is in
        assert [net.ended(i) for i in (ALDER, DOGWOOD)] == [1, 1]
    for i in (ALDER, DOGWOOD):
        assert f"the others go on without {NAMES[i]}" in net.log(i)
    assert [net.ended(i) for i in (BIRCH, CEDAR, ELM)] == [0] * 3, net.log(BIRCH)
    assert_as_simulated_without(net, ALDER, DOGWOOD)
    for name in ("birch", "cedar", "elm"):
        found = verified(net.folder / f"{name}.report.json", net.federation)
        assert [part["without"] for part in (found, *found["before"])] == [["alder", "dogwood"], ["dogwood"], []]


def test_a_line_that_is_cut_between_two_members_alone(network):
    """Each signs that the other is away, nobody else does: they wait, and go on when the line is mended."""
    net = network("going on")
    net.start(ALDER, BIRCH, ELM, slow=0.05)
    net.start(CEDAR, slow=0.05, fault=("cut off from", DOGWOOD))
    net.start(DOGWOOD, slow=0.05, fault=("cut off from", CEDAR))
    net.reaches(CEDAR, 3)
    (net.folder / "cut").touch()
    net.says(CEDAR, "dogwood has given no sign of life")
    net.says(DOGWOOD, "cedar has given no sign of life")
    time.sleep(2 * run._HEARTBEAT)  # in which a wrong decision would be made
    assert "the others go on without it if 2 of its neighbours say so; so far: cedar\n" in net.log(CEDAR)
    (net.folder / "cut").unlink()
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(CEDAR)
    assert_nobody_went(net)


def assert_nobody_went(net):
    """All five have the models of the run that was agreed upon, and have paid for no other."""
    assert_as_simulated_without(net)
    for i in range(5):
        assert "goes on without" not in net.log(i).replace("it goes on without", "")
        assert not left_over(net, i)


def left_over(net, i):
    return [path for path in net.folder.glob(f"{NAMES[i]}.*.store") if path.name != f"{NAMES[i]}.store"]


# Lies


class Witnesses:
    """Makes statements with everybody's keys, true or not."""

    def __init__(self, federation, identities):
        self.federation = federation
        self._identities = [Identity.load(identities / name) for name in NAMES]

    def __call__(self, witness, absent, tick=0, without=(), signer=None, federation=None):
        made = Absence(witness=witness, absent=absent, tick=tick, without=without)
        signer = self._identities[witness if signer is None else signer]
        made.signature = signer.sign(absence._signed(federation or self.federation, made))
        return made

    def greeting(self, sender, *statements, without=()):
        names = [NAMES[i] for i in without]
        return Greeting(name=NAMES[sender], parts=self.federation.parts, without=names, absences=statements)


def part_of(participant, tick=0, begun=True):
    """An agent's part at a tick, without a network."""
    part = _Part(participant, lambda doing, done, rounds: None)
    part._absences.tick, part._absences.begun = tick, begun
    return part


def participant_of(net, i, identities):
    return worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise())


def lies(by, other):
    """What elm says to alder at tick 10, and what alder makes of it. dogwood's neighbours are cedar and elm."""
    mine = by(ELM, DOGWOOD, 10)
    not_signed, unknown = "cedar has not signed that dogwood is away", "about members that there are not"
    return {
        "says so": ((), [CEDAR], "goes on without cedar, but too few"),
        "says so of me": ((by(ELM, ALDER, 10),), [ALDER], "goes on without alder, but too few"),
        "alone": ((mine,), [DOGWOOD], "goes on without dogwood, but too few"),
        "alone, quietly": ((mine,), [], ""),
        "twice": ((mine, by(ELM, DOGWOOD, 11), by(ELM, DOGWOOD, 12)), [DOGWOOD], "but too few"),
        "forged": ((mine, by(CEDAR, DOGWOOD, 10, signer=ELM)), [DOGWOOD], not_signed),
        "not signed": ((mine, Absence(witness=CEDAR, absent=DOGWOOD, tick=10)), [DOGWOOD], not_signed),
        "garbage": ((mine, Absence(witness=CEDAR, absent=DOGWOOD, tick=10, signature=b"x" * 70)), [], not_signed),
        "long": ((Absence(witness=CEDAR, absent=DOGWOOD, tick=10, signature=b"x" * 99),), [], "of 99 bytes"),
        "other federation": ((mine, by(CEDAR, DOGWOOD, 10, federation=other)), [DOGWOOD], not_signed),
        "other tick": ((mine, moved(by(CEDAR, DOGWOOD, 0), tick=10)), [DOGWOOD], not_signed),
        "other run": ((mine, moved(by(CEDAR, DOGWOOD, 10, [BIRCH]), without=[])), [DOGWOOD], not_signed),
        "a run that is not": ((mine, by(CEDAR, DOGWOOD, 10, [BIRCH])), [DOGWOOD], "but too few"),
        "old": ((mine, by(CEDAR, DOGWOOD, 4)), [DOGWOOD], "but too few"),
        "from the future": ((mine, by(CEDAR, DOGWOOD, 2**32 - 1)), [DOGWOOD], "but too few"),
        "no neighbour": ((mine, by(ALDER, DOGWOOD, 10)), [DOGWOOD], "alder is no neighbour of dogwood"),
        "of itself": ((by(ELM, ELM, 10),), [], "elm is no neighbour of elm"),
        "no member": ((moved(mine, witness=2**32 - 1),), [], unknown),
        "no member either": ((moved(mine, absent=5),), [], unknown),
        "no run": ((by(ELM, DOGWOOD, 10, [2, 2]),), [], unknown),
        "too many": ((mine,) * 13, [], "13 statements that members are away, more than there can be"),
    }  # fmt: skip


def moved(statement, **fields):
    without = fields.pop("without", list(statement.without))
    made = Absence(witness=statement.witness, absent=statement.absent, tick=statement.tick)
    made.MergeFrom(Absence(without=without, signature=statement.signature, **fields))
    return made


def believed(net, identities):
    """The lies that alder does not refuse as it should: it leaves, or remembers more than one statement of the liar."""
    by = Witnesses(net.federation, identities)
    participant = participant_of(net, ALDER, identities)

    async def refused(statements, without, complaint):
        part = part_of(participant, tick=10)
        said = ""
        try:
            part.greeted("elm", by.greeting(ELM, *statements, without=without))
        except BadMessage as error:
            said = str(error)
        right = complaint in said if complaint else not said
        return right and not part.absence.done() and len(part.greeting("birch").absences) <= 1

    found = lies(by, replace(net.federation, title="another"))
    return [name for name, lie in found.items() if not asyncio.run(refused(*lie))]


def test_no_lie_of_one_member_is_believed(network, identities):
    assert believed(network("going on"), identities) == []


@pytest.mark.parametrize(
    ("owner", "check", "missing", "caught"),
    [
        (Federation, "needed", lambda self, neighbours: 1, {"alone", "alone, quietly", "says so of me"}),
        (absence.Absences, "_counts", lambda self, statement: True, {"old", "from the future", "a run that is not"}),
        (absence, "check_signature", lambda agreed, statement: None, {"forged", "other federation", "other run"}),
    ],
)
def test_a_check_that_is_missing_is_caught(network, identities, monkeypatch, owner, check, missing, caught):
    """The test above can fail."""
    monkeypatch.setattr(owner, check, missing)
    assert caught <= set(believed(network("going on"), identities))


def test_a_quorum_is_believed(network, identities):
    """cedar's neighbours are birch and dogwood: alder leaves, cedar stops, birch waits until it misses cedar itself."""
    net = network("going on")
    by = Witnesses(net.federation, identities)
    proof = by(BIRCH, CEDAR, 9), by(DOGWOOD, CEDAR, 11)

    async def away(i, sender, quiet=0.0):
        part = part_of(participant_of(net, i, identities), tick=10)
        part._contacts = dict.fromkeys(part._heard, time.monotonic() - quiet)
        part.greeted(NAMES[sender], by.greeting(sender, *proof, without=[CEDAR]))
        return part.absence.result() if part.absence.done() else None

    for i, sender, quiet in ((ALDER, ELM, 0.0), (CEDAR, BIRCH, 0.0), (DOGWOOD, ELM, 11.0)):
        found = asyncio.run(away(i, sender, quiet))
        assert found.names == {"cedar"}
        assert (found.tick, str(found)) == (10, "cedar is away, signed by birch, dogwood")
    assert asyncio.run(away(BIRCH, ELM)) is None
    assert asyncio.run(away(DOGWOOD, ELM, 9.0)) is None


@pytest.mark.parametrize(("quorum", "needed"), [(0, [1, 2, 2, 3, 3]), (1, [1] * 5), (3, [1, 2, 3, 3, 3])])
def test_how_many_must_sign(network, quorum, needed):
    federation = replace(network("going on").federation, quorum=quorum)
    assert [federation.needed(neighbours) for neighbours in (1, 2, 3, 4, 5)] == needed
    assert federation.without(["dogwood"]).needed(4) == federation.needed(4)


@pytest.mark.parametrize(("quorum", "colluding", "proven"), [(0, 2, False), (0, 3, True), (4, 3, False), (2, 2, True)])
def test_colluding_witnesses(network, identities, quorum, colluding, proven):
    """Of cedar's four neighbours in a complete graph."""
    federation = replace(network("going on, complete").federation, quorum=quorum)
    by = Witnesses(federation, identities)
    statements = [by(i, CEDAR) for i in (ELM, DOGWOOD, BIRCH)[:colluding]]
    assert absence.proven(federation, CEDAR, (), statements) == proven


def test_members_leave_in_any_order_and_come_to_the_same_run(network, identities):
    """alder is away, and so is dogwood: cedar has gone on without the one, birch without the other."""
    net = network("going on")
    by = Witnesses(net.federation, identities)
    no_alder, no_dogwood = [by(i, ALDER, 3) for i in (BIRCH, ELM)], [by(i, DOGWOOD, 4) for i in (CEDAR, ELM)]

    def gone(i, name, tick, statements):
        participant = participant_of(net, i, identities)
        participant.store.go_on([name], tick, [each.SerializeToString() for each in statements])
        return participant_of(net, i, identities).present()  # after a restart

    async def meet(participant, other, begun):
        part, there = part_of(participant, begun=begun), part_of(other, begun=begun)
        part._began -= 11
        with suppress(BadMessage):
            part.greeted(other.name, there.greeting(participant.name))
        return part.absence.result().names if part.absence.done() else None

    cedar, birch = gone(CEDAR, "dogwood", 4, no_dogwood), gone(BIRCH, "alder", 3, no_alder)
    assert asyncio.run(meet(cedar, birch, begun=False)) == {"alder"}
    assert asyncio.run(meet(birch, cedar, begun=False)) == {"dogwood"}
    assert asyncio.run(meet(cedar, birch, begun=True)) is None  # a run in which all have met has no other beside it

    elm = gone(ELM, "dogwood", 20, no_dogwood)  # it was further when it left: what birch has is old
    assert asyncio.run(meet(elm, birch, begun=False)) is None


def test_who_comes_late_gets_every_proof_in_turn(network, identities):
    """The others went on without dogwood, then without alder. elm was not there."""
    net = network("going on")
    by = Witnesses(net.federation, identities)
    first = participant_of(net, BIRCH, identities)
    first.store.go_on(["dogwood"], 4, [by(i, DOGWOOD, 4).SerializeToString() for i in (CEDAR, ELM)])
    second = participant_of(net, BIRCH, identities).present()
    statements = [by(BIRCH, ALDER, 0, [DOGWOOD]), by(ELM, ALDER, 0, [DOGWOOD])]
    second.store.go_on(["alder"], 0, [each.SerializeToString() for each in statements])
    birch = participant_of(net, BIRCH, identities).present()
    assert birch.federation.absent == ["alder", "dogwood"]

    async def told(i, tick):
        participant, found = participant_of(net, i, identities), []
        greeting = part_of(birch).greeting(NAMES[i])
        assert len(greeting.SerializeToString()) <= largest_question(participant.federation)
        while True:
            part = part_of(participant, tick, begun=not found)
            part._began -= 11
            part.greeted("birch", greeting)
            if not part.absence.done():
                return found
            away = part.absence.result()
            found.append(sorted(away.names))
            if participant.name in away.names:
                return found
            participant.store.go_on(away.names, away.tick, away.statements)
            participant, tick = participant_of(net, i, identities).present(), 0

    assert asyncio.run(told(ELM, 5)) == [["dogwood"], ["alder"]]
    assert asyncio.run(told(ALDER, 3)) == [["dogwood"], ["alder"]]


def test_who_is_heard_again_is_not_called_absent_any_longer(network, identities):
    net = network("going on")
    by = Witnesses(net.federation, identities)

    async def heard():
        part = part_of(participant_of(net, ALDER, identities), tick=10)
        told = lambda: {(each.witness, each.absent, each.tick) for each in part.greeting("elm").absences}  # noqa: E731
        assert part._absences.sign("birch")
        assert not part._absences.sign("birch")
        assert told() == {(ALDER, BIRCH, 10)}
        part._absences.tick = 11
        part._absences.sign("birch")  # others may be further by now
        assert told() == {(ALDER, BIRCH, 11)}
        part.contact("birch")
        assert told() == set()
        part.greeted("elm", by.greeting(ELM, by(ALDER, BIRCH, 11), by(ELM, BIRCH, 10)))
        assert told() == {(ELM, BIRCH, 10)}  # not its own, which somebody gives it back
        part._absences.tick = 16
        assert told() == set()

    asyncio.run(heard())


def test_what_a_greeting_tells_fits(network, identities):
    """All that can be signed; and memory does not grow with what is said."""
    net = network("going on, complete")
    by = Witnesses(net.federation, identities)

    async def told():
        part = part_of(participant_of(net, ALDER, identities))
        for tick in range(5):
            every = [by(i, j, tick) for i in range(5) for j in range(5) if i != j]
            part.greeted("elm", by.greeting(ELM, *every))
            assert len(part.greeting("elm").absences) == 16  # not its own
        padded = Greeting.FromString(by.greeting(ELM).SerializeToString() + _field(8, _padded(by(ELM, BIRCH, 5))))
        assert len(padded.SerializeToString()) > 1000
        part.greeted("elm", padded)  # the signature is right
        assert len(part.greeting("birch").SerializeToString()) <= largest_question(net.federation)
        assert (ELM, BIRCH, 5) in {(each.witness, each.absent, each.tick) for each in part.greeting("birch").absences}
        assert max(len(each.SerializeToString()) for each in part.greeting("birch").absences) < 100
        met = [Met(member=i, signature=bytes(72)) for i in range(5)]
        full = Greeting(name="elm", parts=net.federation.parts, absences=every, met=met, without=NAMES)
        assert len(full.SerializeToString()) <= largest_question(net.federation)

    asyncio.run(told())


def _padded(statement):
    return statement.SerializeToString() + _field(99, bytes(10_000))


def _field(number, content):
    """A field of bytes, as protobuf writes it."""
    return b"".join(map(_varint, (8 * number + 2, len(content)))) + content


def _varint(value):
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + _varint(value // 128)


def test_a_member_that_has_gone_without_proof_is_as_good_as_away(network, identities):
    net = network("going on")
    by = Witnesses(net.federation, identities)

    async def signs_of_life():
        part = part_of(participant_of(net, ALDER, identities))
        server = Server(net.federation, ALDER, part.participant.identity, part)

        async def admitted(kind, stream, context):
            return "elm", stream

        server._admitted = admitted
        await server._greet(by.greeting(ELM, without=[CEDAR]), None)
        assert "elm" not in part._contacts
        await server._greet(by.greeting(ELM), None)
        assert "elm" in part._contacts

    asyncio.run(signs_of_life())


def test_a_report_proves_why_a_run_was_left(network, identities, monkeypatch):
    net = network("going on")
    by = Witnesses(net.federation, identities)
    good = [by(i, DOGWOOD, 3) for i in (CEDAR, ELM)]
    path = net.folder / "report.json"
    monkeypatch.setattr(report, "planned", lambda federation, me: {})

    def reported(statements):
        for store in net.folder.glob("alder.*store*"):
            store.unlink()
        participant_of(net, ALDER, identities).store.go_on(
            ["dogwood"], 3, [each.SerializeToString() for each in statements]
        )
        report.write(participant_of(net, ALDER, identities).present(), np.zeros(3), path)
        return verified(path, net.federation)

    assert reported(good)["without"] == ["dogwood"]
    for statements, reason in [
        ([], "too few neighbours of dogwood have signed"),
        (good[:1], "too few neighbours of dogwood have signed"),
        ([good[0], by(ELM, DOGWOOD, 3, [BIRCH])], "too few neighbours of dogwood have signed"),
        ([good[0], by(ELM, DOGWOOD, 3, signer=ALDER)], "elm has not signed that dogwood is away"),
    ]:
        with pytest.raises(InputError, match=reason):
            reported(statements)


@pytest.mark.parametrize("liars", [(ELM,), (ELM, DOGWOOD), (ELM, DOGWOOD, BIRCH)])
def test_liars_in_a_complete_graph(network, identities, liars):
    """cedar takes part all the time. Two of its four neighbours lie: nobody goes, nobody pays. Three are a quorum."""
    net, quorum = network("going on, complete"), len(liars) == 3
    by = Witnesses(net.federation, identities)
    net.start(*range(5), slow=0.1)
    net.reaches(ALDER, 8)

    async def lie(liar, to, *statements):
        identity, greeting = Identity.load(identities / NAMES[liar]), by.greeting(liar, *statements, without=[CEDAR])
        return isinstance(await call(net.federation, identity, "Greet", greeting, to), bytes)

    async def all_lies():
        signed = [by(liar, CEDAR, 9) for liar in liars]
        for liar in liars:
            for i in set(range(5)) - {liar, CEDAR}:
                for statements in ([], [by(ALDER, CEDAR, 9, signer=liar)], signed):
                    assert await lie(liar, i, *statements)
        assert await lie(ELM, CEDAR, *signed) or quorum  # then others may have told it first, and it has stopped

    with net.held():
        asyncio.run(all_lies())
    assert [net.ended(i) for i in range(5)] == [0, 0, int(quorum), 0, 0], net.log(ALDER)
    if quorum:
        assert "the others go on without cedar: cedar is away, signed by birch, dogwood, elm" in net.log(CEDAR)
        assert [len(left_over(net, i)) for i in range(5)] == [1, 1, 0, 1, 1]
        return
    assert_nobody_went(net)
    lines = net.log(ALDER).splitlines()
    for liar in (NAMES[i] for i in liars):
        line = f"tacit: {liar}: it goes on without cedar, but too few neighbours have signed that: not believed"
        assert lines.count(line) == 1
        assert lines.count(f"tacit: {liar}: alder has not signed that cedar is away") == 1


def test_what_two_runs_come_to():
    """(2, 1e-5) twice in a ledger, by the cap's epsilon: the table in docs/deploy.md."""
    caps, found = (4, 8, 10, 20), {}
    for method, recipe in RECIPES.items():
        first, second = (_events(recipe, Graph.complete(n)) for n in (5, 4))
        found[method] = [round(filters.epsilon(first, second, Cap(cap, 1e-5)), 2) for cap in caps]
    gaussian, objective = [2.97] * 4, [3.05, 4.12, 4.61, 7.49]
    assert found == {
        **dict.fromkeys(("pvp", "pi-admm", "gradient-descent"), gaussian),
        **dict.fromkeys(("dvp", "m-admm", "r-admm", "mr-admm"), objective),
        "one-shot": [np.inf, np.inf, np.inf, 8.49],
    }


def _events(recipe, graph):
    rows = np.array([400, 250, 150, 300, 200])[: len(graph.degree)]
    setting = recipe.setting(rows, 15, graph, 2.0, 1e-5)
    return Counter(plan(setting.algorithm, setting.facts, graph, setting.rounds).events[0])


def _of(net):
    return net.folder, net.kind
