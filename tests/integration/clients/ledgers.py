"""What a database holds, told so that it is the same on every node.

Compared, value by value, are all projections, every raw row (canonical and orphaned logs and
calls with their topics, data and inputs, positions, times and hashes of transactions), every
block's height, time and place on the chain, and each report's period, as-of height, records and
state. Left out is what no two nodes agree on: the hashes of their blocks, and what is made of
one: the digests of reports, and of the transaction that pushes a report its hash and the topics
and data of its log. Its root, round and configuration stand in `accepted_round`.
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
    """Return every table's rows; the order of rows says nothing."""
    tables = [*(table.name for table in PROJECTIONS), *_RAW]
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        read = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608 - our own names
    return {name: _sort_rows(map(dict, rows)) for name, rows in read.items()}


def canonical(ledger: Ledger) -> Ledger:
    """Return it without the orphans and the reports: one that was cut is never cut anew."""
    return {
        name: [row for row in rows if row.get("canonical", True)]
        for name, rows in ledger.items()
        if name != "report"
    }


def orphaned(ledger: Ledger, table: str) -> list[Row]:
    """Return the rows of a table that a fork has left behind."""
    return [row for row in ledger[table] if not row["canonical"]]


def _sort_rows(rows: Iterable[Row]) -> list[Row]:
    return sorted((_without_hashes(row) for row in rows), key=repr)


def _without_hashes(row: Row) -> Row:
    left_out = _OF_A_BLOCK | _OF_A_REPORT
    if bytes(row.get("topics") or b"").startswith(_SAID_BY_A_PUSH):
        left_out |= _OF_A_PUSH
    return {name: value for name, value in row.items() if name not in left_out}
