"""Ledgers that are shown to neighbours: an old copy, or a second one for the same people, is noticed."""

import shutil
from types import SimpleNamespace

import pytest

from tacit.agent import ledger_heads
from tacit.agent.clock import Clock
from tacit.agent.identity import Identity
from tacit.agent.ledger_heads import Books, Heads, Signed, contradiction, population_tag, signed_text
from tacit.agent.transport.wire import BadMessage
from tacit.agent.transport.wire_pb2 import Greeting
from tacit.errors import InputError, Over, TacitError
from tacit.privacy import filters
from tacit.privacy.events import Pure
from tacit.privacy.ledger import About, Cap, Head, Ledger

NAMES = ("alder", "birch", "cedar")


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    return {name: Identity.new(name, folder) for name in NAMES}


def new_ledger(path, population="patients", epsilon=5.0):
    ledger = Ledger.new(path, population=population, cost=filters.epsilon)
    ledger.set_cap(Cap(epsilon, 1e-6))
    return ledger


def spend(ledger, run, epsilon=0.1):
    ledger.reserve_run(run, {0: Pure(epsilon)}, About("m"))
    ledger.store(run, 0, b"sent")


@pytest.fixture
def member(identities, tmp_path):
    """Makes an agent's place in a run, as far as the heads of ledgers are concerned. Folders stay between runs."""

    def make(name, ledger, run):
        (tmp_path / name).mkdir(exist_ok=True)
        chains = {each: (identities[each].certificate,) for each in NAMES}
        federation = SimpleNamespace(
            names=list(NAMES),
            run=run,
            certificate=lambda each: identities[each].certificate,
            certificates=chains.__getitem__,
            accepted=chains.__getitem__,
        )
        participant = SimpleNamespace(
            name=name,
            federation=federation,
            identity=identities[name],
            ledger=ledger,
            books=Books(tmp_path / name),
            clock=Clock(),
            has_paid=run in {each.run for each in ledger.runs()},
        )
        return SimpleNamespace(name=name, participant=participant, heads=Heads(participant), books=participant.books)

    return make


def greet(one, other):
    """One calls, the other answers, as in `tacit.agent.loop`; gives what each has for its log."""

    def greeting(me, you):
        return Greeting.FromString(
            Greeting(name=me.name, ledger=me.heads.own(), seen=me.heads.seen(you.name)).SerializeToString()
        )

    heard = other.heads.take(one.name, greeting(one, other))
    return one.heads.take(other.name, greeting(other, one)), heard


def meet(one, other):
    """Both call, as agents do."""
    found = [greet(one, other), greet(other, one)]
    for each in (one, other):
        each.heads.require_current()
        each.heads.settle()
    return [line for pair in found for line in pair if line]


