"""Picks the watched calls out of whole blocks, and proves that none is missing.

The transactions root is made of every transaction of a block: who leaves one out, or changes its
input, is found out (docs/explanation/verification.md#l4; only where the chain's roots were
proven).
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
    """Return the watched calls by block, of blocks that were read with their transactions.

    Raises:
        RpcError: transactions that do not belong to their block, or none at all; or `see`
            says so of a call.
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
    """Return the root that the block's transactions make, which must have their true names.

    What is no root at all is returned where they cannot be written, or one has another's name.
    """
    try:
        sent = decoder_of(list[SignedTransaction]).decode(one.answer.transactions)
        are_named = all(tx.hash.lower() == tx.true_hash() for tx in sent)
        return transactions_root(sent) if are_named else "misnamed"
    except (msgspec.DecodeError, ValueError):
        return "unwritable"


def is_complete(one: FullHeader) -> bool:
    """Tell whether the block's transactions make the root of its header."""
    return root_of_sent(one) == one.transactions_root
