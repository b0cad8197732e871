"""Receipts and transactions are encoded as by the reference libraries,
and their senders recovered.
"""

import msgspec
import pytest
import rlp
from eth_account import Account
from hypothesis import given, strategies as st
from trie.hexary import HexaryTrie

from oracle.chain.proofs.receipts import ProvenReceipt, compute_receipts_root
from oracle.chain.proofs.transactions_root import SignedTransaction, compute_transactions_root
from tests.support.examples import examples

KEY = "0x" + "01" * 32
ZEROS = "0x" + "00" * 32
hashes = st.binary(min_size=32, max_size=32).map(lambda case: "0x" + case.hex())
addresses = st.binary(min_size=20, max_size=20).map(lambda case: "0x" + case.hex())
contents = st.binary(max_size=80).map(lambda case: "0x" + case.hex())
logs = st.fixed_dictionaries(
    {"address": addresses, "topics": st.lists(hashes, max_size=4), "data": contents}
)
receipts = st.fixed_dictionaries(
    {
        "type": st.integers(0, 4).map(hex),
        "status": st.sampled_from(["0x0", "0x1"]),
        "cumulativeGasUsed": st.integers(1, 2**40).map(hex),
        "logsBloom": st.binary(min_size=256, max_size=256).map(lambda case: "0x" + case.hex()),
        "logs": st.lists(logs, max_size=3),
    }
)


def octets(written):
    return bytes.fromhex(written[2:])


def to_bytes_from_hex(written):
    number = int(written, 16)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def leaf_by_library(receipt):
    encoded_logs = [
        [octets(log["address"]), [octets(topic) for topic in log["topics"]], octets(log["data"])]
        for log in receipt["logs"]
    ]
    outcome = to_bytes_from_hex(receipt["status"])
    gas = to_bytes_from_hex(receipt["cumulativeGasUsed"])
    body = rlp.encode([outcome, gas, octets(receipt["logsBloom"]), encoded_logs])
    kind = int(receipt["type"], 16)
    return bytes([kind]) + body if kind else body


def add_log_fields(receipt, **more):
    """Return a receipt as an endpoint returns it, with additional fields of the logs."""
    where = {
        "blockNumber": "0x1",
        "blockHash": ZEROS,
        "transactionHash": ZEROS,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
    }
    whole_logs = [{**log, **where} for log in receipt["logs"]]
    receipt_fields = {
        "transactionHash": ZEROS,
        "transactionIndex": "0x0",
        **receipt,
        "logs": whole_logs,
    }
    return msgspec.convert({**receipt_fields, **more}, ProvenReceipt)


@examples(25)
@given(receipts)
def test_receipt_encoding_matches_library(receipt):
    if int(receipt["logsBloom"], 16):
        assert add_log_fields(receipt).encode_leaf() == leaf_by_library(receipt)


def test_receipts_root_matches_library():
    block = [
        {
            "type": hex(place % 5),
            "status": hex(place % 2),
            "cumulativeGasUsed": hex(21_000 * (place + 1)),
            "logsBloom": "0x" + f"{place + 1:0512x}",
            "logs": [{"address": "0x" + "aa" * 20, "topics": [ZEROS], "data": "0x7f"}],
        }
        for place in range(140)
    ]
    tree = HexaryTrie({}, prune=True)
    for place, receipt in enumerate(block):
        tree[rlp.encode(to_bytes_from_hex(hex(place)))] = leaf_by_library(receipt)
    assert (
        compute_receipts_root([add_log_fields(block_receipt) for block_receipt in block])
        == "0x" + tree.root_hash.hex()
    )


def test_missing_bloom_is_computed_from_the_logs():
    log = {"address": "0x" + "aa" * 20, "topics": [ZEROS], "data": "0x"}
    receipt = {"type": "0x2", "status": "0x1", "cumulativeGasUsed": "0x1", "logs": [log]}
    zeros = add_log_fields(receipt, logsBloom="0x" + "00" * 256).encode_leaf()
    assert add_log_fields(receipt).encode_leaf() == zeros
    assert zeros != leaf_by_library({**receipt, "logsBloom": "0x" + "00" * 256})


