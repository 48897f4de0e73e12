"""Agents in processes of their own, for tests/agent. They are forked from a server that has tacit loaded, so that
starting one is cheap. Not a test."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.algorithms import (
    EXTRA,
    Averaged,
    ConsensusADMM,
    DualPerturbedADMM,
    Geometric,
    IncrementalADMM,
    PenaltyPerturbedADMM,
    RandomAggregationADMM,
    RandomCoordinateDescent,
    RecycledADMM,
)
from tacit.core.losses import Logistic
from tacit.data import Classes, Dataset, Number, Schema
from tacit.privacy import filters
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import unprotected
from tacit.run import recipes
from tacit.run.budget import Budget
from tacit.run.request import Request
from tacit.run.spec import RunSpec
from tacit.run.trust import Trust

NAMES = ("alder", "birch", "cedar", "dogwood", "elm")
EDGES = (
    ("alder", "birch"),
    ("birch", "cedar"),
    ("cedar", "dogwood"),
    ("dogwood", "elm"),
    ("alder", "elm"),
    ("birch", "elm"),
)
COMPLETE = tuple(itertools.combinations(NAMES, 2))
RING = (*itertools.pairwise(NAMES), ("alder", "elm"))
D, SEED, L2 = 15, 11, 0.5


@dataclass(frozen=True, kw_only=True)
class SometimesSilent(ConsensusADMM):
    """Every third tick nobody says anything: the neighbours go on with what they have."""

    def speak(self, s: Any, problem: Any, view: Any, noise: Any, t: int) -> Any:
        if t % 3 == 1:
            return s, unprotected(s.f, silent=np.full(len(s.f), True))
        return super().speak(s, problem, view, noise, t)


GAUSS = tacit.Gaussian(20.0)
STEPS = 6
# Runs that no recipe has, and that a file can say.
OWN: dict[str, tuple[Any, int]] = {
    "noise by node and step": (
        DualPerturbedADMM(penalty=0.5, alpha=[[0.1 * (5 + i + t) for i in range(5)] for t in range(STEPS)]),
        STEPS,
    ),
    "penalty by node, growing": (
        PenaltyPerturbedADMM(penalty=Geometric((0.5, 0.6, 0.7, 0.8, 0.9), 1.1), dual_step=0.4, budget=GAUSS),
        STEPS,
    ),
    "without a budget": (
        Averaged(method=RecycledADMM(penalty=Geometric(0.8, 1.05), gamma=0.3, budget=GAUSS), ticks=8, mixing=0.2),
        10,
    ),
    "exact": (RecycledADMM(penalty=Geometric(0.8, 1.05), gamma=0.3), 12),
}
SETTINGS: dict[str, tuple[Any, int]] = {
    "broadcast": (ConsensusADMM(penalty=0.5), 12),
    "silent": (SometimesSilent(penalty=0.5), 8),
    "recycled": (RecycledADMM(penalty=Geometric(0.8, 1.05), budget=GAUSS), 12),
    "robust": (RecycledADMM(penalty=Geometric(0.8, 1.05), budget=GAUSS), 12),
    "recycled, long": (RecycledADMM(penalty=Geometric(0.8, 1.005), budget=GAUSS), 50),
    "token": (IncrementalADMM(penalty=5.0, budget=GAUSS), 17),
    "token, prepared": (IncrementalADMM(penalty=5.0, offset=0.5), 9),
    "random aggregation": (RandomAggregationADMM(penalty=5.0, budget=GAUSS), 6),
    "coordinates": (RandomCoordinateDescent(step=0.5, budget=GAUSS), 6),
    "blocks of coordinates": (RandomCoordinateDescent(step=0.5, block=4, budget=GAUSS), 9),
    "extra": (EXTRA(step=0.5, mixing=0.25), 6),
    "secret-shared": (RecycledADMM(penalty=Geometric(0.8, 1.05), budget=GAUSS), 12),
    **OWN,
}
PRIVATE = (
    "noise by node and step",
    "penalty by node, growing",
    "recycled",
    "random aggregation",
    "coordinates",
    "blocks of coordinates",
    "coordinates, by the recipe",
    "robust",
    "recycled, long",
    "token",
    "secret-shared",
    "going on, private",
    "going on, complete",
    "going on, complete, patient",
    "going on, secret-shared",
    "totals",
    "totals, ring",
    "going on, totals",
)  # these are paid for from a ledger
ROBUST = {"robust": "clipping"}  # how members listen; the others take what is said
SHARED = ("secret-shared", "going on, secret-shared")
# Members that share their noise: the edges, and how many may collude and be away.
RESERVES: dict[str, tuple[Any, int, int]] = {
    "totals": (COMPLETE, 1, 0),
    "totals, ring": (RING, 1, 0),
    "going on, totals": (COMPLETE, 1, 1),
}


def shared(colluders: int, dropouts: int) -> Request:
    """Members that share their noise."""
    return Request(method="shared-descent", budget=Budget(2.0, 1e-5), trust=Trust(colluders, dropouts))


# What somebody asks for, and ticks in place of those that follow. If a kind is called so, the others go on after ten
# seconds without one of them.
ADMM = Request(method="admm", penalty=0.5, l2=L2, loss="logistic")
DVP, BUDGET = Request(method="dvp", budget=Budget(2.0, 1e-5)), Budget(10.0, 1e-5)
GOING_ON: dict[str, tuple[Request, int | None]] = {
    "going on": (ADMM, 30),
    "going on, token": (Request(method="i-admm", penalty=5.0, l2=L2, loss="logistic"), 17),
    "going on, private": (DVP, None),
    "going on, complete": (DVP, None),
    "going on, complete, patient": (DVP, None),  # also with agents that a busy machine lets wait
    "going on, secret-shared": (DVP, None),
    "coordinates, by the recipe": (Request(method="rcd", budget=Budget(2.0, 1e-5)), None),
    "by the file": (ADMM, 9),
    "totals": (shared(*RESERVES["totals"][1:]), None),
    "totals, ring": (shared(*RESERVES["totals, ring"][1:]), None),
    "going on, totals": (shared(*RESERVES["going on, totals"][1:]), None),
}
Fault = tuple[str, int] | None
# The server takes its search path from the environment alone, and passes over what it cannot import.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["agent_warm", "tacit.run.recipes", "agent_worker"])

SCHEMA = Schema(
    label=Classes("ill", positive=("yes",), negative=("no",)),
    columns=tuple(Number(f"x{k}", bounds=(0, 1)) for k in range(D)),
    row_norm=1.0,
)


def command(folder: Path, name: str, *args: str) -> None:
    """`tacit ARGS` in this folder; what it prints goes to NAME.out and NAME.err there."""
    from tacit import cli

    os.chdir(folder)
    for stream, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{kind}", os.O_WRONLY | os.O_CREAT, 0o600), stream)
    sys.argv = ["tacit", *args]
    cli.main()


def federation(folder: Path, kind: str, ports: list[int], sizes: list[int], identities: Path) -> Any:
    """Writes the file that all hold."""
    from tacit.agent.federation import ROWS, SUMS, TOTALS, Federation, Member, agreement, talk

    certificates = [(identities / name / "certificate.pem").read_text() for name in NAMES]
    members = [
        Member(name, f"127.0.0.1:{port}", rows, certificate)
        for name, port, rows, certificate in zip(NAMES, ports, sizes, certificates, strict=True)
    ]
    exchange = SUMS if kind in SHARED else TOTALS if kind in RESERVES else ROWS
    if kind in GOING_ON:
        asked, rounds = GOING_ON[kind]
        edges = RESERVES[kind][0] if kind in RESERVES else COMPLETE if "complete" in kind else EDGES
        patience = (600.0 if "patient" in kind else 10.0) if kind.startswith("going on") else 0.0
        more = {"exchange": exchange, "go_on_after": patience}
        made = agreement(kind, members, talk(NAMES, edges), asked, SCHEMA, **more)
        if rounds is not None:
            made = replace(made, spec=replace(made.spec, rounds=rounds))
    else:
        method, rounds = SETTINGS[kind]
        spec = RunSpec(
            ConsensusADMM() if kind == "silent" else method,
            rounds,
            Logistic(),
            talk(NAMES, EDGES),
            l2=L2,
            budget=BUDGET if kind in PRIVATE else None,
            trust=Trust(robust=ROBUST.get(kind)),
            scale=3.0,
        )
        made = Federation(kind, tuple(members), spec, SCHEMA, exchange)
    (folder / "fed.toml").write_text(made.to_toml())
    return made


@cache  # its setting is calibrated once in a process
def loaded(folder: Path, kind: str) -> Any:
    """The file; for a method of the test's own, which no file can say, with that in it."""
    from tacit.agent.federation import Federation

    read = Federation.load(folder / "fed.toml")
    if kind == "silent":
        spec = replace(read.spec, method=SETTINGS[kind][0])
        read.__dict__["setting"] = replace(read.setting, spec=spec)
    return read


