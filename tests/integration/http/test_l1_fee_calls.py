"""The calls to the contracts of rollups equal hand-written calldata."""

from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector

from oracle.txmgr.client.l1_fees import L1Fee, fetch_l1_fee
from tests.pools import view_of
from tests.support.sending.faults import respond_with
from tests.support.sending.proxy import run_proxy

WORD = f"{5:064x}"


def list_calldata(kind: L1Fee) -> list[str]:
    """Return the calldata of all requests to a rollup's endpoint."""
    with run_proxy("http://127.0.0.1:9") as rollup:
        rollup.rule("eth_call", respond_with("0x" + WORD * 6))
        assert fetch_l1_fee(view_of(rollup.url), kind, "0xabcd", 21_000) > 0
        calls = [request["params"] for request in rollup.received_requests]
    assert all(block == "latest" for _, block in calls)
    return [call["data"] for call, _ in calls]


def by_hand(signature: str, *arguments: object) -> str:
    kinds = [kind for kind in signature.split("(")[1][:-1].split(",") if kind]
    return (
        "0x" + (function_signature_to_4byte_selector(signature) + encode(kinds, arguments)).hex()
    )


def test_op_stack_fee_calls_match_handwritten_calldata():
    written = b"\xff" * 180 + b"\xab\xcd"

    assert list_calldata(L1Fee.OPTIMISM) == [
        by_hand("getL1Fee(bytes)", written),
        by_hand("getOperatorFee(uint256)", 21_000),
    ]


def test_arbitrum_price_call_matches_handwritten_calldata():
    assert list_calldata(L1Fee.ARBITRUM) == [by_hand("getPricesInWei()")]
