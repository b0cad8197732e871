"""One endpoint: its client, and its status (backoff, quarantine, proof of its chain).

Indexer, transaction manager and queries share it, so that none repeats a request that failed for
another.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import override

from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.capabilities import DAY, HOUR, TAGS, Capabilities, CapabilityStore
from oracle.rpc.endpoints.checkpoints import Checkpoint, fault_in_chain
from oracle.rpc.endpoints.health import Health
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.providers import provider_of
from oracle.rpc.headers import checked, header_answers
from oracle.rpc.responses import FullHeaderResponse
from oracle.rpc.rpc_errors import BLAMELESS, ErrorKind, RpcError

# After a failure other endpoints are preferred for this many seconds, doubling up to the maximum.
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
# An endpoint must be healthy for this long before it is preferred again
# (docs/explanation/endpoints.md#status).
GOOD_SECONDS = 60.0
# An endpoint that is repeatedly too slow loses its place for up to this long.
_LONGEST_SLOW_SECONDS = 480.0
# Interval between recovery checks, doubling from the first to the second.
_FIRST_ASK = 10.0
_LONGEST_ASK = 30.0
# How long a proof of the chain is valid, and how long until a quarantined endpoint is checked.
PROOF_SECONDS = 3600.0
QUARANTINE_SECONDS = 300.0
# The same if no other endpoint is usable.
LAST_QUARANTINE_SECONDS = 5.0
# After this many refusals in a row an API key is considered invalid.
_REFUSALS = 3


@dataclass(slots=True)
class EndpointStatus:
    """Which work an endpoint gets: all, only what no other endpoint can do, or none.

    Times are seconds of any clock; the reason of a quarantine is a sentence
    (docs/explanation/endpoints.md#status).
    """

    backoff_until: float = 0.0
    failures: int = 0
    refusals: int = 0
    # Failures in a row, for display: the last message, and the times of the first and the last
    # one.
    trouble: str = ""
    failing_since: float = 0.0
    failed_at: float = 0.0
    # When the chain was last proven to be the configured one, and whether it ever was.
    proven_at: float = -math.inf
    was_proven: bool = False
    quarantined: str | None = None
    # Whether it is quarantined for serving another chain.
    is_foreign: bool = False
    # Only an operator ends the quarantine: the endpoint was proven wrong.
    until_readmitted: bool = False
    look_again_at: float = 0.0
    # A block that it must show, besides the usual ones, before it is released.
    release: Checkpoint | None = None
    # Until when other endpoints are preferred; when to check for recovery, None: it has recovered.
    ailing_until: float = 0.0
    ask_at: float | None = None
    # Until when other endpoints are preferred for their speed, and how often in a row.
    slow_until: float = 0.0
    relapses: int = 0
    _asked: int = 0

    def is_well(self, now: float) -> bool:
        """Return whether the endpoint has its configured place."""
        is_trusted = self.ask_at is None and now >= max(self.ailing_until, self.slow_until)
        return self.quarantined is None and is_trusted

    def in_a_word(self, now: float) -> str:
        """Return the state: ok, deprioritised, failing or quarantined, with the reason."""
        if self.quarantined is not None:
            return f"quarantined: {self.quarantined}"
        if self.failures:
            # A rate-limited endpoint keeps its place but counts as failing.
            since, asked = now - self.failing_since, now - self.failed_at
            return f"failing for {since:.0f} s: {self.trouble}; asked last {asked:.0f} s ago"
        return "ok" if self.is_well(now) else "deprioritised"

    def is_backing_off(self, now: float) -> bool:
        """Return whether other endpoints are preferred because this one has just failed."""
        return now < self.backoff_until

    def is_proven(self, now: float) -> bool:
        """Return whether the chain was proven recently and since the last failure."""
        return now - self.proven_at < PROOF_SECONDS

    def wants_asking(self, now: float) -> bool:
        """Return whether it is time to check for recovery."""
        return self.quarantined is None and self.ask_at is not None and now >= self.ask_at

    @property
    def is_behind(self) -> bool:
        """Whether the endpoint is deprioritised because another one showed a higher block."""
        return self.failures > 0 and self.trouble.startswith(f"{ErrorKind.BEHIND}:")

    @property
    def is_of_another_chain(self) -> bool:
        """Whether it is quarantined and was never proven to be on the configured chain."""
        is_out = self.quarantined is not None and not self.until_readmitted
        return is_out and not self.was_proven

    def prove(self, now: float) -> None:
        """Record that the endpoint is on the configured chain."""
        self.proven_at, self.was_proven = now, True

    def unprove(self) -> None:
        """Require a new proof of the chain before the next use."""
        self.proven_at = -math.inf

    def quarantine(
        self, reason: str, now: float, release: Checkpoint | None, *, is_foreign: bool = False
    ) -> None:
        """Quarantine the endpoint, unless it was already proven wrong.

        `is_foreign`: it serves another chain.
        """
        if self.until_readmitted:
            return
        self.quarantined, self.release, self.is_foreign = reason, release, is_foreign
        self.unprove()
        self.look_later(now)

    def convict(self, reason: str) -> None:
        """Quarantine the endpoint until an operator readmits it: it was proven wrong."""
        self.quarantined, self.until_readmitted = reason, True
        self.is_foreign = False
        self.unprove()

    def readmit(self, now: float) -> None:
        """End the quarantine of an endpoint that was proven wrong; its chain is unproven."""
        self.until_readmitted = False
        self.release_now(now)
        self.unprove()

    def look_later(self, now: float) -> None:
        """Schedule the next check whether the quarantine can end."""
        self.look_again_at = now + QUARANTINE_SECONDS

    def is_to_be_released(self, now: float, *, is_last: bool = False) -> bool:
        """Return whether to check the quarantine now; `is_sole`: no endpoint is usable."""
        may_pass = self.quarantined is not None and not self.until_readmitted
        sooner = QUARANTINE_SECONDS - LAST_QUARANTINE_SECONDS if is_last else 0.0
        return may_pass and now >= self.look_again_at - sooner

    def release_now(self, now: float) -> None:
        """End the quarantine; other endpoints are preferred at first."""
        self.quarantined, self.release, self.refusals = None, None, 0
        self.is_foreign = False
        self.prove(now)
        self.mark_degraded(now)
        self.mark_recovered()

    def record_failure(self, error: RpcError, now: float) -> bool:
        """Record a failure; return whether the endpoint must be quarantined."""
        if error.kind in BLAMELESS:
            return False
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.trouble, self.failed_at = f"{error.kind}: {error.words}", now
        self.proven_at = -math.inf
        if error.kind is ErrorKind.THROTTLED:
            # The rate limiter has the waiting time; afterwards the endpoint is as good as the
            # others.
            return False
        rest = min(_FIRST_BACKOFF * 2 ** min(self.failures - 1, 10), _LONGEST_BACKOFF)
        self.backoff_until = now + (rest if error.retry_after is None else error.retry_after)
        self.mark_degraded(now)
        self.refusals += error.kind is ErrorKind.REFUSED
        return self.refusals >= _REFUSALS

    def worked(self) -> None:
        """Record that work succeeded."""
        self.failures, self.refusals, self.backoff_until = 0, 0, 0.0

    def mark_degraded(self, now: float) -> None:
        """Prefer other endpoints until this one has been healthy for a while."""
        self.ailing_until = now + GOOD_SECONDS
        self.ask_later(now)

    def ask_later(self, now: float) -> None:
        """Schedule the next check for recovery."""
        self.ask_at = now + min(_FIRST_ASK * 2 ** min(self._asked, 10), _LONGEST_ASK)
        self._asked += 1

    def was_slow(self, now: float) -> None:
        """Prefer other endpoints, each time for longer; then measure this one again."""
        if now - self.slow_until > _LONGEST_SLOW_SECONDS:
            self.relapses = 0
        slow = min(GOOD_SECONDS * 2 ** min(self.relapses, 10), _LONGEST_SLOW_SECONDS)
        self.slow_until = now + slow
        self.relapses += 1

    def mark_recovered(self) -> None:
        """Record that the endpoint responds again; its probation time keeps running."""
        self.ask_at, self._asked = None, 0
        self.failures, self.backoff_until = 0, 0.0

    def acquit(self) -> None:
        """Clear the recorded failures, because no other endpoint did better."""
        self.mark_recovered()
        self.ailing_until = 0.0


# One tick checks the progress of an endpoint many times; an endpoint that has stopped, or a
# different node behind its address, is noticed in the next tick.
_TURN_SECONDS = 1.0
# How long each fact is valid, in seconds: it must outlast the interval of the hourly probe.
_LASTING = 2 * HOUR


class Endpoint:
    """One endpoint with its health and status; thread-safe. `clock` returns seconds."""

    def __init__(
        self,
        client: JsonRpcClient,
        clock: Callable[[], float] = time.monotonic,
        provider: str | None = None,
    ) -> None:
        self.client = client
        # Endpoints of one provider are one witness.
        self.provider = provider_of(client.name) if provider is None else provider
        self.health = Health(client.name, clock)
        self.status = EndpointStatus()
        # The result of the last probe; None before the first.
        self.capabilities: Capabilities | None = None
        # Limits learned while reading windows.
        self.limits = LearnedLimits()
        # The highest block that the endpoint has shown.
        self.highest_block = -1
        # Its newest block at the last check of heads; None after a window was read from it.
        self.head: BlockRef | None = None
        # Supported block tags besides `latest`, until a request shows otherwise.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that it reported as finalized.
        self.finalized: BlockRef | None = None
        # Whether it was seen to return all receipts of a block.
        self.gives_block_receipts = False
        # The chain id that it reported, until it becomes unreachable.
        self.chain_id: int | None = None
        # The last block that it was found to have, and when.
        self._reached: tuple[int, float] | None = None
        # The full header of its newest block, from the last check of heads.
        self._newest_header: FullHeaderResponse | None = None
        self._clock = clock
        client.observer = self.health

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    @property
    def name(self) -> str:
        """Scheme, host and port; a pool numbers endpoints of the same host."""
        return self.client.name

    def call_it(self, name: str) -> None:
        """Set the name used in messages, metrics and the database."""
        self.client.name = self.health.name = name

    def close(self) -> None:
        """Close the connections; requests in flight finish first."""
        self.client.close()

    def has(self, method: str) -> bool:
        """Return whether the endpoint supports the method; True until it reports otherwise."""
        return self.health.has(method)

    def refusal(self) -> RpcError | None:
        """Return why the endpoint may not be used now, or None if it may."""
        if self.status.quarantined is not None:
            return RpcError(self.name, ErrorKind.QUARANTINED, self.status.quarantined)
        wait = self.health.bucket.wait()
        if wait > 0:
            words = f"asked us to wait, {wait:.1f} s more"
            return RpcError(self.name, ErrorKind.THROTTLED, words, retry_after=wait)
        return None

    def is_usable(self) -> bool:
        """Return whether the endpoint would get work: neither quarantined nor failing."""
        return self.status.quarantined is None and self.status.failures == 0

    def fault_in_chain(
        self, chain_id: int, checkpoints: Sequence[Checkpoint], *, seconds: float | None
    ) -> str | None:
        """Return why it is not on the configured chain; see `checkpoints`. Raises RpcError."""
        return fault_in_chain(self.client, chain_id, checkpoints, seconds=seconds)

    def header(self, number_or_tag: int | str) -> BlockRef | None:
        """Return a block; see `get_headers`."""
        return self.headers([number_or_tag])[0]

    def headers(self, wanted: Iterable[int | str]) -> list[BlockRef | None]:
        """Return blocks by height or tag; the full header of `latest` is kept.

        Raises:
            RpcError: a response is missing or invalid, or is for another height.
        """
        asked = list(wanted)
        answers = header_answers(self.client, asked)
        if "latest" in asked:
            self._newest_header = answers[asked.index("latest")]
        return checked(self.client, asked, answers)

    def take_newest_header(self) -> FullHeaderResponse | None:
        """Return the full header kept by the last request of `latest`, once, or None."""
        taken, self._newest_header = self._newest_header, None
        return taken

    def forget_newest_header(self, unless: str) -> None:
        """Discard the kept full header unless it has this hash."""
        seen = self._newest_header
        if seen is not None and seen.hash.lower() != unless:
            self._newest_header = None

    def is_known_to_reach(self, block: int) -> bool:
        """Return whether it was found a moment ago to have this very block."""
        if self._reached is None or self._reached[0] != block:
            return False
        return self._clock() - self._reached[1] < _TURN_SECONDS

    def reaches(self, block: int) -> None:
        """Record that the endpoint has this block now."""
        self._reached = (block, self._clock())

    def fell_silent(self) -> None:
        """Forget its chain id and progress: another node may be behind the address now."""
        self.chain_id = self._reached = None

    def remember(self, keeper: CapabilityStore) -> None:
        """Store the capabilities of the last probe, and the batch size."""
        found = self.capabilities
        if found is None:
            return
        keeper.keep(self.name, "tags", ",".join(found.tags), _LASTING)
        keeper.keep(self.name, "logs_by_hash", str(int(found.has_logs_by_hash)), _LASTING)
        keeper.keep(self.name, "block_receipts", str(int(found.has_block_receipts)), _LASTING)
        keeper.keep(self.name, "batch", str(self.client.batch_limit), DAY)
        if found.oldest_logs is not None:
            keeper.keep(self.name, "oldest_logs", str(found.oldest_logs), DAY)

    def recall(self, keeper: CapabilityStore) -> None:
        """Restore stored capabilities; malformed values are ignored."""
        kept = keeper.recall(self.name)
        if kept.get("batch", "").isdecimal():
            self.client.learn_batch(int(kept["batch"]))
        if not {"tags", "logs_by_hash", "block_receipts"} <= kept.keys():
            return
        oldest = kept.get("oldest_logs", "")
        self.tags = tuple(tag for tag in kept["tags"].split(",") if tag)
        self.capabilities = Capabilities(
            tags=self.tags,
            has_logs_by_hash=kept["logs_by_hash"] == "1",
            has_block_receipts=kept["block_receipts"] == "1",
            batch=self.client.batch_limit,
            oldest_logs=int(oldest) if oldest.isdecimal() else None,
        )
