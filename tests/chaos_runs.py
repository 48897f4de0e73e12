"""Agents that are killed, stopped, cut off, lied to, and whose disks fill up and rot. `make chaos`

    python tests/chaos_runs.py [--faults 1000] [--minutes 60] [--seed 0] [--jobs 2] [--only EPISODE]
    python tests/chaos_runs.py --plants | --plant NAME

An episode is a federation of 3 to 20 agents, each `tacit agent run` in a process of its own, with keys, a store and a
ledger. A supervisor, as docs/deploy.md describes it, starts an agent again unless it ends with 0 or 78. Meanwhile

- agents are killed (SIGKILL), alone or together, at random, as soon as they are back, or at a point of their way that
  was chosen before; stopped for a while (SIGSTOP, SIGCONT); told to end (SIGTERM);
- connections are cut, held or slow; a member sends its neighbours damaged messages, or says numbers of its choice;
- disks are slow, or full (RLIMIT_FSIZE); clocks jump; one bit of a store flips while its agent is down, and a backup
  is put back if the agent says so;
- the store of a member, or its ledger, is put back from an old copy, and its neighbours may keep silent about what they
  know. The agent must refuse it; then the newest files are put back.

Then everybody gets peace until the run is over. Three of four episodes are short, and their run never is: a member's
store and ledger are put back together, or its folder is copied and a second process of it lives beside the first;
neighbours reach the one or the other. All its processes must end with 78; of its neighbours, all but one may be silent.
Exits with 1 at the first violation:

- an agent ends otherwise than docs/deploy.md says, with a traceback, or does not get on;
- a release has left in two versions, from all copies of a member together (of two live ones, one tick may), or is
  another one than the store has; a ledger has no mark of it;
- a ledger does not have what was planned and what has left, each once, and nothing else;
- a report or the certificate does not verify, a digest of the store is wrong;
- a model, or a row that was said, differs in one bit from that of the undisturbed run. In every third episode the noise
  is fresh in every life, as it really is, so that a row that is drawn twice is seen; there is nothing to compare
  models with, then.

`--seed` and the number of an episode fix what is done to whom, in which order; not the moments, which the machine
decides. `--only` runs one episode again. `--plant` puts a bug into the agents, which must be found (`PLANTS` in
`chaos_agent.py` says what they are). `--plants` tries them all.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
from agent_network import Relay
from chaos_agent import PLANTS, POINTS
from chaos_network import FAULTS, METHODS, Agent, Copy, Run, Violation, code, require, send
from frames import Line, Refused
from mutated_messages import DAMAGE
from patience import waited
from ports import free_ports

from tacit.agent.federation import ROWS, Federation
from tacit.agent.identity import Identity
from tacit.agent.transport.wire_pb2 import Greeting, Question, Standing
from tacit.core.schedule import role
from tacit.errors import TacitError

SHAPES = (
    *(("broadcast", 5), ("token", 4), ("secret-shared", 5), ("shared noise", 4), ("broadcast", 3), ("token", 6)),
    *(("secret-shared", 3), ("broadcast", 8), ("shared noise", 6), ("token", 3), ("secret-shared", 8)),
    *(("broadcast", 20), ("token", 10), ("shared noise", 3), ("secret-shared", 12)),
)
SEED = 11  # of noise that is the same in every life


class Episode:
    """A run that is disturbed from outside."""

    def __init__(self, folder: Path, seed: int, number: int, plant: str) -> None:
        self.name, self.number, self.rng = f"{seed}/{number}", number, random.Random(f"{seed}/{number}")
        turn = number // 4
        kind, agents = SHAPES[turn % len(SHAPES)]
        # How the run is to end: "" if all shall come to the end of it.
        self.ending = ("", "clone", "rollback", ("clone", "rollback")[turn % 2])[number % 4]
        fresh = turn % 3 == 2 or bool(self.ending)
        if plant:
            kind, agents, fresh = "broadcast", 4, plant != "blind"
            self.ending = "clone" if plant == "an incarnation ignored" else ""
        liar = METHODS[kind][1] == ROWS and turn % 4 in (1, 3) and not (plant or self.ending)
        pace = 0.1 if self.ending else 0.03
        self.run = Run(folder, kind, agents, None if fresh else SEED, liar, plant, self.name, pace)
        self.plant, self.relays, self._floods = plant, {}, list[threading.Thread]()
        self.kills = 12 if plant else 40 + 4 * agents
        # Whose memory is attacked; its neighbours may keep silent, in some episodes.
        self.victim = self.rng.randrange(agents)
        near = self.run.federation.graph.neighbours(self.victim).tolist()
        silent = near if plant == "a mark ignored" else []
        if not plant and self.rng.random() < 0.5:
            # What the files cannot show, one honest neighbour sees: of two processes any one; of a member that is put
            # back as a whole, one that hears it. (Where a token goes round, only the next member does.)
            sees = {"": [], "clone": near, "rollback": self._listeners()}[self.ending]
            honest = self.rng.sample(sees, min(1, len(sees)))
            silent = [j for j in near if j not in honest]
        for j in silent:
            self.run.members[j].silent = True
        self.run.counts["silent neighbours"] += len(silent)

    def _listeners(self) -> list[int]:
        """Who hears the victim from the beginning. (Where a token goes round, all neighbours do at the end alone.)"""
        federation = self.run.federation
        schedule = federation.setting.algorithm.schedule(federation.graph)
        turns = (role(schedule.turn(t), self.victim) for t in range(2 * len(federation.members)))
        return sorted({j for turn in turns for j in turn.heard_by})

    def play(self, over: Callable[[], bool]) -> None:
        """Disturbs the run until it has had its kills, it is finished, or `over` says so; then lets it finish, or ends
        it by what nobody can put right."""
        run = self.run
        with ExitStack() as stack:
            self._connect(stack)
            stack.callback(run.stop)
            for agent in run.members:
                run.start(agent)
            if self.ending:
                self._end(over)
            else:
                self._go_on(over)
            for each in self._floods:
                each.join()

    def _connect(self, stack: ExitStack) -> None:
        """Relays in front of some members; or one for each neighbour of the member that will have a second process."""
        run, rng = self.run, self.rng
        near = run.federation.graph.neighbours(self.victim).tolist() if self.ending == "clone" else []
        hidden = {}
        for i in [self.victim] if near else rng.sample(range(run.agents), 0 if self.plant else rng.choice([0, 1, 2])):
            hidden[i] = f"127.0.0.1:{free_ports(1)[0]}"
            run.members[i].arguments += ["--listen", hidden[i]]
        for j in near:
            place = f"127.0.0.1:{free_ports(1)[0]}"
            self.relays[j] = stack.enter_context(Relay(place, hidden[self.victim], 0.0))
            run.members[j].routes = {run.members[self.victim].name: place}
        for i in () if near else hidden:
            pace = rng.choice([0.0, 0.005, 0.03])
            self.relays[i] = stack.enter_context(Relay(run.federation.members[i].address, hidden[i], pace))

    def _go_on(self, over: Callable[[], bool]) -> None:
        run, rng = self.run, self.rng
        while run.counts["kills"] < self.kills and not over():
            if all(agent.tick == run.federation.rounds for agent in run.members):
                break
            self._disturb()
            self._rest()
        for agent, point in zip(rng.sample(run.members, 2), ("heard all", "model written"), strict=True):
            agent.last = point
            self._kill(agent)
        while run.due:  # everything is put right again
            run.step(0.1)
        run.finish(over)
        if not over():
            run.check()

    def _end(self, over: Callable[[], bool]) -> None:
        """Some kills; then a member has two processes, or is put back as a whole."""
        run, rng, agent = self.run, self.rng, self.run.members[self.victim]
        for _ in range(0 if self.plant else rng.randrange(6)):
            self._kill(rng.choice(run.members))
            run.step(rng.uniform(0.0, 1.0))
        made = None
        while made is None and not over():  # until it speaks
            self._speaks(agent, 1, over)
            made = run.copy(agent)
        if over() or made is None:
            return
        if self.ending == "clone":
            self._double(agent, made)
            run.forgotten([agent, *run.clones])
        else:
            if rng.random() < 0.5:  # it is started again since, too
                self._speaks(agent, 1, over)
                self._kill(agent)
            agent.copies = [made]
            while not (agent.old or over()):  # until it has said enough since
                self._speaks(agent, 2, over)
                agent.rolls, lives = "both", agent.number
                while agent.number == lives and not over():
                    self._kill(agent)
                    run.step(0.1, calm=True)
            run.forgotten([agent])
        if not over():
            run.step(1.0, calm=True)
            run.stop()
            run.check_left()

    def _speaks(self, agent: Agent, times: int, over: Callable[[], bool]) -> None:
        """Until an agent has spoken so many times more."""
        seen: set[int] = {agent.tick}
        while len(seen) <= times and not over():
            self.run.step(0.1, calm=True)
            seen.add(agent.tick)

    def _double(self, agent: Agent, made: Copy) -> None:
        """A second process. Some neighbours, or none, reach it in place of the first, which may start once more."""
        place = f"127.0.0.1:{free_ports(1)[0]}"
        self.run.clone(agent, made, place)
        self.run.counts["clones"] += 1
        for j in self.rng.sample(sorted(self.relays), self.rng.randrange(len(self.relays) + 1)):
            self.relays[j].lead(place)
        if self.rng.random() < 0.5:
            self._kill(agent)

    def _rest(self) -> None:
        """A moment, so that the next blow hits agents that recover; or until somebody has spoken again."""
        run, rng = self.run, self.rng
        if rng.random() < 0.5:
            run.step(rng.uniform(0.0, 1.2))
            return
        before, until = [agent.tick for agent in run.members], time.monotonic() + 12
        while [agent.tick for agent in run.members] == before and time.monotonic() < until:
            run.step(0.1)
        run.step(rng.uniform(0.0, 0.4))

    def _disturb(self) -> None:
        weights = {"kill": 12, "kill some": 2, "stop": 2, "tell": 2, "flip": 3, "flood": 1.5}
        weights |= {"cut": 1, "hold": 1, "crawl": 1} if self.relays else {}
        weights |= {"copy": 4, "put store back": 3, "put ledger back": 3}
        if self.plant:
            weights = {"flip": 1} if self.plant == "blind" else {"kill": 1}
            weights = {"copy": 1, "put store back": 1} if self.plant == "a mark ignored" else weights
        what = self.rng.choices(list(weights), list(weights.values()))[0]
        agent = self.rng.choice(self.run.members)
        if what in ("copy", "put store back", "put ledger back") and self.rng.random() < 0.7:
            agent = self.run.members[self.victim]
        getattr(self, "_" + what.replace(" ", "_"))(agent)

    def _up(self, agent: Agent) -> bool:
        return not agent.cause and code(agent.process) is None

    def _kill(self, agent: Agent) -> None:
        if self._up(agent):
            agent.cause = "killed"
            agent.process.kill()

    def _kill_some(self, agent: Agent) -> None:
        for each in self.rng.sample(self.run.members, self.rng.randint(2, self.run.agents)):
            self._kill(each)

    def _stop(self, agent: Agent) -> None:
        seconds = self.rng.choice([0.1, 0.5, 2.0, 5.0]) * self.rng.uniform(0.5, 1.5)
        if self._up(agent):
            process = agent.process
            agent.cause = "stopped"
            send(process, signal.SIGSTOP)
            self.run.counts["stops"] += 1

            def resume() -> None:
                send(process, signal.SIGCONT)
                if agent.process is process:
                    agent.cause = ""

            self.run.later(seconds, resume)

    def _tell(self, agent: Agent) -> None:
        if self._up(agent):
            agent.told = (time.monotonic(), waited([agent.process.pid]))
            agent.cause = "told"
            send(agent.process, signal.SIGTERM)
            self.run.counts["SIGTERM"] += 1

    def _copy(self, agent: Agent) -> None:
        if not (agent.flipped or agent.rots or agent.old or agent.ended):
            self.run.copy(agent)

    def _put_store_back(self, agent: Agent) -> None:
        agent.rolls = "store"
        self._kill(agent)

    def _put_ledger_back(self, agent: Agent) -> None:
        agent.rolls = "ledger"
        self._kill(agent)

    def _flip(self, agent: Agent) -> None:
        agent.rots = True
        self._kill(agent)

    def _flood(self, agent: Agent) -> None:
        """A neighbour of the agent sends it damaged messages."""
        federation, me = self.run.federation, self.run.members.index(agent)
        sender = self.rng.choice(federation.graph.neighbours(me).tolist())
        identity = Identity.load(self.run.folder / federation.names[sender])
        rng = random.Random(self.rng.random())
        flood = threading.Thread(target=partial(flooded, federation, identity, sender, me, rng, 40), daemon=True)
        flood.start()
        self._floods.append(flood)
        self.run.counts["damaged messages"] += 40

    def _broken(self, what: str, breaks: Callable[[Relay], None], mends: Callable[[Relay], None]) -> None:
        i = self.rng.choice(sorted(self.relays))
        seconds, relay = self.rng.uniform(0.2, 5.0), self.relays[i]
        if getattr(relay, "broken", False):
            return
        relay.broken = True
        breaks(relay)
        self.run.counts[what] += 1

        def mend() -> None:
            mends(relay)
            relay.broken = False

        self.run.later(seconds, mend)

    def _cut(self, agent: Agent) -> None:
        self._broken("cuts", Relay.cut, Relay.reconnect)

    def _hold(self, agent: Agent) -> None:
        self._broken("held connections", Relay.hold, Relay.resume)

    def _crawl(self, agent: Agent) -> None:
        slower, faster = (lambda relay: setattr(relay, "_pace", 0.3)), (lambda relay: setattr(relay, "_pace", 0.0))
        self._broken("slow connections", slower, faster)


def flooded(federation: Federation, identity: Identity, sender: int, to: int, rng: random.Random, count: int) -> None:
    """A member sends nonsense to a neighbour, half of it in the name of its newest process. What would harm nobody but
    the member itself is left out: that it leaves, that it has another process, and where messages are shared, that it
    asks for a tick before its time."""
    own, address, rest = bytes.fromhex(federation.run), federation.members[to].address, count

    async def asked(line: Line, method: str, raw: bytes) -> bytes:
        async with asyncio.timeout(0.5):
            return await line.asks(method, raw)

    async def flood() -> None:
        nonlocal rest
        line, standing = await Line.to(address, identity), Standing()
        try:
            with suppress(Refused):
                raw = Greeting(name=identity.name, parts=federation.parts).SerializeToString()
                known = Greeting.FromString(await asked(line, "Greet", raw)).standing.known
                standing = Standing(own=known[0]) if known else standing
            while rest:
                rest -= 1
                method = rng.choice(["Greet", "Ask", "Leave"])
                asks = method == "Ask" and federation.exchange == ROWS
                run = own if asks and rng.random() < 0.7 else rng.randbytes(32)
                question = Question(run=run, sender=sender, tick=rng.choice([0, 1, 7, rng.getrandbits(32)]))
                greeting = Greeting(name=identity.name, parts=federation.parts, heard=rng.getrandbits(16))
                greeting.without.extend(rng.sample(federation.names, rng.randrange(3)))
                message = greeting if method == "Greet" else question
                if rng.random() < 0.5:
                    message.standing.CopyFrom(standing)
                damage = rng.choice([*DAMAGE.values(), lambda rng, raw: raw])
                with suppress(Refused):
                    await asked(line, method, damage(rng, message.SerializeToString()))
        finally:
            line.close()

    while rest:
        try:
            asyncio.run(flood())
        except OSError:  # no answer in time, or hung up, or the agent is down
            rest = max(0, rest - 1)


class Chaos:
    """All episodes, some at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._lock = options, threading.Lock()
        self._began, self._numbers = time.monotonic(), itertools.count()
        self._undisturbed: dict[Any, tuple[threading.Lock, list[Any]]] = {}
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.rows: dict[str, Counter[str]] = {kind: Counter() for kind in METHODS}
        self.violations: list[str] = []

    def over(self) -> bool:
        late = time.monotonic() > self._began + 60 * self._options.minutes
        return late or bool(self.violations) or self.faults >= self._options.faults

    @property
    def faults(self) -> int:
        return sum(self.counts[each] for each in FAULTS)

    def work(self) -> None:
        """One episode after the other."""
        while not self.over():
            with self._lock:
                number = next(self._numbers)
            if self._options.only is not None and number != self._options.only:
                if number > self._options.only:
                    return
                continue
            self._episode(number)

    def _episode(self, number: int) -> None:
        begin, kept = time.monotonic(), False
        folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        try:
            episode = Episode(folder, self._options.seed, number, self._options.plant)
            run = episode.run
            text = f"episode {number}: {run.kind}, {run.agents} agents, {run.federation.rounds} ticks, "
            text += ("fresh" if run.seed is None else "the same") + " noise" + ", a liar" * run.liar
            text += f", {episode.ending}" * bool(episode.ending)
            undisturbed = None if run.seed is None else self._without_chaos(run)
            episode.play(lambda: bool(self.violations))
            if self.violations:  # of another episode: this one was given up
                return
            if undisturbed is not None:
                models, rows = undisturbed
                require(run.rows() == rows, "a row differs from that of the undisturbed run")
                require(run.models() == models, "a model differs from that of the undisturbed run")
            if not episode.ending:
                run.models()
            run.counts["episodes"] += 1
            run.counts["episodes with the same noise"] += run.seed is not None
            run.counts["episodes that end with a copy"] += bool(episode.ending)
        except Exception as error:  # a mistake of this program is no success, either
            kept = not self._options.plant
            again = f"--seed {self._options.seed} --only {number}"
            again += f" --plant {self._options.plant!r}" if self._options.plant else ""
            kind = "" if isinstance(error, Violation | TacitError) else f"\n{traceback.format_exc()}"
            with self._lock:
                what = f"episode {number} ({again}), files in {folder}: {type(error).__name__}: {error}{kind}"
                self.violations.append(what)
            return
        finally:
            if not kept:
                shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self.counts += run.counts
            self.points += run.points
            self.rows[run.kind] += run.counts
            self.rows[run.kind]["agents"] = max(self.rows[run.kind]["agents"], run.agents)
            took = time.monotonic() - begin
            faults = sum(run.counts[each] for each in FAULTS)
            print(f"{text}: {faults} faults, {took:.0f} s; {self.faults:,} in all", flush=True)

    def _without_chaos(self, like: Run) -> Any:
        """Models and rows of the undisturbed run: the same whatever the ports and the keys are."""
        key = (like.kind, like.agents, like.liar)
        with self._lock:
            lock, found = self._undisturbed.setdefault(key, (threading.Lock(), []))
        with lock:
            if not found:
                with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
                    run = Run(Path(folder), like.kind, like.agents, like.seed, like.liar)
                    try:
                        for agent in run.members:
                            run.start(agent)
                        run.finish()
                        run.check()
                        found.append((run.models(), run.rows()))
                    finally:
                        run.stop()
            return found[0]

    @property
    def found(self) -> str:
        """The first violation, in a few words."""
        return next((each.split(": ", 2)[2].splitlines()[0].rstrip(":") for each in self.violations), "NO")

    def table(self) -> str:
        """What was done, and to whom."""
        names = {
            "faults": "faults in all",
            "kills": "kills",
            "kills at a chosen point": "of them at a chosen point",
            "SIGTERM": "SIGTERM",
            "stops": "stops",
            "cuts": "cuts",
            "held connections": "held connections",
            "slow connections": "slow connections",
            "ended because the disk was full": "ended because the disk was full",
            "refused because of the clock": "refused because of the clock",
            "flips": "flips",
            "flips that were named": "flips that were named",
            "flips without effect": "flips without effect",
            "flips of the head that forbid a backup": "flips of the head that forbid a backup",
            "rollbacks: store": "rollbacks of the store",
            "refused: store": "rollbacks of the store that were refused",
            "rollbacks: ledger": "rollbacks of the ledger",
            "refused: ledger": "rollbacks of the ledger that were refused",
            "rollbacks: both": "rollbacks of both",
            "refused: both": "rollbacks of both that ended with 78",
            "held up": "rollbacks of both that waited for ever",
            "clones": "clones",
            "refused: copy": "processes of cloned members that ended with 78",
            "ticks that left in two versions": "ticks that left in two versions",
            "ended because another member contradicted itself": "others that ended because of that",
            "silent neighbours": "silent neighbours",
            "slow inside": "lives with a slow disk",
            "full inside": "lives with a disk that fills up",
            "clock inside": "lives with a clock that jumps",
            "damaged messages": "damaged messages",
            "started again for a neighbour": "started again for a neighbour",
            "answers": "messages that were sent, each in one version",
            "episodes": "episodes",
            "episodes with the same noise": "episodes with the same noise",
            "episodes that end with a copy": "episodes that end with a clone or a rollback of both",
        }
        for counts in (self.counts, *self.rows.values()):
            counts["faults"] = sum(counts[each] for each in FAULTS)
        lines = ["| what | " + " | ".join(self.rows) + " | all |", "| --- " * (len(self.rows) + 2) + "|"]
        for what, name in names.items():
            each = [f"{self.rows[kind][what]:,}" for kind in self.rows]
            lines.append(f"| {name} | {' | '.join(each)} | {self.counts[what]:,} |")
        lines += [
            "",
            "| an agent was killed after it passed this point, and before the next | times |",
            "| --- | --- |",
        ]
        return "\n".join([*lines, *(f"| {point} | {self.points[point]:,} |" for point in POINTS)])


