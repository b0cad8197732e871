"""What may go wrong with a relay's stream, switched on and off while it is being read.

Each is one that a reader has to notice (docs/reference/crynux-relay.md#faults-of-the-stand-in).
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from typing import Any

from devnet.relay.published_rows import PublishedRow


class RelayFault(StrEnum):
    """A fault; its number is a row's id where one is meant, and ignored elsewhere."""

    # No answer but an error, or one that ends in the middle.
    SILENT = "silent"
    CUT = "cut"
    # Nothing newer than that row is shown: the same current id for ever.
    FROZEN = "frozen"
    # That row is not shown yet, though later ones are: its transaction is still open.
    LATE_ROW = "late_row"
    # That row says something else than before, or is not there any more.
    CHANGED_ROW = "changed_row"
    VANISHED_ROW = "vanished_row"
    # A backup was restored: the current id is that one again.
    WENT_BACK = "went_back"
    # Rows up to that one were deleted for their age.
    RETENTION = "retention"
    # `args` of that row are no JSON.
    BAD_ROW = "bad_row"


_NOT_SHOWN = (RelayFault.LATE_ROW, RelayFault.VANISHED_ROW)
_NODE_ARGS = {"selected_node", "node_address", "abort_issuer"}
_NOTHING_ABOVE = (RelayFault.FROZEN, RelayFault.WENT_BACK)


class FaultSwitch:
    """Which faults are on; may be turned by one thread while others answer."""

    def __init__(self) -> None:
        self._on: dict[RelayFault, int] = {}
        self._lock = Lock()

    def turn_on(self, fault: RelayFault, row: int = 0) -> None:
        """Let a fault begin, at a row where it is one of a row."""
        with self._lock:
            self._on[fault] = row

    def turn_off(self, fault: RelayFault) -> None:
        """Let a fault end; it need not be on."""
        with self._lock:
            self._on.pop(fault, None)

    def is_on(self, fault: RelayFault) -> bool:
        """Tell whether a fault is on."""
        return fault in self._on

    def shown(self, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
        """Return what is shown of rows that are committed, by id."""
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
    """Return a row about another node: what a forger would write."""
    other = "0x" + "00" * 19 + "01"
    named = [
        name for name in ("selected_node", "node_address", "abort_issuer") if name in row.args
    ]
    return replace(row, node=other, args={**row.args, **dict.fromkeys(named, other)})
