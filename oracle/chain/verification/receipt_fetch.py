"""Fetches the receipts of blocks, by block if supported, otherwise by transaction.

If the receipts of one block exceed the limit of a response, they are also fetched by transaction,
which is slow.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from typing_extensions import Buffer

from oracle.chain.log_filter import LogFilter
from oracle.chain.proofs.receipts import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.domain.logs import Log, LogRow, PackedLogs, SourceIndexes
from oracle.domain.native import native
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.replies import RawReader
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry.indexer_metrics import WINDOW_SPLITS
from oracle.telemetry.logger import get_logger

# Maximum number of receipts per batch, unless a single block has more. A receipt takes some
# kilobytes.
_BATCH_RECEIPTS = 1_000
# After one of these errors, an endpoint counts as not serving block receipts if it has never
# returned any.
_NOT_SERVED_ERRORS = {
    ErrorKind.UNSUPPORTED,
    ErrorKind.UNKNOWN,
    ErrorKind.REFUSED,
    ErrorKind.INVALID,
    ErrorKind.NOT_THERE,
}
# After one of these errors, an endpoint counts as not serving block receipts even if it has
# returned some before, because another node behind the same URL may support fewer methods.
_TEMPORARILY_NOT_SERVED_ERRORS = {ErrorKind.UNSUPPORTED, ErrorKind.UNKNOWN}

Response = TypeVar("Response")
Receipts = list[ProvenReceipt]


class ProvenReceipts(NamedTuple):
    """The matching logs in a block's receipts, which native code has proven.

    The logs match the filter. `statuses` contains one byte for each receipt: 1 if the transaction
    succeeded, else 0.
    """

    logs: PackedLogs
    statuses: bytes


def fetch_receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader]
) -> Iterator[tuple[FullHeader, Receipts]]:
    """Fetch receipts, and yield each block with its receipts in execution order.

    A few blocks are fetched at once.

    Raises:
        RpcError: the endpoint does not return the receipts of a block that it knows.
    """
    for block, block_receipts in _fetch_all_receipts(endpoint, blocks, None):
        if not isinstance(block_receipts, ProvenReceipts):
            yield block, block_receipts


def fetch_receipts_to_prove(
    endpoint: Endpoint, blocks: Sequence[FullHeader], log_filter: LogFilter
) -> Iterator[tuple[FullHeader, Receipts | ProvenReceipts]]:
    """Fetch receipts, and prove them with native code where possible.

    Each block is yielded with its receipts. Receipts that the native code has not proven may still
    match the header.

    Raises:
        RpcError: the endpoint does not return the receipts of a block that it knows.
    """
    return _fetch_all_receipts(endpoint, blocks, _build_native_receipt_prover(blocks, log_filter))


def _build_native_receipt_prover(
    blocks: Sequence[FullHeader], log_filter: LogFilter
) -> RawReader[ProvenReceipts] | None:
    """Return a function that proves a block's receipts, or None without native code."""
    if native is None:
        return None
    sources = SourceIndexes()
    header_by_hash = {header.block.hash: header for header in blocks}
    return lambda params, receipts: prove_receipts_natively(
        receipts, header_by_hash[params[0]], log_filter, sources
    )


def prove_receipts_natively(
    receipts: Buffer, header: FullHeader, log_filter: LogFilter, sources: SourceIndexes
) -> ProvenReceipts | None:
    """Prove the receipts in an `eth_getBlockReceipts` response with native code.

    The result is None if the receipts do not match the header, or must be decoded in Python.
    """
    logs: list[Log] = []
    rows: list[LogRow] = []
    if native is None:
        return None
    statuses = native.read_receipts(
        receipts,
        header.encode_tx_hashes_json(),
        log_filter.native_filter,
        (header.block.number, header.block.hash, header.block.time, header.receipts_root),
        (Log, sources, logs, rows),
    )
    return None if statuses is None else ProvenReceipts(PackedLogs(logs, rows, sources), statuses)


def _fetch_all_receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader], read_raw: RawReader[ProvenReceipts] | None
) -> Iterator[tuple[FullHeader, Receipts | ProvenReceipts]]:
    for batch in _split_into_batches(blocks):
        batch_receipts = _fetch_receipt_batch(endpoint, batch, read_raw)
        for block, block_receipts in zip(batch, batch_receipts, strict=True):
            yield (
                block,
                block_receipts
                if isinstance(block_receipts, ProvenReceipts)
                else sort_receipts(endpoint, block, block_receipts),
            )


