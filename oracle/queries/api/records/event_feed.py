"""The event feed of subscribers, in one resumable order: derived from records, never stored itself.

An event's id has the number of reorgs, the number of beginnings and ends of halts, the block time,
and the number of delivered events of that time. A reorg is an event; the events of the replacing
blocks follow it (docs/explanation/read-api.md#events).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import Field
from typing_extensions import override

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.working_set import (
    CAUSES,
    FALLS,
    MembershipChange,
    MembershipTransition,
    ReliabilityCause,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.queries.answers import AddressText, ApiModel
from oracle.queries.api.history_course import excluded_until
from oracle.queries.api.source import ApiSnapshot, QuestionError
from oracle.queries.text.human_numbers import counted

# Names of events in the stream.
EVENT_KINDS = (
    *(cause.value for cause in FALLS), "recovered", "joined", "paused", "resumed", "left",
    "kickout_due", "kickout_proposed", "kickout_executed",
    "report_accepted", "reorg", "halted", "halt_cleared",
)  # fmt: skip
# Event name and text of each membership transition; a mere request is no event.
_TURNS = {
    MembershipTransition.JOINED: ("joined", "joined"),
    MembershipTransition.PAUSED: ("paused", "paused"),
    MembershipTransition.RESUMED: ("resumed", "resumed"),
    MembershipTransition.QUIT: ("left", "quit"),
    MembershipTransition.SLASHED: ("left", "was slashed"),
    MembershipTransition.KICKED_OUT: ("left", "was kicked out"),
}
ID_PATTERN = "^[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,15}-[0-9]{1,9}$"
# Changes per read; a second with more changes than this could never be passed.
_MOST_CHANGES = 5_000
_MOST_ROUNDS = 500
_MOST_HALTS = 1_000


class FeedEvent(ApiModel):
    """One event; `kind` is its name in the stream."""

    kind: str = Field(
        examples=["timed_out"],
        description=f"{', '.join(EVENT_KINDS)}.",
    )
    time: int = Field(
        description="Of the block, unix seconds; where a person cleared a halt, of their clock."
    )
    block: int | None
    node: AddressText | None
    text: str = Field(examples=["timed out: reliability 0.150000000000000000 to 0.045…"])
    excluded_until: int | None = Field(
        default=None, description="Unix seconds, if nothing comes between."
    )


class EventCursor(NamedTuple):
    """The position of a subscriber; `halts` counts beginnings and ends of halts."""

    reorgs: int
    halts: int
    time: int
    told: int

    @override
    def __str__(self) -> str:
        """Return the cursor as an event's id."""
        return "-".join(map(str, self))

    @classmethod
    def parsed(cls, text: str) -> "EventCursor":
        """Parse an event's id; raise QuestionError if it is malformed."""
        if re.fullmatch(ID_PATTERN, text) is None:
            raise QuestionError("Last-Event-ID: is none that this API gave out")
        return cls(*map(int, text.split("-")))


class NumberedEvent(NamedTuple):
    """An event, and the position of a subscriber that has received it."""

    after: EventCursor
    event: FeedEvent


def newest_place(look: ApiSnapshot) -> EventCursor:
    """Return the position of a subscriber that has received every event up to the cursor."""
    time = look.cursor.time
    told = sum(event.time == time for _, event in _events_from(look, time))
    return EventCursor(look.uow.reorgs.count(), len(_halts(look)), time, told)


def events_after(look: ApiSnapshot, place: EventCursor, most: int) -> list[NumberedEvent]:
    """Return the next events after a position, at most `limit`; empty at the newest position."""
    found: list[NumberedEvent] = []
    halts = _halts(look)
    if look.uow.reorgs.count() < place.reorgs or len(halts) < place.halts:
        # Another database issued this cursor, so the events since then cannot be determined.
        place = newest_place(look)
    for event in halts[place.halts :]:
        place = place._replace(halts=place.halts + 1)
        found.append(NumberedEvent(place, event))
    reorged = _reorged(look, place)
    if reorged is not None:
        found.append(reorged)
        place = reorged.after
    passed = 0
    for _, event in _events_from(look, place.time):
        passed = passed + 1 if event.time == place.time else 1
        if event.time == place.time and passed <= place.told:
            continue
        place = place._replace(time=event.time, told=passed)
        found.append(NumberedEvent(place, event))
    return found[:most]


def _reorged(look: ApiSnapshot, place: EventCursor) -> NumberedEvent | None:
    """Return one event for all reorgs since the cursor, or None if there were none."""
    count = look.uow.reorgs.count()
    since = look.uow.reorgs.newest(count - place.reorgs)
    if not since:
        return None
    ancestor = min(one.ancestor for one in since)
    block = look.uow.blocks.at(ancestor)
    time = look.cursor.time if block is None else min(block.time, place.time)
    told = sum(
        event.time == time and (event.block or 0) <= ancestor
        for _, event in _events_from(look, time)
    )
    depth = max(one.depth for one in since)
    text = f"{depth} blocks were given up: forget what was told of blocks above {ancestor}"
    event = FeedEvent(kind="reorg", time=time, block=ancestor, node=None, text=text)
    return NumberedEvent(EventCursor(count, place.halts, time, told), event)


