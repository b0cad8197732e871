"""Validates the entries of an `eth_getLogs` response before they are used.

An endpoint may be wrong about everything. Logs that are outside the query, pending, removed,
duplicated with different content or not hex are rejected; the caller retries or uses another
endpoint. See docs/explanation/verification.md#l0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Address, Hash
from oracle.domain.log_table import MOST_INDEX
from oracle.domain.logs import Log
from oracle.rpc.responses import LogResponse

# Placeholders until the block header is read: no time given, and an invalid time given.
UNKNOWN_TIME, NO_TIME = -1, -2
# Upper bound of block timestamps in seconds; values in milliseconds are above it.
_MOST_SECONDS = 1 << 34
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
# Transaction hash that some chains give for logs without a transaction, or pending ones.
_NO_TRANSACTION = "0x" + "00" * 32


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of `eth_getLogs`: logs of these addresses with one of these first topics."""

    addresses: frozenset[Address]
    topics: frozenset[str]

    def params(self, blocks: BlockRange) -> list[object]:
        """Return the parameters of `eth_getLogs` for a range of blocks."""
        return [
            {
                "fromBlock": hex(blocks.first),
                "toBlock": hex(blocks.last),
                "address": sorted(self.addresses),
                "topics": [sorted(self.topics)],
            }
        ]

    def pinned(self, block_hash: str) -> list[object]:
        """Return the parameters of `eth_getLogs` for exactly one block, by its hash (EIP-234)."""
        return [
            {
                "blockHash": block_hash,
                "address": sorted(self.addresses),
                "topics": [sorted(self.topics)],
            }
        ]

    def matches(self, answer: LogResponse) -> bool:
        """Return whether a log, in any letter case, matches the filter."""
        return (
            answer.address.lower() in self.addresses
            and bool(answer.topics)
            and answer.topics[0].lower() in self.topics
        )


def checked(answers: Sequence[LogResponse], blocks: BlockRange, wanted: Filter) -> list[Log]:
    """Return the logs in order of (block, index), without exact duplicates.

    `time` is UNKNOWN_TIME if the endpoint gives no timestamp, and NO_TIME if the timestamp is
    invalid; the block header has the correct one.

    Raises:
        ValueError: the response is invalid; the message gives the reason.
    """
    _make_lower_hex(answers)
    logs = _read(answers)
    if logs and not (blocks.first <= logs[0].block and logs[-1].block <= blocks.last):
        raise ValueError(f"a log outside of blocks {blocks.first} to {blocks.last}")
    if not (
        {log.address for log in logs} <= wanted.addresses
        and {log.topics[0] for log in logs} <= wanted.topics
    ):
        raise ValueError("a log that nobody asked for")
    return logs


def _make_lower_hex(answers: Sequence[LogResponse]) -> None:
    """Convert all texts to lower-case `0x` hex; the check covers all of them in one pass."""
    written = list(chain.from_iterable([answer.topics for answer in answers]))
    written += [answer.data for answer in answers]
    written += [answer.transaction_hash for answer in answers]
    written += {answer.block_hash for answer in answers}
    written += {answer.address for answer in answers}
    if _is_lower_hex(written):
        return
    for answer in answers:
        answer.address = answer.address.lower()
        answer.topics = tuple(topic.lower() for topic in answer.topics)
        answer.data = answer.data.lower()
        answer.block_hash = answer.block_hash.lower()
        answer.transaction_hash = answer.transaction_hash.lower()
    if not _is_lower_hex([text.lower() for text in written]):
        raise ValueError("a log that is not hex")


def _is_lower_hex(written: Sequence[str]) -> bool:
    """Return whether exactly one x per text is left after removing the hex digits."""
    left = "".join(written).encode().translate(None, b"0123456789abcdef")
    return left == b"x" * len(written)


def _read(answers: Sequence[LogResponse]) -> list[Log]:
    logs: list[Log] = []
    # Fields of the current block; logs that are out of order are sorted below.
    number = stamp = None
    block_hash = Hash("")
    block, last, time = -1, -1, UNKNOWN_TIME
    is_sorted = True
    for answer in answers:
        index = _small(answer.log_index)
        if answer.block_number == number:
            is_sorted = is_sorted and last < index
        else:
            number, block_hash, stamp = (
                answer.block_number,
                Hash(answer.block_hash),
                answer.block_timestamp,
            )
            above, block = block, int(number, 16)
            is_sorted = is_sorted and above < block
            time = UNKNOWN_TIME if stamp is None else _seconds(stamp)
        last = index
        topics, said = answer.topics, answer.data
        if (
            answer.block_hash != block_hash
            or answer.removed
            or not topics
            or len(said) & 1
            or answer.transaction_hash == _NO_TRANSACTION
        ):
            raise ValueError(_fault(answer, block))
        logs.append(
            Log(
                block,
                block_hash,
                time if answer.block_timestamp == stamp else NO_TIME,
                _small(answer.transaction_index),
                Hash(answer.transaction_hash),
                index,
                Address(answer.address),
                topics,
                said,
            )
        )
    return logs if is_sorted else _in_order(logs)


def _fault(answer: LogResponse, block: int) -> str:
    if answer.removed:
        return f"a removed log in block {block}"
    if not answer.topics:
        return f"a log without topics in block {block}"
    if answer.transaction_hash == _NO_TRANSACTION:
        return f"a log of no transaction in block {block}"
    if len(answer.data) & 1:
        return f"a log with half a byte in block {block}"
    return f"logs of two blocks {block}: {answer.block_hash} is another hash than before"


def _seconds(written: object) -> int:
    """Parse `blockTimestamp`.

    Some endpoints give zeros, milliseconds or decimals; decimals are ambiguous and rejected.
    """
    if not isinstance(written, str) or _QUANTITY.fullmatch(written) is None:
        return NO_TIME
    seconds = int(written, 16)
    return seconds if 0 < seconds < _MOST_SECONDS else NO_TIME


class _Small(dict[str, int]):
    """A cache of parsed indexes; the same few hundred spellings occur again and again."""

    def __missing__(self, written: str) -> int:
        number = int(written, 16)
        if not 0 <= number <= MOST_INDEX:
            raise ValueError(f"an index that no block has: {number}")
        if len(self) < _REMEMBERED:
            self[written] = number
        return number


_REMEMBERED = 4096
_small = _Small().__getitem__


def _in_order(logs: list[Log]) -> list[Log]:
    """Sort the logs, drop exact duplicates, and reject different logs at one position."""
    logs.sort(key=lambda log: (log.block, log.index))
    kept: list[Log] = []
    for log in logs:
        if kept and (kept[-1].block, kept[-1].index) == (log.block, log.index):
            if kept[-1] != log:
                raise ValueError(f"two different logs {log.index} in block {log.block}")
            continue
        if kept and kept[-1].block == log.block and kept[-1].block_hash != log.block_hash:
            raise ValueError(f"logs of two blocks {log.block}")
        kept.append(log)
    return kept
