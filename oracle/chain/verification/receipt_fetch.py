"""Fetches the receipts of whole blocks: in batches if the endpoint supports it, else singly.

Receipts are also fetched singly if those of one block exceed the response limit: slowly, but in
bounded parts.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import structlog

from oracle.chain.proofs.receipts_root import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS

# Blocks in one batch: the receipts of full blocks have a few megabytes.
_TOGETHER = 25
# Errors that may mean that an endpoint which never returned block receipts does not serve them.
_NOT_SERVED = {
    ErrorKind.UNSUPPORTED,
    ErrorKind.UNKNOWN,
    ErrorKind.REFUSED,
    ErrorKind.INVALID,
    ErrorKind.NOT_THERE,
}
# The same for an endpoint that returned some: another node behind the URL may serve less.
_NOT_SERVED_NOW = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}

Answer = TypeVar("Answer")
Receipts = list[ProvenReceipt]


def receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader]
) -> Iterator[tuple[FullHeader, Receipts]]:
    """Yield each block with its receipts, in order of execution; a few blocks at a time.

    Raises:
        RpcError: the endpoint does not return the receipts of a block that it knows.
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
    """Halve a batch that is too large, down to the transactions of one block."""
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
    """Return the receipts in order of execution, and check that none is missing."""
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
    """Set the position of each log: the index of its receipt, and the next index in the block.

    Only the order of execution is proven by the root. The positions in the logs are not part of
    any root, and some endpoints return the index within the receipt (Ganache 7).
    """
    place = 0
    for tx, receipt in enumerate(given):
        for log in receipt.logs:
            log.log_index, log.transaction_index = hex(place), hex(tx)
            log.transaction_hash = receipt.transaction_hash
            place += 1
    return given
