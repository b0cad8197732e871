"""The raw input from the chain: calls, and logs (single or in compact tables).

Everything else in the database is folded from this input and can be rebuilt. A table keeps the
logs of a range of blocks as packed rows, in the form of the database: values that many rows share
are stored once, and no object is created for each log (docs/explanation/storage.md#logs).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from typing_extensions import override

from oracle.domain.ids import Address, Hash


@dataclass(slots=True)
class Log:
    """A log entry of an `eth_getLogs` response, with all hex in lower case."""

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    index: int
    address: Address
    # Zero to four topics of 32 bytes each.
    topics: tuple[str, ...]
    data: str


@dataclass(slots=True)
class Call:
    """A transaction whose input has data that its logs lack.

    `value` is in wei.
    """

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    sender: Address
    to: Address
    value: int
    input: str
    # A reverted call has no effect.
    succeeded: bool

    # The event of a call precedes the logs of the same transaction
    # (docs/reference/events-and-jsonl.md).
    index: ClassVar[int] = -1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A log of a known kind, or a call, that could not be decoded.

    The `index` of a call is -1. The raw row is stored, too, but the row is not folded. `name` is
    the name of the event or function.
    """

    block: int
    block_hash: Hash
    time: int
    tx: int
    index: int
    address: Address
    name: str
    # The reason in one line, without any raw bytes.
    error: str


_WORD: Final = 32
_DIGITS: Final = 2 * _WORD
_LEADING: Final = 32
_TRAILING: Final = 64
_PARTIAL: Final = 96
# Amounts, offsets and lengths recur, so caching them pays off. Hashes do not recur, and push other
# words out of the cache.
_MAX_CACHED_WORDS: Final = 4096


class _PackedWords(dict[str, bytes]):
    """A cache of packed words, keyed by the hex digits of the word."""

    def __missing__(self, digits: str) -> bytes:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        packed_word = self[digits] = _pack_word(bytes.fromhex(digits))
        return packed_word


class _UnpackedWords(dict[bytes, str]):
    """A cache of unpacked words, keyed by the packed bytes."""

    def __missing__(self, part: bytes) -> str:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        digits = self[part] = _unpack_word(part)
        return digits


_PACKED_CACHE: Final = _PackedWords()
_UNPACKED_CACHE: Final = _UnpackedWords()


def pack_hex(text: str) -> bytes:
    """Pack the data of a log by removing the zero bytes that pad its words.

    The data is `0x` hex. Each word of 32 bytes becomes one byte that gives its form, followed by
    the remaining bytes. The form byte is `32 + n` (n from 0 to 31) for n bytes without leading
    zeros, `63 + n` (1 to 32) for n bytes without trailing zeros, and `95 + n` (1 to 31) for n
    bytes at the end that form no whole word. Its three upper bits give the form. All form bytes
    are ASCII characters, which SQL can parse (docs/explanation/storage.md#packed).
    """
    packed_words = _PACKED_CACHE
    return b"".join(
        [packed_words[text[offset : offset + _DIGITS]] for offset in range(2, len(text), _DIGITS)]
    )


def unpack_hex(value: bytes) -> str:
    """Unpack data from `pack_hex` to `0x` hex."""
    hex_chunks = ["0x"]
    offset = 0
    unpacked_words = _UNPACKED_CACHE
    while offset < len(value):
        packed_code = value[offset]
        next_offset = offset + 1 + (packed_code & 31) + (packed_code >= _TRAILING)
        hex_chunks.append(unpacked_words[value[offset:next_offset]])
        offset = next_offset
    return "".join(hex_chunks)


def _pack_word(word: bytes) -> bytes:
    if len(word) < _WORD:
        return bytes([_PARTIAL + len(word) - 1]) + word
    without_leading_zeros = word.lstrip(b"\0")
    without_trailing_zeros = word.rstrip(b"\0")
    if len(without_leading_zeros) < _WORD and len(without_leading_zeros) <= len(
        without_trailing_zeros
    ):
        return bytes([_LEADING + len(without_leading_zeros)]) + without_leading_zeros
    return bytes([_TRAILING + len(without_trailing_zeros) - 1]) + without_trailing_zeros


