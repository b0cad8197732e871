"""The life of a task, and the ranking and scores of a group of tasks."""

from pydantic import Field

from oracle.domain.blocks import Position
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.state.group import GroupResult
from oracle.domain.state.task import Task
from oracle.queries.answers import (
    AddressText,
    Answer,
    ApiModel,
    HashText,
    LogPlace,
)
from oracle.queries.api.source import ApiSnapshot, NotKnownError
from oracle.queries.selection.task_models import TaskRequirements, requirements_of


class TaskMoment(ApiModel):
    """A step in the life of a task."""

    what: str = Field(examples=["created", "started", "stopped", "ended"])
    time: int | None = Field(description="Unix seconds; null: nothing of its block is kept.")
    place: LogPlace


class GroupEntry(ApiModel):
    """One task of a compared group."""

    task: HashText
    node: AddressText | None
    rank: int | None = Field(description="From 1; null: it was not ranked.")
    elapsed: int | None = Field(description="Seconds from start to submission or error report.")
    score: int | None = Field(description="null: it scores nobody.")


class GroupAnswer(Answer):
    """A group as it closed; the newest one if the chain used the key twice."""

    group: HashText
    closed: bool
    scored: bool = Field(description="False: no task of it was ranked.")
    closed_at: LogPlace | None
    time: int | None
    members: list[GroupEntry]
    tasks_seen: list[HashText] = Field(description="Of a group that is open: its tasks so far.")


class TaskAnswer(TaskRequirements, Answer):
    """A task: its requirements, its node, its ending and its score."""

    node: AddressText | None
    queued: bool
    error_reported: bool
    ending: str | None = Field(description="null: it has not ended.", examples=["succeeded"])
    abort_reason: str | None
    moments: list[TaskMoment]
    scored_in: HashText | None
    score: GroupEntry | None = Field(description="Its row in the group that scored it.")


def task_view(look: ApiSnapshot, key: TaskKey) -> TaskAnswer:
    """Return a task; raise NotKnownError if it was never seen."""
    task = look.uow.tasks.named([key]).get(key)
    if task is None:
        raise NotKnownError(f"no task {key} was seen in what is indexed")
    members = [] if task.scored_in is None else _members(look, task.scored_in)
    return TaskAnswer(
        **dict(requirements_of(task)),
        as_of=look.as_of,
        node=task.node,
        queued=task.queued,
        error_reported=task.error_reported,
        ending=None if task.ending is None else task.ending.value,
        abort_reason=None if task.abort_reason is None else task.abort_reason.value,
        moments=_moments(look, task),
        scored_in=task.scored_in,
        score=next((entry for entry in members if entry.task == key), None),
    )


def group_view(look: ApiSnapshot, group: GroupKey) -> GroupAnswer:
    """Return a group, closed or open; raise NotKnownError if no task names it."""
    results = look.uow.results.of_group(group)
    if results:
        newest = results[-1]
        places = look.places([newest.closed_at])
        return GroupAnswer(
            as_of=look.as_of,
            group=group,
            closed=True,
            scored=newest.scored,
            closed_at=places[newest.closed_at],
            time=newest.time,
            members=_entries(newest),
            tasks_seen=[],
        )
    tasks = look.uow.tasks.of_groups([group])
    if not tasks:
        raise NotKnownError(f"no group {group} was seen in what is indexed")
    return GroupAnswer(
        as_of=look.as_of,
        group=group,
        closed=False,
        scored=False,
        closed_at=None,
        time=None,
        members=[],
        tasks_seen=sorted(task.key for task in tasks),
    )


def _members(look: ApiSnapshot, group: GroupKey) -> list[GroupEntry]:
    return [entry for one in look.uow.results.of_group(group) for entry in _entries(one)]


def _entries(result: GroupResult) -> list[GroupEntry]:
    return [
        GroupEntry(
            task=member.task,
            node=member.node,
            rank=member.rank,
            elapsed=member.elapsed,
            score=member.score,
        )
        for member in result.members
    ]


def _moments(look: ApiSnapshot, task: Task) -> list[TaskMoment]:
    known: list[tuple[str, Position | None, int | None]] = [
        ("created", task.created_at, None),
        ("started", task.started_at, task.started_time),
        ("stopped", task.stopped_at, task.stopped_time),
        ("ended", task.ended_at, task.ended_time),
    ]
    places = look.places(at for _, at, _ in known if at is not None)
    return [
        TaskMoment(what=what, time=time or look.time_of(at), place=places[at])
        for what, at, time in known
        if at is not None
    ]
