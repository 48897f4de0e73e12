"""A member that stays away: the others go on without it, all in the same run, or stop and say why they cannot."""

import asyncio
import json
import time
from dataclasses import replace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import PARTS
from agent_worker import NAMES, SEED

import tacit
from tacit.agent import run
from tacit.agent.federation import SUMS
from tacit.agent.report import verified
from tacit.agent.run import _left_over, _Part, take_part
from tacit.agent.store import status
from tacit.errors import InputError, NotConnected, TacitError
from tacit.privacy.ledger import Cap

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


def assert_as_simulated_without(net, *absent):
    """Who is left has the models of a simulation in which the absent never were, and has told the ledger so."""
    federation = net.federation.without([NAMES[i] for i in absent])
    setting, left = federation.setting, [i for i in range(5) if i not in absent]
    problem = tacit.Problem(
        [PARTS[i] for i in left], loss=setting.facts.loss, scale=setting.facts.scale, l2=setting.facts.l2
    )
    simulated = tacit.simulate(
        setting.algorithm, problem, federation.graph, rounds=setting.rounds, noise=tacit.SeededNoise(SEED)
    )
    models = [json.loads((net.folder / f"{NAMES[i]}.json").read_text()) for i in left]
    np.testing.assert_allclose(models, simulated.estimate, rtol=0, atol=1e-9)
    assert set(net.versions().values()) == {1}
    for i in left:
        (store,) = net.folder.glob(f"{NAMES[i]}.{federation.run[:8]}.store")
        assert status(store).tick == setting.rounds
        if net.kind in worker.PRIVATE:
            runs = {entry.run for entry in net.entries(i) if entry.kind == "reserve"}
            assert runs == {federation.run}  # the run that nobody spoke in costs nothing
    return federation


def test_a_member_dies_and_the_others_go_on(network):
    net = network("going on")
    net.start(*range(5), slow=0.05)
    net.reaches(DOGWOOD, 3)
    net.lives[DOGWOOD].kill()
    without = net.federation.without(["dogwood"])
    net.reaches(BIRCH, 3, run=without)
    net.lives[BIRCH].kill()  # and finds its way back to the others
    assert net.ended(BIRCH) == -9
    net.start(BIRCH, DOGWOOD, slow=0.05)
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
    seat = worker.seat(token.folder, token.kind, CEDAR, identities, tacit.SecureNoise())
    with pytest.raises(TacitError, match=r"it is away; the run cannot go on without dogwood: .*Hamiltonian cycle"):
        _left_over(seat, ["dogwood"], "it is away")
    with pytest.raises(TacitError, match="the others go on without cedar"):
        _left_over(seat, ["cedar"], "birch says so")


def test_a_run_that_was_paid_for_is_paid_for_again(network, identities):
    net = network("going on, private")
    seat = worker.seat(net.folder, net.kind, CEDAR, identities, tacit.SecureNoise())
    seat.ledger.reserve_run(seat.federation.run, seat.events)
    seat.ledger.store(seat.federation.run, 0, b"the first bytes")
    left = _left_over(seat, ["dogwood"], "it is away")
    spent = seat.ledger.epsilon()
    left.ledger.reserve_run(left.federation.run, left.events)
    assert spent == pytest.approx(2.0, rel=1e-3)
    assert 1.2 * spent < seat.ledger.epsilon() < 2.5 * spent

    poor = worker.seat(net.folder, net.kind, ELM, identities, tacit.SecureNoise())
    poor.ledger.set_cap(Cap(2.01, 1e-5))
    poor.ledger.reserve_run(poor.federation.run, poor.events)
    poor.ledger.store(poor.federation.run, 0, b"the first bytes")
    with pytest.raises(TacitError, match=r"cannot go on without dogwood: the run is refused: epsilon = 1\.98"):
        _left_over(poor, ["dogwood"], "it is away")


def test_a_restart_finds_the_run_that_it_can_pay_for(network, identities):
    """Of three runs, the first two were left before anybody had paid; the ledger has room for one."""
    net = network("going on, private")
    first = worker.seat(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())
    first.ledger.set_cap(Cap(2.01, 1e-5))
    second = first.without(["alder"])
    first.store.go_on(["alder"])
    third = second.without(["cedar"])
    second.store.go_on(["cedar"])
    third.ledger.reserve_run(third.federation.run, third.events)

    again = worker.seat(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())
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
    seat = worker.seat(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())

    async def noticed():
        part = _Part(seat, lambda doing, done, rounds: None)
        part.peers[BIRCH], part._heard["birch"] = Quiet("birch"), heard
        part.left("birch")
        part._began = time.monotonic() - 11
        touch = asyncio.create_task(part.keep_in_touch(BIRCH))
        await asyncio.wait([part.absence], timeout=0.5)
        touch.cancel()
        return part.absence.done()

    assert asyncio.run(noticed()) == absent


def test_who_cannot_watch_its_neighbours_any_longer_stops(network, identities, monkeypatch):
    seat = worker.seat(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())

    async def broken(self, j):
        raise TacitError("the disk is full")

    monkeypatch.setattr(_Part, "keep_in_touch", broken)
    with pytest.raises(TacitError, match="the disk is full"):
        asyncio.run(asyncio.wait_for(take_part(seat), 20))


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
    seat = worker.seat(*_of(network("going on")), ALDER, identities, tacit.SecureNoise())

    async def ended():
        part = _Part(seat, lambda doing, done, rounds: None)
        part.peers.update({j: Late(NAMES[j], part) for j in part.neighbours})
        await part.part_company(linger)

    asyncio.run(ended())
    assert seat.store.marked("told") == told
    assert ["staying for birch, elm for 0.1 s in vain" in each.getMessage() for each in caplog.records] == [
        True
    ] * lines


def test_who_starts_again_after_others_have_left_waits_for_nobody_to_meet(network, identities):
    """A token that has not reached it yet, or never will: it has not spoken, and a neighbour is done."""
    seat = worker.seat(*_of(network("going on, token")), ALDER, identities, tacit.SecureNoise())

    async def ready():
        return _Part(seat, lambda doing, done, rounds: None)._ready

    assert asyncio.run(ready()) == set()
    seat.store.left("birch")
    assert asyncio.run(ready()) == set(NAMES)


def _of(net):
    return net.folder, net.kind
