"""Follows the head of the chain with all endpoints that neither lag nor have stalled.

A head far above the blocks that were read is rejected if its endpoint does not return its blocks,
and another witness has a lower head. Otherwise the index would seem to be far behind, and nothing
would be published. See docs/explanation/ingest.md#heads and
docs/explanation/endpoints.md#inflated-heads.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from oracle.chain.heads import Finality, Heads, WrongChainError, fetch_heads_in_batch
from oracle.chain.witnesses import Witness, WitnessFetcher
from oracle.domain.blocks import BlockRef
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.logger import get_logger

# If the preferred endpoint has had no new block for this long, all other endpoints are queried
# too.
STANDSTILL_SECONDS = 30.0
# The chain counts as stalled after this many block times without a new block, but not before the
# minimum in seconds.
_STALL_BLOCKS = 10
_MIN_STALL_SECONDS = 60.0
# Maximum time, in seconds, that counts as passed between two checks. After a longer gap, the
# machine may have been suspended.
_MAX_COUNTED_SECONDS = 20.0
# If all responding endpoints are below the final block for this long, the final block is reset.
_MAX_BELOW_FINAL_SECONDS = 60.0
# The weight of the newest block in the moving average of block times.
_NEWEST_WEIGHT = 0.2
# The chain is polled at short intervals around the expected time of the next block, one block time
# after the previous block was seen. Short polling starts early by 15 % of the block time (at most
# a quarter of a second), because the previous block may have been seen late. It stops half a
# second late, because the next block may be late.
_EARLY_SHARE, _MAX_EARLY_SECONDS = 0.15, 0.25
_LATE_SECONDS = 0.5
_SHORT_POLL_SECONDS = 0.1
# For a shorter block time, no wait is estimated, because polling would always be at short
# intervals.
_MIN_EXPECTED_BLOCK_SECONDS = 0.75
# A head that is at most this many blocks above the newest known block is not checked. An index
# that is this far behind still counts as synced (`txmgr.context.BLOCKS_UNDER_HEAD`).
MAX_UNCHECKED_BLOCKS = 2
# An endpoint confirms its head if it returns a block at one of this many heights above the other
# witness's head.
_NEXT_HEIGHTS = 10
_PARENT_REQUESTS = 2
_MISSING_PARENT = "it and its parent"
# A head that cannot be read for this long is refuted by a lower head. This is longer than most
# endpoints take to recover from a refusal, or to serve the receipts of their newest block.
_MAX_UNREADABLE_SECONDS = 30.0


class StallDetector:
    """Detects that a chain has stalled, and not merely that its blocks are slow.

    Block times are measured by block timestamps. The length of a stall is measured by the local
    clock, and includes only times at which the chain was checked.
    """

    def __init__(self) -> None:
        self.block_seconds = 0.0
        self._newest_number: BlockRef | None = None
        self._checked_at = 0.0
        self._stalled_seconds = 0.0

    def observe_head(self, latest_block: BlockRef, older_block: BlockRef, now: float) -> None:
        """Record the newest block as of `now`.

        The block time is computed from `older_block`.
        """
        previous_head = self._newest_number or older_block
        if latest_block.hash != previous_head.hash:
            if latest_block.number > previous_head.number:
                block_seconds = (latest_block.time - previous_head.time) / (
                    latest_block.number - previous_head.number
                )
                mean_block_seconds = self.block_seconds or block_seconds
                self.block_seconds = max(
                    0.0, mean_block_seconds + _NEWEST_WEIGHT * (block_seconds - mean_block_seconds)
                )
            self._newest_number, self._stalled_seconds = latest_block, 0.0
        else:
            self._stalled_seconds += min(_MAX_COUNTED_SECONDS, max(0.0, now - self._checked_at))
        self._checked_at = now

    @property
    def is_stalled(self) -> bool:
        """Whether no block has arrived for much longer than the usual block time."""
        max_stall_seconds = max(_STALL_BLOCKS * self.block_seconds, _MIN_STALL_SECONDS)
        return self.stalled_seconds > max_stall_seconds

    @property
    def stalled_seconds(self) -> float:
        """Seconds without a new block, counted only while the chain was checked."""
        return self._stalled_seconds


class HeadTracker:
    """Fetches heads from the endpoints on request.

    It is used by one thread at a time. `clock` counts seconds.
    """

    def __init__(
        self, endpoints: EndpointPool, finality: Finality, clock: Callable[[], float]
    ) -> None:
        self._endpoints = endpoints
        self.finality = finality
        self._clock = clock
        self._final_block: BlockRef | None = None
        # The number of the highest known block, and the time at which it arrived or at which all
        # endpoints had reached it.
        self._newest_number = -1
        self._moved_at = clock()
        self._stall_detector = StallDetector()
        # True if every endpoint was queried since the last new block and none has a newer block.
        self._all_stalled = False
        self._is_stalled = False
        # The time at which the endpoints fell below the final block, or None if they have not.
        self._below_final_since: float | None = None

    @property
    def block_seconds(self) -> float:
        """The average number of seconds between blocks, or 0 until two blocks were seen."""
        return self._stall_detector.block_seconds

    def estimate_poll_wait(self) -> float | None:
        """Return the seconds after which a poll will probably find a new block.

        The result is None if the block time is unknown.
        """
        block_seconds = self.block_seconds
        if block_seconds < _MIN_EXPECTED_BLOCK_SECONDS:
            return None
        seconds_left = self._moved_at + block_seconds - self._clock()
        if seconds_left < -_LATE_SECONDS:
            return None
        early_seconds = min(_EARLY_SHARE * block_seconds, _MAX_EARLY_SECONDS)
        return max(seconds_left - early_seconds, _SHORT_POLL_SECONDS)

    @property
    def newest_number(self) -> int:
        """The number of the highest block seen, or -1 before the first check."""
        return self._newest_number

    @property
    def stalled_seconds(self) -> float | None:
        """Seconds without a new block from any endpoint, or None if the chain is not stalled."""
        return self._stall_detector.stalled_seconds if self._is_stalled else None

    def reset_head(self, max_number: int = -1) -> None:
        """Lower the newest known block number, and reset the final block.

        The new number is at most `max_number`. This is needed when an endpoint that reported
        higher blocks was outvoted, or is gone.
        """
        self._newest_number = min(self._newest_number, max_number)
        self._final_block = None

    def fetch_heads(self) -> Heads:
        """Fetch the newest, safe and final block.

        The final block goes down only if it was reset (`reset_head`), for example because all
        endpoints were below it for a minute. An endpoint that has stalled, or whose head is below
        a block of another endpoint, is not used while another endpoint is ahead of it. The first
        call queries every endpoint.

        Raises:
            TransientError: no endpoint has reached the known final block.
            InputError: all endpoints have been on another chain since the start.
        """
        heads_of_lagging: dict[Endpoint, Heads] = {}
        heads_below_final: list[int] = []

        def fetch_heads_if_ahead(endpoint: Endpoint) -> Heads:
            try:
                heads = self._fetch_endpoint_heads(endpoint)
            except RpcError as error:
                if error.kind is ErrorKind.BEHIND:
                    heads_below_final.append(endpoint.highest_block)
                raise
            if self._is_behind(heads.latest.number):
                heads_of_lagging[endpoint] = heads
                message = f"at block {heads.latest.number}"
                raise RpcError(endpoint.name, ErrorKind.BEHIND, message)
            return heads

        try:
            heads = self._endpoints.run_with_endpoint(fetch_heads_if_ahead)
        except RpcError:
            if not heads_of_lagging:
                self._drop_unreached_final_block(heads_below_final)
                raise
            heads = self._select_best_heads(heads_of_lagging)
        return self._record_heads(heads)

    def fetch_heads_of(self, endpoint_name: str) -> Heads:
        """Fetch the heads of one endpoint, even if other endpoints are ahead.

        Raises:
            RpcError: the endpoint does not answer.
        """
        return self._record_heads(
            self._endpoints.run_with_endpoint(
                self._fetch_endpoint_heads, only_endpoint=endpoint_name
            )
        )

    def _fetch_endpoint_heads(self, endpoint: Endpoint) -> Heads:
        try:
            return fetch_heads_in_batch(
                endpoint, self.finality, self._final_block, self._endpoints.checkpoints[:1]
            )
        except WrongChainError as error:
            self._endpoints.quarantine(endpoint, error.detail, is_on_other_chain=True)
            raise

    def _drop_unreached_final_block(self, shown_numbers: list[int]) -> None:
        """Drop the final block if no endpoint has reached it for a minute.

        The final block may have been reported by a single endpoint that was wrong or is gone, and
        a restarted process would not know the block either. Blocks that are stored as final in the
        database stay final.
        """
        final_block = self._final_block
        now = self._clock()
        if final_block is None or not shown_numbers:
            return
        if self._below_final_since is None:
            self._below_final_since = now
        elif now - self._below_final_since > _MAX_BELOW_FINAL_SECONDS:
            self._below_final_since = None
            self.reset_head(max(shown_numbers))
            get_logger().warning(
                "finalized_tag_regressed",
                number=final_block.number,
                hash=final_block.hash,
                newest=max(shown_numbers),
            )

    def _select_best_heads(self, heads_of_lagging: dict[Endpoint, Heads]) -> Heads:
        """Return the heads from the endpoint with the highest block.

        No endpoint has a new block, so the chain has stalled or has become shorter.
        """
        best_heads = max(
            heads_of_lagging.values(), key=lambda lagging_heads: lagging_heads.latest.number
        )
        self._endpoints.clear_failures(
            endpoint
            for endpoint, heads in heads_of_lagging.items()
            if heads.latest.number == best_heads.latest.number
        )
        self._all_stalled = best_heads.latest.number <= self._newest_number
        self._moved_at = self._clock()
        return best_heads

    def _record_heads(self, heads: Heads) -> Heads:
        now = self._clock()
        if heads.latest.number > self._newest_number:
            self._newest_number, self._moved_at = heads.latest.number, now
            self._all_stalled = False
        self._final_block, self._below_final_since = heads.final, None
        self._stall_detector.observe_head(heads.latest, heads.final, now)
        is_certain = self._all_stalled or len(self._endpoints) == 1
        is_stalled = self._is_stalled = is_certain and self._stall_detector.is_stalled
        metrics.STALLED.set(is_stalled)
        return replace(heads, stalled=is_stalled)

    def _is_behind(self, newest_block: int) -> bool:
        if len(self._endpoints) == 1:
            return False
        is_stalled = self._clock() - self._moved_at > STANDSTILL_SECONDS
        is_first_fetch = self._newest_number < 0
        return (
            is_first_fetch
            or newest_block < self._newest_number
            or (newest_block == self._newest_number and is_stalled)
        )


class HeadRefutation(NamedTuple):
    """A witness with a lower head, and the reason why this head must be used, for the log."""

    witness: Witness
    reason: str


class HeadClaims:
    """Compares an endpoint's head with the heads of other witnesses.

    One thread uses the object.
    """

    def __init__(
        self, endpoints: EndpointPool, witnesses: WitnessFetcher, clock: Callable[[], float]
    ) -> None:
        self._endpoints = endpoints
        self._witnesses = witnesses
        self._clock = clock
        # For each endpoint whose head has been unreadable since the last block was read: the
        # duration in seconds, and the time of the last failure.
        self._failures: dict[str, tuple[float, float]] = {}
        # The highest block that was read, and the highest block that two witnesses claim to have.
        # Both witnesses may have invented the latter.
        self._read_number = -1
        self._confirmed_number = -1

    def record_read_block(self, number: int) -> None:
        """Record a block that was read.

        A head only slightly above this block is not checked.
        """
        self._read_number = max(self._read_number, number)
        self._failures.clear()

    def restore_read_number(self, number: int) -> None:
        """Record the newest indexed block, unless a block was read since the process started."""
        if self._read_number < 0:
            self._read_number = number

    def limit_known_number(self, max_number: int) -> None:
        """Lower the highest known number to `max_number` after an endpoint was outvoted."""
        self._read_number = min(self._read_number, max_number)
        self._confirmed_number = min(self._confirmed_number, max_number)

    def find_refutation(self, heads: Heads) -> HeadRefutation | None:
        """Find a witness whose lower head refutes an endpoint's head.

        Its head must replace the head of `heads`. The result is None if there is no such witness.
        A head is accepted if it is close to the newest known block. It is also accepted if its
        endpoint returns the blocks that the other witnesses lack, or if another witness has a head
        close to it and the endpoint returns the newest block and its parent. Therefore a second
        endpoint that lags or has stalled does not hold back the index.
        """
        claimed_number = heads.latest.number
        if claimed_number <= self._read_number:
            self._failures.clear()
        if claimed_number <= max(self._read_number, self._confirmed_number) + MAX_UNCHECKED_BLOCKS:
            return None
        witness = self._fetch_highest_head(heads, claimed_number - MAX_UNCHECKED_BLOCKS)
        if witness is None:
            return None
        witness_number = witness.head.number
        if claimed_number > witness_number + MAX_UNCHECKED_BLOCKS:
            if not self._shows_blocks_above(heads, witness_number):
                return _build_refutation(heads, witness, f"the blocks above {witness_number}")
        elif not self._shows_parent(heads):
            # Both witnesses may have invented the block.
            max_number = claimed_number - MAX_UNCHECKED_BLOCKS - 1
            lower_witness = self._fetch_highest_head(heads, max_number, max_number)
            if lower_witness is not None:
                return _build_refutation(heads, lower_witness, _MISSING_PARENT)
        self._confirmed_number = max(self._confirmed_number, min(claimed_number, witness_number))
        return None

    def find_refutation_after_failure(
        self, heads: Heads, max_number: int, *, is_refuted: bool
    ) -> HeadRefutation | None:
        """Return a refutation of a head whose blocks could not be read, or None.

        The witness of the refutation has the highest head up to `max_number` of all witnesses.
        The blocks above `max_number` that the endpoint of `heads` shows could not be read. This
        proves nothing, because each endpoint may have failed for a moment. The head is therefore
        refuted only if its endpoint's answers contradict its own headers (`is_refuted`), if it
        does not return the newest block and its parent, or if no block has been read for
        `_MAX_UNREADABLE_SECONDS` since its first failure. A long pause between two failures counts
        as `_MAX_COUNTED_SECONDS`, because nothing may have been requested meanwhile.
        """
        now = self._clock()
        seconds, failed_at = self._failures.get(heads.endpoint, (0.0, now))
        seconds += min(_MAX_COUNTED_SECONDS, now - failed_at)
        self._failures[heads.endpoint] = seconds, now
        if is_refuted:
            missing = "receipts and logs that match its headers"
        elif not self._shows_parent(heads):
            missing = _MISSING_PARENT
        elif seconds >= _MAX_UNREADABLE_SECONDS:
            missing = f"readable blocks (for {seconds:.0f} s)"
        else:
            return None
        witness = self._fetch_highest_head(heads, max_number, max_number)
        return None if witness is None else _build_refutation(heads, witness, missing)

    def _fetch_highest_head(
        self, heads: Heads, sufficient_number: int, max_number: int | None = None
    ) -> Witness | None:
        """Fetch the highest head of the other witnesses.

        The result is None if this head is below the read blocks. See
        `WitnessFetcher.fetch_highest_head`.
        """
        witness = self._witnesses.fetch_highest_head(heads.endpoint, sufficient_number, max_number)
        lowest_number = self._read_number - MAX_UNCHECKED_BLOCKS
        return None if witness is None or witness.head.number < lowest_number else witness

    def _shows_blocks_above(self, heads: Heads, lower_number: int) -> bool:
        """Return whether an endpoint returns its newest block and blocks above `lower_number`.

        One of a few blocks above suffices, because the chain may have no block at some heights.
        """
        end_number = min(heads.latest.number, lower_number + _NEXT_HEIGHTS)
        next_blocks = self._fetch_blocks(heads, range(lower_number + 1, end_number + 1))
        return any(next_blocks or ())

    def _shows_parent(self, heads: Heads) -> bool:
        """Return whether an endpoint returns its newest block and the parent of this block.

        An error proves nothing. Behind a load balancer, a server may lack a block that another
        server has just shown, so a missing block is requested twice.
        """
        newest_block = heads.latest
        if newest_block.number == 0:
            return True
        heights = range(max(0, newest_block.number - _NEXT_HEIGHTS), newest_block.number)
        for _ in range(_PARENT_REQUESTS):
            blocks = self._fetch_blocks(heads, heights)
            lower_blocks = [block for block in blocks or () if block is not None]
            if blocks is None or (
                lower_blocks and lower_blocks[-1].hash == newest_block.parent_hash
            ):
                return True
        return False

    def _fetch_blocks(self, heads: Heads, heights: range) -> list[BlockRef | None] | None:
        """Fetch an endpoint's blocks at these heights, or None if it returns an error.

        The list is empty if the endpoint does not return its newest block.
        """
        newest = heads.latest
        try:
            *blocks, newest_block = self._endpoints.run_with_endpoint(
                lambda endpoint: endpoint.get_headers([*heights, newest.number]),
                only_endpoint=heads.endpoint,
            )
        except RpcError:
            return None
        return blocks if newest_block is not None and newest_block.hash == newest.hash else []


def _build_refutation(heads: Heads, witness: Witness, missing: str) -> HeadRefutation:
    reason = (
        f"shows block {heads.latest.number} as the newest, but does not return {missing}; the "
        f"newest block of {witness.endpoint} is {witness.head.number}"
    )
    return HeadRefutation(witness, reason)
