"""A key in AWS KMS signs like any other key, although it never leaves the KMS."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from eth_account import Account
from hypothesis import given, strategies as st
from typing_extensions import override

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.signing.factory import open_signer
from oracle.signing.key_locations import KmsKey
from oracle.signing.kms import KmsSigner, _create_client, decode_der_signature
from oracle.signing.signature_checks import EcdsaSignature
from oracle.signing.signer import Fees, SignerRefusedError, TransactionRequest, WrongSignatureError
from oracle.signing.typed_data import Domain
from tests.integration.signers.test_signers import REPORT
from tests.support.signing.kms import REGION, Kms, run_kms_server

pytestmark = pytest.mark.slow

DOMAIN = Domain(31337, Address("0x" + 40 * "7"))
CALL = TransactionRequest(31337, 7, DOMAIN.contract, "0xabcdef01", 90_000, Fees(9, 2))
NUMBERS = st.integers(1, 2**256 - 1)


@pytest.fixture(scope="module")
def kms() -> Iterator[Kms]:
    with run_kms_server() as server:
        yield server


def test_kms_signatures_recover_to_key_address(kms: Kms):
    signer = KmsSigner.open(kms.new_key())
    # Half of all signatures have a high s, and half have either parity.
    for nonce in range(12):
        call = TransactionRequest(31337, nonce, CALL.to, "0x", 21_000, Fees(9, 2))
        signed = signer.sign_transaction(call)
        assert Account.recover_transaction(signed.raw).lower() == signer.address
    raw = signer.sign_statement(REPORT, DOMAIN)
    digest = bytes.fromhex(REPORT.compute_digest(DOMAIN)[2:])
    assert Account._recover_hash(digest, signature=raw).lower() == signer.address
    assert EcdsaSignature.from_bytes(raw).has_low_s


def test_kms_key_of_another_address_prevents_startup(kms: Kms):
    other_address = Address("0x" + 40 * "1")
    with pytest.raises(InputError, match=f"keys.signer_address: the setting is {other_address}"):
        open_signer(kms.new_key(), role="signer", chain_id=1, expected_address=other_address)


def test_kms_key_on_another_curve_is_rejected(kms: Kms):
    with pytest.raises(
        InputError,
        match="the key has spec ECC_NIST_P256 and usage SIGN_VERIFY; expected ECC_SECG_P256K1",
    ):
        KmsSigner.open(kms.new_key("ECC_NIST_P256"))


def test_missing_kms_key_is_reported(kms: Kms):
    place = KmsKey("00000000-0000-0000-0000-000000000000", REGION, kms.url)
    expected_message = r"00000000.*cannot be used: there is no such key .*\(NotFoundException\)"
    with pytest.raises(InputError, match=expected_message):
        KmsSigner.open(place)


def test_error_for_missing_kms_region_names_the_setting(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(InputError, match="no region is configured; set keys"):
        KmsSigner.open(KmsKey("any", None, None))


def test_unreachable_kms_raises_transient_error(kms: Kms):
    place = KmsKey("any", REGION, "http://127.0.0.1:1", 1.0)
    with pytest.raises(TransientError, match="did not answer"):
        KmsSigner.open(place)


def test_deleted_kms_key_raises_signer_refused(kms: Kms):
    place = kms.new_key()
    signer = KmsSigner.open(place)
    gone = KmsSigner(signer._client, "00000000-0000-0000-0000-000000000000", signer.address)
    with pytest.raises(SignerRefusedError, match="NotFoundException"):
        gone.sign_statement(REPORT, DOMAIN)


ODD = {
    "a proxy's page": b"<html>log in</html>",
    "empty object": b"{}",
    "null": b"null",
    "a list": b"[]",
    "numbers": b'{"Signature": 5, "PublicKey": 5}',
    "too deep": b"[" * 100_000,
    "invalid UTF-8": b"\xff\xfe\x00",
}


@contextmanager
def something_else(body: bytes) -> Iterator[KmsKey]:
    """Run a server that returns 200 for everything, and is not a KMS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            """Drop the access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield KmsKey("any", REGION, f"http://127.0.0.1:{server.server_port}", 60.0)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("what", ODD)
def test_malformed_kms_response_raises_transient_error(kms: Kms, what: str):
    signer = KmsSigner.open(kms.new_key())
    with something_else(ODD[what]) as place:
        with pytest.raises(TransientError, match="KMS key any: the KMS did not answer"):
            KmsSigner.open(place)
        elsewhere = KmsSigner(_create_client(place), "any", signer.address)
        with pytest.raises(TransientError, match="the KMS did not sign"):
            elsewhere.sign_statement(REPORT, DOMAIN)


def test_signature_of_another_kms_key_is_rejected(kms: Kms):
    signer, other_signer = (KmsSigner.open(kms.new_key()) for _ in range(2))
    crossed = KmsSigner(other_signer._client, other_signer._key_id, signer.address)
    with pytest.raises(WrongSignatureError, match="or signed with another key than"):
        crossed.sign_transaction(CALL)


def test_missing_boto3_is_reported_with_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(InputError, match=r"boto3 is not installed; run .* -m pip install boto3"):
        KmsSigner.open(KmsKey("any", REGION))


@given(NUMBERS, NUMBERS)
def test_der_signature_of_cryptography_library_is_parsed(r: int, s: int):
    assert decode_der_signature(encode_dss_signature(r, s)) == (r, s)


@given(st.binary(max_size=90))
def test_invalid_der_is_rejected(raw: bytes):
    try:
        r, s = decode_der_signature(raw)
    except WrongSignatureError:
        return
    # What was read was one, up to leading zeros.
    assert len(encode_dss_signature(r, s)) <= len(raw)
