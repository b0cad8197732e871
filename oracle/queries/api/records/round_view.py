"""Rounds that the oracle contract accepted: their content, and the transaction of each."""

from pydantic import Field

from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot, NotKnownError
from oracle.queries.reports.report_models import LaneEntry, RoundEntry, lane_entry, round_entry


class RoundPage(Answer):
    """Rounds, the newest first."""

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
    config: HashText = Field(description="Signers, quorum and rules that it was signed under.")
    registered: list[AddressText]
    words: list[RoundWord]


def rounds(look: ApiSnapshot, before: int | None, limit: int) -> RoundPage:
    """Return up to `limit` rounds below the number `before_round`; None: the newest ones."""
    found = look.uow.rounds.accepted_below(before, limit + 1)
    shown = found[:limit]
    places = look.places(one.at for one in shown)
    return RoundPage(
        as_of=look.as_of,
        rounds=[round_entry(one, places[one.at]) for one in shown],
        next=shown[-1].round if len(found) > limit else None,
    )


def round_view(look: ApiSnapshot, number: int) -> RoundAnswer:
    """Return one round with its words; raise NotKnownError if it was not accepted."""
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
        entry=round_entry(accepted, look.places([accepted.at])[accepted.at]),
        data_hash=accepted.data_hash,
        config=accepted.config,
        registered=list(accepted.registrations.fresh),
        words=[
            RoundWord(
                index=word,
                value=f"0x{value:064x}",
                lanes=[
                    lane_entry(index, named.get(index), lane)
                    for index, lane in enumerate(lanes_of(value), word * LANES_PER_WORD)
                ],
            )
            for word, value in accepted.words
        ],
    )
