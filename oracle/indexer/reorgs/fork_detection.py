"""Decides whether an indexed block has left the chain; no single endpoint is trusted.

An apparent rewind of the chain is usually one faulty endpoint. A second endpoint has to confirm
it; without a second one, the only endpoint has to report the same three times, some blocks apart.
See docs/explanation/reorgs.md#witnesses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from oracle.chain.protocols import ChainReader
from oracle.chain.witnesses import Witness
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.store.database import Store, UnitOfWork
from oracle.telemetry import indexer_metrics

# A single endpoint must report the same this many times, this many block times apart.
POLLS = 3
POLL_BLOCKS = 2
# A block counts if endpoints of two providers show it.
ENOUGH = 2
# Placeholder for a hash at a height that the indexed chain skipped.
NO_BLOCK = Hash("no block")
# Bounds of the block time in seconds, and its default.
_SHORTEST, _LONGEST, _USUAL = 0.5, 60.0, 12.0
_BLOCKS_MEASURED = 20
# A contradiction between endpoints that lasts longer blocks indexing; a spreading fork does not.
DISPUTED_SECONDS = 30.0


class OutvotedError(TransientError):
    """Two providers agree against an endpoint, which was demoted; the others are to be used."""


@dataclass(frozen=True, slots=True)
class ForkClaim:
    """A claim that `claimed_hash` is on the chain instead of `indexed_hash`.

    `indexed_hash` may be NO_BLOCK: all blocks above a height that the indexed chain skipped are in
    question. `endpoint` made the claim by the parent of the next block; "" if the endpoints are
    only to be compared. `tip` is the newest indexed block; `number` is below it if the chain
    became shorter.
    """

    number: int
    ours: Hash
    theirs: Hash
    tip: int
    endpoint: str = ""


class ForkVerdict(Enum):
    """Verdict on an indexed block: orphaned, still canonical, or undecided."""

    LEFT = auto()
    STAYS = auto()
    OPEN = auto()


@dataclass(frozen=True, slots=True)
class ForkJudgement:
    """Judgement of a fork claim: the verdict, and the endpoints that deny or show the block."""

    verdict: ForkVerdict
    against: dict[str, Hash]
    with_us: tuple[str, ...]
    # The newest block of the endpoints that were right.
    newest: int = -1
    # Number of providers that deny the indexed block, and that show it.
    deniers: int = 0
    supporters: int = 0

    @property
    def liars(self) -> tuple[str, ...]:
        """Endpoints that were outvoted; one that only contradicts itself was not."""
        if self.verdict is ForkVerdict.LEFT:
            return self.with_us
        return tuple(self.against) if set(self.with_us) - self.against.keys() else ()


@dataclass(slots=True)
class ForkEvidence:
    """Repeated reports of a single endpoint; in memory, so a restart begins anew.

    Times are seconds of the clock that gives `now`.
    """

    _about: tuple[int, Hash, frozenset[Hash]] | None = None
    _polls: int = 0
    _next_at: float = field(default=0.0)

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the next poll; 0 if it is due or nothing is pending."""
        return 0.0 if self._about is None else max(0.0, self._next_at - now)

    def is_open(self) -> bool:
        """Return whether a single endpoint's report still has to be repeated."""
        return self._about is not None

    def is_repeated(
        self, about: tuple[int, Hash, frozenset[Hash]], now: float, pause: float
    ) -> bool:
        """Record a single report; return whether it was the same often enough.

        A report is ignored until the last one is `pause_seconds` old.
        """
        if about != self._about:
            self._about, self._polls = about, 0
        elif now < self._next_at:
            return False
        self._polls += 1
        self._next_at = now + pause
        return self._polls >= POLLS

    def forget(self) -> None:
        """Discard the evidence, because nothing is in doubt any more."""
        self._about, self._polls, self._next_at = None, 0, 0.0


