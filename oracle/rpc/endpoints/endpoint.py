"""One endpoint, with its client and its status (backoff, quarantine, chain proof).

The indexer, the transaction manager and the queries share the same `Endpoint` object. After a
request has failed for one of them, the others avoid the endpoint as well.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import override

from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.health import EndpointHealth
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.probe import (
    DAY,
    HOUR,
    TAGS,
    Capabilities,
    CapabilityStore,
    Checkpoint,
    find_chain_mismatch,
)
from oracle.rpc.endpoints.providers import get_provider
from oracle.rpc.headers import fetch_full_headers, parse_headers
from oracle.rpc.responses import FullHeaderResponse
from oracle.rpc.rpc_errors import BLAMELESS, ErrorKind, RpcError
from oracle.telemetry import rpc_metrics as metrics
from oracle.telemetry.logger import get_logger

# Seconds after a failure during which other endpoints are preferred. They double with each further
# failure, up to the maximum.
_INITIAL_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
# Seconds for which an endpoint must be healthy before it is preferred again
# (docs/explanation/endpoints.md#status).
HEALTHY_SECONDS = 60.0
# Maximum seconds for which other endpoints are preferred to one that was repeatedly slow.
_MAX_SLOW_SECONDS = 480.0
# Interval between recovery checks. It doubles after each check, up to the maximum.
_INITIAL_RECHECK_SECONDS = 10.0
_MAX_RECHECK_SECONDS = 30.0
# Seconds for which the proof that an endpoint serves the configured chain is valid, and interval
# at which a quarantined endpoint is checked.
PROOF_SECONDS = 3600.0
QUARANTINE_SECONDS = 300.0
# Interval at which a quarantined endpoint is checked while no other endpoint is usable.
SOLE_ENDPOINT_QUARANTINE_SECONDS = 5.0
# Number of consecutive refusals after which the API key is considered invalid.
_MAX_REFUSALS = 3


@dataclass(slots=True)
class EndpointStatus:
    """The state that decides whether an endpoint is used always, as a fallback or never.

    Times are in seconds of the same monotonic clock. `quarantine_reason` is a sentence
    (docs/explanation/endpoints.md#status).
    """

    backoff_until: float = 0.0
    failures: int = 0
    refusals: int = 0
    # For display, the last error message and the times at which the current run of failures began
    # and last grew.
    last_failure: str = ""
    failing_since: float = 0.0
    failed_at: float = 0.0
    # Time at which the endpoint was last proven to serve the configured chain. The flag is True if
    # this ever happened.
    proven_at: float = -math.inf
    was_proven: bool = False
    quarantine_reason: str | None = None
    # True if the endpoint is quarantined for serving another chain.
    is_on_other_chain: bool = False
    # True if the endpoint was proven wrong, so that only an operator can end the quarantine.
    needs_readmission: bool = False
    release_check_at: float = 0.0
    # A block that the endpoint must have before its release. The endpoint must also have the
    # pool's checkpoints.
    release_checkpoint: Checkpoint | None = None
    # Time until which other endpoints are preferred, and time of the next recovery check (None
    # once the endpoint has recovered).
    degraded_until: float = 0.0
    recheck_at: float | None = None
    # Time until which faster endpoints are preferred, and number of consecutive times that this
    # endpoint was too slow.
    slow_until: float = 0.0
    slow_count: int = 0
    _recheck_count: int = 0

    def is_healthy(self, now: float) -> bool:
        """Return whether the endpoint keeps its configured place in the order of preference."""
        is_recovered = self.recheck_at is None and now >= max(self.degraded_until, self.slow_until)
        return self.quarantine_reason is None and is_recovered

    def describe(self, now: float) -> str:
        """Describe the state: ok, deprioritised, failing or quarantined, with the reason."""
        if self.quarantine_reason is not None:
            return f"quarantined: {self.quarantine_reason}"
        if self.failures:
            # A rate-limited endpoint is shown as failing, but it keeps its place in the order.
            failing_seconds = now - self.failing_since
            idle_seconds = now - self.failed_at
            return (
                f"failing for {failing_seconds:.0f} s: {self.last_failure}; last request "
                f"{idle_seconds:.0f} s ago"
            )
        return "ok" if self.is_healthy(now) else "deprioritised"

    def is_backing_off(self, now: float) -> bool:
        """Return whether other endpoints come first because this one has just failed."""
        return now < self.backoff_until

    def is_proven(self, now: float) -> bool:
        """Return whether the endpoint's chain was proven recently, without a later failure."""
        return now - self.proven_at < PROOF_SECONDS

    def is_recovery_check_due(self, now: float) -> bool:
        """Return whether it is time to check if a degraded endpoint has recovered."""
        return (
            self.quarantine_reason is None
            and self.recheck_at is not None
            and now >= self.recheck_at
        )

    @property
    def is_behind(self) -> bool:
        """Whether the endpoint is deprioritised because another had a higher block."""
        return self.failures > 0 and self.last_failure.startswith(f"{ErrorKind.BEHIND}:")

    @property
    def is_of_another_chain(self) -> bool:
        """Whether the endpoint is quarantined and was never proven to be on the right chain."""
        is_quarantined = self.quarantine_reason is not None and not self.needs_readmission
        return is_quarantined and not self.was_proven

    def mark_chain_proven(self, now: float) -> None:
        """Record that the endpoint is on the configured chain."""
        self.proven_at, self.was_proven = now, True

    def clear_chain_proof(self) -> None:
        """Require a new proof of the endpoint's chain before its next use."""
        self.proven_at = -math.inf

    def quarantine(
        self,
        reason: str,
        now: float,
        release_checkpoint: Checkpoint | None,
        *,
        is_on_other_chain: bool = False,
    ) -> None:
        """Quarantine the endpoint, unless it was already proven wrong.

        `is_on_other_chain` is whether the endpoint serves another chain.
        """
        if self.needs_readmission:
            return
        self.quarantine_reason = reason
        self.release_checkpoint = release_checkpoint
        self.is_on_other_chain = is_on_other_chain
        self.clear_chain_proof()
        self.schedule_release_check(now)

    def mark_proven_wrong(self, reason: str) -> None:
        """Quarantine an endpoint that was proven wrong.

        Only an operator can readmit the endpoint.
        """
        self.quarantine_reason, self.needs_readmission = reason, True
        self.is_on_other_chain = False
        self.clear_chain_proof()

    def readmit(self, now: float) -> None:
        """Readmit an endpoint that was proven wrong.

        The quarantine ends, and the proof of its chain is cleared.
        """
        self.needs_readmission = False
        self.release_from_quarantine(now)
        self.clear_chain_proof()

    def schedule_release_check(self, now: float) -> None:
        """Schedule the next check for a release from quarantine."""
        self.release_check_at = now + QUARANTINE_SECONDS

    def is_release_check_due(self, now: float, *, no_endpoint_usable: bool = False) -> bool:
        """Return whether it is time to check if the quarantine can end.

        The check is due sooner if no endpoint is usable.
        """
        is_releasable = self.quarantine_reason is not None and not self.needs_readmission
        advance_seconds = (
            QUARANTINE_SECONDS - SOLE_ENDPOINT_QUARANTINE_SECONDS if no_endpoint_usable else 0.0
        )
        return is_releasable and now >= self.release_check_at - advance_seconds

    def release_from_quarantine(self, now: float) -> None:
        """End the quarantine, but prefer other endpoints at first."""
        self.quarantine_reason, self.release_checkpoint, self.refusals = None, None, 0
        self.is_on_other_chain = False
        self.mark_chain_proven(now)
        self.mark_degraded(now)
        self.mark_recovered()

    def record_failure(self, error: RpcError, now: float) -> bool:
        """Record a failure, and return whether the endpoint must be quarantined."""
        if error.kind in BLAMELESS:
            return False
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.last_failure = f"{error.kind}: {error.detail}"
        self.failed_at = now
        self.proven_at = -math.inf
        if error.kind is ErrorKind.THROTTLED:
            # The rate limiter makes requests wait. After that, the endpoint is used as before.
            return False
        backoff_seconds = min(
            _INITIAL_BACKOFF_SECONDS * 2 ** min(self.failures - 1, 10), _MAX_BACKOFF_SECONDS
        )
        self.backoff_until = now + (
            backoff_seconds if error.retry_after is None else error.retry_after
        )
        self.mark_degraded(now)
        self.refusals += error.kind is ErrorKind.REFUSED
        return self.refusals >= _MAX_REFUSALS

    def record_success(self) -> None:
        """Reset the failure counts after the endpoint has completed some work."""
        self.failures, self.refusals, self.backoff_until = 0, 0, 0.0

    def mark_degraded(self, now: float) -> None:
        """Prefer other endpoints until this endpoint has been healthy for a while."""
        self.degraded_until = now + HEALTHY_SECONDS
        self.schedule_recovery_check(now)

    def schedule_recovery_check(self, now: float) -> None:
        """Schedule the next check for a recovery of the endpoint."""
        self.recheck_at = now + min(
            _INITIAL_RECHECK_SECONDS * 2 ** min(self._recheck_count, 10), _MAX_RECHECK_SECONDS
        )
        self._recheck_count += 1

    def mark_slow(self, now: float) -> None:
        """Prefer other endpoints for a while, because this endpoint is slow.

        If the endpoint is slow again, the time doubles.
        """
        if now - self.slow_until > _MAX_SLOW_SECONDS:
            self.slow_count = 0
        slow_seconds = min(HEALTHY_SECONDS * 2 ** min(self.slow_count, 10), _MAX_SLOW_SECONDS)
        self.slow_until = now + slow_seconds
        self.slow_count += 1

    def mark_recovered(self) -> None:
        """Record that the endpoint responds again.

        Other endpoints are preferred until `degraded_until`.
        """
        self.recheck_at, self._recheck_count = None, 0
        self.failures, self.backoff_until = 0, 0.0

    def clear_failures(self) -> None:
        """Clear the recorded failures.

        This is used if all other endpoints have failed as well.
        """
        self.mark_recovered()
        self.degraded_until = 0.0


# Seconds for which an endpoint's progress is cached, because a tick checks it many times. The next
# tick notices if the endpoint has stopped, or if another node has taken over its address.
_TICK_SECONDS = 1.0
# An endpoint is considered wrong after this many consecutive outvoted simulations. An endpoint
# that is merely one block behind may be outvoted once.
_MAX_OUTVOTED_SIMULATIONS = 3
# Seconds for which stored facts are valid. This is longer than the hour between two probes.
_FACT_SECONDS = 2 * HOUR


class Endpoint:
    """One endpoint with its health and status.

    The object is thread-safe. `clock` returns seconds.
    """

    def __init__(
        self,
        client: JsonRpcClient,
        clock: Callable[[], float] = time.monotonic,
        provider: str | None = None,
    ) -> None:
        self.client = client
        # Endpoints of the same provider count as a single witness.
        self.provider = get_provider(client.name) if provider is None else provider
        self.health = EndpointHealth(client.name, clock)
        self.status = EndpointStatus()
        # Result of the last probe, or None before the first probe.
        self.capabilities: Capabilities | None = None
        # Limits that were learned while reading windows.
        self.limits = LearnedLimits()
        # The highest block that the endpoint has returned.
        self.highest_block = -1
        # The endpoint's newest block at the last check of heads. It is None once blocks have been
        # read from the endpoint.
        self.head: BlockRef | None = None
        # Block tags, besides `latest`, that the endpoint is assumed to support. A tag is removed
        # when a request shows that the endpoint does not support it.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that the endpoint has reported as finalized.
        self.finalized: BlockRef | None = None
        # True if the endpoint has ever returned all receipts of a block in a single response.
        self.gives_block_receipts = False
        # Chain id that the endpoint reported. It is reset when the endpoint becomes unreachable.
        self.chain_id: int | None = None
        # Number of consecutive simulations that most other witnesses contradicted.
        self._outvoted_simulations = 0
        # The block that the endpoint was last found to have, and the time of this check.
        self._last_reached: tuple[int, float] | None = None
        # The full header of the endpoint's newest block at the last check of heads.
        self._newest_header: FullHeaderResponse | None = None
        self._clock = clock
        client.observer = self.health

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    @property
    def name(self) -> str:
        """The scheme, host and port.

        If several endpoints share them, the pool adds a number.
        """
        return self.client.name

    def rename(self, name: str) -> None:
        """Set the name for messages, metrics and the database."""
        self.client.name = self.health.name = name

    def close(self) -> None:
        """Close the connections after requests in flight have finished."""
        self.client.close()

    def supports_method(self, method: str) -> bool:
        """Return whether the endpoint supports a method, as far as known.

        The result is True until the endpoint reports otherwise.
        """
        return self.health.supports_method(method)

    def find_unavailability_error(self) -> RpcError | None:
        """Return an error if the endpoint must not be used now, otherwise None."""
        if self.status.quarantine_reason is not None:
            return RpcError(self.name, ErrorKind.QUARANTINED, self.status.quarantine_reason)
        wait_seconds = self.health.rate_limiter.get_wait_seconds()
        if wait_seconds > 0:
            message = f"rate-limited for another {wait_seconds:.1f} s"
            requested_seconds = self.health.rate_limiter.requested_seconds
            if requested_seconds is not None:
                message = f"{message}; it requested a pause of {requested_seconds:.0f} s"
            return RpcError(self.name, ErrorKind.THROTTLED, message, retry_after=wait_seconds)
        return None

    def is_usable(self) -> bool:
        """Return whether the endpoint is neither quarantined nor failing."""
        return self.status.quarantine_reason is None and self.status.failures == 0

    def find_chain_mismatch(
        self, chain_id: int, checkpoints: Sequence[Checkpoint], *, timeout_seconds: float | None
    ) -> str | None:
        """Return why the endpoint is not on the configured chain, or None if it is.

        Raises RpcError.
        """
        return find_chain_mismatch(
            self.client, chain_id, checkpoints, timeout_seconds=timeout_seconds
        )

    def get_header(self, number_or_tag: int | str) -> BlockRef | None:
        """Fetch the block at a height or with a tag.

        See `get_headers`.
        """
        return self.get_headers([number_or_tag])[0]

    def get_headers(self, heights_or_tags: Iterable[int | str]) -> list[BlockRef | None]:
        """Fetch the blocks at these heights or with these tags.

        The result is None for a block that does not exist. The full header of `latest` is kept for
        `take_newest_header`.

        Raises:
            RpcError: a response is missing or invalid, or is for another height.
        """
        requested_blocks = list(heights_or_tags)
        full_headers = fetch_full_headers(self.client, requested_blocks)
        if "latest" in requested_blocks:
            self._newest_header = full_headers[requested_blocks.index("latest")]
        return parse_headers(self.client, requested_blocks, full_headers)

    def take_newest_header(self) -> FullHeaderResponse | None:
        """Return the full header from the last request of `latest`, and clear it.

        The result is None if there is no such header.
        """
        newest_header, self._newest_header = self._newest_header, None
        return newest_header

    def discard_newest_header(self, expected_hash: str) -> None:
        """Discard the stored newest header unless it has this hash.

        This is a full header.
        """
        newest_header = self._newest_header
        if newest_header is not None and newest_header.hash.lower() != expected_hash:
            self._newest_header = None

    def has_recently_reached_block(self, block_number: int) -> bool:
        """Return whether the endpoint had this block when checked within the last second."""
        if self._last_reached is None or self._last_reached[0] != block_number:
            return False
        return self._clock() - self._last_reached[1] < _TICK_SECONDS

    def record_reached_block(self, block_number: int) -> None:
        self._last_reached = (block_number, self._clock())

    def record_simulation_vote(self, *, is_outvoted: bool) -> None:
        """Record whether most witnesses contradict the endpoint's simulation result.

        The simulation is of a call. An endpoint that is outvoted repeatedly is deprioritised.
        """
        self._outvoted_simulations = self._outvoted_simulations + 1 if is_outvoted else 0
        if self._outvoted_simulations < _MAX_OUTVOTED_SIMULATIONS:
            return
        metrics.INCONSISTENT.labels(self.name, "simulation").inc()
        self.status.mark_degraded(self._clock())
        if self._outvoted_simulations == _MAX_OUTVOTED_SIMULATIONS:
            get_logger().warning("simulation_outvoted", endpoint=self.name)

    def reset_chain_state(self) -> None:
        """Reset the chain id and the progress.

        Another node may have the endpoint's address now.
        """
        self.chain_id = self._last_reached = None

    def save_capabilities(self, store: CapabilityStore) -> None:
        """Store the capabilities found by the last probe, and the batch size."""
        capabilities = self.capabilities
        if capabilities is None:
            return
        store.save_fact(self.name, "tags", ",".join(capabilities.tags), _FACT_SECONDS)
        store.save_fact(
            self.name, "logs_by_hash", str(int(capabilities.has_logs_by_hash)), _FACT_SECONDS
        )
        store.save_fact(
            self.name, "block_receipts", str(int(capabilities.has_block_receipts)), _FACT_SECONDS
        )
        store.save_fact(self.name, "batch", str(self.client.batch_limit), DAY)
        if capabilities.oldest_log_block is not None:
            store.save_fact(self.name, "oldest_logs", str(capabilities.oldest_log_block), DAY)

    def restore_capabilities(self, store: CapabilityStore) -> None:
        """Restore the stored capabilities, ignoring malformed values."""
        facts = store.load_facts(self.name)
        if facts.get("batch", "").isdecimal():
            self.client.limit_batch_size(int(facts["batch"]))
        if not {"tags", "logs_by_hash", "block_receipts"} <= facts.keys():
            return
        oldest_log_block = facts.get("oldest_logs", "")
        self.tags = tuple(tag for tag in facts["tags"].split(",") if tag)
        self.capabilities = Capabilities(
            tags=self.tags,
            has_logs_by_hash=facts["logs_by_hash"] == "1",
            has_block_receipts=facts["block_receipts"] == "1",
            max_batch_size=self.client.batch_limit,
            oldest_log_block=int(oldest_log_block) if oldest_log_block.isdecimal() else None,
        )
