"""The statistics that a node is ranked by, and the interface of a profile's memory of a chain."""

from collections.abc import Container
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address


class NodeStats(NamedTuple):
    """A node's statistics for a ranking. Latencies are in seconds, 0 if unknown.

    `failing`: out for its failures (`article`), or flagged without a success since.
    `out_until_ms`: if the node is out, the time at which it is back unless more failures follow.
    """

    node: Address
    attempts: int
    success_rate: float
    median: float
    weighted: float
    failing: bool
    p90: float | None = None
    out_until_ms: int | None = None


class ChainMemory(Protocol):
    """A profile's memory of the nodes of one chain. Times are in whole milliseconds.

    Outcomes are recorded in the order in which they count. `compute_stats` only reads: it changes
    nothing, however often and for which time it is called.
    """

    def record_success(self, node: Address, latency: float, now: int) -> None:
        """Record that a node answered after `latency` seconds."""
        ...

    def record_failure(self, node: Address, now: int) -> None:
        """Record that a node failed."""
        ...

    def record_health_pass(self, node: Address, now: int) -> None:
        """Record that a health check of the node passed.

        See docs/explanation/pocket.md#special-rules.
        """
        ...

    def forget_node(self, node: Address) -> None:
        """Clear a node's history."""
        ...

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        """Return the statistics that the node is ranked by."""
        ...

    def evaluate_nodes(self, nodes: Container[Address], now: int) -> None:
        """Apply an evaluation of these nodes, if evaluations have an effect in the profile."""
        ...
