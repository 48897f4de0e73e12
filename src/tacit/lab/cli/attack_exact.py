"""`tacit attack` on the methods without privacy: gradients, then records."""

from __future__ import annotations

import csv
import json as json_format
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tacit.algorithms import DGD, EXTRA, IncrementalADMM
from tacit.cli import names
from tacit.cli.console import err, tell_written
from tacit.cli.console import out as screen
from tacit.cli.records import Division, encoded, read, share_out
from tacit.core.graph import Graph
from tacit.core.losses import Logistic, Loss, Squared
from tacit.core.problem import Problem
from tacit.data import Classes, Target
from tacit.errors import InputError, whole
from tacit.files import replacing, writable
from tacit.lab import listings
from tacit.lab.attacks.leaks import Attacked, Leak, leak
from tacit.lab.attacks.overheard import Transcript
from tacit.lab.attacks.stationarity import Broadcasts, Gradients, gradients, overhear
from tacit.lab.cli.attack_options import WHO, AttackOptions
from tacit.lab.papers.experiment import Panel, PaperFigure, Series
from tacit.run import exact

LOSSES: dict[str, Loss] = {"ridge": Squared(), "logistic": Logistic()}
MOST_AGENTS = 10_000
AGENTS, ROWS, COLUMNS, ROUNDS, OTHERS = 5, 3, 8, 60, 500


def attack(asked: AttackOptions, folder: Path | None) -> None:
    """Runs the method, attacks all agents, and shows what was learnt."""
    names.pick(WHO, asked.who, "who")
    rounds = ROUNDS if asked.rounds is None else asked.rounds
    whole("--rounds", rounds, 2)
    attacked, agents, columns = _made_up(asked) if asked.data is None else _from_file(asked)
    N = len(attacked.parts)
    if not 1 <= asked.agent <= N:
        raise InputError(f"--agent must be between 1 and {N}, not {asked.agent}")
    talk = names.graph("ring" if asked.graph == "auto" else asked.graph, N, agents, asked.seed)
    method = _method(asked, attacked.problem, talk)
    if folder is not None:
        names.folder(folder)
        for name in ("attack.png", "attack.csv"):
            writable(folder / name)
    with err.status("listening") as status, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about penalties that converge slowly
        ticks = rounds * (N if isinstance(method, IncrementalADMM) else 1)
        heard = overhear(method, attacked.problem, talk, ticks)
        known = known_of(asked.who, method, heard, talk)
        found = []
        for i in range(N):
            status.update(f"attacking agent {i + 1} of {N}")
            found.append(leak(known[i], attacked, i))
    if not all(np.isfinite(each.values).all() and np.isfinite(each.points).all() for each in known):
        raise InputError("the method diverged: try another --penalty")
    if asked.json:
        typer.echo(json_format.dumps(_as_json(asked, attacked, found)))
    else:
        screen.print(listings.leaks(table(found, attacked)))
        screen.print(f"\n{in_words(asked, found, attacked)}", soft_wrap=True)
    if folder is not None:
        from tacit.lab.papers import drawing  # matplotlib is slow to import: not for --help

        i = asked.agent - 1
        n, d = attacked.parts[i][0].shape
        title = f"{asked.method}, {N} agents: what {WHO[asked.who]} of {agents[i]} ({n} rows, {d} columns)"
        figure = PaperFigure(title, _panels(attacked, known[i], found[i], i))
        drawing.paper_figure(figure, folder / "attack.png")
        _write_records(folder / "attack.csv", attacked, found, agents, columns)
        tell_written(folder / "attack.png", folder / "attack.csv")


def known_of(who: str, method: Any, heard: Broadcasts | Transcript, talk: Graph) -> list[Gradients]:
    """The gradients of each agent, as these attackers know them."""
    if who == "overheard":
        return gradients(method, heard, talk)
    out = []
    for i in range(talk.agents):
        near = talk.neighbours(i).tolist()
        out.append(gradients(method, heard, talk, near if who == "neighbours" else near[:1])[i])
    return out


