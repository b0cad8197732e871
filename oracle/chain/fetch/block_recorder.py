"""Records blocks as an endpoint returns them, for a chain that can be replayed.

The lines are in the format that `recording` reads. For blocks without relevant logs or calls only
the header is recorded; for the others all transactions, and all receipts if the endpoint serves
them, so that their roots can be verified again.
"""

from collections.abc import Sequence
from typing import Any

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.logs import Log
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError

Line = dict[str, Any]


def recorded(endpoint: Endpoint, window: BlockWindow) -> list[Line]:
    """Return the recorded lines of a window's blocks, fetched from the endpoint that gave it.

    Raises:
        RpcError: no answer, or the endpoint left the fork of the window.
    """
    numbers = [header.number for header in window.headers]
    ours = {log.block: log.block_hash for log in window.logs}
    ours |= {call.block: call.block_hash for call in window.calls}
    ours[window.last.number] = window.last.hash
    full = {log.block for log in window.logs} | {call.block for call in window.calls}
    params = [[hex(number), number in full] for number in numbers]
    answers = endpoint.client.batch("eth_getBlockByNumber", params, dict[str, Any])
    status = {call.tx_hash: {"status": hex(call.succeeded)} for call in window.calls}
    told = _receipts(endpoint, sorted(full), window.logs)
    lines: list[Line] = []
    for number, answer in zip(numbers, answers, strict=True):
        if answer is None:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no block {number}")
        if ours.get(number, answer["hash"]) != answer["hash"]:
            words = f"changed block {number} while it was recorded"
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, words)
        transactions = answer.pop("transactions", ())
        lines.append({"kind": "block", **answer})
        if number in full:
            # If there are receipts, they contain the status of the transactions.
            has_receipts = any(line["kind"] == "receipt" for line in told[number])
            known = {} if has_receipts else status
            lines += [
                {"kind": "tx", **each, **known.get(each["hash"], {})} for each in transactions
            ]
            lines += told[number]
    return lines


def _receipts(endpoint: Endpoint, blocks: list[int], logs: Sequence[Log]) -> dict[int, list[Line]]:
    """Return each block's receipts with their logs, or only the relevant logs without receipts."""
    params = [[hex(number)] for number in blocks]
    try:
        found = endpoint.client.batch("eth_getBlockReceipts", params, list[dict[str, Any]])
    except RpcError as error:
        if error.kind is not ErrorKind.UNSUPPORTED:
            raise
        return {
            number: [{"kind": "log", **_written(log)} for log in logs if log.block == number]
            for number in blocks
        }
    told = {}
    for number, receipts in zip(blocks, found, strict=True):
        if receipts is None:
            raise RpcError(endpoint.name, ErrorKind.NOT_THERE, f"no receipts of block {number}")
        told[number] = [{"kind": "receipt", **each} for each in receipts]
    return told


def _written(log: Log) -> Line:
    """Return the log in the JSON format of endpoints."""
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
