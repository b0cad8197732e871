"""What became of a node's membership, and what the oracle contract was told of it over time.

As far as stored rows say when: pauses and leaves are not among them, but for a kickout.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import ReliabilityCause
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, lane_in, word_of
from oracle.queries.api.answers import AddressText, Answer, ApiModel, HashText, LogPlace
from oracle.queries.api.node_list import fraction_of_lane
from oracle.queries.api.source import ApiLook

_ALL = 1 << 31
_MOST_EVENTS, _MOST_ROUNDS = 50, 100

PastKind = Literal["joined", "kickout_due", "kickout_over", "kickout_proposed", "kickout_executed"]


class PastEvent(ApiModel):
    """One turn of a node's membership."""

    what: PastKind
    time: int | None = Field(description="Unix seconds; null: no log of its block is kept.")
    place: LogPlace
    evidence: HashText | None = Field(description="Of a kickout: the hash of its evidence.")
    round: int | None = Field(description="Of a kickout: the round that it was proposed in.")


class ReportedChange(ApiModel):
    """A round that changed what the contract says of the node."""

    round: int
    time: int
    before: str = Field(description="QoS, `never reported` or `not selectable`.")
    after: str


class NodePast(Answer):
    """A node's membership and its rounds, the newest first."""

    node: AddressText
    membership: list[PastEvent] = Field(description="The newest 50; pauses are not stored.")
    reported: list[ReportedChange] = Field(
        description="Among the newest 100 rounds that wrote its word."
    )


class _Turn(NamedTuple):
    at: Position
    what: PastKind
    evidence: Hash | None = None
    round: int | None = None


def node_past(look: ApiLook, address: Address) -> NodePast:
    """Return what is stored of a node that is known."""
    turns = sorted(_turns(look, address), reverse=True)[:_MOST_EVENTS]
    places = look.places(turn.at for turn in turns)
    return NodePast(
        as_of=look.as_of,
        node=address,
        membership=[
            PastEvent(
                what=turn.what,
                time=look.time_of(turn.at),
                place=places[turn.at],
                evidence=turn.evidence,
                round=turn.round,
            )
            for turn in turns
        ],
        reported=list(_reported(look, address)),
    )


def kicked_out_at(look: ApiLook, address: Address) -> int | None:
    """Return the time at which the contract expelled a node; None: it did not, or nobody knows."""
    gone = next((kick.expulsion for kick in look.uow.rounds.about([address]).kicks.values()), None)
    return None if gone is None else look.time_of(gone.at)


def _turns(look: ApiLook, address: Address) -> Iterator[_Turn]:
    for change in look.uow.reliability.of_node(address, _ALL):
        if change.cause is ReliabilityCause.JOINED:
            yield _Turn(change.at, "joined")
    kicks = look.uow.rounds.about([address]).kicks.values()
    gone = {kick.expulsion.at for kick in kicks if kick.expulsion is not None}
    for interval in look.uow.kickouts.of_node(address):
        yield _Turn(interval.opened_at, "kickout_due")
        closed = interval.closed_at
        if closed is not None and closed.block not in {at.block for at in gone}:
            yield _Turn(closed, "kickout_over")
    for kick in kicks:
        yield _Turn(kick.proposed_at, "kickout_proposed", kick.evidence, kick.round)
        if kick.expulsion is not None:
            yield _Turn(kick.expulsion.at, "kickout_executed", kick.evidence, kick.round)


def _reported(look: ApiLook, address: Address) -> Iterator[ReportedChange]:
    index = look.uow.rounds.about([address]).index_by_node.get(address)
    if index is None:
        return
    number = word_of(index)
    newest = look.uow.rounds.until(number, _ALL, _MOST_ROUNDS)
    found = [(one, lane_in(dict(one.words)[number], index)) for one in newest if one.words]
    lanes = [lane for _, lane in found]
    if newest and newest[-1].round == 1:
        # All there ever were: before them nothing was written.
        lanes.append(NEVER_REPORTED)
    for (one, _), (after, before) in zip(found, pairwise(lanes), strict=False):
        if before != after:
            yield ReportedChange(
                round=one.round, time=one.time, before=said(before), after=said(after)
            )


def said(lane: int) -> str:
    """Return what a lane says, for people."""
    if lane == NEVER_REPORTED:
        return "never reported"
    return fraction_of_lane(lane) or "not selectable"
