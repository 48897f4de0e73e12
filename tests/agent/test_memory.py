"""Attacks on what an agent remembers, with real agents: old copies of files, two live copies, a member with two faces.

No tick may leave in two versions; where it cannot be helped that one does, both copies have stopped by then."""

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import agent_network
import agent_worker as worker
import pytest
from agent_network import Intermediary, assert_as_simulated, assert_consistent
from agent_worker import NAMES, PROCESSES
from ledger_format_2 import moved_back
from patience import all_ended
from ports import free_ports

import tacit
from tacit.agent.ledger_heads import population_tag, signed_text
from tacit.agent.loop import AgentLoop
from tacit.agent.monitoring.status import Watched
from tacit.agent.transport.sockets import Network
from tacit.agent.transport.wire_pb2 import Greeting, LedgerHead, Question
from tacit.cli import agent_status
from tacit.errors import Over
from tacit.privacy import filters
from tacit.privacy.ledger import Cap, Ledger

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)
OTHERS = (ALDER, CEDAR, DOGWOOD, ELM)
SILENT = ("keeps silent", 0)


def files(net, *patterns):
    """The content of files, to be put back later."""
    return {path: path.read_bytes() for pattern in patterns for path in net.folder.glob(pattern) if path.is_file()}


def put_back(net, copy, *patterns):
    for pattern in patterns:
        for path in net.folder.glob(pattern):
            if path.is_file():
                path.unlink()
    for path, content in copy.items():
        path.write_bytes(content)


def reached(net, *ticks, patterns):
    """birch dies at each of these ticks; gives the files as they were then."""
    copies = []
    for more in ticks:
        net.start(BIRCH, fault=("may leave", more))
        assert net.ended(BIRCH) == -9
        copies.append(files(net, *patterns))
    return copies


def assert_ledger_knows(net, i):
    """The ledger of an agent has a mark for all that was ever sent, and for nothing else."""
    sent = {}
    for line in (net.folder / "sent").read_text().splitlines():
        what, agent, digest = line.split()
        if agent == str(i):
            sent.setdefault(int(what.split(":")[1]), set()).add(digest)
    with Ledger(net.folder / f"{NAMES[i]}.ledger", cost=filters.epsilon) as ledger:
        ledger.verify()
        marks = {tick: {digest.hex()} for tick, digest in ledger.marks(net.federation.run).items()}
    assert sent.items() <= marks.items()
    assert len(marks) <= len(sent) + 1  # marked, and the process died before it was sent


STORE = ("birch.store*",)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("restores", [1, pytest.param(2, marks=SLOW), pytest.param(40, marks=SLOW)])
def test_a_restored_store_among_silent_neighbours_says_nothing_new(network, restores):
    """All neighbours hide what they have heard, and from which process. Each time, birch's store is put back as it was
    some ticks before, and birch is started with fresh noise."""
    net = network("recycled")
    net.start(*OTHERS, fault=SILENT)
    *old, newest = reached(net, 0, 2, 3, patterns=STORE)
    for life in range(restores):
        put_back(net, old[life % len(old)], *STORE)
        net.start(BIRCH, life=1 + life)
        assert net.ended(BIRCH) == 1
    lines = {line for line in net.log(BIRCH).splitlines() if line.startswith("tacit.errors.Over")}
    assert len(lines) == min(restores, len(old))
    for line in lines:
        assert "the ledger shows that birch has sent messages in this run" in line
        assert "Put the newest copy of the store back" in line
    assert set(net.versions().values()) == {1}
    assert_ledger_knows(net, BIRCH)
    put_back(net, newest, *STORE)
    net.start(BIRCH)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)


def test_an_old_ledger_is_seen_by_the_store(network):
    net, ledger = network("recycled"), ("birch.ledger*",)
    net.start(*OTHERS, fault=SILENT)
    old, newest = reached(net, 0, 3, patterns=ledger)
    put_back(net, old, *ledger)
    net.start(BIRCH, life=1)
    assert net.ended(BIRCH) == 1
    assert "birch.ledger is an old copy, or another ledger" in net.log(BIRCH)
    assert set(net.versions().values()) == {1}
    put_back(net, newest, *ledger)
    net.start(BIRCH)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)


