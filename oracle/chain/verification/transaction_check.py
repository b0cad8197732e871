"""Extracts the watched calls from whole blocks, and proves that none is missing.

The transactions root commits to every transaction of a block, so an endpoint that omits one, or
changes its input, is detected (docs/explanation/verification.md#l4), if the chain's roots were
proven.
"""

from collections.abc import Sequence

import msgspec

from oracle.chain.proofs.transactions_root import SignedTransaction, transactions_root
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.watched_calls import See, Selectors, Sent, SentTransactionResponse, calls_in
from oracle.domain.logs import Call
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import decoder_of
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def calls_of_blocks(
    endpoint: Endpoint, blocks: Sequence[FullHeader], selectors: Selectors, see: See
) -> dict[int, list[Call]]:
    """Return the watched calls by block, from blocks that were fetched with their transactions.

    Raises:
        RpcError: transactions are missing or of another block, or `check_call` fails.
    """
    if not selectors:
        return {}
    found = {}
    for one in blocks:
        try:
            sent = decoder_of(list[SentTransactionResponse]).decode(one.answer.transactions)
        except msgspec.DecodeError as error:
            words = f"transactions of block {one.block.number}: {error}"
            raise RpcError(endpoint.name, ErrorKind.INVALID, words) from None
        calls = calls_in(endpoint.name, one.block, sent, selectors)
        if calls:
            found[one.block.number] = calls
            written = decoder_of(list[msgspec.Raw]).decode(one.answer.transactions)
            for call in calls:
                see(call, decoder_of(Sent).decode(written[call.tx]))
    return found


def root_of_sent(one: FullHeader) -> str:
    """Return the root of the block's transactions, whose hashes must match their fields.

    A text that is not a root is returned if they cannot be encoded, or a hash does not match.
    """
    try:
        sent = decoder_of(list[SignedTransaction]).decode(one.answer.transactions)
        are_named = all(tx.hash.lower() == tx.true_hash() for tx in sent)
        return transactions_root(sent) if are_named else "misnamed"
    except (msgspec.DecodeError, ValueError):
        return "unwritable"


def is_complete(one: FullHeader) -> bool:
    """Return whether the block's transactions match the root of its header."""
    return root_of_sent(one) == one.transactions_root
