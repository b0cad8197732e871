"""Facts learned about endpoints: caps, tags, trust; short texts that may expire.

`endpoint` is the display name, without a key; facts about the chain as a whole have `""`. See
docs/explanation/storage.md#endpoint-facts.
"""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Covered, Level
from oracle.store.bulk import append_missing, upsert
from oracle.store.raw.coverage_repository import covered_of
from oracle.store.tables.integrity_tables import coverage, endpoint_fact, verified_block

_NAME = "proven_wrong"
_WRONG = select(endpoint_fact.c.endpoint).where(endpoint_fact.c.name == _NAME)
# Blocks served by such an endpoint and audited by no other.
_ALONE = coverage.c.endpoint.in_(_WRONG) & coverage.c.audited_by.is_(None)


class QuarantineRepository:
    """Endpoints proven wrong, by display name, and the blocks that only such an endpoint served.

    Each is an `endpoint_fact` that does not expire: it survives a restart, and only an operator
    removes it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, endpoint: str, reason: str) -> bool:
        """Store that an endpoint was proven wrong, or return False if it was stored before.

        Its evidence no longer counts: verified blocks, and audits of other endpoints' blocks, are
        deleted, and the level of its own blocks is lowered.
        """
        if not append_missing(self._connection, endpoint_fact, [(endpoint, _NAME, reason, None)]):
            return False
        given = (coverage.c.endpoint == endpoint) & coverage.c.audited_by.is_(None)
        raised = given & (coverage.c.level > Level.SEAMED.value)
        lowered = update(coverage).where(raised).values(level=Level.SEAMED.value)
        said = update(coverage).where(coverage.c.audited_by == endpoint)
        self._connection.execute(lowered)
        self._connection.execute(said.values(audited_by=None, audited_at=None))
        theirs = verified_block.c.endpoint == endpoint
        self._connection.execute(delete(verified_block).where(theirs))
        return True

    def readmit(self, endpoint: str) -> None:
        """Remove an endpoint from quarantine; its responses count like any other's again."""
        here = (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.name == _NAME)
        self._connection.execute(delete(endpoint_fact).where(here))

    def reasons(self) -> Mapping[str, str]:
        """Return the proof against each quarantined endpoint, by name."""
        chosen = select(endpoint_fact.c.endpoint, endpoint_fact.c.value).where(
            endpoint_fact.c.name == _NAME
        )
        rows = self._connection.execute(chosen.order_by(endpoint_fact.c.endpoint))
        return {row.endpoint: row.value for row in rows}

    def unaudited(self, scope_id: bytes, blocks: BlockRange, most: int) -> Covered | None:
        """Return the lowest blocks of the range that only one such endpoint served.

        The result has at most `max_blocks` blocks; None if there are none.
        """
        chosen = select(coverage).where(_of(scope_id, blocks)).order_by(coverage.c.first_block)
        row = self._connection.execute(chosen.limit(1)).one_or_none()
        if row is None:
            return None
        found = covered_of(row)
        first = max(blocks.first, found.first)
        last = min(blocks.last, found.last, first + most - 1)
        return Covered(first, last, found.level, found.endpoint)

    def spans(self, scope_id: bytes, blocks: BlockRange) -> list[Covered]:
        """Return the intervals overlapping the range that only one such endpoint served."""
        chosen = select(coverage).where(_of(scope_id, blocks)).order_by(coverage.c.first_block)
        return [covered_of(row) for row in self._connection.execute(chosen)]

    def blocks(self, scope_id: bytes, endpoint: str | None = None) -> int:
        """Count the blocks that only one such endpoint served, or only `endpoint` if given."""
        blocks = func.sum(coverage.c.last_block - coverage.c.first_block + 1)
        counted = select(blocks).where(coverage.c.scope == scope_id, _ALONE)
        if endpoint is not None:
            counted = counted.where(coverage.c.endpoint == endpoint)
        return int(self._connection.execute(counted).scalar() or 0)


def _of(scope_id: bytes, blocks: BlockRange) -> ColumnElement[bool]:
    return and_(
        coverage.c.scope == scope_id,
        _ALONE,
        coverage.c.last_block >= blocks.first,
        coverage.c.first_block <= blocks.last,
    )


class EndpointFactsRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Endpoints proven wrong; quarantine does not expire.
        self.quarantine = QuarantineRepository(connection)

    def get(self, endpoint: str, name: str, now: int) -> str | None:
        """Return the fact of this name, or None if missing or expired at `now`."""
        return self.of(endpoint, now).get(name)

    def of(self, endpoint: str, now: int) -> dict[str, str]:
        """Return all facts about an endpoint by name, without those expired at `now`."""
        fresh = or_(endpoint_fact.c.expires.is_(None), endpoint_fact.c.expires > now)
        chosen = select(endpoint_fact.c.name, endpoint_fact.c.value).where(
            endpoint_fact.c.endpoint == endpoint, fresh
        )
        rows = self._connection.execute(chosen.order_by(endpoint_fact.c.name))
        return {row.name: row.value for row in rows}

    def set(self, endpoint: str, facts: Mapping[str, str], expires: int | None) -> None:
        """Store facts; `expires` in unix seconds, or None to keep them forever."""
        rows = [(endpoint, name, value, expires) for name, value in facts.items()]
        upsert(self._connection, endpoint_fact, rows)

    def forget(self, endpoint: str, name: str) -> None:
        """Delete one fact that proved to be wrong."""
        here = (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.name == name)
        self._connection.execute(delete(endpoint_fact).where(here))

    def prune(self, now: int) -> None:
        """Delete the facts that expired by `now`."""
        self._connection.execute(delete(endpoint_fact).where(endpoint_fact.c.expires <= now))
