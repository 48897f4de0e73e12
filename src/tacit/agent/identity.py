"""The identity of an agent: a private key that stays with it, and a certificate that every member holds.

The certificate is signed by its own key. It is trusted because the federation file contains it: TLS trusts exactly
these certificates. None of them may sign others, so a certificate signed by a member's key is worth nothing.
`tacit.agent.membership.renewal` says how a member gets a new key.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.data.text import read_text
from tacit.errors import InputError

_CLOCKS_DIFFER = timedelta(hours=1)  # a certificate is valid that long before it was made
POPULATION_KEY = "population.key"  # a file in the folder of an identity
_SIGNING = ec.ECDSA(hashes.SHA256())
SIGNATURE_SIZE = 72  # bytes, at most
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)


@dataclass(frozen=True)
class Identity:
    """A member's name, its key and its certificate, both PEM."""

    name: str
    key: bytes
    certificate: str
    population_key: bytes = b""  # names populations to others (`tacit.agent.ledger_heads`): it outlives a renewed key

    def __post_init__(self) -> None:
        if not self.population_key:
            derived = sha256(b"tacit: names of populations" + self.key).digest()
            object.__setattr__(self, "population_key", derived)

    @classmethod
    def new(cls, name: str, folder: Path, days: int = 730) -> Identity:
        """Makes the key pair and writes it to a new folder `folder/name` that only its owner can read."""
        made, home = cls.made(name, days), folder / name
        try:
            made.write(home)
        except FileExistsError:
            raise InputError(
                f"{home} exists and stays as it is: a lost key cannot be made again; choose another name"
            ) from None
        except OSError as error:
            raise InputError(f"{home} cannot be made: {error.strerror or error}") from None
        return made

    @classmethod
    def made(cls, name: str, days: int) -> Identity:
        """A new key pair, which is in no file yet."""
        check_name(name)
        if days < 1:
            raise InputError(f"a certificate is valid for 1 day or more, not {days}")
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(name, pem, _self_signed(name, key, days))

    def write(self, home: Path) -> None:
        """Writes the key pair to a new folder that only its owner can read."""
        home.mkdir(mode=0o700)
        write_secret(home / "key.pem", self.key)
        (home / "certificate.pem").write_text(self.certificate)

    @classmethod
    def load(cls, home: Path) -> Identity:
        """Reads the folder that `new` made; a key that others may read is refused."""
        if home.is_file():
            raise InputError(f"{home} is a file: name the folder that tacit identity new has made")
        certificate = read_text(home / "certificate.pem")
        try:
            key = (home / "key.pem").read_bytes()
            if (home / "key.pem").stat().st_mode & 0o077:
                raise InputError(f"{home / 'key.pem'} can be read by other users; run chmod 600 on it")
            private = serialization.load_pem_private_key(key, None)
        except OSError as error:
            raise InputError(f"{home / 'key.pem'} cannot be read: {error.strerror or error}") from None
        except (ValueError, TypeError):
            raise InputError(f"{home / 'key.pem'} is not a private key in PEM") from None
        parsed = read_certificate(certificate, str(home / "certificate.pem"))
        if private.public_key() != parsed.public_key():
            raise InputError(
                f"the key in {home} does not belong to the certificate in the same folder; if a renewal was "
                "interrupted, give tacit federation accept --identity again"
            )
        return cls(common_name(parsed), key, canonical_certificate(parsed), _kept_population_key(home))

    def sign(self, message: bytes) -> bytes:
        """An ECDSA signature that only this key can make."""
        return _private(self.key).sign(message, _SIGNING)


