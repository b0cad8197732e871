"""Faults of a relay's stream that can be switched on and off while the stream is read.

A reader must detect each of them (docs/reference/crynux-relay.md#faults-of-the-stand-in).
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from threading import Lock
from typing import Any

from devnet.relay.published_rows import PublishedRow


class RelayFault(StrEnum):
    """A fault of the stream; some faults affect a single row, which is given by its id."""

    # Every response is an error (`SILENT`), or ends in the middle (`CUT`).
    SILENT = "silent"
    CUT = "cut"
    # No newer rows are shown: the current id never changes.
    FROZEN = "frozen"
    # The row is not shown yet although later rows are: its transaction is still open.
    LATE_ROW = "late_row"
    # The row was changed (`CHANGED_ROW`) or deleted (`VANISHED_ROW`) after it was committed.
    CHANGED_ROW = "changed_row"
    VANISHED_ROW = "vanished_row"
    # A backup was restored: the current id is the id of this row again.
    WENT_BACK = "went_back"
    # Rows up to this one were deleted because of their age.
    RETENTION = "retention"
    # `args` of the row are not valid JSON.
    BAD_ROW = "bad_row"


_HIDING_FAULTS = (RelayFault.LATE_ROW, RelayFault.VANISHED_ROW)
_CAPPING_FAULTS = (RelayFault.FROZEN, RelayFault.WENT_BACK)


class FaultSwitch:
    """The active faults; one thread may switch them while others serve rows."""

    def __init__(self) -> None:
        self._row_by_fault: dict[RelayFault, int] = {}
        self._lock = Lock()

    def switch_on(self, fault: RelayFault, row_id: int = 0) -> None:
        """Switch a fault on, for a row if the fault affects a single row."""
        with self._lock:
            self._row_by_fault[fault] = row_id

    def switch_off(self, fault: RelayFault) -> None:
        """Switch a fault off, if it is on."""
        with self._lock:
            self._row_by_fault.pop(fault, None)

    def is_on(self, fault: RelayFault) -> bool:
        """Return whether a fault is on."""
        return fault in self._row_by_fault

    def filter_rows(self, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
        """Return the committed rows as the stream shows them, ordered by id."""
        with self._lock:
            row_by_fault = dict(self._row_by_fault)
        hidden_ids = {row_by_fault[fault] for fault in _HIDING_FAULTS if fault in row_by_fault}
        max_id = min(
            (row_by_fault[fault] for fault in _CAPPING_FAULTS if fault in row_by_fault),
            default=None,
        )
        min_id = row_by_fault.get(RelayFault.RETENTION, 0)
        changed_id = row_by_fault.get(RelayFault.CHANGED_ROW)
        return [
            _forge_row(row) if row.id == changed_id else row
            for row in rows
            if row.id not in hidden_ids
            and row.id > min_id
            and (max_id is None or row.id <= max_id)
        ]

    def encode_row(self, row: PublishedRow) -> dict[str, Any]:
        """Return a row as it is sent."""
        row_json = row.to_json()
        if self._row_by_fault.get(RelayFault.BAD_ROW) == row.id:
            row_json["args"] = row_json["args"][:-1]
        return row_json


def _forge_row(row: PublishedRow) -> PublishedRow:
    """Return the row with another node, as a forger would write it."""
    other_address = "0x" + "00" * 19 + "01"
    address_args = [
        name for name in ("selected_node", "node_address", "abort_issuer") if name in row.args
    ]
    return replace(
        row, node=other_address, args={**row.args, **dict.fromkeys(address_args, other_address)}
    )
