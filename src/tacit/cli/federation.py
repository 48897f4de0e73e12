"""`tacit federation`: the file that several organisations agree on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import names, options
from tacit.cli.console import check_total, err
from tacit.cli.console import out as screen
from tacit.cli.federation_demo import demo
from tacit.cli.federation_keys import File, accept, renew, revoke
from tacit.data import Schema
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import alone, replacing, writable
from tacit.workflows.exact import ALGORITHMS, L2, usual_penalty
from tacit.workflows.losses import LOSSES, exact_loss, usual
from tacit.workflows.recipes import RECIPES, Reserve, recommended

if TYPE_CHECKING:
    from tacit.agent.method import ExactMethod

app = typer.Typer(
    help="Write, show and check the file that all members of a federation agree on.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
app.command()(demo)

_MEMBER = "NAME,HOST:PORT,ROWS,CERTIFICATE. Give it once for every member."
_METHOD = (
    f"With --epsilon one of: {', '.join(RECIPES)}; by default the one that fits the label, the numbers of rows and "
    f"--colluders. Without --epsilon one of: {', '.join(ALGORITHMS)} (admm by default)."
)
_LOSS = f"Without --epsilon one of: {', '.join(LOSSES)}. By default the one that fits the label."
_PENALTY = (
    "Without --epsilon: how strongly neighbours pull together (0.001, or 0.01 for numbers). For methods that follow "
    "the gradient one over the step (by default what is safe for every record that the schema allows)."
)
_SUMS = "Secret-shared sums: a member learns the sum of its neighbours' models, and no single model."
_GRAPH = (
    "ring (the default), star, path, complete, random:EDGES, or a CSV file with the columns from and to; auto (the "
    "default with --colluders): complete for up to 20 members, else random with as many neighbours as are needed."
)
_GO_ON = (
    "If a member is silent for so many seconds, the others start again without it, or with --dropouts go on where they "
    "are; 0: they wait for it."
)
_QUORUM = "With --go-on-after: how many of a member's neighbours must sign that it is away; 0: more than half."
_PREDECESSOR = (
    "The federation file of the version before this one: the new file names it, and keeps renewals of certificates. Or "
    "the name of its run (64 digits, from a report or a model), if this tacit cannot read the file."
)

_OUT = "The file to write. A file that exists and says something else is not overwritten."


@app.command()
def new(
    member: Annotated[list[str], typer.Option(help=_MEMBER, show_default=False)],
    schema: Annotated[Path, typer.Option(help="The schema file: how records become numbers.", show_default=False)],
    title: Annotated[str, typer.Option(help="The name of the run; another title is another run.")],
    graph: Annotated[str | None, typer.Option(help=_GRAPH)] = None,
    epsilon: Annotated[float | None, typer.Option(help="Private run: the total epsilon for every record.")] = None,
    delta: options.TotalDelta = None,
    allow_delta: options.AllowDelta = None,
    method: Annotated[str | None, typer.Option(help=_METHOD)] = None,
    penalty: Annotated[float | None, typer.Option(help=_PENALTY)] = None,
    l2: Annotated[
        float | None, typer.Option(help="Without --epsilon: the regularisation of each member (3e-5).")
    ] = None,
    loss: Annotated[str | None, typer.Option(help=_LOSS)] = None,
    rounds: Annotated[int | None, typer.Option(help="Without --epsilon: how many rounds (200).")] = None,
    secret_shared: Annotated[bool, typer.Option("--secret-shared", help=_SUMS)] = False,
    colluders: options.Colluders = None,
    dropouts: options.Dropouts = 0,
    robust: options.Robust = None,
    go_on_after: Annotated[float, typer.Option(help=_GO_ON)] = 0.0,
    quorum: Annotated[int, typer.Option(help=_QUORUM)] = 0,
    predecessor: Annotated[str | None, typer.Option(help=_PREDECESSOR, show_default=False)] = None,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("federation.toml"),
) -> None:
    """Write the federation file: members, edges, method, rounds, schema, privacy. Every member gets the same file.

    With --epsilon the settings follow from the budget and the numbers of rows, which are public. **Without --epsilon
    nothing is private: the members exchange exact values.**

    Example: `tacit federation new --title spring --schema schema.toml --epsilon 1 --delta 1e-6
    --member alder,alder.example:7443,4000,alder.pem --member birch,birch.example:7443,2500,birch.pem`
    """
    names.require_agent()
    from tacit.agent.documents import DIGEST
    from tacit.agent.federation import NONE, ROWS, SUMS, TOTALS, Federation, Member
    from tacit.agent.method import PrivateMethod
    from tacit.agent.participant import check_sums
    from tacit.agent.succession import changes, kept_renewals

    reserve = names.reserve(colluders, dropouts, robust=robust)
    _check_shared(reserve, epsilon, method)
    total_delta = names.total_delta(epsilon, delta, allow_delta)
    settings = {"--penalty": penalty, "--loss": loss, "--l2": l2, "--rounds": rounds}
    if epsilon is not None and (given := [option for option, value in settings.items() if value is not None]):
        raise InputError(f"with --epsilon the settings follow from the budget; leave out {given[0]}")

    before = None if predecessor is None or DIGEST.fits(predecessor) else Federation.load(Path(predecessor))
    read = [] if before is None or predecessor is None else [predecessor]
    writable(out, [schema, *read, *(text.split(",")[-1] for text in member)])
    members = sorted((Member(*_parts(text)) for text in member), key=lambda each: each.name)
    called = [each.name for each in members]
    graph = graph or ("ring" if reserve is None else "auto")
    talk = names.graph(graph, len(called), called, 0, reserve)
    edges = [(called[a], called[b]) for a, b in talk.edges]
    agreed: PrivateMethod | ExactMethod
    used = Schema.from_toml(schema)
    if epsilon is None:
        rows = [each.rows for each in members]
        agreed = _exact(method or "admm", penalty, L2 if l2 is None else l2, loss or usual(used.label), used, rows)
    else:
        sizes = [each.rows for each in members]
        check_total(epsilon, total_delta, sum(sizes), allow_delta)
        usual_method = recommended(used.label, sizes, talk, epsilon, total_delta, reserve)
        agreed = PrivateMethod(method or usual_method, epsilon, total_delta)
    made = Federation(
        title=title,
        members=tuple(members),
        edges=tuple(edges),
        method=agreed,
        rounds=200 if rounds is None else rounds,
        schema=used,
        exchange=TOTALS if reserve is not None else SUMS if secret_shared else ROWS,
        robust=NONE if robust is None else robust,
        go_on_after=go_on_after,
        quorum=quorum,
        colluders=colluders or 0,
        dropouts=dropouts,
        predecessor=before.run if before is not None else predecessor or "",
        renewals=() if before is None else kept_renewals(before, members),
    ).with_rounds()
    check_sums(made)
    text = made.to_toml()
    with alone(out):
        if out.exists() and read_text(out) != text:
            raise InputError(
                f"{out} exists, and says something else: members may have agreed on it, or added renewals of keys; "
                "name another file (--out), or delete it first"
            )
        with replacing(out) as draft:
            draft.write_text(text, encoding="utf-8")
    _tell(made)
    for line in [] if before is None else changes(before, made):
        screen.print(f"  {line}", markup=False, soft_wrap=True, highlight=False)
    err.print(f"wrote {out}", markup=False, soft_wrap=True)


def _exact(name: str, penalty: float | None, l2: float, loss: str, schema: Schema, rows: list[int]) -> ExactMethod:
    from tacit.agent.method import ExactMethod

    if penalty is None and name in ALGORITHMS:
        chosen = exact_loss(loss, schema.label)
        penalty = usual_penalty(name, chosen, l2=l2, row_norm=schema.longest_row, sizes=rows)
    return ExactMethod(name, 1.0 if penalty is None else penalty, l2, loss)


@app.command()
def show(
    file: File,
    predecessor: Annotated[
        Path | None, typer.Option(help="The file of the version before: check that it is, and say what has changed.")
    ] = None,
) -> None:
    """Show what a federation file contains, and the hash that identifies the run.

    Example: `tacit federation show federation.toml`

    Example: `tacit federation show autumn.toml --predecessor spring.toml`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.succession import changes

    found = Federation.load(file)
    before = None if predecessor is None else Federation.load(predecessor)
    if before is not None and found.predecessor != before.run:
        named = f"the run {found.predecessor[:16]}" if found.predecessor else "none"
        raise InputError(f"{file.name} names another predecessor: {named}; {predecessor} is {before.run[:16]}")
    _tell(found)
    for line in [] if before is None else changes(before, found):
        screen.print(f"  {line}", markup=False, soft_wrap=True, highlight=False)


