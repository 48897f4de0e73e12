"""A whole machine is put back to one moment, and all its neighbours keep silent: nobody in the network knows better. A
second place for the ledger's head does."""

import agent_network
from agent_network import assert_as_simulated
from test_memory import BIRCH, OTHERS, SILENT, files, put_back, reached

from tacit.privacy.ledger.second import rewritten

identities, network = agent_network.identities, agent_network.network  # fixtures
ALL = ("*.store*", "*.ledger*", "books/*/*")


def put_back_to_tick_0(net):
    """birch has come to tick 5. Then all files are put back as they were at its tick 0: birch's by accident, those of
    the others because they lie; and birch is started with fresh noise. Gives the newest files."""
    net.start(*OTHERS, fault=SILENT)
    reached(net, 0, patterns=())
    net.stop()
    old = files(net, *ALL)
    net.start(*OTHERS, fault=SILENT)
    reached(net, 5, patterns=())
    net.stop()
    newest = files(net, *ALL)
    put_back(net, old, *ALL)
    net.start(*OTHERS, fault=SILENT)
    net.start(BIRCH, life=1)
    return newest


def versions(net):
    """Of each tick of birch."""
    return {tick: count for (tick, agent), count in net.versions().items() if agent == str(BIRCH)}


def test_the_second_place_sees_a_network_that_was_put_back(network):
    net = network("recycled")
    heads = net.folder / "heads" / "birch"
    heads.mkdir(parents=True)
    rewritten(net.folder / "birch.ledger", heads)
    newest = put_back_to_tick_0(net)
    assert net.ended(BIRCH) == 1
    assert "birch.ledger is an old copy, or was rewritten: it had" in net.log(BIRCH)
    assert set(versions(net).values()) == {1}
    net.stop()
    put_back(net, newest, *ALL)
    net.start(*range(5))
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)


def test_without_it_nobody_does(network):
    """What remains, as docs/privacy.md says: the ticks since then leave in two versions."""
    net = network("recycled")
    put_back_to_tick_0(net)
    assert net.ended(BIRCH) == 0, net.log(BIRCH)
    # At tick 5 birch has heard tick 4 of the others, who have heard its tick 3. (Tick 1 has no noise of its own.)
    assert versions(net)[f"{net.federation.run}:2"] == versions(net)[f"{net.federation.run}:3"] == 2
