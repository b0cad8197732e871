"""Prepares ranges: fetches, verifies and decodes them, as a function of an order.

Anything unusual is refused: a contradiction, a repaired answer, a new fact about the chain. The
writer then reads the range itself, with all endpoints; no decision about trust is made here.
See docs/explanation/segments.md#worker.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.fetch.window_source import WindowSource
from oracle.chain.segments.carried_metrics import Counted, counted, since
from oracle.chain.segments.order import Facts, SegmentOrder, SegmentPlan, WriterState
from oracle.chain.segments.segment import (
    Observed,
    RefusedSegmentError,
    SegmentRefusal,
    pack,
    segment_of,
)
from oracle.chain.verification.calibration import Calibration, HeaderFeature, fact_of
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.ids import Hash
from oracle.rpc.endpoints.checkpoints import Checkpoint
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.rate_limiter import RateLimiter
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import RpcError

# Calls are samples too. Valid senders do not change the level of a range: an answer that
# contradicts a signature is refused before and after.
_SENDERS_ARE_RIGHT = {fact_of(HeaderFeature.SENDER): "right"}


@dataclass(slots=True)
class _CountingLimiter(RateLimiter):
    """A rate limiter that also counts calls, which are reported to the writer's limiter."""

    spent: int = 0

    @override
    def spend(self, calls: int) -> None:
        self.spent += calls
        RateLimiter.spend(self, calls)


class _WatchedPool(EndpointPool):
    """An endpoint pool that records doubts about endpoints instead of acting on them."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        chain_id: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(endpoints, chain_id, clock)
        self.limiters = {endpoint.name: _CountingLimiter(clock) for endpoint in endpoints}
        for endpoint in endpoints:
            endpoint.health.bucket = self.limiters[endpoint.name]
        self.doubts: list[str] = []

    @override
    def deprioritise(self, endpoint: Endpoint | str, check: str) -> None:
        self.doubts.append(check)

    @override
    def quarantine(
        self,
        endpoint: Endpoint | str,
        reason: str,
        checkpoint: Checkpoint | None = None,
        *,
        is_foreign: bool = False,
    ) -> None:
        self.doubts.append(reason)

    def spent(self) -> int:
        """Return the number of calls made so far."""
        return sum(limiter.spent for limiter in self.limiters.values())


@dataclass(slots=True)
class _FactStore:
    """The writer's facts, in place of a database; new facts are recorded separately."""

    known: Facts
    learned: Facts = field(default_factory=dict)

    def recall(self, endpoint: str) -> dict[str, str]:
        return dict(self.known.get(endpoint, {}))

    def keep(self, endpoint: str, key: str, value: str, _seconds: float | None) -> None:
        self.learned.setdefault(endpoint, {})[key] = value


class Preparer:
    """Prepares one plan's ranges with its own endpoints; used by one thread.

    Raises:
        InputError: this version cannot read the plan.
    """

    def __init__(self, plan: SegmentPlan, urls: Sequence[str]) -> None:
        self._plan, self._plan_id, self._urls = plan, plan.id, tuple(urls)
        self._reader = plan.reader()
        self._pool: _WatchedPool | None = None
        self._windows: WindowSource | None = None
        self._store = _FactStore({})

    def prepare(self, order: SegmentOrder) -> bytes:
        """Return an encoded segment, or an encoded refusal; errors are never raised."""
        began, counters = time.monotonic(), counted()
        spent = 0 if self._pool is None else self._pool.spent()
        try:
            if order.plan != self._plan_id:
                raise RefusedSegmentError("the order of another plan")  # noqa: TRY301
            window = self._window(order)
            said = self._reader.read(window.logs, window.calls)
            observed = self._observed(order, since(counters), spent, began)
            return pack(segment_of(order, window, said, observed))
        except Exception as error:  # noqa: BLE001  # whoever reads the range again raises it
            observed = self._observed(order, since(counters, is_refused=True), spent, began)
            # State after an error is dropped here: the writer tracks failures.
            self.close()
            return pack(_refusal(order, error, observed))

    def close(self) -> None:
        """Close the connections, and drop learned facts."""
        if self._pool is not None:
            self._pool.close()
        self._pool = self._windows = None

    def _window(self, order: SegmentOrder) -> BlockWindow:
        windows, pool = self._opened(order.known)
        for endpoint in pool:
            endpoint.highest_block = max(
                endpoint.highest_block, order.known.highest.get(endpoint.name, -1)
            )
        if order.rate is not None:
            limiter = pool.limiters[order.endpoint]
            limiter.rate = min(limiter.rate, order.rate)
        blocks = BlockRange(order.first, order.last)
        if order.level is None:
            window = windows.from_one(blocks, order.endpoint)
        else:
            window = windows.verified(blocks, Level(order.level), order.endpoint, None)
        calibration = windows.calibration
        if pool.doubts or pool.listed.proven_wrong():
            raise RefusedSegmentError(f"something was out of the ordinary: {pool.doubts}")
        learned = dict(calibration.facts().items() - order.known.facts.get("", {}).items())
        if learned and learned != _SENDERS_ARE_RIGHT:
            raise RefusedSegmentError("something was learned of the chain")
        if window.last.number > order.last:
            raise RefusedSegmentError("there is no block at any of its heights")
        return window

    def _opened(self, known: WriterState) -> tuple[WindowSource, _WatchedPool]:
        """Return the window source and its pool, with the writer's facts."""
        pool, windows = self._pool, self._windows
        if pool is None:
            pool = self._pool = _WatchedPool.open(
                self._urls, self._plan.chain_id, max_bytes=self._plan.most_bytes
            )
            for endpoint in pool:
                # Settings define providers but are not sent: a host may contain a key.
                endpoint.provider = known.providers.get(endpoint.name, endpoint.provider)
                if endpoint.name in known.batches:
                    endpoint.client.learn_batch(known.batches[endpoint.name])
        for number, block_hash, source in known.checkpoints:
            pool.hold(Checkpoint(number, Hash(block_hash), source))
        if windows is None or known.facts != self._store.known:
            self._store = _FactStore(known.facts)
            calibration = Calibration(keeper=self._store)
            windows = WindowSource(pool, self._reader, self._plan.policy, calibration)
            self._windows = windows
        return windows, pool

    def _observed(
        self, order: SegmentOrder, counters: Counted, spent: int, began: float
    ) -> Observed:
        pool = self._pool
        calls = 0 if pool is None else max(0, pool.spent() - spent)
        highest = -1 if pool is None else pool.listed.of(order.endpoint).highest_block
        seconds = time.monotonic() - began
        return Observed(calls, counters, self._store.learned, highest, seconds)


def _refusal(order: SegmentOrder, error: Exception, observed: Observed) -> SegmentRefusal:
    kind = error.kind.value if isinstance(error, RpcError) else ""
    wait = error.retry_after if isinstance(error, RpcError) else None
    words = f"{type(error).__name__}: {error}"
    return SegmentRefusal(order.plan, order.number, kind, words, wait, observed)
