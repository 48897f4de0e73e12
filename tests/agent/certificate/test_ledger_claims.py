"""Ledgers in reports and certificates: an old one, a second one and a rewritten one are refused and named."""

import shutil
from contextlib import ExitStack, closing

import pytest
from finished_run import PRIVATE, finished
from ledger_case import tamper

from tacit.agent.certificate import verdict
from tacit.agent.certificate.claims import BELIEVED, checked
from tacit.agent.certificate.examination import examined
from tacit.agent.ledger_heads import population_tag, signed_text
from tacit.errors import TacitError
from tacit.privacy import filters
from tacit.privacy.events import Pure
from tacit.privacy.ledger import Cap, Ledger
from tacit.privacy.ledger.entries import hashed


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("run"), PRIVATE)


def faults(run, document=None, ledger=None):
    """All faults of a certificate, with the ledger that birch shows."""
    document = run.certificate() if document is None else document
    if ledger is None:
        return list(map(str, examined(document).faults))
    with closing(Ledger(ledger, cost=filters.epsilon)) as opened:
        opened.verify()
        return list(map(str, examined(document, ledgers={"shown": opened}).faults))


def signed_head(run, name, head, population=None):
    """A head as `name` would show it."""
    tag = population_tag(run.identities[name], population or name)
    signature = run.identities[name].sign(signed_text(tag, head)).hex()
    return {"population": tag, **head._asdict(), "signature": signature}


def resigned(run, document, name, change):
    """The certificate with a report that `name` has changed and signed again."""
    k = [each["report"]["member"] for each in document["reports"]].index(name)
    change(document["reports"][k]["report"])
    document["reports"][k] = run.signed(name, document["reports"][k]["report"])


def rechained(path, dropped):
    """Removes the rows of these numbers, and writes all hashes anew: whoever owns the file can do that."""
    with closing(Ledger(path, cost=filters.epsilon)) as ledger:
        rows, previous = [each for each in ledger.entries() if each.number not in dropped], ledger._file.origin
    changes = ["DELETE FROM entries"]
    for number, each in enumerate(rows, 1):
        row = each._replace(number=number, previous=previous)
        previous = hashed(*row[:-1])
        fields = f"{number}, '{row.kind}', '{row.run}', {row.tick}, x'{row.body.hex()}', '{row.previous}', '{previous}'"
        changes.append(f"INSERT INTO entries VALUES ({fields})")
    tamper(path, *changes)


def test_the_right_ledger_is_proved(run):
    with closing(Ledger(run.folder / "birch.ledger", cost=filters.epsilon)) as ledger:
        found = verdict.as_plain(examined(run.certificate(), ledgers={"birch.ledger": ledger}))
    assert found["faults"] == []
    (line,) = (each for each in found["proved"] if "ledger" in each)
    assert line.startswith("The ledger of birch adds up, has paid for this run")
    assert BELIEVED["ledger"] in found["believed"]  # of the others
    with ExitStack() as stack:
        names = [member.name for member in run.federation.members]
        all_of_them = {
            name: stack.enter_context(closing(Ledger(run.folder / f"{name}.ledger", cost=filters.epsilon)))
            for name in names
        }
        found = verdict.as_plain(examined(run.certificate(), ledgers=all_of_them))
    assert [each for each in found["proved"] if "ledger" in each] == [
        f"The ledger of {name} adds up, has paid for this run, and is the one that the neighbours were shown."
        for name in names
    ]
    assert BELIEVED["ledger"] not in found["believed"]


def test_a_ledger_that_went_on_since_is_right(run, tmp_path):
    shutil.copy(run.folder / "birch.ledger", tmp_path / "later")
    with closing(Ledger(tmp_path / "later", cost=filters.epsilon)) as ledger:
        ledger.set_cap(Cap(12.0, 1e-5), why="a further study")
    assert faults(run, ledger=tmp_path / "later") == []


def test_an_old_copy_is_refused(run, tmp_path):
    shutil.copy(run.folder / "birch.ledger", tmp_path / "old")
    tamper(tmp_path / "old", "DELETE FROM entries WHERE number > 20")
    found = faults(run, ledger=tmp_path / "old")
    assert any("rows in the report of birch: it is an old copy, or was rewritten" in line for line in found)
    assert any("has not paid for what birch released" in line for line in found)


def test_a_second_ledger_is_refused(run, tmp_path):
    with closing(Ledger.new(tmp_path / "second", population="birch", cost=filters.epsilon)) as second:
        second.set_cap(Cap(10.0, 1e-5))
    (fault,) = faults(run, ledger=tmp_path / "second")
    assert fault == "shown: no report names this ledger: whoever shows it has paid from another one"


def test_a_moved_cap_cannot_be_hidden(run, tmp_path):
    """The first row is the cap. Another one in its place, all hashes right: the ledger adds up by itself."""
    shutil.copy(run.folder / "birch.ledger", tmp_path / "hidden")
    with closing(Ledger(tmp_path / "hidden", cost=filters.epsilon)) as ledger:
        ledger.set_cap(Cap(3.0, 1e-5))
        moved = ledger.head().rows
    with closing(Ledger(tmp_path / "hidden", cost=filters.epsilon)) as ledger:
        kept = ledger.head().head
    rechained(tmp_path / "hidden", {moved})
    with closing(Ledger(tmp_path / "hidden", cost=filters.epsilon)) as ledger:
        assert [each["epsilon"] for each in ledger.caps()] == [10.0]
        ledger.verify()
        with pytest.raises(Exception, match="rows were lost or rewritten"):
            ledger.verify(kept)  # whoever has seen the moved cap
    rechained(tmp_path / "hidden", {2})  # a row of the history that the certificate has seen
    assert any("it is an old copy, or was rewritten" in line for line in faults(run, ledger=tmp_path / "hidden"))


