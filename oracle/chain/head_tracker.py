"""Follows the head of the chain over all endpoints; endpoints that lag or stall are not used.

See docs/explanation/ingest.md#heads.
"""

from collections.abc import Callable
from dataclasses import replace

import structlog

from oracle.chain.finality import Finality
from oracle.chain.heads import Heads, WrongChainError, read_heads
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics

# Without a new block for this long, the other endpoints are queried as well.
STANDSTILL_SECONDS = 30.0
# The chain has stalled after this many block times, and at least this many seconds.
_STALL_BLOCKS = 10
_LEAST_STALL_SECONDS = 60.0
# Cap on the time counted between two checks: the machine may have been suspended.
_MOST_COUNTED = 20.0
# After this long with every answering endpoint below the final block, it is dropped.
_LONGEST_BELOW_SECONDS = 60.0
# Weight of the newest block in the moving average of block times.
_NEWEST = 0.2


class StallDetector:
    """Detects that the chain has stalled, as opposed to being slow.

    Block times are in seconds of block timestamps; the length of a stall is in seconds of the
    local clock during which the chain was checked.
    """

    def __init__(self) -> None:
        self.block_seconds = 0.0
        self._newest: BlockRef | None = None
        self._looked_at = 0.0
        self._watched = 0.0

    def saw(self, latest: BlockRef, older: BlockRef, now: float) -> None:
        """Update the detector; `older_block` is any block below the newest one."""
        before = self._newest or older
        if latest.hash != before.hash:
            if latest.number > before.number:
                took = (latest.time - before.time) / (latest.number - before.number)
                mean = self.block_seconds or took
                self.block_seconds = max(0.0, mean + _NEWEST * (took - mean))
            self._newest, self._watched = latest, 0.0
        else:
            self._watched += min(_MOST_COUNTED, max(0.0, now - self._looked_at))
        self._looked_at = now

    @property
    def is_long(self) -> bool:
        """Whether no block has arrived for much longer than the usual block time."""
        bearable = max(_STALL_BLOCKS * self.block_seconds, _LEAST_STALL_SECONDS)
        return self.seconds > bearable

    @property
    def seconds(self) -> float:
        """Seconds without a new block, counted only while the chain was checked."""
        return self._watched


class HeadTracker:
    """Fetches heads through the endpoints on request; used by one thread at a time.

    `clock` counts seconds.
    """

    def __init__(
        self, endpoints: EndpointPool, finality: Finality, clock: Callable[[], float]
    ) -> None:
        self._endpoints = endpoints
        self._finality = finality
        self._clock = clock
        self._final: BlockRef | None = None
        # The highest block seen, and when it arrived or all endpoints were found to be at it.
        self._newest = -1
        self._moved_at = clock()
        self._standstill = StallDetector()
        # Every endpoint has been queried since the last new block, and none is ahead.
        self._all_stand = False
        self._is_stalled = False
        # Since when all endpoints have been below the final block; None if one is not.
        self._below_since: float | None = None

    @property
    def block_seconds(self) -> float:
        """Average block time in seconds of block timestamps; 0 until two blocks were seen."""
        return self._standstill.block_seconds

    @property
    def newest(self) -> int:
        """The highest block number seen; -1 before the first check."""
        return self._newest

    @property
    def stalled_seconds(self) -> float | None:
        """Seconds since any endpoint showed a new block; None if the chain is not stalled."""
        return self._standstill.seconds if self._is_stalled else None

    def fall_back(self, number: int = -1) -> None:
        """Lower the newest block to this number, and reset the final block.

        Called when the endpoint that showed higher blocks was outvoted.
        """
        self._newest = min(self._newest, number)
        self._final = None

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down.

        An endpoint that is stalled, or behind what another one has shown, is set aside while any
        other one is ahead of it. On the first call every endpoint is queried.

        Raises:
            TransientError: no endpoint is up to date with the known final block.
            InputError: all endpoints are on another chain, and were from the start.
        """
        behind: dict[Endpoint, Heads] = {}
        below: list[int] = []

        def ahead(endpoint: Endpoint) -> Heads:
            try:
                heads = self._look(endpoint)
            except RpcError as error:
                if error.kind is ErrorKind.BEHIND:
                    below.append(endpoint.highest_block)
                raise
            if self._is_behind(heads.latest.number):
                behind[endpoint] = heads
                words = f"at block {heads.latest.number}"
                raise RpcError(endpoint.name, ErrorKind.BEHIND, words)
            return heads

        try:
            heads = self._endpoints.use(ahead)
        except RpcError:
            if not behind:
                self._doubt_final(below)
                raise
            heads = self._best(behind)
        return self._seen(heads)

    def _look(self, endpoint: Endpoint) -> Heads:
        try:
            return read_heads(
                endpoint, self._finality, self._final, self._endpoints.checkpoints[:1]
            )
        except WrongChainError as error:
            self._endpoints.quarantine(endpoint, error.words, is_foreign=True)
            raise

    def _doubt_final(self, shown: list[int]) -> None:
        """Drop the final block after no endpoint has reached it for a minute.

        A single endpoint was enough to report it, and may have been wrong or be gone; a restart
        would not know about it either. Blocks stored as final in the database stay final.
        """
        final, now = self._final, self._clock()
        if final is None or not shown:
            return
        if self._below_since is None:
            self._below_since = now
        elif now - self._below_since > _LONGEST_BELOW_SECONDS:
            self._below_since = None
            self.fall_back(max(shown))
            structlog.get_logger().warning(
                "finalized_tag_regressed", number=final.number, hash=final.hash, newest=max(shown)
            )

    def _best(self, behind: dict[Endpoint, Heads]) -> Heads:
        """Return the heads of the endpoint with the highest block.

        All endpoints were set aside, so the chain has stalled or has become shorter.
        """
        best = max(behind.values(), key=lambda seen: seen.latest.number)
        self._endpoints.acquit(
            endpoint
            for endpoint, heads in behind.items()
            if heads.latest.number == best.latest.number
        )
        self._all_stand = best.latest.number <= self._newest
        self._moved_at = self._clock()
        return best

    def _seen(self, heads: Heads) -> Heads:
        now = self._clock()
        if heads.latest.number > self._newest:
            self._newest, self._moved_at = heads.latest.number, now
            self._all_stand = False
        self._final, self._below_since = heads.final, None
        self._standstill.saw(heads.latest, heads.final, now)
        is_certain = self._all_stand or len(self._endpoints) == 1
        stalled = self._is_stalled = is_certain and self._standstill.is_long
        metrics.STALLED.set(stalled)
        return replace(heads, stalled=stalled)

    def _is_behind(self, newest: int) -> bool:
        if len(self._endpoints) == 1:
            return False
        stands_still = self._clock() - self._moved_at > STANDSTILL_SECONDS
        is_first = self._newest < 0
        return is_first or newest < self._newest or (newest == self._newest and stands_still)
