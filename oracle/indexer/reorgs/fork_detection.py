"""Whether a block of ours has left the chain: no endpoint is believed alone.

"The chain went backwards" is usually one bad endpoint. A second one has to say so too; where there
is no second, the only one has to say the same three times, some blocks apart.
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

# Of one endpoint alone: so many times the same answer, so many block times apart.
POLLS = 3
POLL_BLOCKS = 2
# Endpoints of two providers that show the same block are believed.
ENOUGH = 2
# In place of a hash, where our chain skipped the height.
NO_BLOCK = Hash("no block")
# What a chain's block time is taken to be between, and where none is known.
_SHORTEST, _LONGEST, _USUAL = 0.5, 60.0, 12.0
_BLOCKS_MEASURED = 20
# Endpoints that contradict each other for longer hold us up; a fork that spreads does not.
DISPUTED_SECONDS = 30.0


class OutvotedError(TransientError):
    """Two providers agree against an endpoint, which was put aside: the others are to be asked."""


@dataclass(frozen=True, slots=True)
class ForkClaim:
    """Somebody's word that `theirs` stands on the chain where we have `ours`.

    `ours` may be NO_BLOCK: above a height that our chain skipped all of ours are in question.
    `endpoint` said so by the parent of the block above it; "": the endpoints are only to be asked.
    `tip` is our newest block, which `number` lies below where the chain became shorter.
    """

    number: int
    ours: Hash
    theirs: Hash
    tip: int
    endpoint: str = ""


class ForkVerdict(Enum):
    """LEFT: our block is not the chain's; STAYS: it is; OPEN: nobody can tell yet."""

    LEFT = auto()
    STAYS = auto()
    OPEN = auto()


@dataclass(frozen=True, slots=True)
class ForkJudgement:
    """What came of an fork claim: who says that our block left, and as what, and who denies it."""

    verdict: ForkVerdict
    against: dict[str, Hash]
    with_us: tuple[str, ...]
    # The highest block of those whose word holds.
    newest: int = -1
    # How many providers deny our block, and how many show it.
    deniers: int = 0
    supporters: int = 0

    @property
    def liars(self) -> tuple[str, ...]:
        """The endpoints that were outvoted; one that only contradicts itself was not."""
        if self.verdict is ForkVerdict.LEFT:
            return self.with_us
        return tuple(self.against) if set(self.with_us) - self.against.keys() else ()


@dataclass(slots=True)
class ForkEvidence:
    """What one endpoint alone has said so far; in memory, for a restart begins anew.

    Times in seconds of whatever clock gives `now`.
    """

    _about: tuple[int, Hash, frozenset[Hash]] | None = None
    _polls: int = 0
    _next_at: float = field(default=0.0)

    def seconds_left(self, now: float) -> float:
        """Return how long nobody need be asked again; 0: nothing is in doubt, or it is time."""
        return 0.0 if self._about is None else max(0.0, self._next_at - now)

    def is_open(self) -> bool:
        """Tell whether one endpoint alone has said something that it has to say again."""
        return self._about is not None

    def is_repeated(
        self, about: tuple[int, Hash, frozenset[Hash]], now: float, pause: float
    ) -> bool:
        """Note a lone answer; tell whether it has now been the same often enough.

        Not counted before the last one is `pause` seconds old.
        """
        if about != self._about:
            self._about, self._polls = about, 0
        elif now < self._next_at:
            return False
        self._polls += 1
        self._next_at = now + pause
        return self._polls >= POLLS

    def forget(self) -> None:
        """Nothing is in doubt any more."""
        self._about, self._polls, self._next_at = None, 0, 0.0


@dataclass(slots=True)
class ForkWatch:
    """What the loop remembers of doubts: about our newest block, and about the final one."""

    tip: ForkEvidence = field(default_factory=ForkEvidence)
    final: ForkEvidence = field(default_factory=ForkEvidence)
    # When the final block was compared last; None: not since the start.
    compared_at: float | None = None
    # What endpoints say of our newest block against each other, and since when it holds us up.
    dispute: str | None = None
    disputed_since: float = 0.0

    def dispute_about(self, words: str, now: float) -> None:
        """Note that endpoints contradict each other; `goes_on` ends that."""
        if self.dispute is None:
            self.disputed_since = now
        self.dispute = words

    def held_up(self, now: float) -> str | None:
        """Return the dispute that has kept our newest block where it is for long; None: none."""
        return self.dispute if now - self.disputed_since > DISPUTED_SECONDS else None

    def goes_on(self) -> None:
        """Note that our newest block is another one now: whoever was right, we were not held."""
        self.dispute = None
        self.tip.forget()

    def is_open(self) -> bool:
        """Tell whether one endpoint alone denies a block of ours, and has to say it again."""
        return self.tip.is_open() or self.final.is_open()

    def seconds_left(self, now: float) -> float:
        """Return how long nobody need be asked again about what is in doubt."""
        return max(self.tip.seconds_left(now), self.final.seconds_left(now))


@dataclass(frozen=True, slots=True)
class ForkContext:
    """What a fork is looked for with; `now` in seconds of the clock that polls are counted by."""

    chain: ChainReader
    store: Store
    fork_watch: ForkWatch = field(default_factory=ForkWatch)
    now: float = 0.0


def judge_fork(
    fork_context: ForkContext, accused: ForkClaim, fork_evidence: ForkEvidence
) -> ForkJudgement:
    """Ask every endpoint about the block; a lone accuser has to say it again, see `ForkEvidence`.

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
    """Return the time between two blocks as of late, within reason."""
    blocks = uow.blocks.between(newest - _BLOCKS_MEASURED, newest)
    if len(blocks) < 2:  # noqa: PLR2004  one block has no distance
        return _USUAL
    first, last = blocks[0], blocks[-1]
    return min(_LONGEST, max(_SHORTEST, (last.time - first.time) / (last.number - first.number)))


def reject(fork_context: ForkContext, accused: ForkClaim, judged: ForkJudgement) -> TransientError:
    """Put aside who was outvoted about a fork that is none, and return what to say of it."""
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
    """Return who shows another block than our final one, which the others show, and that one."""
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
        # Its newer block stands on another one: what it says of this height besides is old.
        against.setdefault(accused.endpoint, accused.theirs)
    # A shorter chain does not outvote an endpoint that still has our newest block.
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
