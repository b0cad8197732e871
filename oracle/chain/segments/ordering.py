"""The writer's side of an order: what is known goes out, what was learned comes back.

Health, limits and trust of the endpoints are merged here, in one thread, in the order in which
answers are taken. See docs/explanation/segments.md#what-is-shared.
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

# What an order is taken to cost before the first one has told.
_FIRST_CALLS = 8


@dataclass(slots=True)
class SegmentOrdering:
    """Gives orders of one plan and takes their answers in; used by one thread.

    Blocks are verified up to `level`, None: as history is, by the endpoint of this name, None: by
    the preferred one.
    """

    plan: SegmentPlan
    endpoints: EndpointPool
    windows: WindowSource
    workers: int
    level: Level | None = None
    endpoint: str | None = None
    _number: int = 0
    _plan_id: bytes = field(init=False)
    # How many calls an order is taken to cost, and what was put aside for each that is out.
    _calls: int = _FIRST_CALLS
    _reserved: dict[int, int] = field(default_factory=dict)
    # Orders below this number were given before the endpoint named its limit last.
    _heard: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plan_id = self.plan.id

    def is_possible(self) -> bool:
        """Tell whether ranges may be prepared elsewhere: what they rest on is known.

        It is found out here, before the first order: what a block reaches does not depend on who
        came to read it.
        """
        if self._asked() is None:
            return False
        if not self.windows.is_settled():
            try:
                self.windows.calibrate()
            except TransientError:
                # Whoever reads the range next hears of it.
                return False
        return self.windows.is_settled()

    def order(self, part: BlockRange) -> SegmentOrder | None:
        """Return the order of a range; None: no endpoint may be asked now."""
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
        """Note that an order will not be answered."""
        self._reserved.pop(order.number, None)

    def accept(
        self, order: SegmentOrder, given: bytes, *, is_recalled: bool = False
    ) -> BlockWindow:
        """Return the window that an order was answered with.

        `is_recalled`: in an earlier run, which counted what it had cost.

        Raises:
            SegmentError: it is no answer to this order.
            RefusedSegmentError: there is none, or it rests on what is not believed any more.
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
            # What was won meanwhile takes nothing away.
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
        # What was put aside was spent already.
        endpoint.health.bucket.spend(observed.calls - self._reserved.pop(order.number, 0))
        for name, facts in observed.facts.items():
            if name in {one.name for one in self.endpoints}:
                tighten(self.endpoints.listed.of(name), facts)
        endpoint.highest_block = max(endpoint.highest_block, observed.highest)

    def _hear(self, order: SegmentOrder, endpoint: Endpoint, refusal: SegmentRefusal) -> None:
        """Count an endpoint that asks us to wait once for all orders that were out."""
        if refusal.kind != ErrorKind.THROTTLED.value:
            return
        if order.number >= self._heard.get(endpoint.name, 0):
            endpoint.health.bucket.refused(refusal.retry_after)
            self._heard[endpoint.name] = self._number + 1

    def _asked(self) -> Endpoint | None:
        """Return the endpoint that is preferred of those that are well; None: none is."""
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
