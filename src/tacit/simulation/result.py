"""What a simulation did, and the file that keeps it."""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.core.alike import Alike, distinct
from tacit.core.graph import Graph
from tacit.errors import InputError
from tacit.files import replacing
from tacit.privacy.events import from_plain, to_plain
from tacit.simulation.spent import Spent, shared

_FORMAT = 3
_LISTS = 2  # a format that is read, too: it has the graph's edges, not a digest, and what every agent spent


@dataclass
class Run:
    """What a simulation did: the state to go on from, and what was seen on the way.

    Of a private run, the model and what the agents sent are protected. State, history, the problem's digest and the
    file that `save` writes are not: they are for whoever runs the simulation and has the data anyway. A run that is
    resumed twice releases twice, and only a ledger charges for that.
    """

    state: Any  # the algorithm's State, after `rounds` rounds
    rounds: int
    estimate: np.ndarray  # (N, d) every agent's model
    history: dict[str, np.ndarray]  # one entry for the start and for every measured round, which "round" counts
    spent: Spent  # for every agent, how often it released at which cost
    trajectory: np.ndarray | None  # (measured rounds, N, d) every agent's variable, as in `history`; if recorded
    converged: bool  # whether the residuals fell below the given tolerance
    seeded: bool  # whether whoever knows the seed could draw its noise again: then nothing of it is private
    identity: dict[str, str] = field(repr=False)  # of algorithm, problem and graph: what a resumed run must match
    heard: np.ndarray | None = field(default=None, repr=False)  # what robust listeners remember

    def __repr__(self) -> str:
        return f"Run({len(self.estimate)} agents, {self.rounds} rounds, private={self.private})"

    def _repr_html_(self) -> str:
        from tacit import html  # for notebooks alone

        facts: list[tuple[str, object]] = [
            ("agents", len(self.estimate)),
            ("rounds", self.rounds),
            ("private", self.private),
        ]
        if "messages" in self.history:
            facts.append(("messages", f"{int(self.history['messages'][-1]):,}"))
        # What was measured along a private run is not protected, and a notebook is easily handed on.
        shown = () if self.private else ("model_loss", "consensus_error")
        measured = {name: self.history[name].tolist() for name in shown if name in self.history}
        return html.card("Run", facts, *(html.line(name.replace("_", " "), found) for name, found in measured.items()))

    @property
    def model(self) -> np.ndarray:
        """(d,) the average over agents."""
        return self.estimate.mean(axis=0)

    @property
    def private(self) -> bool:
        """Whether everything that left an agent left under an event of finite cost, with noise that protects."""
        return not self.seeded and all(event.protected for counter in distinct(self.spent) for event in counter)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the run to an .npz file (arrays and JSON text, no pickle), completely or not at all."""
        spent = shared(self.spent)
        meta = {
            "format": _FORMAT,
            "rounds": self.rounds,
            "converged": self.converged,
            "seeded": self.seeded,
            "identity": self.identity,
            "spent": [[[to_plain(event), n] for event, n in counter.items()] for counter in spent.items],
            "history": list(self.history),
        }
        arrays: dict[str, Any] = {f"state_{name}": array for name, array in _arrays(self.state).items()}
        arrays |= {f"history_{name}": array for name, array in self.history.items()}
        arrays |= {"estimate": self.estimate, "spent": spent.which}
        arrays |= {name: array for name in ("trajectory", "heard") if (array := getattr(self, name)) is not None}
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """Reads what `save` wrote. The state comes back as a plain mapping until a simulation resumes it."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            meta = json.loads(str(arrays.pop("meta")))
            if meta["format"] == _LISTS:
                graph = Graph(len(arrays["estimate"]), json.loads(meta["identity"]["graph"]))
                meta["identity"]["graph"] = graph.fingerprint()
                arrays["spent"] = np.arange(graph.agents)
            elif meta["format"] != _FORMAT:
                raise InputError(
                    f"{path} is a run of format {meta['format']}, this version of tacit reads {_FORMAT}: use the one "
                    "that wrote it"
                )
            return cls(
                state={k.removeprefix("state_"): v for k, v in arrays.items() if k.startswith("state_")},
                rounds=meta["rounds"],
                estimate=arrays["estimate"],
                history={name: arrays[f"history_{name}"] for name in meta["history"]},
                spent=Alike(
                    [Counter({from_plain(event): n for event, n in counter}) for counter in meta["spent"]],
                    arrays["spent"],
                ),
                trajectory=arrays.get("trajectory"),
                converged=meta["converged"],
                seeded=meta["seeded"],
                identity=meta["identity"],
                heard=arrays.get("heard"),
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a saved run: {error}") from None


def resumed(run: Run, fresh: Any, identity: dict[str, str]) -> Any:
    """The state of a run to resume, if the run has the same identity and its parts fit together."""
    for name in {*identity, *run.identity}:
        if run.identity.get(name) != identity.get(name):
            raise InputError(f"the run to resume had another {name}: it cannot go on with this one")
    arrays, expected = _arrays(run.state), fresh._asdict()
    fits = arrays.keys() == expected.keys() and all(
        arrays[name].shape == array.shape and arrays[name].dtype == array.dtype for name, array in expected.items()
    )
    measured = run.history.get("round", np.empty(0))
    whole = len(measured) > 0 and measured[-1] == run.rounds and {len(measured)} == set(map(len, run.history.values()))
    recorded = run.trajectory is None or len(run.trajectory) == len(measured)
    if not (fits and whole and recorded) or len(run.spent) != len(fresh[0]):
        raise InputError("the run to resume is damaged: its parts do not fit together")
    return type(fresh)(**arrays)


def _arrays(state: Any) -> dict[str, np.ndarray]:
    """The arrays of a state by name, whether it is a NamedTuple or was read from a file."""
    return state if isinstance(state, dict) else state._asdict()
