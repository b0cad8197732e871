"""Extracts the watched calls from whole blocks, and proves that none is missing.

The transactions root commits to every transaction of a block, so an endpoint that omits one, or
changes its input, is detected (docs/explanation/verification.md#l4), if the chain's roots were
proven.
"""

from collections.abc import Sequence

import msgspec

from oracle.chain.proofs.transactions_root import SignedTransaction, compute_transactions_root
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.watched_calls import (
    CallCheck,
    RawTransaction,
    Selectors,
    SentTransactionResponse,
    select_watched_calls,
)
from oracle.domain.logs import Call
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import get_decoder
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def extract_watched_calls(
    endpoint: Endpoint, blocks: Sequence[FullHeader], selectors: Selectors, check_call: CallCheck
) -> dict[int, list[Call]]:
    """Return the watched calls by block, from blocks that were fetched with their transactions.

    Raises:
        RpcError: transactions are missing or of another block, or `check_call` fails.
    """
    if not selectors:
        return {}
    calls_by_block = {}
    for header in blocks:
        try:
            transactions = get_decoder(list[SentTransactionResponse]).decode(
                header.response.transactions
            )
        except msgspec.DecodeError as error:
            message = f"transactions of block {header.block.number}: {error}"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message) from None
        calls = select_watched_calls(endpoint.name, header.block, transactions, selectors)
        if calls:
            calls_by_block[header.block.number] = calls
            raw_transactions = get_decoder(list[msgspec.Raw]).decode(header.response.transactions)
            for call in calls:
                check_call(call, get_decoder(RawTransaction).decode(raw_transactions[call.tx]))
    return calls_by_block


def try_compute_transactions_root(header: FullHeader) -> str:
    """Return the root of the block's transactions, whose hashes must match their fields.

    If the transactions cannot be encoded, or a hash does not match, the result is not a root.
    """
    try:
        transactions = get_decoder(list[SignedTransaction]).decode(header.response.transactions)
        are_hashes_valid = all(
            transaction.hash.lower() == transaction.compute_hash() for transaction in transactions
        )
        return compute_transactions_root(transactions) if are_hashes_valid else "misnamed"
    except (msgspec.DecodeError, ValueError):
        return "unwritable"


def has_valid_transactions_root(header: FullHeader) -> bool:
    """Return whether the block's transactions match the root of its header."""
    return try_compute_transactions_root(header) == header.transactions_root
