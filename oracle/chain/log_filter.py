"""Validates the entries of an `eth_getLogs` response before they are used.

A response is rejected if a log is outside of the query, pending, removed, duplicated with other
content, or not hex. The caller then retries, or uses another endpoint. See
docs/explanation/verification.md#l0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, product

from typing_extensions import Buffer

from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import MAX_LOG_INDEX, Log, LogRow, PackedLogs, SourceIndexes
from oracle.domain.native import NativeFilter, native
from oracle.rpc.responses import LogResponse

# Placeholders for a missing and an invalid timestamp until the block header is read.
UNKNOWN_TIME, NO_TIME = -1, -2
# The upper bound of a timestamp in seconds; millisecond timestamps are larger.
_MAX_TIMESTAMP = 1 << 34
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
# Some chains use this transaction hash for pending logs, or for logs without a transaction.
_NO_TRANSACTION = "0x" + "00" * 32


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter for `eth_getLogs`: contract addresses, and possible first topics."""

    addresses: frozenset[Address]
    topics: frozenset[str]
    # The same filter, in the form that the native code takes.
    native_filter: NativeFilter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        addresses = tuple(sorted(self.addresses))
        topics = tuple(sorted(self.topics))
        address_topic_pairs = tuple(product(addresses, topics))
        object.__setattr__(self, "native_filter", (addresses, topics, address_topic_pairs))

    def build_range_params(self, blocks: BlockRange) -> list[object]:
        """Return the `eth_getLogs` parameters for a block range."""
        return [
            {
                "fromBlock": hex(blocks.first),
                "toBlock": hex(blocks.last),
                "address": sorted(self.addresses),
                "topics": [sorted(self.topics)],
            }
        ]

    def build_block_hash_params(self, block_hash: str) -> list[object]:
        """Return the `eth_getLogs` parameters for one block, given by hash (EIP-234)."""
        return [
            {
                "blockHash": block_hash,
                "address": sorted(self.addresses),
                "topics": [sorted(self.topics)],
            }
        ]

    def matches(self, log: LogResponse) -> bool:
        """Return whether a log matches the filter, in any letter case."""
        return (
            log.address.lower() in self.addresses
            and bool(log.topics)
            and log.topics[0].lower() in self.topics
        )


def validate_logs(
    responses: Sequence[LogResponse], blocks: BlockRange, log_filter: LogFilter
) -> list[Log]:
    """Validate logs, and return them in order of (block, index).

    Exact duplicates are removed. `time` is UNKNOWN_TIME if the endpoint returns no timestamp, and
    NO_TIME if the timestamp is invalid. The correct timestamp is taken from the block header
    later.

    Raises:
        ValueError: the response is invalid; the message gives the reason.
    """
    _convert_hex_to_lower_case(responses)
    logs = _parse_logs(responses)
    if logs and not (blocks.first <= logs[0].block and logs[-1].block <= blocks.last):
        raise ValueError(f"a log is outside of blocks {blocks.first} to {blocks.last}")
    if not (
        {log.address for log in logs} <= log_filter.addresses
        and {log.topics[0] for log in logs} <= log_filter.topics
    ):
        raise ValueError("a log does not match the filter")
    return logs


def parse_logs_natively(
    response: Buffer, blocks: BlockRange, log_filter: LogFilter
) -> PackedLogs | None:
    """Parse and validate the logs of an `eth_getLogs` response with native code.

    Return None if there is no native code, or if the response is invalid or unusual.
    """
    logs: list[Log] = []
    rows: list[LogRow] = []
    sources = SourceIndexes()
    if native is None or not native.read_logs(
        response,
        log_filter.native_filter,
        blocks.first,
        blocks.last,
        (Log, sources, logs, rows),
    ):
        return None
    return PackedLogs(logs, rows, sources)


def _convert_hex_to_lower_case(responses: Sequence[LogResponse]) -> None:
    """Convert all hex fields of responses to lower case.

    Raises an error for invalid hex.
    """
    topic_texts = list(chain.from_iterable([response.topics for response in responses]))
    topic_texts += [response.data for response in responses]
    topic_texts += [response.transaction_hash for response in responses]
    topic_texts += {response.block_hash for response in responses}
    topic_texts += {response.address for response in responses}
    if _are_lower_case_hex(topic_texts):
        return
    for response in responses:
        response.address = response.address.lower()
        response.topics = tuple(topic.lower() for topic in response.topics)
        response.data = response.data.lower()
        response.block_hash = response.block_hash.lower()
        response.transaction_hash = response.transaction_hash.lower()
    if not _are_lower_case_hex([text.lower() for text in topic_texts]):
        raise ValueError("a field of a log is not hex")


