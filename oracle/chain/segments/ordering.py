"""The writer's side of orders: sends its facts to workers, and merges the facts they learned.

Health, limits and trust of endpoints are merged here, in one thread, in the order in which
answers are accepted. See docs/explanation/segments.md#what-is-shared.
"""

import math
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.limit_memory import tighten
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.segments.carried_metrics import take
from oracle.chain.segments.order import SegmentOrder, SegmentPlan, WriterState
from oracle.chain.segments.segment import (
    Observed,
    RefusedSegmentError,
    SegmentError,
    SegmentRefusal,
    unpack,
)
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind
from oracle.telemetry.indexer_metrics import WINDOW_BLOCKS

# The estimated calls of an order before the first answer.
_FIRST_CALLS = 8


@dataclass(slots=True)
class SegmentOrdering:
    """Creates the orders of one plan and accepts their answers; used by one thread.

    Blocks are verified up to `level`, or as history if None, by the endpoint of this name, or by
    the preferred one if None.
    """

    plan: SegmentPlan
    endpoints: EndpointPool
    windows: WindowSource
    workers: int
    level: Level | None = None
    endpoint: str | None = None
    _number: int = 0
    _plan_id: bytes = field(init=False)
    # The estimated calls of an order, and the calls reserved for each pending order.
    _calls: int = _FIRST_CALLS
    _reserved: dict[int, int] = field(default_factory=dict)
    # By endpoint: orders below this number were sent before its last rate limit.
    _heard: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plan_id = self.plan.id

    def is_possible(self) -> bool:
        """Return whether workers may prepare ranges, because the calibration is settled.

        Missing samples are taken here, before the first order, so that the level of a block does
        not depend on which process reads it.
        """
        if self._asked() is None:
            return False
        if not self.windows.is_settled():
            try:
                self.windows.calibrate()
            except TransientError:
                # The error is raised again when the writer reads the range itself.
                return False
        return self.windows.is_settled()

    def order(self, part: BlockRange) -> SegmentOrder | None:
        """Return the order of a range, or None if no endpoint may be queried now."""
        endpoint = self._asked()
        if endpoint is None:
            return None
        self._number += 1
        bucket = endpoint.health.bucket
        bucket.spend(self._calls)
        self._reserved[self._number] = self._calls
        rate = None if bucket.rate == math.inf else bucket.rate / self.workers
        return SegmentOrder(
            self._plan_id,
            self._number,
            part.first,
            part.last,
            endpoint.name,
            self._known(),
            rate,
            None if self.level is None else int(self.level),
        )

    def forget(self, order: SegmentOrder) -> None:
        """Release the calls reserved for an order that will not be answered."""
        self._reserved.pop(order.number, None)

    def accept(
        self, order: SegmentOrder, given: bytes, *, is_recalled: bool = False
    ) -> BlockWindow:
        """Return the window in the answer of an order.

        `is_restored`: the answer is of an earlier run, in which its calls were already counted.

        Raises:
            SegmentError: the bytes are not an answer to this order.
            RefusedSegmentError: the worker refused, or the answer relies on facts no longer held.
        """
        answer = unpack(given, order)
        if order.endpoint not in {one.name for one in self.endpoints}:
            raise RefusedSegmentError(f"{order.endpoint} is not asked any more")
        endpoint = self.endpoints.listed.of(order.endpoint)
        if not is_recalled:
            self._merge(order, endpoint, answer.observed)
        if isinstance(answer, SegmentRefusal):
            self._hear(order, endpoint, answer)
            raise RefusedSegmentError(answer.words)
        if answer.endpoint != order.endpoint:
            raise SegmentError("the answer of another endpoint")
        if endpoint.status.quarantined is not None:
            raise RefusedSegmentError(f"{endpoint.name} was quarantined since")
        now = self.windows.calibration.facts()
        if any(now.get(fact) != said for fact, said in order.known.facts[""].items()):
            # Facts learned since then do not invalidate the answer.
            raise RefusedSegmentError("less is believed of the chain since")
        try:
            window = answer.window()
        except ValueError as error:
            raise SegmentError(str(error)) from None
        endpoint.limits.sizer.answered(window.range, len(window.logs), answer.observed.seconds)
        endpoint.status.worked()
        WINDOW_BLOCKS.labels(endpoint.name).set(len(window.range))
        return window

    def _merge(self, order: SegmentOrder, endpoint: Endpoint, observed: Observed) -> None:
        take(observed.counted)
        self._calls = max(1, observed.calls)
        # The reserved calls were spent when the order was created.
        endpoint.health.bucket.spend(observed.calls - self._reserved.pop(order.number, 0))
        for name, facts in observed.facts.items():
            if name in {one.name for one in self.endpoints}:
                tighten(self.endpoints.listed.of(name), facts)
        endpoint.highest_block = max(endpoint.highest_block, observed.highest)

    def _hear(self, order: SegmentOrder, endpoint: Endpoint, refusal: SegmentRefusal) -> None:
        """Apply an endpoint's rate limit once for all orders that were pending."""
        if refusal.kind != ErrorKind.THROTTLED.value:
            return
        if order.number >= self._heard.get(endpoint.name, 0):
            endpoint.health.bucket.refused(refusal.retry_after)
            self._heard[endpoint.name] = self._number + 1

    def _asked(self) -> Endpoint | None:
        """Return the preferred healthy endpoint, or None."""
        asked = self.endpoints.listed.by_preference(self.endpoints)
        well = (one for one in asked if one.refusal() is None and one.is_usable())
        return next((one for one in well if self.endpoint in {None, one.name}), None)

    def _known(self) -> WriterState:
        checkpoints = tuple(
            (one.number, str(one.hash), one.source) for one in self.endpoints.checkpoints
        )
        return WriterState(
            self.windows.facts(),
            checkpoints,
            {endpoint.name: endpoint.highest_block for endpoint in self.endpoints},
            {endpoint.name: endpoint.client.batch_limit for endpoint in self.endpoints},
            self.endpoints.providers(),
        )
