"""What a rollup takes for a transaction beside gas: its data, its operator.

Asked of the chain's own contracts, at every endpoint, and of several the middle counts: a single
one neither keeps a call waiting nor lets it go unpaid for. In wei.
See docs/explanation/transactions.md#fees.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import function_signature_to_4byte_selector

from oracle.errors import TransientError
from oracle.rpc.reverts import CallRefusedError, RevertError
from oracle.rpc.views.fanout import Json, JsonRpcClient, PoolView, Request


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
# Wei for these; then three prices of gas.
_PRICES = ("transaction", "byte", "storage")


def l1_fee(lines: PoolView, kind: L1Fee, calldata: str, gas: int) -> int:
    """Return what a call of `gas` costs beside it now, rounded up rather than down.

    On Arbitrum the estimate of gas holds it already, at the price of that moment: counted once
    more, it is what is kept for a rise of that price. On the OP stack it is the fee for data and,
    since Isthmus, that of the operator, which is taken for the whole limit and given back in part.

    Raises:
        TransientError: no endpoint answers, or the chain has no such contract.
    """
    written = _ENVELOPE + bytes.fromhex(calldata.removeprefix("0x"))
    if kind is L1Fee.OPTIMISM:
        asked = [_get_l1_fee(written), _get_operator_fee(gas)]
        return _of_all(lines, lambda line: _of_op_stack(line.ask_each(asked)))
    if kind is L1Fee.ARBITRUM:
        return _of_all(lines, lambda line: _per_byte(line) * len(written))
    return 0


def operator_fee(lines: PoolView, kind: L1Fee, gas_used: int) -> int:
    """Return what the operator of an OP chain takes for gas that was used; elsewhere 0.

    By the chain's own contract: its forks do not count alike (Isthmus, Jovian), and receipts hold
    the factors only.

    Raises:
        TransientError: no endpoint answers.
    """
    if kind is not L1Fee.OPTIMISM:
        return 0
    asked = [_get_operator_fee(gas_used)]
    return _of_all(lines, lambda line: _of_operator(line.ask_each(asked)[0]))


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


def _of_all(lines: PoolView, read: Callable[[JsonRpcClient], int]) -> int:
    """Return the middle one of what the endpoints tell, of two the lower."""
    told: list[int] = []
    silence = TransientError("no endpoint is configured")
    for line in lines.all:
        try:
            told.append(read(line))
        except TransientError as error:
            silence = error
    if not told:
        raise silence
    return statistics.median_low(told)


def _of_op_stack(told: Sequence[Json | CallRefusedError]) -> int:
    data, operator = told
    if isinstance(data, CallRefusedError):
        raise data
    return _number(data, GAS_PRICE_ORACLE, "getL1Fee") + _of_operator(operator)


def _of_operator(told: Json | CallRefusedError) -> int:
    """Read the operator's fee; a contract of before Isthmus does not know of any."""
    if isinstance(told, RevertError):
        return 0
    if isinstance(told, CallRefusedError):
        raise told
    return 0 if told == "0x" else _number(told, GAS_PRICE_ORACLE, "getOperatorFee")


def _per_byte(line: JsonRpcClient) -> int:
    method, given = _call(ARB_GAS_INFO, "getPricesInWei()", b"")
    answer = line.ask(method, *given)
    return _number(answer, ARB_GAS_INFO, "getPricesInWei", _PRICES.index("byte"))


def _number(answer: Json, to: str, name: str, place: int = 0) -> int:
    """Read one of the numbers of an answer; more than there is of ether is none."""
    try:
        told = decode(["uint256"] * (place + 1), bytes.fromhex(str(answer)[2:]))
        wei = int(told[place])
    except (DecodingError, ValueError):
        raise TransientError(f"{to} does not tell {name}: check limits.l1_fee") from None
    if wei > _MOST_WEI:
        raise TransientError(f"{to} tells a {name} that cannot be: {wei}")
    return wei


def _get_l1_fee(written: bytes) -> Request:
    return _call(GAS_PRICE_ORACLE, "getL1Fee(bytes)", encode(["bytes"], [written]))


def _get_operator_fee(gas: int) -> Request:
    return _call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)", encode(["uint256"], [gas]))


def _call(to: str, signature: str, given: bytes) -> Request:
    calldata = "0x" + (function_signature_to_4byte_selector(signature) + given).hex()
    return "eth_call", ({"to": to, "data": calldata}, "latest")
