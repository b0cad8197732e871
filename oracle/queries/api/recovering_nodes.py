"""Nodes with a reliability below 1, which rises over time without events."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.domain.fixed_point import (
    UNIT,
    compute_decay,
    compute_decay_end,
    move_towards_one,
    multiply_fixed_point,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima
from oracle.domain.scoring.node_figures import RECOVERING_BELOW
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_qos_with_reliability,
    compute_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node


class _RecoveringNode(NamedTuple):
    """The values that determine how a node's state and QoS change over time.

    Its state is the same while its reliability is at least `lower_bound` and below `upper_bound`.
    `long_term` is None for a node that is not a member, and under legacy rules.
    """

    base: int
    since: int
    lower_bound: int
    upper_bound: int
    long_term: int | None
    node: Node


class RecoveringNodes:
    """The nodes that have not fully recovered at a block time, with their reliability."""

    def __init__(
        self, rules: Rules, time: int, row_by_address: dict[Address, _RecoveringNode] | None = None
    ) -> None:
        self._rules = rules
        self._time = time
        self._row_by_address = {} if row_by_address is None else row_by_address
        # The decay is computed once per block, because many nodes last changed in the same block.
        decay_by_since = {
            since: compute_decay(time - since, rules.tau_seconds)
            for since in {row.since for row in self._row_by_address.values()}
        }
        self.reliability_by_address = {
            address: move_towards_one(base, decay_by_since[since])
            for address, (base, since, _, _, _, _) in self._row_by_address.items()
        }
        # Reliabilities at which a node's state changes.
        self._bounds = sorted({rules.exclude_enter, rules.exclude_exit, RECOVERING_BELOW})

    def add_node(self, node: Node) -> int:
        """Return a node's reliability, and add the node if it has not fully recovered."""
        rules, time = self._rules, self._time
        reliability = compute_reliability(node, time, rules)
        if node.base == UNIT or time - node.since >= compute_decay_end(rules.tau_seconds):
            return reliability
        is_proportional = rules.legacy is None and node.membership is Membership.MEMBER
        bound_index = bisect_right(self._bounds, reliability)
        self._row_by_address[node.address] = _RecoveringNode(
            node.base,
            node.since,
            self._bounds[bound_index - 1] if bound_index else 0,
            self._bounds[bound_index] if bound_index < len(self._bounds) else UNIT + 1,
            compute_long_term_score(node, rules, time) if is_proportional else None,
            node,
        )
        self.reliability_by_address[node.address] = reliability
        return reliability

    def advance(
        self, time: int, changed_addresses: Iterable[Address]
    ) -> tuple["RecoveringNodes", list[Node]]:
        """Return the recovering nodes as of a later block, and the nodes whose state changed.

        The nodes with another state, among them the nodes that have recovered, and the nodes that
        events changed are left out of the recovering nodes.
        """
        row_by_address = self._row_by_address.copy()
        for address in changed_addresses:
            row_by_address.pop(address, None)
        advanced_nodes = RecoveringNodes(self._rules, time, row_by_address)
        recovered_since = time - compute_decay_end(self._rules.tau_seconds)
        moved_nodes = [
            node
            for reliability, (_, since, lower_bound, upper_bound, _, node) in zip(
                advanced_nodes.reliability_by_address.values(),
                row_by_address.values(),
                strict=True,
            )
            if not lower_bound <= reliability < upper_bound or since <= recovered_since
        ]
        for node in moved_nodes:
            del row_by_address[node.address], advanced_nodes.reliability_by_address[node.address]
        return advanced_nodes, moved_nodes

    def iterate_qos(
        self, population_maxima: PopulationMaxima | None
    ) -> Iterator[tuple[Address, int | None]]:
        """Yield the address and the QoS of each node."""
        reliability_by_address = self.reliability_by_address
        for address, row in self._row_by_address.items():
            reliability = reliability_by_address[address]
            if row.long_term is None:
                yield (
                    address,
                    compute_qos_with_reliability(
                        row.node, reliability, self._time, self._rules, population_maxima
                    ),
                )
            else:
                yield address, multiply_fixed_point(row.long_term, reliability)
