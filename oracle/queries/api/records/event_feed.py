"""A stream of events for subscribers, computed from stored records, that can be resumed.

The id of an event consists of the number of reorgs, the number of starts and ends of halts, the
block time, and the number of events delivered with that time. A reorg is an event itself; the
events of the new blocks follow it (docs/reference/read-api.md#event-stream).
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import Field
from typing_extensions import override

from oracle.domain.blocks import BEFORE_EVERYTHING, BlockRange, Position, format_block_count
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.fixed_point import format_decimal
from oracle.domain.fold.working_set import (
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.reliability import CAUSES, DECREASE_CAUSES, ReliabilityCause
from oracle.domain.scoring.rules import Rules
from oracle.queries.answers import AddressText, ApiModel
from oracle.queries.api.history_points import find_exclusion_end_time
from oracle.queries.api.source import ApiSnapshot, RequestError
from oracle.queries.incident_models import describe_incident

# Names of the events in the stream.
EVENT_KINDS = (
    *(cause.value for cause in DECREASE_CAUSES), "recovered", "joined", "paused", "resumed",
    "left", "kickout_due", "kickout_accused", "kickout_executed",
    "incident_began", "incident_over", "rules_announced", "rules_cancelled", "rules_set",
    "report_accepted", "reorg", "halted", "halt_cleared",
)  # fmt: skip
# Event name and text of each membership transition. Requests to pause or quit are not in the
# stream.
_EVENT_BY_TRANSITION = {
    MembershipTransition.JOINED: ("joined", "joined"),
    MembershipTransition.PAUSED: ("paused", "paused"),
    MembershipTransition.RESUMED: ("resumed", "resumed"),
    MembershipTransition.QUIT: ("left", "quit"),
    MembershipTransition.SLASHED: ("left", "was slashed"),
    MembershipTransition.KICKED_OUT: ("left", "was kicked out"),
}
ID_PATTERN = "^[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,15}-[0-9]{1,9}$"
# Maximum number of rows that a query reads. These limits are raised only if a single second has
# more rows.
_MAX_CHANGES = 5_000
_MAX_ROUNDS = 500


class FeedEvent(ApiModel):
    """An event of the stream; `kind` is the event's name in the stream."""

    kind: str = Field(
        examples=["timed_out"],
        description=f"{', '.join(EVENT_KINDS)}.",
    )
    time: int = Field(
        description=(
            "Time of the block, in unix seconds; for `recovered` without a block, the time at "
            "which the exclusion ended; for `halt_cleared`, the time by the operator's clock."
        )
    )
    block: int | None
    node: AddressText | None
    text: str = Field(examples=["timed out: reliability 0.150000000000000000 to 0.045…"])
    excluded_until: int | None = Field(
        default=None,
        description=(
            "Time at which recovery alone ends the exclusion that follows a fall of reliability, "
            "in unix seconds; null for other events, or if the node is not excluded."
        ),
    )


class EventCursor(NamedTuple):
    """A subscriber's position in the stream; `halts` counts starts and ends of halts."""

    reorgs: int
    halts: int
    time: int
    delivered: int

    @override
    def __str__(self) -> str:
        """Return the cursor as an event id."""
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> "EventCursor":
        """Parse an event id.

        Raises:
            RequestError: the id is malformed.
        """
        if re.fullmatch(ID_PATTERN, text) is None:
            raise RequestError("Last-Event-ID: not an event id of this API")
        return cls(*map(int, text.split("-")))


class NumberedEvent(NamedTuple):
    """An event, and the subscriber's cursor after this event."""

    cursor_after: EventCursor
    event: FeedEvent


def get_newest_event_cursor(snapshot: ApiSnapshot) -> EventCursor:
    """Return the cursor after all events up to the snapshot's cursor."""
    cursor_time = snapshot.cursor.time
    events, _ = _read_event_page(snapshot, cursor_time)
    delivered_count = sum(event.time == cursor_time for event in events)
    return EventCursor(
        snapshot.uow.reorgs.count(),
        snapshot.uow.halts.count_halt_changes(),
        cursor_time,
        delivered_count,
    )


