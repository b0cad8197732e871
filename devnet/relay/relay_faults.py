"""Faults of a relay's stream that can be switched on and off while the stream is read.

A reader must detect each of them (docs/reference/crynux-relay.md#faults).
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from typing import Any

from devnet.relay.published_rows import PublishedRow


class RelayFault(StrEnum):
    """A fault; its number is the id of the affected row, if there is one."""

    # Every response is an error, or ends in the middle.
    SILENT = "silent"
    CUT = "cut"
    # No newer rows are shown: the current id never changes.
    FROZEN = "frozen"
    # The row is not shown yet although later rows are: its transaction is still open.
    LATE_ROW = "late_row"
    # The row has changed, or has disappeared.
    CHANGED_ROW = "changed_row"
    VANISHED_ROW = "vanished_row"
    # A backup was restored: the current id is the id of this row again.
    WENT_BACK = "went_back"
    # Rows up to this one were deleted because of their age.
    RETENTION = "retention"
    # `args` of the row are not valid JSON.
    BAD_ROW = "bad_row"


_NOT_SHOWN = (RelayFault.LATE_ROW, RelayFault.VANISHED_ROW)
_NODE_ARGS = {"selected_node", "node_address", "abort_issuer"}
_NOTHING_ABOVE = (RelayFault.FROZEN, RelayFault.WENT_BACK)


class FaultSwitch:
    """The active faults; one thread may switch them while others serve rows."""

    def __init__(self) -> None:
        self._on: dict[RelayFault, int] = {}
        self._lock = Lock()

    def turn_on(self, fault: RelayFault, row: int = 0) -> None:
        """Switch a fault on, for a row if the fault affects a single row."""
        with self._lock:
            self._on[fault] = row

    def turn_off(self, fault: RelayFault) -> None:
        """Switch a fault off, if it is on."""
        with self._lock:
            self._on.pop(fault, None)

    def is_on(self, fault: RelayFault) -> bool:
        """Return whether a fault is on."""
        return fault in self._on

    def shown(self, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
        """Return the committed rows as the stream shows them, ordered by id."""
        with self._lock:
            on = dict(self._on)
        hidden = {on[fault] for fault in _NOT_SHOWN if fault in on}
        above = min((on[fault] for fault in _NOTHING_ABOVE if fault in on), default=None)
        below = on.get(RelayFault.RETENTION, 0)
        changed = on.get(RelayFault.CHANGED_ROW)
        return [
            _changed(row) if row.id == changed else row
            for row in rows
            if row.id not in hidden and row.id > below and (above is None or row.id <= above)
        ]

    def written(self, row: PublishedRow) -> dict[str, Any]:
        """Return a row as it is sent."""
        sent = row.to_json()
        if self._on.get(RelayFault.BAD_ROW) == row.id:
            sent["args"] = sent["args"][:-1]
        return sent


def _changed(row: PublishedRow) -> PublishedRow:
    """Return the row with another node, as a forger would write it."""
    other = "0x" + "00" * 19 + "01"
    named = [
        name for name in ("selected_node", "node_address", "abort_issuer") if name in row.args
    ]
    return replace(row, node=other, args={**row.args, **dict.fromkeys(named, other)})
