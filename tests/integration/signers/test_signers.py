"""All kinds of signers give the same signature, and every remote response is verified."""

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
import rlp
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given, strategies as st

from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.signing.factory import open_signer
from oracle.signing.key_locations import EnvironmentKey
from oracle.signing.local import KeySigner
from oracle.signing.remote import RemoteSigner, build_sign_transaction_params
from oracle.signing.signature_checks import (
    EcdsaSignature,
    verify_signed_transaction,
    verify_statement_signature,
)
from oracle.signing.signer import Fees, TransactionRequest, WrongSignatureError
from oracle.signing.typed_data import AnswerStatement, Domain, ReportStatement, build_typed_data
from tests.integration.evm.test_typed_data import REPORTS
from tests.support.examples import examples
from tests.support.signing.remote_signer import ORDER, RemoteHost, Wrong, serve_host

# Real HTTP, and many signatures in plain Python.
pytestmark = pytest.mark.slow

DOMAIN = Domain(31337, Address("0x" + 40 * "7"))
REPORT = ReportStatement(
    config=Hash("0x" + 64 * "b"),
    round=3,
    prev=Hash("0x" + 64 * "c"),
    as_of=1_234,
    as_of_hash=Hash("0x" + 64 * "d"),
    deadline=1_700_000_000,
    root=Hash("0x" + 64 * "e"),
)
ANSWER = AnswerStatement(Address("0x" + 40 * "5"), 1_700_000_000, True, "an outage", 9)
CALL = TransactionRequest(
    31337, 7, Address("0x" + 40 * "7"), "0xabcdef01" + 64 * "2", 90_000, Fees(9, 2)
)
TRANSACTIONS = st.builds(
    TransactionRequest,
    chain_id=st.integers(1, 2**40),
    nonce=st.integers(0, 2**63),
    to=st.none() | st.binary(min_size=20, max_size=20).map(lambda raw: Address("0x" + raw.hex())),
    calldata=st.binary(max_size=300).map(lambda raw: "0x" + raw.hex()),
    gas_limit=st.integers(21_000, 2**40),
    fees=st.builds(Fees, st.integers(1, 2**60), st.integers(0, 2**60)),
)
LOCAL = KeySigner(bytes.fromhex("01" * 32))


@pytest.fixture
def host() -> Iterator[RemoteHost]:
    with serve_host(RemoteHost(key="0x" + "01" * 32)) as opened:
        yield opened


@examples(30)
@given(TRANSACTIONS)
def test_signed_transaction_equals_that_of_eth_account(transaction: TransactionRequest):
    params = build_sign_transaction_params(transaction, LOCAL.address)
    del params["from"]
    if transaction.to is not None:
        params["to"] = bytes.fromhex(transaction.to[2:])
    reference_tx = Account.from_key("0x" + "01" * 32).sign_transaction(params)
    signed_tx = LOCAL.sign_transaction(transaction)
    assert (signed_tx.raw, signed_tx.hash) == (
        bytes(reference_tx.raw_transaction),
        "0x" + reference_tx.hash.hex(),
    )
    assert Account.recover_transaction(signed_tx.raw).lower() == LOCAL.address
    assert verify_signed_transaction(signed_tx.raw, transaction, LOCAL.address) == signed_tx


@examples(30)
@given(REPORTS)
def test_typed_data_sent_to_the_signer_has_the_computed_digest(statement):
    signable = encode_typed_data(full_message=build_typed_data(statement, DOMAIN))
    raw = bytes(Account.from_key("0x" + "01" * 32).sign_message(signable).signature)
    assert raw == LOCAL.sign_statement(statement, DOMAIN)


def test_remote_signer_returns_same_signatures_as_key(host: RemoteHost):
    remote = RemoteSigner(host.place())
    assert remote.sign_transaction(CALL) == LOCAL.sign_transaction(CALL)
    for statement in (REPORT, ANSWER):
        assert remote.sign_statement(statement, DOMAIN) == LOCAL.sign_statement(statement, DOMAIN)
    deployment = replace(CALL, to=None)
    assert remote.sign_transaction(deployment) == LOCAL.sign_transaction(deployment)


def test_web3signer_method_name_and_parity_0_or_1_are_supported(host: RemoteHost):
    host.wrong = Wrong(result=lambda raw: raw[:-2] + ("00" if raw.endswith("1b") else "01"))
    remote = RemoteSigner(host.place(typed_data_method="eth_signTypedData"))
    assert remote.sign_statement(REPORT, DOMAIN) == LOCAL.sign_statement(REPORT, DOMAIN)
    assert host.received_requests[0][0] == "eth_signTypedData"


def test_signed_transaction_in_the_response_format_of_geth_is_accepted(host: RemoteHost):
    host.wrong = Wrong(result=lambda raw: {"raw": raw, "tx": {}})
    assert RemoteSigner(host.place()).sign_transaction(CALL) == LOCAL.sign_transaction(CALL)


