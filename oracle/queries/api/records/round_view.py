"""Rounds that the oracle contract accepted: what each said, and by which transaction."""

from pydantic import Field

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.lanes import DO_NOT_SELECT, LANES_PER_WORD, NEVER_REPORTED, lanes_of
from oracle.queries.answers import (
    AddressText,
    Answer,
    ApiModel,
    FractionText,
    HashText,
    LogPlace,
)
from oracle.queries.api.node_list import fraction_of_lane
from oracle.queries.api.source import ApiSnapshot, NotKnownError


class RoundEntry(ApiModel):
    """One round, without its words."""

    round: int
    time: int = Field(description="Of the block that accepted it, unix seconds.")
    as_of: int = Field(description="The block that it speaks of.")
    as_of_hash: HashText
    words: int = Field(description="How many words of sixteen lanes it wrote.")
    registered: int = Field(description="How many nodes it gave an index.")
    transmitter: AddressText
    digest: HashText = Field(description="What was signed.")
    place: LogPlace


class RoundPage(Answer):
    """Rounds, the newest first."""

    rounds: list[RoundEntry]
    next: int | None = Field(description="`before` of the next page; null: this is the last.")


class RoundLane(ApiModel):
    """One lane of a round: whose it is now, and what the round says of it."""

    index: int
    node: AddressText | None = Field(description="null: nobody's yet.")
    lane: int = Field(ge=0, le=65_535)
    qos: FractionText | None = Field(description="null: not selectable, or never reported.")
    is_selectable: bool


class RoundWord(ApiModel):
    """A word as it was pushed: 32 bytes, sixteen lanes."""

    index: int
    value: HashText
    lanes: list[RoundLane]


class RoundAnswer(Answer):
    """One round as the contract hashed it; `qos-oracle report verify` recomputes it."""

    entry: RoundEntry
    data_hash: HashText
    config: HashText = Field(description="Signers, quorum and rules that it was signed under.")
    registered: list[AddressText]
    words: list[RoundWord]


def rounds(look: ApiSnapshot, before: int | None, limit: int) -> RoundPage:
    """Return up to `limit` rounds below the number `before`; None: the newest."""
    found = look.uow.rounds.accepted_below(before, limit + 1)
    shown = found[:limit]
    places = look.places(one.at for one in shown)
    return RoundPage(
        as_of=look.as_of,
        rounds=[_entry(one, places[one.at]) for one in shown],
        next=shown[-1].round if len(found) > limit else None,
    )


def round_view(look: ApiSnapshot, number: int) -> RoundAnswer:
    """Return one round with its words. Raises NotKnownError: it was not accepted."""
    accepted = look.uow.rounds.accepted_round(number)
    if accepted is None:
        raise NotKnownError(f"round {number} has not been accepted in what is indexed")
    lanes = [
        word * LANES_PER_WORD + lane
        for word, _ in accepted.words
        for lane in range(LANES_PER_WORD)
    ]
    named = look.uow.rounds.nodes_at(lanes)
    return RoundAnswer(
        as_of=look.as_of,
        entry=_entry(accepted, look.places([accepted.at])[accepted.at]),
        data_hash=accepted.data_hash,
        config=accepted.config,
        registered=list(accepted.registrations.fresh),
        words=[
            RoundWord(
                index=word,
                value=f"0x{value:064x}",
                lanes=[
                    RoundLane(
                        index=index,
                        node=named.get(index),
                        lane=lane,
                        qos=fraction_of_lane(lane),
                        is_selectable=lane not in (NEVER_REPORTED, DO_NOT_SELECT),
                    )
                    for index, lane in enumerate(lanes_of(value), word * LANES_PER_WORD)
                ],
            )
            for word, value in accepted.words
        ],
    )


def _entry(accepted: RoundAccepted, place: LogPlace) -> RoundEntry:
    return RoundEntry(
        round=accepted.round,
        time=accepted.time,
        as_of=accepted.as_of,
        as_of_hash=accepted.as_of_hash,
        words=len(accepted.words),
        registered=len(accepted.registrations.fresh),
        transmitter=accepted.transmitter,
        digest=accepted.digest,
        place=place,
    )
