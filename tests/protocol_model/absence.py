"""How members go on without one that is away, where they share their noise: absence, quorum, drop-out.

A run is named by the members that it leaves out. A total needs a row of every member of the run. Rows have no content
here: they are counted, and for each total the run is noted in which it was heard. A neighbour can be quiet for too long
only if it is down, has stopped or lies, or the link to it is cut. A liar states that every other neighbour is away, and
shows again what others have stated and taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple


class Away(NamedTuple):
    """A signed statement: no sign of life."""

    witness: int
    absent: int
    run: int  # bits: the members that the run of the witness leaves out
    tick: int


class Member(NamedTuple):
    run: int = 0  # bits: without whom it is
    heard: tuple[int, ...] = ()  # of each total that its state is made of: the run in which it was heard
    kept: tuple[int, ...] = ()  # the same at its last commit
    spoken: int = 0  # it has committed its rows of this run before this tick
    out: int = 0  # rows that it has said in all runs
    before: int = 0  # in those that it has left
    paid: int = 0  # how often
    missing: int = 0  # bits: the neighbours that it has not met in this run
    met: tuple[int, ...] = ()  # by member: how many totals it has signed to have heard; -1
    begun: bool = False
    quiet: int = 0  # bits: the neighbours of which it has signed that they are away
    known: frozenset[Away] = frozenset()  # what counts, or may
    shown: frozenset[Away] = frozenset()  # why earlier runs were left
    up: bool = True
    done: bool = False
    over: str = ""


class State(NamedTuple):
    members: tuple[Member, ...]
    faults: frozenset[str]
    cut: frozenset[int] = frozenset()  # the two members between which nothing passes
    signed: frozenset[Away] = frozenset()  # all that honest members ever signed, for liars
    wrong: str = ""


Steps = Iterator[tuple[str, State]]


@dataclass(frozen=True)
class Absence:
    """Who there is, and what can happen. `liar`: the last member lies."""

    members: int
    edges: tuple[tuple[int, int], ...]
    ticks: int
    dangers: frozenset[str] = frozenset()  # "away", "back", "cut", "mended"
    liar: bool = False
    dropouts: int = 1
    bugs: frozenset[str] = frozenset()

    @cached_property
    def near(self) -> list[list[int]]:
        """The neighbours of each member."""
        return [sorted(a + b - i for a, b in self.edges if i in (a, b)) for i in range(self.members)]

    @cached_property
    def honest(self) -> range:
        return range(self.members - self.liar)

    def start(self) -> State:
        unmet = (-1,) * self.members
        members = [Member(missing=_bits(self.near[i]), met=unmet) for i in range(self.members)]
        return State(tuple(members), self.dangers)

    def renamed(self, state: State) -> Iterable[State]:
        yield state
        for order in self._orders:
            yield _renamed(state, order)

    @cached_property
    def _orders(self) -> list[tuple[int, ...]]:
        edges = {frozenset(edge) for edge in self.edges}
        found = []
        for order in permutations(range(self.members)):
            same = not self.liar or order[-1] == self.members - 1
            if same and {frozenset((order[a], order[b])) for a, b in self.edges} == edges:
                found.append(order)
        return found[1:]

    # What must hold

    def broken(self, state: State) -> str:
        if state.wrong:
            return state.wrong
        for i in self.honest:
            each = state.members[i]
            if each.out > self.ticks + self.dropouts:
                return "the ledger is below what has left"
            if each.paid > 1:
                return "a run was paid for twice"
        ended = [state.members[i] for i in self.honest if state.members[i].done]
        if len({(each.run, each.heard) for each in ended}) > len({each.run for each in ended}):
            return "two members that finished have different models"
        return ""

    def stuck(self, state: State) -> str:
        members = [state.members[i] for i in self.honest]
        gone = sum(not each.up for each in members)
        for i in self.honest:
            each = state.members[i]
            if each.done or not each.up or each.over.startswith("the others go on"):
                continue
            if each.over:
                return f"a member stops though it has paid for this: {each.over}"
            quorum = self.members - 2 >= self._needed(self.members - 1) and not self.liar
            if not state.cut and not self.liar and (not gone or (quorum and self.dropouts)):
                return f"member {i} waits for ever, and its neighbours are there, or proven to be away"
        return ""

    # What members do

    def steps(self, state: State) -> Steps:
        for i in self.honest:
            each = state.members[i]
            if not each.up or each.over:
                continue
            for j in self.near[i]:
                if frozenset((i, j)) != state.cut and (j not in self.honest or (state.members[j].up and i < j)):
                    after = self._greeted(state, i, j) if j in self.honest else self._lied_to(state, i, j)
                    if after != state:
                        yield f"{i} and {j} greet each other", after
                if self._may_miss(state, i, j):
                    yield f"{i} signs that {j} is away", self._misses(state, i, j)
            yield from self._works(state, i, each)

    def _works(self, state: State, i: int, each: Member) -> Steps:
        present = [j for j in range(self.members) if not each.run >> j & 1]
        if each.done:
            return
        t = len(each.heard)
        if not each.begun:
            if not each.missing and all(each.met[j] >= 0 for j in present if j in self.honest):
                yield self._begins(state, i, each, [each.met[j] for j in present if j in self.honest])
            return
        if each.spoken == t and t < self.ticks:
            each = each._replace(spoken=t + 1, out=each.out + 1, kept=each.heard)
            yield f"{i} speaks at tick {t}", _with(state, i, each)
            return
        rows = all(
            j not in self.honest or (_there(state.members[j], each.run) and state.members[j].spoken > t)
            for j in present
        )
        others = [state.members[j] for j in self.near[i] if _there(state.members[j], each.run)]
        totals = any(other.heard[: t + 1] == (*each.heard, each.run) for other in others)
        if t < self.ticks and (rows or totals):
            each = each._replace(heard=(*each.heard, each.run))
            if t + 1 == self.ticks:
                each = each._replace(done=True, kept=each.heard)
            yield f"{i} hears the total of tick {t}", _with(state, i, each)

    def _begins(self, state: State, i: int, each: Member, numbers: list[int]) -> tuple[str, State]:
        """AgentLoop._pay, then _catch_up."""
        first = (min if "starts at the least" in self.bugs else max)(numbers)
        if not each.run:
            paid = each._replace(paid=each.paid + (not each.paid), begun=True)
            return f"{i} pays", _with(state, i, paid)
        said = each.before + (1 if "drop-out counted twice" in self.bugs else 0)
        if "starts at the least" not in self.bugs and said + self.ticks - first > self.ticks + self.dropouts:
            return f"{i} counts its releases", _with(state, i, each._replace(over="too many releases"))
        heard = each.heard
        if len(heard) < first:
            near = [state.members[j] for j in self.near[i] if j in self.honest]
            found = [other.heard[:first] for other in near if _there(other, each.run) and len(other.heard) >= first]
            if not found:
                return f"{i} waits for the state after {first} totals", state
            heard = found[0]
        heard = heard[: max(first, 0)]
        done = len(heard) == self.ticks
        begun = each._replace(heard=heard, spoken=max(each.spoken, first), begun=True, done=done)
        return f"{i} goes on from tick {first} without {_names(each.run)}", _with(state, i, begun)

    # Signs of life

    def _needed(self, neighbours: int) -> int:
        """Federation.needed."""
        needed = max(1, min(neighbours // 2 + 1, neighbours))
        return max(1, needed - 1) if "quorum one short" in self.bugs else needed

    def _may_miss(self, state: State, i: int, j: int) -> bool:
        """Whether member i can have had no sign of life from j for long enough, and still needs it."""
        each, other = state.members[i], state.members[j]
        if each.run >> j & 1 or each.quiet >> j & 1:
            return False
        if each.done and not any(known.absent == j and known.tick < self.ticks for known in each.known):
            return False
        lost = frozenset((i, j)) == state.cut or j not in self.honest
        return lost or not other.up or bool(other.over)

    def _misses(self, state: State, i: int, j: int) -> State:
        each = state.members[i]
        made = Away(i, j, each.run, len(each.heard))
        each = each._replace(quiet=each.quiet | 1 << j, known=_newest(each.known, made))
        if self.liar:
            state = state._replace(signed=state.signed | {made})
        return self._decided(_with(state, i, each), i)

    def _greeted(self, state: State, i: int, j: int) -> State:
        """Both take in what the other shows."""
        one, other = state.members[i], state.members[j]
        state = self._takes(state, i, j, other)
        return self._takes(state, j, i, one) if not other.over else state

    def _lied_to(self, state: State, i: int, liar: int) -> State:
        """The liar is in whatever run it likes, has met all, and states that every neighbour is away."""
        each = state.members[i]
        false = {Away(liar, j, each.run, len(each.heard)) for j in self.near[liar] if j != i}
        shown = Member(run=each.run, known=frozenset(false) | state.signed, met=each.met)
        return self._takes(state, i, liar, shown)

    def _takes(self, state: State, i: int, j: int, shown: Member) -> State:
        """Conversation.greeted."""
        each = state.members[i]
        known = each.known
        for statement in shown.known | shown.shown:
            if self._counts(each, statement):
                known = _newest(known, statement)
        each = each._replace(known=known)
        more = shown.run & ~each.run
        believed = not more or any(self._proven(each, k) for k in range(self.members) if more >> k & 1)
        state = self._decided(_with(state, i, each), i)
        each = state.members[i]
        if not believed or each.over:
            return state
        quiet = each.quiet & ~(1 << j)
        withdrawn = frozenset(found for found in each.known if (found.witness, found.absent) != (i, j))
        each = each._replace(quiet=quiet, known=withdrawn)
        if shown.run == each.run and not each.run >> j & 1:
            met = tuple(map(max, each.met, shown.met))
            missing = each.missing & ~(1 << j)
            if not missing and met[i] < 0:
                met = (*met[:i], len(each.heard), *met[i + 1 :])
            each = each._replace(missing=missing, met=met)
        return _with(state, i, each)

    def _counts(self, each: Member, statement: Away) -> bool:
        """Absences._counts."""
        earlier = statement.run & ~each.run == 0 and statement.run != each.run
        if each.run >> statement.absent & 1 or not (statement.run == each.run or (earlier and not each.begun)):
            return False
        return abs(statement.tick - len(each.heard)) <= self.members

    def _proven(self, each: Member, absent: int) -> bool:
        signed = {found.witness for found in each.known if found.absent == absent and self._counts(each, found)}
        remaining = {j for j in self.near[absent] if not each.run >> j & 1}
        return len(signed) >= self._needed(len(remaining | signed))

    def _decided(self, state: State, i: int) -> State:
        """Liveness.decide: leaves the run if it is proven that members are away, and it misses them itself."""
        each = state.members[i]
        away = 0
        for j in range(self.members):
            misses = j == i or j not in self.near[i] or each.quiet >> j & 1
            if not each.run >> j & 1 and misses and self._proven(each, j):
                away |= 1 << j
        if not away or each.over:
            return state
        if away >> i & 1:
            return self._left(state, i, away, each._replace(over="the others go on without it"))
        if (each.run | away).bit_count() > self.dropouts:
            return _with(state, i, each._replace(over="the others go on without too many"))
        if each.done and all(state.members[j].done for j in self.near[i] if j in self.honest and not away >> j & 1):
            return state
        reasons = frozenset(found for found in each.known if away >> found.absent & 1)
        run = each.run | away
        near = [j for j in self.near[i] if not run >> j & 1]
        gone = Member(
            run,
            each.heard,
            each.kept,
            0,
            each.out,
            each.out,
            each.paid,
            _bits(near),
            (-1,) * self.members,
            shown=each.shown | reasons,
        )
        if not near:
            gone = gone._replace(over="the others go on without too many")
        return self._left(state, i, away, gone)

    def _left(self, state: State, i: int, away: int, after: Member) -> State:
        """One liar alone must not be able to leave an honest member out."""
        each = state.members[i]
        for j in self.honest:
            signers = {found.witness for found in each.known if found.absent == j}
            alone = signers <= {self.members - 1} and self.liar
            if away >> j & 1 and alone and sum(not each.run >> k & 1 for k in self.near[j]) > 1:
                state = state._replace(wrong="an honest member is left out by a liar alone")
        return _with(state, i, after)

    # What happens to members

    def faults(self, state: State) -> Steps:
        for i in self.honest:
            each = state.members[i]
            if "away" in state.faults and each.up:
                yield f"{i} dies", _used(_with(state, i, each._replace(up=False)), "away")
            if "back" in state.faults and not each.up:
                yield f"{i} starts again", _used(_with(state, i, self._restarted(each, i)), "back")
            for j in self.near[i]:
                if "cut" in state.faults and i < j and j in self.honest:
                    yield f"the link of {i} and {j} is cut", _used(state, "cut")._replace(cut=frozenset((i, j)))
        if "mended" in state.faults and state.cut:
            yield "the link is mended", _used(state, "mended")._replace(cut=frozenset())

    def _restarted(self, each: Member, i: int) -> Member:
        near = _bits(j for j in self.near[i] if not each.run >> j & 1)
        begun = each.begun and each.spoken > len(each.kept)
        heard = each.kept if begun or not each.run else each.heard
        if each.done:
            return each._replace(up=True, quiet=0, known=frozenset())
        return each._replace(up=True, heard=heard, missing=near, begun=False, quiet=0, known=frozenset())


def _there(each: Member, run: int) -> bool:
    """Whether it answers in this run."""
    return each.up and not each.over and each.run == run


def _newest(known: frozenset[Away], made: Away) -> frozenset[Away]:
    """With this one in place of what its witness has stated before about the same member, in the same run."""
    old = [found for found in known if (found.witness, found.absent) == (made.witness, made.absent)]
    if any(found.run == made.run and found.tick >= made.tick for found in old):
        return known
    return known - set(old) | {made}


def _bits(members: Iterable[int]) -> int:
    return sum(1 << i for i in members)


def _names(bits: int) -> str:
    return ", ".join(str(i) for i in range(bits.bit_length()) if bits >> i & 1)


def _used(state: State, fault: str) -> State:
    return state._replace(faults=state.faults - {fault})


def _with(state: State, i: int, member: Member) -> State:
    return state._replace(members=(*state.members[:i], member, *state.members[i + 1 :]))


def _renamed(state: State, order: tuple[int, ...]) -> State:
    """The same with member order[i] called i."""
    back = {j: i for i, j in enumerate(order)}

    def bits(found: int) -> int:
        return sum(1 << i for i, j in enumerate(order) if found >> j & 1)

    def away(found: frozenset[Away]) -> frozenset[Away]:
        return frozenset(Away(back[each.witness], back[each.absent], bits(each.run), each.tick) for each in found)

    def member(each: Member) -> Member:
        return each._replace(
            run=bits(each.run),
            heard=tuple(map(bits, each.heard)),
            kept=tuple(map(bits, each.kept)),
            missing=bits(each.missing),
            met=tuple(each.met[j] for j in order),
            quiet=bits(each.quiet),
            known=away(each.known),
            shown=away(each.shown),
        )

    members = tuple(member(state.members[j]) for j in order)
    cut = frozenset(back[i] for i in state.cut)
    return State(members, state.faults, cut, away(state.signed), state.wrong)
