"""TLS 1.3 in which both sides show a certificate that the other has pinned, and name the version of the protocol."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives import serialization

from tacit.agent.identity import Identity

PROTOCOL = "tacit/1"  # both sides name it in the handshake (ALPN): agents of another version are told apart


def context(identity: Identity, trusted: Iterable[str], *, called: bool) -> ssl.SSLContext:
    """TLS for one who is called, or calls, and trusts exactly these certificates. What a certificate is trusted for
    cannot be taken back, so other certificates need another context."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if called else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname, made.verify_mode = False, ssl.CERT_REQUIRED  # names are in the certificates that are pinned
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is what is trusted
    made.set_alpn_protocols([PROTOCOL])
    if pinned := "".join(trusted):
        made.load_verify_locations(cadata=pinned)
    if called:
        made.num_tickets = 0  # nobody resumes
    # Python reads keys from files only: this one is worth nothing without a password that nobody else knows.
    password = os.urandom(16).hex().encode()
    key = serialization.load_pem_private_key(identity.key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
    )
    with TemporaryDirectory(prefix="tacit-") as folder:
        (file := Path(folder) / "pair.pem").write_bytes(identity.certificate.encode() + key)
        made.load_cert_chain(file, password=password)
    return made
