"""Records blocks as an endpoint returns them, for replaying the chain later.

The lines are in the format that devnet/fakechain/recordings/recording.py reads. For a block
without relevant logs or calls, only the header is recorded. For any other block, all transactions
are recorded, and all receipts if the endpoint serves them, so that the roots can be verified
again.
"""

from collections.abc import Sequence
from typing import Any

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

Line = dict[str, Any]


def fetch_fixture_lines(endpoint: Endpoint, window: BlockWindow) -> list[Line]:
    """Fetch the blocks of a window, and return them as lines for a fixture file.

    `endpoint` is the endpoint that returned the window.

    Raises:
        RpcError: the endpoint does not answer, or has left the fork of the window.
    """
    block_numbers = [header.number for header in window.headers]
    relevant_hashes = {log.block: log.block_hash for log in window.logs}
    relevant_hashes |= {call.block: call.block_hash for call in window.calls}
    relevant_hashes[window.last.number] = window.last.hash
    blocks_with_rows = {log.block for log in window.logs} | {call.block for call in window.calls}
    params = [[hex(number), number in blocks_with_rows] for number in block_numbers]
    block_responses = endpoint.client.call_batch("eth_getBlockByNumber", params, dict[str, Any])
    status_by_tx = {call.tx_hash: {"status": hex(call.succeeded)} for call in window.calls}
    lines_by_block = _fetch_receipt_lines(endpoint, sorted(blocks_with_rows), window.logs)
    lines: list[Line] = []
    for number, block_response in zip(block_numbers, block_responses, strict=True):
        if block_response is None:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {number}")
        if relevant_hashes.get(number, block_response["hash"]) != block_response["hash"]:
            message = f"block {number} changed while it was recorded"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, message)
        transactions = block_response.pop("transactions", ())
        lines.append({"kind": "block", **block_response})
        if number in blocks_with_rows:
            # Receipts already contain the status, so transactions get a status only if there are
            # no receipts.
            has_receipts = any(line["kind"] == "receipt" for line in lines_by_block[number])
            status_of_calls = {} if has_receipts else status_by_tx
            lines += [
                {"kind": "tx", **transaction, **status_of_calls.get(transaction["hash"], {})}
                for transaction in transactions
            ]
            lines += lines_by_block[number]
    return lines


def _fetch_receipt_lines(
    endpoint: Endpoint, blocks: list[int], logs: Sequence[Log]
) -> dict[int, list[Line]]:
    """Return each block's receipts as lines, or its logs if receipts are unsupported.

    Only the relevant logs are returned.
    """
    params = [[hex(number)] for number in blocks]
    try:
        receipts_by_block = endpoint.client.call_batch(
            "eth_getBlockReceipts", params, list[dict[str, Any]]
        )
    except RpcError as error:
        if error.kind is not ErrorKind.UNSUPPORTED:
            raise
        return {
            number: [{"kind": "log", **_format_log(log)} for log in logs if log.block == number]
            for number in blocks
        }
    lines_by_block = {}
    for number, receipts in zip(blocks, receipts_by_block, strict=True):
        if receipts is None:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no receipts of block {number}")
        lines_by_block[number] = [{"kind": "receipt", **receipt} for receipt in receipts]
    return lines_by_block


def _format_log(log: Log) -> Line:
    """Return the log as JSON, in the format of an RPC response."""
    return {
        "address": log.address,
        "topics": list(log.topics),
        "data": log.data,
        "blockNumber": hex(log.block),
        "blockHash": log.block_hash,
        "blockTimestamp": hex(log.time),
        "transactionHash": log.tx_hash,
        "transactionIndex": hex(log.tx),
        "logIndex": hex(log.index),
        "removed": False,
    }
