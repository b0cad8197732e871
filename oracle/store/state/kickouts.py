"""The spells in which a node's kickout was due (decision 10)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.store.bulk import upsert
from oracle.store.encoding import hexed, raw
from oracle.store.tables.state_tables import kickout

_OPENED_AT = [kickout.c[name] for name in Position._fields]
_STILL_OPEN = (None, None, None, None)


class KickoutRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, spells: Sequence[KickoutDue]) -> None:
        """Write spells opened and closed; the last word about a spell counts."""
        newest = {(each.node, each.opened_at): each for each in spells}
        upsert(
            self._connection,
            kickout,
            [
                (raw(each.node), *each.opened_at, *(each.closed_at or _STILL_OPEN))
                for each in newest.values()
            ],
        )

    def open(self) -> list[KickoutDue]:
        """Return the spells that last, oldest first."""
        chosen = select(kickout).where(kickout.c.closed_block.is_(None)).order_by(*_OPENED_AT)
        return [_spell_of(row) for row in self._connection.execute(chosen)]

    def of_node(self, node: Address) -> list[KickoutDue]:
        """Return all spells of the node, oldest first."""
        chosen = select(kickout).where(kickout.c.node == raw(node)).order_by(*_OPENED_AT)
        return [_spell_of(row) for row in self._connection.execute(chosen)]


def _spell_of(row: Any) -> KickoutDue:  # noqa: ANN401  a row of any driver
    closed_at = None
    if row.closed_block is not None:
        closed_at = Position(row.closed_block, row.closed_tx, row.closed_log, row.closed_sub)
    return KickoutDue(
        node=Address(hexed(row.node)),
        opened_at=Position(row.block, row.tx, row.log, row.sub),
        closed_at=closed_at,
    )
