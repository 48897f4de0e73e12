"""A ledger over the years: next month's file, cohorts, caps that are moved, and what a stranger can compute again."""

import csv
import itertools
import json
import random
import sqlite3
from collections import Counter

import numpy as np
import pytest
from ledger_worker import cost
from scipy.optimize import brentq
from scipy.stats import norm

from tacit.data import read_csv
from tacit.data.cohorts import cohorts_of, digest
from tacit.data.table import Table
from tacit.errors import InputError
from tacit.privacy import filters
from tacit.privacy.events import Gaussian, Laplace, Pure, SampledGaussian, to_plain
from tacit.privacy.ledger import About, BudgetExceeded, Cap, Ledger, LedgerError, Records
from tacit.privacy.ledger.account import EVERYBODY, NOTHING
from tacit.privacy.ledger.entries import Entry, canonical, hashed
from tacit.privacy.ledger.statement import statement

CAP = Cap(epsilon=2.0, delta=1e-6)
MONTHS = [f"2025-{month:02d}" for month in range(1, 13)]


@pytest.fixture
def ledger(tmp_path):
    with Ledger.new(tmp_path / "ledger", population="patients", cost=filters.epsilon, cohorts="admitted") as made:
        made.set_cap(CAP)
        yield made


def month_of(run):
    """The records of the file of a month: all that came until then."""
    return Records(f"{run:02x}" * 32, 1000 + 300 * run, tuple(MONTHS[: run + 1]))


def use(ledger, run, events, records=None):
    """A whole run: paid for, and its first message stored."""
    ledger.reserve_run(f"run {run}", dict(enumerate(events)), About("mr-admm", f"month {run}", records))
    ledger.store(f"run {run}", 0, b"%d" % run)


def gaussian_epsilon(multipliers, delta):
    """The exact epsilon of Gaussian mechanisms together, from their trade-off function alone (Dong, Roth and Su)."""
    mu = sum(m**-2.0 for m in multipliers) ** 0.5

    def excess(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0, 50, xtol=1e-13)


def test_twelve_months_of_growing_files_add_up_to_what_a_stranger_computes(tmp_path):
    """Without cohorts everybody pays for every run. The first run is planned, the others may depend on it: Gaussians
    alone compose exactly, at nine tenths of delta."""
    plan = [Gaussian(30.0)] * 4 + [Gaussian(50.0)] * 3
    multipliers = [30.0] * 4 + [50.0] * 3
    with Ledger.new(tmp_path / "ledger", population="patients", cost=filters.epsilon) as ledger:
        ledger.set_cap(CAP)
        for month in range(12):
            use(ledger, month, plan, month_of(month)._replace(cohorts=None))
            delta = CAP.delta if month == 0 else 0.9 * CAP.delta
            assert ledger.epsilon() == pytest.approx(gaussian_epsilon(multipliers * (month + 1), delta), rel=1e-9)
        said = statement(ledger)
        assert [each["rows"] for each in said["files"]] == [1000 + 300 * month for month in range(12)]
        assert len(said["runs"]) == 12
        assert [run["total"] for run in said["runs"]] == sorted(run["total"] for run in said["runs"])
        assert said["runs"][-1]["total"] == said["spent"]
        assert said["left"] == CAP.epsilon - said["spent"]
        more = said["forecast"]["more"]
        for extra in range(more):
            use(ledger, 12 + extra, plan)
        with pytest.raises(BudgetExceeded, match="is refused: epsilon = "):
            use(ledger, 12 + more, plan)
        assert statement(ledger)["forecast"]["more"] == 0
        ledger.verify()


def test_a_record_pays_only_for_the_runs_since_it_came(ledger):
    """A run of every kind, so that the cohorts do not cover each other. Each cohort's total is that of a ledger that
    saw its runs alone."""
    kinds = [[Gaussian(30.0)] * 3, [Laplace(80.0, 2)] * 5, [Pure(0.02)] * 4]
    plans = [kinds[month % 3] for month in range(12)]
    for month, plan in enumerate(plans):
        use(ledger, month, plan, month_of(month))
    found = ledger.by_cohort()
    assert list(found) == MONTHS
    for first, cohort in enumerate(MONTHS):
        since = [Counter(plan) for plan in plans[first:]]
        alone = filters.epsilon(since[0], sum(since[1:], Counter()), CAP)
        assert found[cohort] == pytest.approx(alone, rel=1e-12)
    assert ledger.epsilon() == max(found.values())
    assert found[MONTHS[-1]] < found[MONTHS[0]] / 3  # a newcomer has hardly paid
    assert [each["runs"] for each in statement(ledger)["cohorts"]] == list(range(12, 0, -1))


