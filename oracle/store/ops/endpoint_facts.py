"""What we learned of endpoints: caps, tags, trust; small texts that may grow old.

`endpoint` is its shown name, without a key; of the chain as a whole it is `""`.
See docs/explanation/storage.md#endpoint-facts.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, or_, select

from oracle.store.bulk import upsert
from oracle.store.ops.quarantine import QuarantineRepository
from oracle.store.tables.integrity_tables import endpoint_fact


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
