"""The history of a node as the API serves it: its figures, and the changes of its reliability."""

from pydantic import Field

from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import Address
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
from oracle.queries.api.history_course import (
    CoursePoint,
    NodeRecord,
    course,
    excluded_until,
    thinned,
    why_inexact,
)
from oracle.queries.api.source import ApiSnapshot, QuestionError
from oracle.store.database import UnitOfWork

MOST_POINTS = 2_000
_MIN_POINTS = 12
LONGEST_SPAN_SECONDS = 400 * 86_400
_MOST_MARKS = 500


class HistoryMark(ApiModel):
    """An event that changed a node's reliability."""

    time: int
    cause: str = Field(examples=["timed_out"])
    task: HashText | None
    before: FractionText
    after: FractionText
    back_at: int | None = Field(
        description="It excluded the node until then, if nothing else comes between; unix seconds."
    )
    place: LogPlace


class NodeHistory(Answer):
    """QoS, long-term and H of a node over time."""

    node: AddressText
    first: int = Field(
        description="Beginning of the span, unix seconds; not before the node was first heard of."
    )
    last: int
    columns: tuple[str, ...] = Field(
        default=("time", "qos", "long_term", "reliability"), description="Of each row."
    )
    rows: list[tuple[int, FractionText, FractionText, FractionText]] = Field(
        max_length=MOST_POINTS
    )
    thinned: bool = Field(
        description="Points were left out; each extreme of each part of the span is kept."
    )
    exact: bool = Field(
        description="Each point is what the fold said at that time; false where the stored "
        "history cannot tell (`note`)."
    )
    note: str | None
    marks: list[HistoryMark] = Field(description="The newest 500, oldest first.")
    marks_left_out: int


class HistoryQuery(ApiModel):
    """The span of a history, both ends included, and the maximum number of rows."""

    first: int | None = Field(
        None, ge=0, le=LARGEST_INTEGER, description="Unix seconds; the beginning."
    )
    last: int | None = Field(None, ge=0, le=LARGEST_INTEGER, description="Unix seconds; now.")
    points: int = Field(MOST_POINTS, ge=_MIN_POINTS, le=MOST_POINTS)


def node_history(look: ApiSnapshot, address: Address, asked: HistoryQuery) -> NodeHistory:
    """Return the history of a node that exists.

    Raises:
        QuestionError: the span is empty, or longer than 400 days.
    """
    rules = look.source.archive.rules
    last = min(look.cursor.time, look.cursor.time if asked.last is None else asked.last)
    changes = look.uow.reliability.of_node(address, 1 << 31)
    begun = _begun(look.uow, address, changes, last)
    first = max(begun, last - LONGEST_SPAN_SECONDS) if asked.first is None else asked.first
    if not 0 <= last - first <= LONGEST_SPAN_SECONDS:
        raise QuestionError("from and to: must be in order, and 400 days apart at most")
    # Nothing is stored of the time before the node was first seen.
    first = max(first, begun)
    record = _record(look.uow, address, changes, (first, last, rules.pool_size))
    points = [] if rules.legacy is not None else list(course(record, (first, last), rules))
    kept = thinned(points, asked.points) if len(points) > asked.points else points
    note = why_inexact(rules)
    marks = [change for change in changes if first <= change.time <= last]
    places = look.places(change.at for change in marks[-_MOST_MARKS:])
    return NodeHistory(
        as_of=look.as_of,
        node=address,
        first=first,
        last=last,
        rows=[_row(point) for point in kept],
        thinned=len(kept) < len(points),
        exact=note is None,
        note=note,
        marks=[_mark(change, places[change.at], rules) for change in marks[-_MOST_MARKS:]],
        marks_left_out=max(0, len(marks) - _MOST_MARKS),
    )


def _row(point: CoursePoint) -> tuple[int, str, str, str]:
    return (
        point.time,
        decimal_text(point.qos),
        decimal_text(point.long_term),
        decimal_text(point.reliability),
    )


def _begun(uow: UnitOfWork, address: Address, changes: list[ReliabilityChange], last: int) -> int:
    """Return the time of the first stored event of a node, or `default_time` if that is earlier."""
    first_score = uow.scores.first_time(address)
    times_known = [change.time for change in changes[:1]]
    times_known += [] if first_score is None else [first_score]
    return min([*times_known, last])


def _record(
    uow: UnitOfWork,
    address: Address,
    changes: list[ReliabilityChange],
    span: tuple[int, int, int],
) -> NodeRecord:
    first, last, pool_size = span
    earlier, scores = uow.scores.between(address, first, last, pool_size)
    kickouts, turns = uow.kickouts.of_node(address), uow.memberships.of_node(address, 1 << 31)
    return NodeRecord(earlier, scores, changes, kickouts, turns)


def _mark(change: ReliabilityChange, place: LogPlace, rules: Rules) -> HistoryMark:
    is_lower = change.after < change.before
    return HistoryMark(
        time=change.time,
        cause=change.cause.value,
        task=change.task,
        before=decimal_text(change.before),
        after=decimal_text(change.after),
        back_at=excluded_until(change.after, change.time, rules) if is_lower else None,
        place=place,
    )
