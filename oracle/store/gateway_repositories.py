"""Stores the state of a gateway's selection service.

See docs/explanation/gateway.md#persistence-and-restarts.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from oracle.store.bulk import insert_missing_rows, upsert_rows
from oracle.store.tables.gateway_tables import draw_epoch, node_check, relay_outcome


class StoredOutcome(NamedTuple):
    """The outcome of a relay or of a passed check; times are in unix milliseconds.

    The fields are in the order of the table's columns.
    """

    number: int
    received_ms: int
    ended_ms: int
    chain: str
    node: str
    session: str
    latency_ms: float | None
    kind: str
    outcome_id: str | None


class StoredEpoch(NamedTuple):
    """An epoch of draws and its seed; times are in unix milliseconds."""

    start_ms: int
    end_ms: int
    seed: bytes


class StoredCheck(NamedTuple):
    """The last check of a node on one chain; times are in unix milliseconds."""

    chain: str
    node: str
    checked_ms: int
    chain_id: int | None
    height: int | None
    best_height: int | None
    chain_until_ms: int
    sync_until_ms: int
    fault: str | None


class GatewayRepositories:
    """All repositories of the gateway."""

    def __init__(self, connection: Connection) -> None:
        self.outcomes = RelayOutcomeRepository(connection)
        self.epochs = DrawEpochRepository(connection)
        self.checks = NodeCheckRepository(connection)


class RelayOutcomeRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, outcomes: list[StoredOutcome]) -> None:
        """Insert the outcomes that are not stored yet, so that a batch may be written twice."""
        insert_missing_rows(
            self._connection, relay_outcome, [tuple(outcome) for outcome in outcomes]
        )

    def iterate_all(self) -> Iterator[StoredOutcome]:
        """Yield all stored outcomes, in the order in which they were received."""
        rows = self._connection.execute(select(relay_outcome).order_by(relay_outcome.c.number))
        for row in rows:
            yield StoredOutcome(*row)

    def get_next_number(self) -> int:
        """Return the number for the next outcome to store."""
        newest_number = self._connection.execute(select(func.max(relay_outcome.c.number))).scalar()
        return 0 if newest_number is None else newest_number + 1

    def delete_before(self, before_ms: int, kinds: Collection[str] | None = None) -> int:
        """Delete the outcomes received before `before_ms`, and return their number.

        If `kinds` are given, only outcomes of these kinds are deleted. The newest outcome is
        always kept.
        """
        newest_query = select(func.max(relay_outcome.c.number)).scalar_subquery()
        delete_statement = delete(relay_outcome).where(
            relay_outcome.c.taken_ms < before_ms, relay_outcome.c.number < newest_query
        )
        if kinds is not None:
            delete_statement = delete_statement.where(relay_outcome.c.kind.in_(kinds))
        return self._connection.execute(delete_statement).rowcount


class DrawEpochRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, epochs: list[StoredEpoch]) -> None:
        """Insert the epochs that are not stored yet."""
        insert_missing_rows(self._connection, draw_epoch, [tuple(epoch) for epoch in epochs])

    def list_newest(self, limit: int) -> list[StoredEpoch]:
        """Return the last `limit` epochs, oldest first."""
        query = select(draw_epoch).order_by(draw_epoch.c.start_ms.desc()).limit(limit)
        return [StoredEpoch(*row) for row in self._connection.execute(query)][::-1]


class NodeCheckRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, checks: list[StoredCheck]) -> None:
        """Insert the last check of each node and chain, or replace the stored check."""
        upsert_rows(self._connection, node_check, [tuple(check) for check in checks])

    def list_all(self) -> list[StoredCheck]:
        """Return the last check of every node on every chain."""
        return [StoredCheck(*row) for row in self._connection.execute(select(node_check))]
