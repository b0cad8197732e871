"""Checks I11: a second statement of a round is signed only if the first can no longer land."""

import sqlite3
from typing import Any

from tests.simulation.node import ANCHOR_WINDOW
from tests.simulation.world import World

_ROWS = (
    "SELECT id, signer, round, digest, as_of_block, deadline, expiry_reason"
    " FROM pub_signature ORDER BY id"
)


class Statements:
    """Compares the signed statements with the true chain."""

    def __init__(self, rows: sqlite3.Connection, world: World) -> None:
        self._rows = rows
        self._world = world
        self._read = 0

    def check(self) -> list[tuple[str, str]]:
        """Return the violations by signatures stored since the last check."""
        rows = self._rows.execute(_ROWS).fetchall()
        faults: list[tuple[str, str]] = []
        newest: dict[tuple[Any, ...], list[Any]] = {}
        for row in rows:
            number = row[0]
            about = row[1:3]
            expiry_reason = row[6]
            earlier = newest.setdefault(about, [])
            if number > self._read:
                faults += [
                    ("I11", f"round {about[1]} is signed twice, and may land twice")
                    for earlier_row in earlier
                    if self._may_land(earlier_row)
                ]
            if expiry_reason is None and any(earlier_row[6] is None for earlier_row in earlier):
                faults.append(("I11", f"round {about[1]} has two live signatures"))
            earlier.append(row)
        self._read = rows[-1][0] if rows else 0
        return faults

    def _may_land(self, row: tuple[Any, ...]) -> bool:
        """Return whether the next block after the true head could still accept the statement."""
        head = self._world.chain.head
        as_of = row[4]
        deadline = row[5]
        return bool(head.time <= deadline and head.number + 1 - as_of <= ANCHOR_WINDOW)
