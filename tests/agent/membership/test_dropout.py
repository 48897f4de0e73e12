"""A member that drops out while members share their noise: the others go on where they were, and pay nothing more."""

import asyncio
import json
import random
from collections import Counter
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import agent_network
import agent_worker as worker
import numpy as np
import pytest
from agent_network import Network
from agent_worker import NAMES

import tacit
from tacit.agent.certificate.claims import _goes_on_as_planned
from tacit.agent.certificate.signed_report import verified
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity
from tacit.agent.loop import AgentLoop
from tacit.agent.membership import dropout, meeting
from tacit.agent.membership.meeting import Meeting
from tacit.agent.participant import planned, reserved
from tacit.agent.robust_listening import listened
from tacit.agent.run import _reduced
from tacit.agent.store import Store
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Message, Met, Question
from tacit.core.algorithm import traits
from tacit.core.release import Inbox
from tacit.errors import InputError, Over, TacitError
from tacit.privacy import filters
from tacit.privacy.accounting import epsilon
from tacit.privacy.events import to_plain
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import canonical

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)
KIND = "going on, totals"


def said(net: Network, i, run=None):
    """The ticks and events that a member has released in a run."""
    federation = run or net.federation
    with closing(Store(net.path(i, run), federation.run, NAMES[i], federation.rounds)) as store:
        return [(tick, message, event) for tick, message, event in store.releases()]


def assert_went_on(net, absent):
    """The others have one model. Each has paid for R + q releases, once, and has said no more. Reports are right."""
    others = [i for i in range(5) if i != absent]
    reduced, rounds = net.federation.without([NAMES[absent]]), net.federation.rounds
    models = [json.loads((net.folder / f"{NAMES[i]}.json").read_text()) for i in others]
    assert models == [models[0]] * 4
    assert np.isfinite(models).all()
    assert set(net.versions().values()) == {1}
    starts = set()
    for i in others:
        before, after = said(net, i), said(net, i, reduced)
        ticks = [tick for tick, _, _ in before], [tick for tick, _, _ in after]
        assert ticks[0] == list(range(len(before)))
        assert ticks[1] == list(range(rounds - len(after), rounds))
        assert len(before) + len(after) in (rounds, rounds + 1)
        starts.add(rounds - len(after))
        rows = [message for _, message, _ in (*before, *after)]
        assert len(set(rows)) == len(rows)  # the tick in doubt has fresh noise
        wanted = [("reserve", t, canonical(to_plain(e))) for t, e in reserved(net.federation, i).items()]
        assert len(wanted) == rounds + 1
        entries = net.ledger(i)
        assert entries[: len(wanted)] == wanted
        assert sorted(entries[len(wanted) :]) == [
            ("mark", n, sha256(message).digest()) for n, message in enumerate(rows)
        ]
        assert {entry.run for entry in net.entries(i)} <= {"", net.federation.run}
        found = verified(net.folder / f"{NAMES[i]}.report.json", net.federation)
        assert (found["without"], found["dropouts"]) == ([NAMES[absent]], 1)
        assert found["epsilon"] <= net.federation.spec.budget.epsilon
    assert net.certificate_faults([NAMES[absent]]) == []
    (start,) = starts  # all of them start at the same tick
    return start


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_member_is_killed_for_good_at_a_random_tick(network, seed):
    net, rng = network(KIND), random.Random(seed)
    at, victim = rng.randrange(net.federation.rounds - 15), rng.randrange(5)
    net.start(*range(5), slow=0.05)
    net.reaches(victim, at)
    net.lives[victim].kill()
    others = [i for i in range(5) if i != victim]
    assert [net.ended(i) for i in others] == [0] * 4, net.log(others[0])
    start = assert_went_on(net, victim)
    assert at <= start <= at + 12


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["gave its sum", "gave the total"])
def test_a_member_dies_in_the_middle_of_a_total(network, fault):
    """dogwood gives its partial sum and never hears the total; or it is the root, and tells one member alone: then the
    others get the state from that one. birch crashes and comes back meanwhile."""
    net, at = network(KIND), 8  # at which dogwood is the root
    net.start(ALDER, BIRCH, CEDAR, ELM, slow=0.05)
    net.start(DOGWOOD, slow=0.05, fault=(fault, at + (fault == "gave its sum")))
    assert net.ended(DOGWOOD) == -9
    net.lives[BIRCH].kill()
    assert net.ended(BIRCH) == -9
    net.start(BIRCH, slow=0.05)
    assert [net.ended(i) for i in (ALDER, BIRCH, CEDAR, ELM)] == [0] * 4, net.log(BIRCH)
    start = assert_went_on(net, DOGWOOD)
    if fault == "gave the total":
        # One member has heard the total. The others had said tick 8 and got the state from a neighbour, or said tick 8
        # once more: if that one was birch, and it was killed before it had committed what it heard.
        assert start in (at, at + 1)
        assert sum(len(said(net, i)) == at + 1 for i in (ALDER, BIRCH, CEDAR, ELM)) >= 3
    else:
        assert start in (at + 1, at + 2)  # tick 9 is in doubt if the bytes have not left, else tick 10


