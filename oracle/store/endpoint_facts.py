"""Stores facts about endpoints, such as limits and trust, as short texts that may expire.

`endpoint` is the display name, without an API key, or `""` for facts about the chain itself. See
docs/explanation/storage.md#endpoint-facts.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, delete, func, or_, select, update

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, VerificationLevel
from oracle.store.bulk import insert_missing_rows, upsert_rows
from oracle.store.raw.coverage_repository import decode_coverage_row
from oracle.store.tables.integrity_tables import coverage, endpoint_fact, verified_block

_PROVEN_WRONG = "proven_wrong"
_PROVEN_WRONG_ENDPOINTS = select(endpoint_fact.c.endpoint).where(
    endpoint_fact.c.name == _PROVEN_WRONG
)
# Blocks that were served by an endpoint that was proven wrong, and that no other endpoint audited.
_IS_UNAUDITED = coverage.c.endpoint.in_(_PROVEN_WRONG_ENDPOINTS) & coverage.c.audited_by.is_(None)


class QuarantineRepository:
    """The quarantined endpoints, and the blocks that no other endpoint has served.

    A quarantine is stored as an `endpoint_fact` that does not expire, so that it lasts until an
    operator readmits the endpoint, even after a restart.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, endpoint: str, reason: str) -> bool:
        """Quarantine an endpoint that was proven wrong; return False if it already is.

        Nothing that the endpoint confirmed counts any more. Its verified blocks and its audits of
        other endpoints' blocks are deleted, and the level of blocks that only this endpoint served
        is lowered.
        """
        if not insert_missing_rows(
            self._connection, endpoint_fact, [(endpoint, _PROVEN_WRONG, reason, None)]
        ):
            return False
        is_unaudited = (coverage.c.endpoint == endpoint) & coverage.c.audited_by.is_(None)
        is_above_seamed = is_unaudited & (coverage.c.level > VerificationLevel.SEAMED.value)
        lower_level_statement = (
            update(coverage).where(is_above_seamed).values(level=VerificationLevel.SEAMED.value)
        )
        clear_audits_statement = update(coverage).where(coverage.c.audited_by == endpoint)
        self._connection.execute(lower_level_statement)
        self._connection.execute(clear_audits_statement.values(audited_by=None, audited_at=None))
        is_by_endpoint = verified_block.c.endpoint == endpoint
        self._connection.execute(delete(verified_block).where(is_by_endpoint))
        return True

    def readmit(self, endpoint: str) -> None:
        """Remove an endpoint from quarantine, so that its responses count again."""
        is_quarantine_fact = (endpoint_fact.c.endpoint == endpoint) & (
            endpoint_fact.c.name == _PROVEN_WRONG
        )
        self._connection.execute(delete(endpoint_fact).where(is_quarantine_fact))

    def get_reason_by_endpoint(self) -> Mapping[str, str]:
        """Return the quarantine reasons by endpoint name."""
        query = select(endpoint_fact.c.endpoint, endpoint_fact.c.value).where(
            endpoint_fact.c.name == _PROVEN_WRONG
        )
        rows = self._connection.execute(query.order_by(endpoint_fact.c.endpoint))
        return {row.endpoint: row.value for row in rows}

    def find_lowest_suspect_interval(
        self, scope_id: bytes, blocks: BlockRange, max_blocks: int
    ) -> CoverageInterval | None:
        """Return the lowest blocks in a range that only a quarantined endpoint served.

        The interval has at most `max_blocks` blocks. The result is None if there are no such
        blocks.
        """
        query = _select_suspect_rows(scope_id, blocks).limit(1)
        row = self._connection.execute(query).one_or_none()
        if row is None:
            return None
        interval = decode_coverage_row(row)
        first_block = max(blocks.first, interval.first)
        last_block = min(blocks.last, interval.last, first_block + max_blocks - 1)
        return CoverageInterval(first_block, last_block, interval.level, interval.endpoint)

    def list_suspect_intervals(
        self, scope_id: bytes, blocks: BlockRange
    ) -> list[CoverageInterval]:
        """Return the intervals in the range that only a quarantined endpoint served.

        Intervals that overlap the range are returned unclipped.
        """
        rows = self._connection.execute(_select_suspect_rows(scope_id, blocks))
        return [decode_coverage_row(row) for row in rows]

    def count_suspect_blocks(self, scope_id: bytes, endpoint: str | None = None) -> int:
        """Count the blocks that only quarantined endpoints served.

        With `endpoint`, count only the blocks of this endpoint.
        """
        block_count = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        count_query = select(block_count).where(coverage.c.scope == scope_id, _IS_UNAUDITED)
        if endpoint is not None:
            count_query = count_query.where(coverage.c.endpoint == endpoint)
        return int(self._connection.execute(count_query).scalar() or 0)


def _select_suspect_rows(scope_id: bytes, blocks: BlockRange) -> Select[Any]:
    return (
        select(coverage)
        .where(
            coverage.c.scope == scope_id,
            _IS_UNAUDITED,
            coverage.c.last_block >= blocks.first,
            coverage.c.first_block <= blocks.last,
        )
        .order_by(coverage.c.first_block)
    )


class EndpointFactsRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Endpoints that were proven wrong. Their quarantine does not expire.
        self.quarantine = QuarantineRepository(connection)

    def get(self, endpoint: str, name: str, now: int) -> str | None:
        """Return the value of a fact, or None if it is missing or has expired at `now`."""
        return self.get_all(endpoint, now).get(name)

    def get_all(self, endpoint: str, now: int) -> dict[str, str]:
        """Return an endpoint's facts that have not expired at `now`, by name."""
        is_fresh = or_(endpoint_fact.c.expires.is_(None), endpoint_fact.c.expires > now)
        query = select(endpoint_fact.c.name, endpoint_fact.c.value).where(
            endpoint_fact.c.endpoint == endpoint, is_fresh
        )
        rows = self._connection.execute(query.order_by(endpoint_fact.c.name))
        return {row.name: row.value for row in rows}

    def set(self, endpoint: str, facts: Mapping[str, str], expires: int | None) -> None:
        """Store facts until `expires` (unix seconds), or for ever if it is None."""
        rows = [(endpoint, name, value, expires) for name, value in facts.items()]
        upsert_rows(self._connection, endpoint_fact, rows)

    def delete(self, endpoint: str, name: str) -> None:
        """Delete a fact that turned out to be wrong."""
        is_this_fact = (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.name == name)
        self._connection.execute(delete(endpoint_fact).where(is_this_fact))

    def delete_expired(self, now: int) -> None:
        """Delete the facts that have expired at `now`."""
        self._connection.execute(delete(endpoint_fact).where(endpoint_fact.c.expires <= now))
