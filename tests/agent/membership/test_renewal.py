"""A new key without a new run: what a renewal lets its member do, and what nobody can do with an old key or a lie."""

import asyncio
import base64
import json
import logging
import shutil
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import agent_network
import finished_run
import numpy as np
import pytest
from agent_worker import D
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from finished_run import PRIVATE
from frames import Refused, Serving, call
from speaking import Quiet, Rehearsed, Speaker
from test_absence import Witnesses, loop_of, participant_of

from tacit.agent import federation, identity
from tacit.agent.certificate import verdict
from tacit.agent.certificate.examination import collected, examined
from tacit.agent.delivery import _USE, Sums
from tacit.agent.federation import Federation
from tacit.agent.identity import Identity, canonical_certificate, fingerprint
from tacit.agent.ledger_heads import Heads
from tacit.agent.membership import absence, meeting, renewal
from tacit.agent.membership.renewal import NEXT
from tacit.agent.membership.succession import changes
from tacit.agent.run_keys import signed_text
from tacit.agent.signed_words import MOST
from tacit.agent.store import Store
from tacit.agent.transport.peer import Peer
from tacit.agent.transport.server import Server
from tacit.agent.transport.sockets import Network
from tacit.agent.transport.tls_streams import ASK
from tacit.agent.transport.wire import BadMessage, packed_row
from tacit.agent.transport.wire_pb2 import Contradiction, Greeting, Key, Met, Question, Standing
from tacit.errors import InputError, Over
from tacit.exchange.keys import KeyPair
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger

identities, network = agent_network.identities, agent_network.network  # fixtures
ALDER, BIRCH, CEDAR, DOGWOOD, ELM = range(5)


@pytest.fixture
def renewed(identities, tmp_path):
    """Makes a statement of a member, and its new identity. The folder that other tests use stays as it is."""

    def make(name, overlap=0.0, of=None):
        home = tmp_path / f"{name} {len(list(tmp_path.glob(f'{name} *')))}"
        shutil.copytree(of or identities / name, home)
        made = renewal.begin(home, 30, overlap)
        new = Identity.load(home / NEXT)
        renewal.finish(home, made)
        return made, new, home

    return make


def knowing(agreed, *renewals, **changed):
    """The federation of a member that has accepted these renewals."""
    made = replace(agreed, renewals=renewals, **changed)
    if "setting" in agreed.__dict__:  # of the test's own
        made.__dict__["setting"] = agreed.setting
    return made


@pytest.fixture
def clock(monkeypatch):
    """Lets days pass."""

    class Clock(datetime):
        moved = timedelta(0)

        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + cls.moved

    monkeypatch.setattr(federation, "datetime", Clock)
    return Clock


# The statement, and the chain


def test_the_run_stays_the_same_run(network, renewed):
    agreed = network("broadcast").federation
    first, second, home = renewed("alder")
    then, _, _ = renewed("alder", of=home)
    after = knowing(agreed, then, first)  # in any order
    assert after.run == agreed.run
    assert after.parts == agreed.parts
    assert Federation.from_toml(after.to_toml()).certificates("alder") == (
        *(agreed.members[ALDER].certificate, second.certificate, then.new),
    )
    assert (agreed.renewed, len(after.renewed)) == (b"", 16)


def test_what_counts_when(network, renewed):
    agreed, now = network("broadcast").federation, datetime.now(UTC)
    first, _, home = renewed("alder", overlap=10)
    then, _, _ = renewed("alder", overlap=2, of=home)
    after = knowing(agreed, first, then)

    def counts(federation, day):
        return [federation.certificates("alder").index(c) for c in federation.accepted("alder", now + timedelta(day))]

    assert [counts(knowing(agreed, first), day) for day in (1, 9, 11)] == [[0, 1], [0, 1], [1]]
    assert [counts(after, day) for day in (1, 3, 11)] == [[0, 1, 2], [2], [2]]  # the last word is the newest one
    alder = replace(agreed.members[ALDER], certificate=first.new)
    later = knowing(replace(agreed, members=(alder, *agreed.members[1:])), first, then)
    assert counts(later, 1) == [1, 2]  # what came before the agreed certificate is history
    assert counts(knowing(agreed, first, then, revoked=frozenset([fingerprint(then.old)])), 1) == []


def test_a_next_version_without_renewals_says_so(network, renewed):
    agreed = network("broadcast").federation
    made, _, _ = renewed("alder")
    before = knowing(agreed, made)
    alder = replace(agreed.members[ALDER], certificate=made.new)
    after = knowing(replace(agreed, members=(alder, *agreed.members[1:])), made)
    assert changes(before, after) == []
    (line,) = changes(before, replace(after, renewals=()))
    assert line.startswith("renewals of alder are missing")


