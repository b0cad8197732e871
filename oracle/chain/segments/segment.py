"""The answers of workers, a segment of history or a refusal, and their encoding.

An answer is validated before it is used: hash, plan, range and the order of rows.
See docs/explanation/segments.md#segment.
"""

import hashlib
from collections.abc import Sequence
from itertools import islice
from operator import lt
from typing import NamedTuple, Self

import msgspec

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.segments.event_codec import EventRows, events_of, rows_of
from oracle.chain.segments.order import Facts, SegmentOrder
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import Level
from oracle.domain.ids import Address, Hash
from oracle.domain.log_table import INDEX_BITS, LogPart, LogSource, LogTable
from oracle.domain.logs import Call, Log
from oracle.errors import OracleError, TransientError

_WORD, _DIGEST = 32, 32


class CallRow(NamedTuple):
    """The serialised form of a call; its value takes up to 256 bits."""

    block: int
    block_hash: Hash
    time: int
    tx: int
    tx_hash: Hash
    sender: Address
    to: Address
    value: bytes
    input: str
    succeeded: bool

    @classmethod
    def of(cls, call: Call) -> Self:
        """Return the row of a call."""
        named = {name: getattr(call, name) for name in cls._fields}
        return cls(**named | {"value": call.value.to_bytes(_WORD)})

    def call(self) -> Call:
        """Return the call of the row."""
        return Call(**self._asdict() | {"value": int.from_bytes(self.value)})


class LogRows(msgspec.Struct, frozen=True, array_like=True):
    """Logs in order, in the layout of a log table: see `LogPart`."""

    blocks: list[tuple[int, bytes, int]]
    sources: list[LogSource]
    rows: list[tuple[int, int, int, bytearray, bytearray, bytearray]]

    @classmethod
    def of(cls, logs: Sequence[Log]) -> Self:
        """Return the rows of logs. Raises ValueError: a log table cannot hold them."""
        (part,) = LogTable.of(logs).parts
        blocks = [(number, *block) for number, block in part.blocks.items()]
        return cls(blocks, list(part.sources), part.rows)  # type: ignore[arg-type]  # as they are

    def are_whole(self) -> bool:
        """Return whether keys ascend, and every row has its block and its source."""
        keys = [row[0] for row in self.rows]
        numbers, places = {key >> INDEX_BITS for key in keys}, {row[2] for row in self.rows}
        return (
            all(map(lt, keys, islice(keys, 1, None)))
            and numbers == {block[0] for block in self.blocks}
            and places == set(range(len(self.sources)))
        )

    def table(self) -> LogTable:
        """Return the rows as a log table."""
        blocks = {number: (block_hash, time) for number, block_hash, time in self.blocks}
        return LogTable([LogPart(blocks, self.sources, self.rows)])


class SegmentError(OracleError):
    """A worker's answer does not match its order."""


class RefusedSegmentError(TransientError):
    """A worker refused the range, so the writer reads it itself."""


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """Facts and costs of an order: `calls` sent, counter increases, learned facts and duration."""

    calls: int = 0
    counted: tuple[tuple[int, tuple[str, ...], float], ...] = ()
    facts: Facts = {}
    highest: int = -1
    seconds: float = 0.0


class Segment(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """Blocks `first` to `newest`, which may end before the ordered range does, never after it.

    `first_parent` is the parent hash of the first block, which links it to the segment before.
    """

    plan: bytes
    number: int
    first: int
    first_parent: Hash
    newest: BlockRef
    endpoint: str
    level: int
    proven: tuple[int, ...]
    headers: list[BlockRef]
    logs: LogRows
    calls: list[CallRow]
    events: EventRows
    contract_events: EventRows
    dead: EventRows
    observed: Observed

    def window(self) -> BlockWindow:
        """Return the segment as a window. Raises ValueError: an event is malformed."""
        said = Decoded(
            events_of(self.events), events_of(self.contract_events), events_of(self.dead)
        )
        return BlockWindow(
            BlockRange(self.first, self.newest.number),
            self.first_parent,
            self.newest,
            self.headers,
            self.logs.table(),
            [row.call() for row in self.calls],
            Level(self.level),
            self.endpoint,
            self.proven,
            said,
        )


class SegmentRefusal(msgspec.Struct, frozen=True, array_like=True, tag="refusal"):
    """The reason why there is no segment; `kind` is that of an RpcError, or empty."""

    plan: bytes
    number: int
    kind: str
    words: str
    retry_after: float | None
    observed: Observed


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Segment | SegmentRefusal] = msgspec.msgpack.Decoder(
    Segment | SegmentRefusal
)


def segment_of(
    order: SegmentOrder, window: BlockWindow, said: Decoded, observed: Observed
) -> Segment:
    """Return a window as a segment.

    Raises:
        OverflowError: a number of an event is larger than the encoding supports.
        ValueError: a log table cannot hold its logs.
    """
    return Segment(
        order.plan,
        order.number,
        window.range.first,
        window.first_parent,
        window.last,
        window.endpoint,
        int(window.level),
        window.proven,
        window.headers,
        LogRows.of(window.logs),
        list(map(CallRow.of, window.calls)),
        rows_of(said.events),
        rows_of(said.contract_events),
        rows_of(said.dead),
        observed,
    )


def pack(given: Segment | SegmentRefusal) -> bytes:
    """Return the encoded answer, followed by its sha256."""
    body = _ENCODER.encode(given)
    return body + hashlib.sha256(body).digest()


def unpack(given: bytes, order: SegmentOrder) -> Segment | SegmentRefusal:
    """Return the answer to this order.

    Raises:
        SegmentError: bytes, plan, number, range or rows are invalid.
    """
    body, digest = given[:-_DIGEST], given[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise SegmentError("torn, or changed on its way")
    try:
        answer = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise SegmentError(f"no segment: {error}") from None
    if (answer.plan, answer.number) != (order.plan, order.number):
        raise SegmentError("the answer to another order")
    if isinstance(answer, Segment):
        _check(answer, order)
    return answer


def _check(segment: Segment, order: SegmentOrder) -> None:
    first, last = segment.first, segment.newest.number
    if first != order.first or not first <= last <= order.last:
        raise SegmentError(f"blocks {first} to {last} in place of {order.first} to {order.last}")
    if segment.level not in set(Level):
        raise SegmentError(f"no level of proof: {segment.level}")
    if not segment.logs.are_whole():
        raise SegmentError("logs out of order, one twice, or without what they share")
    numbers = [block[0] for block in segment.logs.blocks] + [row.block for row in segment.calls]
    numbers += [*segment.proven, *(header.number for header in segment.headers)]
    if numbers and not first <= min(numbers) <= max(numbers) <= last:
        raise SegmentError("rows of blocks outside of its range")
