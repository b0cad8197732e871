"""The history of a node's membership and of its score in the oracle contract."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import Field

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import format_decimal
from oracle.domain.fold.working_set import MembershipChange, MembershipTransition, ScoreEntry
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, decode_qos
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText, LogPlace
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.selection.draw_history import DrawEntry, build_draw_entries

_MAX_EVENTS, _MAX_ROUNDS, _MAX_DRAWS = 50, 100, 20

PastKind = Literal[
    "joined", "pause_asked", "paused", "resumed", "quit_asked", "quit", "slashed", "kicked_out",
    "kickout_due", "kickout_over", "kickout_accused", "kickout_executed",
]  # fmt: skip


class PastEvent(ApiModel):
    """One event of a node's membership."""

    what: PastKind
    time: int | None = Field(
        description=(
            "Time of the event, in unix seconds; null if neither the header nor the logs of its "
            "block are stored."
        )
    )
    place: LogPlace
    evidence: HashText | None = Field(
        description=(
            "Hash of the evidence behind an accusation or its execution; null for other events, "
            "or without an indexed accusation."
        )
    )
    round: int | None = Field(
        description="Round with which the node was accused or expelled; null for other events."
    )


class ReportedChange(ApiModel):
    """A round that changed the node's score in the contract."""

    round: int
    time: int
    before: str = Field(
        description=(
            "QoS in the previous round whose leaves are stored, `never reported` or `not "
            "selectable`."
        )
    )
    after: str


class NodePast(Answer):
    """A node's membership, rounds and draws, newest first."""

    node: AddressText
    membership: list[PastEvent] = Field(
        description="The newest 50 changes of the node's membership and steps of its kickouts."
    )
    reported: list[ReportedChange] = Field(
        description=(
            "Changes of the node's score, in those of the newest 100 rounds whose leaves are "
            "stored."
        )
    )
    drawn: list[DrawEntry] = Field(description="The newest 20 draws of the node for a task.")


class _MembershipEvent(NamedTuple):
    position: Position
    kind: PastKind
    evidence: Hash | None = None
    round: int | None = None
    time: int | None = None


def build_node_past(snapshot: ApiSnapshot, address: Address) -> NodePast:
    """Return the stored membership events, rounds and draws of a node that exists."""
    events = sorted(_iter_membership_events(snapshot, address), reverse=True)[:_MAX_EVENTS]
    log_place_by_position = snapshot.load_log_places(event.position for event in events)
    return NodePast(
        as_of=snapshot.as_of,
        node=address,
        membership=[
            PastEvent(
                what=event.kind,
                time=event.time
                if event.time is not None
                else _find_kickout_event_time(snapshot, address, event.position),
                place=log_place_by_position[event.position],
                evidence=event.evidence,
                round=event.round,
            )
            for event in events
        ],
        reported=list(_iter_reported_lane_changes(snapshot, address)),
        drawn=build_draw_entries(
            snapshot.uow, snapshot.uow.draws.list_for_node(address, _MAX_DRAWS)
        ),
    )


def _find_kickout_event_time(
    snapshot: ApiSnapshot, address: Address, position: Position
) -> int | None:
    """Return the block time at which a kickout interval opened or closed, if known.

    An interval opens or closes with a score or a change of membership. The rows of both have a
    time, even if the logs and the header of the block are no longer stored.
    """
    uow, block = snapshot.uow, position.block
    stored_events: list[ScoreEntry | MembershipChange] = [
        *uow.scores.list_for_node_up_to_block(address, block, 1),
        *uow.memberships.list_for_node(address, _MAX_EVENTS),
    ]
    event_times = [event.time for event in stored_events if event.at.block == block]
    return event_times[0] if event_times else snapshot.find_block_time(position)


def _iter_membership_events(snapshot: ApiSnapshot, address: Address) -> Iterator[_MembershipEvent]:
    kicks = snapshot.uow.rounds.get_kick_by_node([address]).values()
    expulsion_positions = {kick.expulsion.at for kick in kicks if kick.expulsion is not None}
    expulsion_transactions = {(position.block, position.tx) for position in expulsion_positions}
    for change in snapshot.uow.memberships.list_for_node(address, _MAX_EVENTS):
        # For a kickout by the oracle contract, the network's contract emits an event, too. Skip
        # this event, so that the kickout is listed once.
        if (
            change.transition is MembershipTransition.KICKED_OUT
            and change.at[:2] in expulsion_transactions
        ):
            continue
        yield _MembershipEvent(change.at, change.transition.value, time=change.time)
    for interval in snapshot.uow.kickouts.list_for_node(address):
        yield _MembershipEvent(interval.opened_at, "kickout_due")
        closed_at = interval.closed_at
        if closed_at is not None and closed_at.block not in {
            position.block for position in expulsion_positions
        }:
            yield _MembershipEvent(closed_at, "kickout_over")
    for kick in kicks:
        accusation, expulsion = kick.accusation, kick.expulsion
        evidence = None if accusation is None else accusation.evidence
        if accusation is not None:
            yield _MembershipEvent(accusation.at, "kickout_accused", evidence, accusation.round)
        if expulsion is not None:
            yield _MembershipEvent(expulsion.at, "kickout_executed", evidence, expulsion.round)


def _iter_reported_lane_changes(
    snapshot: ApiSnapshot, address: Address
) -> Iterator[ReportedChange]:
    """Yield each round that changed the node's lane, newest first."""
    node = snapshot.uow.nodes.get_many([address])[address]
    newest_rounds = snapshot.uow.rounds.list_accepted_below(None, _MAX_ROUNDS)
    lane_by_as_of = snapshot.uow.leaf_pieces.load_lanes_of_seat(
        node.seat, [accepted_round.as_of for accepted_round in newest_rounds]
    )
    rounds_with_lanes = [
        (accepted_round, lane_by_as_of[accepted_round.as_of])
        for accepted_round in newest_rounds
        if accepted_round.as_of in lane_by_as_of
    ]
    old_lanes = [lane for _, lane in rounds_with_lanes[1:]]
    if rounds_with_lanes and rounds_with_lanes[-1][0].round == 1:
        # Nothing had been reported about any node before the first round.
        old_lanes.append(NEVER_REPORTED)
    # The lane before the oldest stored round is unknown. `old_lanes` may therefore be shorter by
    # one.
    for (accepted_round, new_lane), old_lane in zip(rounds_with_lanes, old_lanes, strict=False):
        if old_lane != new_lane:
            yield ReportedChange(
                round=accepted_round.round,
                time=accepted_round.time,
                before=format_lane(old_lane),
                after=format_lane(new_lane),
            )


def format_lane(lane: int) -> str:
    """Format the score that a lane encodes as text."""
    if lane == NEVER_REPORTED:
        return "never reported"
    qos = decode_qos(lane)
    return "not selectable" if qos is None else format_decimal(qos)
