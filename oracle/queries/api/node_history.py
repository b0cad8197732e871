"""Loads a node's history for the API: its scores over time and its reliability changes."""

from pydantic import Field

from oracle.domain.fixed_point import format_decimal
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.queries.answers import (
    LARGEST_INTEGER,
    AddressText,
    Answer,
    ApiModel,
    FractionText,
    HashText,
    LogPlace,
)
from oracle.queries.api.history_points import (
    HistoryPoint,
    NodeRecord,
    compute_history_points,
    downsample_points,
    find_approximation_reason,
    find_exclusion_end_time,
)
from oracle.queries.api.source import ApiSnapshot, RequestError
from oracle.queries.incident_models import (
    IncidentView,
    build_incident_view,
    load_timeout_marks,
)
from oracle.store.database import UnitOfWork

MAX_POINTS = 2_000
_MIN_POINTS = 12
MAX_SPAN_SECONDS = 400 * 86_400
_MAX_MARKS = 500


class HistoryMark(ApiModel):
    """An event that changed a node's reliability."""

    time: int
    cause: str = Field(examples=["timed_out"])
    task: HashText | None
    before: FractionText
    after: FractionText
    back_at: int | None = Field(
        description=(
            "Time at which recovery alone ends the exclusion, in unix seconds; null if the event "
            "did not lower reliability below the exclusion threshold."
        )
    )
    place: LogPlace
    incident: int | None = Field(
        description="Number of the incident that marks this timeout; null if no incident marks it."
    )


class NodeHistory(Answer):
    """The QoS, long-term score and reliability (H) of a node over time."""

    node: AddressText
    first: int = Field(
        description="Start of the span, in unix seconds; not before the node's first event."
    )
    last: int
    columns: tuple[str, ...] = Field(
        default=("time", "qos", "long_term", "reliability"),
        description="Names of the columns of `rows`.",
    )
    rows: list[tuple[int, FractionText, FractionText, FractionText]] = Field(max_length=MAX_POINTS)
    thinned: bool = Field(
        description=(
            "Whether points were left out to limit the size of the response. Extreme values are "
            "always kept."
        )
    )
    exact: bool = Field(
        description=(
            "Whether each point is the value that was computed at that time. If not, `note` "
            "contains the reason."
        )
    )
    note: str | None
    marks: list[HistoryMark] = Field(
        description=(
            "The newest 500 events of the span that changed the node's reliability, oldest first."
        )
    )
    marks_left_out: int
    incidents: list[IncidentView] = Field(
        description="The incidents that mark any of these `marks`, oldest first."
    )


class HistoryQuery(ApiModel):
    """The time span of a history, both ends included, and the maximum number of rows."""

    first: int | None = Field(
        None,
        ge=0,
        le=LARGEST_INTEGER,
        description=(
            "Start of the span, in unix seconds; by default the node's first event, but at most "
            "400 days before the end."
        ),
    )
    last: int | None = Field(
        None,
        ge=0,
        le=LARGEST_INTEGER,
        description=(
            "End of the span, in unix seconds; by default, and at most, the time of the last "
            "indexed block."
        ),
    )
    points: int = Field(MAX_POINTS, ge=_MIN_POINTS, le=MAX_POINTS)


def build_node_history(
    snapshot: ApiSnapshot, address: Address, query: HistoryQuery
) -> NodeHistory:
    """Return the history of an existing node.

    Raises:
        RequestError: the span is empty, or longer than 400 days.
    """
    history, _ = build_history_with_points(snapshot, address, query)
    return history