def test_the_dates_of_a_revoked_member_do_not_matter(network, renewed, monkeypatch):
    agreed = network("broadcast").federation
    monkeypatch.setattr(identity, "datetime", _clock(800))
    with pytest.raises(InputError, match="the certificate of alder expired"):
        agreed.as_of_now("alder")
    refusing = agreed.refusing(fingerprint(member.certificate) for member in agreed.members)
    assert refusing.as_of_now("alder") is refusing


def _clock(days):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days)

    return Clock


def _expired(name, monkeypatch):
    """An identity whose certificate expired yesterday."""
    monkeypatch.setattr(identity, "datetime", _clock(-3))
    made = Identity.made(name, 2)
    monkeypatch.setattr(identity, "datetime", datetime)
    return made


def _with(agreed, late):
    """A federation with this identity of a member."""
    members = (replace(each, certificate=late.certificate) for each in agreed.members if each.name == late.name)
    return knowing(agreed, members=(*members, *(each for each in agreed.members if each.name != late.name)))


def test_a_member_whose_certificate_has_expired_stops_only_itself(network, identities, monkeypatch):
    """If the others may go on without it. It is refused everywhere, as a member that is revoked."""
    net, late = network("going on"), _expired("cedar", monkeypatch)
    agreed = _with(net.federation, late)
    complaint = "the certificate of cedar expired .* too late to renew it .*tacit federation renew.*: cedar makes a new"
    with pytest.raises(InputError, match=complaint):
        agreed.as_of_now("cedar")
    with pytest.raises(InputError, match=complaint):
        replace(agreed, go_on_after=0.0).as_of_now("alder")
    monkeypatch.setattr(identity, "datetime", _clock(-5))
    with pytest.raises(InputError, match="set the clock"):
        agreed.as_of_now("alder")
    monkeypatch.setattr(identity, "datetime", datetime)
    today = agreed.as_of_now("alder")
    assert today.refused == {"cedar": "its certificate has expired"}
    assert today.run == agreed.run
    assert [len(today.accepted(name)) for name in today.names] == [1, 1, 0, 1, 1]
    assert today.without(["cedar"]).refused == {}
    assert today.without(["elm"]).accepted("cedar") == ()
    participant = replace(participant_of(net, ALDER, identities), federation=today)
    participant.check()
    for name in ("birch", "elm"):  # alder's neighbours
        alone = replace(today, expired=frozenset(["birch", "elm"]) - {name})
        replace(participant, federation=alone).check()
    with pytest.raises(Over, match=r"birch \(its certificate has expired\), elm .*cannot go on"):
        replace(participant, federation=replace(today, expired=frozenset(["birch", "elm"]))).check()


def test_the_signature_of_a_member_whose_certificate_has_expired_does_not_count(network, identities, monkeypatch):
    """dogwood's neighbours are cedar and elm: cedar, which is too late, cannot help to have it left out, and has not
    met anybody."""
    net, late = network("going on"), _expired("cedar", monkeypatch)
    agreed = _with(net.federation, late)
    by = Witnesses(agreed, identities)
    vote = absence.Absence(witness=CEDAR, absent=DOGWOOD, tick=10)
    vote.signature = late.sign(absence._signed(agreed, vote))

    def counts(after):
        async def asked():
            agent = loop_of(replace(participant_of(net, ALDER, identities), federation=after), tick=10)
            met = Met(member=CEDAR, signature=late.sign(meeting._signed(after, CEDAR)))
            greeting = by.greeting(ELM, by(ELM, DOGWOOD, 10), vote)
            greeting.met.append(met)
            agent.conversation.greeted("elm", greeting)
            return agent.liveness.absences.proven("dogwood"), CEDAR in agent.conversation.meeting._known

        return asyncio.run(asked())

    assert counts(agreed.as_of_now("alder")) == (False, False)
    assert counts(agreed) == (True, True)  # of an agent that has been running since before


def test_a_certificate_that_has_expired_does_not_get_in(network, identities, monkeypatch):
    net, late = network("going on"), _expired("birch", monkeypatch)
    agreed, alder = _with(net.federation, late), Identity.load(identities / "alder")
    ask = Question(run=bytes.fromhex(agreed.run), sender=BIRCH)

    async def found(federation):
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(agreed.members[ALDER].address)
        try:
            return await call(agreed, late, "Ask", ask)
        finally:
            await server.stop()

    for known in (agreed, agreed.as_of_now("alder")):  # TLS looks at the dates, too
        assert isinstance(asyncio.run(found(known)), ConnectionError)
    assert calls(agreed, BIRCH, alder)
    assert not calls(agreed.as_of_now("alder"), BIRCH, alder)


