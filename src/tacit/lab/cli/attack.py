"""The command `tacit attack`."""

from __future__ import annotations

from pathlib import Path

from tacit.cli import names
from tacit.cli.expand import expanded
from tacit.errors import InputError
from tacit.lab.cli import attack_exact, attack_token
from tacit.lab.cli.attack_options import EXACT, METHODS, AttackOptions


@expanded
def attack(asked: AttackOptions) -> None:
    """Attack a method without privacy, and show what its messages reveal: gradients, then records.

    **Exact methods** (admm, coca, w-admm, i-admm, dgd, extra). Every message obeys the method's update, so it tells the
    gradient of the agent's private objective. From these gradients follow, for a few rows an agent (--rows):

    - the Hessian, for least squares;
    - the records themselves, with their labels, where they are determined: always for the logistic loss; for least
      squares one row, or two or three with a column of ones;
    - the labels, for an attacker that knows the features;
    - whether a record is among the agent's rows.

    Records are made up, or those of --data. Use public ones: the command prints and writes what it finds. Attackers
    hear all messages, or are one or all neighbours of each agent (--who).

    Example: `tacit attack admm --rows 3 --out out/attack`

    Example: `tacit attack dgd --who neighbour --rows 1`

    Example: `tacit attack admm --data adult --agents 5 --rows 3`

    **Token methods of paper 002** (random-start, pi-admm1, pi-admm2, offset, pi-admm1-offset; and i-admm without --rows
    and --data). They hand one vector z from agent to agent, and try to hide the rest. The attacks estimate each agent's
    model x_i and multiplier y_i; y_i is the gradient of the agent's private objective:

    - *as printed*: the paper's least squares, with the 20 iterations of its solver;
    - *printed, solved*: the same, solved exactly;
    - *recursion*: follow the token with a guess of the step size; each visit halves the error;
    - *quadratic fit*: exact; for ridge regression with a secret start or secret step sizes;
    - *over all visits*: a regression that averages the noise of pi-admm2.

    The methods differ in what they hide:

    - i-admm: nothing, it starts from zero;
    - random-start: the start;
    - pi-admm1: the start and the step sizes;
    - pi-admm2: the start; x_i has noise of deviation 0.001, or with --epsilon as much as differential privacy needs
      (logistic loss, rows of norm at most 1, start from zero);
    - offset: y_i, by a secret that agents share with their neighbours;
    - pi-admm1-offset: what pi-admm1 and offset hide.

    The table has the mean error over all agents, at their first and at their last visit. With --who neighbours, the two
    agents before and after each agent attack it, with no tokens but their own. All records are made up.

    Example: `tacit attack pi-admm1 --out out/attack`

    Example: `tacit attack offset --who neighbours --graph ring`
    """
    method = asked.method
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; not {method!r}")
    if asked.seed < 0:
        raise InputError(f"--seed must be zero or more, not {asked.seed}")
    if asked.out == "":
        raise InputError("--out is empty: name a folder")
    if asked.out is not None:
        names.require_plot()
    folder = None if asked.out is None else Path(asked.out)
    on_records = _first_given(asked, "rows", "rounds", "data", "label", "site", "schema")
    if method not in EXACT or (method == "i-admm" and on_records is None):
        if on_records is not None:
            raise InputError(f"--{on_records} is for the methods {', '.join(EXACT)}; {method} has made-up records")
        attack_token.attack(asked, folder)
    elif (of_tokens := _first_given(asked, "ticks", "epsilon")) is not None:
        raise InputError(f"--{of_tokens} is for the token methods of paper 002: leave it out")
    else:
        attack_exact.attack(asked, folder)


def _first_given(asked: AttackOptions, *names: str) -> str | None:
    return next((name for name in names if getattr(asked, name) is not None), None)
