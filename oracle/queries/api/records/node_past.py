"""The history of a node's membership, and of its score in the oracle contract."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.working_set import MembershipTransition
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, lane_in, qos_in, word_of
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText, LogPlace
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.selection.draw_history import DrawEntry, draw_entries

_ALL = 1 << 31
_MOST_EVENTS, _MOST_ROUNDS, _MOST_DRAWS = 50, 100, 20

PastKind = Literal[
    "joined", "pause_asked", "paused", "resumed", "quit_asked", "quit", "slashed", "kicked_out",
    "kickout_due", "kickout_over", "kickout_proposed", "kickout_executed",
]  # fmt: skip


class PastEvent(ApiModel):
    """One event of a node's membership."""

    what: PastKind
    time: int | None = Field(description="Unix seconds; null: no log of its block is kept.")
    place: LogPlace
    evidence: HashText | None = Field(description="Of a kickout: the hash of its evidence.")
    round: int | None = Field(description="Of a kickout: the round that it was proposed in.")


class ReportedChange(ApiModel):
    """A round that changed the node's score in the contract."""

    round: int
    time: int
    before: str = Field(description="QoS, `never reported` or `not selectable`.")
    after: str


class NodePast(Answer):
    """A node's membership, its rounds and its draws, the newest first."""

    node: AddressText
    membership: list[PastEvent] = Field(description="The newest 50.")
    reported: list[ReportedChange] = Field(
        description="Among the newest 100 rounds that wrote its word."
    )
    drawn: list[DrawEntry] = Field(description="The newest 20 draws that drew it.")


class _PastEvent(NamedTuple):
    at: Position
    what: PastKind
    evidence: Hash | None = None
    round: int | None = None
    time: int | None = None


def node_past(look: ApiSnapshot, address: Address) -> NodePast:
    """Return the stored past of a node that exists."""
    turns = sorted(_turns(look, address), reverse=True)[:_MOST_EVENTS]
    places = look.places(turn.at for turn in turns)
    return NodePast(
        as_of=look.as_of,
        node=address,
        membership=[
            PastEvent(
                what=turn.what,
                time=look.time_of(turn.at) if turn.time is None else turn.time,
                place=places[turn.at],
                evidence=turn.evidence,
                round=turn.round,
            )
            for turn in turns
        ],
        reported=list(_reported(look, address)),
        drawn=draw_entries(look.uow, look.uow.draws.of_node(address, _MOST_DRAWS)),
    )


def _turns(look: ApiSnapshot, address: Address) -> Iterator[_PastEvent]:
    kicks = look.uow.rounds.about([address]).kicks.values()
    gone = {kick.expulsion.at for kick in kicks if kick.expulsion is not None}
    executed = {(at.block, at.tx) for at in gone}
    for change in look.uow.memberships.of_node(address, _MOST_EVENTS):
        # The network's own event of a kickout that the oracle executed is the same kickout.
        if change.turn is MembershipTransition.KICKED_OUT and change.at[:2] in executed:
            continue
        yield _PastEvent(change.at, change.turn.value, time=change.time)
    for interval in look.uow.kickouts.of_node(address):
        yield _PastEvent(interval.opened_at, "kickout_due")
        closed = interval.closed_at
        if closed is not None and closed.block not in {at.block for at in gone}:
            yield _PastEvent(closed, "kickout_over")
    for kick in kicks:
        yield _PastEvent(kick.proposed_at, "kickout_proposed", kick.evidence, kick.round)
        if kick.expulsion is not None:
            yield _PastEvent(kick.expulsion.at, "kickout_executed", kick.evidence, kick.round)


def _reported(look: ApiSnapshot, address: Address) -> Iterator[ReportedChange]:
    index = look.uow.rounds.about([address]).index_by_node.get(address)
    if index is None:
        return
    number = word_of(index)
    newest = look.uow.rounds.until(number, _ALL, _MOST_ROUNDS)
    found = [(one, lane_in(dict(one.words)[number], index)) for one in newest if one.words]
    lanes = [lane for _, lane in found]
    if newest and newest[-1].round == 1:
        # These are all rounds: before the first one nothing was written.
        lanes.append(NEVER_REPORTED)
    for (one, _), (after, before) in zip(found, pairwise(lanes), strict=False):
        if before != after:
            yield ReportedChange(
                round=one.round, time=one.time, before=said(before), after=said(after)
            )


def said(lane: int) -> str:
    """Return the score of a lane as text."""
    if lane == NEVER_REPORTED:
        return "never reported"
    qos = qos_in(lane)
    return "not selectable" if qos is None else decimal_text(qos)
