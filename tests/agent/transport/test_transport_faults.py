"""Bad connections between agents: cut, held, slow, or with somebody in the middle who repeats, reorders and replays."""

import random
import socket
import time

import agent_network
import pytest
from agent_network import Meddler, Relay, assert_as_simulated
from agent_worker import NAMES
from ports import free_ports

identities, network = agent_network.identities, agent_network.network  # fixtures
BIRCH = 1


@pytest.fixture
def hidden():
    """Where birch really is."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize("fault", ["cut", "held"])
def test_a_connection_that_fails_for_ten_seconds(network, hidden, fault):
    net = network("recycled")
    with Relay(net.federation.members[BIRCH].address, hidden) as relay:
        net.start(BIRCH, slow=0.1, listen=hidden)
        net.start(0, 2, 3, 4, slow=0.1)
        net.reaches(BIRCH, 2)
        relay.cut() if fault == "cut" else relay.hold()
        reached = net.tick(BIRCH)
        time.sleep(10)
        assert net.tick(0) <= reached + 2  # alder waits for birch
        relay.reconnect() if fault == "cut" else relay.resume()
        assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
        assert_as_simulated(net)
        net.stop()


def test_a_member_that_says_one_thing_a_second(network):
    net = network("recycled")
    net.start(BIRCH, slow=1.0)
    net.start(0, 2, 3, 4)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
    assert_as_simulated(net)


@pytest.mark.parametrize("kind", ["recycled", "secret-shared"])
def test_questions_twice_and_in_any_order_and_answers_of_yesterday(network, identities, hidden, kind):
    net = network(kind)
    with Meddler(net.federation, NAMES[BIRCH], hidden, identities, random.Random(3)) as meddler:
        net.start(BIRCH, listen=hidden)
        net.start(0, 2, 3, 4)
        assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
        assert meddler.repeated > 15
        assert meddler.replayed > 3
        assert_as_simulated(net)
        net.stop()
    assert "tacit: birch: it answers another question" in "".join(net.log(i) for i in (0, 2, 4))


def test_a_conversation_that_was_recorded_is_worth_nothing(network, hidden):
    """Every byte that a neighbour said in its first connection, said again: TLS has a new secret."""
    net = network("recycled")
    with Relay(net.federation.members[BIRCH].address, hidden) as relay:
        net.start(BIRCH, slow=0.1, listen=hidden)
        net.start(0, 2, 3, 4, slow=0.1)
        net.reaches(BIRCH, 2)
        host, port = hidden.split(":")
        with net.held():  # an agent that has ended says no more
            with socket.create_connection((host, int(port))) as again:
                again.sendall(relay.recorded)
                again.settimeout(60)
                answer = b""
                while piece := again.recv(65536):
                    answer += piece
            assert len(answer) < 4096  # its side of a handshake, and an alert
            net.says(BIRCH, "tacit: a caller at 127.0.0.1")
        assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(0)
        assert_as_simulated(net)
        net.stop()