def calls(federation, j, identity):
    """Whether alder calls a member."""

    class Noted(Network):
        called = False

        async def connect(self, address, made):
            self.called = True
            raise ConnectionRefusedError

    async def asked():
        noted = Noted()
        leaving = asyncio.create_task(Peer(federation, ALDER, j, identity, Quiet(), network=noted).leave())
        for _ in range(20):
            await asyncio.sleep(0)
        leaving.cancel()
        return noted.called

    return asyncio.run(asked())


def test_forged_statements(renewed, identities):
    made, new, _ = renewed("alder", overlap=5)
    birch, other = Identity.load(identities / "birch"), Identity.made("alder", 30)

    def signed(who, old=made.old, new=made.new, until=made.until):
        return base64.b64encode(who.sign(renewal._signed(old, new, until))).decode()

    later = (made.ends + timedelta(1)).isoformat()
    for changed, complaint in (
        ({"signature": signed(birch)}, "is not signed with the old key"),  # by another member
        ({"signature": signed(new)}, "is not signed with the old key"),
        ({"signature": ""}, "is not signed with the old key"),
        ({"new": other.certificate, "possession": signed(other, new=other.certificate)}, "with the old key"),
        ({"possession": signed(other)}, "is not signed with the new key"),
        ({"until": later}, "is not signed with the old key"),
        ({"until": "soon"}, "until is a time in UTC"),
        ({"until": "2999-01-01T00:00:00+00:00"}, "it expires before"),
        ({"new": birch.certificate}, "is about a certificate of birch"),
        ({"member": "birch"}, "is about a certificate of alder"),
        ({"new": made.old}, "must have a new key"),
    ):
        with pytest.raises(InputError, match=complaint):
            replace(made, **changed)
    text = made.to_toml()
    for one, two in (('"alder"', '"elm"'), ("until = ", "since = "), ("[[renewals]]", "[renewals]")):
        path = Path(renewed("alder")[2]) / "statement"
        path.write_text(text.replace(one, two, 1))
        with pytest.raises(InputError):
            renewal.read(path)


def test_certificates_that_no_identity_has(network):
    """TLS would let in whoever has a certificate signed by a key that may sign, and knows few curves."""
    birch = network("broadcast").federation.members[BIRCH]
    usage = x509.KeyUsage(True, *[False] * 4, True, *[False] * 3)  # with key_cert_sign
    for curve, extensions, complaint in (
        (ec.SECP256R1(), [], "may sign other certificates"),
        (ec.SECP256R1(), [usage], "may sign other certificates"),
        (ec.SECP256K1(), [], "has no elliptic-curve key"),
    ):
        key, now = ec.generate_private_key(curve), datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "birch")])
        made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(30), extensions=[])
        for each in extensions:
            made = made.add_extension(each, critical=True)
        with pytest.raises(InputError, match=complaint):
            replace(birch, certificate=canonical_certificate(made.sign(key, hashes.SHA256())))
    raw = x509.load_pem_x509_certificate(birch.certificate.encode()).public_bytes(serialization.Encoding.DER)
    flipped = base64.encodebytes(raw[:-1] + bytes([raw[-1] ^ 1])).decode()
    with pytest.raises(InputError, match="the certificate of birch is damaged"):
        replace(birch, certificate=f"-----BEGIN CERTIFICATE-----\n{flipped}-----END CERTIFICATE-----\n")


def test_statements_that_make_no_chain(network, renewed):
    agreed = network("broadcast").federation
    first, _, home = renewed("alder")
    then, _, home = renewed("alder", of=home)
    last, _, _ = renewed("alder", of=home)
    fork, _, _ = renewed("alder")
    for statements, complaint in (
        ((first, fork), "two renewals of one certificate of alder"),  # somebody has copied the folder, or the key
        ((first, first), "twice"),  # a replay
        ((first, then, first), "twice"),
        ((first, last), "not one chain"),
        ((then,), "not one chain"),  # a replay of a statement that does not begin here
    ):
        with pytest.raises(InputError, match=complaint):
            knowing(agreed, *statements)
    with pytest.raises(InputError, match="alder, which is not a member"):
        replace(agreed.without(["alder"]), agreed=None, renewals=(first,))
    assert agreed.without(["birch"]).certificates("alder") == (first.old,)
    assert knowing(agreed, first).without(["birch"]).accepted("alder") == (first.new,)


