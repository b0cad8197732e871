"""Encodes and decodes workers' answers: a segment of history, or a refusal.

The hash, the plan, the range and the order of rows are checked before an answer is used. An answer
also contains the increases of the worker's metrics, which are added to the metrics of the writer,
because Prometheus does not scrape workers. See docs/explanation/segments.md#segment.
"""

from collections.abc import Sequence
from itertools import islice
from operator import lt
from typing import NamedTuple, Self, TypeAlias

import msgspec
from prometheus_client import Counter

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.chain.segments.event_codec import EventRows, decode_events, encode_events
from oracle.chain.segments.segment_request import (
    FactsByEndpoint,
    SegmentRequest,
    append_digest,
    strip_digest,
)
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import LOG_INDEX_BITS, Call, Log, LogPart, LogSource, LogTable
from oracle.errors import OracleError, TransientError
from oracle.telemetry import indexer_metrics, rpc_metrics
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS

# For each counter that increased, its index in CARRIED_COUNTERS, its labels, and the increase.
CounterIncreases: TypeAlias = tuple[tuple[int, tuple[str, ...], float], ...]

# Request counters are added even if the range was refused. Range counters are added only if the
# range was read.
_REQUEST_COUNTERS: tuple[Counter, ...] = (rpc_metrics.CALLS, RPC_CALLS, RPC_ERRORS)
_RANGE_COUNTERS: tuple[Counter, ...] = (
    indexer_metrics.VERIFIED_BLOCKS,
    indexer_metrics.UNPROVEN_SENDERS,
    indexer_metrics.DUPLICATE_LOGS,
    indexer_metrics.WRONG_LOG_TIMES,
    indexer_metrics.WINDOW_SPLITS,
)
CARRIED_COUNTERS = (*_REQUEST_COUNTERS, *_RANGE_COUNTERS)

CounterValues: TypeAlias = dict[tuple[int, tuple[str, ...]], float]


