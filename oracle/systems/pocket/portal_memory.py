"""The memory of the profile `portal_api_head`: the records of one chain.

See docs/explanation/pocket.md#portal-api.
"""

from collections.abc import Container

from oracle.domain.ids import Address
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.parameters import PortalParameters
from oracle.systems.pocket.portal_record import PortalRecord


class PortalMemory:
    """Satisfies `ChainMemory`. `records` may be read by anybody and are written here alone."""

    def __init__(self, params: PortalParameters) -> None:
        self.records: dict[Address, PortalRecord] = {}
        self._params = params
        # Those whose flag an evaluation might change: all others need not be looked at.
        self._suspects: set[Address] = set()

    def succeeded(self, node: Address, latency: float, now: int) -> None:
        record = self._record(node)
        record.succeeded(latency, now, self._params)
        self._suspect(node, record, now)

    def failed(self, node: Address, now: int) -> None:
        record = self._record(node)
        record.failed(now, self._params)
        self._suspect(node, record, now)

    def health_passed(self, node: Address, now: int) -> None:
        """Clear the flag, as upstream's sync check does."""
        self.set_flag(node, now + self._params.cleared_ttl_ms, flag=False)

    def set_flag(self, node: Address, until: int, *, flag: bool) -> None:
        """Write a node's failure flag, whatever there is in its record."""
        self._record(node).set_flag(until, flag=flag)
        if flag:
            self._suspects.add(node)

    def forget(self, node: Address) -> None:
        self.records.pop(node, None)
        self._suspects.discard(node)

    def stats(self, node: Address, now: int) -> NodeStats:
        record = self.records.get(node)
        return (record or _UNKNOWN).stats(node, now, self._params)

    def look(self, among: Container[Address], now: int) -> None:
        """Set and clear flags; the cost grows with the failing nodes only."""
        for node in sorted(self._suspects):
            record = self.records[node]
            if node in among:
                record.looked_at(now, self._params)
            if not self._is_suspect(record, now):
                self._suspects.discard(node)

    def _record(self, node: Address) -> PortalRecord:
        if node not in self.records:
            self.records[node] = PortalRecord()
        return self.records[node]

    def _suspect(self, node: Address, record: PortalRecord, now: int) -> None:
        if self._is_suspect(record, now):
            self._suspects.add(node)

    def _is_suspect(self, record: PortalRecord, now: int) -> bool:
        """Tell whether there is a flag to clear, or one to set: now, or once one has expired."""
        if not record.has_counts(now):
            return False
        if record.successes:
            return record.is_flagged(now)
        return record.failures >= self._params.shelve_failures


_UNKNOWN = PortalRecord()
