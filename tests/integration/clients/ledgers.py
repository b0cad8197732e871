"""The content of a database in a form that is equal on all nodes.

Compared are all projections, every raw row (canonical and orphaned logs and calls with their
topics, data and inputs, positions, times and transaction hashes), every block's height, time and
position, and each report's period, as-of height, records and state. Omitted are the hashes of
blocks, which differ on every node, and everything derived from them: the digests of reports, and
the hash, topics and data of the push. Its root, round and configuration are in `accepted_round`.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from oracle.chain.decode.abi import load_abi
from oracle.store.state.projections import PROJECTIONS

Row = dict[str, Any]
Ledger = dict[str, list[Row]]

_RAW = ("block", "log", "call", "report")
_OF_A_BLOCK = {"hash", "parent_hash", "block_hash", "as_of_hash", "as_of_parent"}
_OF_A_REPORT = {"digest", "fingerprint"}
_OF_A_PUSH = {"tx_hash", "topics", "data"}
_SAID_BY_A_PUSH = (
    bytes.fromhex(load_abi("roots/QoSRoots").get_event("RoundAccepted").digest[2:]),
)


def ledger_of(database: Path) -> Ledger:
    """Return every table's rows; their order has no meaning."""
    tables = [*(table.name for table in PROJECTIONS), *_RAW]
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        read = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608 - our own names
    return {name: _sort_rows(map(dict, rows)) for name, rows in read.items()}


def canonical(ledger: Ledger) -> Ledger:
    """Return the ledger without orphans and reports, because a report is never cut twice."""
    return {
        name: [row for row in rows if row.get("canonical", True)]
        for name, rows in ledger.items()
        if name != "report"
    }


def list_orphaned_rows(ledger: Ledger, table: str) -> list[Row]:
    """Return the orphaned rows of a table."""
    return [row for row in ledger[table] if not row["canonical"]]


def _sort_rows(rows: Iterable[Row]) -> list[Row]:
    return sorted((_without_hashes(row) for row in rows), key=repr)


def _without_hashes(row: Row) -> Row:
    left_out = _OF_A_BLOCK | _OF_A_REPORT
    if bytes(row.get("topics") or b"").startswith(_SAID_BY_A_PUSH):
        left_out |= _OF_A_PUSH
    return {name: value for name, value in row.items() if name not in left_out}