def test_what_was_released_before_a_cohort_came_is_no_release_about_it(ledger):
    """Its first run is a plan, at the tight accountant's price, although the run depends on what earlier ones said."""
    use(ledger, 0, [Laplace(60.0, 2)] * 4, month_of(0))
    new = Records("ff" * 32, 300, (MONTHS[5],))
    use(ledger, 1, [Laplace(60.0, 2)] * 4, new)
    alone = filters.epsilon(Counter([Laplace(60.0, 2)] * 4), Counter(), CAP)
    assert ledger.by_cohort() == {MONTHS[0]: alone, MONTHS[5]: alone}
    use(ledger, 2, [Laplace(60.0, 2)] * 4, new)  # from now on it may depend on what was said about them
    twice = Counter([Laplace(60.0, 2)] * 4)
    assert ledger.by_cohort()[MONTHS[5]] == filters.epsilon(twice, twice, CAP)


def test_a_run_that_does_not_name_its_records_is_charged_to_everybody_also_to_those_who_come_later(ledger):
    use(ledger, 0, [Pure(0.1)], month_of(0))
    use(ledger, 1, [Pure(0.2)])
    assert ledger.by_cohort()[MONTHS[0]] == pytest.approx(0.3)
    use(ledger, 2, [Pure(0.4)], Records("aa" * 32, 5, (MONTHS[8],)))
    assert ledger.by_cohort()[MONTHS[8]] == pytest.approx(0.6)


def test_a_cap_binds_the_cohort_that_has_spent_most_and_no_other(ledger):
    use(ledger, 0, [Pure(1.5)], month_of(0))
    with pytest.raises(BudgetExceeded, match=r"epsilon = 1.5 is spent, it would be 2.5; the cap is epsilon = 2"):
        use(ledger, 1, [Pure(1.0)], month_of(1))
    use(ledger, 2, [Pure(1.0)], Records("bb" * 32, 300, (MONTHS[1],)))  # the newcomers alone
    assert ledger.epsilon() == pytest.approx(1.5, rel=1e-5)
    with pytest.raises(BudgetExceeded):
        ledger.check_run(Counter([Pure(1.1)]), records=Records("cc" * 32, 300, (MONTHS[1],)))
    ledger.check_run(Counter([Pure(1.9)]), records=Records("dd" * 32, 300, (MONTHS[2],)))
    ledger.verify()


def test_a_cohort_with_fewer_events_may_cost_more(ledger):
    """A plan of Gaussians alone keeps a part of delta for what may join. A plan that has others from the start does not
    need to: with more events, it costs less."""
    more = Records("b" * 64, 9, (MONTHS[1],))
    both = Records("c" * 64, 18, (MONTHS[0], MONTHS[1]))
    ledger.reserve_run("a", {0: Gaussian(5.0)}, About("m", "", both))
    ledger.reserve_run("b", {0: Pure(1e-6)}, About("m", "", more))
    ledger.store("a", 0, b"x")
    ledger.reserve_run("c", {0: Laplace(40.0, 2)}, About("m", "", both))
    found = ledger.by_cohort()
    assert found[MONTHS[0]] > found[MONTHS[1]]
    assert ledger.epsilon() == found[MONTHS[0]]


def brute_force(history, cohorts):
    """What each cohort has spent: every row read once for every cohort, as (planned, later, released)."""
    found = {}
    for cohort in cohorts:
        planned, later, released, of_run = Counter(), Counter(), False, {}
        for kind, run, what in history:
            if kind == "run":
                of_run[run] = what
            elif of_run.get(run) is None or cohort in of_run[run]:
                if kind == "payload":
                    released = True
                else:
                    (later if released else planned)[what] += 1
        found[cohort] = planned, later, released
    return found


