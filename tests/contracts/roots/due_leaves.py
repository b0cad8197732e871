"""Leaves of nodes whose kickout is due, and the steps up to its execution."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oracle.domain.ids import Address
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import LIMITS, RootsOracle
from tests.support.round_leaves import compute_next_addresses

SINCE = 1_700_000_000
DUE: dict[str, Any] = {"lane": 302, "score_sum": 15, "kickout_due_since": SINCE}
HELD = DUE | {"flags": LeafFlag.MEMBER | LeafFlag.HELD}
DELAY = LIMITS["vetoDelay"]
ROUNDS = LIMITS["kickRounds"]
# The events of an execution whose target is a plain network, of which the node is a member.
KICKED = ["KickExecuted", "KickedOut"]


def due_leaves(*seats: int, count: int = NODES, **changes: Any) -> list[NodeLeaf]:
    """Return the leaves of a healthy network in which a kickout of these seats is due."""
    return make_leaves(count, dict.fromkeys(seats, DUE | changes))


def wait_until_ready(oracle: RootsOracle, leaves: Sequence[NodeLeaf]) -> None:
    """Let the veto delay pass, and push as many rounds of these leaves as an execution needs."""
    oracle.chain.later(DELAY)
    oracle.chain.mine()
    for _ in range(ROUNDS):
        oracle.push_leaves(leaves)


def leaves_of(addresses: Sequence[str], *due_seats: int) -> list[NodeLeaf]:
    """Return the leaves of these nodes, in this order; kickouts at `due_seats` are due."""
    nodes = [Address(address.lower()) for address in addresses]
    next_nodes = compute_next_addresses(nodes)
    return [
        replace(leaf, node=node, next_node=next_nodes[node])
        for leaf, node in zip(due_leaves(*due_seats, count=len(nodes)), nodes, strict=True)
    ]
