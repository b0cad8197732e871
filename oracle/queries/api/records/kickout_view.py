"""Kickouts: when they were due, the proposals, their outcomes, and the evidence."""

from collections.abc import Callable

from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.kickout_models import (
    KickoutEntry,
    ProposalEntry,
    build_node_proposal,
    build_proposed_kickout,
)


class KickoutPage(Answer):
    """Kickouts that are due now, and the last fifty proposed kickouts, newest first."""

    due: list[KickoutEntry]
    proposed: list[ProposalEntry]


def list_kickouts(snapshot: ApiSnapshot) -> KickoutPage:
    """Return the kickouts that are due, and the last proposed kickouts."""
    due_intervals = snapshot.uow.kickouts.list_open()
    kicks = snapshot.uow.rounds.list_newest_kicks()
    expulsion_positions = [kick.expulsion.at for kick in kicks if kick.expulsion is not None]
    place_by_position = snapshot.load_places(
        [
            *(due_interval.opened_at for due_interval in due_intervals),
            *(kick.proposed_at for kick in kicks),
            *expulsion_positions,
        ]
    )
    kick_by_node = snapshot.uow.rounds.load_for_nodes(
        [interval.node for interval in due_intervals]
    ).kicks
    return KickoutPage(
        as_of=snapshot.as_of,
        due=[
            KickoutEntry(
                node=interval.node,
                due_since=place_by_position[interval.opened_at],
                proposal=build_proposed_kickout(kick_by_node[interval.node])
                if interval.node in kick_by_node
                else None,
            )
            for interval in due_intervals
        ],
        proposed=[
            ProposalEntry(
                **dict(build_node_proposal(kick)),
                proposed_at=place_by_position[kick.proposed_at],
                executed_at=None
                if kick.expulsion is None
                else place_by_position[kick.expulsion.at],
                expelled_until=None if kick.expulsion is None else kick.expulsion.expires_at,
            )
            for kick in reversed(kicks)
        ],
    )


def find_evidence(
    snapshot: ApiSnapshot, node_or_hash: str, read_file: Callable[[Hash], str | None]
) -> tuple[Hash, str]:
    """Return the hash and content of a kickout's evidence.

    `node_or_hash` is the node of the kickout, or the hash of the evidence. `read_file` returns the
    content of a published file, or None.

    Raises:
        NotFoundError: no kickout was proposed, or the file is not on this host.
    """
    is_node = len(node_or_hash) == len(ZERO_ADDRESS)
    evidence_hash = (
        _get_evidence_hash(snapshot, Address(node_or_hash)) if is_node else Hash(node_or_hash)
    )
    text = read_file(evidence_hash)
    if text is None:
        raise NotFoundError(f"evidence {evidence_hash} is not stored on this host")
    return evidence_hash, text


def _get_evidence_hash(snapshot: ApiSnapshot, node: Address) -> Hash:
    kick = snapshot.uow.rounds.load_for_nodes([node]).kicks.get(node)
    if kick is None:
        raise NotFoundError(f"no kickout was proposed for node {node}")
    return kick.evidence
