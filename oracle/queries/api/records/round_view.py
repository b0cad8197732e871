"""Rounds that the oracle contract accepted: their content, and the transaction of each."""

from pydantic import Field

from oracle.domain.reports.lanes import LANES_PER_WORD, unpack_lanes
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.report_models import (
    LaneEntry,
    RoundEntry,
    build_lane_entry,
    build_round_entry,
)


class RoundPage(Answer):
    """Rounds, newest first."""

    rounds: list[RoundEntry]
    next: int | None = Field(description="`before` of the next page; null: this is the last.")


class RoundWord(ApiModel):
    """A word as it was pushed: 32 bytes, sixteen lanes."""

    index: int
    value: HashText
    lanes: list[LaneEntry]


class RoundAnswer(Answer):
    """One round as the contract hashed it; `qos-oracle report verify` recomputes it."""

    entry: RoundEntry
    data_hash: HashText
    config: HashText = Field(
        description="Digest of the signers, quorum and rules that it was signed under."
    )
    registered: list[AddressText]
    words: list[RoundWord]


def list_rounds(snapshot: ApiSnapshot, before_round: int | None, limit: int) -> RoundPage:
    """Return up to `limit` rounds before round `before_round`, or the newest rounds if None."""
    accepted_rounds = snapshot.uow.rounds.list_accepted_below(before_round, limit + 1)
    page_rounds = accepted_rounds[:limit]
    place_by_position = snapshot.load_places(accepted.at for accepted in page_rounds)
    return RoundPage(
        as_of=snapshot.as_of,
        rounds=[
            build_round_entry(accepted, place_by_position[accepted.at]) for accepted in page_rounds
        ],
        next=page_rounds[-1].round if len(accepted_rounds) > limit else None,
    )


def build_round_answer(snapshot: ApiSnapshot, round_number: int) -> RoundAnswer:
    """Return one round with its words; raise NotFoundError if it was not accepted."""
    accepted = snapshot.uow.rounds.get_accepted_round(round_number)
    if accepted is None:
        raise NotFoundError(f"round {round_number} was not accepted in the indexed blocks")
    lane_indexes = [
        word * LANES_PER_WORD + lane
        for word, _ in accepted.words
        for lane in range(LANES_PER_WORD)
    ]
    node_by_lane = snapshot.uow.rounds.get_nodes_by_index(lane_indexes)
    return RoundAnswer(
        as_of=snapshot.as_of,
        entry=build_round_entry(accepted, snapshot.load_places([accepted.at])[accepted.at]),
        data_hash=accepted.data_hash,
        config=accepted.config,
        registered=list(accepted.registrations.new_nodes),
        words=[
            RoundWord(
                index=word,
                value=f"0x{value:064x}",
                lanes=[
                    build_lane_entry(index, node_by_lane.get(index), lane)
                    for index, lane in enumerate(unpack_lanes(value), word * LANES_PER_WORD)
                ],
            )
            for word, value in accepted.words
        ],
    )
