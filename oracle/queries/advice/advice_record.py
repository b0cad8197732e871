"""The rows from which a node's advice is computed: its scores, their groups and their tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import ReliabilityChange, ScoreEntry
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Node, Task
from oracle.store.database import UnitOfWork

# Older changes of reliability have healed by now, or are among these.
_MAX_CHANGES = 100


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """A task score of a node: its entry, its group, and its place among the group's members."""

    entry: ScoreEntry
    group: GroupResult
    member: GroupMember


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """The newest rows of a node as of block time `time` in seconds, each list oldest first.

    `entries` are the scores of its pool. `scored_tasks` are those whose group is stored.
    `task_by_key` has the tasks of all members of these groups.
    """

    node: Node
    time: int
    rules: Rules
    entries: Sequence[ScoreEntry]
    scored_tasks: Sequence[ScoredTask]
    task_by_key: Mapping[TaskKey, Task]
    changes: Sequence[ReliabilityChange]


def load_advice_record(
    uow: UnitOfWork, node: Node, as_of: tuple[int, int], rules: Rules
) -> AdviceRecord:
    """Load the rows of a node; `as_of` is the number and the time of the cursor's block."""
    number, time = as_of
    entries = uow.scores.list_for_node_up_to(node.address, number, rules.pool_size)
    results = {
        result.closed_at: result
        for result in uow.results.list_closed_at([entry.at for entry in entries])
    }
    return AdviceRecord(
        node=node,
        time=time,
        rules=rules,
        entries=entries,
        scored_tasks=_find_scored_tasks(entries, results),
        task_by_key=uow.tasks.get_many(
            {member.task for result in results.values() for member in result.members}
        ),
        changes=uow.reliability.list_for_node(node.address, _MAX_CHANGES),
    )


def _find_scored_tasks(
    entries: Sequence[ScoreEntry], results: Mapping[Position, GroupResult]
) -> list[ScoredTask]:
    return [
        ScoredTask(entry, result, member)
        for entry in entries
        if (result := results.get(entry.at)) is not None
        for member in result.members
        if member.task == entry.task
    ]