def test_ledgers_that_grow_are_met_again_and_again(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        for run in ("spring", "summer", "autumn"):
            alder, birch = member("alder", a, run), member("birch", b, run)
            assert meet(alder, birch) == []
            spend(a, run)
            spend(b, run)
            assert greet(alder, birch) == (None, None)  # before they leave
            certificate = alder.participant.identity.certificate
            kept = birch.books.of_run(certificate, run)
            assert list(kept) == ["newest"]
            assert kept["newest"].head == a.head()
            assert kept["newest"].of([certificate])


def test_an_old_copy_of_a_ledger_is_stopped_by_a_neighbour(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        shutil.copy(tmp_path / "a", tmp_path / "old")
        alder, birch = member("alder", a, "spring"), member("birch", b, "spring")
        meet(alder, birch)
        spend(a, "spring")
        greet(alder, birch)
        shutil.rmtree(tmp_path / "alder")  # the thief of a backup has no newer folder either
        with Ledger(tmp_path / "old", cost=filters.epsilon) as old:
            alder, birch = member("alder", old, "summer"), member("birch", b, "summer")
            assert greet(birch, alder)[0] == (
                "alder shows an old copy of its ledger: it had 4 rows, now 1; both are in the report"
            )
            greet(alder, birch)
            with pytest.raises(TacitError, match=r"birch has seen 4 rows of the ledger of 'patients', signed by alder"):
                alder.heads.require_current()
        certificate = alder.participant.identity.certificate
        kept = birch.books.of_run(certificate, "summer")
        assert {what: each.head.rows for what, each in kept.items()} == {"newest": 1, "before": 4, "after": 1}
        assert birch.books.known(certificate)[kept["before"].population] == kept["before"]


def test_an_old_copy_that_has_grown_since_is_stopped_all_the_same(member, tmp_path):
    """It is longer than what the neighbour knew: only its owner can tell that it is a fork."""
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        shutil.copy(tmp_path / "a", tmp_path / "old")
        alder, birch = member("alder", a, "spring"), member("birch", b, "spring")
        meet(alder, birch)
        spend(a, "spring", 2.0)
        greet(alder, birch)
        shutil.rmtree(tmp_path / "alder")
        with Ledger(tmp_path / "old", cost=filters.epsilon) as old:
            for extra in range(3):
                spend(old, f"fork {extra}", 0.01)
            for _ in range(2):  # also if the neighbour starts again in between
                alder, birch = member("alder", old, "summer"), member("birch", b, "summer")
                assert greet(birch, alder) == (None, None)
                greet(alder, birch)
                with pytest.raises(TacitError, match="birch has seen 4 rows"):
                    alder.heads.require_current()


def test_greetings_that_overtake_each_other_accuse_nobody(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        alder, birch = member("alder", a, "spring"), member("birch", b, "spring")
        early = Greeting(name="alder", ledger=alder.heads.own())
        spend(a, "another run")
        late = Greeting(name="alder", ledger=alder.heads.own())
        assert [birch.heads.take("alder", each) for each in (late, early, late)] == [None, None, None]
        kept = birch.books.of_run(alder.participant.identity.certificate, "spring")
        assert {what: each.head for what, each in kept.items()} == {"newest": a.head()}


def test_a_neighbour_cannot_fill_the_file(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b, new_ledger(tmp_path / "c", "more") as more:
        birch = member("birch", b, "spring")
        birch.heads.take("alder", Greeting(name="alder", ledger=member("alder", a, "spring").heads.own()))
        other = Greeting(name="alder", ledger=member("alder", more, "spring").heads.own())
        with pytest.raises(BadMessage, match="the ledger of a second population in one run"):
            birch.heads.take("alder", other)


def test_a_second_ledger_for_the_same_people_is_noticed_by_both(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b, new_ledger(tmp_path / "second") as second:
        meet(member("alder", a, "spring"), member("birch", b, "spring"))
        for extra in range(5):  # longer than the first
            spend(second, f"other {extra}")
        alder, birch = member("alder", second, "summer"), member("birch", b, "summer")
        assert greet(birch, alder)[0] == ("alder shows another ledger for the same population; both are in the report")
        greet(alder, birch)
        with pytest.raises(TacitError, match="it is an old copy, or a second ledger"):
            alder.heads.require_current()


def test_a_mistake_that_is_mended_before_anybody_pays_is_only_in_the_log(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b, new_ledger(tmp_path / "second") as second:
        meet(member("alder", a, "spring"), member("birch", b, "spring"))
        for extra in range(5):
            spend(second, f"other {extra}")
        birch, certificate = member("birch", b, "summer"), member("alder", a, "summer").participant.identity.certificate
        right = Greeting(name="alder", ledger=member("alder", a, "summer").heads.own())
        wrong = Greeting(name="alder", ledger=member("alder", second, "summer").heads.own())
        assert birch.heads.take("alder", wrong) is not None
        assert "before" in birch.books.of_run(certificate, "summer")
        assert birch.heads.take("alder", right) == "alder has put the right ledger back"
        kept = birch.books.of_run(certificate, "summer")
        assert {what: each.head for what, each in kept.items()} == {"newest": a.head()}
        birch.heads.settle()
        birch.heads.take("alder", wrong)  # when all have paid, it is evidence, and stays
        birch.heads.take("alder", right)
        assert set(birch.books.of_run(certificate, "summer")) == {"newest", "before", "after"}


def test_a_restart_does_not_let_anybody_take_evidence_back(member, tmp_path):
    """An agent that has paid does not forgive, in any process."""
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b, new_ledger(tmp_path / "second") as second:
        meet(member("alder", a, "spring"), member("birch", b, "spring"))
        alder, birch = member("alder", a, "summer"), member("birch", b, "summer")
        right = Greeting(name="alder", ledger=alder.heads.own())
        wrong = Greeting(name="alder", ledger=member("alder", second, "summer").heads.own())
        meet(alder, birch)
        spend(b, "summer")
        birch.heads.take("alder", wrong)
        birch = member("birch", b, "summer")  # killed, and started again
        for greeting in (wrong, right):
            birch.heads.take("alder", greeting)
        kept = birch.books.of_run(alder.participant.identity.certificate, "summer")
        assert set(kept) == {"newest", "before", "after"}


def test_a_member_that_changes_ledgers_within_its_first_run_is_noticed(member, tmp_path):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b, new_ledger(tmp_path / "second") as second:
        birch = member("birch", b, "spring")
        alder = member("alder", a, "spring")
        assert meet(alder, birch) == []
        other = Greeting(name="alder", ledger=member("alder", second, "spring").heads.own())
        assert birch.heads.take("alder", other) == (
            "alder shows another ledger for the same population; both are in the report"
        )
        certificate = alder.participant.identity.certificate
        assert [each.head.book for each in birch.books.known(certificate).values()] == [a.book]


def test_another_population_is_another_matter(member, tmp_path):
    with (
        new_ledger(tmp_path / "a") as a,
        new_ledger(tmp_path / "b") as b,
        new_ledger(tmp_path / "nurses", "nurses") as nurses,
    ):
        assert meet(member("alder", a, "spring"), member("birch", b, "spring")) == []
        found = meet(member("alder", nurses, "summer"), member("birch", b, "summer"))
        assert found == ["alder pays from the ledger of another population than before"]


def test_a_folder_knows_its_own_ledgers(member, tmp_path):
    with new_ledger(tmp_path / "a") as a:
        shutil.copy(tmp_path / "a", tmp_path / "old")
        books = member("alder", a, "spring").books
        books.require_new("patients")
        books.require_current(a)
        spend(a, "spring")
        books.note_own(a)
        books.require_current(a)
    with pytest.raises(InputError, match="knows a ledger of 'patients': go on with that one"):
        books.require_new("patients")
    books.require_new("nurses")
    with Ledger(tmp_path / "old", cost=filters.epsilon) as old, new_ledger(tmp_path / "second") as second:
        for wrong in (old, second):
            for refused in (books.require_current, books.note_own):
                with pytest.raises(TacitError, match="that one had 4 rows; put it back"):
                    refused(wrong)
    with Ledger(tmp_path / "a", cost=filters.epsilon) as a:
        books.require_current(a)


def test_a_folder_knows_which_ledger_has_paid_for_a_run(member, tmp_path):
    """Another one, of other people, has no marks of what has left in that run."""
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "nurses", "nurses") as nurses:
        books = member("alder", a, "spring").books
        books.require_payer("spring", nurses)  # a mistake that is mended before anybody pays
        books.note_payer("spring", a)
        for refused in (books.require_payer, books.note_payer):  # another process may have been faster
            with pytest.raises(Over, match=r"this run was paid for from another ledger than .*nurses") as over:
                refused("spring", nurses)
            assert over.value.exit_code == 78
        books.require_payer("spring", a)
        books.require_payer("summer", nurses)


def test_a_neighbour_cannot_stop_an_agent_with_a_head_of_its_own_making(member, tmp_path, identities):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        alder, birch = member("alder", a, "spring"), member("birch", b, "spring")
        tag, ahead = population_tag(identities["alder"], "patients"), a.head()._replace(rows=99)
        text = signed_text(tag, ahead)
        for signer in ("birch", "cedar"):
            forged = Signed(tag, ahead, identities[signer].sign(text).hex())
            greeting = Greeting(name="birch", ledger=birch.heads.own())
            greeting.seen.CopyFrom(packed(forged))
            with pytest.raises(BadMessage, match="shows a head of a ledger that alder has not signed"):
                alder.heads.take("birch", greeting)
        alder.heads.require_current()
        stolen = Greeting(name="cedar", ledger=birch.heads.own())  # cedar shows birch's as its own
        with pytest.raises(BadMessage, match="whose head it has not signed"):
            alder.heads.take("cedar", stolen)


def packed(signed):
    return ledger_heads._packed(signed)


@pytest.mark.parametrize("field", ["population", "book", "head", "signature"])
@pytest.mark.parametrize("value", [b"", b"x", b"x" * 1000])
def test_nonsense_is_refused(member, tmp_path, field, value):
    with new_ledger(tmp_path / "a") as a, new_ledger(tmp_path / "b") as b:
        alder, birch = member("alder", a, "spring"), member("birch", b, "spring")
        for where in ("ledger", "seen"):
            greeting = Greeting(name="birch")
            getattr(greeting, where).CopyFrom(birch.heads.own())
            setattr(getattr(greeting, where), field, value)
            with pytest.raises(BadMessage):
                alder.heads.take("birch", greeting)
        alder.heads.require_current()


def test_heads_that_contradict_each_other():
    head = Head("aa" * 16, 10, "bb" * 32)
    assert contradiction(head, head) is None
    assert contradiction(head, head._replace(rows=11, head="cc" * 32)) is None
    assert contradiction(head, head._replace(rows=9)) == "an old copy of its ledger: it had 10 rows, now 9"
    assert contradiction(head, head._replace(head="cc" * 32)) == "a ledger whose rows were rewritten"
    assert contradiction(head, head._replace(book="dd" * 16, rows=50)) == "another ledger for the same population"


def test_nobody_else_can_read_the_name_of_a_population(identities):
    tags = {population_tag(each, name) for each in identities.values() for name in ("patients", "nurses")}
    assert len(tags) == 6
    assert population_tag(identities["alder"], "patients") in tags