OTHER = {
    "chainId": "0x1",
    "nonce": "0x8",
    "to": "0x" + 40 * "8",
    "value": "0x1",
    "data": "0xabcdef02",
    "gas": "0x15f91",
    "maxFeePerGas": "0xa",
    "maxPriorityFeePerGas": "0x3",
    "accessList": [{"address": "0x" + 40 * "9", "storageKeys": []}],
}
WORDS = {
    "chainId": "chain id",
    "data": "calldata",
    "gas": "gas limit",
    "maxFeePerGas": "max fee",
    "maxPriorityFeePerGas": "tip",
    "accessList": "access list",
}


@pytest.mark.parametrize("name", OTHER)
def test_error_names_the_transaction_field_that_the_signer_changed(host: RemoteHost, name):
    host.wrong = Wrong(fields=lambda params: {**params, name: OTHER[name]})
    with pytest.raises(WrongSignatureError, match=f"differing fields: {WORDS.get(name, name)}$"):
        RemoteSigner(host.place()).sign_transaction(CALL)


def test_changed_field_cases_cover_every_transaction_field():
    field_names = {"chain_id", "nonce", "to", "calldata", "gas_limit", "fees"}
    assert {field.name for field in fields(TransactionRequest)} == field_names
    assert (
        OTHER.keys() | {"from", "type"}
        == build_sign_transaction_params(CALL, LOCAL.address).keys()
    )


@given(st.binary(max_size=400))
def test_malformed_signed_transaction_is_rejected(raw: bytes):
    with pytest.raises(WrongSignatureError):
        verify_signed_transaction(b"\x02" + raw, CALL, LOCAL.address)


@examples(30)
@given(st.data())
def test_transaction_with_flipped_bit_is_rejected(data: st.DataObject):
    raw = bytearray(LOCAL.sign_transaction(CALL).raw)
    place = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[place // 8] ^= 1 << place % 8
    with pytest.raises(WrongSignatureError):
        verify_signed_transaction(bytes(raw), CALL, LOCAL.address)


def test_transaction_with_high_s_is_rejected():
    parts: Any = rlp.decode(LOCAL.sign_transaction(CALL).raw[1:])
    parity = int.from_bytes(parts[9], "big")
    s = int.from_bytes(parts[11], "big")
    high_s_parts = [
        *parts[:9],
        b"" if parity else b"\x01",
        parts[10],
        (ORDER - s).to_bytes(32, "big"),
    ]
    raw = b"\x02" + rlp.encode(high_s_parts)
    assert Account.recover_transaction(raw).lower() == LOCAL.address
    with pytest.raises(WrongSignatureError, match="has a high s"):
        verify_signed_transaction(raw, CALL, LOCAL.address)


def test_oversized_signature_is_rejected():
    parts: Any = rlp.decode(LOCAL.sign_transaction(CALL).raw[1:])
    parts[10] = b"\xff" * 3000
    with pytest.raises(WrongSignatureError, match="more bytes than a signed transaction"):
        verify_signed_transaction(b"\x02" + rlp.encode(parts), CALL, LOCAL.address)


@given(st.binary(max_size=80) | st.binary(min_size=65, max_size=65))
def test_invalid_statement_signature_is_rejected(raw: bytes):
    with pytest.raises(WrongSignatureError):
        verify_statement_signature(raw, REPORT.compute_digest(DOMAIN), LOCAL.address)


@given(st.integers(1, ORDER - 1))
def test_signature_is_converted_to_low_s(s: int):
    low = EcdsaSignature(5, s, 0).to_low_s()
    assert low.has_low_s
    assert low in {EcdsaSignature(5, s, 0), EcdsaSignature(5, ORDER - s, 1)}


@pytest.mark.parametrize("chain_id", [1, 10, 17000, 42161, 11155111])
def test_key_in_environment_is_allowed_only_on_development_chains(monkeypatch, chain_id):
    monkeypatch.setenv("A_KEY", "01" * 32)
    with pytest.raises(InputError, match="for development chains only"):
        open_signer(EnvironmentKey("A_KEY"), role="signer", chain_id=chain_id)
    opened = open_signer(EnvironmentKey("A_KEY"), role="signer", chain_id=31337)
    assert opened.address == LOCAL.address


@pytest.mark.parametrize("written", ["", "0x", "01" * 31, "0x" + "01" * 33, "00" * 32, "zz" * 32])
def test_error_for_an_invalid_key_variable_hides_its_value(monkeypatch, written):
    monkeypatch.setenv("A_KEY", written)
    with pytest.raises(InputError, match="A_KEY") as failure:
        open_signer(EnvironmentKey("A_KEY"), role="signer", chain_id=31337)
    assert written == "" or json.dumps(written)[1:-1] not in str(failure.value)
