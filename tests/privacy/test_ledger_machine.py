"""Any history of a ledger against a reference that adds up from scratch.

Hypothesis chooses what happens: caps, runs paid for as a whole or round by round, cohorts that are named early or late,
payloads, starts and marks, from two processes that may be closed and opened again at any time. The ledger must do what
the reference does, refuse what it refuses, and forget nothing.
"""

import shutil
import tempfile
from collections import Counter
from hashlib import sha256
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tacit.errors import TacitError
from tacit.privacy.events import Free, Pure
from tacit.privacy.ledger import About, Cap, Ledger, Records

RUNS, COHORTS, TICKS = ["spring", "summer", "autumn"], ["2022", "2023", "2024"], range(3)
PRICES = [0.25, 0.5, 1.0]  # sums of these are exact
FOLDERS = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of commits, which no disk has to keep


def cost(planned, later, cap):
    """What was reserved after a release counts double."""
    doubled = planned + later + later
    return sum(getattr(event, "epsilon", 0.0) * count for event, count in doubled.items())


class Reference:
    """What a ledger has to know. Nothing is kept but what happened: every answer is counted again from that."""

    def __init__(self):
        self.cap, self.cohorts, self.about = None, {}, {}  # cohorts of a run: None for everybody
        self.paid, self.left, self.starts = {}, {}, Counter()  # (run, tick) -> event; -> bytes or digest
        self.order = []  # ("paid" or "left", run, tick)

    def spent(self, cohort, also=()):
        """(planned, later) of the records of a cohort; "" for one that nobody has named."""
        found, released = (Counter(), Counter()), False
        for what, run, key in [*self.order, *also]:
            charged = self.cohorts.get(run)
            if charged is None or cohort in charged:
                released = released or what == "left"
                if what == "paid":
                    found[released][self.paid.get((run, key), key)] += 1
        return found

    def named(self):
        return {"", *(cohort for charged in self.cohorts.values() for cohort in charged or ())}

    def fits(self, cap, also=()):
        return cap is not None and all(cost(*self.spent(cohort, also), None) <= cap for cohort in self.named())

    def pay(self, run, plan, about, says):
        """Whether it may pay; if so, it does."""
        if any(self.paid.get((run, tick), event) != event for tick, event in plan.items()):
            return False
        known = self.about.get(run)
        begun = any(each == run for each, _ in self.paid)
        if says and (known != about if known is not None else begun):
            return False
        new, before = [tick for tick in sorted(plan) if (run, tick) not in self.paid], dict(self.cohorts)
        if says:
            self.cohorts[run] = about
        if new and not self.fits(self.cap, [("paid", run, plan[tick]) for tick in new]):
            self.cohorts = before
            return False
        if says:
            self.about[run] = about
        self.paid |= {(run, tick): plan[tick] for tick in new}
        self.order += [("paid", run, tick) for tick in new]
        return True

    def release(self, run, tick, kept):
        """Whether this, bytes or a digest, may be what leaves in a round; if so, it is, for good."""
        if (run, tick) not in self.paid or self.left.get((run, tick), kept) != kept:
            return False
        if (run, tick) not in self.left:
            self.order.append(("left", run, tick))
            self.left[run, tick] = kept
        return True


events = st.sampled_from([*map(Pure, PRICES), Pure(0.25), Free("nothing")])
abouts = st.sampled_from([tuple(COHORTS[:1]), tuple(COHORTS[1:]), tuple(COHORTS[:2])])
runs, ticks, hands = st.sampled_from([RUNS[0], *RUNS]), st.sampled_from([0, *TICKS]), st.integers(0, 1)
payloads, places = st.sampled_from([b"one", b"one", b"other"]), st.integers(0, 11)