@pytest.mark.parametrize(
    ("kind", "honest"),
    [
        ("recycled", ALDER),
        pytest.param("recycled", CEDAR, marks=SLOW),
        pytest.param("recycled", ELM, marks=SLOW),
        pytest.param("secret-shared", CEDAR, marks=SLOW),
        pytest.param("totals", CEDAR, marks=SLOW),
        pytest.param("random aggregation", CEDAR, marks=SLOW),
    ],
)
def test_one_honest_neighbour_sees_a_machine_that_was_put_back(network, kind, honest):
    """Store, ledger and all that birch knows of others are from one moment: only others can know better, and one of
    birch's neighbours does."""
    net, everything = network(kind), ("birch.store*", "birch.ledger*", "books/birch/*")
    net.start(*(i for i in OTHERS if i != honest), fault=SILENT)
    net.start(honest)
    old, _ = reached(net, 0, 3, patterns=everything)
    put_back(net, old, *everything)
    net.start(BIRCH, life=1)
    assert net.ended(BIRCH) == 1
    assert f"{NAMES[honest]} knows process" in net.log(BIRCH) or "birch has signed something for tick" in net.log(BIRCH)
    assert set(net.versions().values()) == {1}


class Switch(Intermediary):
    """In front of two copies of an agent: each new connection goes to the other one."""

    def __init__(self, address, *copies):
        self._address, self._copies, self._next = address.split(":"), [each.split(":") for each in copies], 0

    async def _open(self):
        self._server = await asyncio.start_server(self._connected, *self._address)

    async def _connected(self, reader, writer):
        self._next += 1
        try:
            there, back = await asyncio.open_connection(*self._copies[self._next % len(self._copies)])
        except ConnectionRefusedError:  # it is not up yet, or has stopped
            writer.close()
            return
        await asyncio.gather(self._passed(reader, back), self._passed(there, writer))

    async def _passed(self, reader, writer):
        with suppress(ConnectionError):
            while raw := await reader.read(65536):
                writer.write(raw)
                await writer.drain()
        writer.close()

    async def _close(self):
        await Network().stop_listening(self._server)


def two_copies(net, begun=True, one_ledger=False, one_identity=False, fault=None, others=None):
    """The same folder on two hosts, behind one address; from the start, or since tick 3. They may have one ledger, or
    one folder of the identity. Gives their exit codes, their logs, and the ticks of which both together have sent two
    versions."""
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    copy = net.folder / "copy"
    with Switch(net.federation.members[BIRCH].address, first, second):
        net.start(*OTHERS, slow=0.05, fault=others)
        if begun:
            net.start(BIRCH, fault=("may leave", 3), listen=first)
            assert net.ended(BIRCH) == -9
        shutil.copytree(net.folder, copy, ignore=lambda folder, names: ["sent", "copy", "hold"])
        (copy / "calibrated").write_bytes((net.folder / "calibrated").read_bytes())
        if one_ledger:
            for path in copy.glob("birch.ledger*"):
                path.unlink()
            (copy / "birch.ledger").symlink_to(net.folder / "birch.ledger")
        if one_identity:
            (net.folder / "books" / "birch").mkdir(parents=True, exist_ok=True)
            shutil.rmtree(copy / "books", ignore_errors=True)
            (copy / "books").symlink_to(net.folder / "books")
        with net.together():
            net.start(BIRCH, life=1, slow=0.05, listen=first, fault=fault)
            door = net._loading.door
            arguments = (copy, net.kind, BIRCH, net.identities, fault, 0.05, 2, second, door)
            clone = PROCESSES.Process(target=worker.agent, args=arguments)
            clone.start()
        codes = [net.ended(BIRCH)]
        all_ended([clone], 120)
        codes.append(clone.exitcode)
    lines = [(folder / "sent").read_text().splitlines() for folder in (net.folder, copy) if (folder / "sent").exists()]
    sent = {tuple(each.split()) for part in lines for each in part}
    versions = Counter(what for what, agent, _ in sent if agent == str(BIRCH))
    twice = {what.split(":")[1] for what, count in versions.items() if count > 1}
    return codes, [net.log(BIRCH), (copy / "birch.log").read_text()], twice


