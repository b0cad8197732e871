"""Fetches a rollup's fees besides gas, which are the L1 data fee and the operator fee.

The rollup's own contracts are called at every endpoint, and the median of the results is used.
Otherwise a single endpoint could block a call, or leave it underpaid. Amounts are in wei. See
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
    """The kind of rollup, which determines how the L1 fee is computed."""

    NONE = "none"
    OPTIMISM = "optimism"
    ARBITRUM = "arbitrum"


# Predeployed contracts, of OP stack chains and of Arbitrum.
GAS_PRICE_ORACLE = "0x420000000000000000000000000000000000000f"
ARB_GAS_INFO = "0x000000000000000000000000000000000000006c"
# These bytes stand for the signature and for every field of a transaction except its calldata.
# They are nonzero, because nonzero bytes cost the most.
_ENVELOPE = b"\xff" * 180
# Maximum plausible amount, which is more ether than any chain has.
_MAX_WEI = 10**28
# Names of the first results of Arbitrum's getPricesInWei, in order. Three gas prices follow them.
_PRICES = ("transaction", "byte", "storage")


def _build_view_abi(name: str, *inputs: str) -> dict[str, object]:
    """Build the JSON ABI of a view function, with only the results that are used."""
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
    """Fetch the extra fee of a rollup for a call of `gas`, rounded up.

    On Arbitrum the gas estimate already includes the data fee at the current price. The fee is
    added once more as a reserve for a rising price. On the OP stack the result is the data fee
    and, since the Isthmus fork, the operator fee. The operator fee is charged for the whole gas
    limit, and refunded for unused gas.

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
    """Fetch the operator fee for gas used on an OP chain, or return 0 on other chains.

    The fee is requested from the chain's own contract, because its formula differs between forks
    (Isthmus, Jovian), and receipts contain only the factors of the formula.

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
    """Return the L1 data fee in a receipt in wei, or 0 if the receipt has none.

    On OP stack chains, `l1Fee` is paid in addition to the gas. On Arbitrum, `gasUsedForL1` is part
    of `gasUsed`, so there is no additional fee.

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
    """Decode the operator fee.

    Before the Isthmus fork the fee is 0.
    """
    if isinstance(answer, RevertError):
        return 0
    if isinstance(answer, CallRefusedError):
        raise answer
    return 0 if answer == "0x" else _decode_wei_word(answer, GAS_PRICE_ORACLE, "getOperatorFee")


def _fetch_price_per_byte(endpoint: EndpointCaller) -> int:
    method, params = _build_call_request(ARB_GAS_INFO, "getPricesInWei")
    prices_hex = endpoint.request(method, *params)
    return _decode_wei_word(prices_hex, ARB_GAS_INFO, "getPricesInWei", _PRICES.index("byte"))


def _decode_wei_word(answer: Json, to: str, name: str, word_index: int = 0) -> int:
    """Decode one word of a response as an amount in wei.

    The amount is at most the ether supply.
    """
    try:
        amount_wei = read_uint(bytes.fromhex(str(answer)[2:]), WORD * word_index)
    except ValueError:
        raise TransientError(f"{to}: malformed result of {name}; check limits.l1_fee") from None
    if amount_wei > _MAX_WEI:
        raise TransientError(f"{to}: implausible result of {name}: {amount_wei} wei")
    return amount_wei


def _build_l1_fee_request(encoded_tx: bytes) -> RpcRequest:
    return _build_call_request(GAS_PRICE_ORACLE, "getL1Fee", encoded_tx)


def _build_operator_fee_request(gas: int) -> RpcRequest:
    return _build_call_request(GAS_PRICE_ORACLE, "getOperatorFee", gas)


def _build_call_request(to: str, view: str, *arguments: object) -> RpcRequest:
    """Build an eth_call request that can be sent in a batch.

    It is encoded by web3, but not sent.
    """
    calldata: str = _load_contract_class().encode_abi(view, args=arguments)
    return "eth_call", ({"to": to, "data": calldata}, "latest")


@cache
def _load_contract_class() -> Any:  # noqa: ANN401  # web3's class of contracts; web3 is not named here
    from oracle.rpc.offline_web3 import build_offline_web3  # noqa: PLC0415  it takes a second

    return build_offline_web3().eth.contract(abi=_ABIS)