def test_a_member_dies_when_one_other_has_the_last_total(network):
    """The one that has finished follows, and gives its state to the rest."""
    net = network(KIND)
    last = net.federation.rounds - 1
    victim = last % 5
    others = [i for i in range(5) if i != victim]
    net.start(*others, slow=0.02)
    net.start(victim, slow=0.02, fault=("gave the total", last))
    assert net.ended(victim) == -9
    assert [net.ended(i) for i in others] == [0] * 4, net.log(others[0])
    assert assert_went_on(net, victim) >= last


def test_more_members_away_than_were_allowed_for(network):
    """The first that has the proof stops and says why; what it has paid for stays."""
    net = network(KIND)
    net.start(*range(5), slow=0.05)
    net.reaches(DOGWOOD, 3)
    net.lives[DOGWOOD].kill()
    net.reaches(ALDER, 8, run=net.federation.without(["dogwood"]))
    net.lives[ELM].kill()
    refusal = "cannot go on without elm: dogwood, elm would be absent, and the noise allows for 1 dropouts"
    left = (ALDER, BIRCH, CEDAR)
    net.wait(lambda: any(refusal in net.log(i) for i in left), 120, "nobody stops", ALDER)
    (stopped, *_) = [i for i in left if refusal in net.log(i)]
    assert net.ended(stopped) == 1
    for i in left:
        assert len([entry for entry in net.entries(i) if entry.kind == "reserve"]) == net.federation.rounds + 1
        assert not (net.folder / f"{NAMES[i]}.json").exists()


# Without processes


@pytest.fixture
def cedar(network, identities):
    net = network(KIND)
    return worker.participant(net.folder, net.kind, CEDAR, identities, tacit.SecureNoise())


def at_tick(participant, tick):
    """Its store says that it has spoken up to this tick."""
    state = {"f": np.full((1, worker.D), float(tick)), "velocity": np.ones((1, worker.D))}
    state |= {"moved": np.zeros((1, 1)), "radius": np.full((1, 1), participant.problem.radius)}
    for t in range(tick + 1):
        participant.store.commit(t, state, b"row %d" % t, participant.events[t])
    return participant


