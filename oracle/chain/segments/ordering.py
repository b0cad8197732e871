"""Creates the writer's requests to workers, and merges what the workers learned.

The health, the limits and the trust of endpoints are merged by one thread, in the order in which
answers are accepted. See docs/explanation/segments.md#what-is-shared.
"""

import math
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.limit_memory import lower_block_limit
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.segments.segment import (
    RefusedSegmentError,
    SegmentError,
    SegmentRefusal,
    WorkerObservations,
    add_counter_increases,
    decode_answer,
)
from oracle.chain.segments.segment_request import SegmentPlan, SegmentRequest, WriterState
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind
from oracle.telemetry.indexer_metrics import WINDOW_BLOCKS

# The estimate of RPC calls per request until the first answer arrives.
_INITIAL_CALL_ESTIMATE = 8


@dataclass(slots=True)
class SegmentCoordinator:
    """Creates the requests of one plan, and accepts their answers.

    One thread uses the object. Blocks are verified up to `level`, or as history if `level` is
    None. They are read from the endpoint `endpoint_name`, or from the preferred endpoint if
    `endpoint_name` is None.
    """

    plan: SegmentPlan
    endpoints: EndpointPool
    window_source: WindowSource
    worker_count: int
    level: VerificationLevel | None = None
    endpoint_name: str | None = None
    _last_number: int = 0
    _plan_id: bytes = field(init=False)
    # The current estimate of calls per request, and the calls reserved for each pending request,
    # by request number.
    _call_estimate: int = _INITIAL_CALL_ESTIMATE
    _reserved_calls: dict[int, int] = field(default_factory=dict)
    # The number of the first request sent after an endpoint's last rate limit, by endpoint name. A
    # refusal of an earlier request does not count as another rate limit.
    _throttled_from: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plan_id = self.plan.id

    def can_prepare_ranges(self) -> bool:
        """Return whether workers may prepare ranges.

        This requires that the calibration is complete. Missing samples are taken before the first
        request, so that the level of a block does not depend on the process that reads the block.
        """
        if self._select_endpoint() is None:
            return False
        if not self.window_source.is_calibrated():
            try:
                self.window_source.calibrate()
            except TransientError:
                # The error is not raised, because the writer gets the same error when it reads the
                # range.
                return False
        return self.window_source.is_calibrated()

    def create_segment_request(self, blocks: BlockRange) -> SegmentRequest | None:
        """Create a request for a range, or return None if no endpoint may be queried now."""
        endpoint = self._select_endpoint()
        if endpoint is None:
            return None
        self._last_number += 1
        rate_limiter = endpoint.health.rate_limiter
        rate_limiter.take_tokens(self._call_estimate)
        self._reserved_calls[self._last_number] = self._call_estimate
        rate = None if rate_limiter.rate == math.inf else rate_limiter.rate / self.worker_count
        return SegmentRequest(
            self._plan_id,
            self._last_number,
            blocks.first,
            blocks.last,
            endpoint.name,
            self._build_writer_state(),
            rate,
            None if self.level is None else int(self.level),
        )

    def release_reserved_calls(self, request: SegmentRequest) -> None:
        """Release the calls reserved for a request that will not be answered."""
        self._reserved_calls.pop(request.number, None)

    def accept_answer(
        self, request: SegmentRequest, answer_bytes: bytes, *, is_restored: bool = False
    ) -> BlockWindow:
        """Check a worker's answer to a request, and return the window in it.

        If `is_restored`, the answer comes from an earlier run, and its calls are already counted.

        Raises:
            SegmentError: the bytes are not an answer to this request.
            RefusedSegmentError: the worker refused the range, or the answer relies on facts that
                are no longer valid.
        """
        answer = decode_answer(answer_bytes, request)
        if request.endpoint not in {known_endpoint.name for known_endpoint in self.endpoints}:
            raise RefusedSegmentError(f"{request.endpoint} is no longer configured")
        endpoint = self.endpoints.endpoint_list.get(request.endpoint)
        if not is_restored:
            self._merge_observations(request, endpoint, answer.observed)
        if isinstance(answer, SegmentRefusal):
            self._record_endpoint_throttling(request, endpoint, answer)
            raise RefusedSegmentError(answer.message)
        if answer.endpoint != request.endpoint:
            raise SegmentError("the segment was read from a different endpoint than requested")
        if endpoint.status.quarantine_reason is not None:
            raise RefusedSegmentError(f"{endpoint.name} was quarantined after the request")
        current_facts = self.window_source.calibration.collect_facts()
        if any(
            current_facts.get(fact) != requested_value
            for fact, requested_value in request.writer_state.facts[""].items()
        ):
            # Only facts that the request contained are compared, because those learned later do
            # not matter.
            raise RefusedSegmentError("facts about the chain changed after the request")
        try:
            window = answer.to_window()
        except ValueError as error:
            raise SegmentError(str(error)) from None
        endpoint.limits.range_sizer.record_response(
            window.range, len(window.logs), answer.observed.seconds
        )
        endpoint.status.record_success()
        WINDOW_BLOCKS.labels(endpoint.name).set(len(window.range))
        return window

    def _merge_observations(
        self, request: SegmentRequest, endpoint: Endpoint, observations: WorkerObservations
    ) -> None:
        add_counter_increases(observations.counter_increases)
        self._call_estimate = max(1, observations.calls)
        # The estimated calls were already reserved with the request, so only the difference is
        # taken.
        endpoint.health.rate_limiter.take_tokens(
            observations.calls - self._reserved_calls.pop(request.number, 0)
        )
        for name, facts in observations.facts.items():
            if name in {known_endpoint.name for known_endpoint in self.endpoints}:
                lower_block_limit(self.endpoints.endpoint_list.get(name), facts)
        endpoint.highest_block = max(endpoint.highest_block, observations.highest)

    def _record_endpoint_throttling(
        self, request: SegmentRequest, endpoint: Endpoint, refusal: SegmentRefusal
    ) -> None:
        """Apply an endpoint's rate limit only once for all pending requests."""
        if refusal.kind != ErrorKind.THROTTLED.value:
            return
        if request.number >= self._throttled_from.get(endpoint.name, 0):
            endpoint.health.rate_limiter.record_throttling(refusal.retry_after)
            self._throttled_from[endpoint.name] = self._last_number + 1

    def _select_endpoint(self) -> Endpoint | None:
        """Return the preferred healthy endpoint, or None if there is none."""
        sorted_endpoints = self.endpoints.endpoint_list.sort_by_preference(self.endpoints)
        usable_endpoints = (
            candidate
            for candidate in sorted_endpoints
            if candidate.find_unavailability_error() is None and candidate.is_usable()
        )
        return next(
            (
                candidate
                for candidate in usable_endpoints
                if self.endpoint_name in {None, candidate.name}
            ),
            None,
        )

    def _build_writer_state(self) -> WriterState:
        checkpoints = tuple(
            (checkpoint.number, str(checkpoint.hash), checkpoint.source)
            for checkpoint in self.endpoints.checkpoints
        )
        return WriterState(
            self.window_source.collect_facts(),
            checkpoints,
            {endpoint.name: endpoint.highest_block for endpoint in self.endpoints},
            {endpoint.name: endpoint.client.batch_limit for endpoint in self.endpoints},
            self.endpoints.providers(),
        )
