"""One endpoint: its client, and its status (backoff, quarantine, proof of its chain).

Indexer, transaction manager and queries share it, so that none repeats a request that failed for
another one.
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

# After a failure others are asked first for so long; doubling from one to the other, in seconds.
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
# It must have been good for so long before it is preferred again
# (docs/explanation/endpoints.md#status).
GOOD_SECONDS = 60.0
# One that is too slow again and again is left out for up to so long.
_LONGEST_SLOW_SECONDS = 480.0
# It is asked whether it is back: doubling from one to the other.
_FIRST_ASK = 10.0
_LONGEST_ASK = 30.0
# How long a proof of its chain lasts, and a quarantine until the endpoint is looked at again.
PROOF_SECONDS = 3600.0
QUARANTINE_SECONDS = 300.0
# Where nobody else is left, it is looked at so soon.
LAST_QUARANTINE_SECONDS = 5.0
# A key that was refused so often will not be taken next time.
_REFUSALS = 3


@dataclass(slots=True)
class EndpointStatus:
    """Which requests one endpoint may get: all, those that no other can serve, or none.

    Times are seconds of any clock; the reason of a quarantine is a sentence
    (docs/explanation/endpoints.md#status).
    """

    backoff_until: float = 0.0
    failures: int = 0
    refusals: int = 0
    # Of failures in a row, for people: the last one in words; when the first and the last were.
    trouble: str = ""
    failing_since: float = 0.0
    failed_at: float = 0.0
    # When its chain was last seen to be ours; and whether it ever was.
    proven_at: float = -math.inf
    was_proven: bool = False
    quarantined: str | None = None
    # Whether it is for showing another chain than ours.
    is_foreign: bool = False
    # Nothing that it shows by itself ends the quarantine: it was proven wrong.
    until_readmitted: bool = False
    look_again_at: float = 0.0
    # What it must show, besides the usual, to be released.
    release: Checkpoint | None = None
    # Until when others are preferred; and when to ask whether it is back, None: it said so.
    ailing_until: float = 0.0
    ask_at: float | None = None
    # Until when others are preferred because they are faster, and how often in a row.
    slow_until: float = 0.0
    relapses: int = 0
    _asked: int = 0

    def is_well(self, now: float) -> bool:
        """Tell whether it stands where the settings put it."""
        is_trusted = self.ask_at is None and now >= max(self.ailing_until, self.slow_until)
        return self.quarantined is None and is_trusted

    def in_a_word(self, now: float) -> str:
        """Return how it is: well, passed over for others, failing or quarantined, and why."""
        if self.quarantined is not None:
            return f"quarantined: {self.quarantined}"
        if self.failures:
            # Who asked us to wait keeps its place, and is not well all the same.
            since, asked = now - self.failing_since, now - self.failed_at
            return f"failing for {since:.0f} s: {self.trouble}; asked last {asked:.0f} s ago"
        return "ok" if self.is_well(now) else "deprioritised"

    def is_backing_off(self, now: float) -> bool:
        """Tell whether others are asked first because it has just failed."""
        return now < self.backoff_until

    def is_proven(self, now: float) -> bool:
        """Tell whether its chain was seen to be ours, lately and since its last failure."""
        return now - self.proven_at < PROOF_SECONDS

    def wants_asking(self, now: float) -> bool:
        """Tell whether to ask it if it is back."""
        return self.quarantined is None and self.ask_at is not None and now >= self.ask_at

    @property
    def is_behind(self) -> bool:
        """Whether it is passed over because another endpoint has shown a higher block."""
        return self.failures > 0 and self.trouble.startswith(f"{ErrorKind.BEHIND}:")

    @property
    def is_of_another_chain(self) -> bool:
        """Whether it is quarantined, and never was seen to be on our chain."""
        is_out = self.quarantined is not None and not self.until_readmitted
        return is_out and not self.was_proven

    def prove(self, now: float) -> None:
        """Note that its chain is ours."""
        self.proven_at, self.was_proven = now, True

    def unprove(self) -> None:
        """Have its chain looked at before it is used again."""
        self.proven_at = -math.inf

    def quarantine(
        self, reason: str, now: float, release: Checkpoint | None, *, is_foreign: bool = False
    ) -> None:
        """Shut it out; who was proven wrong is out for that. `is_foreign`: for its chain."""
        if self.until_readmitted:
            return
        self.quarantined, self.release, self.is_foreign = reason, release, is_foreign
        self.unprove()
        self.look_later(now)

    def convict(self, reason: str) -> None:
        """Shut it out until an operator readmits it: it was proven wrong."""
        self.quarantined, self.until_readmitted = reason, True
        self.is_foreign = False
        self.unprove()

    def readmit(self, now: float) -> None:
        """Let it in again after that, as one that its chain is not known of."""
        self.until_readmitted = False
        self.release_now(now)
        self.unprove()

    def look_later(self, now: float) -> None:
        """Look at it again in a while."""
        self.look_again_at = now + QUARANTINE_SECONDS

    def is_to_be_released(self, now: float, *, is_last: bool = False) -> bool:
        """Tell whether to look at it again; `is_last`: no endpoint is left to be asked."""
        may_pass = self.quarantined is not None and not self.until_readmitted
        sooner = QUARANTINE_SECONDS - LAST_QUARANTINE_SECONDS if is_last else 0.0
        return may_pass and now >= self.look_again_at - sooner

    def release_now(self, now: float) -> None:
        """Let it in again, behind the others at first."""
        self.quarantined, self.release, self.refusals = None, None, 0
        self.is_foreign = False
        self.prove(now)
        self.mark_degraded(now)
        self.mark_recovered()

    def record_failure(self, error: RpcError, now: float) -> bool:
        """Note how work ended; tell whether it must be quarantined."""
        if error.kind in BLAMELESS:
            return False
        if not self.failures:
            self.failing_since = now
        self.failures += 1
        self.trouble, self.failed_at = f"{error.kind}: {error.words}", now
        self.proven_at = -math.inf
        if error.kind is ErrorKind.THROTTLED:
            # Its bucket knows for how long; it is not worse than others afterwards.
            return False
        rest = min(_FIRST_BACKOFF * 2 ** min(self.failures - 1, 10), _LONGEST_BACKOFF)
        self.backoff_until = now + (rest if error.retry_after is None else error.retry_after)
        self.mark_degraded(now)
        self.refusals += error.kind is ErrorKind.REFUSED
        return self.refusals >= _REFUSALS

    def worked(self) -> None:
        """Note that work was done."""
        self.failures, self.refusals, self.backoff_until = 0, 0, 0.0

    def mark_degraded(self, now: float) -> None:
        """Let others be preferred until it has been good for a while."""
        self.ailing_until = now + GOOD_SECONDS
        self.ask_later(now)

    def ask_later(self, now: float) -> None:
        """Ask it in a while whether it is back."""
        self.ask_at = now + min(_FIRST_ASK * 2 ** min(self._asked, 10), _LONGEST_ASK)
        self._asked += 1

    def was_slow(self, now: float) -> None:
        """Let others be preferred, each time for longer; then its next work is measured."""
        if now - self.slow_until > _LONGEST_SLOW_SECONDS:
            self.relapses = 0
        slow = min(GOOD_SECONDS * 2 ** min(self.relapses, 10), _LONGEST_SLOW_SECONDS)
        self.slow_until = now + slow
        self.relapses += 1

    def mark_recovered(self) -> None:
        """Note that it answers again; how long it must be good runs on."""
        self.ask_at, self._asked = None, 0
        self.failures, self.backoff_until = 0, 0.0

    def acquit(self) -> None:
        """Take back what was held against it: it was no worse than the others."""
        self.mark_recovered()
        self.ailing_until = 0.0


# A turn looks many times how far an endpoint has come; one that stands still, or another node
# behind its address, is seen in the next one.
_TURN_SECONDS = 1.0
# How long each value is believed, in seconds: it must outlive the next hourly probe.
_LASTING = 2 * HOUR


class Endpoint:
    """May be used by several threads at once; `clock` counts seconds."""

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
        # What the last probe found; None before the first.
        self.capabilities: Capabilities | None = None
        # What is learned while windows are read by it.
        self.limits = LearnedLimits()
        # The highest block that it has shown.
        self.highest_block = -1
        # Its newest block when its heads were last looked at; None once a window was read by it.
        self.head: BlockRef | None = None
        # Tags of blocks that it knows besides `latest`, until it shows that it does not.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that it has called finalized.
        self.finalized: BlockRef | None = None
        # Whether it was seen to give the receipts of a whole block.
        self.gives_block_receipts = False
        # The chain that it said it serves, until it falls silent.
        self.chain_id: int | None = None
        # The block that it was asked about last, where it was there, and when.
        self._reached: tuple[int, float] | None = None
        # Its newest block with all that the header says, as its last look has shown it.
        self._newest_header: FullHeaderResponse | None = None
        self._clock = clock
        client.observer = self.health

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    @property
    def name(self) -> str:
        """Scheme, host and port; a pool makes those of one host different."""
        return self.client.name

    def call_it(self, name: str) -> None:
        """Use this name from now on, in texts, in metrics and in the database."""
        self.client.name = self.health.name = name

    def close(self) -> None:
        """Let the connections go; what is under way ends by itself."""
        self.client.close()

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method; True until it has said that it does not."""
        return self.health.has(method)

    def refusal(self) -> RpcError | None:
        """Return why nothing is asked of it now; None: it may be."""
        if self.status.quarantined is not None:
            return RpcError(self.name, ErrorKind.QUARANTINED, self.status.quarantined)
        wait = self.health.bucket.wait()
        if wait > 0:
            words = f"asked us to wait, {wait:.1f} s more"
            return RpcError(self.name, ErrorKind.THROTTLED, words, retry_after=wait)
        return None

    def is_usable(self) -> bool:
        """Tell whether it would be given work: neither shut out nor failing now."""
        return self.status.quarantined is None and self.status.failures == 0

    def fault_in_chain(
        self, chain_id: int, checkpoints: Sequence[Checkpoint], *, seconds: float | None
    ) -> str | None:
        """Return why it is not of our chain; see `checkpoints`. Raises RpcError."""
        return fault_in_chain(self.client, chain_id, checkpoints, seconds=seconds)

    def header(self, number_or_tag: int | str) -> BlockRef | None:
        """Return a block; see `headers`."""
        return self.headers([number_or_tag])[0]

    def headers(self, wanted: Iterable[int | str]) -> list[BlockRef | None]:
        """Return blocks by height or tag; what the newest one's header says is remembered.

        Raises:
            RpcError: no usable answer, or one for another height.
        """
        asked = list(wanted)
        answers = header_answers(self.client, asked)
        if "latest" in asked:
            self._newest_header = answers[asked.index("latest")]
        return checked(self.client, asked, answers)

    def take_newest_header(self) -> FullHeaderResponse | None:
        """Return what the last look at the newest block has shown, once; None: not looked."""
        taken, self._newest_header = self._newest_header, None
        return taken

    def forget_newest_header(self, unless: str) -> None:
        """Forget what the last look has shown, where it was another block than of this hash."""
        seen = self._newest_header
        if seen is not None and seen.hash.lower() != unless:
            self._newest_header = None

    def is_known_to_reach(self, block: int) -> bool:
        """Tell whether it was there a moment ago when it was asked about this very block."""
        if self._reached is None or self._reached[0] != block:
            return False
        return self._clock() - self._reached[1] < _TURN_SECONDS

    def reaches(self, block: int) -> None:
        """Note that this block is there now."""
        self._reached = (block, self._clock())

    def fell_silent(self) -> None:
        """Ask anew which chain it serves, and how far: there may be another node behind it."""
        self.chain_id = self._reached = None

    def remember(self, keeper: CapabilityStore) -> None:
        """Hand over what the last probe of this endpoint found, and its batches."""
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
        """Take up what was known of this endpoint; what is not in our form is passed over."""
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
