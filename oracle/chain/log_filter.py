"""Checks what `eth_getLogs` gave, entry by entry, before it is used.

An endpoint may be wrong about everything: what is outside the question, pending, removed, said
twice with different words or no hex at all never passes; the caller asks again or elsewhere.
See docs/explanation/verification.md#l0.
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

# Until the header of the block tells it; the second where the endpoint said what is no time.
UNKNOWN_TIME, NO_TIME = -1, -2
# A time of any chain, in seconds: milliseconds are above it.
_MOST_SECONDS = 1 << 34
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
# What some chains say of logs that no transaction made, and pending logs of one.
_NO_TRANSACTION = "0x" + "00" * 32


@dataclass(frozen=True, slots=True)
class Filter:
    """What we ask of `eth_getLogs`: logs of these addresses with one of these first topics."""

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
        """Return the parameters of `eth_getLogs` for one very block (EIP-234)."""
        return [
            {
                "blockHash": block_hash,
                "address": sorted(self.addresses),
                "topics": [sorted(self.topics)],
            }
        ]

    def matches(self, answer: LogResponse) -> bool:
        """Tell whether a log, in whatever case it is written, is one that we ask for."""
        return (
            answer.address.lower() in self.addresses
            and bool(answer.topics)
            and answer.topics[0].lower() in self.topics
        )


def checked(answers: Sequence[LogResponse], blocks: BlockRange, wanted: Filter) -> list[Log]:
    """Return the logs in order of (block, index), without exact repetitions.

    `time` is UNKNOWN_TIME where the endpoint does not say it, NO_TIME where it says something
    that none can be: the header knows it better.

    Raises:
        ValueError: the answer cannot be right; the sentence says why.
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
    """Make sure that all is `0x` and lower-case hex; looks at all of it in one go."""
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
    """Tell whether nothing is left but one x for each text when the digits are taken away."""
    left = "".join(written).encode().translate(None, b"0123456789abcdef")
    return left == b"x" * len(written)


def _read(answers: Sequence[LogResponse]) -> list[Log]:
    logs: list[Log] = []
    # Of the block at hand; logs of one block stand together, or else the answer is sorted below.
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
    """Read `blockTimestamp`: some give zeros, milliseconds, or decimals, which may be anything."""
    if not isinstance(written, str) or _QUANTITY.fullmatch(written) is None:
        return NO_TIME
    seconds = int(written, 16)
    return seconds if 0 < seconds < _MOST_SECONDS else NO_TIME


class _Small(dict[str, int]):
    """Indexes by how endpoints write them; a few hundred come again and again."""

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
    """Sort; drop exact repetitions, refuse two different logs at one place."""
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
