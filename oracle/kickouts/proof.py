"""Verifies the blocks behind a kickout as far as the chain allows; until then it waits.

See docs/explanation/verification.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from typing_extensions import override

from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange, Position
from oracle.domain.coverage import Level
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.state.task import Task
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.audit.reverify import ReverifyRequest, Verified, verify
from oracle.indexer.folder import Folder
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.database import Store, UnitOfWork
from oracle.txmgr.dry_run import WriteWantedError

# Blocks that are verified before everything else has its turn.
_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class EvidenceProof:
    """What the blocks behind a kickout lack: those not yet verified to `level`, ascending.

    `obstacle`: what no verification cures; None: nothing.
    """

    level: Level
    unproven: tuple[int, ...] = ()
    obstacle: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason why the kickout has to wait, or None."""
        if self.obstacle is not None or not self.unproven:
            return self.obstacle
        return (
            f"{len(self.unproven)} blocks behind it, from {self.unproven[0]} on, are not yet "
            f"verified to {self.level.name}, which the chain allows"
        )


@dataclass(frozen=True, slots=True)
class EvidenceVerifier:
    """The verifier of evidence blocks; the lease guards its writes."""

    chain: ChainReader
    store: Store
    folder: Folder
    manner: RebuildOptions

    def level(self) -> Level:
        """Return how far a block can be verified now; asks no endpoint."""
        return min(Level.PROVEN, self.chain.level_allowed())

    def prove(self, proof: EvidenceProof) -> int:
        """Verify the first blocks of those that lack it; return how many have reached the level.

        What an endpoint had left out or made up is put right on the way.

        Raises:
            TransientError: no endpoint gives a whole and consistent answer now.
        """
        reached = 0
        for blocks in _runs(proof.unproven[:_AT_ONCE]):
            asked = ReverifyRequest(blocks, proof.level, repair=True)
            verified = self._verified(asked)
            if verified.reached >= proof.level and not verified.difference:
                reached += len(blocks)
        return reached

    def _verified(self, asked: ReverifyRequest) -> Verified:
        try:
            return verify(self.chain, self.store, self.folder, asked, self.manner)
        except InputError:
            raise
        except FatalError as error:
            # One endpoint's word about a final block is not the end: others judge it
            # (finality_halt), and a lost lease is found by whoever renews it.
            raise TransientError(str(error)) from error


@dataclass(frozen=True, slots=True)
class DryRunVerifier(EvidenceVerifier):
    """A verifier for dry runs that verifies nothing."""

    @classmethod
    def of(cls, real: EvidenceVerifier) -> "DryRunVerifier":
        """Return a dry-run verifier with the same fields."""
        return cls(real.chain, real.store, real.folder, real.manner)

    @override
    def prove(self, proof: EvidenceProof) -> NoReturn:
        raise WriteWantedError


def proof_of(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry], level: Level
) -> EvidenceProof:
    """Look how well the blocks behind a kickout were read: of its scores, and where it opened.

    The blocks of a score are those of its task, and of the tasks that it was ranked beside.
    """
    blocks = blocks_behind(uow, interval, entries)
    first, last = blocks[0], blocks[-1]
    letters = uow.dead_letters.open_between(first, last)
    if letters:
        words = f"{letters[0].name} of block {letters[0].block}"
        return EvidenceProof(
            level, obstacle=f"{words} could not be read: `qos-oracle resync dead-letters`"
        )
    scope = uow.coverage.current()
    gaps = [] if scope is None else uow.coverage.gaps(scope.id, first, last)
    if scope is None or gaps:
        words = f"block {gaps[0].first if gaps else first} was never read"
        return EvidenceProof(level, obstacle=f"{words}: `qos-oracle resync gaps`")
    doubted = uow.facts.quarantine.spans(scope.id, BlockRange(first, last))
    alone = [each for span in doubted for each in _inside(blocks, span.first, span.last)]
    if alone:
        words = f"{len(alone)} blocks behind it, from {alone[0]} on, came from an endpoint alone"
        return EvidenceProof(
            level, obstacle=f"{words} that was proven wrong: the audit asks another one"
        )
    known = uow.verified_blocks.between(first, last)
    for span in uow.coverage.spans(scope.id, first, last):
        for number in _inside(blocks, span.first, span.last):
            known[number] = max(span.level, known.get(number, span.level))
    return EvidenceProof(level, tuple(n for n in blocks if known[n] < level))


def blocks_behind(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry]
) -> list[int]:
    """Return the blocks that a kickout rests on, ascending."""
    results = uow.results.closed_at([entry.at for entry in entries])
    named = {entry.task for entry in entries}
    named |= {member.task for result in results for member in result.members}
    places = [interval.opened_at, *(entry.at for entry in entries)]
    for task in uow.tasks.named(named).values():
        places += _places_of(task)
    return sorted({place.block for place in places})


def _places_of(task: Task) -> Iterator[Position]:
    places = [task.created_at, task.started_at, task.stopped_at, task.ended_at]
    for run in task.runs:
        places += [run.started_at, run.committed_at, run.disclosed_at, run.reported_at]
    yield from (place for place in places if place is not None)


def _inside(ascending: Iterable[int], first: int, last: int) -> list[int]:
    return [number for number in ascending if first <= number <= last]


def _runs(ascending: Iterable[int]) -> Iterator[BlockRange]:
    """Join consecutive numbers into ranges."""
    run: list[int] = []
    for number in ascending:
        if run and number != run[-1] + 1:
            yield BlockRange(run[0], run[-1])
            run = []
        run.append(number)
    if run:
        yield BlockRange(run[0], run[-1])
