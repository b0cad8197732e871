"""Determines how well the blocks that support a kickout are verified.

A kickout whose blocks are not sufficiently verified has to wait. See
docs/explanation/verification.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oracle.domain.blocks import BlockRange, Position, format_block_count
from oracle.domain.coverage import VerificationLevel
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import compute_evidence_block_range
from oracle.domain.state import Task
from oracle.indexer.kickout_reviews import load_counted_scores
from oracle.store.database import UnitOfWork


@dataclass(frozen=True, slots=True)
class EvidenceVerification:
    """The verification state of the blocks behind the kickout of `node`.

    `unproven` are the numbers of the blocks that are not verified to `level` yet, ascending.
    `obstacle` is a reason to wait that no verification can remove, or None.
    """

    node: Address
    level: VerificationLevel
    unproven: tuple[int, ...] = ()
    obstacle: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason why the kickout has to wait, or None if it does not."""
        if self.obstacle is not None or not self.unproven:
            return self.obstacle
        return (
            f"data of {format_block_count(len(self.unproven))} behind the kickout, from block "
            f"{self.unproven[0]} on, is not yet verified to {self.level.name}"
        )


def build_evidence_verification(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry], level: VerificationLevel
) -> EvidenceVerification:
    """Return how well the blocks behind a kickout's scores and opening are verified.

    A score depends on the blocks of its task, and of all tasks that were ranked in the same group.
    """
    scores = load_counted_scores(uow, entries)
    evidence_range = compute_evidence_block_range(scores, interval.opened_at)
    dead_letters = uow.dead_letters.list_open(evidence_range.first, evidence_range.last)
    if dead_letters:
        problem_text = f"{dead_letters[0].name} of block {dead_letters[0].block}"
        return EvidenceVerification(
            interval.node,
            level,
            obstacle=f"{problem_text} could not be decoded; run `qos-oracle resync dead-letters`",
        )
    blocks = find_evidence_block_numbers(uow, interval, entries)
    first_block = blocks[0]
    last_block = blocks[-1]
    scope = uow.coverage.get_current_scope()
    gaps = [] if scope is None else uow.coverage.list_gaps(scope.id, first_block, last_block)
    if scope is None or gaps:
        problem_text = f"block {gaps[0].first if gaps else first_block} was never read"
        return EvidenceVerification(
            interval.node, level, obstacle=f"{problem_text}; run `qos-oracle resync gaps`"
        )
    quarantined_spans = uow.facts.quarantine.list_suspect_intervals(
        scope.id, BlockRange(first_block, last_block)
    )
    single_source_blocks = [
        block_number
        for span in quarantined_spans
        for block_number in _select_numbers_in_range(blocks, span.first, span.last)
    ]
    if single_source_blocks:
        problem_text = (
            f"data of {format_block_count(len(single_source_blocks))} behind the kickout, from "
            f"block {single_source_blocks[0]} on, came only from an endpoint that was proven wrong"
        )
        return EvidenceVerification(
            interval.node, level, obstacle=f"{problem_text}; the audit requests them from another"
        )
    level_by_block = uow.verified_blocks.get_level_by_number(first_block, last_block)
    for span in uow.coverage.list_intervals(scope.id, first_block, last_block):
        for number in _select_numbers_in_range(blocks, span.first, span.last):
            level_by_block[number] = max(span.level, level_by_block.get(number, span.level))
    return EvidenceVerification(
        interval.node,
        level,
        tuple(
            evidence_block for evidence_block in blocks if level_by_block[evidence_block] < level
        ),
    )


def find_evidence_block_numbers(
    uow: UnitOfWork, interval: KickoutDue, entries: Sequence[ScoreEntry]
) -> list[int]:
    """Return the numbers of the blocks on which a kickout depends, in ascending order."""
    results = uow.results.list_closed_at([entry.at for entry in entries])
    task_keys = {entry.task for entry in entries}
    task_keys |= {member.task for result in results for member in result.members}
    positions = [interval.opened_at, *(entry.at for entry in entries)]
    for task in uow.tasks.get_many(task_keys).values():
        positions += _iter_task_positions(task)
    return sorted({position.block for position in positions})


def _iter_task_positions(task: Task) -> Iterator[Position]:
    positions = [task.created_at, task.started_at, task.stopped_at, task.ended_at]
    for run in task.runs:
        positions += [run.started_at, run.committed_at, run.disclosed_at, run.reported_at]
    yield from (position for position in positions if position is not None)


def _select_numbers_in_range(sorted_numbers: Iterable[int], first: int, last: int) -> list[int]:
    return [number for number in sorted_numbers if first <= number <= last]