def played(options: argparse.Namespace) -> Chaos:
    """All episodes, until one has a violation."""
    chaos = Chaos(options)
    jobs = 1 if options.only is not None or options.plant else options.jobs
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(chaos.work) for _ in range(jobs)]:
            done.result()
    return chaos


def main() -> int:
    """Prints a line for each episode, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=1000, help="ends after so many")
    parser.add_argument("--minutes", type=float, default=60.0, help="begins no episode after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="episodes at a time")
    parser.add_argument("--only", type=int, help="the number of one episode")
    parser.add_argument("--plant", choices=PLANTS, default="", help="a bug to be found")
    parser.add_argument("--plants", action="store_true", help="each bug in turn; exits with 1 if one is not found")
    options = parser.parse_args()
    if options.plants:
        found = {name: played(argparse.Namespace(**vars(options) | {"plant": name})) for name in PLANTS}
        print("\n| bug | what it does | found |\n| --- | --- | --- |")
        for name, chaos in found.items():
            print(f"| {name} | {PLANTS[name]} | {chaos.found} |")
        return 0 if all(chaos.violations for chaos in found.values()) else 1
    begin, chaos = time.monotonic(), played(options)
    took = time.monotonic() - begin
    print(f"\nseed {options.seed}: {chaos.faults:,} faults in {took:.0f} s\n\n{chaos.table()}\n")
    print("\n".join(f"VIOLATION: {each}" for each in chaos.violations) or "no violation")
    return 1 if chaos.violations else 0


if __name__ == "__main__":
    del __file__  # otherwise every process that is forked would run this file first, to find nothing that it needs
    sys.exit(main())
