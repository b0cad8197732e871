"""Logs of a range of blocks in narrow rows, as the database stores them, and their packed form.

Values that many rows share are stored once: a block's hash and time, a contract's address and
first topic. Storing logs therefore creates no object per log (docs/explanation/storage.md#logs).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias

from typing_extensions import override

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log

_WORD: Final = 32
_DIGITS: Final = 2 * _WORD
_LEADING: Final = 32
_TRAILING: Final = 64
_REST: Final = 96
# Recurring words (amounts, offsets, lengths) are worth caching; hashes evict them.
_REMEMBERED: Final = 4096


class _PackedWords(dict[str, bytes]):
    """A cache of packed words, by hex digits."""

    def __missing__(self, digits: str) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[digits] = _pack_word(bytes.fromhex(digits))
        return found


class _Parts(dict[bytes, str]):
    """A cache of unpacked words, by packed bytes."""

    def __missing__(self, part: bytes) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        found = self[part] = _unpack_word(part)
        return found


_WORDS: Final = _PackedWords()
_PARTS: Final = _Parts()


def pack_hex(text: str) -> bytes:
    """Return the data of a log, `0x` hex, without the zeros that fill its words.

    Each word of 32 bytes becomes a byte that gives its form, and the remaining bytes: `32 + n` (n
    from 0 to 31) for n bytes without leading zeros, `63 + n` (1 to 32) for n bytes without
    trailing zeros, `95 + n` (1 to 31) for n bytes at the end that form no whole word. The three
    upper bits give the form, and all these bytes are ASCII letters, which SQL can parse
    (docs/explanation/storage.md#packed).
    """
    words = _WORDS
    return b"".join([words[text[at : at + _DIGITS]] for at in range(2, len(text), _DIGITS)])


def unpack_hex(value: bytes) -> str:
    """Return, as `0x` hex, the data that `pack_hex` packed."""
    written, at, parts = ["0x"], 0, _PARTS
    while at < len(value):
        code = value[at]
        after = at + 1 + (code & 31) + (code >= _TRAILING)
        written.append(parts[value[at:after]])
        at = after
    return "".join(written)


def _pack_word(word: bytes) -> bytes:
    if len(word) < _WORD:
        return bytes([_REST + len(word) - 1]) + word
    left, right = word.lstrip(b"\0"), word.rstrip(b"\0")
    if len(left) < _WORD and len(left) <= len(right):
        return bytes([_LEADING + len(left)]) + left
    return bytes([_TRAILING + len(right) - 1]) + right


def _unpack_word(part: bytes) -> str:
    digits = part[1:].hex()
    if part[0] < _TRAILING:
        return digits.rjust(_DIGITS, "0")
    return digits.ljust(_DIGITS, "0") if part[0] < _REST else digits


# Bits of a row's key below the block's number, which hold the log's index in the block.
INDEX_BITS = 24
MOST_INDEX = 2**INDEX_BITS - 1

# Hash, and time in seconds.
LogBlock: TypeAlias = tuple[bytes, int]
# A contract's address and a first topic, `0x` hex; the topic is empty where a log has none.
LogSource: TypeAlias = tuple[Address, str]
Bytes: TypeAlias = bytes | bytearray
# Key, transaction index, index of the source, transaction hash, the other topics joined, packed
# data. sqlite3 accepts a bytearray as it is; for bytes it spends longer on a check than on writing
# them.
LogRow: TypeAlias = tuple[int, int, int, Bytes, Bytes, Bytes]

_INDEX = attrgetter("index")
_BLOCK = attrgetter("block", "block_hash")
_TOPIC_DIGITS = 64
_TWO_BLOCKS = "logs of two blocks of one number cannot both be of one chain"


class LogPart(NamedTuple):
    """Rows in order and the values they share; sources in order of first use."""

    blocks: Mapping[int, LogBlock]
    sources: Sequence[LogSource]
    rows: Sequence[LogRow]


class LogTable(Sequence[Log]):
    """Logs in order of (block, index), in parts that each have their own sources.

    Access as a sequence creates the logs anew.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[LogPart]) -> None:
        self.parts = parts

    @classmethod
    def of(cls, logs: Sequence[Log]) -> Self:
        """Return the logs as a table; a table is returned unchanged.

        Raises:
            ValueError: two blocks of one number, or an index above `MAX_LOG_INDEX`.
        """
        if isinstance(logs, cls):
            return logs
        blocks, sources, plain = _blocks_of(logs), _Places(), bytearray.fromhex
        # A single expression, because it runs over every log of the chain.
        rows: list[LogRow] = [
            (
                log.block << INDEX_BITS | log.index,
                log.tx,
                sources[log.address, log.topics[0] if log.topics else ""],
                plain(log.tx_hash[2:]),
                plain("".join(log.topics[1:]).replace("0x", "")),
                pack_hex(log.data),
            )
            for log in logs
        ]
        return cls([LogPart(blocks, list(sources), rows)])

    @classmethod
    def joined(cls, tables: Iterable[Sequence[Log]]) -> Self:
        """Return consecutive logs as one table.

        Raises:
            ValueError: see `from_logs`.
        """
        parts = (cls.of(logs).parts for logs in tables)
        return cls(list(chain.from_iterable(parts)))

    @property
    def blocks(self) -> dict[int, LogBlock]:
        """Return hash and time of each block with a log.

        Raises:
            ValueError: two blocks of one number.
        """
        found: dict[int, LogBlock] = {}
        for part in self.parts:
            for number, block in part.blocks.items():
                if found.setdefault(number, block)[0] != block[0]:
                    raise ValueError(_TWO_BLOCKS)
        return found

    @override
    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    @override
    def __iter__(self) -> Iterator[Log]:
        for part in self.parts:
            for key, tx, place, tx_hash, topics, data in part.rows:
                block = part.blocks[key >> INDEX_BITS]
                row = key, tx, tx_hash, topics, data
                yield log_of_row(row, block, part.sources[place])

    @override
    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it is compared by what it holds


