"""How a member gets a new key without a new run: a statement that is signed with the old key and with the new one.

The statement says: my old certificate is replaced by this new one, and from the time `until` on nothing older counts.
It is a table that goes at the end of a federation file:

    [[renewals]]
    member = "alder"
    until = "2026-12-01T12:00:00+00:00"
    signature = "MEUC..."        # by the old key, base64
    possession = "MEQC..."       # by the new key: its owner agrees
    old = '''
    -----BEGIN CERTIFICATE-----
    ...
    '''
    new = '''
    ...
    '''

The hash that names the run does not cover the renewals. So the run stays the same run, with its store and what was
paid, and each operator adds a statement to its own file when it gets one. A certificate and its renewals are a *chain*:

- **Live**, a member may use the certificates of its chain that count now (`Federation.accepted`): the last one, and
  those before it until the time that the statement names. This holds at the door and for what is signed in a run. All
  agents decide by the same statement and the clock: none has to have seen the new key first.
- **Afterwards**, a signature with any certificate of the chain counts (`Federation.certificates`): a report is not
  void because its member has a new key.

**What an adversary can do.** Nobody can renew for another member: that needs the old key. An old statement that is
shown again is in the chain already, and leads nowhere new. Two statements for one old certificate are refused: a member
never makes two (`begin` gives the same one again), so somebody else has the key. Whoever steals a key *before* its
renewal can renew it, too. A statement does not show which of the two is the member: so people compare the fingerprint
by another way before they accept it, and revoke the member if in doubt (`tacit.agent.membership.revocation`).

**A time that is too early.** A member that writes its statement by hand can choose an `until` in the past. Reports that
its old key has signed since then are void, if they are checked with a file that has the statement. A report says itself
when it was written, so nobody can tell an honest one from one that a thief has signed later. The others cannot refuse
such a statement by the clock: a renewal without overlap is accepted after its `until`, too. But the member does no more
harm than by handing in no report. A certificate of a run that was made before has the file as it was, and holds. The
member repairs its report by starting its agent again, which signs with the new key. `tacit federation accept` says if
`until` is over.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization

from tacit.agent import federation_toml
from tacit.agent.documents import decoded, is_time
from tacit.agent.identity import (
    POPULATION_KEY,
    Identity,
    canonical_certificate,
    check_dates,
    check_name,
    common_name,
    expiry,
    fingerprint,
    read_certificate,
    signed_by,
    write_secret,
)
from tacit.data import schema_toml
from tacit.data.text import read_text
from tacit.errors import InputError
from tacit.files import alone, sync_folder, write_private

_DOMAIN = b"tacit: my certificate is renewed"
NEXT = "next"  # the folder of the new key, until it takes the place of the old one
_STATEMENT = "renewal.toml"
_LARGEST = 2**16  # bytes of a statement, which others send: ours have three thousand
_LONGEST = 90  # days in which two keys of a member count


@dataclass(frozen=True)
class Renewal:
    """A statement. It cannot be made if it is not signed as it must be."""

    member: str
    until: str  # a time in UTC: from then on nothing older than `new` counts
    signature: str  # by the old key, base64
    possession: str  # by the new key, base64
    old: str  # canonical PEM
    new: str

    def __post_init__(self) -> None:
        check_name(self.member)
        where = f"the renewal of {self.member}"
        if not is_time(self.until):
            raise InputError(f"{where}: until is a time in UTC such as 2026-11-17T12:00:00+00:00, not {self.until!r}")
        old, new = (read_certificate(text, where) for text in (self.old, self.new))
        for each in (old, new):
            if common_name(each) != self.member:
                raise InputError(f"{where} is about a certificate of {common_name(each)}")
        if old.public_key() == new.public_key() or old.subject == new.subject:  # TLS finds certificates by subject
            raise InputError(f"{where}: the new certificate must have a new key, and a subject of its own")
        if self.ends > expiry(old):
            raise InputError(f"{where}: the old certificate cannot count until {self.until}, it expires before")
        object.__setattr__(self, "old", canonical_certificate(old))
        object.__setattr__(self, "new", canonical_certificate(new))
        text = _signed(self.old, self.new, self.until)
        for what, certificate, signature in (("old", self.old, self.signature), ("new", self.new, self.possession)):
            if not signed_by(certificate, text, decoded(signature) or b""):
                raise InputError(f"{where} is not signed with the {what} key")

    @property
    def ends(self) -> datetime:
        """When the old certificate ceases to count."""
        return datetime.fromisoformat(self.until)

    def to_toml(self) -> str:
        """The table, as a federation file has it."""
        plain = asdict(self)
        certificates = "".join(f"{key} = '''\n{plain.pop(key)}'''\n" for key in ("old", "new"))
        return schema_toml.lines(plain, "[renewals]") + certificates


class Chain(NamedTuple):
    """The certificates of one member, from its first to its last."""

    certificates: tuple[str, ...]
    renewals: tuple[Renewal, ...]  # each leads from one certificate to the next
    agreed: int  # the place of the certificate that the members have agreed upon

    @classmethod
    def of(cls, agreed: str, renewals: Sequence[Renewal]) -> Chain:
        """Of a certificate and all renewals of its member. Refuses renewals that are not one chain with it."""
        if not renewals:
            return cls((agreed,), (), 0)
        name, after = renewals[0].member, {each.old: each for each in renewals}
        if len(after) < len(renewals):
            if len({(each.old, each.new) for each in renewals}) < len(renewals):
                raise InputError(f"a renewal of {name} is there twice: remove one")
            raise InputError(
                f"there are two renewals of one certificate of {name}: somebody else may have its key. Keep the one "
                f"whose fingerprint {name} confirms by another way, or revoke {name} (tacit federation revoke)"
            )
        made = {each.new for each in renewals}
        ordered = [each for each in renewals if each.old not in made][:1]
        while ordered and ordered[-1].new in after:
            ordered.append(after[ordered[-1].new])
        known = (*(each.old for each in ordered), *(each.new for each in ordered[-1:]))
        if len(ordered) < len(renewals) or agreed not in known:
            raise InputError(
                f"the renewals of {name} are not one chain with its certificate in this file: one between is missing, "
                "or one is of another certificate"
            )
        return cls(known, tuple(ordered), known.index(agreed))

    def accepted(self, at: datetime) -> tuple[str, ...]:
        """What counts at a time: the last certificate, and those from the agreed one on that are not over."""
        ends = [each.ends for each in self.renewals]
        places = range(self.agreed, len(self.certificates))
        return tuple(self.certificates[k] for k in places if all(at < end for end in ends[k:]))


def begin(home: Path, days: int, overlap: float) -> Renewal:
    """Makes the new key in a folder of its own, and the statement. A second time it gives the same statement: another
    one would look as if somebody else had the key."""
    with alone(home / NEXT):
        return _begin(home, days, overlap)


def _begin(home: Path, days: int, overlap: float) -> Renewal:
    waiting = home / NEXT / _STATEMENT
    if (home / NEXT).exists():
        return read(waiting)
    old = Identity.load(home)
    certificate = read_certificate(old.certificate, "the certificate")
    check_dates(certificate)  # also by a clock that is far behind: `until` would lie before what the old key has signed
    last, now = expiry(certificate), datetime.now(UTC).replace(microsecond=0)
    if not 0 <= overlap <= _LONGEST:
        raise InputError(f"the old certificate counts for 0 to {_LONGEST} more days, not {overlap:g}")
    until = min(now + timedelta(days=overlap), last).isoformat(timespec="seconds")
    new = Identity.made(old.name, days)
    text = _signed(old.certificate, new.certificate, until)
    signature, possession = (base64.b64encode(each.sign(text)).decode() for each in (old, new))
    made = Renewal(old.name, until, signature, possession, old.certificate, new.certificate)
    draft = home / f"{NEXT}.draft"
    try:
        for file in draft.glob("*") if draft.exists() else ():  # of a command that was interrupted: nobody has seen it
            file.unlink()
        if draft.exists():
            draft.rmdir()
        new.write(draft)
        write_secret(draft / _STATEMENT, made.to_toml().encode())
        draft.rename(home / NEXT)
        sync_folder(home)
    except OSError as error:
        raise InputError(f"{home / NEXT} cannot be made: {error.strerror or error}") from None
    return made


def waiting(home: Path) -> Renewal | None:
    """The renewal whose new key has not taken its place yet, if there is one."""
    return read(home / NEXT / _STATEMENT) if (home / NEXT / _STATEMENT).exists() else None


def finish(home: Path, renewal: Renewal) -> None:
    """Puts the new key into the place of the old one, which is gone then. If it is interrupted, do it again."""
    with alone(home / NEXT):
        _finish(home, renewal)


def _finish(home: Path, renewal: Renewal) -> None:
    coming = home / NEXT
    try:
        if not coming.exists():
            if canonical_text(home / "certificate.pem") == renewal.new:
                return  # it was done before
            raise InputError(f"{coming} does not exist: the new key was made in another folder")
        if (coming / "certificate.pem").exists() and canonical_text(coming / "certificate.pem") != renewal.new:
            raise InputError(f"{coming} has the key of another renewal")
        if not _has_key(coming if (coming / "key.pem").exists() else home, renewal.new):
            raise InputError(f"{coming} does not have the new key: nothing is replaced; put it back from a backup")
        if (coming / "key.pem").exists():
            if not (home / POPULATION_KEY).exists():
                write_private(home / POPULATION_KEY, Identity.load(home).population_key.hex() + "\n")
            (coming / "key.pem").replace(home / "key.pem")
        if (coming / "certificate.pem").exists():
            (coming / "certificate.pem").replace(home / "certificate.pem")
        (coming / _STATEMENT).unlink(missing_ok=True)
        coming.rmdir()
        sync_folder(home)
    except OSError as error:
        raise InputError(f"the key in {home} cannot be replaced: {error.strerror or error}; do it again") from None


def _has_key(folder: Path, certificate: str) -> bool:
    """Whether the key in a folder is that of a certificate."""
    try:
        found = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    except (ValueError, TypeError):
        return False
    return found.public_key() == read_certificate(certificate, "the certificate").public_key()


def canonical_text(path: Path) -> str:
    """The certificate in a file, in its one fixed form."""
    return canonical_certificate(read_certificate(read_text(path), str(path)))


def read(path: Path) -> Renewal:
    """The statement in a file. Refuses one that is not signed as it must be."""
    if path.is_file() and path.stat().st_size > _LARGEST:
        raise InputError(f"{path.name} is not a statement of a renewal: it has more than {_LARGEST:,} bytes")
    plain = federation_toml.loads(read_text(path), path.name)
    tables = plain.get("renewals")
    if set(plain) != {"renewals"} or not isinstance(tables, list) or len(tables) != 1:
        raise InputError(f"{path.name} is not a statement of a renewal: it has one table, [[renewals]]")
    made: Renewal = federation_toml.made(Renewal, tables[0], "a renewal")
    return made


def _signed(old: str, new: str, until: str) -> bytes:
    """The bytes that the old and the new key sign."""
    return _DOMAIN + bytes.fromhex(fingerprint(old) + fingerprint(new)) + until.encode()
