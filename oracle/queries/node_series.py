"""The figures of single nodes for `/metrics`: of those that are scored most, so many."""

from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import peers_at
from oracle.domain.scoring.node_figures import NodeFigures, figures_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.store.database import Store


def node_series(
    store: Store, rules: Rules, max_nodes: int
) -> tuple[dict[Address, NodeFigures], int]:
    """Return `max_nodes` members as of the cursor's time, and how many more there are.

    Those with the most scores: their order changes slowly, and with it the series.
    """
    with store.reading() as uow:
        cursor = uow.cursor.get()
        nodes = uow.nodes.all() if cursor is not None else iter(())
        members = [node for node in nodes if node.membership is Membership.MEMBER]
    if cursor is None:
        return {}, 0
    peers = peers_at(members, cursor.time, rules)
    chosen = sorted(members, key=lambda node: (-node.scored, node.address))[:max_nodes]
    figures = {node.address: figures_at(node, cursor.time, rules, peers) for node in chosen}
    return figures, len(members) - len(chosen)