def build_history_with_points(
    snapshot: ApiSnapshot, address: Address, query: HistoryQuery
) -> tuple[NodeHistory, list[HistoryPoint]]:
    """Return the history of an existing node, and all of its points before downsampling.

    Raises:
        RequestError: the span is empty, or longer than 400 days.
    """
    rules = snapshot.source.archive.rules
    end_time = min(
        snapshot.cursor.time, snapshot.cursor.time if query.last is None else query.last
    )
    changes = snapshot.uow.reliability.list_for_node(address, 1 << 31)
    known_since = get_first_event_time(snapshot.uow, address, changes, end_time)
    start_time = (
        max(known_since, end_time - MAX_SPAN_SECONDS) if query.first is None else query.first
    )
    if not 0 <= end_time - start_time <= MAX_SPAN_SECONDS:
        raise RequestError("from, to: expected `from` before `to`, at most 400 days apart")
    # Nothing is stored about the time before the node's first event.
    start_time = max(start_time, known_since)
    record = load_node_record(
        snapshot.uow, address, changes, (start_time, end_time, rules.pool_size)
    )
    points = (
        []
        if rules.legacy is not None
        else list(compute_history_points(record, (start_time, end_time), rules))
    )
    kept_points = downsample_points(points, query.points) if len(points) > query.points else points
    inexact_note = find_approximation_reason(rules)
    changes_in_span = [change for change in changes if start_time <= change.time <= end_time]
    newest_changes = changes_in_span[-_MAX_MARKS:]
    log_place_by_position = snapshot.load_log_places(change.at for change in newest_changes)
    timeout_marks = load_timeout_marks(
        snapshot.uow,
        newest_changes,
        lambda task_key: _find_task_creator(snapshot.uow, task_key),
        up_to_block=snapshot.cursor.number,
    )
    history = NodeHistory(
        as_of=snapshot.as_of,
        node=address,
        first=start_time,
        last=end_time,
        rows=[_build_row(point) for point in kept_points],
        thinned=len(kept_points) < len(points),
        exact=inexact_note is None,
        note=inexact_note,
        marks=[
            _build_history_mark(
                change,
                log_place_by_position[change.at],
                rules,
                incident=timeout_marks.find_incident_number(change.at),
            )
            for change in newest_changes
        ],
        marks_left_out=max(0, len(changes_in_span) - _MAX_MARKS),
        incidents=list(map(build_incident_view, timeout_marks.incidents)),
    )
    return history, points


def _build_row(point: HistoryPoint) -> tuple[int, str, str, str]:
    return (
        point.time,
        format_decimal(point.qos),
        format_decimal(point.long_term),
        format_decimal(point.reliability),
    )


def get_first_event_time(
    uow: UnitOfWork, address: Address, changes: list[ReliabilityChange], default_time: int
) -> int:
    """Return the time of a node's first stored event, or `default_time` if that is earlier."""
    first_score_time = uow.scores.find_first_score_time(address)
    first_change_times = [change.time for change in changes[:1]]
    first_change_times += [] if first_score_time is None else [first_score_time]
    return min([*first_change_times, default_time])


def load_node_record(
    uow: UnitOfWork,
    address: Address,
    changes: list[ReliabilityChange],
    span: tuple[int, int, int],
) -> NodeRecord:
    """Load a node's rows within a time span, and its last scores before the span.

    `span` is the first and the last block time, and the maximum number of scores before the span.
    """
    start_time, end_time, pool_size = span
    earlier_scores, scores = uow.scores.list_for_node_between(
        address, start_time, end_time, pool_size
    )
    kickout_intervals = uow.kickouts.list_for_node(address)
    membership_changes = uow.memberships.list_for_node(address, 1 << 31)
    return NodeRecord(earlier_scores, scores, changes, kickout_intervals, membership_changes)


def _find_task_creator(uow: UnitOfWork, task_key: TaskKey) -> Address | None:
    task = uow.tasks.get_many([task_key]).get(task_key)
    return None if task is None else task.creator


def _build_history_mark(
    change: ReliabilityChange, place: LogPlace, rules: Rules, *, incident: int | None
) -> HistoryMark:
    is_decrease = change.after < change.before
    return HistoryMark(
        time=change.time,
        cause=change.cause.value,
        task=change.task,
        before=format_decimal(change.before),
        after=format_decimal(change.after),
        back_at=find_exclusion_end_time(change.after, change.time, rules) if is_decrease else None,
        place=place,
        incident=incident,
    )