app.command()(renew)
app.command()(accept)
app.command()(revoke)


@app.command()
def verify(
    file: File, report: Annotated[Path, typer.Argument(help="The report that an agent has signed.", show_default=False)]
) -> None:
    """Check a signed report: who signed it, that nothing was changed, that the agent released what was planned.

    Example: `tacit federation verify federation.toml alder.report.json`
    """
    names.require_agent()
    from tacit.agent.federation import TOTALS, Federation
    from tacit.agent.guarantee import statement
    from tacit.agent.report import verified

    federation = Federation.load(file)
    found = verified(report, federation)
    cost = "exact values: not private"
    if found["epsilon"] is not None:
        cost = f"epsilon = {found['epsilon']:g} at delta = {found['delta']:g}"
        if not found["private"]:
            cost += f"; but {found['member']} says that its noise can be drawn again: NOT PRIVATE"
    if federation.exchange == TOTALS:
        cost += f"; by plan {statement(federation)}"
    count = len(found["releases"])
    before = sum(len(part["releases"]) for part in found["before"])
    without = f"; without {', '.join(found['without'])}" if found["without"] else ""
    if before and federation.exchange == TOTALS:
        count, without = count + before, f"{without}; {before} of them before that"
    elif before:
        without += f"; {before} more releases in runs that were abandoned, see the ledger"
    screen.print(f"signed by {found['member']}: {count} releases as planned; {cost}{without}", soft_wrap=True)


