"""The event that a call of QoSRoots or QoSWords was sent for, with the arguments of the call."""

from typing import Any

import pytest
from eth_abi.abi import encode

from oracle.bindings.codec import encode_call
from oracle.bindings.expected_events import find_missing_event
from oracle.bindings.qos_roots import (
    encode_accuse_call,
    encode_clear_accusation_call,
    encode_execute_kick_call,
    encode_push_report_call,
    encode_retry_kick_call,
)
from oracle.bindings.qos_words import encode_bind_seats_call, encode_write_words_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address, Hash
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.domain.roots.round_tree import NodeProof
from oracle.signing.typed_data import ReportStatement
from oracle.txmgr.client.receipts import Receipt, ReceiptLog

ORACLE, NODE, OTHER = (Address("0x" + digit * 40) for digit in "acd")
HASHES = {digit: Hash("0x" + 64 * digit) for digit in "1234"}
LEAF = NodeLeaf(
    NODE, OTHER, 302, LeafFlag.MEMBER, 5, 50, 15, 10**18, 1_700, 1_600, bytes.fromhex("e1" * 32)
)
STATEMENT = ReportStatement(HASHES["1"], 7, HASHES["2"], 1_234, HASHES["3"], 9_999, HASHES["4"])
SUMMARY = RoundSummary(31337, ORACLE, 7, 1_234, 20, 18, 90_000)
WHY = b"wrong".ljust(32, b"\0")

Values = dict[str, Any]
AS_OF_HASH, ROOT = (bytes.fromhex(HASHES[digit][2:]) for digit in "34")
ROUND = {"round": 7, "asOf": 1_234, "asOfHash": AS_OF_HASH, "root": ROOT}
KICK = {"node": NODE, "evidence": LEAF.pool_hash}
CASES: dict[str, tuple[str, str, Values]] = {
    encode_push_report_call(STATEMENT, 1, b""): ("QoSRoots", "RoundAccepted", ROUND),
    encode_accuse_call(LEAF, [ROOT]): ("QoSRoots", "KickAccused", KICK),
    encode_execute_kick_call(LEAF, [ROOT], SUMMARY): ("QoSRoots", "KickExecuted", KICK),
    encode_retry_kick_call(NODE): ("QoSRoots", "KickExecuted", {"node": NODE}),
    encode_clear_accusation_call(LEAF, [ROOT]): ("QoSRoots", "KickCancelled", {"node": NODE}),
    encode_call("roots/QoSRoots", "veto", NODE, WHY): (
        "QoSRoots",
        "KickCancelled",
        {"node": NODE, "why": WHY},
    ),
    encode_write_words_call(7, 32, [5], [ROOT]): (
        "QoSWords",
        "WordsBrought",
        {"round": 7, "first": 32},
    ),
    encode_bind_seats_call([NodeProof(NODE, LEAF, (ROOT,))]): (
        "QoSWords",
        "NodeRegistered",
        {"node": NODE},
    ),
}
ZERO = {"address": Address("0x" + 40 * "0"), "bytes32": bytes(32)}


def make_event(contract: str, name: str, values: Values) -> ReceiptLog:
    """Return a log of an event whose other arguments are zero."""
    event = load_abi(f"roots/{contract}").get_event(name)
    encoded: dict[bool, list[bytes]] = {True: [], False: []}
    for part in event.inputs:
        value = values.get(part.name, ZERO.get(part.abi_type, 0))
        encoded[part.indexed].append(encode([part.abi_type], [value]))
    topics = ("0x" + topic.hex() for topic in encoded[True])
    return ReceiptLog(ORACLE, (event.digest, *topics), "0x" + b"".join(encoded[False]).hex())


def find(calldata: str, event: ReceiptLog) -> str | None:
    receipt = Receipt(HASHES["1"], 7, HASHES["1"], True, 21_000, 1, None, (event,))
    return find_missing_event(receipt, ORACLE, calldata)


@pytest.mark.parametrize(("calldata", "case"), CASES.items())
def test_event_with_the_values_of_the_call_is_found(calldata: str, case: tuple[str, str, Values]):
    assert find(calldata, make_event(*case)) is None


@pytest.mark.parametrize(("calldata", "case"), CASES.items())
def test_event_with_one_different_value_is_not_found(calldata: str, case: tuple[str, str, Values]):
    contract, name, values = case
    for field, value in values.items():
        other = {int: 9, bytes: bytes(32), str: OTHER}[type(value)]
        event = make_event(contract, name, {**values, field: other})
        assert find(calldata, event) == name
