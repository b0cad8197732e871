"""Fetches what a rollup charges in addition to gas: for data, and for its operator.

The chain's own contracts are queried at every endpoint, and the median counts, so that a single
endpoint can neither block a call nor leave it underpaid. Amounts are in wei. See
docs/explanation/transactions.md#fees.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from oracle.chain.decode.abi_values import WORD, read_uint
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
# Placeholder for the signature and all fields of a transaction except its calldata. The bytes are
# not zero, because nonzero bytes cost the most.
_ENVELOPE = b"\xff" * 180
# No chain has more ether than this.
_MAX_WEI = 10**28
# The results of getPricesInWei in order; three prices of gas follow.
_PRICES = ("transaction", "byte", "storage")


def _build_view_abi(name: str, *inputs: str) -> dict[str, object]:
    """Return the JSON ABI of a view function, limited to its first results."""
    input_abis = [{"name": "", "type": kind} for kind in inputs]
    return {
        "type": "function",
        "name": name,
        "inputs": input_abis,
        "outputs": [{"name": "", "type": "uint256"}],
        "stateMutability": "view",
    }


_ABIS = (
    _build_view_abi("getL1Fee", "bytes"),
    _build_view_abi("getOperatorFee", "uint256"),
    _build_view_abi("getPricesInWei"),
)


def fetch_l1_fee(pool_view: PoolView, kind: L1Fee, calldata: str, gas: int) -> int:
    """Return a rollup's extra fee for a call of `gas`, rounded up.

    On Arbitrum the gas estimate includes the charge at the current price; counting the charge
    again is a reserve for a price rise. On the OP stack the result is the data fee and, since
    Isthmus, the operator fee, which is charged for the whole limit and refunded in part.

    Raises:
        TransientError: no endpoint answers, or the chain has no such contract.
    """
    encoded_tx = _ENVELOPE + bytes.fromhex(calldata.removeprefix("0x"))
    if kind is L1Fee.OPTIMISM:
        requests = [_build_l1_fee_request(encoded_tx), _build_operator_fee_request(gas)]
        return pool_view.read_median(
            lambda endpoint: _sum_op_stack_fees(endpoint.request_all_or_refusals(requests))
        )
    if kind is L1Fee.ARBITRUM:
        return pool_view.read_median(
            lambda endpoint: _fetch_price_per_byte(endpoint) * len(encoded_tx)
        )
    return 0


def fetch_operator_fee(pool_view: PoolView, kind: L1Fee, gas_used: int) -> int:
    """Return the operator fee for the gas used on an OP chain, or 0 on other chains.

    The chain's own contract computes the fee, because the formula differs between forks (Isthmus,
    Jovian), and receipts contain only the factors.

    Raises:
        TransientError: no endpoint answers.
    """
    if kind is not L1Fee.OPTIMISM:
        return 0
    requests = [_build_operator_fee_request(gas_used)]
    return pool_view.read_median(
        lambda endpoint: _decode_operator_fee(endpoint.request_all_or_refusals(requests)[0])
    )


def decode_l1_fee(receipt: Mapping[str, Any]) -> int:
    """Return the L1 data fee of a receipt in wei, or 0 if the receipt has none.

    OP stack chains return `l1Fee` in addition to the gas. Arbitrum's `gasUsedForL1` is part of
    `gasUsed` and is paid with the gas.

    Raises:
        ValueError: the field is not a valid amount.
    """
    raw_fee = receipt.get("l1Fee")
    if raw_fee is None:
        return 0
    fee = int(str(raw_fee), 16)
    if not 0 <= fee <= _MAX_WEI:
        raise ValueError(f"l1Fee: implausible amount {raw_fee}")
    return fee


def _sum_op_stack_fees(answers: Sequence[Json | CallRefusedError]) -> int:
    l1_answer, operator_answer = answers
    if isinstance(l1_answer, CallRefusedError):
        raise l1_answer
    return _decode_wei_word(l1_answer, GAS_PRICE_ORACLE, "getL1Fee") + _decode_operator_fee(
        operator_answer
    )


def _decode_operator_fee(answer: Json | CallRefusedError) -> int:
    """Decode the operator fee, which is 0 before the Isthmus fork."""
    if isinstance(answer, RevertError):
        return 0
    if isinstance(answer, CallRefusedError):
        raise answer
    return 0 if answer == "0x" else _decode_wei_word(answer, GAS_PRICE_ORACLE, "getOperatorFee")


def _fetch_price_per_byte(endpoint: EndpointCaller) -> int:
    method, params = _build_call_request(ARB_GAS_INFO, "getPricesInWei")
    answer = endpoint.request(method, *params)
    return _decode_wei_word(answer, ARB_GAS_INFO, "getPricesInWei", _PRICES.index("byte"))


def _decode_wei_word(answer: Json, to: str, name: str, word_index: int = 0) -> int:
    """Decode one word of a response as an amount of at most the ether supply."""
    try:
        wei = read_uint(bytes.fromhex(str(answer)[2:]), WORD * word_index)
    except ValueError:
        raise TransientError(f"{to}: malformed result of {name}; check limits.l1_fee") from None
    if wei > _MAX_WEI:
        raise TransientError(f"{to}: implausible result of {name}: {wei} wei")
    return wei


def _build_l1_fee_request(encoded_tx: bytes) -> RpcRequest:
    return _build_call_request(GAS_PRICE_ORACLE, "getL1Fee", encoded_tx)


def _build_operator_fee_request(gas: int) -> RpcRequest:
    return _build_call_request(GAS_PRICE_ORACLE, "getOperatorFee", gas)


def _build_call_request(to: str, view: str, *arguments: object) -> RpcRequest:
    """Return the eth_call request; web3 only encodes it, so that requests can be batched."""
    calldata: str = _load_contract_class().encode_abi(view, args=arguments)
    return "eth_call", ({"to": to, "data": calldata}, "latest")


@cache
def _load_contract_class() -> Any:  # noqa: ANN401  # web3's class of contracts; web3 is not named here
    from oracle.rpc.offline_web3 import build_offline_web3  # noqa: PLC0415  it takes a second

    return build_offline_web3().eth.contract(abi=_ABIS)