def test_the_run_without_a_member_has_the_same_noise_and_steps(cedar):
    agreed = cedar.federation
    reduced = agreed.without(["dogwood"])
    assert (reduced.rounds, reduced.spec.radius) == (agreed.rounds, agreed.spec.radius)
    assert (agreed.dropouts, reduced.dropouts) == (1, 0)
    old, new = agreed.setting.algorithm, reduced.setting.algorithm
    assert replace(new, dropouts=1) == old
    for i, name in enumerate(reduced.names):
        j = agreed.names.index(name)
        assert reduced.setting.facts.scale[i] == agreed.setting.facts.scale[j]
        before, after = planned(agreed, j)[0], planned(reduced, i)[0]
        assert (after.members, after.dropouts) == (4, 0)
        assert after.gaussian == before.gaussian  # the same cost
    again = Federation.from_toml(agreed.to_toml()).without(["dogwood"])
    assert again.run == reduced.run
    with pytest.raises(InputError, match="dogwood, elm would be absent, and the noise allows for 1 dropouts"):
        agreed.without(["dogwood", "elm"])
    with pytest.raises(InputError, match="and the noise allows for 1 dropouts"):
        reduced.without(["elm"])


def test_the_budget_pays_for_the_tick_that_is_said_twice(cedar):
    """All releases of all runs together, the spare one included, keep the budget."""
    for i in range(5):
        events = reserved(cedar.federation, i)
        assert sorted(events) == list(range(cedar.federation.rounds + 1))
        assert epsilon(Counter(events.values()), 1e-5) <= 2.0
    worst = max(epsilon(Counter(reserved(cedar.federation, i).values()), 1e-5) for i in range(5))
    assert worst > 1.999


def test_what_was_paid_for_is_not_paid_again(cedar):
    run, plan = cedar.paid
    cedar.ledger.reserve_run(run, plan)
    entries = len(list(cedar.ledger.entries()))
    reduced = _reduced(at_tick(cedar, 4), ["dogwood"], "it is away")
    assert reduced.paid == cedar.paid
    reduced.ledger.reserve_run(*reduced.paid)
    assert len(list(cedar.ledger.entries())) == entries
    assert list(reduced.said()) == [0, 1, 2, 3, 4]


def test_an_agent_counts_its_releases(cedar):
    reduced = at_tick(cedar, 4).without(["dogwood"])
    dropout.check_count(reduced, 4)  # five rows, and the fifth tick once more
    with pytest.raises(TacitError, match=r"has released 5 rows in the runs before, and \d+ more would follow"):
        dropout.check_count(reduced, 3)


def marked(participant, number, digest):
    """As an agent does it before anything leaves."""
    participant.ledger.mark(participant.paid[0], number, digest, participant.started().incarnation.number)


@pytest.mark.parametrize("kept", [0, 3])
def test_the_releases_of_a_store_that_was_put_back_still_count(cedar, kept):
    """The count that caps the releases is the ledger's, whatever the stores remember."""
    cedar.ledger.reserve_run(*cedar.paid)
    for number in range(9):
        marked(cedar, number, sha256(b"row %d" % number).digest())
    reduced = at_tick(cedar, kept).without(["dogwood"])
    assert len(reduced.said()) == kept + 1
    assert reduced.said_before() == 9
    with pytest.raises(TacitError, match="has released 9 rows in the runs before"):
        dropout.check_count(reduced, 4)
    with pytest.raises(Over, match="does not have ticks"):
        reduced.check()


def test_a_lost_store_is_noticed_in_the_run_that_goes_on(cedar):
    cedar.ledger.reserve_run(*cedar.paid)
    marked(cedar, 0, sha256(b"row 0").digest())
    with pytest.raises(TacitError, match="the ledger shows that cedar has sent messages"):
        cedar.without(["dogwood"]).check()


def test_a_lost_store_of_the_run_that_goes_on_is_noticed(cedar):
    """The store of the run before has rows, so that it is not enough to ask whether there are any."""
    reduced = at_tick(cedar, 4).without(["dogwood"])
    cedar.ledger.reserve_run(*cedar.paid)
    for number, digest in cedar.said().items():
        marked(cedar, number, digest)
    reduced.check()
    reduced.store.commit(4, {}, b"row 4 again", cedar.events[4])
    assert list(reduced.said().items())[5:] == [(5, sha256(b"row 4 again").digest())]
    assert reduced.number(4) == 5
    marked(reduced, 5, sha256(b"row 4 again").digest())
    reduced.check()
    reduced.store.close()
    for path in reduced.store.path.parent.glob(f"{reduced.store.path.name}*"):
        path.unlink()
    with pytest.raises(Over, match="does not have tick 5 of them"):
        cedar.without(["dogwood"]).check()