def participant(folder: Path, kind: str, me: int, identities: Path, noise: Any) -> Any:
    from tacit.agent.identity import Identity
    from tacit.agent.ledger_heads import Books
    from tacit.agent.participant import Participant
    from tacit.agent.store import Store

    agreed, name = loaded(folder, kind), NAMES[me]
    with np.load(folder / "data.npz") as file:
        X, y = file[f"X{me}"], file[f"y{me}"]
    data = Dataset(X, y, SCHEMA.feature_names, np.arange(len(y)))
    ledger = Ledger(folder / f"{name}.ledger", cost=filters.epsilon) if kind in PRIVATE else None
    store = Store(folder / f"{name}.store", agreed.run, name, agreed.rounds)
    books = None
    if ledger is not None:
        (folder / "books" / name).mkdir(parents=True, exist_ok=True)
        books = Books(folder / "books" / name)
    return Participant(agreed, me, Identity.load(identities / name), data, store, ledger, noise, books=books)


def agent(
    folder: Path,
    kind: str,
    me: int,
    identities: Path,
    fault: Fault = None,
    slow: float = 0.0,
    life: int = 0,
    listen: str | None = None,
    door: Path | None = None,
) -> None:
    """One life. Once it has loaded what it needs, it waits for the file `door`. `fault` is

    - a moment at which the process kills itself: the n-th time that it passes a point;
    - or it is "cut off from" a neighbour, which it does not call while there is a file `cut`;
    - or it "calibrates for" so many seconds, if the others go on without somebody;
    - or it dies after it "gave its sum" or "gave the total" of tick n to one neighbour;
    - or it "keeps silent" about all that it remembers of others;
    - or it "has two faces": from tick n on it says something else to its first neighbour, and signs that, too;
    - or it "adds to its sum" of tick n: 2^62 to every entry;
    - or it "accuses everybody" of what it makes up, and with what others have really signed;
    - or it "says no number" from tick n on, to nobody, and signs that;
    - or it "soon says that it waits": after n seconds;
    - or it "tells another total" of tick n to its first child in the tree than to the others;
    - or it "has the nonce" of n, n, ...: as another process that does, of which it is a copy in memory.

    `slow` is the time that it takes to compute. Every number of a life has its own noise."""
    import agent_warm  # noqa: F401 (the server has it ready, unless another test has started the server first)

    errors = os.open(folder / f"{NAMES[me]}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(errors, 2)
    from tacit.agent.certificate import signed_report
    from tacit.agent.federation import Federation
    from tacit.agent.loop import AgentLoop
    from tacit.agent.participant import Participant
    from tacit.agent.run import take_part
    from tacit.agent.store import Store
    from tacit.agent.transport.peer import Peer
    from tacit.agent.transport.server import Server
    from tacit.agent.transport.wire import bare
    from tacit.agent.transport.wire_pb2 import Message

    logging.basicConfig(format="tacit: %(message)s")
    recipes._CALIBRATED.update(pickle.loads((folder / "calibrated").read_bytes()))

    algorithm = type(loaded(folder, kind).setting.algorithm)
    answered, computed = Server._ask, algorithm.speak
    uncommitted: dict[int, bytes] = {}
    answers, sent, given = itertools.count(), itertools.count(), itertools.count()

    async def witnessed(self: Any, name: str, question: Any) -> bytes:
        """What the world sees: lines in a plain file, on the disk before the answer is."""
        answer = await answered(self, name, question)
        if fault == ({1: "gave its sum", 2: "gave the total"}.get(question.phase), question.tick):
            if next(given):  # only the first that asks gets it
                await asyncio.sleep(60)
            soon = 0.005 if question.phase == 1 else 0.5  # before it hears the total; when the bytes have surely left
            asyncio.get_running_loop().call_later(soon, os.kill, os.getpid(), signal.SIGKILL)
        with (folder / "sent").open("a") as seen:
            # Everybody gets the same row; shares and partial sums are everybody's own.
            what = f"{question.run.hex()}:{question.tick}"
            what += f":{question.phase}:{question.sender}" if kind in (*SHARED, *RESERVES) else ""
            message = Message.FromString(answer)
            if message.run:  # it is an answer, and no refusal
                seen.write(f"{what} {me} {sha256(bare(message)).hexdigest()}\n")
                os.fsync(seen.fileno())
        if question.tick in uncommitted or (fault == ("answering", next(answers))):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault is not None and fault[0] == "answered" and fault[1] == next(sent):
            asyncio.get_running_loop().call_later(0.005, os.kill, os.getpid(), signal.SIGKILL)
        return answer

    def slowly(self: Any, state: Any, problem: Any, view: Any, noise: Any, t: int) -> Any:
        if noise is taken.noise:  # a plan is fast
            time.sleep(slow)
            while (folder / "hold").exists():  # it computes, and still answers: for agents that are slow anyway
                time.sleep(0.02)
        return computed(self, state, problem, view, noise, t)

    Server._ask, algorithm.speak = witnessed, slowly  # type: ignore[method-assign]
    if fault is not None and fault[0].startswith("forgets to commit"):  # the planted bug
        commit, message, calls = Store.commit, Store.message, itertools.count()

        def forgetful(self: Any, tick: int, state: Any, said: bytes, *more: Any) -> None:
            if next(calls) < fault[1]:
                commit(self, tick, state, said, *more)
            else:
                uncommitted[tick] = said

        digest, mark = Store.digest, Participant.mark
        Store.commit = forgetful  # type: ignore[method-assign]
        Store.digest = lambda self, tick: (  # type: ignore[method-assign]
            sha256(uncommitted[tick]).digest() if tick in uncommitted else digest(self, tick)
        )
        if fault[0] != "forgets to commit":
            Participant.mark = lambda self, t, digest: (  # type: ignore[method-assign]
                None if t in uncommitted else mark(self, t, digest)
            )
        Store.message = lambda self, tick: uncommitted.get(tick) or message(self, tick)  # type: ignore[method-assign]
    elif fault is not None and fault[0] == "cut off from":
        until = Peer._until

        async def cut_off(self: Any, *question: Any) -> Any:
            while self.name == NAMES[fault[1]] and (folder / "cut").exists():
                await asyncio.sleep(0.05)
            return await until(self, *question)

        Peer._until = cut_off  # type: ignore[method-assign]
    elif fault is not None and fault[0] == "keeps silent":
        _silent()
    elif fault is not None and fault[0] == "has two faces":
        _two_faced(fault[1])
    elif fault is not None and fault[0] == "says no number":
        from tacit.agent.delivery import Rows

        row, own = Rows.message, AgentLoop._own

        def no_number(self: Any, tick: int, release: Any) -> bytes:
            said = release.value + np.nan if tick >= fault[1] else release.value
            return row(self, tick, release._replace(value=said))

        Rows.message = no_number  # type: ignore[method-assign]
        AgentLoop._own = lambda self, tick: own(self, min(tick, fault[1] - 1))  # type: ignore[method-assign]
    elif fault is not None and fault[0] == "adds to its sum":
        from tacit.exchange.network_sharing import NetworkSharer

        partial = NetworkSharer.partial

        def false(self: Any) -> np.ndarray:
            return partial(self) + np.uint64(2**62 if self.round == fault[1] else 0)

        NetworkSharer.partial = false  # type: ignore[method-assign]
    elif fault is not None and fault[0] == "accuses everybody":
        _accusing()
    elif fault is not None and fault[0] == "soon says that it waits":
        from tacit.agent import waiting

        waiting._FIRST = float(fault[1])
        logging.getLogger("tacit.agent").setLevel(logging.INFO)  # as it is by default
    elif fault is not None and fault[0] == "tells another total":
        _another_total(fault[1])
    elif fault is not None and fault[0] == "has the nonce":
        from tacit.agent.incarnation import NONCE

        drawn, same = os.urandom, bytes([fault[1]] * NONCE)
        os.urandom = lambda n: same if n == NONCE else drawn(n)
    elif fault is not None and fault[0] == "calibrates for":
        reduced = Federation._without

        def at_length(self: Any, absent: Any) -> Any:
            time.sleep(fault[1])
            return reduced(self, absent)

        Federation._without = at_length  # type: ignore[method-assign]
    elif fault is not None and fault[0] not in ("answering", "answered", "gave its sum", "gave the total"):
        point, at = fault
        owner, method = {
            "paid": (Ledger, "reserve_run"),
            "computed": (algorithm, "speak"),
            "committed": (Store, "commit"),
            "marked in the ledger": (Ledger, "mark"),
            "may leave": (AgentLoop, "_publish"),
            "asked": (Peer, "ask"),
            "finished": (Store, "finish"),
        }[point]
        _fatal(owner, method, at)
    if (heads := folder / "heads" / NAMES[me]).is_dir():  # of its ledger: as if it were on other storage
        os.environ["TACIT_LEDGER_HEADS"] = str(heads)
    if door is not None:
        door.with_suffix(f".{NAMES[me]}").touch()
        while not door.exists():
            time.sleep(0.02)
    taken = participant(folder, kind, me, identities, tacit.SeededNoise(SEED + life))

    def finished(participant: Any, model: Any) -> None:
        if kind != "silent":  # of a method of the test's own no report can be checked
            signed_report.write(participant, model, folder / f"{NAMES[me]}.report.json")

    model = asyncio.run(take_part(taken, listen=listen, linger=60.0, finished=finished))
    (folder / f"{NAMES[me]}.json").write_text(json.dumps(model.tolist()))


def _silent() -> None:
    """A neighbour with a valid key that shows nobody what it has heard, from whom, and from which process, and answers
    every process."""
    from tacit.agent.conversation import Conversation
    from tacit.agent.incarnation import Incarnations
    from tacit.agent.signed_words import Statements
    from tacit.agent.transport.wire_pb2 import Standing

    greeting, standing = Conversation.greeting, Conversation.standing

    def forgetful(self: Any, name: str) -> Any:
        found = greeting(self, name)
        for memory in ("heard", "seen", "said", "contradictions"):
            found.ClearField(memory)
        return found

    Conversation.greeting = forgetful  # type: ignore[method-assign]
    Conversation.standing = lambda self, name: Standing(own=standing(self, name).own)  # type: ignore[method-assign]
    Statements.others = lambda self, listener: []  # type: ignore[method-assign]
    Incarnations.take = lambda self, name, standing: None  # type: ignore[method-assign]


def _two_faced(first: int) -> None:
    from tacit.agent.conversation import Conversation
    from tacit.agent.heard import MessageChain
    from tacit.agent.transport.wire import bare
    from tacit.agent.transport.wire_pb2 import Message

    find = Conversation.find

    def two_faced(self: Any, question: Any) -> bytes | None:
        raw = find(self, question)
        if raw is None or question.sender != self._agent.neighbours[0] or question.tick < first:
            return raw

        def other(tick: int) -> bytes:
            said = Message.FromString(self.participant.store.message(tick))
            if tick >= first:
                said.payload = (np.frombuffer(said.payload) + 1e-3).tobytes()
            return bare(said)

        chain = MessageChain()
        for tick in self.participant.store.digests():
            if tick <= question.tick:
                chain = chain.then(tick, sha256(other(tick)).digest())
        message = Message.FromString(raw)
        message.payload = Message.FromString(other(question.tick)).payload
        message.own.digest = chain.digest
        message.own.signature = self.participant.identity.sign(self.statements._text(message.own))
        return message.SerializeToString()

    Conversation.find = two_faced  # type: ignore[method-assign]


def _accusing() -> None:
    """In half of its answers and greetings: honest ones come through, so that the run goes on."""
    from tacit.agent.conversation import Conversation
    from tacit.agent.incarnation import Incarnations
    from tacit.agent.signed_words import Statements
    from tacit.agent.transport.wire_pb2 import (
        Contradiction,
        Greeting,
        Incarnation,
        LedgerHead,
        Message,
        Said,
        Standing,
        Twin,
    )

    processes: dict[str, list[Any]] = {}  # by member: all that it has shown
    words: list[Any] = []
    heads: dict[str, Any] = {}
    turns, rng = itertools.count(), random.Random(SEED)
    take, taken, hear = Incarnations.take, Conversation.greeted, Statements.hear

    def keep(self: Any, name: str, standing: Any) -> None:
        if standing.own not in processes.setdefault(name, []):
            processes[name].append(Incarnation.FromString(standing.own.SerializeToString()))
        take(self, name, standing)

    def keep_head(self: Any, name: str, greeting: Any) -> None:
        heads[name] = LedgerHead.FromString(greeting.ledger.SerializeToString())
        taken(self, name, greeting)

    def keep_words(self: Any, sender: int, message: Any, chain: Any) -> None:
        words.append(Said.FromString(message.own.SerializeToString()))
        hear(self, sender, message, chain)

    def accused(self: Any, listener: str, number: int) -> tuple[Any, list[Any], list[Any]]:
        """A standing, words and contradictions, each time others."""
        me, sign = self.participant, self.participant.identity.sign
        member, old = me.federation.names.index(listener), processes.get(listener, [])
        forged = Incarnation(member=member, number=999, nonce=bytes([number % 256]) * 16, signature=sign(b"forged"))
        newer = [Incarnation(member=p.member, number=p.number + 1, nonce=p.nonce, signature=p.signature) for p in old]
        same = [Incarnation(member=p.member, number=p.number, nonce=p.nonce[::-1], signature=p.signature) for p in old]
        known = [*old[:1], *newer[-1:], *same[-1:], forged][number % 4 :][:1] or [forged]
        twins = [Twin(older=old[0], newer=p, signature=p.signature) for p in (*old[-1:], *newer[-1:])][:1]
        standing = Standing(own=self._incarnations.own, known=known, twins=twins * (number // 4 % 2))
        claimed = Said(member=member, tick=number % 12, digest=bytes(32), signature=sign(b"forged"))
        moved = [Said(member=w.member, tick=w.tick + 1, digest=w.digest, signature=w.signature) for w in words[-1:]]
        pairs = [(words[0], words[-1]), (words[-1], moved[-1]), (words[-1], words[-1])] if words else []
        pairs.append((claimed, Said(member=member, tick=claimed.tick, digest=bytes([1] * 32), signature=sign(b"f"))))
        one, other = pairs[number // 4 % len(pairs)]
        return standing, [claimed, *moved, *words[-3:]], [Contradiction(one=one, other=other)]

    greeting, beside = Conversation.greeting, Conversation._beside

    def false_greeting(self: Any, name: str) -> Any:
        found, number = greeting(self, name), next(turns)
        if rng.random() < 0.5:
            return found
        standing, said, contradictions = accused(self, name, number)
        false = Greeting.FromString(found.SerializeToString())
        for field in ("standing", "said", "contradictions", "seen"):
            false.ClearField(field)
        more = Greeting(standing=standing, said=said, contradictions=contradictions)
        if (head := heads.get(name)) is not None:
            more.seen.CopyFrom(head)
            more.seen.rows += 1
        false.MergeFrom(more)
        return false

    def false_beside(self: Any, question: Any) -> bytes:
        number = next(turns)
        if rng.random() < 0.5:
            return beside(self, question)
        name = self.participant.federation.names[question.sender]
        standing, said, contradictions = accused(self, name, number)
        own = None if question.phase else self.statements.own(question.tick)
        more = Message(standing=standing, own=own, said=said, contradictions=contradictions)
        return more.SerializeToString()

    Incarnations.take, Conversation.greeted, Statements.hear = keep, keep_head, keep_words  # type: ignore[method-assign]
    Conversation.greeting, Conversation._beside = false_greeting, false_beside  # type: ignore[method-assign]


def _another_total(tick: int) -> None:
    from tacit.agent.totals_delivery import TOTAL, TotalsDelivery
    from tacit.agent.transport.wire import packed

    answer = TotalsDelivery.answer

    def other(self: Any, question: Any, message: bytes) -> bytes | None:
        raw, me = answer(self, question, message), self._participant.me
        if raw is None or (question.phase, question.tick) != (TOTAL, tick):
            return raw
        if question.sender != self._tree(tick).children(me)[0]:
            return raw
        words = self._totals[tick] + np.uint64(2**20)  # well within the bounds
        run = self._participant.federation.run
        return packed(run, me, tick, words.astype("<u8").tobytes(), phase=TOTAL)

    TotalsDelivery.answer = other  # type: ignore[method-assign]


def _fatal(owner: Any, method: str, at: int) -> None:
    """The process dies when this method is called for the at-th time, once it has done its work."""
    real, calls = getattr(owner, method), itertools.count()

    def fatal(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, method, fatal)
