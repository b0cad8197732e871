"""Lists due kickouts, accusations of nodes and their outcomes, and returns the evidence."""

from collections.abc import Callable, Sequence

from pydantic import Field

from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.kickouts.kickout_cases import is_accused_for_interval
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.kickout_models import (
    KickoutEntry,
    KickoutRecord,
    build_contract_kickout,
    build_node_kickout,
)
from oracle.queries.objection_models import ObjectionDelayEntry, load_objection_delay_entries


class DueKickout(KickoutEntry):
    """A node whose kickout is due, and the reason for any delay of its accusation."""

    objection_delay: ObjectionDelayEntry | None = Field(
        description=(
            "Why this reporter does not accuse the node yet; null if neither an objection nor the "
            "time left to object delays the accusation, or if the node is accused already."
        )
    )


class KickoutPage(Answer):
    """The kickouts that are due now, and the last fifty kickouts in the contract, newest first."""

    due: list[DueKickout]
    on_chain: list[KickoutRecord]


def list_kickouts(snapshot: ApiSnapshot) -> KickoutPage:
    """Return the kickouts that are due, and the newest kickouts in the contract."""
    due_intervals = snapshot.uow.kickouts.list_open()
    kicks = snapshot.uow.rounds.list_newest_kicks()
    log_place_by_position = snapshot.load_log_places(
        [
            *(due_interval.opened_at for due_interval in due_intervals),
            *(kick.accusation.at for kick in kicks if kick.accusation is not None),
            *(kick.expulsion.at for kick in kicks if kick.expulsion is not None),
        ]
    )
    delay_by_node = load_accusation_delays(snapshot, due_intervals)
    kick_by_node = snapshot.uow.rounds.get_kick_by_node(
        [interval.node for interval in due_intervals]
    )
    return KickoutPage(
        as_of=snapshot.as_of,
        due=[
            DueKickout(
                node=interval.node,
                objection_delay=delay_by_node.get(interval.node),
                due_since=log_place_by_position[interval.opened_at],
                on_chain=build_contract_kickout(kick_by_node[interval.node])
                if interval.node in kick_by_node
                else None,
            )
            for interval in due_intervals
        ],
        on_chain=[
            KickoutRecord(
                **dict(build_node_kickout(kick)),
                accused_at=None
                if kick.accusation is None
                else log_place_by_position[kick.accusation.at],
                executed_at=None
                if kick.expulsion is None
                else log_place_by_position[kick.expulsion.at],
            )
            for kick in reversed(kicks)
        ],
    )


def load_accusation_delays(
    snapshot: ApiSnapshot, due_intervals: Sequence[KickoutDue]
) -> dict[Address, ObjectionDelayEntry]:
    """Return, for each node, the objection that delays this reporter's accusation.

    Nodes that are accused already are left out, because nothing delays their accusation.
    """
    nodes = snapshot.uow.nodes.get_many([interval.node for interval in due_intervals])
    kicks = snapshot.uow.rounds.get_kick_by_node(nodes)
    unaccused_nodes = [
        node
        for node in nodes.values()
        if not is_accused_for_interval(kicks.get(node.address), node.kickout_due_time or 0)
    ]
    policy = snapshot.source.archive.kickout_policy
    return load_objection_delay_entries(
        snapshot.uow, unaccused_nodes, policy, snapshot.cursor.time
    )


def get_accusation_evidence(
    snapshot: ApiSnapshot, node: Address, read_file: Callable[[Address, int], str | None]
) -> tuple[int, str]:
    """Return the evidence for a node's newest accusation, with the start of its due interval.

    `read_file` returns the content of the evidence file that was published for a node and the
    start of its due interval, or None.

    Raises:
        NotFoundError: the node was never accused, or the file is not on this host.
    """
    kick = snapshot.uow.rounds.get_kick_by_node([node]).get(node)
    if kick is None or kick.accusation is None:
        raise NotFoundError(f"node {node} was never accused")
    due_since = kick.accusation.due_since
    evidence_json = read_file(node, due_since)
    if evidence_json is None:
        raise NotFoundError(f"the evidence against {node} is not stored on this host")
    return due_since, evidence_json
