"""`tacit federation renew`, `accept` and `revoke`: keys and members change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli import names, options
from tacit.cli.console import err
from tacit.cli.console import out as screen
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import alone, replacing, writable

if TYPE_CHECKING:
    from tacit.agent.membership.renewal import Renewal

File = Annotated[Path, typer.Argument(help="The federation file.", show_default=False)]
_OVERLAP = (
    "For how many more days the old key counts, too (at most 90), so that the others can accept the new one in any "
    "order. 0: not at all; then the run waits until all have accepted."
)
_STATEMENT = "The statement that `tacit federation renew` wrote."
_OWN = "If the statement is your own: your folder. The new key takes the place of the old one, which is gone then."


def renew(
    file: File,
    identity: options.Home,
    days: Annotated[int, typer.Option(help="For how many days the new certificate is valid.")] = 730,
    overlap_days: Annotated[float, typer.Option(help=_OVERLAP)] = 7.0,
    out: Annotated[Path | None, typer.Option(help="The statement to write; by default NAME.renewal.toml.")] = None,
) -> None:
    """Make a new key, and a statement for the other members that your old key has signed. The run stays the same run.

    Send the statement to all members. Each compares the fingerprint of the new certificate with you by another way,
    and accepts it. When all have done so, accept it yourself. Your agent uses the old key until then. If you give the
    command again, you get the same statement.

    Example: `tacit federation renew federation.toml --identity alder`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity, fingerprint
    from tacit.agent.membership import renewal

    agreed, own = Federation.load(file), Identity.load(identity)
    agreed.place(own.name, own.certificate)
    if own.certificate != agreed.certificates(own.name)[-1]:
        raise InputError(f"{own.name} has a newer certificate in {file.name}: give tacit federation accept --identity")
    path = Path(f"{own.name}.renewal.toml") if out is None else out
    writable(path, [file, identity / "key.pem", identity / "certificate.pem"])
    made = renewal.begin(identity, days, overlap_days)
    with replacing(path) as draft:
        draft.write_text(made.to_toml(), encoding="utf-8")
    others = ", ".join(name for name in agreed.names if name != own.name)
    for line in (
        f"{own.name}: the new certificate has the SHA-256 {fingerprint(made.new)}",
        f"the old one counts until {made.until}",
        f"send {path} to {others}; each gives tacit federation accept, and starts its agent again",
        f"then: tacit federation accept {file} {path} --identity {identity}, and start your agent again",
    ):
        screen.print(line, markup=False, soft_wrap=True, highlight=False)


def accept(
    file: File,
    statement: Annotated[Path, typer.Argument(help=_STATEMENT, show_default=False)],
    identity: Annotated[Path | None, typer.Option(help=_OWN, show_default=False)] = None,
) -> None:
    """Add a member's renewal to your federation file. Start your agent again afterwards: it goes on in the same run.

    **Compare the fingerprint with the member first, by another way (a call).** Somebody who has stolen the old key can
    sign such a statement, too.

    A statement that the old key has not signed is refused, and so are a second one for the same old certificate, and
    one of a certificate that has expired, or to one that is not valid now. The file is then as it was.

    Example: `tacit federation accept federation.toml alder.renewal.toml`
    """
    names.require_agent()
    from tacit.agent.identity import fingerprint
    from tacit.agent.membership import renewal

    made = renewal.read(statement)
    with alone(file):  # of two statements that are accepted at the same time, none is lost
        run, known = _add(file, made)
    compare = f": compare it with {made.member}"
    if identity is not None:
        renewal.finish(identity, made)
        compare = f": its key is in {identity} now"
    until = f"the old one counts until {made.until}"
    if made.ends <= datetime.now(UTC):
        until = f"the old one counts no more, since {made.until}: a report that it has signed after that time is void"
    for line in (
        f"{made.member}: the new certificate has the SHA-256 {fingerprint(made.new)}{compare}",
        until,
        f"the run is still {run[:16]}: start your agent again",
    ):
        screen.print(line, markup=False, soft_wrap=True, highlight=False)
    err.print(f"{file} has it already" if known else f"wrote {file}", markup=False, soft_wrap=True)


def _add(file: Path, made: Renewal) -> tuple[str, bool]:
    """Adds a renewal to the file; gives the name of the run, and whether the file had the renewal already."""
    from tacit.agent.federation import Federation
    from tacit.agent.identity import check_dates, read_certificate

    agreed = Federation.load(file)
    if made.member not in agreed.names:
        raise InputError(f"{made.member} is not a member of {file.name}")
    known = [each.until for each in agreed.renewals if (each.old, each.new) == (made.old, made.new)]
    if known == [made.until]:
        return agreed.run, True
    if known:
        raise InputError(
            f"{file.name} has this renewal with another time: by it the old certificate counts until {known[0]}"
        )
    check_dates(read_certificate(made.old, "the old certificate"))  # a key that has expired renews nothing
    check_dates(read_certificate(made.new, "the new certificate"))  # with it in the file no agent could start
    text = read_text(file).rstrip("\n") + "\n\n" + made.to_toml()
    after = Federation.from_toml(text, file.name)  # refuses what is not one chain
    if made.old != agreed.certificates(made.member)[-1]:
        raise InputError(f"{file.name} has the new certificate of {made.member} already: this tells it nothing new")
    assert after.run == agreed.run
    with replacing(file) as draft:
        draft.write_text(text, encoding="utf-8")
    return agreed.run, False


def revoke(
    file: File,
    member: Annotated[str, typer.Argument(help="The member to refuse.", show_default=False)],
    identity: options.Home,
    why: Annotated[str, typer.Option(help="The reason, for whoever reads the list later.", show_default=False)],
) -> None:
    """Refuse a member from now on: at your door, and whatever it signs. This is about your own agent, and no other.

    The list is `revoked.json` in your folder; it holds in all federations. Start your agent again afterwards. If the
    federation file lets the others go on without a member that is away (--go-on-after), the run goes on without it once
    enough of its neighbours have revoked it, too. Otherwise your agent stops: agree on a new version of the federation
    without it.

    Example: `tacit federation revoke federation.toml birch --identity alder --why 'its key was stolen, 12 March'`
    """
    names.require_agent()
    from tacit.agent.federation import Federation
    from tacit.agent.identity import Identity
    from tacit.agent.membership import revocation

    agreed, own = Federation.load(file), Identity.load(identity)
    if member not in agreed.names:
        raise InputError(f"{member} is not a member of {file.name}; its members are: {', '.join(agreed.names)}")
    if member == own.name:
        raise InputError("you cannot revoke yourself: the others decide whom they let in; tell them")
    revocation.revoke(identity, member, agreed.certificates(member), why)
    after = "once enough of its neighbours have signed that it is away, the run goes on without it"
    if not agreed.go_on_after:
        after = "this run cannot go on without it: agree on a new version (tacit federation new --predecessor)"
    for line in (f"{member} is refused by your agent from its next start on; the others decide for themselves", after):
        screen.print(line, markup=False, soft_wrap=True)
