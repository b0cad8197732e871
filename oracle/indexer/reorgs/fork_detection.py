"""Determines whether an indexed block has left the chain, without trusting one endpoint.

If an endpoint returns another block than the indexed one, usually the endpoint is faulty and there
is no reorg. Therefore a second endpoint has to confirm the other block. If there is no second
endpoint, the only one has to return the same block three times, at intervals of some blocks. See
docs/explanation/reorgs.md#witnesses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from oracle.chain.source import ChainSource
from oracle.chain.witnesses import Witness
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry import indexer_metrics

# A single endpoint must report the same fork this many times, this many block times apart.
REQUIRED_POLLS = 3
BLOCKS_BETWEEN_POLLS = 2
# A block is accepted once endpoints of this many providers have it.
MIN_PROVIDERS = 2
# Stands for the hash at a height where the indexed chain has no block.
NO_BLOCK = Hash("no block")
# The minimum, the maximum and the default of the estimated block time, in seconds.
_MIN_BLOCK_SECONDS, _MAX_BLOCK_SECONDS, _DEFAULT_BLOCK_SECONDS = 0.5, 60.0, 12.0
_BLOCKS_MEASURED = 20
# A dispute between endpoints is reported after this many seconds. Differences that occur while a
# reorg spreads do not last this long.
MAX_DISPUTE_SECONDS = 30.0


class OutvotedError(TransientError):
    """Raised after an endpoint was contradicted by two providers and deprioritised.

    A retry uses the other endpoints.
    """


@dataclass(frozen=True, slots=True)
class ForkClaim:
    """An endpoint's claim that `claimed_hash` is on the chain instead of `indexed_hash`.

    If `indexed_hash` is NO_BLOCK, the claim concerns all blocks above a height at which the
    indexed chain has no block. `endpoint` made the claim by the parent hash of its next block; it
    is empty if no endpoint did, and the endpoints only have to be compared. `tip` is the height of
    the newest indexed block; `number` is lower than `tip` if the chain became shorter.
    """

    number: int
    indexed_hash: Hash
    claimed_hash: Hash
    tip: int
    endpoint: str = ""


class ForkVerdict(Enum):
    """The verdict about an indexed block, which is orphaned, still canonical, or undecided."""

    ORPHANED = auto()
    CANONICAL = auto()
    UNDECIDED = auto()


@dataclass(frozen=True, slots=True)
class ForkJudgement:
    """The judgement of a fork claim.

    `supporting_endpoints` have the indexed block, and `hash_by_denier` contains the other hash
    that each of the other endpoints returned.
    """

    verdict: ForkVerdict
    hash_by_denier: dict[str, Hash]
    supporting_endpoints: tuple[str, ...]
    # The newest block of the endpoints that turned out right.
    newest_number: int = -1
    # The number of providers that lack the indexed block, and the number of those that have it.
    denier_count: int = 0
    supporter_count: int = 0

    @property
    def outvoted_endpoints(self) -> tuple[str, ...]:
        """The endpoints that were outvoted.

        An endpoint that only contradicts itself is left out.
        """
        if self.verdict is ForkVerdict.ORPHANED:
            return self.supporting_endpoints
        if set(self.supporting_endpoints) - self.hash_by_denier.keys():
            return tuple(self.hash_by_denier)
        return ()


@dataclass(slots=True)
class ForkEvidence:
    """Repeated fork reports of a single endpoint.

    A restart discards them. Times are in seconds of the same clock as `now`.
    """

    _key: tuple[int, Hash, frozenset[Hash]] | None = None
    _poll_count: int = 0
    _next_poll_at: float = field(default=0.0)

    def get_seconds_until_poll(self, now: float) -> float:
        """Return the seconds until the next poll.

        The result is 0 if the poll is due or no report is pending.
        """
        return 0.0 if self._key is None else max(0.0, self._next_poll_at - now)

    def is_pending(self) -> bool:
        """Return whether a single endpoint still has to repeat its report."""
        return self._key is not None

    def record_fork_report(
        self, key: tuple[int, Hash, frozenset[Hash]], now: float, pause_seconds: float
    ) -> bool:
        """Record a fork report, and return whether it was repeated often enough.

        `key` identifies the content of the report. The same report counts again only when the last
        one is at least `pause_seconds` old.
        """
        if key != self._key:
            self._key, self._poll_count = key, 0
        elif now < self._next_poll_at:
            return False
        self._poll_count += 1
        self._next_poll_at = now + pause_seconds
        return self._poll_count >= REQUIRED_POLLS

    def reset(self) -> None:
        """Discard the reports when no block is in doubt any more."""
        self._key, self._poll_count, self._next_poll_at = None, 0, 0.0


@dataclass(slots=True)
class ForkWatch:
    """Evidence that the newest indexed block or the final block has left the chain."""

    tip: ForkEvidence = field(default_factory=ForkEvidence)
    final: ForkEvidence = field(default_factory=ForkEvidence)
    # The time at which the final block was last compared, or None before the first comparison.
    compared_at: float | None = None
    # The current dispute about the newest block, and the time since which it has blocked indexing.
    dispute: str | None = None
    disputed_since: float = 0.0

    def record_dispute(self, description: str, now: float) -> None:
        """Record that endpoints contradict each other.

        The dispute lasts until `clear_dispute`.
        """
        if self.dispute is None:
            self.disputed_since = now
        self.dispute = description

    def get_long_dispute(self, now: float) -> str | None:
        """Return the dispute that has blocked indexing for a long time, or None if none has."""
        return self.dispute if now - self.disputed_since > MAX_DISPUTE_SECONDS else None

    def clear_dispute(self) -> None:
        """Clear the dispute after the newest indexed block has changed."""
        self.dispute = None
        self.tip.reset()

    def is_pending(self) -> bool:
        """Return whether an endpoint has to repeat its report of a fork."""
        return self.tip.is_pending() or self.final.is_pending()

    def get_seconds_until_poll(self, now: float) -> float:
        """Return the seconds until the block in doubt is requested again, or 0 if it is due."""
        return max(self.tip.get_seconds_until_poll(now), self.final.get_seconds_until_poll(now))


@dataclass(frozen=True, slots=True)
class ForkContext:
    """The objects that fork detection needs.

    `now` is in seconds of a monotonic clock.
    """

    chain: ChainSource
    store: Store
    fork_watch: ForkWatch = field(default_factory=ForkWatch)
    now: float = 0.0


def count_providers(chain: ChainSource) -> int:
    """Count the providers of the configured endpoints."""
    return len(set(chain.get_providers().values()))


def fetch_hashes_by_endpoint(chain: ChainSource, block_number: int) -> dict[str, Hash]:
    """Fetch the hash of the block at this height from each endpoint.

    Endpoints whose head is lower are left out.
    """
    return {
        witness.endpoint: witness.block.hash
        for witness in chain.fetch_witnesses(block_number)
        if witness.block is not None and witness.head.number >= block_number
    }


def judge_fork(
    fork_context: ForkContext, claim: ForkClaim, fork_evidence: ForkEvidence
) -> ForkJudgement:
    """Fetch the block from every endpoint, and decide whether the claim is true.

    If only one endpoint reports the fork, it has to repeat the report (see `ForkEvidence`).

    Raises:
        InputError: an endpoint is on another chain.
    """
    witness_views = fork_context.chain.fetch_witnesses(claim.number)
    witness_views = [view for view in witness_views if view.head.number >= claim.number]
    judgement = _evaluate_witness_views(claim, witness_views, fork_context.chain.get_providers())
    if judgement.verdict is not ForkVerdict.UNDECIDED:
        fork_evidence.reset()
    elif judgement.hash_by_denier:
        with fork_context.store.read_transaction() as uow:
            pause_seconds = BLOCKS_BETWEEN_POLLS * compute_average_block_seconds(uow, claim.tip)
        evidence_key = (
            claim.number,
            claim.indexed_hash,
            frozenset(judgement.hash_by_denier.values()),
        )
        if fork_evidence.record_fork_report(evidence_key, fork_context.now, pause_seconds):
            fork_evidence.reset()
            return replace(judgement, verdict=ForkVerdict.ORPHANED)
    return judgement


def compute_average_block_seconds(uow: UnitOfWork, newest_number: int) -> float:
    """Compute the average seconds between recent blocks.

    The result is limited to fixed bounds.
    """
    measured_blocks = uow.blocks.list_canonical(newest_number - _BLOCKS_MEASURED, newest_number)
    if len(measured_blocks) < 2:  # noqa: PLR2004  one block has no distance
        return _DEFAULT_BLOCK_SECONDS
    first_block = measured_blocks[0]
    last_block = measured_blocks[-1]
    return min(
        _MAX_BLOCK_SECONDS,
        max(
            _MIN_BLOCK_SECONDS,
            (last_block.time - first_block.time) / (last_block.number - first_block.number),
        ),
    )


def reject_fork_claim(
    fork_context: ForkContext, claim: ForkClaim, judgement: ForkJudgement
) -> TransientError:
    """Deprioritise the endpoints that wrongly reported a fork.

    The result is the error to raise.
    """
    claim_text = (
        f"reported that block {claim.number} left the chain, but it is still shown by "
        f"{', '.join(judgement.supporting_endpoints)}"
    )
    if not judgement.outvoted_endpoints:
        indexer_metrics.REJECTED.labels("recanted").inc()
        return TransientError(
            f"block {claim.number + 1} was returned with the parent {claim.claimed_hash}, which "
            "is not the indexed block; a second request shows that the chain still has that block"
        )
    error_class = OutvotedError if judgement.supporter_count >= MIN_PROVIDERS else TransientError
    final_by_endpoint = _find_final_contradictions(fork_context)
    for endpoint in judgement.outvoted_endpoints:
        indexer_metrics.REJECTED.labels("outvoted").inc()
        if endpoint in final_by_endpoint:
            rejection_reason = f"{claim_text}; it also shows another final block"
            fork_context.chain.quarantine(endpoint, rejection_reason, final_by_endpoint[endpoint])
        else:
            fork_context.chain.deprioritise(endpoint, claim_text, judgement.newest_number)
    outvoted_text = ", ".join(judgement.outvoted_endpoints)
    if error_class is TransientError:
        fork_context.fork_watch.record_dispute(f"{outvoted_text} {claim_text}", fork_context.now)
    return error_class(
        f"{outvoted_text} {claim_text}; the report was rejected, nothing was rewound"
    )


def _find_final_contradictions(fork_context: ForkContext) -> dict[str, tuple[int, Hash]]:
    """Return the endpoints that contradict the indexed final block.

    Each endpoint is mapped to the final block (number, hash). The result is empty if no endpoint
    has the indexed final block.
    """
    with fork_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    if cursor is None or cursor.final_number is None or cursor.final_hash is None:
        return {}
    final_number_and_hash = cursor.final_number, cursor.final_hash
    hash_by_endpoint = fetch_hashes_by_endpoint(fork_context.chain, cursor.final_number)
    if cursor.final_hash not in hash_by_endpoint.values():
        return {}
    return {
        endpoint: final_number_and_hash
        for endpoint, shown_hash in hash_by_endpoint.items()
        if shown_hash != cursor.final_hash
    }


def _evaluate_witness_views(
    claim: ForkClaim, views: Sequence[Witness], providers: Mapping[str, str]
) -> ForkJudgement:
    supporting_endpoints = tuple(
        view.endpoint for view in views if _get_witness_hash(view) == claim.indexed_hash
    )
    hash_by_denier = {view.endpoint: view.block.hash for view in views if view.block is not None}
    hash_by_denier = {
        denier: shown_hash
        for denier, shown_hash in hash_by_denier.items()
        if shown_hash != claim.indexed_hash
    }
    if claim.endpoint:
        # This endpoint's next block has a different parent, so the hash that it returned for this
        # height is outdated.
        hash_by_denier.setdefault(claim.endpoint, claim.claimed_hash)
    # A chain that is not longer does not outvote an endpoint that still has the newest indexed
    # block.
    has_longer_chain = any(
        view.head.number >= claim.tip > claim.number and view.endpoint in supporting_endpoints
        for view in views
    )
    denying_providers = {providers.get(endpoint, endpoint) for endpoint in hash_by_denier}
    supporting_providers = {
        providers.get(endpoint, endpoint) for endpoint in supporting_endpoints
    } - denying_providers
    if len(denying_providers) >= MIN_PROVIDERS and not has_longer_chain:
        verdict = ForkVerdict.ORPHANED
    else:
        verdict = ForkVerdict.CANONICAL if supporting_endpoints else ForkVerdict.UNDECIDED
    right_endpoints = (
        hash_by_denier.keys() if verdict is ForkVerdict.ORPHANED else supporting_endpoints
    )
    newest_number = max(
        (view.head.number for view in views if view.endpoint in right_endpoints), default=-1
    )
    return ForkJudgement(
        verdict,
        hash_by_denier,
        supporting_endpoints,
        newest_number,
        len(denying_providers),
        len(supporting_providers),
    )


def _get_witness_hash(witness: Witness) -> Hash:
    return NO_BLOCK if witness.block is None else witness.block.hash
