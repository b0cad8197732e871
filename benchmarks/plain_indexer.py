"""A simple indexer as in web3.py tutorials; the baseline of benchmarks/backfill.py.

It decodes the logs of `get_logs` and inserts rows. It derives no state, checks nothing, and does
not handle reorgs. benchmarks/backfill.py runs it and prints its source.
"""

import sqlite3
from pathlib import Path

from web3 import HTTPProvider, Web3

EVENTS = (
    "NodeJoined",
    "TaskCreated",
    "TaskStarted",
    "TaskSubmitted",
    "TaskValidated",
    "GroupValidated",
    "TaskSucceeded",
    "TaskRefunded",
    "TaskTimedOut",
)


def index_events(
    url: str, address: str, abi: list[dict[str, object]], path: Path, last: int
) -> int:
    """Index blocks 0 to `last` into a SQLite file; return the number of events written."""
    web3 = Web3(HTTPProvider(url))
    contract = web3.eth.contract(Web3.to_checksum_address(address), abi=abi)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(
        "CREATE TABLE event (block INT, log INT, block_hash TEXT, tx_hash TEXT, "
        "name TEXT, args TEXT, PRIMARY KEY (block, log))"
    )
    written = 0
    for first in range(0, last + 1, 1000):
        rows = []
        for name in EVENTS:
            event = contract.events[name]
            for log in event.get_logs(from_block=first, to_block=min(first + 999, last)):
                block_hash = log["blockHash"].hex()
                tx_hash = log["transactionHash"].hex()
                args = Web3.to_json(log["args"])
                row = (log["blockNumber"], log["logIndex"], block_hash, tx_hash, name, args)
                rows.append(row)
        with database:
            database.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", rows)
        written += len(rows)
    database.close()
    return written
