"""What a rollup takes for a transaction's data on its base chain, beside gas (publishing.md 3.6).

Asked of the chain's own contracts; in wei.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import function_signature_to_4byte_selector

from oracle.errors import TransientError
from oracle.publisher.line import Lines


class L1Fee(StrEnum):
    """How the chain tells."""

    NONE = "none"
    OPTIMISM = "optimism"
    ARBITRUM = "arbitrum"


# The contracts that these chains have from their first block.
GAS_PRICE_ORACLE = "0x420000000000000000000000000000000000000f"
ARB_GAS_INFO = "0x000000000000000000000000000000000000006c"
# Fields and signature of a transaction, beside its calldata; no byte of them is zero.
_ENVELOPE = b"\xff" * 180
# There never is more ether on a chain than this.
_MOST_WEI = 10**28
# Wei for: a transaction, a byte of calldata, a word of storage; three prices of gas.
_PRICES = ["uint256"] * 6


def l1_fee(lines: Lines, kind: L1Fee, calldata: str) -> int:
    """Return what the data of a call costs now, rounded up rather than down.

    On Arbitrum the estimate of gas holds it already, at the price of that moment: counted once
    more, it is what is kept for a rise of that price.

    Raises:
        TransientError: no endpoint answers, or the chain has no such contract.
    """
    written = _ENVELOPE + bytes.fromhex(calldata.removeprefix("0x"))
    if kind is L1Fee.OPTIMISM:
        asked = encode(["bytes"], [written])
        return _ask(lines, GAS_PRICE_ORACLE, "getL1Fee(bytes)", asked, ["uint256"])[0]
    if kind is L1Fee.ARBITRUM:
        _, per_byte, *_ = _ask(lines, ARB_GAS_INFO, "getPricesInWei()", b"", _PRICES)
        return per_byte * len(written)
    return 0


def l1_fee_in(receipt: Mapping[str, Any]) -> int:
    """Return what a receipt says was taken for the data, in wei; 0 where it says nothing.

    Chains of the OP stack tell `l1Fee` beside the gas. Arbitrum's `gasUsedForL1` is part of
    `gasUsed`: it is paid for with the gas.

    Raises:
        ValueError: it is no amount.
    """
    told = receipt.get("l1Fee")
    if told is None:
        return 0
    fee = int(str(told), 16)
    if not 0 <= fee <= _MOST_WEI:
        raise ValueError(f"l1Fee is {told}")
    return fee


def _ask(lines: Lines, to: str, signature: str, given: bytes, kinds: list[str]) -> list[int]:
    calldata = "0x" + (function_signature_to_4byte_selector(signature) + given).hex()
    answer = lines.ask("eth_call", {"to": to, "data": calldata}, "latest")
    try:
        return [int(value) for value in decode(kinds, bytes.fromhex(str(answer)[2:]))]
    except (DecodingError, ValueError):
        name = signature.partition("(")[0]
        raise TransientError(f"{to} does not tell {name}: check limits.l1_fee") from None