def _method(asked: AttackOptions, problem: Problem, talk: Graph) -> Any:
    if asked.method in ("dgd", "extra"):
        if asked.penalty is not None:
            raise InputError(f"{asked.method} has a step, which follows from the records: leave out --penalty")
        return (DGD if asked.method == "dgd" else EXTRA)(
            step=0.5 / float(problem.smoothness().max()), mixing=talk.mixing
        )
    sizes = problem.sizes.tolist()
    usual = exact.usual_penalty(asked.method, problem.loss, l2=exact.L2, row_norm=1.0, sizes=sizes)  # no gradient steps
    return exact.ALGORITHMS[asked.method].make(usual if asked.penalty is None else asked.penalty, talk)


def _made_up(asked: AttackOptions) -> tuple[Attacked, list[str], list[str]]:
    """Normal features, and a column of ones; labels of a random model. With the names of agents and columns."""
    loss = names.pick(LOSSES, asked.loss or "logistic", "loss")
    n, rows = AGENTS if asked.agents is None else asked.agents, ROWS if asked.rows is None else asked.rows
    whole("--agents", n, 2)
    if n > MOST_AGENTS:
        raise InputError(f"--agents must be {MOST_AGENTS:,} at most, not {n}")
    whole("--rows", rows, 1)
    for option, given in {"--label": asked.label, "--site": asked.site, "--schema": asked.schema}.items():
        if given is not None:
            raise InputError(f"{option} is about a file of records: give --data FILE, too")
    rng = np.random.default_rng(asked.seed)
    total = n * rows + OTHERS
    X = np.c_[rng.normal(size=(total, COLUMNS - 1)) / math.sqrt(COLUMNS), np.ones(total)]
    z = X[:, :-1] @ rng.normal(size=COLUMNS - 1) + rng.normal(size=total) / 2
    y = np.where(z > 0, 1.0, -1.0) if loss == Logistic() else z
    parts = [(X[k * rows : (k + 1) * rows], y[k * rows : (k + 1) * rows]) for k in range(n)]
    problem = Problem(parts, loss=loss, l2=exact.L2)
    ones, others = COLUMNS - 1, np.c_[X, y][n * rows :]
    attacked = Attacked(problem, parts, loss == Logistic(), ones, ones, others)
    return attacked, [f"agent {k + 1}" for k in range(n)], [f"column {c + 1}" for c in range(COLUMNS)]


def _from_file(asked: AttackOptions) -> tuple[Attacked, list[str], list[str]]:
    """The user's own records, which should be public ones: the command prints what it finds out about them."""
    assert asked.data is not None
    table, schema = read(asked.data, asked.label, asked.site, asked.schema)
    usual = {Classes: "logistic", Target: "ridge"}.get(type(schema.label))
    if usual is None:
        raise InputError("the attacks are for labels of two classes, or numbers: choose another label")
    loss = names.pick(LOSSES, asked.loss or usual, "loss")
    if loss == Logistic() and usual == "ridge":
        raise InputError(f"the label {schema.label.column!r} is a number: take --loss ridge")
    records = encoded(table, schema)
    held, agents = share_out(table, records, Division(asked.site, asked.agents, None), asked.seed, schema.sites)
    if len(held) < 2:
        raise InputError("a single agent says nothing to anybody: an attack needs two or more")
    rng = np.random.default_rng(asked.seed)
    if asked.rows is not None:
        whole("--rows", asked.rows, 1)
        held = [np.sort(rng.permutation(rows)[: asked.rows]) for rows in held]
    dense = np.asarray(records.X.toarray() if hasattr(records.X, "toarray") else records.X)
    assert records.y is not None
    rest = np.setdiff1d(np.arange(len(dense)), np.concatenate(held))
    if not len(rest):
        raise InputError("no record is left to compare members with: give --rows, fewer than each agent has")
    rest = np.sort(rng.permutation(rest)[:OTHERS])
    parts = [(dense[rows], records.y[rows]) for rows in held]
    sizes = np.array([len(rows) for rows in held])
    problem = Problem(parts, loss=loss, scale=sizes / sizes.mean(), l2=exact.L2)
    last = dense.shape[1] - 1 if schema.intercept else None
    ones = None if schema.row_norm else last
    others = np.c_[dense[rest], records.y[rest]]
    return Attacked(problem, parts, usual == "logistic", last, ones, others), agents, list(records.names)


