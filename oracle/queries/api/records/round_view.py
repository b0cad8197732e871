"""The rounds that the oracle contract accepted, each with its transaction."""

from pydantic import Field

from oracle.queries.answers import AddressText, Answer, HashText
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.report_models import RoundEntry, build_round_entry


class RoundPage(Answer):
    """A page of accepted rounds, newest first."""

    rounds: list[RoundEntry]
    next: int | None = Field(description="`before` of the next page; null if this is the last.")


class RoundAnswer(Answer):
    """One accepted round; `qos-oracle report verify` recomputes it."""

    entry: RoundEntry
    config: HashText = Field(
        description="Digest of the signers, quorum and rules that it was signed under."
    )
    signers: list[AddressText] = Field(description="The signers whose signatures were sent.")


def list_rounds(snapshot: ApiSnapshot, before_round: int | None, limit: int) -> RoundPage:
    """Return up to `limit` rounds below `before_round`, or the newest rounds if it is None."""
    accepted_rounds = snapshot.uow.rounds.list_accepted_below(before_round, limit + 1)
    page_rounds = accepted_rounds[:limit]
    log_place_by_position = snapshot.load_log_places(accepted.at for accepted in page_rounds)
    return RoundPage(
        as_of=snapshot.as_of,
        rounds=[
            build_round_entry(
                accepted,
                log_place_by_position[accepted.at],
                is_struck=snapshot.uow.rounds.is_struck(accepted.round),
            )
            for accepted in page_rounds
        ],
        next=page_rounds[-1].round if len(accepted_rounds) > limit else None,
    )


def build_round_answer(snapshot: ApiSnapshot, round_number: int) -> RoundAnswer:
    """Return one accepted round.

    Raises:
        NotFoundError: the round was not accepted.
    """
    accepted = snapshot.uow.rounds.find_accepted_round(round_number)
    if accepted is None:
        raise NotFoundError(f"round {round_number} was not accepted in the indexed blocks")
    return RoundAnswer(
        as_of=snapshot.as_of,
        entry=build_round_entry(
            accepted,
            snapshot.load_log_places([accepted.at])[accepted.at],
            is_struck=snapshot.uow.rounds.is_struck(round_number),
        ),
        config=accepted.config,
        signers=list(snapshot.uow.rounds.list_round_signers(accepted)),
    )
