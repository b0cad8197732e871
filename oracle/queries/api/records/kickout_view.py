"""Kickouts: when they were due, the proposals, their outcomes, and the evidence."""

from collections.abc import Callable

from oracle.domain.ids import Address, Hash
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, NotKnownError
from oracle.queries.kickout_models import KickoutEntry, ProposalEntry
from oracle.queries.kickout_view import node_proposal, proposed_kickout


class KickoutPage(Answer):
    """Kickouts that are due now, and the last fifty that were proposed, the newest first."""

    due: list[KickoutEntry]
    proposed: list[ProposalEntry]


def kickouts(look: ApiSnapshot) -> KickoutPage:
    """Return the kickouts that are due, and those that were proposed."""
    due = look.uow.kickouts.open()
    kicks = look.uow.rounds.newest_kicks()
    gone = [kick.expulsion.at for kick in kicks if kick.expulsion is not None]
    places = look.places(
        [*(one.opened_at for one in due), *(kick.proposed_at for kick in kicks), *gone]
    )
    known = look.uow.rounds.about([interval.node for interval in due]).kicks
    return KickoutPage(
        as_of=look.as_of,
        due=[
            KickoutEntry(
                node=interval.node,
                due_since=places[interval.opened_at],
                proposal=proposed_kickout(known[interval.node])
                if interval.node in known
                else None,
            )
            for interval in due
        ],
        proposed=[
            ProposalEntry(
                **dict(node_proposal(kick)),
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
    """Return the hash and content of a kickout's evidence, by its node or by the hash.

    Only published files are returned; `read_file` reads them.

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