class Histories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder, self.heads, self.reference = Path(tempfile.mkdtemp(dir=FOLDERS)), [], Reference()
        self.path = self.folder / "ledger"
        self.open = [self._opened(), self._opened()]

    def _opened(self):
        return Ledger.open(self.path, population="ward 7", cost=cost, cohorts="year")

    def _agrees(self, allowed, call):
        rows = self.open[0].head().rows
        try:
            call()
        except TacitError:
            assert not allowed
            assert self.open[0].head().rows == rows  # what was refused has written nothing
        else:
            assert allowed

    @initialize(epsilon=st.sampled_from([None, 1.0, 2.0, 4.0, 4.0]))
    def first_cap(self, epsilon):
        if epsilon:
            self.set_cap(0, epsilon)

    @rule(hand=hands, epsilon=st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    def set_cap(self, hand, epsilon):
        allowed = self.reference.fits(epsilon)
        self._agrees(allowed, lambda: self.open[hand].set_cap(Cap(epsilon, 1e-6), who="a test"))
        if allowed:
            self.reference.cap = epsilon

    @rule(hand=hands, run=runs, plan=st.dictionaries(ticks, events, min_size=1), about=abouts)
    def reserve_a_run(self, hand, run, plan, about):
        says = About("a method", records=Records("digest", 9, about))
        self._agrees(self.reference.pay(run, plan, about, True), lambda: self.open[hand].reserve_run(run, plan, says))

    @rule(hand=hands, run=runs, plan=st.dictionaries(ticks, events, min_size=1))
    def reserve_a_run_for_everybody(self, hand, run, plan):
        """Or go on with one, without saying again what it is."""
        self._agrees(self.reference.pay(run, plan, None, False), lambda: self.open[hand].reserve_run(run, plan))

    @rule(hand=hands, run=runs, tick=ticks, event=events)
    def reserve_a_round(self, hand, run, tick, event):
        allowed = self.reference.pay(run, {tick: event}, None, False)
        self._agrees(allowed, lambda: self.open[hand].reserve(run, tick, event))

    def _round(self, place):
        """Mostly one that is paid for."""
        paid = sorted(self.reference.paid)
        return paid[place % len(paid)] if paid and place < 10 else (RUNS[place % len(RUNS)], TICKS[-1])

    @rule(hand=hands, place=places, payload=payloads)
    def store(self, hand, place, payload):
        run, tick = self._round(place)
        allowed = self.reference.release(run, tick, payload)
        self._agrees(allowed, lambda: self.open[hand].store(run, tick, payload))

    @rule(hand=hands, run=runs)
    def start(self, hand, run):
        self.reference.starts[run] += 1
        assert self.open[hand].start(run, bytes(16)) == self.reference.starts[run]

    @rule(hand=hands, place=places, payload=payloads, behind=st.sampled_from([0, 0, 0, 1]))
    def mark(self, hand, place, payload, behind):
        """By the process that started last; of a round with a payload, too, if that is its digest."""
        run, tick = self._round(place)
        if not self.reference.starts[run]:
            self.start(hand, run)
        known, digest = self.reference.left.get((run, tick)), sha256(payload).digest()
        allowed = not behind and (known == payload or self.reference.release(run, tick, digest))
        mine = self.reference.starts[run] - behind
        self._agrees(allowed, lambda: self.open[hand].mark(run, tick, digest, mine))

    @rule(hand=hands)
    def restart(self, hand):
        self.open[hand].close()
        self.open[hand] = self._opened()

    @invariant()
    def every_cohort_is_within_its_cap_and_nothing_is_forgotten(self):
        known = self.reference
        for ledger in self.open:
            assert ledger.spent() == Counter(known.paid.values())
            for (run, tick), kept in known.left.items():
                digest = kept if len(kept) == 32 else sha256(kept).digest()
                assert ledger.marks(run)[tick] == digest
                assert ledger.payload(run, tick) == (None if kept == digest else kept)
            assert ledger.cap() == (None if known.cap is None else Cap(known.cap, 1e-6))
            assert all(map(ledger.contains, self.heads))
            if known.cap is None:
                continue
            spent = {cohort: cost(*known.spent(cohort), None) for cohort in known.named()}
            assert ledger.epsilon() == max(spent.values()) <= known.cap
            assert ledger.by_cohort() == {cohort: each for cohort, each in spent.items() if cohort}
            for cohort in COHORTS:
                of_it = [run for run, _ in known.left if (known.cohorts.get(run) or (cohort,)).count(cohort)]
                assert ledger.told(Records("digest", 9, (cohort,))) == bool(of_it)
        self.heads.append(self.open[0].head())

    def teardown(self):
        for ledger in self.open:
            ledger.verify()
            ledger.close()
        with self._opened() as again:  # checks the whole file
            assert again.contains(self.heads[-1])
        shutil.rmtree(self.folder)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a shorter history takes long to find
    suppress_health_check=list(HealthCheck),
)
