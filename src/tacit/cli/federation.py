"""`tacit federation`: the file that several organisations agree on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import names
from tacit.cli.console import check_total, err
from tacit.cli.console import out as screen
from tacit.cli.expand import Without, expanded
from tacit.cli.federation_demo import demo
from tacit.cli.federation_keys import File, accept, renew, revoke
from tacit.cli.federation_members import status, without
from tacit.data import Schema
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import alone, replacing, writable
from tacit.run.request import Request

if TYPE_CHECKING:
    from tacit.agent.federation import Federation

app = typer.Typer(
    help="Write, show and check the file that all members of a federation agree on.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
app.command()(demo)

_MEMBER = "NAME,HOST:PORT,ROWS,CERTIFICATE. Give it once for every member."
_SUMS = "Secret-shared sums: a member learns the sum of its neighbours' models, and no single model."
_GRAPH = (
    "ring, star, path, complete, random:EDGES, or a CSV file with the columns from and to. The default is auto: a ring "
    "of up to five members, else six random neighbours each. With --colluders: complete for up to 20 members, else "
    "random with as many neighbours as are needed."
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
@expanded
def new(
    member: Annotated[list[str], typer.Option(help=_MEMBER, show_default=False)],
    schema: Annotated[Path, typer.Option(help="The schema file: how records become numbers.", show_default=False)],
    title: Annotated[str, typer.Option(help="The name of the run; another title is another run.")],
    asked: Annotated[Request, Without("tolerance")],
    graph: Annotated[str, typer.Option(help=_GRAPH)] = "auto",
    secret_shared: Annotated[bool, typer.Option("--secret-shared", help=_SUMS)] = False,
    go_on_after: Annotated[float, typer.Option(help=_GO_ON)] = 0.0,
    quorum: Annotated[int, typer.Option(help=_QUORUM)] = 0,
    predecessor: Annotated[str | None, typer.Option(help=_PREDECESSOR, show_default=False)] = None,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("federation.toml"),
) -> None:
    """Write the federation file: members, edges, method, rounds, schema, privacy. Every member gets the same file.

    With --epsilon the settings follow from the budget and the numbers of rows, which are public. **Without --epsilon
    nothing is private: the members exchange exact values.** With --spec the file of a run says what is done, also with
    settings of your own; agents number the members in the order of their names.

    Example: `tacit federation new --title spring --schema schema.toml --epsilon 1 --delta 1e-6
    --member alder,alder.example:7443,4000,alder.pem --member birch,birch.example:7443,2500,birch.pem`
    """
    names.require_agent()
    from tacit.agent.able import check_sums
    from tacit.agent.documents import DIGEST
    from tacit.agent.federation import SUMS, Federation, Member, agreement
    from tacit.agent.membership.succession import kept_renewals

    before = None if predecessor is None or DIGEST.fits(predecessor) else Federation.load(Path(predecessor))
    read = [schema] if before is None or predecessor is None else [schema, Path(predecessor)]
    writable(out, [*read, *(text.split(",")[-1] for text in member)])
    members = sorted((Member(*_parts(text)) for text in member), key=lambda each: each.name)
    used, called = Schema.from_toml(schema), [each.name for each in members]
    rest: dict[str, Any] = {
        "go_on_after": go_on_after,
        "quorum": quorum,
        "predecessor": before.run if before is not None else predecessor or "",
        "renewals": () if before is None else kept_renewals(before, members),
    }
    shared = asked.trusted.reserve is not None
    rest |= {"exchange": SUMS} if secret_shared and not shared else {}
    talk = names.graph_for(graph, asked, called, 0)
    made = agreement(title, members, talk, asked, used, **rest)
    _ = made.setting.plan  # refuses what no member could run
    if made.exchange == SUMS:
        check_sums(made.setting)
    if made.spec.budget is not None:
        check_total(made.spec.budget, sum(each.rows for each in members))
    _write(made, out)
    _tell(made, before)
    err.print(f"wrote {out}", markup=False, soft_wrap=True)


def _write(made: Federation, out: Path) -> None:
    text = made.to_toml()
    with alone(out):
        if out.exists() and read_text(out) != text:
            raise InputError(
                f"{out} exists, and says something else: members may have agreed on it, or added renewals of keys; "
                "name another file (--out), or delete it first"
            )
        with replacing(out) as draft:
            draft.write_text(text, encoding="utf-8")


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

    found = Federation.load(file)
    before = None if predecessor is None else Federation.load(predecessor)
    if before is not None and found.predecessor != before.run:
        named = f"the run {found.predecessor[:16]}" if found.predecessor else "none"
        raise InputError(f"{file.name} names another predecessor: {named}; {predecessor} is {before.run[:16]}")
    _tell(found, before)


app.command()(renew)
app.command()(accept)
app.command()(revoke)
app.command()(status)
app.command()(without)


@app.command()
def verify(
    file: File, report: Annotated[Path, typer.Argument(help="The report that an agent has signed.", show_default=False)]
) -> None:
    """Check a signed report: who signed it, that nothing was changed, that the agent released what was planned.

    Example: `tacit federation verify federation.toml alder.report.json`
    """
    names.require_agent()
    from tacit.agent.certificate.signed_report import verified
    from tacit.agent.federation import TOTALS, Federation
    from tacit.agent.guarantee import statement

    federation = Federation.load(file)
    found = verified(report, federation)
    cost = "no budget was agreed on: not private"
    if found["epsilon"] is not None:
        cost = f"epsilon = {found['epsilon']:g} at delta = {found['delta']:g}"
        if not found["private"]:
            cost += f"; but {found['member']} says that its noise can be drawn again: NOT PRIVATE"
    if federation.private and federation.reserve is not None:
        cost += f"; by plan {statement(federation)}"
    count = len(found["releases"])
    before = sum(len(part["releases"]) for part in found["before"])
    without = f"; without {', '.join(found['without'])}" if found["without"] else ""
    if before and federation.exchange == TOTALS:
        count, without = count + before, f"{without}; {before} of them before that"
    elif before:
        without += f"; {before} more releases in runs that were abandoned, see the ledger"
    screen.print(f"signed by {found['member']}: {count} releases as planned; {cost}{without}", soft_wrap=True)


def _parts(text: str) -> tuple[str, str, int, str]:
    parts = text.split(",")
    if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdecimal()):
        raise InputError(f"a member is NAME,HOST:PORT,ROWS,CERTIFICATE; not {text!r}")
    return parts[0], parts[1], int(parts[2]), read_text(parts[3])


def _tell(federation: Federation, before: Federation | None) -> None:
    from tacit.agent.federation import SUMS, TOTALS
    from tacit.agent.guarantee import statement
    from tacit.agent.identity import fingerprint
    from tacit.agent.membership.succession import changes

    spec = federation.spec
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
    privacy = "no budget is agreed on, and nothing is claimed: NOT PRIVATE"
    if spec.budget is not None:
        privacy = f"every record protected by ({spec.budget.epsilon:g}, {spec.budget.delta:g}) in total"
    if spec.budget is not None and federation.reserve is not None:
        privacy = f"noise that the members share; every record protected by {statement(federation)}"
    text = f"{federation.setting.name}, {spec.rounds} rounds, {federation.schema.dimension} features: {privacy}"
    screen.print(text, soft_wrap=True)
    screen.print(f"the run as data has the SHA-256 {spec.digest[:16]}", highlight=False)
    heard = f"members ignore models farther from zero than {spec.radius:g}"
    if spec.trust.robust is not None:
        heard += f"; they listen robustly ({spec.trust.robust}), against one lying member"
    screen.print(heard)
    if federation.exchange == SUMS:
        screen.print("secret-shared sums: no member sees what a single other member sends")
    if federation.exchange == TOTALS:
        screen.print("secret-shared totals: members learn the sum over all of them, and no part of it")
    if federation.go_on_after:
        how = f"go on (at most {spec.trust.dropouts} in all)" if spec.trust.dropouts else "start again"
        screen.print(f"after {federation.go_on_after:g} s without a member the others {how} without it")
        quorum = f"{federation.quorum} (all, if it has fewer)" if federation.quorum else "more than half"
        screen.print(f"if {quorum} of its neighbours have signed that it is away")
    for line in [] if before is None else changes(before, federation):
        screen.print(f"  {line}", markup=False, soft_wrap=True, highlight=False)
