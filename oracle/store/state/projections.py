"""Everything folded from the raw rows, as a whole: thrown away by rebuild, compared by tests."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec.json import Encoder
from sqlalchemy import Connection, Table, delete, select

from oracle.store.encoding import hexed
from oracle.store.ops.bookmarks import Bookmarks
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.chain_tables import state_snapshot, undo
from oracle.store.tables.integrity_tables import dead_letter
from oracle.store.tables.round_tables import (
    accepted_round,
    contract_setting,
    kick,
    lane_word,
    node_index,
)
from oracle.store.tables.selection_tables import rule_set
from oracle.store.tables.state_tables import (
    anomaly,
    group_member,
    group_result,
    kickout,
    last_event,
    membership_change,
    node,
    open_group,
    reliability_change,
    score,
    task,
)

# In the order of a dump; keys are numbers and bytes only, which sort alike on both databases.
PROJECTIONS = (
    last_event,
    node,
    task,
    open_group,
    group_result,
    group_member,
    score,
    reliability_change,
    membership_change,
    anomaly,
    kickout,
    accepted_round,
    node_index,
    lane_word,
    contract_setting,
    kick,
)
# What else a fold of the raw rows writes, and a comparison looks at.
_BESIDE = (undo, dead_letter)
# Rule sets are numbered as they came to this database; everywhere they are the same by their hash.
_SAID = {
    score.name: select(
        *(rule_set.c.sha256 if column.name == "rule_set" else column for column in score.columns)
    ).join_from(score, rule_set, score.c.rule_set == rule_set.c.id, isouter=True)
}
_PAGE = 2_000
# Bytes become base64.
_JSON = Encoder()


class ProjectionRow(NamedTuple):
    """A row in the order of its table's key; `shown` is the key for people."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def shown(self) -> str:
        parts = (hexed(part) if isinstance(part, bytes) else str(part) for part in self.key)
        return " ".join(parts)


class ProjectionRepository:
    """Not in it: logs, calls, blocks, identity, cursor, reports, outbox, lease, bookmarks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def clear(self) -> None:
        """Delete everything folded, its snapshots and the undo journal."""
        for table in PROJECTIONS:
            self._connection.execute(delete(table))
        self._connection.execute(delete(state_snapshot))
        UndoJournal(self._connection).clear()
        Bookmarks(self._connection).count_remake()

    def compared_tables(self) -> tuple[Table, ...]:
        """Return the tables whose every row follows from the raw rows."""
        return (*PROJECTIONS, *_BESIDE)

    def rows(self, table: Table) -> Iterator[ProjectionRow]:
        """Yield the rows of one of them in the order of their keys, equal on both databases."""
        columns = table.primary_key.columns
        chosen = _SAID.get(table.name, select(table)).order_by(*columns)
        if table is dead_letter:
            chosen = chosen.where(dead_letter.c.canonical)
        places = [table.columns.keys().index(column.name) for column in columns]
        for row in self._connection.execute(chosen.execution_options(yield_per=_PAGE)):
            values = tuple(row)
            yield ProjectionRow(tuple(values[place] for place in places), values)

    def dump(self) -> Iterator[str]:
        """Yield all projections as text, a line a row, equal on both databases."""
        for table in PROJECTIONS:
            rows = _SAID.get(table.name, select(table)).order_by(*table.primary_key.columns)
            for row in self._connection.execute(rows.execution_options(yield_per=_PAGE)):
                yield f"{table.name} {_JSON.encode(tuple(row)).decode()}"

    def digest(self) -> str:
        """Return the sha256 of `dump`, in hex."""
        digest = sha256()
        for line in self.dump():
            digest.update(line.encode())
            digest.update(b"\n")
        return digest.hexdigest()
