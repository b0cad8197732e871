"""The incrementally updated queue equals one that is built from all tasks at once."""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import replace
from fractions import Fraction
from functools import partial
from heapq import merge

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import GroupKey
from oracle.domain.state import Ending, Task
from oracle.systems.legacy.trio_line import build_trio_queue
from oracle.systems.task_queue import (
    QueueBuilder,
    QueueItem,
    WaitingTasks,
    build_queue,
    is_waiting,
    sort_items_by_value,
)
from tests.support.histories import make_group_key, make_node_address, make_task_key
from tests.unit.systems.crynux.scenes import a_task

GROUPS = [make_group_key(name) for name in "gh"]


def worth(waiting_task: Task) -> Fraction:
    return Fraction(waiting_task.fee or 0)


LINE_UPS = [partial(build_queue, get_value=worth), partial(build_trio_queue, get_value=worth)]
# Rows of a task in sequence; the database omits groups that were scored.
CHANGES = st.fixed_dictionaries({
    "fee": st.integers(0, 2),
    "min_vram": st.sampled_from([None, 16]),
    "created_at": st.sampled_from([Position(1, 0, 0), Position(2, 0, 0), None]),
    "group": st.sampled_from([*GROUPS, None]),
    "group_size": st.sampled_from([None, 2, 3]),
    "node": st.sampled_from([None, None, make_node_address("A"), make_node_address("B")]),
    "ending": st.sampled_from([None, None, Ending.ABORTED]),
    "abort_reason": st.sampled_from([None, None, None, AbortReason.GROUP_TIMEOUT]),
})  # fmt: skip
BLOCKS = st.lists(st.dictionaries(st.sampled_from("1234"), CHANGES, min_size=1), max_size=8)


class Rows:
    """The tasks of a database."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def change(self, name: str, values: dict[str, object]) -> Task:
        """Change a task: it keeps its group, and a started task is scored at once."""
        before = self.tasks.get(name)
        changed_task = a_task(name, **values)
        changed_task.started_at = None if changed_task.node is None else Position(3, 0, 0)
        changed_task.scored_in = (
            None
            if changed_task.ending is None or changed_task.node is None
            else changed_task.group
        )
        if before is not None:
            changed_task = replace(changed_task, group=before.group)
        self.tasks[name] = changed_task
        return changed_task

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        unscored = [row for row in self.tasks.values() if row.scored_in is None]
        return [row for row in unscored if row.group in groups]

    def line(self, line_up: QueueBuilder) -> list[QueueItem]:
        waiting = [row for row in self.tasks.values() if is_waiting(row)]
        groups = {row.group for row in waiting if row.group is not None}
        return sort_items_by_value(line_up(waiting, self.of_groups(groups)))


def kept(tasks: WaitingTasks) -> list[QueueItem]:
    places = merge(*tasks.queue.get_equivalence_classes())
    return [place.item for place in places]


@pytest.mark.parametrize("line_up", LINE_UPS)
@given(blocks=BLOCKS)
def test_incrementally_updated_queue_equals_rebuilt_queue(
    line_up: QueueBuilder, blocks: Iterable[dict[str, dict[str, object]]]
):
    rows = Rows()
    tasks = WaitingTasks(line_up)
    for block in blocks:
        changed = [rows.change(name, values) for name, values in block.items()]
        tasks.update(changed, rows.of_groups)
        line = rows.line(line_up)
        some = {make_task_key("1"), make_task_key("2")}
        assert kept(tasks) == line
        with_some = [
            queue_item
            for queue_item in line
            if some & {item_task.key for item_task in queue_item.tasks}
        ]
        assert tasks.queue.find_items_of_tasks(some) == with_some


@given(blocks=BLOCKS)
def test_tasks_of_one_class_have_equal_requirements(
    blocks: Iterable[dict[str, dict[str, object]]],
):
    rows = Rows()
    tasks = WaitingTasks(LINE_UPS[0])
    for block in blocks:
        tasks.update(
            [rows.change(*name_and_values) for name_and_values in block.items()], rows.of_groups
        )
        for alike in tasks.queue.get_equivalence_classes():
            assert {place.item.criteria for place in alike} == {alike.first.criteria}
            assert alike.keys == {place.item.task.key for place in alike}
