"""Picks the watched calls out of whole blocks, and proves that none is missing.

The transactions root is made of every transaction of a block: who leaves one out, or changes its
input, is found out (chain.md 3.9, L4; only where the chain's roots were proven).
"""

from collections.abc import Sequence

import msgspec

from oracle.chain.calls import Selectors, SentAnswer, calls_in
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.proof.transactions import SignedTransaction, transactions_root
from oracle.chain.replies import decoder_of
from oracle.chain.verifying.sealed import Sealed
from oracle.domain.logs import Call


def calls_of_blocks(
    endpoint: Endpoint, blocks: Sequence[Sealed], selectors: Selectors
) -> dict[int, list[Call]]:
    """Return the watched calls by block, of blocks that were read with their transactions.

    Raises:
        EndpointError: transactions that do not belong to their block, or none at all.
    """
    if not selectors:
        return {}
    found = {}
    for one in blocks:
        try:
            sent = decoder_of(list[SentAnswer]).decode(one.answer.transactions)
        except msgspec.DecodeError as error:
            words = f"transactions of block {one.block.number}: {error}"
            raise EndpointError(endpoint.name, Kind.INVALID, words) from None
        calls = calls_in(endpoint.name, one.block, sent, selectors)
        if calls:
            found[one.block.number] = calls
    return found


def is_complete(one: Sealed) -> bool:
    """Tell whether the block's transactions make the root of its header."""
    try:
        sent = decoder_of(list[SignedTransaction]).decode(one.answer.transactions)
        return transactions_root(sent) == one.transactions_root
    except (msgspec.DecodeError, ValueError):
        return False
