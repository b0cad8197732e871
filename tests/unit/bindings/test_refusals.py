"""Every error of the contract has a line in the table, and is read from its bytes."""

import json

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.bindings.contract_errors import ACTIONS, UNRELATED_ERRORS, decode_refusal
from oracle.resources import find_shipped_path
from oracle.txmgr.client.refusal import RefusalAction


def output(signature: str, *arguments: int) -> str:
    kinds = signature[signature.index("(") + 1 : -1].split(",") if arguments else []
    return "0x" + (keccak(text=signature)[:4] + encode(kinds, arguments)).hex()


def errors(contract: str) -> set[str]:
    abi = json.loads((find_shipped_path("abi") / f"{contract}.json").read_text())["abi"]
    return {entry["name"] for entry in abi if entry["type"] == "error"}


def test_every_contract_error_has_an_action_or_is_listed_as_unrelated():
    assert errors("QoSOracle") | errors("TaskNetwork") == set(ACTIONS) | UNRELATED_ERRORS
    assert not set(ACTIONS) & UNRELATED_ERRORS


def test_refusal_is_formatted_as_contract_error():
    refusal = decode_refusal(output("WrongRound(uint32,uint32)", 5, 4))
    assert (str(refusal), refusal.action) == ("WrongRound(5, 4)", RefusalAction.DROP)


def test_refusal_with_ready_time_is_retried_after_that_time():
    refusal = decode_refusal(output("KickNotReady(uint40,uint256)", 1234, 9))
    assert (refusal.action, refusal.not_before) == (RefusalAction.WAIT, 1234)
    assert decode_refusal(output("TooSoon(uint256)", 77)).not_before == 77


def test_empty_bucket_that_never_refills_has_no_retry_time():
    assert decode_refusal(output("BucketEmpty(uint256)", 0)).not_before is None


def test_call_with_unknown_revert_data_is_held():
    for unknown in ("0x", "0xdeadbeef", None, "0x08c379a0"):
        assert decode_refusal(unknown).action is RefusalAction.HOLD