def test_receipt_of_unknown_type_is_rejected():
    receipt = {"type": "0x7e", "status": "0x1", "cumulativeGasUsed": "0x1", "logs": []}
    with pytest.raises(ValueError, match="unknown receipt type 126"):
        add_log_fields(receipt).encode_leaf()


def test_log_data_with_odd_number_of_hex_digits_is_rejected():
    log = {"address": "0x" + "aa" * 20, "topics": [], "data": "0x123"}
    receipt = {"status": "0x1", "cumulativeGasUsed": "0x1", "logs": [log]}
    with pytest.raises(ValueError, match="odd number of hex digits"):
        add_log_fields(receipt).encode_leaf()


def test_pre_byzantium_receipt_encodes_state_root():
    receipt: dict[str, object] = {"status": None, "cumulativeGasUsed": "0x5208", "logs": []}
    root = "0x" + "7e" * 32
    expected = rlp.encode([octets(root), to_bytes_from_hex("0x5208"), bytes(256), []])
    assert add_log_fields(receipt, root=root).encode_leaf() == expected


COMMON = {"nonce": 7, "gas": 100_000, "value": 5, "chainId": 1, "data": "0x1234"}
FEES = {"maxFeePerGas": 20, "maxPriorityFeePerGas": 2}
ACCESS = [{"address": "0x" + "33" * 20, "storageKeys": [ZEROS, "0x" + "01" * 32]}]


def authorization():
    named = {"chainId": 1, "address": "0x" + "22" * 20, "nonce": 3}
    return Account.sign_authorization(named, KEY)


SIGNED = {
    "legacy": {**COMMON, "gasPrice": 9},
    "creation": {**COMMON, "gasPrice": 9, "to": ""},
    "access list": {**COMMON, "gasPrice": 9, "type": 1, "accessList": ACCESS},
    "dynamic fee": {**COMMON, **FEES, "type": 2, "accessList": ACCESS},
    "set code": {**COMMON, **FEES, "type": 4},
}


def as_answered(request, signed, delegated=()):
    """The JSON that an endpoint makes of a signed transaction."""
    names = {"gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "chainId"}
    listed = [
        {
            "chainId": hex(signed_authorization.chain_id),
            "address": "0x" + signed_authorization.address.hex(),
            "nonce": hex(signed_authorization.nonce),
            "yParity": hex(signed_authorization.y_parity),
            "r": hex(signed_authorization.r),
            "s": hex(signed_authorization.s),
        }
        for signed_authorization in delegated
    ]
    return {
        "hash": "0x" + signed.hash.hex(),
        "from": ZEROS[:42],
        "to": request["to"] or None,
        "input": request["data"],
        "type": hex(request.get("type", 0)),
        "accessList": request.get("accessList", []),
        "authorizationList": listed,
        **{name: hex(request[name]) for name in ("nonce", "gas", "value")},
        **{name: hex(request[name]) for name in names & request.keys()},
        **{name: hex(getattr(signed, name)) for name in ("v", "r", "s")},
    }


@pytest.mark.parametrize("kind", SIGNED)
def test_transaction_hash_matches_signing_library(kind):
    request = {"to": "0x" + "11" * 20, **SIGNED[kind]}
    delegated = [authorization()] if kind == "set code" else []
    if delegated:
        request["authorizationList"] = delegated
    signed = Account.sign_transaction(request, KEY)
    answered = msgspec.convert(as_answered(request, signed, delegated), SignedTransaction)
    assert answered.compute_hash() == answered.hash


def test_empty_transactions_root_equals_empty_trie_root():
    empty = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
    assert compute_transactions_root([]) == compute_receipts_root([]) == empty


def test_transaction_missing_required_field_is_rejected():
    bare = SignedTransaction(
        ZEROS, "0x0", "0x0", "0x0", "0x", ZEROS[:42], "0x1", "0x1", type="0x2"
    )
    with pytest.raises(ValueError, match="lacks a field"):
        bare.encode_leaf()
