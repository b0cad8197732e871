"""Fetches what a rollup charges in addition to gas: for data, and for its operator.

The chain's own contracts are queried at every endpoint, and the median counts, so that a single
endpoint can neither block a call nor leave it underpaid. Amounts are in wei. See
docs/explanation/transactions.md#fees.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from oracle.chain.decode.abi_tails import WORD, word_at
from oracle.errors import TransientError
from oracle.rpc.client import Json, RpcRequest
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError


class L1Fee(StrEnum):
    """The fee model of the chain."""

    NONE = "none"
    OPTIMISM = "optimism"
    ARBITRUM = "arbitrum"


# The predeployed contracts of these chains.
GAS_PRICE_ORACLE = "0x420000000000000000000000000000000000000f"
ARB_GAS_INFO = "0x000000000000000000000000000000000000006c"
# The fields and signature of a transaction besides its calldata; no byte of them is zero.
_ENVELOPE = b"\xff" * 180
# No chain has more ether than this.
_MOST_WEI = 10**28
# The results of getPricesInWei in order; three prices of gas follow.
_PRICES = ("transaction", "byte", "storage")


def _view(name: str, *inputs: str) -> dict[str, object]:
    """Return the JSON ABI of a view function; only its first results are decoded."""
    given = [{"name": "", "type": kind} for kind in inputs]
    return {
        "type": "function",
        "name": name,
        "inputs": given,
        "outputs": [{"name": "", "type": "uint256"}],
        "stateMutability": "view",
    }


_ABIS = (
    _view("getL1Fee", "bytes"),
    _view("getOperatorFee", "uint256"),
    _view("getPricesInWei"),
)


def l1_fee(lines: PoolView, kind: L1Fee, calldata: str, gas: int) -> int:
    """Return what a call of `gas` costs in addition to its gas, rounded up.

    On Arbitrum the gas estimate includes the charge at the present price; counting it again is the
    reserve for a price rise. On the OP stack the result is the data fee and, since Isthmus, the
    operator fee, which is charged for the whole limit and refunded in part.

    Raises:
        TransientError: no endpoint answers, or the chain has no such contract.
    """
    written = _ENVELOPE + bytes.fromhex(calldata.removeprefix("0x"))
    if kind is L1Fee.OPTIMISM:
        asked = [_get_l1_fee(written), _get_operator_fee(gas)]
        return lines.median_of(lambda line: _of_op_stack(line.ask_each(asked)))
    if kind is L1Fee.ARBITRUM:
        return lines.median_of(lambda line: _per_byte(line) * len(written))
    return 0


def operator_fee(lines: PoolView, kind: L1Fee, gas_used: int) -> int:
    """Return the operator fee of an OP chain for the gas used; elsewhere 0.

    The chain's own contract computes the fee: its forks do not count alike (Isthmus, Jovian), and
    receipts contain only the factors.

    Raises:
        TransientError: no endpoint answers.
    """
    if kind is not L1Fee.OPTIMISM:
        return 0
    asked = [_get_operator_fee(gas_used)]
    return lines.median_of(lambda line: _of_operator(line.ask_each(asked)[0]))


def l1_fee_in(receipt: Mapping[str, Any]) -> int:
    """Return the data fee of a receipt, in wei; 0 if the receipt has none.

    OP stack chains return `l1Fee` in addition to the gas. Arbitrum's `gasUsedForL1` is part of
    `gasUsed` and is paid with the gas.

    Raises:
        ValueError: the field is not a valid amount.
    """
    told = receipt.get("l1Fee")
    if told is None:
        return 0
    fee = int(str(told), 16)
    if not 0 <= fee <= _MOST_WEI:
        raise ValueError(f"l1Fee is {told}")
    return fee


def _of_op_stack(told: Sequence[Json | CallRefusedError]) -> int:
    data, operator = told
    if isinstance(data, CallRefusedError):
        raise data
    return _number(data, GAS_PRICE_ORACLE, "getL1Fee") + _of_operator(operator)


def _of_operator(told: Json | CallRefusedError) -> int:
    """Decode the operator fee; contracts from before Isthmus have none."""
    if isinstance(told, RevertError):
        return 0
    if isinstance(told, CallRefusedError):
        raise told
    return 0 if told == "0x" else _number(told, GAS_PRICE_ORACLE, "getOperatorFee")


def _per_byte(line: EndpointCaller) -> int:
    method, given = _call(ARB_GAS_INFO, "getPricesInWei")
    answer = line.ask(method, *given)
    return _number(answer, ARB_GAS_INFO, "getPricesInWei", _PRICES.index("byte"))


def _number(answer: Json, to: str, name: str, place: int = 0) -> int:
    """Decode one word of a response; an amount above the ether supply is an error."""
    try:
        wei = word_at(bytes.fromhex(str(answer)[2:]), WORD * place)
    except ValueError:
        raise TransientError(f"{to} does not tell {name}: check limits.l1_fee") from None
    if wei > _MOST_WEI:
        raise TransientError(f"{to} tells a {name} that cannot be: {wei}")
    return wei


def _get_l1_fee(written: bytes) -> RpcRequest:
    return _call(GAS_PRICE_ORACLE, "getL1Fee", written)


def _get_operator_fee(gas: int) -> RpcRequest:
    return _call(GAS_PRICE_ORACLE, "getOperatorFee", gas)


def _call(to: str, view: str, *given: object) -> RpcRequest:
    """Return the eth_call request; web3 only encodes it, so that requests can be batched."""
    calldata: str = _contracts().encode_abi(view, args=given)
    return "eth_call", ({"to": to, "data": calldata}, "latest")


@cache
def _contracts() -> Any:  # noqa: ANN401  # web3's class of contracts; web3 is not named here
    from oracle.rpc.web3_provider import web3_offline  # noqa: PLC0415  it takes a second

    return web3_offline().eth.contract(abi=_ABIS)