def load_newest_events(
    snapshot: ApiSnapshot, since: int, limit: int
) -> tuple[list[NumberedEvent], EventCursor]:
    """Return the newest events since a block time, and the cursor after them.

    At most `limit` events are returned. `since` is the block time in seconds.
    """
    uow = snapshot.uow
    cursor = EventCursor(uow.reorgs.count(), uow.halts.count_halt_changes(), since, delivered=0)
    events: deque[NumberedEvent] = deque(maxlen=limit)
    while event_page := load_events_since(snapshot, cursor, limit):
        events.extend(event_page)
        cursor = event_page[-1].cursor_after
        if len(event_page) < limit:
            break
    if cursor.time < snapshot.cursor.time:
        cursor = cursor._replace(time=snapshot.cursor.time, delivered=0)
    return list(events), cursor


def load_events_since(
    snapshot: ApiSnapshot, cursor: EventCursor, limit: int
) -> list[NumberedEvent]:
    """Return up to `limit` events that follow the subscriber's cursor."""
    numbered_events: list[NumberedEvent] = []
    reorg_count = snapshot.uow.reorgs.count()
    halt_count = snapshot.uow.halts.count_halt_changes()
    if reorg_count < cursor.reorgs or halt_count < cursor.halts:
        # The cursor is from another database, so the events since then are unknown.
        cursor = get_newest_event_cursor(snapshot)
    for event in _list_halt_events(snapshot, cursor.halts, limit):
        cursor = cursor._replace(halts=cursor.halts + 1)
        numbered_events.append(NumberedEvent(cursor, event))
    reorg_event = _build_reorg_event(snapshot, cursor)
    if reorg_event is not None:
        numbered_events.append(reorg_event)
        cursor = reorg_event.cursor_after
    numbered_events += _list_chain_events(snapshot, cursor, limit - len(numbered_events))
    return numbered_events[:limit]


def _list_chain_events(
    snapshot: ApiSnapshot, cursor: EventCursor, limit: int
) -> list[NumberedEvent]:
    """Return at least `limit` chain events after the subscriber's cursor, if available."""
    numbered_events: list[NumberedEvent] = []
    page_time, passed_count = cursor.time, 0
    # Continue even if a page has no events, because some rows give none.
    while len(numbered_events) < limit and page_time <= snapshot.cursor.time:
        events, last_time = _read_event_page(snapshot, page_time)
        for event in events:
            passed_count = passed_count + 1 if event.time == cursor.time else 1
            if event.time == cursor.time and passed_count <= cursor.delivered:
                continue
            cursor = cursor._replace(time=event.time, delivered=passed_count)
            numbered_events.append(NumberedEvent(cursor, event))
        page_time = last_time + 1
    return numbered_events


def _build_reorg_event(snapshot: ApiSnapshot, cursor: EventCursor) -> NumberedEvent | None:
    """Return one event that sums up all reorgs since the cursor, or None if there were none."""
    count = snapshot.uow.reorgs.count()
    reorgs = snapshot.uow.reorgs.list_newest(count - cursor.reorgs)
    if not reorgs:
        return None
    ancestor = min(reorg.ancestor for reorg in reorgs)
    block = snapshot.uow.blocks.find_canonical(ancestor)
    time = snapshot.cursor.time if block is None else min(block.time, cursor.time)
    events, _ = _read_event_page(snapshot, time)
    delivered_count = sum(
        event.time == time and (event.block or 0) <= ancestor for event in events
    )
    max_depth = max(reorg.depth for reorg in reorgs)
    event_text = (
        f"a reorg removed {format_block_count(max_depth)}: discard all events of blocks above "
        f"{ancestor}"
    )
    event = FeedEvent(kind="reorg", time=time, block=ancestor, node=None, text=event_text)
    return NumberedEvent(EventCursor(count, cursor.halts, time, delivered_count), event)


def _list_halt_events(snapshot: ApiSnapshot, delivered: int, max_halts: int) -> list[FeedEvent]:
    """Return the starts and ends of halts, oldest first, without those already delivered.

    Only one halt is open at a time, because all halts have the same name. Every halt before the
    last halt therefore has a start and an end. The operator who cleared a halt, and the reason,
    are not public.
    """
    halt_events = []
    halt_index, skipped_count = divmod(delivered, 2)
    for halt in snapshot.uow.halts.list_halts(halt_index, max_halts):
        time, block = halt.since_time, halt.since_block
        event_text = f"halted ({halt.name}): nothing is signed or sent"
        halt_events.append(
            FeedEvent(kind="halted", time=time, block=block, node=None, text=event_text)
        )
        if halt.cleared is not None:
            time = halt.cleared.time
            event_text = f"the halt ({halt.name}) was cleared"
            halt_events.append(
                FeedEvent(kind="halt_cleared", time=time, block=None, node=None, text=event_text)
            )
    return halt_events[skipped_count:]


