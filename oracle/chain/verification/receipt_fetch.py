"""Fetches the receipts of whole blocks: in batches where served, else of each transaction.

So too where those of one block are more than one answer may be: slowly, and in bounded parts.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import structlog

from oracle.chain.proofs.receipts_root import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS

# Blocks in one batch: full ones come to a few megabytes.
_TOGETHER = 25
# Kinds of who has never given a block's receipts yet, which may mean that he never does.
_NOT_SERVED = {
    ErrorKind.UNSUPPORTED,
    ErrorKind.UNKNOWN,
    ErrorKind.REFUSED,
    ErrorKind.INVALID,
    ErrorKind.NOT_THERE,
}
# Of who has given some: behind the address there may be another node, which serves less.
_NOT_SERVED_NOW = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}

Answer = TypeVar("Answer")
Receipts = list[ProvenReceipt]


def receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader]
) -> Iterator[tuple[FullHeader, Receipts]]:
    """Yield each block with its receipts, in order of execution; a few blocks at a time.

    Raises:
        RpcError: it does not give the receipts of a block that it knows.
    """
    for first in range(0, len(blocks), _TOGETHER):
        part = blocks[first : first + _TOGETHER]
        for block, given in zip(part, _given(endpoint, part), strict=True):
            yield block, _in_order(endpoint, block, given)


def _given(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    if endpoint.limits.gives_receipts is not False:
        try:
            given = _of_blocks(endpoint, blocks)
        except RpcError as error:
            if error.kind is ErrorKind.TOO_LARGE:
                return _in_parts(endpoint, blocks)
            not_served = _NOT_SERVED_NOW if endpoint.limits.gives_receipts else _NOT_SERVED
            if error.kind not in not_served:
                raise
        else:
            endpoint.limits.gives_receipts = True
            return given
    one_by_one = [_one_by_one(endpoint, block) for block in blocks]
    endpoint.limits.gives_receipts = endpoint.limits.gives_receipts or False
    return one_by_one


def _in_parts(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    """Halve what is too large, down to the transactions of one block."""
    if len(blocks) > 1:
        half = len(blocks) // 2
        parts = (blocks[:half], blocks[half:])
        return [given for part in parts for given in _given(endpoint, part)]
    (block,) = blocks
    WINDOW_SPLITS.labels("one block's receipts").inc()
    structlog.get_logger().info(
        "block_fetched_per_transaction",
        endpoint=endpoint.name,
        block=block.block.number,
        what="receipts",
    )
    return [_one_by_one(endpoint, block)]


def _of_blocks(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    params = [[one.block.hash] for one in blocks]
    answers = endpoint.client.batch("eth_getBlockReceipts", params, Receipts)
    return [_there(endpoint, block, answer) for block, answer in zip(blocks, answers, strict=True)]


def _one_by_one(endpoint: Endpoint, block: FullHeader) -> Receipts:
    try:
        params = [[tx_hash] for tx_hash in block.tx_hashes()]
    except ValueError as error:
        raise RpcError(endpoint.name, ErrorKind.INVALID, str(error)) from None
    if not params and not block.is_without_transactions:
        words = f"block {block.block.number} without its transactions"
        raise RpcError(endpoint.name, ErrorKind.INVALID, words)
    answers = endpoint.client.batch("eth_getTransactionReceipt", params, ProvenReceipt)
    return [_there(endpoint, block, answer) for answer in answers]


def _there(endpoint: Endpoint, block: FullHeader, answer: Answer | None) -> Answer:
    if answer is None:
        words = f"receipts of block {block.block.number} are gone, or not there yet"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
    return answer


def _in_order(endpoint: Endpoint, block: FullHeader, given: Receipts) -> Receipts:
    """Bring them in order of execution, and see that all are of this block."""
    try:
        places = [int(receipt.transaction_index, 16) for receipt in given]
    except ValueError:
        places = []
    if places != list(range(len(given))):
        by_place = dict(zip(places, given, strict=False))
        if sorted(by_place) != list(range(len(given))):
            words = f"receipts of block {block.block.number} with a gap"
            raise RpcError(endpoint.name, ErrorKind.INVALID, words)
        given = [by_place[place] for place in range(len(given))]
    return _counted_through(given)


def _counted_through(given: Receipts) -> Receipts:
    """Give logs the place that they have: that of their receipt, and the next in the block.

    The order of execution alone, which the root proves, says it; what is written beside a log is
    in no root, and some write the place in the receipt (Ganache 7).
    """
    place = 0
    for tx, receipt in enumerate(given):
        for log in receipt.logs:
            log.log_index, log.transaction_index = hex(place), hex(tx)
            log.transaction_hash = receipt.transaction_hash
            place += 1
    return given