def test_a_second_try_gives_the_same_statement_and_an_interrupted_change_can_be_finished(identities, tmp_path):
    home = tmp_path / "alder"
    shutil.copytree(identities / "alder", home)
    before = Identity.load(home)
    (home / "next.draft").mkdir()  # of a process that died before anybody saw the statement
    (home / "next.draft" / "key.pem").write_text("half a k")
    made = renewal.begin(home, 30, 1)
    assert renewal.begin(home, 700, 50) == made == renewal.waiting(home)
    assert Identity.load(home) == before
    with pytest.raises(InputError, match="another renewal"):
        renewal.finish(home, renewal.begin(_copy(identities, tmp_path), 30, 1))
    (home / NEXT / "key.pem").replace(home / "elsewhere")
    for damage in (lambda: None, lambda: (home / NEXT / "key.pem").write_text("half a k")):  # the old key stays
        damage()
        with pytest.raises(InputError, match="does not have the new key"):
            renewal.finish(home, made)
        assert Identity.load(home) == before
    (home / NEXT / "key.pem").unlink()
    (home / "elsewhere").replace(home / "key.pem")  # and no further
    (home / "population.key").write_text(before.population_key.hex())
    with pytest.raises(InputError, match="if a renewal was interrupted"):
        Identity.load(home)
    for _ in range(2):
        renewal.finish(home, made)
    after = Identity.load(home)
    assert (after.certificate, after.population_key) == (made.new, before.population_key)
    assert not (home / NEXT).exists()
    (home / "population.key").write_text("lost")
    with pytest.raises(InputError, match="damaged"):
        Identity.load(home)


def test_a_clock_that_is_far_off_renews_nothing(identities, tmp_path, monkeypatch):
    """The statement would say that the old key counted no more when it signed its reports; or the key is too old."""
    home = _copy(identities, tmp_path)
    for days, complaint in ((-2, "set the clock"), (800, "too late to renew it")):
        for module in (identity, renewal):
            monkeypatch.setattr(module, "datetime", _clock(days))
        with pytest.raises(InputError, match=complaint):
            renewal.begin(home, 30, 7)
    assert not (home / NEXT).exists()


def _copy(identities, tmp_path):
    return Path(shutil.copytree(identities / "alder", tmp_path / "copy"))


# In a run


def test_a_renewal_in_the_middle_of_a_run(tmp_path, short_recipes):
    """The run goes on where it was, has paid once, and its certificate holds: with the old key's report, too."""
    identities, agreed = finished_run.agree(tmp_path, PRIVATE)
    old = identities["alder"]

    class StoppedError(Exception):
        pass

    def stop(name, done):
        if (name, done) == ("alder", 3):
            raise StoppedError

    def said():
        path = tmp_path / f"alder.{agreed.run[:8]}.store"
        with closing(Store(path, agreed.run, "alder", agreed.rounds)) as store:
            return [message for _, message, _ in store.releases()]

    with pytest.raises(StoppedError):
        finished_run.live(tmp_path, agreed, identities, watch=stop)
    before = said()
    assert 0 < len(before) < agreed.rounds
    made = renewal.begin(tmp_path / "alder", 30, 0)
    renewal.finish(tmp_path / "alder", made)
    after = knowing(agreed, made)
    finished_run.live(tmp_path, after, identities | {"alder": Identity.load(tmp_path / "alder")})
    assert said()[: len(before)] == before
    assert after.run == agreed.run
    for name in finished_run.NAMES:
        with Ledger(tmp_path / f"{name}.ledger", cost=filters.epsilon) as ledger:
            assert [run.run for run in ledger.runs()] == [agreed.run]
    reports = [json.loads((tmp_path / f"{name}.report.json").read_text()) for name in finished_run.NAMES]
    found = examined(collected(after, reports))
    assert found.faults == []
    plain = verdict.as_plain(found)
    assert {each["name"]: each["fingerprint"] for each in plain["signed_by"]}["alder"] == fingerprint(made.new)
    assert any("keys that it has renewed" in line for line in plain["believed"])
    assert [str(fault) for fault in examined(collected(agreed, reports)).faults]  # without the statement

    def by_the_old_key(**changed):
        report = reports[0]["report"] | changed
        signature = base64.b64encode(old.sign(finished_run.canonical(report))).decode()
        return examined(collected(after, [{"report": report, "signature": signature}, *reports[1:]])).faults

    (fault,) = by_the_old_key()
    assert str(fault) == "reports.alder.signature: alder had renewed this certificate when the report was written"
    assert by_the_old_key(written=(made.ends - timedelta(seconds=1)).isoformat()) == []  # the thief lies about the time


