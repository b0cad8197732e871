"""What a node is ranked by at a time, and what a profile's memory of a chain can do."""

from collections.abc import Container
from typing import NamedTuple, Protocol

from oracle.domain.ids import Address


class NodeStats(NamedTuple):
    """A node as it is ranked. Latencies are in seconds, 0 where none is known.

    `failing`: out for its failures (`article`), or flagged without a success to make up for it.
    `out_until_ms`: where it is out, the time at which it is back, if nothing else happens.
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
    """What is remembered of the nodes of one chain. Times are in whole milliseconds.

    Outcomes come in the order in which they count. `stats` and whatever is made of it is reading:
    it changes nothing, however often and for which time one asks.
    """

    def succeeded(self, node: Address, latency: float, now: int) -> None:
        """A node has answered after `latency` seconds."""
        ...

    def failed(self, node: Address, now: int) -> None:
        """A node has failed."""
        ...

    def health_passed(self, node: Address, now: int) -> None:
        """A check has found the node well.

        See docs/explanation/pocket.md#special-rules.
        """
        ...

    def forget(self, node: Address) -> None:
        """Clear a node's history."""
        ...

    def stats(self, node: Address, now: int) -> NodeStats:
        """Return what the node is ranked by."""
        ...

    def look(self, among: Container[Address], now: int) -> None:
        """Let an evaluation of these nodes have happened, where one leaves anything behind."""
        ...
