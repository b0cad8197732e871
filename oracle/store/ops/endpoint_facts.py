"""What we learned of endpoints: caps, tags, trust; small texts that may grow old.

`endpoint` is its shown name, without a key; of the chain as a whole it is `""`.
See docs/explanation/storage.md#endpoint-facts.
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
# It gave these blocks, and no other endpoint was asked about them.
_ALONE = coverage.c.endpoint.in_(_WRONG) & coverage.c.audited_by.is_(None)


class QuarantineRepository:
    """Endpoints proven wrong, by shown name, and the blocks that only one of them served.

    Each is an `endpoint_fact` without an end: a restart keeps it, and only an operator removes it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, endpoint: str, reason: str) -> bool:
        """Write down that it was proven wrong; False: that stands there already.

        What it says of blocks counts no more: its proofs are forgotten, and so are its audits of
        what others gave.
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
        """Take it back: it may be asked again, and what it gave is as good as anybody's."""
        here = (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.name == _NAME)
        self._connection.execute(delete(endpoint_fact).where(here))

    def reasons(self) -> Mapping[str, str]:
        """Return who was proven wrong, and of what."""
        chosen = select(endpoint_fact.c.endpoint, endpoint_fact.c.value).where(
            endpoint_fact.c.name == _NAME
        )
        rows = self._connection.execute(chosen.order_by(endpoint_fact.c.endpoint))
        return {row.endpoint: row.value for row in rows}

    def unaudited(self, scope_id: bytes, blocks: BlockRange, most: int) -> Covered | None:
        """Return the lowest blocks of the range that one of them alone gave, at most so many."""
        chosen = select(coverage).where(_of(scope_id, blocks)).order_by(coverage.c.first_block)
        row = self._connection.execute(chosen.limit(1)).one_or_none()
        if row is None:
            return None
        found = covered_of(row)
        first = max(blocks.first, found.first)
        last = min(blocks.last, found.last, first + most - 1)
        return Covered(first, last, found.level, found.endpoint)

    def spans(self, scope_id: bytes, blocks: BlockRange) -> list[Covered]:
        """Return the intervals that reach into the range and that one of them alone gave."""
        chosen = select(coverage).where(_of(scope_id, blocks)).order_by(coverage.c.first_block)
        return [covered_of(row) for row in self._connection.execute(chosen)]

    def blocks(self, scope_id: bytes, endpoint: str | None = None) -> int:
        """Count the blocks that one of them alone gave; `endpoint`: that this one did."""
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
        # Of endpoints: who was proven wrong, which no time makes old.
        self.quarantine = QuarantineRepository(connection)

    def get(self, endpoint: str, name: str, now: int) -> str | None:
        """Return what is known under this name; None: nothing, or too old at `now`."""
        return self.of(endpoint, now).get(name)

    def of(self, endpoint: str, now: int) -> dict[str, str]:
        """Return everything known of an endpoint by name, without what is too old at `now`."""
        fresh = or_(endpoint_fact.c.expires.is_(None), endpoint_fact.c.expires > now)
        chosen = select(endpoint_fact.c.name, endpoint_fact.c.value).where(
            endpoint_fact.c.endpoint == endpoint, fresh
        )
        rows = self._connection.execute(chosen.order_by(endpoint_fact.c.name))
        return {row.name: row.value for row in rows}

    def set(self, endpoint: str, facts: Mapping[str, str], expires: int | None) -> None:
        """Write facts down; `expires` in unix seconds, None: never."""
        rows = [(endpoint, name, value, expires) for name, value in facts.items()]
        upsert(self._connection, endpoint_fact, rows)

    def forget(self, endpoint: str, name: str) -> None:
        """Forget one fact: it turned out to be wrong."""
        here = (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.name == name)
        self._connection.execute(delete(endpoint_fact).where(here))

    def prune(self, now: int) -> None:
        """Delete what is too old at `now`."""
        self._connection.execute(delete(endpoint_fact).where(endpoint_fact.c.expires <= now))