def test_a_time_in_the_past_voids_no_more_than_the_members_own_report(tmp_path, short_recipes):
    """And only where the file has the statement, until the member signs again."""
    identities, agreed = finished_run.agree(tmp_path, PRIVATE)
    finished_run.live(tmp_path, agreed, identities)
    reports = [json.loads((tmp_path / f"{name}.report.json").read_text()) for name in finished_run.NAMES]
    before = collected(agreed, reports)
    old, new = identities["alder"], Identity.made("alder", 30)
    until = (datetime.now(UTC) - timedelta(minutes=30)).isoformat(timespec="seconds")
    text = renewal._signed(old.certificate, new.certificate, until)
    signatures = (base64.b64encode(each.sign(text)).decode() for each in (old, new))
    after = knowing(agreed, renewal.Renewal("alder", until, *signatures, old.certificate, new.certificate))
    (fault,) = examined(collected(after, reports)).faults
    assert str(fault).startswith("reports.alder.signature: alder had renewed this certificate")
    assert examined(before).faults == []
    finished_run.live(tmp_path, after, identities | {"alder": replace(new, population_key=old.population_key)})
    again = [json.loads((tmp_path / f"{name}.report.json").read_text()) for name in finished_run.NAMES]
    assert examined(collected(after, again)).faults == []
    assert examined(collected(after, again)).signers["alder"] == new.certificate


def test_an_old_key_has_no_vote(network, identities, renewed):
    """dogwood's neighbours are cedar and elm. Whoever has cedar's old key cannot help elm to have dogwood left out."""
    net = network("going on")
    agreed, by = net.federation, Witnesses(net.federation, identities)
    made, new, _ = renewed("cedar")
    still, _, _ = renewed("cedar", overlap=5)
    false = by(CEDAR, DOGWOOD, 10)
    true = absence.Absence(witness=CEDAR, absent=DOGWOOD, tick=10)
    true.signature = new.sign(absence._signed(agreed, true))

    def proven(statement, after):
        async def asked():
            participant = replace(participant_of(net, ALDER, identities), federation=after)
            agent = loop_of(participant, tick=10)
            agent.conversation.greeted("elm", by.greeting(ELM, by(ELM, DOGWOOD, 10), statement))
            return agent.liveness.absences.proven("dogwood")

        return asyncio.run(asked())

    revoked = frozenset([fingerprint(made.new)])
    assert [proven(false, knowing(agreed, *each)) for each in ((), (still,), (made,))] == [True, True, False]
    assert [proven(true, after) for after in (knowing(agreed, made), knowing(agreed, made, revoked=revoked))] == [
        *(True, False),
    ]
    with pytest.raises(BadMessage, match="cedar has not signed"):
        proven(true, agreed)  # who has not got the statement cannot know
    absence.check_left(
        knowing(agreed, made), [], ["dogwood"], [each.SerializeToString() for each in (by(ELM, DOGWOOD, 10), false)]
    )


def test_an_old_key_proves_nothing_against_its_member(network, identities, renewed):
    """Whoever has cedar's old key cannot stop cedar's agent, nor have it blamed, once the key is renewed or revoked."""
    net = network("broadcast")
    old, (made, new, _), (still, _, _) = Identity.load(identities / "cedar"), renewed("cedar"), renewed("cedar", 5)
    agreed = net.federation
    later = Speaker(agreed, old, number=9)

    def statements():
        for value in (0.0, 1.0):
            later.spoken(packed_row(agreed.run, CEDAR, 0, np.full(D, value)))
            yield later.said(0)

    one, other = statements()

    def run(i, after, identity, act):
        async def acted():
            agent = loop_of(replace(participant_of(net, i, identities), federation=after, identity=identity))
            with suppress(BadMessage):
                act(agent)
            return agent.conversation.ended.done(), set(agent.conversation.statements.contradictions)

        return asyncio.run(acted())

    def shown(agent):
        agent.conversation.met(
            "birch", Standing(own=Speaker(agreed, Identity.load(identities / "birch")).own, known=[later.own])
        )

    def signed(agent):
        agent.conversation._take("birch", Greeting(said=[one]))

    def blamed(agent):
        agent.conversation._take("birch", Greeting(contradictions=[Contradiction(one=one, other=other)]))

    after, yet = knowing(agreed, made), knowing(agreed, still)
    revoked = knowing(agreed, made, revoked=frozenset([fingerprint(made.new)]))
    assert [run(CEDAR, after, new, act) for act in (shown, signed, blamed)] == [(False, set())] * 3
    assert [run(BIRCH, each, Identity.load(identities / "birch"), blamed) for each in (after, revoked)] == [
        *((False, set()), (False, set())),
    ]
    assert [run(CEDAR, yet, old, act)[0] for act in (shown, signed, blamed)] == [True] * 3  # it still counts
    assert run(BIRCH, yet, Identity.load(identities / "birch"), blamed) == (True, {"cedar"})


