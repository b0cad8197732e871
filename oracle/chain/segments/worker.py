"""Prepares ranges of history as a worker, possibly as a child process with pipes.

A worker fetches, verifies and decodes the blocks of a range. It makes no decision about the trust
in endpoints. If anything unusual occurs (a contradiction, a repaired answer, a new fact about the
chain), the worker refuses the range, and the writer reads it with all endpoints. The child process
reads requests from stdin, writes answers to stdout, and ends when its input is closed, so that it
never outlives its parent. See docs/explanation/segments.md#worker.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from typing_extensions import override

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.segments.segment import (
    CounterIncreases,
    RefusedSegmentError,
    SegmentRefusal,
    WorkerObservations,
    build_segment,
    compute_counter_increases,
    encode_answer,
    snapshot_counters,
)
from oracle.chain.segments.segment_request import (
    MAX_FRAME_BYTES,
    FactsByEndpoint,
    SegmentPlan,
    SegmentRequest,
    WorkerSetup,
    WriterState,
    decode_request,
    decode_setup,
    read_frame,
    write_frame,
)
from oracle.chain.verification.calibration import Calibration, HeaderFeature, get_feature_fact_name
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import Checkpoint
from oracle.rpc.endpoints.rate_limiter import RateLimiter
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError
from oracle.telemetry.logger import import_structlog_without_rich

# A worker also samples signatures of calls and may find that senders are valid. This fact is the
# only new one that it may rely on, because it does not affect the level of a range. An answer that
# contradicts a signature is refused anyway.
_VALID_SENDERS_FACT = {get_feature_fact_name(HeaderFeature.SENDER): "right"}


@dataclass(slots=True)
class _CountingLimiter(RateLimiter):
    """A rate limiter that also counts calls, for the writer's own limiter."""

    spent_calls: int = 0

    @override
    def take_tokens(self, calls: int) -> None:
        self.spent_calls += calls
        RateLimiter.take_tokens(self, calls)


