"""Fetches the receipts of blocks: by block if the endpoint supports it, else by transaction.

Receipts are also fetched by transaction if the receipts of one block exceed the response limit.
This is slow, but bounded.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import structlog

from oracle.chain.proofs.receipts import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS

# Blocks per batch; the receipts of a full block can take several megabytes.
_BATCH_BLOCKS = 25
# After these errors, an endpoint that never returned block receipts counts as not serving them.
_NOT_SERVED_ERRORS = {
    ErrorKind.UNSUPPORTED,
    ErrorKind.UNKNOWN,
    ErrorKind.REFUSED,
    ErrorKind.INVALID,
    ErrorKind.NOT_THERE,
}
# The same for an endpoint that returned some; another node behind its URL may support less.
_TEMPORARILY_NOT_SERVED_ERRORS = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}

Response = TypeVar("Response")
Receipts = list[ProvenReceipt]


def fetch_receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader]
) -> Iterator[tuple[FullHeader, Receipts]]:
    """Yield each block with its receipts, in order of execution; a few blocks at a time.

    Raises:
        RpcError: the endpoint does not return the receipts of a block that it knows.
    """
    for start in range(0, len(blocks), _BATCH_BLOCKS):
        batch = blocks[start : start + _BATCH_BLOCKS]
        for block, unordered in zip(batch, _fetch_receipt_batch(endpoint, batch), strict=True):
            yield block, _sort_receipts(endpoint, block, unordered)


def _fetch_receipt_batch(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    if endpoint.limits.serves_block_receipts is not False:
        try:
            batch_receipts = _fetch_block_receipts(endpoint, blocks)
        except RpcError as error:
            if error.kind is ErrorKind.TOO_LARGE:
                return _fetch_batch_in_halves(endpoint, blocks)
            not_served_errors = (
                _TEMPORARILY_NOT_SERVED_ERRORS
                if endpoint.limits.serves_block_receipts
                else _NOT_SERVED_ERRORS
            )
            if error.kind not in not_served_errors:
                raise
        else:
            endpoint.limits.serves_block_receipts = True
            return batch_receipts
    block_receipts = [_fetch_transaction_receipts(endpoint, block) for block in blocks]
    endpoint.limits.serves_block_receipts = endpoint.limits.serves_block_receipts or False
    return block_receipts


def _fetch_batch_in_halves(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    """Fetch the two halves of a batch that is too large, or each receipt of a single block."""
    if len(blocks) > 1:
        middle = len(blocks) // 2
        parts = (blocks[:middle], blocks[middle:])
        return [
            block_receipts
            for part in parts
            for block_receipts in _fetch_receipt_batch(endpoint, part)
        ]
    (block,) = blocks
    WINDOW_SPLITS.labels("one block's receipts").inc()
    structlog.get_logger().info(
        "block_fetched_per_transaction",
        endpoint=endpoint.name,
        block=block.block.number,
        what="receipts",
    )
    return [_fetch_transaction_receipts(endpoint, block)]


def _fetch_block_receipts(endpoint: Endpoint, blocks: Sequence[FullHeader]) -> list[Receipts]:
    params = [[header.block.hash] for header in blocks]
    responses = endpoint.client.call_batch("eth_getBlockReceipts", params, Receipts)
    return [
        _require_response(endpoint, block, response)
        for block, response in zip(blocks, responses, strict=True)
    ]


def _fetch_transaction_receipts(endpoint: Endpoint, block: FullHeader) -> Receipts:
    try:
        params = [[tx_hash] for tx_hash in block.decode_tx_hashes()]
    except ValueError as error:
        raise RpcError(endpoint.name, ErrorKind.INVALID, str(error)) from None
    if not params and not block.is_without_transactions:
        message = f"block {block.block.number}: the transactions are missing"
        raise RpcError(endpoint.name, ErrorKind.INVALID, message)
    responses = endpoint.client.call_batch("eth_getTransactionReceipt", params, ProvenReceipt)
    return [_require_response(endpoint, block, response) for response in responses]


def _require_response(
    endpoint: Endpoint, block: FullHeader, response: Response | None
) -> Response:
    if response is None:
        message = f"receipts of block {block.block.number} are pruned or not available yet"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    return response


def _sort_receipts(endpoint: Endpoint, block: FullHeader, block_receipts: Receipts) -> Receipts:
    """Return the receipts in order of execution, and check that none is missing."""
    try:
        indexes = [int(receipt.transaction_index, 16) for receipt in block_receipts]
    except ValueError:
        indexes = []
    if indexes != list(range(len(block_receipts))):
        receipt_by_index = dict(zip(indexes, block_receipts, strict=False))
        if sorted(receipt_by_index) != list(range(len(block_receipts))):
            message = f"receipts of block {block.block.number} are incomplete"
            raise RpcError(endpoint.name, ErrorKind.INVALID, message)
        block_receipts = [receipt_by_index[index] for index in range(len(block_receipts))]
    return _assign_log_positions(block_receipts)


def _assign_log_positions(block_receipts: Receipts) -> Receipts:
    """Set the position of each log: the index of its receipt, and the next index in the block.

    Only the order of execution is proven by the root. The positions in the logs are not part of
    any root, and some endpoints return the index within the receipt (Ganache 7).
    """
    log_index = 0
    for tx, receipt in enumerate(block_receipts):
        for log in receipt.logs:
            log.log_index, log.transaction_index = hex(log_index), hex(tx)
            log.transaction_hash = receipt.transaction_hash
            log_index += 1
    return block_receipts