@dataclass(slots=True)
class ForkWatch:
    """Pending doubts about the newest indexed block and about the final one."""

    tip: ForkEvidence = field(default_factory=ForkEvidence)
    final: ForkEvidence = field(default_factory=ForkEvidence)
    # When the final block was last compared; None: not since the start.
    compared_at: float | None = None
    # The current dispute about the newest block, and since when it has blocked indexing.
    dispute: str | None = None
    disputed_since: float = 0.0

    def dispute_about(self, words: str, now: float) -> None:
        """Record that endpoints contradict each other, until `clear_dispute`."""
        if self.dispute is None:
            self.disputed_since = now
        self.dispute = words

    def held_up(self, now: float) -> str | None:
        """Return a dispute that has blocked the newest block for long, or None."""
        return self.dispute if now - self.disputed_since > DISPUTED_SECONDS else None

    def goes_on(self) -> None:
        """Clear the dispute, because the newest indexed block has changed."""
        self.dispute = None
        self.tip.forget()

    def is_open(self) -> bool:
        """Return whether a single endpoint denies an indexed block and must repeat it."""
        return self.tip.is_open() or self.final.is_open()

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the next poll about what is in doubt."""
        return max(self.tip.seconds_left(now), self.final.seconds_left(now))


@dataclass(frozen=True, slots=True)
class ForkContext:
    """Objects that fork detection needs; `now` in seconds of the clock that times polls."""

    chain: ChainReader
    store: Store
    fork_watch: ForkWatch = field(default_factory=ForkWatch)
    now: float = 0.0


def judge_fork(
    fork_context: ForkContext, accused: ForkClaim, fork_evidence: ForkEvidence
) -> ForkJudgement:
    """Compare the block at every endpoint; a single denial has to be repeated.

    See `ForkEvidence`.

    Raises:
        InputError: an endpoint is on another chain.
    """
    views = fork_context.chain.witness(accused.number)
    views = [one for one in views if one.head.number >= accused.number]
    judged = _weighed(accused, views, fork_context.chain.providers())
    if judged.verdict is not ForkVerdict.OPEN:
        fork_evidence.forget()
    elif judged.against:
        with fork_context.store.reading() as uow:
            pause = POLL_BLOCKS * block_seconds(uow, accused.tip)
        about = accused.number, accused.ours, frozenset(judged.against.values())
        if fork_evidence.is_repeated(about, fork_context.now, pause):
            fork_evidence.forget()
            return replace(judged, verdict=ForkVerdict.LEFT)
    return judged


def block_seconds(uow: UnitOfWork, newest: int) -> float:
    """Return the recent time between two blocks, within bounds."""
    blocks = uow.blocks.between(newest - _BLOCKS_MEASURED, newest)
    if len(blocks) < 2:  # noqa: PLR2004  one block has no distance
        return _USUAL
    first, last = blocks[0], blocks[-1]
    return min(_LONGEST, max(_SHORTEST, (last.time - first.time) / (last.number - first.number)))


def reject(fork_context: ForkContext, accused: ForkClaim, judged: ForkJudgement) -> TransientError:
    """Demote the endpoints that were outvoted about a false fork; return the error."""
    words = f"block {accused.number} left the chain, which {', '.join(judged.with_us)} denies"
    if not judged.liars:
        indexer_metrics.REJECTED.labels("recanted").inc()
        return TransientError(
            f"block {accused.number + 1} came with the parent {accused.theirs}, which is not our "
            "block; asked again, the chain still has ours"
        )
    error = OutvotedError if judged.supporters >= ENOUGH else TransientError
    beyond = _contradict_final(fork_context)
    for endpoint in judged.liars:
        indexer_metrics.REJECTED.labels("outvoted").inc()
        if endpoint in beyond:
            why = f"said that {words}, and shows another final block"
            fork_context.chain.quarantine(endpoint, why, beyond[endpoint])
        else:
            fork_context.chain.deprioritise(endpoint, f"said that {words}", judged.newest)
    liars = ", ".join(judged.liars)
    if error is TransientError:
        fork_context.fork_watch.dispute_about(f"{liars} said that {words}", fork_context.now)
    return error(f"{liars} said that {words}: put aside, nothing undone")


def _contradict_final(fork_context: ForkContext) -> dict[str, tuple[int, Hash]]:
    """Return the endpoints that contradict the indexed final block, with that block.

    Empty if no endpoint shows the indexed final block.
    """
    with fork_context.store.reading() as uow:
        cursor = uow.cursor.get()
    if cursor is None or cursor.final_number is None or cursor.final_hash is None:
        return {}
    final = cursor.final_number, cursor.final_hash
    shown = {
        one.endpoint: one.block.hash
        for one in fork_context.chain.witness(cursor.final_number)
        if one.block is not None and one.head.number >= cursor.final_number
    }
    if cursor.final_hash not in shown.values():
        return {}
    return {endpoint: final for endpoint, hash_ in shown.items() if hash_ != cursor.final_hash}


def _weighed(
    accused: ForkClaim, views: Sequence[Witness], providers: Mapping[str, str]
) -> ForkJudgement:
    with_us = tuple(one.endpoint for one in views if _hash(one) == accused.ours)
    against = {one.endpoint: one.block.hash for one in views if one.block is not None}
    against = {name: hash_ for name, hash_ in against.items() if hash_ != accused.ours}
    if accused.endpoint:
        # A newer block of this endpoint builds on another one, so its report of this height is
        # outdated.
        against.setdefault(accused.endpoint, accused.theirs)
    # A shorter chain does not outvote an endpoint that still has the newest indexed block.
    is_longer = any(
        one.head.number >= accused.tip > accused.number and one.endpoint in with_us
        for one in views
    )
    deniers = {providers.get(endpoint, endpoint) for endpoint in against}
    supporters = {providers.get(endpoint, endpoint) for endpoint in with_us} - deniers
    if len(deniers) >= ENOUGH and not is_longer:
        verdict = ForkVerdict.LEFT
    else:
        verdict = ForkVerdict.STAYS if with_us else ForkVerdict.OPEN
    right = against.keys() if verdict is ForkVerdict.LEFT else with_us
    newest = max((one.head.number for one in views if one.endpoint in right), default=-1)
    return ForkJudgement(verdict, against, with_us, newest, len(deniers), len(supporters))


def _hash(one: Witness) -> Hash:
    return NO_BLOCK if one.block is None else one.block.hash