def snapshot_counters() -> CounterValues:
    """Return the current values of all counters, by index and labels."""
    return {
        (index, tuple(sample.labels.values())): sample.value
        for index, counter in enumerate(CARRIED_COUNTERS)
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def compute_counter_increases(
    previous_values: CounterValues, *, is_refused: bool = False
) -> CounterIncreases:
    """Return how much the counters increased since a snapshot.

    With `is_refused`, only the request counters are included.
    """
    counter_count = len(_REQUEST_COUNTERS) if is_refused else len(CARRIED_COUNTERS)
    counter_increases = (
        (index, labels, value - previous_values.get((index, labels), 0.0))
        for (index, labels), value in snapshot_counters().items()
        if index < counter_count
    )
    return tuple(increase for increase in counter_increases if increase[2])


def add_counter_increases(increases: CounterIncreases) -> None:
    """Add a worker's counter increases to the counters of this process."""
    for index, labels, value in increases:
        if 0 <= index < len(CARRIED_COUNTERS) and value > 0:
            CARRIED_COUNTERS[index].labels(*labels).inc(value)


_WORD_BYTES = 32


class CallRow(NamedTuple):
    """The serialised form of a call.

    `value` is bytes, because it has up to 256 bits.
    """

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
    def from_call(cls, call: Call) -> Self:
        fields = {name: getattr(call, name) for name in cls._fields}
        return cls(**fields | {"value": call.value.to_bytes(_WORD_BYTES)})

    def to_call(self) -> Call:
        return Call(**self._asdict() | {"value": int.from_bytes(self.value)})


class LogRows(msgspec.Struct, frozen=True, array_like=True):
    """Logs in order, in the layout of a log table.

    See `LogPart`.
    """

    blocks: list[tuple[int, bytes, int]]
    sources: list[LogSource]
    rows: list[tuple[int, int, int, bytearray, bytearray, bytearray]]

    @classmethod
    def from_logs(cls, logs: Sequence[Log]) -> Self:
        """Convert logs to rows.

        Raises ValueError if a log table cannot hold them.
        """
        (part,) = LogTable.from_logs(logs).parts
        blocks = [(number, *block) for number, block in part.blocks.items()]
        return cls(blocks, list(part.sources), part.rows)  # type: ignore[arg-type]  # as they are

    def has_consistent_keys(self) -> bool:
        """Return whether keys ascend and every row's block and source exist."""
        log_keys = [row[0] for row in self.rows]
        block_numbers = {key >> LOG_INDEX_BITS for key in log_keys}
        source_indexes = {row[2] for row in self.rows}
        return (
            all(map(lt, log_keys, islice(log_keys, 1, None)))
            and block_numbers == {block[0] for block in self.blocks}
            and source_indexes == set(range(len(self.sources)))
        )

    def to_log_table(self) -> LogTable:
        blocks = {number: (block_hash, time) for number, block_hash, time in self.blocks}
        return LogTable([LogPart(blocks, self.sources, self.rows)])


class SegmentError(OracleError):
    """A worker's answer does not match its request."""


class RefusedSegmentError(TransientError):
    """A worker refused a range, which the writer now reads itself."""


class WorkerObservations(msgspec.Struct, frozen=True, array_like=True):
    """The facts that a worker learned during a request, and its number of `calls`.

    `facts` are by endpoint name, and `highest` is the height of the endpoint's highest block.
    """

    calls: int = 0
    counter_increases: CounterIncreases = ()
    facts: FactsByEndpoint = {}
    highest: int = -1
    seconds: float = 0.0


class Segment(msgspec.Struct, frozen=True, array_like=True, tag="segment"):
    """The prepared blocks `first` to `newest`.

    They may be only the beginning of the requested range. `first_parent` is the parent hash of the
    first block, which links the segment to the previous one.
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
    observed: WorkerObservations

    def to_window(self) -> BlockWindow:
        """Convert the segment to a window.

        Raises ValueError if an event is malformed.
        """
        decoded_events = DecodedEvents(
            decode_events(self.events),
            decode_events(self.contract_events),
            decode_events(self.dead),
        )
        return BlockWindow(
            BlockRange(self.first, self.newest.number),
            self.first_parent,
            self.newest,
            self.headers,
            self.logs.to_log_table(),
            [row.to_call() for row in self.calls],
            VerificationLevel(self.level),
            self.endpoint,
            self.proven,
            decoded_events,
        )


class SegmentRefusal(msgspec.Struct, frozen=True, array_like=True, tag="refusal"):
    """The reason why a worker returned no segment.

    `kind` is the kind of an RpcError, or empty.
    """

    plan: bytes
    number: int
    kind: str
    message: str
    retry_after: float | None
    observed: WorkerObservations


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Segment | SegmentRefusal] = msgspec.msgpack.Decoder(
    Segment | SegmentRefusal
)


def build_segment(
    request: SegmentRequest,
    window: BlockWindow,
    decoded_events: DecodedEvents,
    observations: WorkerObservations,
) -> Segment:
    """Build the segment for a window and its decoded events.

    Raises:
        OverflowError: a number of an event is larger than the encoding supports.
        ValueError: a log table cannot hold the window's logs.
    """
    return Segment(
        request.plan,
        request.number,
        window.range.first,
        window.first_parent,
        window.last,
        window.endpoint,
        int(window.level),
        window.proven,
        window.headers,
        LogRows.from_logs(window.logs),
        list(map(CallRow.from_call, window.calls)),
        encode_events(decoded_events.events),
        encode_events(decoded_events.contract_events),
        encode_events(decoded_events.dead_letters),
        observations,
    )


def encode_answer(answer: Segment | SegmentRefusal) -> bytes:
    """Encode the answer, and append its SHA-256."""
    return append_digest(_ENCODER.encode(answer))


def decode_answer(content: bytes, request: SegmentRequest) -> Segment | SegmentRefusal:
    """Decode an answer, and check that it is valid for this request.

    Raises:
        SegmentError: the bytes, plan, number, range or rows are invalid.
    """
    body = strip_digest(content)
    if body is None:
        raise SegmentError("the answer is truncated or corrupted")
    try:
        answer = _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise SegmentError(f"the answer is malformed: {error}") from None
    if (answer.plan, answer.number) != (request.plan, request.number):
        raise SegmentError("the answer belongs to another request")
    if isinstance(answer, Segment):
        _validate_segment(answer, request)
    return answer


def _validate_segment(segment: Segment, request: SegmentRequest) -> None:
    first, last = segment.first, segment.newest.number
    if first != request.first or not first <= last <= request.last:
        raise SegmentError(
            f"the segment has blocks {first} to {last}; expected {request.first} to {request.last}"
        )
    if segment.level not in set(VerificationLevel):
        raise SegmentError(f"unknown verification level {segment.level}")
    if not segment.logs.has_consistent_keys():
        raise SegmentError(
            "the segment's logs are not in ascending order, or do not match its blocks and sources"
        )
    block_numbers = [block[0] for block in segment.logs.blocks] + [
        row.block for row in segment.calls
    ]
    block_numbers += [*segment.proven, *(header.number for header in segment.headers)]
    if block_numbers and not first <= min(block_numbers) <= max(block_numbers) <= last:
        raise SegmentError("the segment has rows of blocks outside its range")
