"""The command `tacit coalition`."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tacit.cli import names, options
from tacit.cli.console import check_total
from tacit.cli.console import out as screen
from tacit.cli.plan import sizes_of
from tacit.errors import InputError, whole
from tacit.run.budget import Budget

TOKENS = ("pi-admm", "token-gd")
_WIDEST = 10  # agents in a table with a column for each
_COALITION = "The agents that put together what they hear: 0,2. May be left out for a token: then each looks alone."
_METHOD = (
    f"How the others are protected: **sums** (secret-shared sums of exact or noisy rows), or {' or '.join(TOKENS)}, "
    "where an agent sees the token only when it comes by."
)


def coalition(
    method: Annotated[str, typer.Argument(help=_METHOD)] = "sums",
    members: Annotated[str | None, typer.Option(help=_COALITION, show_default=False)] = None,
    rows: Annotated[str, typer.Option(help="The rows of each agent: 8000 for all, or 500,900,1200.")] = "8000",
    agents: Annotated[int | None, typer.Option(help="How many agents, if --rows is one number (5).")] = None,
    graph: options.GraphText = "ring",
    epsilon: Annotated[float, typer.Option(help="For a token: the total that the plan charges.")] = 1.0,
    delta: options.Delta = 1e-5,
    dimension: Annotated[int, typer.Option(help="For a token: how many features.")] = 104,
    published: Annotated[bool, typer.Option("--published", help="For a token: the model is made public, too.")] = False,
    json: options.Json = False,
) -> None:
    """Show what some agents learn about the others if they put together what they hear.

    - **sums**: each agent hears the sum of what its neighbours say, and no single row. Some sums together reveal a row:
      the command says whose rows the coalition can compute, whatever the method is.
    - **pi-admm**, **token-gd**: an agent sees the token only when it comes by, so it learns less about agents that are
      far away on the token's way. The command prints an epsilon for each agent: a bound on what the coalition learns
      about one of its records, or without --members what each agent learns about each other one. This holds if links
      are encrypted, all agents follow the method, and nobody averages the models at the end. A ledger is charged the
      plan's total all the same.

    Example: `tacit coalition sums --agents 6 --members 0,2,4`

    Example: `tacit coalition token-gd --agents 8 --epsilon 2 --delta 1e-6`

    Example: `tacit coalition pi-admm --agents 8 --members 1,5 --delta 1e-6`
    """
    sizes = sizes_of(rows, agents)
    whole("--dimension", dimension, 1)
    talk = names.graph(graph, len(sizes), [f"agent {i}" for i in range(len(sizes))], 0)
    together = None if members is None else _places(members, len(sizes))
    if method == "sums":
        if together is None:
            raise InputError("say which agents put together what they hear: --members 0,2")
        if published:
            raise InputError("--published is for a token: sums reveal what they reveal without a model")
        return _tell_sums(talk, together, json)
    if method not in TOKENS:
        raise InputError(f"METHOD is one of sums, {', '.join(TOKENS)}; not {method!r}")
    budget = Budget(epsilon, delta)
    check_total(budget, int(sizes.sum()))
    from tacit.privacy.network import learnt, pairwise  # slow to import: not for --help
    from tacit.run.recipes import RECIPES

    # Nobody averages the models at the end: that is no recipe that a file can name.
    found = replace(RECIPES[method], name="", averages=False).setting(sizes, dimension, talk, budget)
    run = (found.algorithm, found.facts, talk, found.rounds, delta)
    if together is None:
        _tell_pairs(pairwise(*run, published=published), epsilon, delta, json)
    else:
        _tell_learnt(learnt(*run, by=together, published=published), together, epsilon, delta, json)


def _places(text: str, agents: int) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise InputError(f"--members are numbers of agents, such as 0,2; not {text!r}") from None
    if not 0 <= found[0] <= found[-1] < agents:
        raise InputError(f"--members are agents from 0 to {agents - 1}; not {text!r}")
    return found


def _tell_sums(talk: Any, together: Sequence[int], json: bool) -> None:
    from tacit.exchange.collusion import revealed

    found = revealed(talk, together)
    if json:
        typer.echo(json_format.dumps({"members": list(together), "revealed": found}))
        return
    who = f"agent{'s' * (len(together) > 1)} {', '.join(map(str, together))}"
    if len(together) == talk.agents:
        screen.print("these are all agents: nobody is left to learn about")
        return
    if found:
        screen.print(f"{who} can compute the rows of: {', '.join(map(str, found))}", soft_wrap=True)
    else:
        screen.print(f"{who} can compute nobody's row from the sums of one round", soft_wrap=True)
    screen.print("a method relates the rows of different rounds, so more may follow from many rounds", soft_wrap=True)


def _tell_pairs(table: np.ndarray, epsilon: float, delta: float, json: bool) -> None:
    if json:
        typer.echo(json_format.dumps({"plan": epsilon, "delta": delta, "epsilon": table.tolist()}))
        return
    agents = len(table)
    title = f"epsilon at delta = {delta:g}: what j learns about a record of i; the plan charges {epsilon:g}"
    screen.print(title, soft_wrap=True)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("about i", justify="right")
    if agents <= _WIDEST:
        for j in range(agents):
            shown.add_column(f"j = {j}", justify="right")
        for i, line in enumerate(table):
            shown.add_row(str(i), *("" if i == j else f"{x:.4f}" for j, x in enumerate(line)))
    else:
        for heading in ("least", "median", "most"):
            shown.add_column(heading, justify="right")
        for i, line in enumerate(table):
            others = np.delete(line, i)
            shown.add_row(str(i), *(f"{x:.4f}" for x in (others.min(), np.median(others), others.max())))
    screen.print(shown)


def _tell_learnt(found: np.ndarray, together: Sequence[int], epsilon: float, delta: float, json: bool) -> None:
    about = {i: float(x) for i, x in enumerate(found) if i not in together}
    if json:
        plain = {"members": list(together), "plan": epsilon, "delta": delta}
        typer.echo(json_format.dumps(plain | {"epsilon": {str(i): x for i, x in about.items()}}))
        return
    who = ", ".join(map(str, together))
    title = f"epsilon at delta = {delta:g}: what {who} learn{'s' * (len(together) == 1)}; the plan charges {epsilon:g}"
    screen.print(title, soft_wrap=True)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("about agent", justify="right")
    shown.add_column("epsilon", justify="right")
    for i, x in about.items():
        shown.add_row(str(i), f"{x:.4f}")
    screen.print(shown)
