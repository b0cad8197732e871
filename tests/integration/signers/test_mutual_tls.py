"""A remote signer that requires a client certificate, and one with a wrong certificate."""

import ipaddress
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.signing.remote import RemoteSigner
from oracle.signing.signer import Fees, TransactionRequest
from oracle.telemetry.metrics import REGISTRY
from tests.support.signing.remote_signer import RemoteHost, serve_host

pytestmark = pytest.mark.slow

CALL = TransactionRequest(31337, 7, Address("0x" + 40 * "7"), "0x", 21_000, Fees(9, 2))
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


class Pair(NamedTuple):
    """A certificate and its key, as files, and as an issuer of others."""

    certificate: Path
    key: Path
    name: x509.Name
    secret: ec.EllipticCurvePrivateKey


def made(folder: Path, name: str, by: Pair | None = None) -> Pair:
    """Create a certificate for 127.0.0.1, signed by another one or by itself."""
    secret = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signing = secret if by is None else by.secret
    own = x509.SubjectKeyIdentifier.from_public_key(secret.public_key())
    its = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(BEGIN + timedelta(days=36_500))
        .add_extension(here, critical=False)
        .add_extension(own, critical=False)
        .add_extension(its, critical=False)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .sign(signing, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    files[1].chmod(0o600)
    return Pair(*files, subject, secret)


@pytest.fixture
def authority(tmp_path: Path) -> Pair:
    return made(tmp_path, "authority")


@pytest.fixture
def host(tmp_path: Path, authority: Pair) -> Iterator[RemoteHost]:
    """Run a host that requires a client certificate of its own authority."""
    own = made(tmp_path, "host", authority)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    tls.load_verify_locations(authority.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    with serve_host(RemoteHost(), tls) as opened:
        yield opened


def test_client_certificate_is_sent_to_the_signer(
    host: RemoteHost, authority: Pair, tmp_path: Path
):
    client_pair = made(tmp_path, "ours", authority)
    wire = {
        "certificate": client_pair.certificate,
        "certificate_key": client_pair.key,
        "ca_file": authority.certificate,
    }
    signed = RemoteSigner(host.place(**wire)).sign_transaction(CALL)
    assert signed.raw[0] == 2
    expiry = REGISTRY.get_sample_value(
        "oracle_server_certificate_expiry_timestamp_seconds", {"server": "127.0.0.1"}
    )
    assert expiry == (BEGIN + timedelta(days=36_500)).timestamp()


def test_signer_rejects_a_client_without_a_certificate(host: RemoteHost, authority: Pair):
    with pytest.raises(TransientError):
        RemoteSigner(host.place(ca_file=authority.certificate)).sign_transaction(CALL)
    assert host.received_requests == []


@pytest.mark.parametrize("server_identity", ["another authority", "the system"])
def test_untrusted_signer_receives_no_request(
    host: RemoteHost, authority: Pair, tmp_path: Path, server_identity: str
):
    # It would accept the client's certificate; only the client rejects the server's.
    client_pair = made(tmp_path, "ours", authority)
    wire = {"certificate": client_pair.certificate, "certificate_key": client_pair.key}
    if server_identity == "another authority":
        wire["ca_file"] = made(tmp_path, "stranger").certificate
    with pytest.raises(TransientError, match="TLS failed"):
        RemoteSigner(host.place(**wire)).sign_transaction(CALL)
    assert host.received_requests == []


def test_client_key_readable_by_others_is_rejected(host: RemoteHost, authority: Pair):
    authority.key.chmod(0o640)
    wire = {"certificate": authority.certificate, "certificate_key": authority.key}
    with pytest.raises(InputError, match="other users have access to this file"):
        RemoteSigner(host.place(**wire))


def test_missing_tls_file_is_reported(host: RemoteHost, tmp_path: Path):
    with pytest.raises(InputError, match="nowhere: file not found"):
        RemoteSigner(host.place(ca_file=tmp_path / "nowhere"))
