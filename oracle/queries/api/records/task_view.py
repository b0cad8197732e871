"""The events in a task's life, and the ranks and scores in a group."""

from pydantic import Field

from oracle.domain.blocks import Position
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.state import Task
from oracle.queries.answers import (
    AddressText,
    Answer,
    ApiModel,
    HashText,
    LogPlace,
)
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.selection.selection_models import TaskRequirements, build_requirements


class TaskMoment(ApiModel):
    """An event in the life of a task."""

    what: str = Field(examples=["created", "started", "stopped", "ended"])
    time: int | None = Field(
        description=(
            "Time of the event, in unix seconds; null if neither the header nor the logs of its "
            "block are stored."
        )
    )
    place: LogPlace


class GroupEntry(ApiModel):
    """A task of a group, with its rank and score."""

    task: HashText
    node: AddressText | None
    rank: int | None = Field(
        description="Rank of the task in its group, from 1; null if the task was not ranked."
    )
    elapsed: int | None = Field(
        description=(
            "Seconds from the start of the task to its result, commitment or error report; null "
            "if it has none."
        )
    )
    score: int | None = Field(
        description="Score of the task in points; null if the task gives no score."
    )


class GroupAnswer(Answer):
    """An open or closed group; the newest group if the chain used its key twice."""

    group: HashText
    closed: bool
    scored: bool = Field(description="Whether at least one task of the group was ranked.")
    closed_at: LogPlace | None
    time: int | None
    members: list[GroupEntry]
    tasks_seen: list[HashText] = Field(
        description="The tasks of the group that exist so far; empty if the group is closed."
    )


class TaskAnswer(TaskRequirements, Answer):
    """A task with its requirements, node, ending and score."""

    node: AddressText | None
    queued: bool
    error_reported: bool
    ending: str | None = Field(
        description="How the task ended; null if it has not ended.", examples=["succeeded"]
    )
    abort_reason: str | None
    moments: list[TaskMoment]
    scored_in: HashText | None
    score: GroupEntry | None = Field(
        description=(
            "Rank and score of the task in its group; null if no group has scored the task."
        )
    )


def build_task_answer(snapshot: ApiSnapshot, task_key: TaskKey) -> TaskAnswer:
    """Return a task.

    Raises:
        NotFoundError: the task was never seen.
    """
    task = snapshot.uow.tasks.get_many([task_key]).get(task_key)
    if task is None:
        raise NotFoundError(f"task {task_key} was not found in the indexed blocks")
    members = [] if task.scored_in is None else _list_members(snapshot, task.scored_in)
    return TaskAnswer(
        **dict(build_requirements(task)),
        as_of=snapshot.as_of,
        node=task.node,
        queued=task.queued,
        error_reported=task.error_reported,
        ending=None if task.ending is None else task.ending.value,
        abort_reason=None if task.abort_reason is None else task.abort_reason.value,
        moments=_build_task_moments(snapshot, task),
        scored_in=task.scored_in,
        score=next((entry for entry in members if entry.task == task_key), None),
    )


def build_group_answer(snapshot: ApiSnapshot, group: GroupKey) -> GroupAnswer:
    """Return an open or closed group.

    Raises:
        NotFoundError: no task belongs to the group.
    """
    results = snapshot.uow.results.list_for_group(group)
    if results:
        newest_result = results[-1]
        log_place_by_position = snapshot.load_log_places([newest_result.closed_at])
        return GroupAnswer(
            as_of=snapshot.as_of,
            group=group,
            closed=True,
            scored=newest_result.scored,
            closed_at=log_place_by_position[newest_result.closed_at],
            time=newest_result.time,
            members=list(map(GroupEntry.model_validate, newest_result.members)),
            tasks_seen=[],
        )
    tasks = snapshot.uow.tasks.list_unscored_in_groups([group])
    if not tasks:
        raise NotFoundError(f"group {group} was not found in the indexed blocks")
    return GroupAnswer(
        as_of=snapshot.as_of,
        group=group,
        closed=False,
        scored=False,
        closed_at=None,
        time=None,
        members=[],
        tasks_seen=sorted(task.key for task in tasks),
    )


def _list_members(snapshot: ApiSnapshot, group: GroupKey) -> list[GroupEntry]:
    return [
        GroupEntry.model_validate(member)
        for result in snapshot.uow.results.list_for_group(group)
        for member in result.members
    ]


def _build_task_moments(snapshot: ApiSnapshot, task: Task) -> list[TaskMoment]:
    task_steps: list[tuple[str, Position | None, int | None]] = [
        ("created", task.created_at, None),
        ("started", task.started_at, task.started_time),
        ("stopped", task.stopped_at, task.stopped_time),
        ("ended", task.ended_at, task.ended_time),
    ]
    log_place_by_position = snapshot.load_log_places(
        position for _, position, _ in task_steps if position is not None
    )
    return [
        TaskMoment(
            what=step_name,
            time=snapshot.find_block_time(position) if time is None else time,
            place=log_place_by_position[position],
        )
        for step_name, position, time in task_steps
        if position is not None
    ]