@pytest.mark.parametrize(
    ("kind", "begun", "one_ledger"),
    [
        ("recycled", False, False),
        ("recycled", True, False),
        pytest.param("recycled", True, True, marks=SLOW),
        pytest.param("secret-shared", True, False, marks=SLOW),
        pytest.param("totals", True, False, marks=SLOW),
    ],
)
def test_two_live_copies_both_stop(network, kind, begun, one_ledger):
    """Also those that share a ledger, and those whose rows nobody sees."""
    net = network(kind)
    codes, logs, twice = two_copies(net, begun, one_ledger)
    # A ledger of both may stop the older one before any neighbour has met it: then there is one copy, which goes on.
    stopped = [log for code, log in zip(codes, logs, strict=True) if code == 1]
    alone = one_ledger and len(stopped) == 1 and "nothing more leaves here" in stopped[0]
    assert codes == [1, 1] or (alone and sorted(codes) == [0, 1])
    for log in stopped:
        assert "tacit.errors.Over" in log or "AnotherVersion" in log
        assert "copy of" in log or "two copies" in log or "second copy" in log or "nothing more leaves here" in log
    assert len(twice) <= (0 if one_ledger else 1), twice
    left = (None, 0) if alone else (None,)
    assert all(net.lives[i].exitcode in left for i in OTHERS)  # nobody else stops, or pays again
    for i in OTHERS:
        assert Counter(entry.kind for entry in net.entries(i))["reserve"] <= net.federation.rounds


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["recycled", "totals"])
def test_of_two_copies_with_one_ledger_one_goes_on_at_most_whatever_neighbours_say(network, kind):
    codes, logs, twice = two_copies(network(kind), one_ledger=True, others=SILENT)
    assert 1 in codes
    for code, log in zip(codes, logs, strict=True):
        assert code == 0 or "nothing more leaves here" in log or "this is not sent" in log
    assert not twice


@pytest.mark.parametrize(
    ("kind", "begun"), [("recycled", False), *(pytest.param(k, True, marks=SLOW) for k in ("recycled", "totals"))]
)
def test_of_two_copies_of_a_ledger_one_pays_for_a_run_whatever_neighbours_say(network, kind, begun):
    """Store and ledger are in the image of a container that is started twice; both have one folder of the identity."""
    codes, logs, twice = two_copies(network(kind), begun, one_identity=True, others=SILENT)
    assert sorted(codes) == [0, 1]
    assert "is not the ledger of 'birch' that was used here before, or an old copy of it" in logs[codes.index(1)]
    assert not twice


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["recycled", "totals"])
def test_of_two_processes_that_were_copied_in_memory_one_stops(network, kind):
    """A virtual machine is cloned while it runs: both processes have one number and one nonce. What they have signed
    tells them apart. To speak for a third time, a copy needs what a neighbour says that has heard the other one."""
    codes, logs, twice = two_copies(network(kind), fault=("has the nonce", 7))
    assert 1 in codes
    for code, log in zip(codes, logs, strict=True):
        assert code == 0 or "there is a second copy of it" in log
    assert len(twice) <= 2, twice


@pytest.mark.parametrize("kind", ["recycled", pytest.param("totals", marks=SLOW)])
def test_nobody_is_stopped_by_accusations_that_are_made_up(network, kind):
    """elm shows everybody forged processes, twins, words, contradictions and heads of ledgers of everybody, and real
    ones that it has kept, also from before birch's crash, put together so that they accuse."""
    net = network(kind)
    with net.together():
        net.start(ALDER, CEDAR, DOGWOOD, slow=0.05)
        net.start(ELM, fault=("accuses everybody", 0), slow=0.05)
        net.start(BIRCH, fault=("may leave", 3), slow=0.05)
    assert net.ended(BIRCH) == -9
    net.start(BIRCH, slow=0.05)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net) if kind == "recycled" else assert_consistent(net)
    told = "".join(net.log(i) for i in range(4))
    assert "it names a process of birch that birch has not signed" in told
    assert "tacit.errors.Over" not in told