def _unpack_word(part: bytes) -> str:
    digits = part[1:].hex()
    if part[0] < _TRAILING:
        return digits.rjust(_DIGITS, "0")
    return digits.ljust(_DIGITS, "0") if part[0] < _PARTIAL else digits


# The lowest bits of a row's key are the log's index in its block; the bits above are the block
# number.
LOG_INDEX_BITS = 24
MAX_LOG_INDEX = 2**LOG_INDEX_BITS - 1

# A block's hash, and its time in seconds.
LogBlock: TypeAlias = tuple[bytes, int]
# A contract address and a first topic, both as `0x` hex; the topic is empty if the log has none.
LogSource: TypeAlias = tuple[Address, str]
BytesLike: TypeAlias = bytes | bytearray
# Key, transaction index, index of the source, transaction hash, the other topics (concatenated),
# and the packed data. sqlite3 stores a bytearray faster than bytes, because it checks for
# bytearray first.
LogRow: TypeAlias = tuple[int, int, int, BytesLike, BytesLike, BytesLike]

_GET_INDEX = attrgetter("index")
_GET_BLOCK = attrgetter("block", "block_hash")
_TOPIC_DIGITS = 64
_CONFLICTING_BLOCKS = "the logs contain two different blocks with the same number"


class LogPart(NamedTuple):
    """Log rows in order, and the values that they share.

    Sources are in order of first use.
    """

    blocks: Mapping[int, LogBlock]
    sources: Sequence[LogSource]
    rows: Sequence[LogRow]


class PackedLogs(list[Log]):
    """Logs in order, with their rows as in `LogPart`.

    Neither changes afterwards. `sources` has every source of the rows, and may be shared by the
    logs of consecutive blocks.
    """

    __slots__ = ("rows", "sources")

    def __init__(
        self, logs: Iterable[Log], rows: list[LogRow], sources: dict[LogSource, int]
    ) -> None:
        super().__init__(logs)
        self.rows, self.sources = rows, sources


def join_logs(parts: Sequence[list[Log]]) -> list[Log]:
    """Concatenate the logs of consecutive blocks.

    The result is packed if all parts are packed.
    """
    packed_parts = [part for part in parts if isinstance(part, PackedLogs)]
    logs = list(chain.from_iterable(parts))
    if not packed_parts or len(packed_parts) < sum(map(bool, parts)):
        return logs
    sources = packed_parts[0].sources
    if any(part.sources is not sources for part in packed_parts):
        return logs
    return PackedLogs(logs, list(chain.from_iterable(part.rows for part in packed_parts)), sources)


