"""Bugs of bookkeeping, one changed line each, and the test that must fail with each of them.

Somebody remembers or counts wrongly: an event that nobody pays for, a limit that is too high, noise or a sample that is
used again, a cohort that does not pay. Audits see releases, not books, so each of these has a law in the suite. The bug
is planted in a copy of the sources, and its test runs there, in a process of its own.

    python tests/planted_book_bugs.py [NAME]

tries all of them, or those with NAME in their names, says which test failed, and exits with 1 if one passed. `make
audit` does the same and writes the table in docs/evidence/audits.md; `tests/privacy/test_planted_bugs.py` plants the
quickest.

To add a bug, add a row, with the shortest test that fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from planted_privacy_bugs import REUSED_SAMPLE, REUSED_SECURE_SHARE, REUSED_SHARE, SOURCES, plant

ROOT = Path(__file__).resolve().parent.parent


class BookBug(NamedTuple):
    kind: str  # which promise is broken
    name: str
    file: str  # below src/tacit
    old: str  # a part of exactly one line
    new: str  # what stands there instead
    test: str  # the file and the function, below tests


BOOK_BUGS = [
    BookBug(
        "an event not charged",
        "a noisy gradient leaves as post-processing",
        "privacy/mechanisms.py",
        "deviation, ids, t, onto=public), Alike.same(budget, len(f)))",
        "deviation, ids, t, onto=public), Alike.same(_POST_PROCESSING, len(f)))",
        "privacy/test_bookkeeping.py::test_what_depends_on_a_record_is_charged",
    ),
    BookBug(
        "an event not charged",
        "equal releases of a run count once",
        "simulation/spent.py",
        "counter[event] += times",
        "counter[event] = times",
        "privacy/test_plan.py::test_a_plan_is_what_the_run_spends",
    ),
    BookBug(
        "a curvature not charged",
        "several classes pay for a Hessian of rank one",
        "core/multinomial.py",
        "return (self.classes - 1) * np.log1p(max(self.weights) * np.asarray(curvature, float) / self.classes)",
        "return np.log1p(max(self.weights) * np.asarray(curvature, float) / 2)",
        "privacy/test_objective_classes.py::test_the_pure_cost_is_nearly_attained_and_one_factor_would_be_false",
    ),
    BookBug(
        "a curvature not charged",
        "a single release of several classes pays for a Hessian of rank one",
        "privacy/formulas/closed_forms.py",
        "bent = (classes - 1) * math.log1p(curvature * 2 / classes)",
        "bent = math.log1p(curvature)",
        "privacy/test_objective_classes.py::test_the_cost_of_a_single_release_holds_for_the_true_densities",
    ),
    BookBug(
        "an event not charged",
        "an agent sends what it did not plan",
        "agent/loop.py",
        "if event != participant.events[t]:",
        "if event is None:",
        "privacy/test_bookkeeping.py::test_an_agent_sends_nothing_that_it_did_not_plan",
    ),
    BookBug(
        "an event not charged",
        "the ledger does not pay for the last release",
        "run/spending.py",
        "account.reserve_run(run, dict(enumerate(events)), about)",
        "account.reserve_run(run, dict(enumerate(events[:-1])), about)",
        "privacy/test_bookkeeping.py::test_the_ledger_the_statement_and_the_budget_have_the_same_events",
    ),
    BookBug(
        "an event not charged",
        "counts of a few bits wrap around",
        "privacy/accounting.py",
        "return int(n)",
        "return n",
        "privacy/test_events.py::test_counts_of_a_few_bits_do_not_wrap_around",
    ),
    BookBug(
        "a noisy count not charged",
        "the ledger does not pay for the count",
        "run/setting.py",
        "return [*self.before, *worst(self.plan.events)]",
        "return [*worst(self.plan.events)]",
        "privacy/test_bookkeeping.py::test_the_ledger_the_statement_and_the_budget_have_the_same_events",
    ),
    BookBug(
        "a noisy count not charged",
        "the statement leaves the count out",
        "run/setting.py",
        "[Counter(counter) + Counter(self.before) for counter in",
        "[Counter(counter) for counter in",
        "privacy/test_bookkeeping.py::test_the_ledger_the_statement_and_the_budget_have_the_same_events",
    ),
    BookBug(
        "a noisy count not charged",
        "the steps get all of the budget",
        "run/recipes.py",
        "largest_budget(make, facts, graph, paid, epsilon=epsilon, delta=delta, before=before)",
        "largest_budget(make, facts, graph, paid, epsilon=epsilon, delta=delta)",
        "privacy/test_bookkeeping.py::test_the_ledger_the_statement_and_the_budget_have_the_same_events",
    ),
    BookBug(
        "a reservation one short",
        "the tick in doubt after a drop-out is not reserved",
        "agent/participant.py",
        "spare = range(federation.rounds, federation.rounds + federation.dropouts)",
        "spare = range(federation.rounds, federation.rounds + federation.dropouts - 1)",
        "agent/membership/test_dropout.py::test_the_budget_pays_for_the_tick_that_is_said_twice",
    ),
    BookBug(
        "a reservation one short",
        "the noise is calibrated without the tick in doubt",
        "run/recipes.py",
        "paid = rounds + trust.dropouts",
        "paid = rounds",
        "run/test_request.py::test_the_budget_pays_for_the_tick_that_a_drop_out_leaves_in_doubt",
    ),
    BookBug(
        "a reservation one short",
        "a run is accepted that costs more with the tick in doubt",
        "run/setting.py",
        "more = self.spec.trust.dropouts",
        "more = 0",
        "run/test_request.py::test_the_budget_pays_for_the_tick_that_a_drop_out_leaves_in_doubt",
    ),
    BookBug(
        "a reservation one short",
        "the ledger leaves out the last round of a run",
        "privacy/ledger/ledger.py",
        "for tick in new:",
        "for tick in new[:-1]:",
        "privacy/test_ledger.py::test_a_run_is_reserved_wholly_or_not_at_all",
    ),
    BookBug(
        "a drop-out limit raised",
        "a member may release once more than was paid for",
        "agent/membership/dropout.py",
        "most = agreed.rounds + agreed.dropouts",
        "most = agreed.rounds + agreed.dropouts + 1",
        "agent/membership/test_dropout.py::test_an_agent_counts_its_releases",
    ),
    BookBug(
        "a drop-out limit raised",
        "a run goes on without one member too many",
        "agent/federation.py",
        "if len(absent) > agreed.dropouts:",
        "if len(absent) > agreed.dropouts + 1:",
        "agent/membership/test_dropout.py::test_the_run_without_a_member_has_the_same_noise_and_steps",
    ),
    BookBug(
        "a drop-out limit raised",
        "an event counts on shares of members that are away",
        "privacy/mechanisms.py",
        "SharedGaussian(m, members, colluders, dropouts), (deviation",
        "SharedGaussian(m, members, colluders, 0), (deviation",
        "algorithms/test_summed_gradient_descent.py::test_members_with_different_numbers_of_rows_pay_by_their_own",
    ),
    BookBug(
        "a share reused",
        "every member draws its share once",
        *REUSED_SHARE,
        "privacy/test_fresh_noise.py::test_every_total_has_noise_of_its_own",
    ),
    BookBug(
        "a share reused",
        "the same, with secure noise only",
        *REUSED_SECURE_SHARE,
        "privacy/test_fresh_noise.py::test_every_total_has_noise_of_its_own",
    ),
    BookBug(
        "a sample reused",
        "the first sample is that of all gradients",
        *REUSED_SAMPLE,
        "privacy/test_fresh_noise.py::test_every_gradient_has_a_sample_of_its_own",
    ),
    BookBug(
        "a wrong cohort",
        "the later cohorts of a file do not pay",
        "data/cohorts.py",
        "return tuple(sorted(found))",
        "return tuple(sorted(found))[:1]",
        "privacy/test_population.py::test_cohorts_are_months_and_years_however_they_are_written",
    ),
    BookBug(
        "a wrong cohort",
        "of files in parts, only the cohorts of the first pay",
        "cli/records.py",
        "for part in parts for cohort in part.cohorts or ()}) if column else None",
        "for part in parts[:1] for cohort in part.cohorts or ()}) if column else None",
        "engines/test_records_in_parts.py::test_files_in_parts_are_the_file_of_all_records",
    ),
    BookBug(
        "a wrong cohort",
        "a cohort that a run names first starts with nothing",
        "privacy/ledger/account.py",
        "of[cohort] = of[EVERYBODY].copied()",
        "of[cohort] = Spent(Counter(), Counter())",
        "privacy/test_population.py::test_a_run_that_does_not_name_its_records_is_charged_to_everybody_also_to_those_who_come_later",
    ),
    BookBug(
        "a wrong cohort",
        "a run is charged to all cohorts but its own",
        "privacy/ledger/account.py",
        "return list(cohorts)",
        "return [cohort for cohort in of if cohort not in cohorts]",
        "privacy/test_population.py::test_a_cap_binds_the_cohort_that_has_spent_most_and_no_other",
    ),
    BookBug(
        "a mark ignored",
        "the ledger takes other bytes for a tick that it has marked",
        "privacy/ledger/ledger.py",
        "if found != {digest}:",
        "if found is None:",
        "privacy/test_ledger_marks.py::test_a_round_has_one_mark_for_good",
    ),
    BookBug(
        "a mark ignored",
        "a store without a tick that was marked is used",
        "agent/participant.py",
        "if said.get(tick) != digest}",
        "if said.get(tick, digest) != digest}",
        "agent/membership/test_dropout.py::test_a_lost_store_is_noticed_in_the_run_that_goes_on",
    ),
    BookBug(
        "a mark ignored",
        "messages leave without a mark",
        "agent/loop.py",
        "participant.mark(t, participant.store.digest(t))",
        "participant.store.digest(t)",
        "agent/test_memory.py::test_an_old_ledger_is_seen_by_the_store",
    ),
    BookBug(
        "a mark ignored",
        "messages leave before they are marked",
        "agent/loop.py",
        "participant.mark(t, participant.store.digest(t))",
        "self._publish(), participant.mark(t, participant.store.digest(t))",
        "agent/test_store.py::test_a_disk_that_is_full_at_a_mark_lets_nothing_leave_and_the_same_bytes_leave_later",
    ),
    BookBug(
        "a mark ignored",
        "a ledger is used that the store knows to be old",
        "agent/participant.py",
        "is not None and not ledger.contains(noted):",
        "is not None and noted.rows < 0:",
        "agent/test_memory.py::test_an_old_ledger_is_seen_by_the_store",
    ),
    BookBug(
        "a mark ignored",
        "releases are counted by stores alone",
        "agent/participant.py",
        "return max(said, marked) - own",
        "return said - own",
        "agent/membership/test_dropout.py::test_the_releases_of_a_store_that_was_put_back_still_count",
    ),
    BookBug(
        "a mark ignored",
        "a run goes on with another ledger than the one that has its marks",
        "agent/books.py",
        "if found is not None and found[0] != ledger.book:",
        "if found is not None and not ledger.book:",
        "agent/test_books.py::test_a_folder_knows_which_ledger_has_paid_for_a_run",
    ),
    BookBug(
        "a mark ignored",
        "a second copy of a ledger pays, too",
        "agent/books.py",
        "_require_contained(_own_head(db, ledger.population), ledger)",
        "_own_head(db, ledger.population)",
        "agent/test_books.py::test_a_folder_knows_its_own_ledgers",
    ),
    BookBug(
        "an incarnation ignored",
        "an older process gets answers",
        "agent/incarnation.py",
        "elif not same:",
        "elif same is None:",
        "agent/test_incarnation.py::test_an_older_process_that_is_still_alive_ends_both",
    ),
    BookBug(
        "an incarnation ignored",
        "a process goes on that has seen a newer one",
        "agent/incarnation.py",
        "if other == own or other.number < own.number:",
        "if other.number > 0:",
        "agent/test_incarnation.py::test_a_copy_and_its_original_stop_and_nobody_else",
    ),
    BookBug(
        "an incarnation ignored",
        "the ledger lets an older process mark",
        "privacy/ledger/ledger.py",
        'if ("start", start + 1) in rows:',
        "if start < 0:",
        "privacy/test_ledger_marks.py::test_starts_only_grow_and_the_last_one_alone_may_mark",
    ),
]


def failed_tests(test: str, sources: Path) -> list[str]:
    """Which tests fail with these sources: `test` itself, perhaps with parameters, or none. All else is an error."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rf", "-p", "no:cacheprovider", f"tests/{test}"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(failed):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return failed


def caught(bug: BookBug) -> bool:
    """Whether the test of the bug fails with it."""
    with tempfile.TemporaryDirectory() as folder:
        return bool(failed_tests(bug.test, plant(bug, Path(folder))))


def main() -> int:
    only, missed = " ".join(sys.argv[1:]), 0
    for test in sorted({bug.test for bug in BOOK_BUGS if only in bug.name}):
        if failed := failed_tests(test, SOURCES):
            print(f"FAILED without any bug: {failed}")
            missed += 1
    for bug in BOOK_BUGS:
        if only in bug.name:
            found = caught(bug)
            missed += not found
            print(f"{'caught' if found else 'NOT CAUGHT'}: {bug.name} ({bug.test})", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
