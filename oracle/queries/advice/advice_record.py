"""Loads the rows for a node's advice: its scores, with their groups and tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oracle.domain.fold.working_set import ReliabilityChange, ScoreEntry
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.group_ranking import split_group_fee
from oracle.domain.scoring.node_scores import count_effective_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Node, Task
from oracle.queries.api.history_points import NodeRecord
from oracle.queries.api.node_history import get_first_event_time, load_node_record

if TYPE_CHECKING:
    from oracle.queries.api.source import ApiSnapshot


# Maximum number of reliability changes that are read. The effect of older changes has worn off.
_MAX_CHANGES = 100


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """A score of a node, with the task's group, group member and fee.

    `fee` is the fee of the task, and `fee_share` the node's share of it; both are None if the fee
    is not known.
    """

    entry: ScoreEntry
    group: GroupResult
    member: GroupMember
    fee: int | None
    fee_share: int | None


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """The newest rows of a node as of the block time `time` in seconds; each list is oldest first.

    `entries` are the scores that count for the node's QoS. `scored_tasks` are those of them whose
    group is stored. `task_by_key` has the tasks of all members of these groups, including the
    fields by which the answers are ranked and paid. `history` has the node's rows since the first
    recent draw of the network, and a full pool of scores before that draw. Its changes are
    complete from the block time `known_since` on, which is the time of the node's first event, or
    of the oldest change that was loaded.
    """

    node: Node
    time: int
    known_since: int
    rules: Rules
    entries: Sequence[ScoreEntry]
    scored_tasks: Sequence[ScoredTask]
    task_by_key: Mapping[TaskKey, Task]
    history: NodeRecord

    @property
    def changes(self) -> Sequence[ReliabilityChange]:
        return self.history.changes


def load_advice_record(snapshot: "ApiSnapshot", node: Node) -> AdviceRecord:
    """Load the rows that a node's advice needs, as of the cursor."""
    uow, cursor, rules = snapshot.uow, snapshot.cursor, snapshot.source.archive.rules
    changes = uow.reliability.list_for_node(node.address, _MAX_CHANGES)
    score_count = count_effective_scores(node, cursor.time, rules)
    recent_draws = snapshot.get_recent_draws()
    first_time = recent_draws[0].draw.seed_time if recent_draws else cursor.time
    history_limits = first_time, cursor.time, max(rules.pool_size, score_count)
    node_record = load_node_record(uow, node.address, changes, history_limits)
    scores = [*node_record.earlier_scores, *node_record.scores]
    newest_scores = scores[max(0, len(scores) - score_count) :]
    groups, tasks = (
        uow.results.list_for_scores(node.address, newest_scores[0].seq, newest_scores[-1].seq)
        if newest_scores
        else ([], {})
    )
    return AdviceRecord(
        node=node,
        time=cursor.time,
        known_since=changes[0].time
        if len(changes) == _MAX_CHANGES
        else get_first_event_time(uow, node.address, changes, cursor.time),
        rules=rules,
        entries=newest_scores,
        scored_tasks=match_scored_tasks(newest_scores, groups, tasks),
        task_by_key=tasks,
        history=node_record,
    )


def match_scored_tasks(
    entries: Sequence[ScoreEntry],
    groups: Sequence[GroupResult],
    task_by_key: Mapping[TaskKey, Task],
) -> list[ScoredTask]:
    """Match each score entry with its group, group member and task fee.

    Entries whose group is not in `groups` are left out. The result is in the order of `entries`.
    """
    group_by_score = {
        (group.closed_at, member.task): (group, member)
        for group in groups
        for member in group.members
    }
    scored_tasks = []
    for entry in entries:
        if (entry.at, entry.task) in group_by_score:
            group, member = group_by_score[entry.at, entry.task]
            task = task_by_key.get(entry.task)
            fee = None if task is None else task.fee
            fee_share = None if fee is None else split_group_fee(fee, group.members)[entry.task]
            scored_tasks.append(ScoredTask(entry, group, member, fee, fee_share))
    return scored_tasks
