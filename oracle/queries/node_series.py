"""Figures of individual nodes for `/metrics`, limited to the nodes with the most scores."""

from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_figures import NodeFigures, figures_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.store.database import Store


def load_node_series(
    store: Store, rules: Rules, max_nodes: int
) -> tuple[dict[Address, NodeFigures], int]:
    """Return the figures of up to `max_nodes` members at the cursor, and how many are left out.

    The members with the most scores are chosen, because their order changes slowly, which keeps
    the metric series stable.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        nodes = uow.nodes.iterate_all() if cursor is not None else iter(())
        members = [node for node in nodes if node.membership is Membership.MEMBER]
    if cursor is None:
        return {}, 0
    peers = compute_population_maxima(members, cursor.time, rules)
    top_members = sorted(members, key=lambda node: (-node.scored, node.address))[:max_nodes]
    figures = {node.address: figures_at(node, cursor.time, rules, peers) for node in top_members}
    return figures, len(members) - len(top_members)