def test_an_old_ledger_is_seen_by_the_store_of_a_run_that_was_left(cedar, tmp_path):
    """The store of the run that goes on has no commit yet, and so no head of the ledger."""
    old = tmp_path / "old"
    old.write_bytes(cedar.ledger.path.read_bytes())
    cedar.ledger.reserve_run(*cedar.paid)
    cedar.store.commit(0, {}, b"row 0", cedar.events[0], ledger=cedar.ledger.head())
    marked(cedar, 0, sha256(b"row 0").digest())
    cedar.without(["dogwood"]).check()
    with (
        Ledger(old, cost=filters.epsilon) as before,
        pytest.raises(Over, match="is an old copy, or another ledger"),
    ):
        replace(cedar, ledger=before).without(["dogwood"]).check()


def statement(federation, identities, name, heard, text=None):
    i = federation.names.index(name)
    signature = Identity.load(identities / name).sign(meeting._signed(federation, i, heard if text is None else text))
    return Met(member=i, heard=heard, signature=signature)


def test_the_run_starts_at_the_largest_number_that_can_be_true(cedar, identities):
    reduced = at_tick(cedar, 4).without(["dogwood"])
    assert dropout.reached(reduced)[0] == 4
    met = Meeting(reduced)
    for heard in (0, 2, 6, 49, 2**32 - 1):  # not believed, but whoever passes it on is not refused
        met.take([statement(reduced.federation, identities, "alder", heard)])
        assert met.for_greeting() == []
    with pytest.raises(BadMessage, match="alder has not signed"):
        met.take([statement(reduced.federation, identities, "alder", 5, text=4)])
    met.sign()
    met.take(
        [statement(reduced.federation, identities, "alder", 5), statement(reduced.federation, identities, "elm", 3)]
    )
    assert not met.complete
    met.take([statement(reduced.federation, identities, "birch", 4)])
    assert (met.complete, met.start) == (True, 5)
    assert (Meeting(reduced).complete, Meeting(reduced).start) == (True, 5)  # after a crash


def test_a_run_that_was_agreed_upon_starts_at_zero(cedar, identities):
    met = Meeting(cedar)
    met.take([statement(cedar.federation, identities, "alder", 1)])
    assert met.for_greeting() == []
    met.take([statement(cedar.federation, identities, "alder", 0)])
    assert len(met.for_greeting()) == 1


@pytest.mark.parametrize("spoken", [4, 3])
def test_the_state_is_for_members_that_have_missed_the_last_total(cedar, identities, spoken):
    """The run starts at tick 4. cedar gives the state after four totals once it has it, and no other."""
    reduced = at_tick(cedar, spoken).without(["dogwood"])

    async def asked():
        agent = AgentLoop(reduced.started(), lambda doing, done, rounds: None)

        def ask(tick):
            return agent.conversation.find(
                Question(run=bytes.fromhex(reduced.federation.run), sender=0, tick=tick, phase=3)
            )

        assert ask(4) is None  # not all have met
        agent.conversation.meeting.sign()
        agent.conversation.meeting.take(
            [statement(reduced.federation, identities, name, 4) for name in ("alder", "birch", "elm")]
        )
        for tick in (0, 3, 5, 2**32 - 1):
            with pytest.raises(BadMessage, match=f"there is no state after {tick} totals to ask for"):
                ask(tick)
        if spoken == 4:
            sent = np.frombuffer(Message.FromString(ask(4)).payload)
            np.testing.assert_array_equal(sent, np.repeat([4.0, 1.0], worker.D))
            agent._totals = 5  # everybody has said tick 4, and needs the state no more
            with pytest.raises(BadMessage, match="there is no state after 4 totals"):
                ask(4)
        else:
            assert ask(4) is None  # it is behind, too

    asyncio.run(asked())