def test_a_report_that_names_another_ledger_than_the_neighbours_were_shown(run, tmp_path):
    with closing(Ledger.new(tmp_path / "second", population="birch", cost=filters.epsilon)) as second:
        second.set_cap(Cap(10.0, 1e-5))
        head = second.head()
    document = run.certificate()
    resigned(run, document, "birch", lambda report: report["ledger"].update(head._asdict()))
    found = faults(run, document)
    assert "reports.birch.ledger.book: alder was shown another book, signed by birch" in found
    assert "reports.birch.ledger.book: cedar was shown another book, signed by birch" in found


def test_a_neighbour_that_has_seen_two_ledgers_is_believed_because_both_are_signed(run, tmp_path):
    document = run.certificate()
    (mine,) = (each["report"]["ledger"] for each in document["reports"] if each["report"]["member"] == "birch")
    with closing(Ledger(run.folder / "birch.ledger", cost=filters.epsilon)) as ledger:
        own = ledger.head()
    assert mine["book"] == own.book
    before = signed_head(run, "birch", own._replace(book="ab" * 16, rows=900))
    after = signed_head(run, "birch", own)

    def add(report):
        report["ledgers"]["birch"]["contradiction"] = {"before": before, "after": after}

    resigned(run, document, "alder", add)
    (found,) = faults(run, document)
    assert found == "reports.alder.ledgers.birch.contradiction: birch showed another ledger for the same population"
    before["rows"] = 901
    resigned(run, document, "alder", add)
    (found,) = faults(run, document)
    assert found.startswith("reports.alder.ledgers.birch.contradiction.before: birch has not signed this")
    before = signed_head(run, "birch", own._replace(rows=own.rows - 1))
    resigned(run, document, "alder", add)
    (found,) = faults(run, document)
    assert found.endswith("contradiction: is none: one ledger can have both heads")


def test_members_that_lie_together_about_a_ledger_are_found_with_the_ledger(run, tmp_path):
    """All neighbours repeat what birch has signed about a ledger that never paid."""
    with closing(Ledger.new(tmp_path / "second", population="birch", cost=filters.epsilon)) as second:
        second.set_cap(Cap(10.0, 1e-5))
        for tick in range(40):  # as long as a ledger that had paid
            second.reserve("another", tick, Pure(1e-6))
            second.store("another", tick, b"x")
        shown = signed_head(run, "birch", second.head())
    document = run.certificate()
    resigned(run, document, "birch", lambda report: report["ledger"].update(second_of(shown)))
    for name in ("alder", "cedar"):
        resigned(run, document, name, lambda report: report["ledgers"]["birch"].update(newest=shown))
    assert faults(run, document) == []
    (fault,) = faults(run, document, tmp_path / "second")
    assert "it has not paid for what birch released in the run" in fault


def test_an_old_copy_stops_before_anybody_pays(run, tmp_path):
    """Over the wire: the neighbours show what they have seen, and the agent does not even say that it has met them."""
    shutil.copytree(run.folder, tmp_path, dirs_exist_ok=True)
    tamper(tmp_path / "alder.ledger", "DELETE FROM entries WHERE number > 1")
    (tmp_path / "alder" / "ledgers.db").unlink()  # restored from the same backup

    def spent(name):
        with closing(Ledger(tmp_path / f"{name}.ledger", cost=filters.epsilon)) as ledger:
            return ledger.spent(), ledger.runs()

    before = [spent(name) for name in ("birch", "cedar")]
    with pytest.raises(TacitError, match=r"rows of the ledger of 'alder', signed by alder; .* it is an old copy"):
        finished(tmp_path, PRIVATE, title="next month")
    assert [spent(name) for name in ("birch", "cedar")] == before
    with closing(Ledger(tmp_path / "alder.ledger", cost=filters.epsilon)) as ledger:
        assert ledger.runs() == []
    shutil.copy(run.folder / "alder.ledger", tmp_path / "alder.ledger")  # the right one
    again = finished(tmp_path, PRIVATE, title="the month after")
    assert faults(again) == []
    with closing(Ledger(tmp_path / "alder.ledger", cost=filters.epsilon)) as ledger:
        assert len(ledger.runs()) == 2


def second_of(shown):
    return {key: value for key, value in shown.items() if key != "signature"}


def test_one_ledger_cannot_be_named_by_two_members(run):
    document = run.certificate()
    of = {each["report"]["member"]: each["report"] for each in document["reports"]}
    birch = of["birch"]["ledger"]
    resigned(
        run, document, "cedar", lambda report: report["ledger"].update(birch, population=report["ledger"]["population"])
    )
    found = faults(run, document, run.folder / "birch.ledger")
    assert "reports.cedar.ledger.book: birch names the same book: one ledger cannot pay for two members" in found


def test_a_ledger_too_short_to_have_paid_is_refused(run):
    document = run.certificate()
    resigned(run, document, "cedar", lambda report: report["ledger"].update(rows=1))
    assert "reports.cedar.ledger.rows: a ledger with a cap, this run and its 33 releases has 68 rows or more" in faults(
        run, document
    )


def test_a_member_that_shows_no_ledger_is_named_and_its_neighbours_reports_hold(run):
    document = run.certificate()
    resigned(run, document, "alder", lambda report: report["ledgers"]["birch"].update(newest=None))
    assert faults(run, document) == ["reports.alder.ledgers.birch.newest: birch showed alder no ledger"]
    signed = next(each for each in document["reports"] if each["report"]["member"] == "alder")
    assert checked(signed, run.federation)[1] == []