@lru_cache
def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read once: an agent signs at every tick."""
    private = serialization.load_pem_private_key(pem, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return private


@lru_cache(maxsize=1024)
def _public(certificate: str) -> ec.EllipticCurvePublicKey:
    """Read once: an agent checks signatures of all members at every tick."""
    public = read_certificate(certificate, "the certificate").public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    return public


def write_secret(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _kept_population_key(home: Path) -> bytes:
    """What was kept when the key was renewed; nothing if it never was."""
    path = home / POPULATION_KEY
    if not path.exists():
        return b""
    text = read_text(path).strip()
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise InputError(f"{path} is damaged: it has 64 hexadecimal digits; put it back from a backup")
    return bytes.fromhex(text)


def signed_by(certificate: str, message: bytes, signature: bytes) -> bool:
    """Whether the key of this certificate has signed the message."""
    try:
        _public(certificate).verify(signature, message, _SIGNING)
    except InvalidSignature:
        return False
    return True


def check_name(name: str) -> None:
    """Refuses a name that TLS could not compare: it must be one label of a host name.

    >>> check_name("hospital-a")
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise InputError(f"a member's name has small letters, digits and inner hyphens only; not {name!r}")


def read_certificate(pem: str, where: str) -> x509.Certificate:
    """The certificate in a text. Refuses a kind that an identity cannot have; `where` is what an error calls it."""
    if "PRIVATE KEY" in pem:
        raise InputError(f"{where} is a private key, which must not leave its folder: take certificate.pem beside it")
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem.encode())
    except (ValueError, x509.InvalidVersion):
        raise InputError(f"{where} is not one certificate in PEM") from None
    try:
        key, signs, _ = certificate.public_key(), _may_sign_others(certificate), certificate.subject
    except _UNREADABLE:
        raise InputError(f"{where} is damaged; make it with: tacit identity new") from None
    if not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)):
        raise InputError(f"{where} has no elliptic-curve key (P-256); make it with: tacit identity new")
    if signs:
        raise InputError(f"{where} may sign other certificates; make it with: tacit identity new")
    return certificate


def _may_sign_others(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return True


def canonical_certificate(certificate: x509.Certificate) -> str:
    """The text of a certificate in one fixed form."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate, by which people compare certificates."""
    return read_certificate(certificate, "the certificate").fingerprint(hashes.SHA256()).hex()


def common_name(certificate: x509.Certificate) -> str:
    """The name in a certificate."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if names else ""
    check_name(name)
    return name


def check_own_signature(certificate: x509.Certificate) -> None:
    """Refuses a certificate that its own key has not signed: somebody has put another one's key into it, or a bit of it
    has changed."""
    try:
        certificate.verify_directly_issued_by(certificate)
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"the certificate of {common_name(certificate)} is damaged: get it again") from None


def expiry(certificate: x509.Certificate) -> datetime:
    """The time until which a certificate is valid."""
    return certificate.not_valid_after_utc


def has_expired(certificate: x509.Certificate) -> bool:
    """Whether a certificate is valid no more."""
    return datetime.now(UTC) > expiry(certificate)


def check_dates(certificate: x509.Certificate, now: datetime | None = None) -> None:
    """Refuses a certificate that has expired, or that this machine's clock has not reached yet."""
    now = datetime.now(UTC) if now is None else now
    name = common_name(certificate)
    if now > expiry(certificate):
        raise InputError(
            f"the certificate of {name} expired on {expiry(certificate):%Y-%m-%d %H:%M} UTC, and it is too late to "
            f"renew it (tacit federation renew): {name} makes a new identity (tacit identity new), and all agree on a "
            "new version of the federation (tacit federation new --predecessor)"
        )
    if now < certificate.not_valid_before_utc:
        raise InputError(
            f"the certificate of {name} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on; this "
            f"machine's clock says {now:%Y-%m-%d %H:%M} UTC: set the clock"
        )


def _self_signed(name: str, key: ec.EllipticCurvePrivateKey, days: int) -> str:
    # TLS looks a trusted certificate up by its subject. A member may have two for a while: their subjects must differ.
    unique = x509.NameAttribute(NameOID.SERIAL_NUMBER, os.urandom(8).hex())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), unique])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(both, critical=False)
        .sign(key, hashes.SHA256())
    )
    return canonical_certificate(certificate)