class _Places(dict[LogSource, int]):
    """Source indexes, in order of first use."""

    def __missing__(self, source: LogSource) -> int:
        place = self[source] = len(self)
        return place


def log_of_row(
    row: tuple[int, int, Bytes, Bytes, Bytes], block: LogBlock, source: LogSource
) -> Log:
    """Return the log of a row, which is given without the index of its source."""
    key, tx, tx_hash, topics, data = row
    (block_hash, time), (address, topic0) = block, source
    others = topics.hex()
    rest = [others[at : at + _TOPIC_DIGITS] for at in range(0, len(others), _TOPIC_DIGITS)]
    return Log(
        key >> INDEX_BITS,
        Hash("0x" + block_hash.hex()),
        time,
        tx,
        Hash("0x" + tx_hash.hex()),
        key & MOST_INDEX,
        address,
        (topic0, *("0x" + topic for topic in rest)) if topic0 else (),
        unpack_hex(bytes(data)),
    )


def block_hashes(logs: Sequence[Log]) -> dict[int, Hash]:
    """Return the hash of each block with a log."""
    if isinstance(logs, LogTable):
        return {number: Hash("0x" + block[0].hex()) for number, block in logs.blocks.items()}
    return {log.block: log.block_hash for log in logs}


def _blocks_of(logs: Sequence[Log]) -> dict[int, LogBlock]:
    """Return hash and time of the logs' blocks, each from the block's first log."""
    if logs and not 0 <= min(map(_INDEX, logs)) <= max(map(_INDEX, logs)) <= MOST_INDEX:
        raise ValueError(f"a log's index is above {MOST_INDEX}")
    named = set(map(_BLOCK, logs))
    hashes: dict[int, Hash] = dict(named)
    if len(hashes) < len(named):
        raise ValueError(_TWO_BLOCKS)
    times = {log.block: log.time for log in reversed(logs)}
    plain = bytes.fromhex
    return {number: (plain(hashes[number][2:]), time) for number, time in times.items()}
