"""What the contracts of rollups are asked is what was written by hand, byte for byte."""

from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector

from oracle.rpc.views.fanout import PoolView
from oracle.txmgr.client.l1_fees import L1Fee, l1_fee

WORD = f"{5:064x}"


class Rollup:
    """An endpoint of a rollup: each view tells 5, of prices too."""

    name = "rollup"

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[dict[str, str], str]]] = []

    def ask_each(self, asked):
        self.asked += asked
        return ["0x" + WORD for _ in asked]

    def ask(self, method, *given):
        self.asked.append((method, given))
        return "0x" + WORD * 6


def asked(kind: L1Fee) -> list[str]:
    rollup = Rollup()
    assert l1_fee(PoolView([rollup]), kind, "0xabcd", 21_000) > 0  # type: ignore[list-item]  # a fake
    assert all(block == "latest" for _, (_, block) in rollup.asked)
    return [call["data"] for _, (call, _) in rollup.asked]


def by_hand(signature: str, *given: object) -> str:
    kinds = [kind for kind in signature.split("(")[1][:-1].split(",") if kind]
    return "0x" + (function_signature_to_4byte_selector(signature) + encode(kinds, given)).hex()


def test_an_op_chain_is_asked_for_both_fees_as_before():
    written = b"\xff" * 180 + b"\xab\xcd"

    assert asked(L1Fee.OPTIMISM) == [
        by_hand("getL1Fee(bytes)", written),
        by_hand("getOperatorFee(uint256)", 21_000),
    ]


def test_arbitrum_is_asked_for_its_prices_as_before():
    assert asked(L1Fee.ARBITRUM) == [by_hand("getPricesInWei()")]