def _read_event_page(snapshot: ApiSnapshot, time: int) -> tuple[list[FeedEvent], int]:
    """Read the events since a block time, and the time until which they are complete.

    The limits are raised until the events cover at least one second.
    """
    limit_factor = 1
    events, last_time = _read_limited_event_page(snapshot, time, limit_factor)
    while last_time < min(time, snapshot.cursor.time):
        limit_factor *= 2
        events, last_time = _read_limited_event_page(snapshot, time, limit_factor)
    return events, last_time


def _read_limited_event_page(
    snapshot: ApiSnapshot, time: int, factor: int
) -> tuple[list[FeedEvent], int]:
    rules = snapshot.source.archive.rules
    max_changes = factor * _MAX_CHANGES
    max_rounds = factor * _MAX_ROUNDS
    # A recovery takes at most as long as the longest exclusion. A node that recovers now was
    # therefore excluded after this time.
    earliest_time = time - (find_exclusion_end_time(0, 0, rules) or 0)
    activity = snapshot.uow.activity
    first_block = activity.find_first_block_since(earliest_time, snapshot.cursor.number)
    earlier_changes = activity.list_last_reliability_changes(time, earliest_time, first_block)
    changes = activity.list_reliability_changes(time, first_block, max_changes)
    membership_changes = activity.list_membership_changes(time, first_block, max_changes)
    rounds = snapshot.uow.rounds.list_accepted_since(time, first_block, max_rounds)
    last_time = min(
        _find_last_complete_time(rows, max_rows, snapshot.cursor.time)
        for rows, max_rows in (
            (changes, max_changes),
            (membership_changes, max_changes),
            (rounds, max_rounds),
        )
    )
    events = [
        *_build_reliability_events(changes, rules),
        *_build_recovery_events([*earlier_changes, *changes], rules),
        *_build_membership_events(membership_changes),
        *_build_round_events(rounds),
        *_build_kickout_events(snapshot, first_block),
        *_build_incident_events(snapshot, first_block),
        *_build_rules_events(snapshot),
    ]
    page_events = sorted(
        (pair for pair in events if time <= pair[1].time <= last_time),
        key=lambda pair: (pair[1].time, pair[0], pair[1].kind, pair[1].node or ""),
    )
    return [event for _, event in page_events], last_time


def _find_last_complete_time(
    rows: Sequence[MembershipChange | ReliabilityChange | RoundAccepted],
    max_rows: int,
    cursor_time: int,
) -> int:
    """Return the latest block time up to which all rows were read."""
    return rows[-1].time - 1 if len(rows) == max_rows else cursor_time


def _build_membership_events(
    changes: list[MembershipChange],
) -> Iterator[tuple[Position, FeedEvent]]:
    for change in changes:
        if change.transition in _EVENT_BY_TRANSITION:
            kind, event_text = _EVENT_BY_TRANSITION[change.transition]
            yield (
                change.at,
                FeedEvent(
                    kind=kind,
                    time=change.time,
                    block=change.at.block,
                    node=change.node,
                    text=event_text,
                ),
            )


def _build_reliability_events(
    changes: list[ReliabilityChange], rules: Rules
) -> Iterator[tuple[Position, FeedEvent]]:
    for change in changes:
        change_text = (
            f"reliability {format_decimal(change.before)} to {format_decimal(change.after)}"
        )
        if change.cause in DECREASE_CAUSES:
            exclusion_end = find_exclusion_end_time(change.after, change.time, rules)
            event_text = f"{CAUSES[change.cause].description}: {change_text}"
            yield (
                change.at,
                _build_reliability_event(change.cause.value, change, event_text, exclusion_end),
            )
        elif change.cause is ReliabilityCause.JOINED:
            continue  # A membership event reports the same change.
        elif change.before < rules.exclude_enter and change.after >= rules.exclude_exit:
            yield (
                change.at,
                _build_reliability_event(
                    "recovered", change, f"recovered by a success: {change_text}"
                ),
            )