def test_a_false_state_is_refused(cedar):
    """Also one that no totals within their bounds can have led to."""
    algorithm, d = cedar.federation.setting.algorithm, worker.D
    view, reach = cedar.federation.graph.view(np.array([CEDAR])), dropout.reach(cedar.federation, 3)
    start = np.zeros((1, d))
    state = algorithm.init(cedar.problem, view, start, Inbox(start, np.array([0, 1])))

    def taken(rows):
        return dropout.taken_state(algorithm, state, Message(payload=np.asarray(rows).tobytes()), reach)

    def states(f, velocity):
        """Each so far out, in units of its reach."""
        sizes = np.array([[f * reach["f"]], [velocity * reach["velocity"]]])
        return np.repeat(sizes / np.sqrt(d), d, axis=1)

    honest = state._replace(**dict(zip(traits(algorithm).carried, states(0.999, -0.999)[:, None], strict=True)))
    packed = Message(payload=dropout.packed_state(algorithm, honest))
    again = dropout.taken_state(algorithm, state, packed, reach)
    np.testing.assert_array_equal(again.f, honest.f)
    np.testing.assert_array_equal(again.velocity, honest.velocity)
    for size in (0, 1, d, 2 * d - 1, 2 * d + 1):
        with pytest.raises(BadMessage, match="its state has"):
            taken(np.zeros(size))
    for bad in (np.nan, np.inf):
        with pytest.raises(BadMessage, match="not finite"):
            taken(np.full(2 * d, bad))
    for f, velocity, name in ((1.001, 0, "f"), (0, -1.001, "velocity"), (0, 1e300, "velocity"), (1e300, 1e300, "f")):
        with pytest.raises(BadMessage, match=f"its state has a {name} of norm .* after so many totals it is at most"):
            taken(states(f, velocity))


def test_what_a_state_may_be_is_that_of_all_members_and_of_those_that_are_left(cedar):
    """Its totals may be those of both runs: no mean over the members that are left is longer."""
    agreed = cedar.federation
    for name in set(agreed.names) - {"cedar"}:
        reduced = agreed.without([name])
        assert dropout.reach(reduced, 7) == dropout.reach(agreed, 7)
        assert reduced.total_bounds.largest < agreed.total_bounds.largest
        for each in (agreed, reduced):
            assert each.total_bounds.largest / len(each.members) <= agreed.total_bounds.mean


def test_the_report_counts_totals_beyond_their_bounds_in_the_runs_that_were_left_too(cedar):
    reduced = cedar.without(["dogwood"])
    for participant, moved in ((cedar, [2.0, 30.0, 20.0]), (reduced, [1.0, 40.0, 40.0])):
        participant.store.commit(0, {"rows moved": np.array([moved])}, b"row", participant.events[0])
    found = listened(reduced)["moved"]["the sum of all members"]
    assert found == {"ticks": 3, "mean": pytest.approx(70 / 3), "largest": 40.0}


@pytest.mark.parametrize(
    ("last", "before", "right"),
    [
        (range(5, 10), range(6), True),  # tick 5 twice
        (range(6, 10), range(6), True),
        ([], range(10), True),
        (range(10), [], True),
        (range(4, 10), range(6), False),  # two ticks twice
        (range(7, 10), range(6), False),
        (range(5, 9), range(6), False),
        ([], range(9), False),
        ([5, 7, 8, 9], range(6), False),
        (range(1, 10), [], False),
    ],
)
def test_a_report_shows_every_tick_and_one_of_them_twice(last, before, right):
    assert _goes_on_as_planned([list(last), list(before)], SimpleNamespace(rounds=10, dropouts=1)) == right