def test_words_under_a_key_that_is_unknown_here_do_not_part_neighbours(network, identities, renewed):
    """birch knows cedar's new key, and passes on what cedar has signed with it. alder's file is older: it goes on
    hearing birch."""
    net = network("broadcast")
    _, new, _ = renewed("cedar")
    cedar, birch = Speaker(net.federation, new), Speaker(net.federation, Identity.load(identities / "birch"))
    cedar.spoken(packed_row(net.federation.run, CEDAR, 0, np.zeros(D)))
    birch.spoken(packed_row(net.federation.run, BIRCH, 0, np.zeros(D)))

    async def heard():
        agent = loop_of(participant_of(net, ALDER, identities))
        said = [cedar.said(0), birch.said(0)]
        agent.conversation.greeted("birch", birch.greeting(said=said))
        with pytest.raises(BadMessage, match="more statements than it may"):
            agent.conversation.greeted("birch", birch.greeting(said=said * MOST))
        return set(agent.conversation.statements._known)

    assert asyncio.run(heard()) == {BIRCH}


def test_why_a_run_was_left_is_told_with_the_new_key(network, identities, renewed):
    """A member that comes late gets elm's statement from before its renewal, and can count it."""
    net = network("going on")
    agreed, by = net.federation, Witnesses(net.federation, identities)
    made, new, _ = renewed("elm")
    after = knowing(agreed, made)
    statements = [by(i, DOGWOOD, 3) for i in (CEDAR, ELM)]

    async def told():
        elm = replace(participant_of(net, ELM, identities), federation=after, identity=new)
        elm.store.go_on(["dogwood"], 3, [each.SerializeToString() for each in statements])
        return list(loop_of(elm.present()).conversation.greeting("alder").absences)

    found = {each.witness: absence.signed_with(after, each) for each in asyncio.run(told())}
    assert found == {CEDAR: agreed.members[CEDAR].certificate, ELM: new.certificate}


def test_an_old_key_cannot_stand_between_two_members(network, identities, renewed):
    """alder and cedar are not neighbours: birch, which has stolen cedar's old key, hands on a key of its own."""
    net = network("secret-shared")
    made, new, _ = renewed("cedar")
    alder, cedar = (participant_of(net, i, identities) for i in (ALDER, CEDAR))
    after = knowing(alder.federation, made)
    public, own = KeyPair().public, KeyPair().public
    text, mine = (signed_text(cedar, _USE, CEDAR, each) for each in (own, public))
    right, stale = (Key(member=CEDAR, public=own, signature=who.sign(text)) for who in (new, cedar.identity))
    stolen = Key(member=CEDAR, public=public, signature=cedar.identity.sign(mine))
    delivery = Sums(replace(alder, federation=after), {})
    for key in (stolen, stale):
        delivery.take_key(key)
        assert CEDAR not in delivery._keys.known
    delivery.take_key(right)
    delivery.take_key(stolen)
    assert delivery._keys.known[CEDAR].public == own


def test_a_key_that_was_taken_before_a_renewal_is_handed_on_with_the_new_signature(network, identities, renewed):
    net = network("secret-shared")
    made, new, _ = renewed("cedar")
    alder, cedar = (participant_of(net, i, identities) for i in (ALDER, CEDAR))
    own = KeyPair().public
    text = signed_text(cedar, _USE, CEDAR, own)
    Sums(alder, {}).take_key(Key(member=CEDAR, public=own, signature=cedar.identity.sign(text)))
    delivery = Sums(replace(alder, federation=knowing(alder.federation, made)), {})  # after a restart
    newly = Key(member=CEDAR, public=own, signature=new.sign(text))
    delivery.take_key(newly)
    assert delivery._keys.known[CEDAR] == newly


def test_a_member_that_comes_late_takes_what_was_signed_before(network, identities, renewed):
    net = network("going on")
    made, new, _ = renewed("cedar")
    signed = meeting._signed(net.federation, CEDAR)
    birch = Speaker(net.federation, Identity.load(identities / "birch"))

    def known(who, after):
        async def asked():
            agent = loop_of(replace(participant_of(net, ALDER, identities), federation=after))
            statement = Met(member=CEDAR, signature=who.sign(signed))
            agent.conversation.greeted("birch", birch.greeting(met=[statement]))
            return CEDAR in agent.conversation.meeting._known

        return asyncio.run(asked())

    old, after = Identity.load(identities / "cedar"), knowing(net.federation, made)
    refused = replace(after, revoked=frozenset([fingerprint(made.old)]))
    assert not known(new, refused)  # first: what is known stays in the store
    with pytest.raises(BadMessage, match="cedar has not signed"):
        known(Identity.load(identities / "elm"), after)
    assert known(old, after)


