"""The statistics that nodes are ranked by, and the interface of a profile's memory of a chain."""

from collections.abc import Container
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address


class NodeStats(NamedTuple):
    """A node's statistics for a ranking. Latencies are in seconds, 0 if unknown.

    `failing` means that the node gets no tickets because of its failures (`article`), or is
    flagged without a success since. `out_until_ms` is the time at which the node is back unless
    more failures follow, or None if it is not out.
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

    Outcomes count in the order in which they are recorded. `compute_stats` changes nothing,
    however often and for which time it is called.
    """

    def record_success(self, node: Address, latency: float, now: int) -> None:
        """Record that a node answered after `latency` seconds."""
        ...

    def record_failure(self, node: Address, now: int) -> None:
        """Record that a node failed."""
        ...

    def record_passed_health_check(self, node: Address, now: int) -> None:
        """Record that a health check of the node passed.

        See docs/explanation/pocket.md#special-rules.
        """
        ...

    def reset_node(self, node: Address) -> None:
        """Clear a node's history."""
        ...

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        """Return the statistics that the node is ranked by."""
        ...

    def evaluate_nodes(self, nodes: Container[Address], now: int) -> None:
        """Evaluate these nodes, if the profile uses evaluations."""
        ...
