"""Stores the headers of blocks above the final block, and of blocks with logs or reports.

Reorgs of indexed blocks are recorded as well (docs/explanation/reorgs.md#one-transaction).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Hash
from oracle.store.bulk import insert_canonical_rows, upsert_rows
from oracle.store.encoding import (
    decode_hex,
    decode_name_list,
    decode_optional_hex,
    encode_hex,
    encode_name_list,
    encode_optional_hex,
)
from oracle.store.tables.chain_tables import block
from oracle.store.tables.integrity_tables import reorg_log, verified_block


class BlockRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, blocks: Sequence[BlockRef]) -> None:
        """Save headers as canonical.

        Saving a header again changes nothing.
        """
        rows = [
            (
                header.number,
                decode_hex(header.hash),
                decode_hex(header.parent_hash),
                header.time,
                True,
            )
            for header in blocks
        ]
        insert_canonical_rows(self._connection, block, rows)

    def find_canonical(self, number: int) -> BlockRef | None:
        """Return the canonical block with this number, or None if it is not stored."""
        blocks = self.list_canonical(number, number)
        return blocks[0] if blocks else None

    def list_canonical(self, first: int, last: int) -> list[BlockRef]:
        """Return the canonical blocks `first` to `last`, both included, in ascending order."""
        query = select(block).where(block.c.number.between(first, last), block.c.canonical)
        return [
            _decode_block_row(row)
            for row in self._connection.execute(query.order_by(block.c.number))
        ]

    def find_newest(self) -> BlockRef | None:
        """Return the highest stored canonical block, or None if there is none."""
        return self.find_highest_up_to(None)

    def find_highest_up_to(self, number: int | None) -> BlockRef | None:
        """Return the highest stored canonical block up to `number`, or None if there is none.

        Without `number`, the highest of all stored blocks is returned.
        """
        query = select(block).where(block.c.canonical).order_by(block.c.number.desc()).limit(1)
        if number is not None:
            query = query.where(block.c.number <= number)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _decode_block_row(row)

    def find_lowest_from(self, number: int) -> BlockRef | None:
        """Return the lowest stored canonical block from `number` on, or None if there is none."""
        query = select(block).where(block.c.canonical, block.c.number >= number)
        row = self._connection.execute(query.order_by(block.c.number).limit(1)).one_or_none()
        return None if row is None else _decode_block_row(row)

    def orphan_above(self, number: int) -> int:
        """Mark all blocks above `number` as not canonical, and return their number."""
        is_above = (block.c.number > number) & block.c.canonical
        return self._connection.execute(
            update(block).where(is_above).values(canonical=False)
        ).rowcount

    def prune_below(self, number: int) -> int:
        """Delete all headers below `number`, including orphans, and return how many there were."""
        return self._connection.execute(delete(block).where(block.c.number < number)).rowcount


def _decode_block_row(row: Any) -> BlockRef:  # noqa: ANN401  a row of any driver
    return BlockRef(
        row.number, Hash(encode_hex(row.hash)), Hash(encode_hex(row.parent_hash)), row.time
    )


class VerifiedBlockRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(
        self, blocks: Iterable[tuple[int, Hash]], level: VerificationLevel, endpoint: str
    ) -> None:
        """Record that blocks, given by number and hash, have reached a verification level.

        A block that has reached a higher level keeps it.
        """
        block_list = list(blocks)
        if not block_list:
            return
        block_numbers = [number for number, _ in block_list]
        level_by_number = self.get_level_by_number(min(block_numbers), max(block_numbers))
        rows = [
            (number, decode_hex(block_hash), level.value, endpoint)
            for number, block_hash in block_list
            if level_by_number.get(number, VerificationLevel.NOTHING) <= level
        ]
        upsert_rows(self._connection, verified_block, rows)

    def get_level_by_number(self, first: int, last: int) -> dict[int, VerificationLevel]:
        """Return the verification levels of individually verified blocks `first` to `last`."""
        query = select(verified_block.c.number, verified_block.c.level)
        rows = self._connection.execute(query.where(verified_block.c.number.between(first, last)))
        return {number: VerificationLevel(level) for number, level in rows}

    def delete_above(self, number: int) -> None:
        """Delete the entries above block `number`.

        Other blocks may replace the verified ones.
        """
        self._connection.execute(delete(verified_block).where(verified_block.c.number > number))


@dataclass(frozen=True, slots=True)
class Reorg:
    """A reorg of the indexed blocks above `ancestor`, up to `old_tip`.

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
        """The number of blocks that the reorg replaced."""
        return self.old_tip - self.ancestor


class ReorgRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, reorg: Reorg) -> None:
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

    def list_after(self, reorg_id: int) -> dict[int, Reorg]:
        """Return the reorgs with an id above `reorg_id`, ordered by id."""
        query = select(reorg_log).where(reorg_log.c.id > reorg_id).order_by(reorg_log.c.id)
        return {row.id: _decode_reorg_row(row) for row in self._connection.execute(query)}

    def get_newest_id(self) -> int:
        """Return the id of the last reorg, or 0 if there was none."""
        return int(self._connection.execute(select(func.max(reorg_log.c.id))).scalar() or 0)

    def count(self) -> int:
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