def _halts(look: ApiSnapshot) -> list[FeedEvent]:
    """Return the beginning and the end of every halt, the oldest first.

    Only one halt is open at a time, because all have one name. The operator who cleared it, and
    the reason, are not public.
    """
    found = []
    for halt in reversed(look.uow.halts.history(_MOST_HALTS)):
        time, block = halt.since_time, halt.since_block
        text = f"nothing is sent any more: {halt.name}"
        found.append(FeedEvent(kind="halted", time=time, block=block, node=None, text=text))
        if halt.cleared is not None:
            time, text = halt.cleared.time, f"it goes on: {halt.name} is over"
            found.append(
                FeedEvent(kind="halt_cleared", time=time, block=None, node=None, text=text)
            )
    return found


def _events_from(look: ApiSnapshot, time: int) -> list[tuple[Position, FeedEvent]]:
    """Return the events at this time or later, in order."""
    rules = look.source.archive.rules
    # The longest possible exclusion: H that recovers now may have been lowered that long ago.
    longest = excluded_until(0, 0, rules) or 0
    activity = look.uow.activity
    first = activity.first_block_at(time - longest, look.cursor.number)
    changes = activity.changes_since(time - longest, first, _MOST_CHANGES)
    turns = activity.turns_since(time, first, _MOST_CHANGES)
    last = min(_whole_until(changes, look.cursor.time), _whole_until(turns, look.cursor.time))
    found = [
        *_of_changes(changes, rules),
        *_healed(changes, rules),
        *_of_turns(turns),
        *_of_rounds(look, first),
        *_of_kickouts(look, first),
    ]
    return sorted(
        (pair for pair in found if time <= pair[1].time <= last),
        key=lambda pair: (pair[1].time, pair[0], pair[1].kind, pair[1].node or ""),
    )


def _whole_until(read: Sequence[MembershipChange | ReliabilityChange], now: int) -> int:
    """Return the last time up to which all changes were read."""
    return read[-1].time - 1 if len(read) == _MOST_CHANGES else now


def _of_turns(turns: list[MembershipChange]) -> Iterator[tuple[Position, FeedEvent]]:
    for one in turns:
        if one.turn in _TURNS:
            kind, text = _TURNS[one.turn]
            yield (
                one.at,
                FeedEvent(kind=kind, time=one.time, block=one.at.block, node=one.node, text=text),
            )


def _of_changes(
    changes: list[ReliabilityChange], rules: Rules
) -> Iterator[tuple[Position, FeedEvent]]:
    for change in changes:
        words = f"reliability {decimal_text(change.before)} to {decimal_text(change.after)}"
        if change.cause in FALLS:
            until = excluded_until(change.after, change.time, rules)
            text = f"{CAUSES[change.cause].words}: {words}"
            yield change.at, _event(change.cause.value, change, text, until)
        elif change.cause is ReliabilityCause.JOINED:
            continue  # The membership event covers it.
        elif change.before < rules.exclude_enter and change.after >= rules.exclude_exit:
            yield change.at, _event("recovered", change, f"recovered by a success: {words}")


def _event(kind: str, change: ReliabilityChange, text: str, until: int | None = None) -> FeedEvent:
    return FeedEvent(
        kind=kind,
        time=change.time,
        block=change.at.block,
        node=change.node,
        text=text,
        excluded_until=until,
    )


def _healed(
    changes: list[ReliabilityChange], rules: Rules
) -> Iterator[tuple[Position, FeedEvent]]:
    """Yield the ends of exclusions by recovery of H alone, which no log records."""
    newest: dict[Address, ReliabilityChange] = {}
    for change in reversed(changes):
        later = newest.get(change.node)
        newest[change.node] = change
        until = excluded_until(change.after, change.time, rules)
        if until is None or (later is not None and later.time < until):
            continue
        text = "recovered: it can be given tasks again"
        yield (
            # An event without a log comes first in its second.
            BEFORE_EVERYTHING,
            FeedEvent(kind="recovered", time=until, block=None, node=change.node, text=text),
        )


def _of_rounds(look: ApiSnapshot, first: int) -> Iterator[tuple[Position, FeedEvent]]:
    for one in look.uow.rounds.accepted_from(first, _MOST_ROUNDS):
        words = counted(len(one.words), "word")
        text = f"round {one.round} was accepted: {words} as of block {one.as_of}"
        yield (
            one.at,
            FeedEvent(
                kind="report_accepted", time=one.time, block=one.at.block, node=None, text=text
            ),
        )


def _of_kickouts(look: ApiSnapshot, first: int) -> Iterator[tuple[Position, FeedEvent]]:
    told = [
        (one.opened_at, one.node, "kickout_due", "its kickout is due")
        for one in look.uow.activity.kickouts_since(first)
    ]
    for kick in look.uow.rounds.kicks():
        told.append((kick.proposed_at, kick.node, "kickout_proposed", "a kickout was proposed"))
        if kick.expulsion is not None:
            told.append((kick.expulsion.at, kick.node, "kickout_executed", "it was kicked out"))
    for at, node, kind, text in told:
        time = look.time_of(at) if at.block >= first else None
        if time is not None:
            yield at, FeedEvent(kind=kind, time=time, block=at.block, node=node, text=text)