def test_members_that_know_other_renewals_say_so_once(network, identities, renewed, caplog):
    """Two statements of one key, each accepted by others: both sides see that something is wrong."""
    net = network("broadcast")
    made, _, _ = renewed("cedar")
    fork, _, _ = renewed("cedar")
    mine, theirs = knowing(net.federation, made), knowing(net.federation, fork)
    birch, elm = (Speaker(each, Identity.load(identities / n)) for n, each in (("birch", theirs), ("elm", mine)))

    async def greeted():
        agent = loop_of(replace(participant_of(net, ALDER, identities), federation=mine))
        for _ in range(3):
            agent.conversation.greeted("birch", birch.greeting(renewals=theirs.renewed))
        agent.conversation.greeted("elm", elm.greeting(renewals=mine.renewed))
        assert agent.conversation.greeting("elm").renewals == mine.renewed

    with caplog.at_level(logging.WARNING):
        asyncio.run(greeted())
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "birch has other renewals of certificates in its federation file than we have"
    ]


@pytest.mark.parametrize("chain", ["kept", "dropped", "longer"])
def test_a_new_key_does_not_wipe_out_what_is_known_of_a_ledger(tmp_path, short_recipes, chain):
    """alder puts an old copy of its ledger back, and renews its key to be somebody else; or writes a next version
    without its renewal; or invents a certificate from before its first one."""
    identities, agreed = finished_run.agree(tmp_path, PRIVATE)
    shutil.copy(tmp_path / "alder.ledger", tmp_path / "old.ledger")
    if chain == "dropped":  # the run was finished with the new key
        made = renewal.begin(tmp_path / "alder", 30, 0)
        old, new = Identity.load(tmp_path / "alder"), Identity.load(tmp_path / "alder" / NEXT)
        new = replace(new, population_key=old.population_key)
        finished_run.live(tmp_path, knowing(agreed, made), identities | {"alder": new})
    else:
        finished_run.live(tmp_path, agreed, identities)
        made = renewal.begin(tmp_path / "alder", 30, 0)
    tags = [Identity.load(tmp_path / "alder").population_key]
    renewal.finish(tmp_path / "alder", made)
    new = Identity.load(tmp_path / "alder")
    assert [new.population_key] == tags
    alder = replace(agreed.members[0], certificate=made.new)
    renewals = {"kept": (made,), "dropped": (), "longer": (_invented(identities["alder"]), made)}[chain]
    later = replace(agreed, title="next", members=(alder, *agreed.members[1:]), renewals=renewals)
    with Ledger(tmp_path / "old.ledger", cost=filters.epsilon) as old, finished_run.ExitStack() as stack:
        taking = finished_run._participant(
            stack, tmp_path, later, identities | {"alder": new}, finished_run.SecureNoise, 0
        )
        birch = finished_run._participant(stack, tmp_path, later, identities, finished_run.SecureNoise, 1)
        mine, theirs = Heads(replace(taking, ledger=old)), Heads(birch)
        line = theirs.take("alder", Greeting(ledger=mine.own()))
        assert line.startswith("alder shows an old copy of its ledger")
        mine.take("birch", Greeting(seen=theirs.seen("alder")))  # which alder has signed
        with pytest.raises(Exception, match="birch has seen"):
            mine.require_current()


def _invented(own):
    """A renewal that leads to a member's first certificate."""
    before, until = Identity.made(own.name, 30), datetime.now(UTC).isoformat(timespec="seconds")
    text = renewal._signed(before.certificate, own.certificate, until)
    signatures = (base64.b64encode(each.sign(text)).decode() for each in (before, own))
    return renewal.Renewal(own.name, until, *signatures, before.certificate, own.certificate)


# At the door


