"""Queues groups of tasks that wait for three nodes, and draws the nodes for a group.

In a network in which every node has a task of its own, a task of the legacy system is a group of
three tasks. The group is valued, drawn for, started and dropped as a unit
(docs/explanation/legacy.md#dispatch).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Node, Task
from oracle.systems.assignment import DrawResult
from oracle.systems.crynux.requirements import Requirement, build_requirement
from oracle.systems.legacy.legacy_eligibility import (
    TRIO_SIZE,
    GpuGroup,
    find_candidate_groups,
    find_part_ineligibility_reason,
    is_gpt_task,
)
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.policy import PolicyInput
from oracle.systems.task_queue import (
    QueueGroup,
    QueueItem,
    collect_tasks_by_group,
    is_waiting,
    sort_items_by_value,
)


def get_legacy_queue_group(task: Task) -> QueueGroup:
    """Return the queue group of a task.

    GPT tasks with the same VRAM form a queue group, and so do all other tasks with the same VRAM.
    """
    kind: Literal["gpt", "sd"] = "gpt" if is_gpt_task(task) else "sd"
    return QueueGroup(build_requirement(task).vram, None, kind)


def build_trio_queue(
    waiting_tasks: Iterable[Task],
    group_tasks: Iterable[Task],
    get_value: Callable[[Task], Fraction],
) -> list[QueueItem]:
    """Build queue items from complete groups of three waiting tasks.

    Items are sorted by value and then by age. `group_tasks` holds every task of the waiting tasks'
    groups. The value of a group is the sum of its tasks' values. The age of a group is the age of
    its last task, because the group cannot start without that task.
    """
    groups = collect_tasks_by_group(sorted(group_tasks, key=get_age_sort_key))
    waiting_groups = {task.group for task in waiting_tasks if task.group is not None}
    complete_groups = [
        tasks
        for group, tasks in groups.items()
        if group in waiting_groups and _is_group_complete(tasks)
    ]
    return sort_items_by_value(
        QueueItem(tasks[0], sum(map(get_value, tasks), Fraction(0)), frozenset(), tuple(tasks[1:]))
        for tasks in complete_groups
    )


def find_unstartable_tasks(
    waiting_tasks: Iterable[Task], group_tasks: Iterable[Task]
) -> list[Task]:
    """Return waiting tasks that can never start in a group of three, oldest first.

    Such a task has no group, or its group has another size, or a task of the group has ended or
    was started alone. An incomplete group may still become complete.
    """
    groups = collect_tasks_by_group(group_tasks)
    unstartable_tasks = [
        task
        for task in waiting_tasks
        if task.group is None or _is_group_broken(groups.get(task.group, [task]))
    ]
    return sorted(unstartable_tasks, key=get_age_sort_key)


def _is_group_complete(tasks: Sequence[Task]) -> bool:
    return len(tasks) == TRIO_SIZE and not _is_group_broken(tasks)


def _is_group_broken(tasks: Sequence[Task]) -> bool:
    has_other_group_size = any(task.group_size not in {None, TRIO_SIZE} for task in tasks)
    return has_other_group_size or len(tasks) > TRIO_SIZE or not all(map(is_waiting, tasks))


def get_age_sort_key(task: Task) -> tuple[Position, TaskKey]:
    """Return a key that sorts tasks by age.

    The key is the position of the task's creation, then the task's key.
    """
    return task.created_at or BEFORE_EVERYTHING, task.key


@dataclass(frozen=True, slots=True)
class TrioPool:
    """The nodes from which groups of three tasks draw at the end of a block.

    `free` holds the nodes that can get a task now if they fit it. With `explains`, every draw
    lists its candidates.
    """

    policy: LegacyPolicy
    network: PolicyInput
    free: Mapping[Address, Node]
    explains: bool
    # Results are cached, because many waiting groups have the same requirement.
    _has_candidates_cache: dict[tuple[Requirement, bool, AbstractSet[Address]], bool] = field(
        default_factory=dict, repr=False
    )

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        """Return whether three nodes are available for the group.

        They have the same GPU if the group requires it.
        """
        cache_key = (build_requirement(item.task), is_gpt_task(item.task), reserved)
        if cache_key not in self._has_candidates_cache:
            free_network = replace(self.network, nodes=self.free, reserved=reserved)
            self._has_candidates_cache[cache_key] = bool(
                find_candidate_groups(item.task, free_network).groups
            )
        return self._has_candidates_cache[cache_key]

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        """Draw three nodes by weight.

        If they need the same GPU, a GPU group is drawn first.

        Raises:
            ValueError: there are fewer than three nodes.
        """
        policy_input = replace(self.network, reserved=reserved)
        drawn_trio = self.policy.draw_trio(item.task, policy_input, seed)
        if drawn_trio is None:
            raise ValueError(f"fewer than three nodes are available for {item.seed_key}")
        gpu_text = None if drawn_trio.gpu is None else drawn_trio.gpu.text
        if not self.explains:
            return DrawResult(drawn_trio.nodes, gpu=gpu_text)
        return DrawResult(
            drawn_trio.nodes,
            self._list_weighted_candidates(item.task, policy_input, drawn_trio.gpu),
            gpu_text,
        )

    def is_eligible(self, task: Task, node: Address) -> bool:
        """Return whether the node could run a part of the task now.

        It is not checked whether there are enough other nodes.
        """
        member = self.network.nodes.get(node)
        if member is None:
            return False
        requirement = build_requirement(task)
        return (
            find_part_ineligibility_reason(
                member, requirement, self.network, is_gpt_part=is_gpt_task(task)
            )
            is None
        )

    def _list_weighted_candidates(
        self, task: Task, policy_input: PolicyInput, gpu: GpuGroup | None
    ) -> Sequence[tuple[Address, int]]:
        """Return the candidates in the drawn GPU group with their weights."""
        candidates = find_candidate_groups(task, policy_input).groups[gpu]
        weights = self.policy.compute_weights(policy_input)
        return [(node.address, weights[node.address].weight) for node in candidates]