@pytest.mark.parametrize("seed", range(5))
def test_any_history_adds_up_as_by_brute_force(ledger, seed):
    rng = np.random.default_rng(seed)
    events = [Gaussian(60.0), Laplace(150.0, 2), Pure(0.01)]
    names, history = MONTHS[:4], []
    for run in range(12):
        records = None if rng.random() < 0.2 else Records(f"{run:064x}", 10, tuple(sorted(set(rng.choice(names, 2)))))
        plan = [events[k] for k in rng.integers(0, 3, 3)]
        ledger.reserve_run(str(run), dict(enumerate(plan)), About("m", "", records))
        history.append(("run", str(run), None if records is None else set(records.cohorts)))
        history += [("reserve", str(run), event) for event in plan]
        if rng.random() < 0.6:
            ledger.store(str(run), 0, b"x")
            history.append(("payload", str(run), None))
    named = {cohort for kind, _, what in history if kind == "run" for cohort in what or ()}
    spent = brute_force(history, sorted(named))
    wanted = {cohort: filters.epsilon(planned, later, CAP) for cohort, (planned, later, _) in spent.items()}
    assert ledger.by_cohort() == pytest.approx(wanted, rel=1e-12)
    assert ledger.epsilon() == pytest.approx(max(wanted.values()), rel=1e-12)
    with Ledger(ledger.path, cost=filters.epsilon) as again:
        assert again.by_cohort() == pytest.approx(wanted, rel=1e-12)
        again.verify()


@pytest.mark.parametrize("seed", range(200))
def test_rows_add_up_in_whatever_batches_they_are_read(seed):
    """Most marks change nothing and are skipped. That is seen from what was known before the batch, in which runs may
    be named, cohorts may come, and payloads and marks may be mixed."""
    rng, rows, history, named = random.Random(seed), [], [], set()
    for number in range(1, 25):
        kind, run, what, body = (
            rng.choice(["run", "reserve", "reserve", "mark", "payload"]),
            rng.choice("pqr"),
            None,
            b"",
        )
        if kind == "run":
            if run in named:
                continue  # the file has one such row at most
            named.add(run)
            what = rng.choice([None, ["a"], ["b"], ["a", "b"], ["c"]])
            body = canonical({"when": "", "method": "", "title": "", "digest": None, "cohorts": what})
        elif kind == "reserve":
            what = rng.choice([Pure(0.01), Gaussian(60.0)])
            body = canonical(to_plain(what))
        rows.append(Entry(number, kind, run, number, body, "", ""))
        history.append(("payload" if kind == "mark" else kind, run, what))
    found, start = NOTHING, 0
    while start < len(rows):
        end = start + rng.randrange(1, 12)
        found, start = found.after(rows[start:end]), end
    wanted = brute_force(history, ["a", "b", "c", "nobody has named it"])
    assert {cohort: tuple(found.of.get(cohort, found.of[EVERYBODY])) for cohort in wanted} == wanted


# What a ledger says about files, caps and heads


def test_a_run_cannot_go_on_with_other_records(ledger):
    plan = {0: Pure(0.1)}
    ledger.reserve_run("spring", plan, About("m", "", month_of(0)))
    ledger.reserve_run("spring", plan, About("m", "", month_of(0)))  # after a restart
    assert ledger.epsilon() == pytest.approx(0.1, rel=1e-4)
    for others in (month_of(1), month_of(0)._replace(digest="99" * 32), None):
        with pytest.raises(LedgerError, match="began with other records"):
            ledger.reserve_run("spring", plan, About("m", "", others))
    assert len(ledger.files()) == 1
    ledger.reserve_run("spring", plan | {1: Pure(0.1)})
    assert ledger.by_cohort() == {MONTHS[0]: pytest.approx(0.2, rel=1e-4)}  # a further round is of the same records


def test_no_digest_of_records_and_no_hash_of_a_row_leaves_the_file_unsalted(ledger):
    use(ledger, 0, [Pure(0.1)], month_of(0))
    said = json.dumps(statement(ledger)) + str(ledger.head()) + str(ledger.verify())
    secrets = [month_of(0).digest, *(entry.hash for entry in ledger.entries())]
    assert not any(secret in said for secret in secrets)
    assert ledger.knows(month_of(0))
    assert not ledger.knows(month_of(1))