def test_the_door_lets_both_keys_in_until_the_time_is_over(network, identities, renewed, clock):
    """birch has renewed its certificate; alder's process goes on running. Somebody has the old key."""
    agreed = network("broadcast").federation
    made, new, _ = renewed("birch", overlap=5)
    fork, thief, _ = renewed("birch", overlap=5)
    alder, old = (Identity.load(identities / name) for name in ("alder", "birch"))
    after, ask = knowing(agreed, made), Question(run=bytes.fromhex(agreed.run), sender=BIRCH)

    async def codes(federation, days):
        server = Server(federation, ALDER, alder, Rehearsed())
        await server.start(agreed.members[ALDER].address)
        try:
            clock.moved = timedelta(days)
            found = [await call(agreed, who, "Ask", ask) for who in (old, new, thief)]
            return [
                "OK" if isinstance(each, bytes) else "refused" if isinstance(each, Refused) else "out" for each in found
            ]
        finally:
            clock.moved = timedelta(0)
            await server.stop()

    assert asyncio.run(codes(agreed, 0)) == ["OK", "out", "out"]
    assert asyncio.run(codes(after, 0)) == ["OK", "OK", "out"]
    assert asyncio.run(codes(after, 6)) == ["refused", "OK", "out"]
    birch, revoked = agreed.members[BIRCH].certificate, frozenset([fingerprint(made.old)])
    assert birch == made.old == fork.old
    assert asyncio.run(codes(replace(after, revoked=revoked), 0)) == ["out"] * 3


def test_a_server_with_an_old_key_is_not_asked_any_longer(network, identities, renewed, clock):
    agreed = network("broadcast").federation
    made, new, _ = renewed("birch", overlap=5)
    alder, old = (Identity.load(identities / name) for name in ("alder", "birch"))

    async def asked(who, days):
        async def answer(method, caller, raw):
            return b"an answer"

        server = await Serving(agreed.members[BIRCH].address, who, [alder.certificate], answer).open()
        federation = knowing(agreed, made)
        peer = Peer(federation, ALDER, BIRCH, alder, Quiet())
        found = []
        for moved in (0, days):  # one process, while days pass
            clock.moved = timedelta(moved)
            try:
                found.append((await peer._asked(federation.accepted("birch"), ASK, b""))[1].decode())
            except ConnectionError as error:
                found.append(str(error))
        clock.moved = timedelta(0)
        await peer.close()
        await server.close()
        return found

    stranger = "showed a certificate that none of our neighbours has"
    assert asyncio.run(asked(old, 6)) == ["an answer", stranger]
    assert asyncio.run(asked(new, 6)) == ["an answer", "an answer"]


def test_a_run_with_a_revoked_member_stops_or_goes_on_without_it(network, identities):
    refusing = frozenset([fingerprint(Identity.load(identities / "elm").certificate)])

    def of(net, i=ALDER):
        participant = participant_of(net, i, identities)
        return replace(participant, federation=knowing(participant.federation, revoked=refusing))

    for i in (ALDER, CEDAR):  # a neighbour of elm, and another member
        with pytest.raises(Over, match=r"refused here: elm \(it is revoked here\)\. This run cannot go on"):
            of(network("broadcast", f"broadcast {i}"), i).check()
    net = network("going on")
    participant = of(net)
    participant.check()
    assert list(participant.federation.refused) == ["elm"]
    without = participant.without(["elm"])
    without.check()
    assert without.federation.refused == {}
    assert without.federation.run == net.federation.without(["elm"]).run  # the run of those who have only missed it
    assert not calls(
        participant.federation, ELM, participant.identity
    )  # and so it is silent here, and alder signs in time that it is away
    # Another member decides for itself.
    assert participant_of(net, BIRCH, identities).federation.accepted("elm")
    both = frozenset(fingerprint(Identity.load(identities / name).certificate) for name in ("birch", "elm"))
    alone = replace(participant, federation=knowing(participant.federation, revoked=both))
    with pytest.raises(Over, match=r"refused here: birch \(.*\), elm"):
        alone.check()


def test_an_agent_that_has_finished_does_not_stay_for_a_revoked_member(network, identities):
    near = frozenset(fingerprint(Identity.load(identities / name).certificate) for name in ("birch", "elm"))
    participant = participant_of(network("broadcast"), ALDER, identities)
    refusing = replace(participant, federation=knowing(participant.federation, revoked=near))

    async def leave():
        async with asyncio.timeout(60):
            await (loop := loop_of(refusing)).leave(linger=600.0)
        return loop

    loop = asyncio.run(leave())
    assert "staying" not in loop.doing
    assert refusing.store.finished_neighbours() == refusing.store.notified_neighbours() == set()  # it told nobody


def test_an_identity_that_is_renewed_must_be_used(network, renewed, identities):
    agreed, old = network("broadcast").federation, Identity.load(identities / "alder")
    made, new, _ = renewed("alder")
    still, _, _ = renewed("alder", overlap=5)
    with pytest.raises(InputError, match="add the statement to the file"):
        agreed.place("alder", new.certificate)
    with pytest.raises(InputError, match="was renewed, and counts no more"):
        knowing(agreed, made).place("alder", old.certificate)
    assert knowing(agreed, made).place("alder", new.certificate) == ALDER
    assert knowing(agreed, still).place("alder", old.certificate) == ALDER
