"""What a member remembers and forgets in one run, in which all members hear each other's rows.

Member 0 is the one to which things happen: its process dies, its disk is put back or copied. The others are honest, but
for those that a case calls liars. A step of member 0 is what one write leaves on its disk, since a process may die
between any two of them. The others do at once what nobody can tell apart from outside. Two members talk in one step, a
question and its answer; with the fault "late" one of these comes at any later moment, again and again, or never.

A version is what one draw of noise makes. A chain is all versions that a member has said up to a tick: that is what it
signs. No statement of a member is in this model that the member has not signed. A liar has no memory: it can always say
whatever it could ever say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

Chain = tuple[int, ...]
Row = tuple[int, ...]
Ledger = tuple[Row, ...]

EARLIER, START, PAID, MARK = range(4)  # kinds of rows: what an earlier run has spent, a process, this run, a tick
OLD: Ledger = ((EARLIER,),)
SILENT, TWO_FACED, REPEATS = "silent", "two-faced", "repeats"  # what liars do: hide, sign two versions, show old things


class Process(NamedTuple):
    """Of member 0. Its number is 0 until the ledger has counted it."""

    number: int = 0
    nonce: int = 0
    missing: int = 0  # bits: the neighbours that it has not met
    begun: bool = False  # all have met, and it has paid
    heard: tuple[Chain, ...] = ()  # by member
    published: int = 0  # so many ticks may leave
    drawn: Chain = ()  # published and not committed: only where a rule is wrong
    known: tuple[tuple[Chain, ...], ...] = ()  # what tracked members have signed, by ticks
    proved: int = 0  # bits: the members that have signed two versions
    refused: bool = False  # a neighbour knows rows that its ledger does not have
    twin: tuple[Row, ...] = ()  # it has seen a newer process, and signed that
    ended: bool = False  # it says nothing more but why


class Host(NamedTuple):
    """A disk of member 0, and its process there."""

    said: Chain = ()  # what the store has committed
    heard: tuple[Chain, ...] = ()  # what the state had taken in by then
    met: int = 0  # bits: the members that have signed that they have met their neighbours
    noted: Ledger = ()  # the ledger at the last commit
    done: bool = False
    ledger: int = 0  # which one it uses
    own: Ledger = OLD  # what the folder of the identity knows of it
    process: Process | None = None
    over: str = ""  # why it may run no more


class Other(NamedTuple):
    """Another honest member."""

    spoken: int = 0
    met: int = 0
    missing: int = 0
    heard: tuple[Chain, ...] = ()
    processes: tuple[Row, ...] = ()  # the newest of member 0; two, if they have one number
    known: tuple[tuple[Chain, ...], ...] = ()
    proved: int = 0
    twin: tuple[Row, ...] = ()
    ended: bool = False


class Talk(NamedTuple):
    """What a member says beside the work of a tick."""

    process: Row = ()  # the one that speaks, of member 0
    knows: tuple[Row, ...] = ()  # the processes of the listener
    twin: tuple[Row, ...] = ()
    said: tuple[tuple[int, Chain], ...] = ()  # members, and what they have signed
    proved: int = 0
    met: int = 0
    head: bool = False  # it shows that it knows the listener's ledger from an earlier run
    heard: int = 0  # so many ticks of the listener


class Late(NamedTuple):
    """A question or an answer on its way."""

    answer: bool
    asker: int
    asked: int
    host: int  # of member 0, and the process there that was asked, or asks
    nonce: int
    tick: int  # -1: a greeting
    talk: Talk
    chain: Chain


class State(NamedTuple):
    hosts: tuple[Host, ...]
    ledgers: tuple[Ledger, ...]
    others: tuple[Other | None, ...]  # from member 1 on; None: a liar
    left: tuple[Chain, ...]  # by ticks: the versions of member 0 that somebody has got
    faults: frozenset[str]  # those that can still happen
    starts: int = 0  # of member 0
    copy: tuple[Host, Ledger] | None = None
    late: Late | None = None
    wrong: str = ""  # a rule that the last step has broken


Steps = Iterator[tuple[str, State]]
_WRITES = ("0 counts", "0 marks", "0 publishes", "0 is done")


@dataclass(frozen=True)
class Memory:
    """Who there is, what can happen, and how many ticks may leave in two versions."""

    members: int
    edges: tuple[tuple[int, int], ...]
    ticks: int
    dangers: frozenset[str] = frozenset()
    liars: tuple[tuple[int, str], ...] = ()
    starts: int = 2  # of member 0, on all hosts
    twice: int = 0
    bugs: frozenset[str] = frozenset()

    @cached_property
    def near(self) -> list[list[int]]:
        """The neighbours of each member."""
        return [sorted(a + b - i for a, b in self.edges if i in (a, b)) for i in range(self.members)]

    @cached_property
    def kinds(self) -> dict[int, str]:
        return dict(self.liars)

    @cached_property
    def tracked(self) -> list[int]:
        """The members that can have two versions, for whatever reason."""
        return [0, *(i for i, kind in self.liars if kind == TWO_FACED)]

    @cached_property
    def remembers(self) -> bool:
        """Whether the ledger that member 0 uses can have forgotten nothing that left."""
        return not self.dangers & {"both", "clone", "live clone", "wound back"}

    # The state

    def start(self) -> State:
        nothing, quiet = ((),) * self.ticks, ((),) * self.members
        known = (nothing,) * len(self.tracked)
        others = [Other(missing=self._bits(i), heard=quiet, known=known) for i in range(1, self.members)]
        kept = tuple(None if i in self.kinds else each for i, each in enumerate(others, 1))
        return State((Host(heard=quiet),), (OLD,), kept, nothing, self.dangers - {"crash"})

    def renamed(self, state: State) -> Iterable[State]:
        yield state
        for order in self._orders:
            yield _renamed(state, order)

    @cached_property
    def _orders(self) -> list[tuple[int, ...]]:
        """The other ways to name the members: 0 and liars keep their names, and neighbours stay neighbours."""
        edges = {frozenset(edge) for edge in self.edges}
        found = []
        for order in permutations(range(self.members)):
            same = all(order[i] == i for i in (0, *self.kinds))
            if same and {frozenset((order[a], order[b])) for a, b in self.edges} == edges:
                found.append(order)
        return found[1:]

    # What must hold

    def broken(self, state: State) -> str:
        if state.wrong:
            return state.wrong
        if sum(len(versions) > 1 for versions in state.left) > self.twice:
            return "a tick has left in two versions"
        if any(len(versions) > 2 for versions in state.left):
            return "a tick has left in three versions"
        if any(sum(row[0] == PAID for row in ledger) > 1 for ledger in state.ledgers):
            return "a run was paid for twice"
        honest = self.remembers and "ledger" not in self.dangers
        for each in (*state.others, *(host.process for host in state.hosts)):
            if each is None:
                continue
            if honest and (each.proved & 1 or each.twin):
                return "an honest member is accused"
            if each.proved & ~1 & ~self._bit(*(i for i, kind in self.liars if kind == TWO_FACED)):
                return "an honest member is accused"
        if honest and "store" not in self.dangers and not self.liars:
            for host in state.hosts:
                if host.over or (host.process is not None and host.process.ended):
                    return f"an honest member must stop: {host.over or 'it is told so'}"
        return ""

    def stuck(self, state: State) -> str:
        """If nothing can happen any more, all are done; or somebody has stopped, or is refused, and says so."""
        reasons = [host.over for host in state.hosts if host.over]
        reasons += ["stopped" for each in state.others if each is not None and (each.ended or each.twin)]
        reasons += ["two of a number" for each in state.others if each is not None and len(each.processes) > 1]
        reasons += ["chain" for each in state.others if each is not None and self._misfit(state, each)]
        for liar in self.tracked[1:]:
            each = [*state.others, *(host.process for host in state.hosts)]
            heard = [one.heard[liar] for one in each if one is not None and one.heard]
            differ = any(one[: len(other)] != other[: len(one)] for one in heard for other in heard)
            if differ and not any(one is not None and one.proved & self._bit(liar) for one in each):
                return "a member has two faces, and nobody names it"
        done = all(host.done for host in state.hosts)
        done &= all(
            each is None or self._heard_all(each.spoken, each.heard, i) for i, each in enumerate(state.others, 1)
        )
        return "" if done or reasons else "members wait for ever, and none says why"

    def _misfit(self, state: State, each: Other) -> bool:
        """Whether it has heard of member 0 what no process of it says now."""
        return all(host.said[: len(each.heard[0])] != each.heard[0] for host in state.hosts)

    def _heard_all(self, spoken: int, heard: tuple[Chain, ...], i: int) -> bool:
        return spoken == self.ticks and all(len(heard[j]) == self.ticks for j in self.near[i])

    # What members do

    def steps(self, state: State) -> Steps:
        own = [step for h, host in enumerate(state.hosts) for step in self._own_step(state, h, host)]
        # Once nothing more can happen to a disk, nobody can tell when these writes are made: one order is enough.
        calm = not state.faults and ("crash" not in self.dangers or state.starts >= self.starts)
        exact = self.bugs or "shared ledger" in self.dangers
        if calm and not exact and (alone := [step for step in own if step[0].startswith(_WRITES)]):
            yield alone[0]
            return
        yield from own
        for i, other in enumerate(state.others, 1):
            if other is not None and not other.ended and self._may_speak(other.met, other.missing, other, i):
                spoken = other._replace(spoken=other.spoken + 1)
                yield f"member {i} speaks at tick {other.spoken}", _with_other(state, i, spoken)
        for asker in range(self.members):
            for asked in self.near[asker]:
                for h in range(len(state.hosts) if 0 in (asker, asked) else 1):
                    if self._up(state, asker, h) and self._up(state, asked, h):
                        where = _place(state, h) if 0 in (asker, asked) else ""
                        for label, after in self._talks(state, asker, asked, h):
                            if after != state:
                                yield f"{asker} {label} {asked}{where}", after
        if state.late is not None and (after := self._arrives(state, state.late)) != state:
            yield f"the late {'answer' if state.late.answer else 'question'} arrives", after

    def _may_speak(self, met: int, missing: int, each: Other, i: int) -> bool:
        ready = met == self._all and not missing and each.spoken < self.ticks
        return ready and all(len(each.heard[j]) >= each.spoken for j in self.near[i])

    def _own_step(self, state: State, h: int, host: Host) -> Steps:
        """What the process of member 0 does next by itself: one write."""
        where, process, ledger = _place(state, h), host.process, state.ledgers[host.ledger]
        if process is None:
            if not host.over and state.starts < self.starts:
                if why := self._check(host, ledger):
                    yield f"0 is started{where}, and refused: {why}", _with_host(state, h, host._replace(over=why))
                else:
                    host = host._replace(process=Process(), own=ledger)
                    yield f"0 is started{where}", _with_host(state, h, host)._replace(starts=state.starts + 1)
            return
        if not process.number:
            yield f"0 counts its process{where}", self._counted(state, h, host, ledger)
            return
        if process.ended:
            host = host._replace(process=None, over="it was told to stop")
            yield f"0 stops{where}", _with_host(state, h, host)
            return
        marks = _marks(ledger)
        unmarked = [t for t, v in enumerate(host.said) if marks.get(t) != v]
        early = "marks after sending" in self.bugs and process.published < len(host.said)
        if unmarked and not early and not ("mark ignored" in self.bugs and unmarked[0] in marks):
            yield self._marked(state, h, host, ledger, unmarked[0])
            return
        if process.published < len(host.said):
            host = host._replace(process=process._replace(published=len(host.said)))
            yield f"0 publishes tick {len(host.said) - 1}{where}", _with_host(state, h, host)
            return
        if process.drawn:
            host = host._replace(said=host.said + process.drawn, noted=ledger, process=process._replace(drawn=()))
            yield f"0 commits tick {len(host.said) - 1}{where}", _with_host(state, h, host)
            return
        ready = host.met == self._all or "pays when it has met its own" in self.bugs
        if not host.done and not process.begun and not process.missing and ready:
            yield self._paid(state, h, host, ledger)
            return
        if not process.begun or host.done:
            return
        t = len(host.said)
        heard = [len(process.heard[j]) for j in self.near[0]]
        if t < self.ticks and min(heard) >= t:
            version = _unused(state, t)
            if "publish before commit" in self.bugs:
                process = process._replace(drawn=(version,), published=t + 1)
                yield f"0 publishes tick {t}{where}", _with_host(state, h, host._replace(process=process))
            else:
                host = host._replace(said=(*host.said, version), heard=_cut(process.heard, t), noted=ledger)
                yield f"0 commits tick {t}, version {version}{where}", _with_host(state, h, host)
        elif t == self.ticks and min(heard) == self.ticks:
            yield f"0 is done{where}", _with_host(state, h, host._replace(done=True, noted=ledger))

    def _check(self, host: Host, ledger: Ledger) -> str:
        """Participant.check, and the books of the identity."""
        if not _contains(ledger, host.own):
            return "not the ledger that was used here"
        marks = _marks(ledger)
        lost = any(t >= len(host.said) or host.said[t] != v for t, v in marks.items())
        if lost and not self.bugs & {
            "mark ignored",
            "marks are looked at when sent alone",
            "store trusted over ledger",
        }:
            return "the ledger has marks that the store does not fit"
        if not _contains(ledger, host.noted):
            return "the ledger is an old copy"
        return ""

    def _counted(self, state: State, h: int, host: Host, ledger: Ledger) -> State:
        number = sum(row[0] == START for row in ledger) + 1
        nonce = 1 + max((row[1] for each in state.ledgers for row in each if row[0] == START), default=0)
        for other in state.others:
            nonce = max(nonce, 1 + max((row[1] for row in other.processes), default=0) if other else 0)
        known = (((),) * self.ticks,) * len(self.tracked)
        heard = _cut(host.heard, max(len(host.said) - 1, 0))
        missing = 0 if host.done else self._bits(0)
        host = host._replace(process=Process(number, nonce, missing, heard=heard, known=known))
        return _with_ledger(_with_host(state, h, host), host, (START, nonce))

    def _marked(self, state: State, h: int, host: Host, ledger: Ledger, t: int) -> tuple[str, State]:
        """Ledger.mark, of a tick that is committed."""
        where, process = _place(state, h), host.process
        assert process is not None
        why = ""
        if sum(row[0] == START for row in ledger) > process.number:
            why = "another process has started since"
        elif t in _marks(ledger) and "store trusted over ledger" not in self.bugs:
            why = "something else may have left"
        elif (PAID,) not in ledger:
            why = "it was not paid for"
        if why:
            host = host._replace(process=None, over=why)
            return f"0 may not mark tick {t}{where}: {why}", _with_host(state, h, host)
        ledgers = list(state.ledgers)
        ledgers[host.ledger] = tuple(row for row in ledger if row[:2] != (MARK, t))
        state = state._replace(ledgers=tuple(ledgers))
        return f"0 marks tick {t}{where}", _with_ledger(state, host, (MARK, t, host.said[t]))

    def _paid(self, state: State, h: int, host: Host, ledger: Ledger) -> tuple[str, State]:
        """AgentLoop._pay: also after a restart, when it costs nothing more."""
        where, process = _place(state, h), host.process
        assert process is not None
        why = "a neighbour knows more of its ledger" if process.refused else ""
        if not _contains(ledger, host.own):
            why = "not the ledger that was used here"
        if why:
            return f"0 does not pay{where}: {why}", _with_host(state, h, host._replace(process=None, over=why))
        if (PAID,) not in ledger:
            state = _with_ledger(state, host, (PAID,))
            if any(each is not None and not each.met & self._bit(i) for i, each in enumerate(state.others, 1)):
                state = state._replace(wrong="a member has paid for a run that never began")
        host = host._replace(own=state.ledgers[host.ledger], process=process._replace(begun=True))
        return f"0 pays, if it has not{where}", _with_host(state, h, host)

    # What members say to each other

    def _up(self, state: State, i: int, h: int) -> bool:
        process = state.hosts[h].process
        return bool(i) or (process is not None and process.number > 0)

    def _talks(self, state: State, asker: int, asked: int, h: int) -> Steps:
        """A greeting, and a question about a tick: at once, and late."""
        ticks = [-1]
        if asker in self.kinds:
            ticks += range(self._published(state, asked, h))
        elif (t := self._wants(state, asker, asked, h)) is not None and t < self._published(state, asked, h):
            ticks.append(t)
        for tick in ticks:
            label = "greets" if tick < 0 else f"asks about tick {tick}"
            question = self._talk(state, asker, asked, h)
            for served, answer, chain in self._served(state, asker, asked, h, tick, question):
                yield label, self._answered(served, asker, asked, h, tick, answer, chain)
                if "late" in state.faults and 0 in (asker, asked):
                    nonce = _nonce(state, h)
                    late = Late(True, asker, asked, h, nonce, tick, answer, chain)
                    yield f"{label} (the answer is late)", _used(served, "late")._replace(late=late)
            if "late" in state.faults and 0 in (asker, asked):
                late = Late(False, asker, asked, h, _nonce(state, h), tick, question, ())
                yield f"{label} (the question is late)", _used(state, "late")._replace(late=late)

    def _arrives(self, state: State, late: Late) -> State:
        """At the process for which it was, if that lives. Nobody reads what answers a late question."""
        to, process = (late.asker if late.answer else late.asked), state.hosts[late.host].process
        if to == 0 and (process is None or process.nonce != late.nonce):
            return state
        if late.answer:
            return self._answered(state, late.asker, late.asked, late.host, late.tick, late.talk, late.chain)
        if late.asked in self.kinds or late.tick >= self._published(state, late.asked, late.host):
            return state
        return next(self._served(state, late.asker, late.asked, late.host, late.tick, late.talk))[0]

    def _served(
        self, state: State, asker: int, asked: int, h: int, tick: int, question: Talk
    ) -> Iterator[tuple[State, Talk, Chain]]:
        """What the one that is asked takes in, and answers."""
        greets = tick < 0
        state, accepted = self._taken(state, asked, asker, h, question, whole=greets)
        ended = self._ended(state, asked, h)
        answer = self._talk(state, asked, asker, h)
        if not greets and (not accepted or ended):
            yield state, answer._replace(said=(), proved=0, met=0), ()
            return
        chains: list[Chain] = [()]
        if not greets:
            answer = answer._replace(met=0)
            if asked == 0:
                process = state.hosts[h].process
                assert process is not None
                chains = [(state.hosts[h].said + process.drawn)[: tick + 1]]
                state = self._leaves(state, h, tick, chains[0][-1])
            elif asked in self.kinds:
                before = self._heard(state, asker, h)[asked]
                versions = (0, 1) if self.kinds[asked] == TWO_FACED else (0,)
                chains = [(*before[:tick], version) for version in versions]
            else:
                chains = [(0,) * (tick + 1)]
        for chain in chains:
            yield state, answer, chain

    def _leaves(self, state: State, h: int, tick: int, version: int) -> State:
        """Member 0 has answered."""
        ledger, found = state.ledgers[state.hosts[h].ledger], state.left[tick]
        if version not in found:
            left = list(state.left)
            left[tick] = tuple(sorted((*found, version)))
            state = state._replace(left=tuple(left))
        marks = {row for row in ledger if row[0] == MARK}
        needed = {(MARK, tick, version)}
        if self.remembers:
            needed |= {(MARK, t, v) for t, versions in enumerate(state.left) for v in versions}
        known = self.remembers or any(j not in self.kinds for j in self.near[0])  # that there was an earlier run
        if not needed <= marks or (PAID,) not in ledger or (known and (EARLIER,) not in ledger):
            state = state._replace(wrong="the ledger is below what has left")
        return state

    def _answered(self, state: State, asker: int, asked: int, h: int, tick: int, talk: Talk, chain: Chain) -> State:
        """What the one that has asked takes in."""
        if self._ended(state, asker, h):
            return state  # it only tells why it stops
        state, accepted = self._taken(state, asker, asked, h, talk, whole=tick < 0)
        if not accepted or asker in self.kinds:
            return state
        if tick < 0:
            if asker == 0 and talk.heard > len(state.hosts[h].said):
                return state  # the neighbour may lie: this agent waits
            return self._met(state, asker, asked, h)
        if not chain or len(self._heard(state, asker, h)[asked]) != tick:
            return state
        if chain[:-1] != self._heard(state, asker, h)[asked]:
            return state  # what it says is not what it has signed
        if asked in self.tracked:
            state = self._compared(state, asker, h, ((asked, chain),), 0)
            if self._ended(state, asker, h):
                return state
        state = self._compared(state, asker, h, talk.said, talk.proved)
        heard = list(self._heard(state, asker, h))
        heard[asked] = chain
        if asker:
            other = state.others[asker - 1]
            assert other is not None
            return _with_other(state, asker, other._replace(heard=tuple(heard)))
        return _with_process(state, h, heard=tuple(heard))

    def _talk(self, state: State, i: int, listener: int, h: int) -> Talk:
        """What a member adds to all that it says."""
        if i == 0:
            host, process = state.hosts[h], state.hosts[h].process
            assert process is not None
            said = self._newest(process.known, i, listener, len(host.said))
            own = (process.number, process.nonce)
            return Talk(own, twin=process.twin, said=said, proved=process.proved, met=host.met)
        other = state.others[i - 1]
        if other is None:
            met = self._bit(i)
            for j, each in enumerate(state.others, 1):
                met |= 0 if each is None else each.met & self._bit(j)
            if self.kinds[i] == REPEATS and listener == 0:
                starts = [row[1] for row in state.ledgers[0] if row[0] == START]
                process = state.hosts[0].process
                published = 0 if process is None else process.published
                said = ((0, state.hosts[0].said[:published]),) if published else ()
                return Talk(knows=tuple(enumerate(starts, 1)), said=said, met=met)
            return Talk(met=met)
        said = self._newest(other.known, i, listener, other.spoken)
        about = (other.processes, other.twin) if listener == 0 else ((), ())
        return Talk((), *about, said, other.proved, other.met, True, max(len(other.heard[listener]), other.spoken - 1))

    def _newest(
        self, known: tuple[tuple[Chain, ...], ...], i: int, listener: int, reached: int
    ) -> tuple[tuple[int, Chain], ...]:
        """Statements.others: of the listener itself, the newest; of others, none of a tick that was not reached."""
        found = []
        for member, chains in zip(self.tracked, known, strict=True):
            kept = [chain for chain in chains if chain and (member == listener or len(chain) <= reached)]
            if kept and member != i:
                found.append((member, kept[-1]))
        return tuple(found)

    def _taken(self, state: State, i: int, speaker: int, h: int, talk: Talk, whole: bool) -> tuple[State, bool]:
        """What a member takes in of what another adds: which process it is; and with a greeting, the rest."""
        if i in self.kinds:
            return state, True
        if self._proved(state, i, h) & self._bit(speaker):
            return state, False
        if i == 0:
            state = self._own_process(state, h, talk)
            if self._ended(state, 0, h):
                return state, False
        elif speaker == 0:
            other = state.others[i - 1]
            assert other is not None
            other, accepted = self._its_process(other, talk)
            state = _with_other(state, i, other)
            if not accepted:
                return state, False
        if whole:
            state = self._compared(state, i, h, talk.said, talk.proved)
            if i == 0:
                host = state.hosts[h]
                state = _with_host(state, h, host._replace(met=host.met | talk.met))
                process = state.hosts[h].process
                assert process is not None
                if talk.head and not _contains(state.ledgers[host.ledger], OLD) and not process.refused:
                    state = _with_process(state, h, refused=True)
            else:
                other = state.others[i - 1]
                assert other is not None
                if talk.met & ~other.met:
                    state = _with_other(state, i, other._replace(met=other.met | talk.met))
        return state, not self._ended(state, i, h)

    def _own_process(self, state: State, h: int, talk: Talk) -> State:
        """Incarnations._check_own and _check_twins: whether this process is the newest of its member, and alone."""
        process = state.hosts[h].process
        assert process is not None
        own = (process.number, process.nonce)
        if process.ended or "incarnation not compared" in self.bugs:
            return state
        for other in talk.knows:
            if other != own and other[0] >= own[0]:
                return _with_process(state, h, twin=(own, other), ended=True)
        if talk.twin and talk.twin[0] != own:
            return _with_process(state, h, ended=True)
        return state

    def _its_process(self, other: Other, talk: Talk) -> tuple[Other, bool]:
        """Incarnations._take_process: whether this is the newest process of a neighbour, and the only one."""
        if talk.twin and not other.twin:
            other = other._replace(twin=talk.twin)
        if "incarnation not compared" in self.bugs:
            return other, True
        known, own = other.processes, talk.process
        newest = max((each[0] for each in known), default=0)
        if own not in known:
            if own[0] > newest:
                other = other._replace(processes=(own,))
            elif own[0] < newest:
                return other, False
            elif len(known) == 1:
                other = other._replace(processes=tuple(sorted((*known, own))))
        return other, len(other.processes) == 1 and not other.twin

    def _compared(self, state: State, i: int, h: int, said: tuple[tuple[int, Chain], ...], shown: int) -> State:
        """Statements.take: two chains of one member up to one tick are a proof; an own one that is not known, too."""
        each = state.others[i - 1] if i else state.hosts[h].process
        assert each is not None
        if each.ended or not (said or shown):
            return state
        known, proved, ended = [list(chains) for chains in each.known], each.proved | shown, bool(shown)
        for member, chain in said:
            t = len(chain) - 1
            if proved & self._bit(member):
                continue
            if member == i:
                ended |= (state.hosts[h].said if i == 0 else ())[: t + 1] != chain
                continue
            mine = known[self.tracked.index(member)]
            if not mine[t]:
                mine[t] = chain
            elif mine[t] != chain:
                proved, ended = proved | self._bit(member), True
        changed = each._replace(known=tuple(map(tuple, known)), proved=proved, ended=ended)
        return _with_other(state, i, changed) if i else _with_process(state, h, **changed._asdict())

    def _met(self, state: State, i: int, neighbour: int, h: int) -> State:
        """A greeting was answered: after the last one this member signs that it has met all."""
        if i:
            other = state.others[i - 1]
            assert other is not None
            missing = other.missing & ~self._bit(neighbour)
            met = other.met if missing else other.met | self._bit(i)
            return _with_other(state, i, other._replace(missing=missing, met=met))
        host, process = state.hosts[h], state.hosts[h].process
        assert process is not None
        missing = process.missing & ~self._bit(neighbour)
        if process.refused and not missing:
            return _with_host(state, h, host._replace(process=None, over="a neighbour knows more of its ledger"))
        met = host.met if missing else host.met | 1
        return _with_host(state, h, host._replace(met=met, process=process._replace(missing=missing)))

    # What is asked

    def _ended(self, state: State, i: int, h: int) -> bool:
        each = state.others[i - 1] if i else state.hosts[h].process
        return each is not None and each.ended

    def _proved(self, state: State, i: int, h: int) -> int:
        each = state.others[i - 1] if i else state.hosts[h].process
        return 0 if each is None else each.proved

    def _heard(self, state: State, i: int, h: int) -> tuple[Chain, ...]:
        each = state.others[i - 1] if i else state.hosts[h].process
        return ((),) * self.members if each is None else each.heard

    def _published(self, state: State, i: int, h: int) -> int:
        """How many ticks of a member may leave."""
        if i in self.kinds:
            return self.ticks
        if self._ended(state, i, h):
            return 0
        each = state.others[i - 1] if i else None
        process = state.hosts[h].process
        return each.spoken if each is not None else process.published if process is not None and not i else 0

    def _wants(self, state: State, i: int, neighbour: int, h: int) -> int | None:
        """The tick about which a member asks a neighbour now."""
        if self._ended(state, i, h):
            return None
        if i:
            other = state.others[i - 1]
            assert other is not None
            begun, spoken, heard = other.met == self._all and not other.missing, other.spoken, other.heard
        else:
            host, process = state.hosts[h], state.hosts[h].process
            assert process is not None
            begun, heard = process.begun and not host.done, process.heard
            spoken = len(host.said) + len(process.drawn)
        t = len(heard[neighbour])
        reached = all(len(heard[j]) >= t for j in self.near[i])
        return t if begun and t < self.ticks and t <= spoken and reached else None

    # What happens to members

    def faults(self, state: State) -> Steps:
        yield from self._put_back(state)
        for h, host in enumerate(state.hosts):
            where = _place(state, h)
            if host.process is not None and "crash" in self.dangers and state.starts < self.starts:
                yield f"0 dies{where}", _with_host(state, h, host._replace(process=None))
            if host.over and "again" in state.faults and state.starts < self.starts:
                yield (
                    f"0 is allowed to start again{where}",
                    _used(_with_host(state, h, host._replace(over="")), "again"),
                )
        if "neighbour" in state.faults:
            for i, other in enumerate(state.others, 1):
                if other is not None and (again := self._restarted(other, i)) != other:
                    yield f"member {i} dies and starts again", _used(_with_other(state, i, again), "neighbour")
        host = state.hosts[0]
        for kind in ("clone", "live clone", "shared ledger"):
            if kind in state.faults and (state.starts < self.starts or kind == "live clone"):
                copied = host if kind == "live clone" else host._replace(process=None)
                ledgers = state.ledgers
                if kind != "shared ledger":
                    copied, ledgers = copied._replace(ledger=1), (*ledgers, ledgers[0])
                after = _used(state, kind)._replace(hosts=(host, copied), ledgers=ledgers)
                yield f"0 is copied to a second host ({kind})", after

    def _restarted(self, other: Other, i: int) -> Other:
        heard = _cut(other.heard, max(other.spoken - 1, 0))
        known = (((),) * self.ticks,) * len(self.tracked)
        return other._replace(missing=self._bits(i), heard=heard, known=known, proved=0, twin=(), ended=False)

    def _put_back(self, state: State) -> Steps:
        """A copy is taken at some moment, and put back at a later one."""
        kinds = state.faults & {"store", "ledger", "both", "wound back"}
        host = state.hosts[0]
        if not kinds:
            return
        (kind,) = kinds
        if state.copy is None:
            kept = host if kind == "wound back" else host._replace(process=None)
            yield "a copy is taken", state._replace(copy=(kept, state.ledgers[0]))
        down = host.process is None and not host.over
        if kind == "wound back":
            if state.copy is not None and host.process is not None and state.copy[0].process is not None:
                yield "0 is wound back while it runs", self._replaced(state, kind, *state.copy)
            return
        if not down:
            return
        copies = [] if state.copy is None else [("a copy", *state.copy)]
        if kind != "store":
            fresh = Host(heard=((),) * self.members, own=())
            copies.append(("a copy from before the earlier run", fresh, ()))
        for label, old, ledger in copies:
            if kind == "store":
                ledger, new = state.ledgers[0], old._replace(own=host.own)
            elif kind == "ledger":
                new = host
            else:
                new = old
            yield f"{label} of {kind} is put back", self._replaced(state, kind, new, ledger)

    def _replaced(self, state: State, kind: str, host: Host, ledger: Ledger) -> State:
        after = _used(state, kind)._replace(hosts=(host, *state.hosts[1:]), copy=None)
        return after._replace(ledgers=(ledger, *state.ledgers[1:]))

    # Bits

    @cached_property
    def _all(self) -> int:
        return (1 << self.members) - 1

    def _bit(self, *members: int) -> int:
        return sum(1 << i for i in members)

    def _bits(self, i: int) -> int:
        """The neighbours of a member."""
        return self._bit(*self.near[i])


def _contains(ledger: Ledger, head: Ledger) -> bool:
    return ledger[: len(head)] == head


def _marks(ledger: Ledger) -> dict[int, int]:
    return {row[1]: row[2] for row in ledger if row[0] == MARK}


def _unused(state: State, t: int) -> int:
    """The least version of a tick that is nowhere: what was drawn and lost was never anywhere."""
    places = [host.said for host in state.hosts]
    if state.copy is not None:
        places.append(state.copy[0].said)
    used = {said[t] for said in places if len(said) > t} | set(state.left[t])
    for ledger in (*state.ledgers, *([] if state.copy is None else [state.copy[1]])):
        used |= {row[2] for row in ledger if row[:2] == (MARK, t)}
    return next(v for v in range(len(used) + 1) if v not in used)


def _cut(heard: tuple[Chain, ...], ticks: int) -> tuple[Chain, ...]:
    return tuple(chain[:ticks] for chain in heard)


def _nonce(state: State, h: int) -> int:
    process = state.hosts[h].process
    return 0 if process is None else process.nonce


def _place(state: State, h: int) -> str:
    return f" (host {h})" if len(state.hosts) > 1 else ""


def _used(state: State, fault: str) -> State:
    return state._replace(faults=state.faults - {fault})


def _with_host(state: State, h: int, host: Host) -> State:
    return state._replace(hosts=(*state.hosts[:h], host, *state.hosts[h + 1 :]))


def _with_process(state: State, h: int, **changes: object) -> State:
    process = state.hosts[h].process
    assert process is not None
    return _with_host(state, h, state.hosts[h]._replace(process=process._replace(**changes)))


def _with_other(state: State, i: int, other: Other) -> State:
    return state._replace(others=(*state.others[: i - 1], other, *state.others[i:]))


def _with_ledger(state: State, host: Host, row: Row) -> State:
    ledgers = list(state.ledgers)
    ledgers[host.ledger] += (row,)
    return state._replace(ledgers=tuple(ledgers))


def _renamed(state: State, order: tuple[int, ...]) -> State:
    """The same with member order[i] called i."""

    def bits(found: int) -> int:
        return sum(1 << i for i, j in enumerate(order) if found >> j & 1)

    def by_member(found: tuple[Chain, ...]) -> tuple[Chain, ...]:
        return tuple(found[j] for j in order) if found else found

    def of_process(each: Process | None) -> Process | None:
        return each and each._replace(missing=bits(each.missing), heard=by_member(each.heard))

    def of_host(each: Host) -> Host:
        return each._replace(met=bits(each.met), heard=by_member(each.heard), process=of_process(each.process))

    def of_other(each: Other | None) -> Other | None:
        return each and each._replace(met=bits(each.met), missing=bits(each.missing), heard=by_member(each.heard))

    late = state.late
    if late is not None:
        back = {j: i for i, j in enumerate(order)}
        talk = late.talk._replace(met=bits(late.talk.met))
        late = late._replace(asker=back[late.asker], asked=back[late.asked], talk=talk)
    return state._replace(
        hosts=tuple(map(of_host, state.hosts)),
        others=tuple(of_other(state.others[j - 1]) for j in order[1:]),
        copy=state.copy and (of_host(state.copy[0]), state.copy[1]),
        late=late,
    )