def _build_reliability_event(
    kind: str, change: ReliabilityChange, text: str, exclusion_end: int | None = None
) -> FeedEvent:
    return FeedEvent(
        kind=kind,
        time=change.time,
        block=change.at.block,
        node=change.node,
        text=text,
        excluded_until=exclusion_end,
    )


def _build_recovery_events(
    changes: list[ReliabilityChange], rules: Rules
) -> Iterator[tuple[Position, FeedEvent]]:
    """Yield an event for each exclusion that ended by recovery alone, without a log."""
    next_change_by_node: dict[Address, ReliabilityChange] = {}
    for change in reversed(changes):
        next_change = next_change_by_node.get(change.node)
        next_change_by_node[change.node] = change
        exclusion_end = find_exclusion_end_time(change.after, change.time, rules)
        if exclusion_end is None or (next_change is not None and next_change.time < exclusion_end):
            continue
        text = "recovered: the node can be given tasks again"
        yield (
            # A recovery has no log, so it comes before the other events of its second.
            BEFORE_EVERYTHING,
            FeedEvent(
                kind="recovered", time=exclusion_end, block=None, node=change.node, text=text
            ),
        )


def _build_round_events(
    rounds: Sequence[RoundAccepted],
) -> Iterator[tuple[Position, FeedEvent]]:
    for accepted_round in rounds:
        event_text = (
            f"round {accepted_round.round} was accepted, as of block {accepted_round.as_of}"
        )
        yield (
            accepted_round.at,
            FeedEvent(
                kind="report_accepted",
                time=accepted_round.time,
                block=accepted_round.at.block,
                node=None,
                text=event_text,
            ),
        )


def _build_kickout_events(
    snapshot: ApiSnapshot, first_block: int
) -> Iterator[tuple[Position, FeedEvent]]:
    events = [
        (due_interval.opened_at, due_interval.node, "kickout_due", "the kickout is due")
        for due_interval in snapshot.uow.activity.list_kickouts_since_block(first_block)
    ]
    for kick in snapshot.uow.rounds.list_kicks():
        if kick.accusation is not None:
            events.append(
                (kick.accusation.at, kick.node, "kickout_accused", "the node was accused")
            )
        if kick.expulsion is not None:
            events.append(
                (kick.expulsion.at, kick.node, "kickout_executed", "the node was kicked out")
            )
    for position, node, kind, text in events:
        time = snapshot.find_block_time(position) if position.block >= first_block else None
        if time is not None:
            yield (
                position,
                FeedEvent(kind=kind, time=time, block=position.block, node=node, text=text),
            )


def _build_incident_events(
    snapshot: ApiSnapshot, first_block: int
) -> Iterator[tuple[Position, FeedEvent]]:
    if first_block > snapshot.cursor.number:
        return
    blocks = BlockRange(first_block, snapshot.cursor.number)
    for incident in snapshot.uow.incidents.list_changed(blocks):
        for kind, state, position, time in (
            ("incident_began", "began", incident.found_at, incident.found_time),
            ("incident_over", "is over", incident.over_at, incident.over_time),
        ):
            if position is not None and time is not None:
                yield (
                    position,
                    FeedEvent(
                        kind=kind,
                        time=time,
                        block=position.block,
                        node=None,
                        text=f"incident {incident.number} {state}: {describe_incident(incident)}",
                    ),
                )


def _build_rules_events(snapshot: ApiSnapshot) -> Iterator[tuple[Position, FeedEvent]]:
    for change in snapshot.uow.rounds.get_contract_settings().rules_changes:
        for kind, event, state in (
            ("rules_announced", change.scheduled, "were announced"),
            ("rules_cancelled", change.cancelled, "were announced, but will not come: cancelled"),
            ("rules_set", change.set_by, "are in force"),
        ):
            if event is not None:
                yield (
                    event.at,
                    FeedEvent(
                        kind=kind,
                        time=event.time,
                        block=event.at.block,
                        node=None,
                        text=f"rules {change.rules_hash} {state}",
                    ),
                )
