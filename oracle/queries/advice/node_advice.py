"""Advice for the owner of one node, as of the cursor: `/v1/nodes/{node}/advice` and `advice`.

Everything is computed on demand for one node, from its rows.
"""

from pydantic import Field

from oracle.domain.state import Node
from oracle.queries.advice.kickout_outlook import KickoutOutlook, build_kickout_outlook
from oracle.queries.answers import AddressText, Answer
from oracle.queries.api.source import ApiSnapshot


class NodeAdvice(Answer):
    """What is coming for a node, what would change it, and the assumptions behind each number."""

    node: AddressText
    kickout: KickoutOutlook | None = Field(
        description="null: at this rate no kickout becomes due, or the rules have no pool."
    )


def build_node_advice(snapshot: ApiSnapshot, node: Node) -> NodeAdvice:
    """Return the advice for a node as of the cursor."""
    rules, cursor = snapshot.source.archive.rules, snapshot.cursor
    entries = snapshot.uow.scores.list_for_node_up_to(node.address, cursor.number, rules.pool_size)
    return NodeAdvice(
        as_of=snapshot.as_of,
        node=node.address,
        kickout=build_kickout_outlook(node, cursor.time, rules, entries),
    )