def _split_into_batches(blocks: Sequence[FullHeader]) -> Iterator[list[FullHeader]]:
    batch: list[FullHeader] = []
    receipt_count = 0
    for block in blocks:
        block_receipt_count = block.count_transactions()
        if batch and receipt_count + block_receipt_count > _BATCH_RECEIPTS:
            yield batch
            batch, receipt_count = [], 0
        batch.append(block)
        receipt_count += block_receipt_count
    if batch:
        yield batch


def _fetch_receipt_batch(
    endpoint: Endpoint, blocks: Sequence[FullHeader], read_raw: RawReader[ProvenReceipts] | None
) -> list[Receipts | ProvenReceipts]:
    if endpoint.limits.serves_block_receipts is not False:
        try:
            batch_receipts = _fetch_block_receipts(endpoint, blocks, read_raw)
        except RpcError as error:
            if error.kind is ErrorKind.TOO_LARGE:
                return _fetch_batch_in_halves(endpoint, blocks, read_raw)
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
    block_receipts: list[Receipts | ProvenReceipts] = [
        _fetch_transaction_receipts(endpoint, block) for block in blocks
    ]
    endpoint.limits.serves_block_receipts = endpoint.limits.serves_block_receipts or False
    return block_receipts


def _fetch_batch_in_halves(
    endpoint: Endpoint, blocks: Sequence[FullHeader], read_raw: RawReader[ProvenReceipts] | None
) -> list[Receipts | ProvenReceipts]:
    """Fetch an oversized batch in halves, or an oversized block's receipts one by one."""
    if len(blocks) > 1:
        half_count = len(blocks) // 2
        block_halves = (blocks[:half_count], blocks[half_count:])
        return [
            block_receipts
            for part in block_halves
            for block_receipts in _fetch_receipt_batch(endpoint, part, read_raw)
        ]
    (block,) = blocks
    WINDOW_SPLITS.labels("one block's receipts").inc()
    get_logger().info(
        "block_fetched_per_transaction",
        endpoint=endpoint.name,
        block=block.block.number,
        what="receipts",
    )
    return [_fetch_transaction_receipts(endpoint, block)]


def _fetch_block_receipts(
    endpoint: Endpoint, blocks: Sequence[FullHeader], read_raw: RawReader[ProvenReceipts] | None
) -> list[Receipts | ProvenReceipts]:
    params = [[header.block.hash] for header in blocks]
    responses = endpoint.client.call_batch("eth_getBlockReceipts", params, Receipts, read_raw)
    return [*map(partial(_require_receipts_response, endpoint), blocks, responses)]


def _fetch_transaction_receipts(endpoint: Endpoint, block: FullHeader) -> Receipts:
    try:
        params = [[tx_hash] for tx_hash in block.decode_tx_hashes()]
    except ValueError as error:
        raise RpcError(endpoint.name, ErrorKind.INVALID, str(error)) from None
    if not params and not block.has_no_transactions:
        message = f"block {block.block.number}: the transactions are missing"
        raise RpcError(endpoint.name, ErrorKind.INVALID, message)
    receipts = endpoint.client.call_batch("eth_getTransactionReceipt", params, ProvenReceipt)
    return [_require_receipts_response(endpoint, block, response) for response in receipts]


def _require_receipts_response(
    endpoint: Endpoint, block: FullHeader, response: Response | None
) -> Response:
    if response is None:
        message = f"receipts of block {block.block.number} are pruned or not available yet"
        raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
    return response


def sort_receipts(endpoint: Endpoint, block: FullHeader, block_receipts: Receipts) -> Receipts:
    """Sort receipts in execution order, and check that none is missing."""
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
    """Set each log's position: the index of its receipt, and its index in the block.

    The positions in the response are not used, because the root proves only the order of
    execution, and some endpoints return the index within the receipt (Ganache 7).
    """
    log_index = 0
    for tx, receipt in enumerate(block_receipts):
        for log in receipt.logs:
            log.log_index = hex(log_index)
            log.transaction_index = hex(tx)
            log.transaction_hash = receipt.transaction_hash
            log_index += 1
    return block_receipts
