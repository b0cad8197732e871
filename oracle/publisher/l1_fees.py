"""What a rollup takes for a transaction's data on its base chain, beside gas (publishing.md 3.6).

Asked of the chain's own contracts; in wei.
"""

from enum import StrEnum

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


def _ask(lines: Lines, to: str, signature: str, given: bytes, kinds: list[str]) -> list[int]:
    calldata = "0x" + (function_signature_to_4byte_selector(signature) + given).hex()
    answer = lines.ask("eth_call", {"to": to, "data": calldata}, "latest")
    try:
        return [int(value) for value in decode(kinds, bytes.fromhex(str(answer)[2:]))]
    except (DecodingError, ValueError):
        name = signature.partition("(")[0]
        raise TransientError(f"{to} does not tell {name}: check limits.l1_fee") from None
