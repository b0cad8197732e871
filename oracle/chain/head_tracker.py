"""Follows the head over all endpoints: nobody who lags or stands still is believed.

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

# When the newest block has stayed the same for longer, the other endpoints are asked as well.
STANDSTILL_SECONDS = 30.0
# The chain has stalled when no block came for so many block times, and at least so many seconds.
_STALL_BLOCKS = 10
_LEAST_STALL_SECONDS = 60.0
# More than this between two looks is not counted: the machine may have slept.
_MOST_COUNTED = 20.0
# Who alone called a block final is believed no more when all who answer stood below it so long.
_LONGEST_BELOW_SECONDS = 60.0
# Weight of the newest block in the running mean of block times.
_NEWEST = 0.2


class StallDetector:
    """Tells a chain that stands still from one that is slow; seconds are those of two clocks.

    How long blocks take is in block time; for how long none came, in seconds that were watched.
    """

    def __init__(self) -> None:
        self.block_seconds = 0.0
        self._newest: BlockRef | None = None
        self._looked_at = 0.0
        self._watched = 0.0

    def saw(self, latest: BlockRef, older: BlockRef, now: float) -> None:
        """Take one look in; `older` is any block below the newest one."""
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
        """Whether no block has come for far longer than blocks take."""
        bearable = max(_STALL_BLOCKS * self.block_seconds, _LEAST_STALL_SECONDS)
        return self.seconds > bearable

    @property
    def seconds(self) -> float:
        """For how long no block has come, in seconds that were watched."""
        return self._watched


class HeadTracker:
    """Looks at the heads through the endpoints, for one thread at a time; asks nothing by itself.

    `clock` counts seconds.
    """

    def __init__(
        self, endpoints: EndpointPool, finality: Finality, clock: Callable[[], float]
    ) -> None:
        self._endpoints = endpoints
        self._finality = finality
        self._clock = clock
        self._final: BlockRef | None = None
        # The highest block seen, and when it came or all endpoints were found to stand there.
        self._newest = -1
        self._moved_at = clock()
        self._standstill = StallDetector()
        # Every endpoint has been asked since the last block came.
        self._all_stand = False
        self._is_stalled = False
        # Since when nobody has come as far as what was final before; None: somebody has.
        self._below_since: float | None = None

    @property
    def block_seconds(self) -> float:
        """How long blocks take, in seconds of block time; 0 until two were seen."""
        return self._standstill.block_seconds

    @property
    def newest(self) -> int:
        """The highest block seen; -1 before the first look."""
        return self._newest

    @property
    def stalled_seconds(self) -> float | None:
        """For how long no endpoint has shown a new block; None: the chain moves, as of late."""
        return self._standstill.seconds if self._is_stalled else None

    def fall_back(self, number: int = -1) -> None:
        """Take this for the newest block, and no block for final: who said more was outvoted."""
        self._newest = min(self._newest, number)
        self._final = None

    def heads(self) -> Heads:
        """Return newest, safe and final block; `final` never goes down.

        An endpoint that stands still, or is behind what another one has shown, is put aside
        while any other one is ahead of it. At the first look every one is asked.

        Raises:
            TransientError: no endpoint is up to date with the final block known.
            InputError: all are on another chain, and were from the start.
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
        """Take no block for final any more that nobody has come up to for a minute.

        One endpoint was enough to say it, and may have been wrong, or is gone: a restart would
        not know of it either. What the database holds as final stays so.
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
        """All the same: then the chain stands still, or it became shorter."""
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
