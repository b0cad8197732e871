"""Kickouts: when they were due, what was proposed, what came of it, and the evidence."""

from collections.abc import Callable

from pydantic import Field

from oracle.domain.ids import Address, Hash
from oracle.queries.answers import AddressText, Answer, ApiModel, LogPlace
from oracle.queries.api.node_view import ProposedKickout, proposal
from oracle.queries.api.source import ApiSnapshot, NotKnownError


class KickoutEntry(ApiModel):
    """One interval in which a kickout was due."""

    node: AddressText
    due_since: LogPlace
    due_until: LogPlace | None = Field(description="null: it still is.")


class ProposalEntry(ApiModel):
    """The newest kickout that was proposed on chain for a node."""

    node: AddressText
    proposal: ProposedKickout
    proposed_at: LogPlace
    executed_at: LogPlace | None
    expelled_until: int | None = Field(description="Unix seconds.")


class KickoutPage(Answer):
    """Kickouts that are due now, and the last fifty that were proposed, the newest first."""

    due: list[KickoutEntry]
    proposed: list[ProposalEntry]


def kickouts(look: ApiSnapshot) -> KickoutPage:
    """Return what is due and what was proposed."""
    due = look.uow.kickouts.open()
    kicks = look.uow.rounds.newest_kicks()
    gone = [kick.expulsion.at for kick in kicks if kick.expulsion is not None]
    places = look.places(
        [*(one.opened_at for one in due), *(kick.proposed_at for kick in kicks), *gone]
    )
    return KickoutPage(
        as_of=look.as_of,
        due=[
            KickoutEntry(node=one.node, due_since=places[one.opened_at], due_until=None)
            for one in due
        ],
        proposed=[
            ProposalEntry(
                node=kick.node,
                proposal=proposal(kick),
                proposed_at=places[kick.proposed_at],
                executed_at=None if kick.expulsion is None else places[kick.expulsion.at],
                expelled_until=None if kick.expulsion is None else kick.expulsion.until,
            )
            for kick in reversed(kicks)
        ],
    )


def evidence_file(
    look: ApiSnapshot, name: str, read: Callable[[Hash], str | None]
) -> tuple[Hash, str]:
    """Return the evidence of a kickout: by the node it is of, or by its own hash.

    Only what was laid down for everybody is given; `read` looks there.

    Raises:
        NotKnownError: no kickout was proposed, or the file is not on this host.
    """
    node = Address(name)
    kick = look.uow.rounds.about([node]).kicks.get(node) if len(name) == len(node) else None
    named = Hash(name) if kick is None else kick.evidence
    text = read(named)
    if text is None:
        raise NotKnownError(f"the evidence {named} is not kept here")
    return named, text