class LogTable(Sequence[Log]):
    """Logs in order of (block, index), stored in parts.

    Each part has sources of its own. Every access as a sequence creates new `Log` objects.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self.parts = parts

    @classmethod
    def from_logs(cls, logs: Sequence[Log]) -> Self:
        """Build a table of logs, or return the logs unchanged if they already are a table.

        Raises:
            ValueError: two blocks have the same number, or a log's index is above `MAX_LOG_INDEX`.
        """
        if isinstance(logs, cls):
            return logs
        if isinstance(logs, PackedLogs):
            return cls([LogPart(_collect_log_blocks(logs), list(logs.sources), logs.rows)])
        blocks = _collect_log_blocks(logs)
        sources = SourceIndexes()
        decode_hex = bytearray.fromhex
        # A single list comprehension is fastest, and every log of the chain passes through here.
        rows: list[LogRow] = [
            (
                log.block << LOG_INDEX_BITS | log.index,
                log.tx,
                sources[log.address, log.topics[0] if log.topics else ""],
                decode_hex(log.tx_hash[2:]),
                decode_hex("".join(log.topics[1:]).replace("0x", "")),
                bytearray(pack_hex(log.data)),
            )
            for log in logs
        ]
        return cls([LogPart(blocks, list(sources), rows)])

    @classmethod
    def concatenate(cls, tables: Iterable[Sequence[Log]]) -> Self:
        """Join several sequences of logs into one table.

        The logs must be consecutive.

        Raises:
            ValueError: see `from_logs`.
        """
        parts = (cls.from_logs(logs).parts for logs in tables)
        return cls(list(chain.from_iterable(parts)))

    @property
    def blocks(self) -> dict[int, LogBlock]:
        """Return the hash and the time of each block that has a log.

        Raises:
            ValueError: two blocks have the same number.
        """
        block_by_number: dict[int, LogBlock] = {}
        for part in self.parts:
            for number, block in part.blocks.items():
                if block_by_number.setdefault(number, block)[0] != block[0]:
                    raise ValueError(_CONFLICTING_BLOCKS)
        return block_by_number

    @override
    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    @override
    def __iter__(self) -> Iterator[Log]:
        for part in self.parts:
            for key, tx, source_index, tx_hash, topics, data in part.rows:
                block = part.blocks[key >> LOG_INDEX_BITS]
                row = key, tx, tx_hash, topics, data
                yield build_log(row, block, part.sources[source_index])

    @override
    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    @override
    def __eq__(self, value: object) -> bool:
        return isinstance(value, Sequence) and list(self) == list(value)

    __hash__ = None  # type: ignore[assignment]  # it is compared by what it holds


class SourceIndexes(dict[LogSource, int]):
    """The index of each log source, in order of first use."""

    def __missing__(self, source: LogSource) -> int:
        index = self[source] = len(self)
        return index


def build_log(
    row: tuple[int, int, BytesLike, BytesLike, BytesLike], block: LogBlock, source: LogSource
) -> Log:
    """Build a log from its row, block and source.

    The row is without the source index.
    """
    key, tx, tx_hash, topics, data = row
    (block_hash, time), (address, topic0) = block, source
    topic_digits = topics.hex()
    later_topics = [
        topic_digits[offset : offset + _TOPIC_DIGITS]
        for offset in range(0, len(topic_digits), _TOPIC_DIGITS)
    ]
    return Log(
        key >> LOG_INDEX_BITS,
        Hash("0x" + block_hash.hex()),
        time,
        tx,
        Hash("0x" + tx_hash.hex()),
        key & MAX_LOG_INDEX,
        address,
        (topic0, *("0x" + topic for topic in later_topics)) if topic0 else (),
        unpack_hex(bytes(data)),
    )


def get_block_hashes(logs: Sequence[Log]) -> dict[int, Hash]:
    """Return the hash of each block that has a log, keyed by block number."""
    if isinstance(logs, LogTable):
        return {number: Hash("0x" + block[0].hex()) for number, block in logs.blocks.items()}
    return {log.block: log.block_hash for log in logs}


def _collect_log_blocks(logs: Sequence[Log]) -> dict[int, LogBlock]:
    """Return the hash and the time of each block that has a log.

    The time is that of the block's first log.
    """
    if logs and not 0 <= min(map(_GET_INDEX, logs)) <= max(map(_GET_INDEX, logs)) <= MAX_LOG_INDEX:
        raise ValueError(f"the index of a log is out of range; expected 0 to {MAX_LOG_INDEX}")
    block_ids = set(map(_GET_BLOCK, logs))
    hash_by_number: dict[int, Hash] = dict(block_ids)
    if len(hash_by_number) < len(block_ids):
        raise ValueError(_CONFLICTING_BLOCKS)
    time_by_number = {log.block: log.time for log in reversed(logs)}
    to_bytes = bytes.fromhex
    return {
        number: (to_bytes(hash_by_number[number][2:]), time)
        for number, time in time_by_number.items()
    }
