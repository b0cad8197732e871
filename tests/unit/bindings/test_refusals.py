"""Every error of the contracts has an entry in the table, and is decoded from its bytes."""

import json

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.bindings.contract_errors import (
    ACTIONS,
    CONTRACTS,
    decode_refusal,
)
from oracle.resources import find_shipped_path
from oracle.txmgr.client.refusal import RefusalAction

# Errors of roles, setups, clients and nodes, which no call of the daemon can cause.
UNRELATED_ERRORS = frozenset(
    {
        "Alone", "AlreadyMember", "AlreadyPaused", "AnswersOpen", "BadFloor",
        "BadGroupSize", "BadKind", "BadLimits", "BadRules", "BadSettings",
        "BadSigners", "BadSize", "BadTimeout", "ContestOpen", "FeeTooLow", "GroupFull",
        "GroupNotReady", "InvalidShortString", "KickedOut", "NoCode", "NotAdmin",
        "NotContested", "NotCreator", "NotItsLike", "NotItsTask", "NotKickedOut",
        "NotOffered", "NotPaused", "NothingToWithdraw", "OfferTooRecent", "OrderDiffers",
        "PauseCoolDown", "PauseTooLong", "PaymentRefused", "RejoinTooEarly",
        "RevealsLater", "StakeTooLow", "StillTime", "StringTooLong", "TaskExists", "TooEarly",
        "TooLate", "TooManyModels", "UnknownGroup", "WrongResult", "WrongReveal",
        "ZeroAddress", "ZeroResult",
    }
)  # fmt: skip


def output(signature: str, *arguments: int) -> str:
    kinds = signature[signature.index("(") + 1 : -1].split(",") if arguments else []
    return "0x" + (keccak(text=signature)[:4] + encode(kinds, arguments)).hex()


def errors(contract: str) -> set[str]:
    abi = json.loads((find_shipped_path("abi") / f"{contract}.json").read_text())["abi"]
    return {entry["name"] for entry in abi if entry["type"] == "error"}


def test_every_contract_error_has_an_action_or_is_listed_as_unrelated():
    assert set[str]().union(*map(errors, CONTRACTS)) == set(ACTIONS) | UNRELATED_ERRORS
    assert not set(ACTIONS) & UNRELATED_ERRORS


@pytest.mark.parametrize(
    ("signature", "arguments", "action"),
    [
        ("NotProven(address)", (1,), RefusalAction.RENEW),
        ("SummaryNotProven(uint32)", (7,), RefusalAction.RENEW),
        ("NoRoot(uint32)", (7,), RefusalAction.RENEW),
        ("AlreadyAccused(address)", (1,), RefusalAction.DROP),
        ("StillDue(address)", (1,), RefusalAction.DROP),
        ("NothingWritten(uint256,uint32)", (0, 7), RefusalAction.DROP),
        ("LaneTooHigh(uint256)", (0,), RefusalAction.HOLD),
        ("TooFewOpen(uint32,uint24)", (2, 3), RefusalAction.WAIT),
    ],
)
def test_contract_error_determines_whether_the_call_is_retried(
    signature: str, arguments: tuple[int, ...], action: RefusalAction
):
    kinds = signature[signature.index("(") + 1 : -1].split(",")
    values = [
        f"0x{argument:040x}" if kind == "address" else argument
        for kind, argument in zip(kinds, arguments, strict=True)
    ]
    refusal = decode_refusal("0x" + (keccak(text=signature)[:4] + encode(kinds, values)).hex())
    assert (refusal.name, refusal.action) == (signature.partition("(")[0], action)
    assert refusal.is_taken is (refusal.name in {"AlreadyAccused", "NothingWritten"})


def test_revert_is_formatted_as_contract_error():
    refusal = decode_refusal(output("WrongRound(uint32,uint32)", 5, 4))
    assert (str(refusal), refusal.action) == ("WrongRound(5, 4)", RefusalAction.DROP)


def test_revert_with_ready_time_is_retried_after_that_time():
    refusal = decode_refusal(output("KickNotReady(uint40,uint256)", 1234, 9))
    assert (refusal.action, refusal.not_before) == (RefusalAction.WAIT, 1234)
    assert decode_refusal(output("TooSoon(uint256)", 77)).not_before == 77


def test_empty_token_bucket_without_refill_has_no_retry_time():
    assert decode_refusal(output("BucketEmpty(uint256)", 0)).not_before is None


def test_call_with_unknown_revert_data_is_held():
    for unknown in ("0x", "0xdeadbeef", None, "0x08c379a0"):
        assert decode_refusal(unknown).action is RefusalAction.HOLD