def table(found: list[Leak], attacked: Attacked) -> list[tuple[str, str, str, str]]:
    """What, of how many agents, how wrong in the mean over them, and how wrong a guess is."""
    wrong = "share wrong" if attacked.signs else "error"
    lines: list[tuple[str, Callable[[Leak], float], float]] = [
        ("gradients, error", lambda k: k.gradients, 1.0),
        ("Hessian, error", lambda k: k.curvature, 1.0),
        ("records, error", lambda k: k.records, float(np.mean([k.guessed_records for k in found]))),
        (f"labels of known features, {wrong}", lambda k: k.labels, float(np.mean([k.guessed_labels for k in found]))),
        ("who is in the records, AUC", lambda k: k.membership, 0.5),
    ]
    out = []
    for name, of, guess in lines:
        values = [of(each) for each in found if not math.isnan(of(each))]
        shown = f"{np.mean(values):.3g}" if values else "not determined"
        out.append((name, f"{len(values)} of {len(found)}", shown, f"{guess:.3g}"))
    return out


def in_words(asked: AttackOptions, found: list[Leak], attacked: Attacked) -> str:
    """A summary of the table."""
    told = [k.records for k in found if k.records < 1e-3]
    heard = sum(k.heard > 0 for k in found)
    who = WHO[asked.who]
    first = f"{who[0].upper()}{who[1:]} exact gradients of {heard} of {len(found)} agents"
    first += f" (in the median {np.median([k.heard for k in found]):g} each)"
    if told:
        return f"{first}. All records of {len(told)} of them follow, to {max(told):.1g} of their size or better."
    if not attacked.logistic and any(not math.isnan(k.curvature) for k in found):
        return f"{first}. For least squares they are X'X and X'y: the rows up to a rotation, and no more."
    return f"{first}. The records of none of them follow."


def _as_json(asked: AttackOptions, attacked: Attacked, found: list[Leak]) -> dict[str, Any]:
    def plain(value: float) -> float | None:
        return None if math.isnan(value) else value

    fields = [name for name in Leak._fields if name != "found"]
    agents = [{name: plain(getattr(each, name)) for name in fields} for each in found]
    rows = [len(X) for X, _ in attacked.parts]
    settings = {"method": asked.method, "who": asked.who, "loss": "logistic" if attacked.logistic else "ridge"}
    return settings | {
        "columns": attacked.problem.dimension,
        "agents": [{"rows": n} | each for n, each in zip(rows, agents, strict=True)],
    }


def _panels(attacked: Attacked, known: Gradients, found: Leak, i: int) -> list[Panel]:
    """The error of each gradient, and the agent's records, true and reconstructed."""
    X, y = attacked.parts[i]
    own = attacked.problem.take([i])
    true = np.concatenate([own.gradient(point[None]) for point in known.points]) if found.heard else known.values
    off, size = (np.linalg.norm(v, axis=1) for v in (known.values - true, true))
    time = np.arange(1, found.heard + 1)
    errors = [Series.of("error", time, np.maximum(off, 1e-17)), Series.of("size", time, size)]
    panels = [Panel("gradients", "message", "norm", errors, log_y=True)]
    column = np.arange(1, X.shape[1] + 1)
    if found.found is not None:
        for r, (theirs, ours) in enumerate(_matched(found, X, y)):
            series = [Series.of("truth", column, theirs, "ko"), Series.of("reconstructed", column, ours, "x")]
            panels.append(Panel(f"record {r + 1}", "column", "value", series))
            if r == 4:
                break
    return panels


def _matched(found: Leak, X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The true records, each with the one that was found for it."""
    from scipy.optimize import linear_sum_assignment

    assert found.found is not None
    true = y[:, None] * X if found.found.labels is None else X
    ours = found.found.rows
    mine, its = linear_sum_assignment(np.linalg.norm(true[:, None] - ours, axis=2))
    return [(true[a], ours[b]) for a, b in zip(mine, its, strict=True)]


def _write_records(path: Path, attacked: Attacked, found: list[Leak], agents: list[str], columns: list[str]) -> None:
    """All numbers of all records that were reconstructed, beside the true ones."""
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["agent", "record", "column", "true", "reconstructed"])
        for i, each in enumerate(found):
            if each.found is None:
                continue
            for r, pair in enumerate(_matched(each, *attacked.parts[i])):
                for column, a, b in zip(columns, *pair, strict=True):
                    out.writerow([agents[i], r + 1, column, f"{a:.9g}", f"{b:.9g}"])
