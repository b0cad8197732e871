"""Responses of endpoints as bytes, and what the Python code reads in them.

`read_receipts` and `read_logs` are the judges of the native code, which may return less.
"""

import re
from contextlib import suppress
from random import Random
from typing import TypeAlias

import msgspec

from oracle.chain.log_filter import LogFilter, validate_logs
from oracle.chain.proofs.receipts import ProvenReceipt
from oracle.chain.verification.full_headers import FullHeader
from oracle.chain.verification.header_check import try_compute_receipts_root
from oracle.chain.verification.receipt_fetch import Receipts, sort_receipts
from oracle.chain.verification.verifier import extract_matching_logs
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log, LogPart, LogTable
from oracle.rpc.pool import EndpointPool
from oracle.rpc.responses import FullHeaderResponse, LogResponse
from oracle.rpc.rpc_errors import RpcError
from tests.support.native.inputs import (
    ADDRESSES,
    NOW,
    TOPICS,
    make_random_block,
    make_random_log,
    make_random_receipt,
)

FILTER = LogFilter(frozenset(map(Address, ADDRESSES)), frozenset(TOPICS))
NUMBER = 77
BLOCK_HASH = Hash("0x" + 64 * "d")
BLOCKS = BlockRange(10, 99)
(ENDPOINT,) = EndpointPool.from_urls(["http://127.0.0.1:1"], 1)

ReadLogs: TypeAlias = tuple[list[Log], list[LogPart]]


def list_logs_and_parts(logs: list[Log]) -> ReadLogs:
    """Return logs, and the parts of the table that is built from these logs."""
    return list(logs), [LogPart(*part) for part in LogTable.from_logs(logs).parts]


def make_random_block_response(chance: Random, *, is_small: bool = False) -> list[ProvenReceipt]:
    """Return the receipts of a block, with the positions that an endpoint gives."""
    receipts = (
        [make_random_receipt(chance) for _ in range(3)] if is_small else make_random_block(chance)
    )
    set_receipt_positions(receipts)
    return receipts


def set_receipt_positions(receipts: list[ProvenReceipt]) -> None:
    index = 0
    for tx, receipt in enumerate(receipts):
        receipt.transaction_index = hex(tx)
        for log in receipt.logs:
            log.block_number = hex(NUMBER)
            log.block_hash = BLOCK_HASH
            log.transaction_index = hex(tx)
            log.transaction_hash = receipt.transaction_hash
            log.log_index = hex(index)
            index = index + 1


def make_header(tx_hashes: list[str], receipts_root: str) -> FullHeader:
    block = BlockRef(NUMBER, BLOCK_HASH, Hash("0x" + 64 * "e"), NOW)
    texts = hex(NUMBER), BLOCK_HASH, block.parent_hash, hex(NOW)
    response = FullHeaderResponse(*texts, receipts_root=receipts_root)
    response.transactions = msgspec.Raw(msgspec.json.encode(tx_hashes))
    return FullHeader(block, response)


def list_headers(response: bytes, receipts: list[ProvenReceipt]) -> list[FullHeader]:
    """Return a header that commits to these receipts, and one that commits to the response."""
    headers = [
        make_header([receipt.transaction_hash for receipt in receipts], compute_root(receipts))
    ]
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RpcError):
        decoded = sort_receipts(ENDPOINT, headers[0], msgspec.json.decode(response, type=Receipts))
        hashes = [receipt.transaction_hash for receipt in decoded]
        headers.append(make_header(hashes, compute_root(decoded)))
    return headers


def compute_root(receipts: list[ProvenReceipt]) -> str:
    return try_compute_receipts_root(receipts)


def read_receipts(response: bytes, header: FullHeader) -> tuple[ReadLogs, bytes] | None:
    """Return the logs and statuses of receipts that match the header, else None."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RpcError, ValueError):
        decoded = msgspec.json.decode(response, type=Receipts)
        receipts = sort_receipts(ENDPOINT, header, decoded)
        hashes = [receipt.transaction_hash.lower() for receipt in receipts]
        if (
            compute_root(receipts) != header.receipts_root
            or [tx_hash.lower() for tx_hash in header.decode_tx_hashes()] != hashes
        ):
            return None
        logs = extract_matching_logs(ENDPOINT.name, header, receipts, FILTER)
        return list_logs_and_parts(logs), bytes(receipt.succeeded for receipt in receipts)
    return None


def make_random_log_response(chance: Random) -> list[LogResponse]:
    """Return logs as `eth_getLogs` returns them: sorted, each matching the filter."""
    logs: list[LogResponse] = []
    block = BLOCKS.first - 1
    index = 0
    for _ in range(chance.randrange(12)):
        if not logs or chance.random() < 0.4:
            block = block + chance.randrange(1, 5)
            index = -1
            block_hash = Hash("0x" + f"{block:064x}")
            timestamp = chance.choice((None, hex(NOW + block)))
        index += chance.randrange(1, 4)
        log = make_random_log(chance)
        log.address, log.topics = (
            chance.choice(ADDRESSES),
            (chance.choice(TOPICS), *log.topics[1:]),
        )
        log.block_number = hex(block)
        log.block_hash = block_hash
        log.log_index = hex(index)
        log.transaction_index = hex(index // 2)
        log.block_timestamp = timestamp
        logs.append(log)
    return logs


def read_logs(response: bytes) -> ReadLogs | None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, ValueError):
        decoded = msgspec.json.decode(response, type=list[LogResponse])
        return list_logs_and_parts(validate_logs(decoded, BLOCKS, FILTER))
    return None


def rewrite_json(chance: Random, response: bytes) -> bytes:
    """Return the same JSON with other spaces, another order of fields, and unknown fields."""
    decoded = msgspec.json.decode(response)
    if chance.random() < 0.5:
        decoded = _shuffle(chance, decoded)
    text = msgspec.json.encode(decoded)
    if chance.random() < 0.5:
        text = re.sub(rb"([\[\]{},:])", rb" \1\n", text)
    return text


def _shuffle(chance: Random, value: object) -> object:
    if isinstance(value, list):
        return [_shuffle(chance, item) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(name, _shuffle(chance, item)) for name, item in value.items()]
    members += [("from", "0x00"), ("l1Fee", None), ("isLegacy", True)][: chance.randrange(4)]
    return dict(chance.sample(members, len(members)))


def damage_response(chance: Random, response: bytes) -> bytes:
    """Return the response with one place changed, cut out, or written twice."""
    place = chance.randrange(len(response) + 1)
    kind = chance.randrange(4)
    if kind == 0:
        put = chance.choice([*b'0x1fFgX"\\{}[],: \n\x00\x7f\xe9', chance.randrange(256)])
        return response[:place] + bytes([put]) + response[place + 1 :]
    if kind == 1:
        return response[:place]
    end = min(len(response), place + chance.choice((1, 2, 5, 66, 200)))
    return response[:place] + response[place if kind == 2 else end : end] * 2 + response[end:]
