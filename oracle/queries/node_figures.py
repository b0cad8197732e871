"""The figures of single nodes for `/metrics`: of those that are scored most, so many."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_factors import peers_at
from oracle.domain.scoring.node_scores import is_excluded, qos_at, reliability_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.store.database import Store
from oracle.telemetry.node_metrics import NodeSeries


def node_figures(store: Store, rules: Rules, most: int) -> tuple[list[NodeSeries], int]:
    """Return `most` members as of the cursor's time, and how many more there are.

    Those with the most scores: their order changes slowly, and with it the series.
    """
    with store.reading() as uow:
        cursor = uow.cursor.get()
        nodes = uow.nodes.all() if cursor is not None else iter(())
        members = [node for node in nodes if node.membership is Membership.MEMBER]
    if cursor is None:
        return [], 0
    peers = peers_at(members, cursor.time, rules)
    chosen = sorted(members, key=lambda node: (-node.scored, node.address))[:most]
    figures = [
        NodeSeries(
            node.address,
            (qos_at(node, cursor.time, rules, peers) or 0) / UNIT,
            reliability_at(node, cursor.time, rules) / UNIT,
            is_excluded(node, cursor.time, rules),
        )
        for node in chosen
    ]
    return figures, len(members) - len(chosen)
