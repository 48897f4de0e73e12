"""Where an agent is, for whoever looks from outside: the log, a supervisor, metrics.

Nothing in here comes from records. Only the seconds may depend on them: on how long a step takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from tacit.agent.clock import Clock

_KINDS = 100  # of refusals that are counted by name


class Traffic:
    """What has passed between this agent and its neighbours, and what was refused."""

    def __init__(self) -> None:
        self.received = self.sent = 0  # bytes of questions and answers, without TLS and HTTP/2
        self.refused: Counter[str] = Counter()  # by kind

    def refuse(self, kind: str) -> None:
        """Counts a refusal. However many kinds there are, the count stays small."""
        known = kind in self.refused or len(self.refused) < _KINDS
        self.refused[kind if known else "other"] += 1


class Progress:
    """One agent, through all runs in which it takes part. It is written by the agent's event loop; others may read it
    at any time. `beaten` is called with every heartbeat of that loop."""

    def __init__(self, beaten: Callable[[Progress], None] = lambda progress: None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.member, self.run = "", ""
        self.doing, self.tick, self.rounds = "starting", 0, 0
        self.waiting_for: tuple[str, ...] = ()
        self.since = self.clock.steady()  # it has been doing this
        self.contacts: Callable[[], Mapping[str, float | None]] = dict  # by neighbour: when it was last heard from
        self.beat: float | None = None  # when the event loop was last seen to run; None before the agent answers
        self.commits = self.ticks = 0
        self.beyond = 0  # totals that lay beyond their bounds, and were not used
        self.differing: dict[str, int] = {}  # neighbours that have heard other totals, and the tick that showed it
        self.tick_seconds = 0.0  # of all these ticks
        self.traffic = Traffic()
        self.accused: dict[str, int] = {}  # members that have signed two versions of a tick, and which
        self._beaten = beaten

    def enter(self, member: str, run: str, rounds: int) -> None:
        """The agent takes part in this run from now on."""
        self.member, self.run, self.rounds, self.tick = member, run, rounds, 0

    def show(self, doing: str, tick: int, waiting_for: Iterable[str] = ()) -> None:
        """What the agent does from now on, and at which tick."""
        if (doing, tick) != (self.doing, self.tick):
            self.since = self.clock.steady()
        self.doing, self.tick, self.waiting_for = doing, tick, tuple(waiting_for)

    def heard(self, name: str) -> None:
        """The agent need not wait for this neighbour any longer."""
        self.waiting_for = tuple(each for each in self.waiting_for if each != name)

    def heartbeat(self) -> None:
        """The agent answers, and its event loop runs."""
        self.beat = self.clock.steady()
        self._beaten(self)

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Inside this context the agent goes through one tick."""
        began = self.clock.steady()
        yield
        self.ticks += 1
        self.tick_seconds += self.clock.steady() - began

    @property
    def seconds(self) -> float:
        """For how long the agent has been doing what it does."""
        return self.clock.steady() - self.since

    @property
    def place(self) -> str:
        """Where the agent is, for a person."""
        return f"round {self.tick} of {self.rounds}"