def _check_shared(reserve: Reserve | None, epsilon: float | None, method: str | None) -> None:
    """Refuses shared noise without a budget, and the method that needs it without colluders."""
    if reserve is None and method == "shared-descent":
        raise InputError("shared-descent: say how many members may collude (--colluders 1)")
    if reserve is not None and epsilon is None:
        raise InputError("--colluders is about noise that members share: give --epsilon, too")


def _parts(text: str) -> tuple[str, str, int, str]:
    parts = text.split(",")
    if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdecimal()):
        raise InputError(f"a member is NAME,HOST:PORT,ROWS,CERTIFICATE; not {text!r}")
    return parts[0], parts[1], int(parts[2]), read_text(parts[3])


def _tell(federation: object) -> None:
    from tacit.agent.federation import NONE, SUMS, TOTALS, Federation
    from tacit.agent.guarantee import statement
    from tacit.agent.identity import fingerprint
    from tacit.agent.method import PrivateMethod

    assert isinstance(federation, Federation)
    method = federation.method
    screen.print(f"{federation.title}: run {federation.run[:16]}", markup=False)
    for member in federation.members:
        near = [federation.names[j] for j in federation.graph.neighbours(federation.names.index(member.name))]
        text = f"  {member.name} at {member.address}, {member.rows:,} rows, talks to {', '.join(near)}"
        screen.print(text, markup=False, soft_wrap=True)
        for each in federation.renewals:
            if each.member == member.name:
                text = f"    renewed its certificate: SHA-256 {fingerprint(each.new)}; the old one until {each.until}"
                screen.print(text, markup=False, soft_wrap=True, highlight=False)
    if federation.predecessor:
        screen.print(f"the next version of the run {federation.predecessor[:16]}", markup=False)
    privacy = "exact values are exchanged: NOT PRIVATE"
    if isinstance(method, PrivateMethod):
        privacy = f"every record protected by ({method.epsilon:g}, {method.delta:g}) in total"
    if federation.exchange == TOTALS:
        privacy = f"noise that the members share; every record protected by {statement(federation)}"
    text = f"{method.name}, {federation.rounds} rounds, {federation.schema.dimension} features: {privacy}"
    screen.print(text, soft_wrap=True)
    heard = f"members ignore models farther from zero than {federation.radius:g}"
    if federation.robust != NONE:
        heard += f"; they listen robustly ({federation.robust}), against one lying member"
    screen.print(heard)
    if federation.exchange == SUMS:
        screen.print("secret-shared sums: no member sees what a single other member sends")
    if federation.exchange == TOTALS:
        screen.print("secret-shared totals: members learn the sum over all of them, and no part of it")
    if federation.go_on_after:
        how = f"go on (at most {federation.dropouts} in all)" if federation.dropouts else "start again"
        screen.print(f"after {federation.go_on_after:g} s without a member the others {how} without it")
        quorum = f"{federation.quorum} (all, if it has fewer)" if federation.quorum else "more than half"
        screen.print(f"if {quorum} of its neighbours have signed that it is away")