class _RecordingPool(EndpointPool):
    """An endpoint pool that records doubts about endpoints without acting on them."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(endpoints, chain_id, clock)
        self.limiters = {endpoint.name: _CountingLimiter(clock) for endpoint in endpoints}
        for endpoint in endpoints:
            endpoint.health.rate_limiter = self.limiters[endpoint.name]
        self.distrust_reasons: list[str] = []

    @override
    def deprioritise(self, endpoint: Endpoint | str, check: str) -> None:
        self.distrust_reasons.append(check)

    @override
    def quarantine(
        self,
        endpoint: Endpoint | str,
        reason: str,
        checkpoint: Checkpoint | None = None,
        *,
        is_on_other_chain: bool = False,
    ) -> None:
        self.distrust_reasons.append(reason)

    def count_spent_calls(self) -> int:
        """Return the number of calls made so far."""
        return sum(limiter.spent_calls for limiter in self.limiters.values())


@dataclass(slots=True)
class _FactStore:
    """An in-memory store with the facts of the writer.

    New facts are collected separately.
    """

    known_facts: FactsByEndpoint
    learned_facts: FactsByEndpoint = field(default_factory=dict)

    def load_facts(self, endpoint: str) -> dict[str, str]:
        return dict(self.known_facts.get(endpoint, {}))

    def save_fact(self, endpoint: str, key: str, value: str, _seconds: float | None) -> None:
        self.learned_facts.setdefault(endpoint, {})[key] = value


class SegmentPreparer:
    """Prepares the ranges of one plan with its own endpoints.

    One thread uses the object.

    Raises:
        InputError: this version cannot read the plan.
    """

    def __init__(self, plan: SegmentPlan, urls: Sequence[str]) -> None:
        self._plan = plan
        self._plan_id = plan.id
        self._urls = tuple(urls)
        self._reader = plan.open_reader()
        self._pool: _RecordingPool | None = None
        self._window_source: WindowSource | None = None
        self._store = _FactStore({})

    def prepare(self, request: SegmentRequest) -> bytes:
        """Prepare a range, and return an encoded segment or refusal.

        Errors are never raised.
        """
        started_at = time.monotonic()
        counters_before = snapshot_counters()
        call_count_before = 0 if self._pool is None else self._pool.count_spent_calls()
        try:
            if request.plan != self._plan_id:
                raise RefusedSegmentError("the request belongs to another plan")  # noqa: TRY301
            window = self._fetch_window(request)
            decoded_events = self._reader.decode_rows(window.logs, window.calls)
            observations = self._collect_observations(
                request, compute_counter_increases(counters_before), call_count_before, started_at
            )
            return encode_answer(build_segment(request, window, decoded_events, observations))
        except Exception as error:  # noqa: BLE001  # whoever reads the range again raises it
            observations = self._collect_observations(
                request,
                compute_counter_increases(counters_before, is_refused=True),
                call_count_before,
                started_at,
            )
            # After an error all state is dropped; the writer keeps track of failures.
            self.close()
            return encode_answer(_build_refusal(request, error, observations))

    def close(self) -> None:
        """Close the connections, and discard what was learned."""
        if self._pool is not None:
            self._pool.close()
        self._pool = self._window_source = None

    def _fetch_window(self, request: SegmentRequest) -> BlockWindow:
        window_source, recording_pool = self._open_window_source(request.writer_state)
        for endpoint in recording_pool:
            endpoint.highest_block = max(
                endpoint.highest_block, request.writer_state.highest.get(endpoint.name, -1)
            )
        if request.rate is not None:
            limiter = recording_pool.limiters[request.endpoint]
            limiter.rate = min(limiter.rate, request.rate)
        blocks = BlockRange(request.first, request.last)
        if request.level is None:
            window = window_source.fetch_history_window(blocks, request.endpoint)
        else:
            window = window_source.fetch_verified_window(
                blocks, VerificationLevel(request.level), request.endpoint, None
            )
        calibration = window_source.calibration
        distrust_reasons = [
            *recording_pool.distrust_reasons,
            *recording_pool.endpoint_list.get_proven_wrong_reasons().values(),
        ]
        if distrust_reasons:
            raise RefusedSegmentError(f"an endpoint is not trusted: {'; '.join(distrust_reasons)}")
        new_facts = dict(
            calibration.collect_facts().items() - request.writer_state.facts.get("", {}).items()
        )
        if new_facts and new_facts != _VALID_SENDERS_FACT:
            raise RefusedSegmentError("the worker has found new facts about the chain")
        if window.last.number > request.last:
            raise RefusedSegmentError("the range contains no block")
        return window

    def _open_window_source(
        self, writer_state: WriterState
    ) -> tuple[WindowSource, _RecordingPool]:
        """Return the window source, with the writer's facts, and its endpoint pool."""
        pool, window_source = self._pool, self._window_source
        if pool is None:
            pool = self._pool = _RecordingPool.from_urls(
                self._urls, self._plan.chain_id, max_bytes=self._plan.most_bytes
            )
            for endpoint in pool:
                # The writer names the provider, because the settings that define it may contain
                # keys.
                endpoint.provider = writer_state.providers.get(endpoint.name, endpoint.provider)
                if endpoint.name in writer_state.batches:
                    endpoint.client.limit_batch_size(writer_state.batches[endpoint.name])
        for number, block_hash, source in writer_state.checkpoints:
            pool.add_checkpoint(Checkpoint(number, Hash(block_hash), source))
        if window_source is None or writer_state.facts != self._store.known_facts:
            self._store = _FactStore(writer_state.facts)
            calibration = Calibration(capability_store=self._store)
            window_source = WindowSource(pool, self._reader, self._plan.policy, calibration)
            self._window_source = window_source
        return window_source, pool

    def _collect_observations(
        self,
        request: SegmentRequest,
        counters: CounterIncreases,
        calls_before: int,
        started_at: float,
    ) -> WorkerObservations:
        pool = self._pool
        call_count = 0 if pool is None else max(0, pool.count_spent_calls() - calls_before)
        highest_block = (
            -1 if pool is None else pool.endpoint_list.get(request.endpoint).highest_block
        )
        seconds = time.monotonic() - started_at
        return WorkerObservations(
            call_count, counters, self._store.learned_facts, highest_block, seconds
        )


def _build_refusal(
    request: SegmentRequest, error: Exception, observations: WorkerObservations
) -> SegmentRefusal:
    kind = error.kind.value if isinstance(error, RpcError) else ""
    retry_after = error.retry_after if isinstance(error, RpcError) else None
    message = f"{type(error).__name__}: {error}"
    return SegmentRefusal(request.plan, request.number, kind, message, retry_after, observations)


READY_MESSAGE = b"ready"


def main() -> None:
    """Process requests until the input is closed."""
    # The parent process handles SIGINT and then closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer_stream = os.fdopen(os.dup(1), "wb")
    # Printed text goes to stderr, so that it does not mix with the frames on stdout.
    os.dup2(2, 1)
    import_structlog_without_rich()
    import structlog  # noqa: PLC0415  rich must not be imported with it

    # The writer logs errors when it reads the range again, so nothing is logged here.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        serve_segment_requests(sys.stdin.buffer, answer_stream)
    except BrokenPipeError:
        # The parent process has ended.
        os._exit(0)


def serve_segment_requests(request_stream: BinaryIO, answer_stream: BinaryIO) -> None:
    """Answer a stream of requests for segments.

    The first frame of the stream contains the plan and the endpoints.

    Raises:
        InputError: this version cannot read the plan.
    """
    setup_frame = read_frame(request_stream, MAX_FRAME_BYTES)
    if setup_frame is None:
        return
    setup: WorkerSetup = decode_setup(setup_frame)
    preparer = SegmentPreparer(setup.plan, setup.urls)
    gc.collect()
    gc.freeze()
    write_frame(answer_stream, READY_MESSAGE)
    while (order_frame := read_frame(request_stream, MAX_FRAME_BYTES)) is not None:
        write_frame(answer_stream, preparer.prepare(decode_request(order_frame)))
    preparer.close()


if __name__ == "__main__":
    main()
