"""Reorgs that were rolled back (docs/explanation/reorgs.md#one-transaction)."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from oracle.domain.ids import Hash
from oracle.store.encoding import (
    decode_hex,
    decode_name_list,
    decode_optional_hex,
    encode_hex,
    encode_name_list,
    encode_optional_hex,
)
from oracle.store.tables.integrity_tables import reorg_log


@dataclass(frozen=True, slots=True)
class Reorg:
    """A reorg: the indexed blocks above the ancestor, up to `old_tip`, were abandoned.

    `new_tip` is the tip of the other fork when the reorg was found, or None if unknown. `time` is
    the old tip's block time in seconds. `endpoints` are the endpoints that reported the fork.
    """

    ancestor: int
    ancestor_hash: Hash
    old_tip: int
    old_hash: Hash
    new_tip: int | None
    new_hash: Hash | None
    time: int
    endpoints: tuple[str, ...]
    logs_orphaned: int

    @property
    def depth(self) -> int:
        """Return how many blocks were abandoned."""
        return self.old_tip - self.ancestor


class ReorgRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, reorg: Reorg) -> None:
        """Insert one reorg."""
        self._connection.execute(
            insert(reorg_log).values(
                ancestor=reorg.ancestor,
                ancestor_hash=decode_hex(reorg.ancestor_hash),
                old_tip=reorg.old_tip,
                old_hash=decode_hex(reorg.old_hash),
                new_tip=reorg.new_tip,
                new_hash=decode_optional_hex(reorg.new_hash),
                time=reorg.time,
                endpoints=encode_name_list(reorg.endpoints),
                logs_orphaned=reorg.logs_orphaned,
            )
        )

    def list_newest(self, limit: int) -> list[Reorg]:
        """Return up to `limit` reorgs, newest first."""
        query = select(reorg_log).order_by(reorg_log.c.id.desc()).limit(limit)
        return [_decode_reorg_row(row) for row in self._connection.execute(query)]

    def count(self) -> int:
        """Count all reorgs."""
        count_query = select(func.count()).select_from(reorg_log)
        return int(self._connection.execute(count_query).scalar_one())


def _decode_reorg_row(row: Any) -> Reorg:  # noqa: ANN401  a row of any driver
    new_hash = encode_optional_hex(row.new_hash)
    return Reorg(
        ancestor=row.ancestor,
        ancestor_hash=Hash(encode_hex(row.ancestor_hash)),
        old_tip=row.old_tip,
        old_hash=Hash(encode_hex(row.old_hash)),
        new_tip=row.new_tip,
        new_hash=None if new_hash is None else Hash(new_hash),
        time=row.time,
        endpoints=decode_name_list(row.endpoints),
        logs_orphaned=row.logs_orphaned,
    )