def test_a_member_with_two_faces_is_named_while_the_run_goes_on(network, capsys):
    """From tick 3 on elm says something else to alder, and signs it, too. Everybody knows within as many rounds as the
    graph is wide, and stops; so does elm. Logs, the page and `tacit agent status` say so."""
    net = network("recycled")
    net.start(ALDER, BIRCH, CEDAR, DOGWOOD)
    net.start(ELM, fault=("has two faces", 3))
    assert [net.ended(i) for i in range(5)] == [1] * 5, net.log(ALDER)
    wide = 2  # the graph
    for i in range(4):
        assert "elm has signed two versions of what it said at tick" in net.log(i)
        assert 3 <= net.tick(i) <= 3 + wide + 1
        found = Watched(NAMES[i], net.federation, net.path(i), None, lambda: []).look()["status"]
        (tick,) = found["accused"].values()
        assert found["accused"] == {"elm": tick}
        agent_status._tell(found)
        assert f"elm has signed two versions of what it said at tick {tick}" in capsys.readouterr().out
    assert "elm has signed" in net.log(ELM)
    assert {agent for (_, agent), count in net.versions().items() if count > 1} <= {str(ELM)}


@pytest.mark.slow
def test_the_others_go_on_without_a_member_with_two_faces(network):
    """Where the federation allows that. Nobody listens to elm any more, so it is soon away."""
    net = network("going on")
    net.start(ALDER, BIRCH, CEDAR, DOGWOOD, slow=0.05)
    net.start(ELM, fault=("has two faces", 3), slow=0.05)
    assert [net.ended(i) for i in range(4)] == [0] * 4, net.log(ALDER)
    for i in range(4):
        assert "elm has signed two versions of what it said at tick" in net.log(i)
        assert "goes on without elm" in net.log(i)


def test_a_run_that_was_begun_with_the_format_before_ends(network):
    """Its ledger has the first bytes, and no marks: which ticks have left, nobody can know."""
    net = network("recycled")
    net.start(*OTHERS)
    reached(net, 3, patterns=())
    raw = next(message for tick, message, _ in net.releases(BIRCH) if tick == 0)
    path = net.folder / "birch.ledger"
    as_before(path, net.federation.run, raw)
    moved_back(path)
    put_back(net, {}, "books/birch/*")  # which did not name the ledger
    net.start(BIRCH, life=1)
    assert net.ended(BIRCH) == 1
    assert "this run was begun with an older version of tacit" in net.log(BIRCH)
    assert "agree on a new run under another title" in net.log(BIRCH)
    assert set(net.versions().values()) == {1}


def as_before(path, run, raw):
    """A ledger as the version before kept it: the first bytes of a run, and nothing else until it is over."""
    with Ledger(path, cost=filters.epsilon) as ledger:
        population, cap, events = ledger.population, ledger.cap(), ledger.reserved(run)
    path.unlink()
    with Ledger.new(path, population=population, cost=filters.epsilon) as ledger:
        ledger.set_cap(cap)
        ledger.reserve_run(run, events)
        ledger.store(run, 0, raw)