def test_every_cap_stays_with_when_who_and_why(ledger):
    ledger.set_cap(Cap(3.0, 1e-6), who="the ethics board", why="second study")
    ledger.set_cap(Cap(2.5, 1e-6))
    caps = ledger.caps()
    assert [each["epsilon"] for each in caps] == [2.0, 3.0, 2.5]
    assert (caps[1]["who"], caps[1]["why"]) == ("the ethics board", "second study")
    assert caps[2]["who"]
    assert caps == sorted(caps, key=lambda each: each["when"])


def test_a_head_belongs_to_one_ledger_and_to_its_past(ledger, tmp_path):
    early = ledger.head()
    use(ledger, 0, [Pure(0.1)], month_of(0))
    late = ledger.head()
    assert ledger.contains(early)
    assert ledger.contains(late)
    assert not ledger.contains(late._replace(rows=late.rows - 1))
    assert not ledger.contains(late._replace(rows=late.rows + 1))
    assert not ledger.contains(late._replace(head=early.head))
    with Ledger.new(tmp_path / "second", population="patients", cost=filters.epsilon) as second:
        second.set_cap(CAP)
        assert not second.contains(early)
        assert not second.contains(early._replace(book=second.book))


def test_other_cohorts_or_another_population_is_another_ledger(ledger, tmp_path):
    for population, column in (("patients", "arrived"), ("patients", ""), ("nurses", "admitted")):
        with pytest.raises(LedgerError, match="is the ledger of 'patients'"):
            Ledger.open(tmp_path / "ledger", population=population, cost=cost, cohorts=column)


# Ledgers of an older tacit


