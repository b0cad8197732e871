"""Reads calls to watched functions from whole blocks, and their outcomes from receipts.

Only transactions that an account sends directly to a contract are found. A call by another
contract is not contained in a block, and a contract creation calls no contract (decision 0075).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.responses import Hex20, Hex32, Quantity, parse_quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError

_METHOD = "eth_getBlockReceipts"

# The selectors (`0x` and 8 hex digits) of the watched functions of each contract.
Selectors = Mapping[Address, frozenset[str]]


class SentTransactionResponse(
    Struct,
    gc=False,
    rename={"sender": "from", "block_hash": "blockHash", "transaction_index": "transactionIndex"},
):
    """The fields to read from a transaction in a full block.

    `to` is None for a contract creation.
    """

    hash: Hex32
    sender: Hex20
    value: Quantity
    input: Annotated[str, Meta(pattern="^0x([0-9a-fA-F]{2})*$")]
    to: Hex20 | None = None
    block_hash: Hex32 | None = None
    transaction_index: Quantity | None = None


class ReceiptStatusResponse(Struct, gc=False, rename="camel"):
    """The fields to read from a receipt.

    `status` is 1 if the transaction succeeded.
    """

    transaction_hash: Hex32
    block_hash: Hex32
    status: Quantity


def is_watched_call(to: str, input_data: str, selectors: Selectors) -> bool:
    """Return whether a transaction is a watched call.

    Its contract and its input decide.
    """
    functions = selectors.get(Address(to))
    return functions is not None and input_data[:SELECTOR_DIGITS] in functions


def select_watched_calls(
    endpoint: str,
    block: BlockRef,
    transactions: Sequence[SentTransactionResponse],
    selectors: Selectors,
) -> list[Call]:
    """Return the watched calls among a block's transactions.

    `succeeded` is not set yet.

    Raises:
        RpcError: a transaction's block or index differs from its position in the block.
    """
    calls = []
    for index, transaction in enumerate(transactions):
        to = (transaction.to or "").lower()
        selector = transaction.input[:SELECTOR_DIGITS].lower()
        if not is_watched_call(to, selector, selectors):
            continue
        is_of_other_block = (
            transaction.block_hash is not None and transaction.block_hash.lower() != block.hash
        )
        if is_of_other_block or (
            transaction.transaction_index is not None
            and parse_quantity(endpoint, transaction.transaction_index) != index
        ):
            message = (
                f"transaction {transaction.hash}: its block or index differs from its place in "
                f"block {block.number}"
            )
            raise RpcError(endpoint, ErrorKind.INVALID, message)
        call = Call(
            block.number,
            block.hash,
            block.time,
            index,
            Hash(transaction.hash.lower()),
            Address(transaction.sender.lower()),
            Address(to),
            parse_quantity(endpoint, transaction.value),
            transaction.input.lower(),
            # The outcome is set once the receipt is read.
            succeeded=False,
        )
        calls.append(call)
    return calls


def set_call_outcomes(endpoint: Endpoint, calls: Sequence[Call]) -> None:
    """Fetch the receipt of every call, and set whether the call succeeded.

    The receipts are needed because a transaction does not contain its outcome.

    Raises:
        RpcError: a receipt is missing, or of another block.
    """
    if not calls:
        return
    receipts = _fetch_call_receipts(endpoint, calls)
    for call in calls:
        receipt = receipts.get(call.tx_hash)
        if receipt is None:
            message = f"receipt of transaction {call.tx_hash} not found"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
        if receipt.block_hash.lower() != call.block_hash:
            message = f"the receipt of transaction {call.tx_hash} belongs to another block"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message)
        call.succeeded = parse_quantity(endpoint.name, receipt.status) == 1


def _fetch_call_receipts(
    endpoint: Endpoint, calls: Sequence[Call]
) -> dict[str, ReceiptStatusResponse]:
    """Fetch the receipts of calls, by block where possible.

    The result is keyed by transaction hash.
    """
    try:
        if _serves_block_receipts(endpoint, calls[0].block):
            blocks = sorted({call.block for call in calls})
            receipts_by_block = endpoint.client.call_batch(
                _METHOD,
                [[hex(block_number)] for block_number in blocks],
                list[ReceiptStatusResponse],
            )
            return {
                receipt.transaction_hash.lower(): receipt
                for block_receipts in receipts_by_block
                for receipt in block_receipts or ()
            }
    except RpcError as error:
        # The receipts of a full block may exceed the size limit of a response. In that case, they
        # are requested one by one.
        if error.kind is not ErrorKind.TOO_LARGE:
            raise
    params = [[call.tx_hash] for call in calls]
    receipts = endpoint.client.call_batch(
        "eth_getTransactionReceipt", params, ReceiptStatusResponse
    )
    return {
        receipt.transaction_hash.lower(): receipt for receipt in receipts if receipt is not None
    }


def _serves_block_receipts(endpoint: Endpoint, block: int) -> bool:
    """Test with one request whether the endpoint serves block receipts.

    The request is sent alone, because an error in a batch could also mean that the batch is too
    large.
    """
    if not endpoint.gives_block_receipts and endpoint.supports_method(_METHOD):
        try:
            endpoint.client.call(_METHOD, [hex(block)], list[ReceiptStatusResponse])
        except RpcError as error:
            if error.kind is not ErrorKind.UNSUPPORTED:
                raise
            return False
        endpoint.gives_block_receipts = True
    return endpoint.gives_block_receipts


# A function that compares a call with the transaction as the endpoint returned it; see
# SenderChecker.
RawTransaction = dict[str, object]
CallCheck = Callable[[Call, RawTransaction], None]