def _are_lower_case_hex(texts: Sequence[str]) -> bool:
    """Return whether all texts are lower-case `0x` hex."""
    non_hex_bytes = "".join(texts).encode().translate(None, b"0123456789abcdef")
    return non_hex_bytes == b"x" * len(texts)


def _parse_logs(responses: Sequence[LogResponse]) -> list[Log]:
    logs: list[Log] = []
    # Values of the current block. Logs that are out of order are sorted below.
    number_text = timestamp_text = None
    block_hash = Hash("")
    block, previous_index, time = -1, -1, UNKNOWN_TIME
    is_sorted = True
    for response in responses:
        index = _parse_index(response.log_index)
        if response.block_number == number_text:
            is_sorted = is_sorted and previous_index < index
        else:
            number_text = response.block_number
            block_hash = Hash(response.block_hash)
            timestamp_text = response.block_timestamp
            previous_block = block
            block = int(number_text, 16)
            is_sorted = is_sorted and previous_block < block
            time = UNKNOWN_TIME if timestamp_text is None else _parse_timestamp(timestamp_text)
        previous_index = index
        topics, log_data = response.topics, response.data
        if (
            response.block_hash != block_hash
            or response.removed
            or not topics
            or len(log_data) & 1
            or response.transaction_hash == _NO_TRANSACTION
        ):
            raise ValueError(_describe_invalid_log(response, block))
        logs.append(
            Log(
                block,
                block_hash,
                time if response.block_timestamp == timestamp_text else NO_TIME,
                _parse_index(response.transaction_index),
                Hash(response.transaction_hash),
                index,
                Address(response.address),
                topics,
                log_data,
            )
        )
    return logs if is_sorted else _sort_and_deduplicate_logs(logs)


def _describe_invalid_log(response: LogResponse, block: int) -> str:
    if response.removed:
        return f"a removed log in block {block}"
    if not response.topics:
        return f"a log without topics in block {block}"
    if response.transaction_hash == _NO_TRANSACTION:
        return f"a log without a transaction in block {block}"
    if len(response.data) & 1:
        return f"a log with an odd number of hex digits in block {block}"
    return f"the logs of block {block} have two block hashes; the second is {response.block_hash}"


def _parse_timestamp(value: object) -> int:
    """Parse `blockTimestamp`.

    Some endpoints return zeros, milliseconds or decimal numbers. Decimal numbers are rejected,
    because they are ambiguous.
    """
    if not isinstance(value, str) or _QUANTITY.fullmatch(value) is None:
        return NO_TIME
    seconds = int(value, 16)
    return seconds if 0 < seconds < _MAX_TIMESTAMP else NO_TIME


class _IndexCache(dict[str, int]):
    """A cache of parsed log and transaction indexes.

    There are only a few hundred different values.
    """

    def __missing__(self, text: str) -> int:
        number = int(text, 16)
        if not 0 <= number <= MAX_LOG_INDEX:
            raise ValueError(f"a log or transaction index is out of range: {number}")
        if len(self) < _MAX_CACHED_INDEXES:
            self[text] = number
        return number


_MAX_CACHED_INDEXES = 4096
_parse_index = _IndexCache().__getitem__


def _sort_and_deduplicate_logs(logs: list[Log]) -> list[Log]:
    """Sort the logs, and drop exact duplicates.

    Different logs at one position are rejected.
    """
    logs.sort(key=lambda log: (log.block, log.index))
    unique_logs: list[Log] = []
    for log in logs:
        if unique_logs and (unique_logs[-1].block, unique_logs[-1].index) == (
            log.block,
            log.index,
        ):
            if unique_logs[-1] != log:
                raise ValueError(f"two different logs have index {log.index} in block {log.block}")
            continue
        if (
            unique_logs
            and unique_logs[-1].block == log.block
            and unique_logs[-1].block_hash != log.block_hash
        ):
            raise ValueError(f"the logs of block {log.block} have two block hashes")
        unique_logs.append(log)
    return unique_logs