def test_a_run_that_one_ledger_has_paid_for_goes_on_with_no_other(network):
    """birch's store is lost, and it is started with the ledger of other people, which has no mark of this run. All
    neighbours keep silent."""
    net = network("recycled")
    net.start(*OTHERS, fault=SILENT)
    reached(net, 3, patterns=())
    ledger = net.folder / "birch.ledger"
    right = files(net, "birch.ledger*", *STORE)
    put_back(net, {}, "birch.ledger*", *STORE)
    with Ledger.new(ledger, population="other people", cost=filters.epsilon) as other:
        other.set_cap(Cap(10.0, 1e-5))
    net.start(BIRCH, life=1)
    assert net.ended(BIRCH) == 1
    assert "this run was paid for from another ledger than" in net.log(BIRCH)
    assert set(net.versions().values()) == {1}
    put_back(net, right, "birch.ledger*", *STORE)
    net.start(BIRCH)
    assert [net.ended(i) for i in range(5)] == [0] * 5, net.log(BIRCH)
    assert_as_simulated(net)


@pytest.mark.parametrize("when", ["before it speaks", "after it has spoken"])
def test_a_process_that_must_stop_lets_nothing_more_leave(network, identities, when):
    """birch has been shown that it is a copy. What it has said leaves no more, and what it says then never does."""
    net = network("recycled")
    birch = worker.participant(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())
    question = Question(sender=ALDER, tick=0)

    async def stopped():
        loop = AgentLoop(birch.started(), lambda doing, done, rounds: None)
        loop._pay()
        if when == "after it has spoken":
            await loop._speak(0)
            assert loop.conversation.find(question) is not None
        loop.conversation.stop(Over("there is a second copy"))
        if when == "before it speaks":
            await loop._speak(0)
            assert loop.committed(0) is None
        assert loop.conversation.find(question) is None

    asyncio.run(stopped())


def test_a_ledger_from_before_the_payment_is_known_to_be_old(network, identities):
    """Not even a store is needed: the folder of the identity has the head as of the payment."""
    net, ledger = network("recycled"), ("birch.ledger*",)
    old = files(net, *ledger)
    birch = worker.participant(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise())

    async def paid():
        AgentLoop(birch.started(), lambda doing, done, rounds: None)._pay()

    birch.books.note_own(birch.ledger)  # as the command does it before it starts
    asyncio.run(paid())
    birch.books.require_current(birch.ledger)
    birch.ledger.close()
    put_back(net, old, *ledger)
    with (
        Ledger(net.folder / "birch.ledger", cost=filters.epsilon) as before,
        pytest.raises(Over, match="or an old copy of it"),
    ):
        birch.books.require_current(before)


def test_nothing_is_paid_once_a_neighbour_has_shown_a_newer_head_of_the_ledger(network, identities):
    """Also if it is shown after this agent has met all, and before it pays."""
    net = network("recycled")
    birch = worker.participant(net.folder, net.kind, BIRCH, identities, tacit.SecureNoise()).started()
    tag, head = population_tag(birch.identity, birch.ledger.population), birch.ledger.head()
    longer = head._replace(rows=head.rows + 7, head="5e" * 32)
    signature = birch.identity.sign(signed_text(tag, longer))
    tag, book, last = map(bytes.fromhex, (tag, longer.book, longer.head))
    seen = LedgerHead(population=tag, book=book, rows=longer.rows, head=last, signature=signature)

    async def paying():
        loop = AgentLoop(birch, lambda doing, done, rounds: None)
        loop.conversation.heads.take("alder", Greeting(name="alder", seen=seen))
        loop._pay()

    with pytest.raises(Over, match=f"alder has seen {longer.rows} rows of the ledger"):
        asyncio.run(paying())
    assert not birch.ledger.reserved(net.federation.run)


def test_no_other_ledger_than_the_one_that_has_paid_is_taken(network, identities):
    """It has no marks of what has left. Also a ledger that is the newest of its own population."""
    net = network("recycled")
    birch, cedar = (
        worker.participant(net.folder, net.kind, i, identities, tacit.SecureNoise()) for i in (BIRCH, CEDAR)
    )

    async def paid():
        AgentLoop(birch.started(), lambda doing, done, rounds: None)._pay()

    birch.check()
    asyncio.run(paid())
    birch.check()
    with pytest.raises(Over, match=r"this run was paid for from another ledger than .*cedar\.ledger"):
        replace(birch, ledger=cedar.ledger).check()