def old_ledger(path, *, rows, dataset="sha256:00"):
    """A ledger of format 1: caps, reservations, payloads, chained as they were."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE meta (format INTEGER, dataset TEXT, created TEXT)")
    db.execute("CREATE TABLE entries (number INTEGER, kind TEXT, run TEXT, tick INTEGER, body BLOB, previous, hash)")
    meta = (1, dataset, "2024-02-29T00:00:00+00:00")
    db.execute("INSERT INTO meta VALUES (?, ?, ?)", meta)
    previous = hashed(*meta)
    for number, row in enumerate(rows, 1):
        entry = (number, *row, previous)
        previous = hashed(*entry)
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", (*entry, previous))
    db.close()


OLD = [
    ("cap", "", 0, b'{"delta":1e-06,"epsilon":9.0}'),
    ("reserve", "spring", 0, b'{"epsilon":0.5,"event":"Pure"}'),
    ("payload", "spring", 0, b"sent"),
    ("reserve", "spring", 1, b'{"epsilon":0.25,"event":"Pure"}'),
]


def test_what_an_old_ledger_has_spent_can_be_taken_over(ledger, tmp_path):
    old_ledger(tmp_path / "old", rows=OLD)
    with pytest.raises(LedgerError, match="take over what it has spent: tacit ledger new --from"):
        Ledger(tmp_path / "old", cost=cost)
    ledger.take_over(tmp_path / "old")
    assert ledger.epsilon() == 0.75
    assert ledger.payload("spring", 0) == b"sent"
    use(ledger, 0, [Pure(0.5)], month_of(0))
    assert ledger.by_cohort()[MONTHS[0]] == 1.25  # everybody may have been in the old file
    head = ledger.head()
    with pytest.raises(LedgerError, match="it was taken over"):
        ledger.take_over(tmp_path / "old")
    old_ledger(tmp_path / "dear", rows=[OLD[0], ("reserve", "x", 0, b'{"epsilon":0.8,"event":"Pure"}')])
    with pytest.raises(BudgetExceeded, match=r"epsilon = 2.05 would be spent; the cap is epsilon = 2 "):
        ledger.take_over(tmp_path / "dear")
    assert ledger.head() == head
    assert ledger.epsilon() == 1.25
    for fault, change in itertools.product([LedgerError], ["body = x'00'", "number = 9", "previous = ''"]):
        (tmp_path / "bad").unlink(missing_ok=True)
        old_ledger(tmp_path / "bad", rows=OLD)
        sqlite3.connect(tmp_path / "bad", isolation_level=None).execute(
            f"UPDATE entries SET {change} WHERE number = 2"
        ).connection.close()
        with pytest.raises(fault, match="its content is not what was written"):
            ledger.take_over(tmp_path / "bad")


def test_a_gaussian_on_a_sample_in_an_old_ledger_counts_in_full(tmp_path):
    """It was defined by what taking a record out moves, Delta; now that is Delta/2."""
    sampled = ("reserve", "spring", 0, b'{"event":"SampledGaussian","multiplier":4.0,"rate":0.1}')
    old_ledger(tmp_path / "old", rows=[OLD[0], sampled])
    with Ledger.new(tmp_path / "new", population="p", cost=filters.epsilon) as ledger:
        ledger.set_cap(Cap(9.0, 1e-6))
        ledger.take_over(tmp_path / "old")
        assert dict(ledger.spent()) == {SampledGaussian(2.0, 0.1): 1}


# Which records a file has


def test_a_file_saved_in_another_way_has_the_same_digest(tmp_path):
    rows = [["age", "ward"], ["44", "surgery"], ["51", "eyes, ears"]]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    with (tmp_path / "b.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(rows)
    rows[1][0] = "45"
    with (tmp_path / "c.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    same, again, other = (digest(read_csv(tmp_path / f"{name}.csv")) for name in "abc")
    assert same == again != other


def table_of(tmp_path, cells):
    (tmp_path / "t.csv").write_text("admitted,x\n" + "".join(f"{cell},1\n" for cell in cells))
    return read_csv(tmp_path / "t.csv")


def test_cohorts_are_months_and_years_however_they_are_written(tmp_path):
    cells = ["2024-03-17", "2024-03-02 12:00", "2024-03-17T00:00:00", "2024-03-17Z", "2024-04", "2023"]
    assert cohorts_of(table_of(tmp_path, cells), "admitted") == ("2023", "2024-03", "2024-04")
    assert cohorts_of(table_of(tmp_path, ["2024", "2024.0", "\uff12\uff10\uff12\uff14"]), "admitted") == ("2024",)


def table(source="a.csv", **columns):
    return Table({name: np.array(cells, dtype=object) for name, cells in columns.items()}, source)


def test_years_beside_months_are_refused_in_one_file_and_in_one_ledger():
    """A record of 2024 would not be charged for a run on 2024-03."""
    for cells in (["2024", "2024-03"], ["2023", "2024-03-17", "2024"]):
        with pytest.raises(InputError, match="the cohorts 2024 and 2024-03 overlap"):
            cohorts_of(table(came=cells), "came")
    assert cohorts_of(table(came=["2023", "2024-03"]), "came") == ("2023", "2024-03")


def test_no_two_files_have_one_digest():
    """Cells that are cut in another place, columns that change places or names, one record more."""
    files = [
        {"a": ["12", "3"], "b": ["4", "5"]},
        {"a": ["1", "23"], "b": ["4", "5"]},
        {"a": ["12", "34"], "b": ["", "5"]},
        {"b": ["4", "5"], "a": ["12", "3"]},
        {"a": ["12", "3"], "c": ["4", "5"]},
        {"a": ["12", "3", ""], "b": ["4", "5", ""]},
        {"a": ["3", "12"], "b": ["5", "4"]},
    ]
    tables = [table(**each) for each in files]
    assert len(set(map(digest, tables))) == len(tables)
    assert digest(tables[0]) == digest(table("b.csv", **files[0]))


@pytest.mark.parametrize(
    ("cells", "column", "refusal"),
    [
        (["2024", ""], "admitted", "t.csv line 3 has no 'admitted'"),
        (["2024", "2024-03"], "admitted", "the cohorts 2024 and 2024-03 overlap"),
        (["2024"], "arrived", "by the column 'arrived', which t.csv does not have"),
        *(
            ([odd], "admitted", "a cohort is a year .* or a day .*: t.csv line 2, column 'admitted'")
            for odd in ("05.07.2026", "unknown", "x2024-03-17", "2024-13", "20240317", "08/07/2026", "2024-Q1")
        ),
    ],
)
def test_a_file_without_cohorts_is_refused(tmp_path, cells, column, refusal):
    with pytest.raises(InputError, match=refusal):
        cohorts_of(table_of(tmp_path, cells), column)
