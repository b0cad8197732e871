"""Reads history by block range as plain rows for `export --parquet`.

Each row begins with its position. Hashes and addresses are `0x` hex. Rows are in the order of
their positions and are read in pages, so that memory use stays constant. See
docs/reference/parquet.md#tables for the columns.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, select

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.state import Node
from oracle.store.bulk import Row
from oracle.store.encoding import decode_position, encode_hex, encode_optional_hex
from oracle.store.state.node_repository import iterate_nodes_as_of
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.round_tables import accepted_round
from oracle.store.tables.selection_tables import rule_set
from oracle.store.tables.state_tables import kickout, reliability_change, score

_PAGE_ROWS = 5_000
# Selecting intervals by these columns needs no index, because intervals are few.
_CLOSED_COLUMNS = ("closed_block", "closed_tx", "closed_log", "closed_sub")


class HistoryRows:
    """Reads a block range of history, with one method for each exported table."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def iterate_scores(self, blocks: BlockRange) -> Iterator[Row]:
        """Yield the task scores of these blocks as rows.

        A row has the position, time, node, seq, task, group, rank, elapsed, score and rules.
        `rules` is the sha256 of the rules' text in hex, or None if the score has no rule set
        number.
        """
        query = (
            select(score, rule_set.c.sha256)
            .join_from(score, rule_set, score.c.rule_set == rule_set.c.id, isouter=True)
            .where(score.c.block.between(blocks.first, blocks.last))
            .order_by(*(score.c[name] for name in (*Position._fields, "node", "seq")))
        )
        for row in self._iterate_rows(query):
            rules_sha256 = None if row.sha256 is None else row.sha256.hex()
            identifiers = (
                encode_hex(row.node),
                row.seq,
                encode_hex(row.task),
                encode_hex(row.task_group),
            )
            yield (
                *decode_position(row),
                row.time,
                *identifiers,
                row.rank,
                row.elapsed,
                row.score,
                rules_sha256,
            )

    def iterate_reliability_changes(self, blocks: BlockRange) -> Iterator[Row]:
        """Yield the reliability changes of these blocks as rows.

        A row has the position, time, node, seq, cause, task, old and new value. H is the
        reliability in units of 10^-18.
        """
        table = reliability_change
        query = (
            select(table)
            .where(table.c.block.between(blocks.first, blocks.last))
            .order_by(*(table.c[name] for name in (*Position._fields, "node", "seq")))
        )
        for row in self._iterate_rows(query):
            change_values = (row.cause, encode_optional_hex(row.task), row.h_before, row.h_after)
            yield (*decode_position(row), row.time, encode_hex(row.node), row.seq, *change_values)

    def iterate_rounds(self, blocks: BlockRange) -> Iterator[Row]:
        """Yield the accepted rounds of these blocks as rows.

        A row has the position, the time and the other fields of the event.
        """
        table = accepted_round
        query = select(table).where(table.c.block.between(blocks.first, blocks.last))
        for row in self._iterate_rows(
            query.order_by(*(table.c[name] for name in Position._fields))
        ):
            hashes = (row.as_of_hash, row.root, row.config)
            bitmap = int.from_bytes(row.signer_bitmap)
            round_values = (row.round, row.as_of, *map(encode_hex, hashes), hex(bitmap))
            yield (*decode_position(row), row.time, *round_values)

    def list_kickout_starts_and_ends(self, blocks: BlockRange) -> list[Row]:
        """Return the starts and ends of kickout intervals in these blocks as rows.

        A row has the position, node, due and since. `due` is True for a start and False for an
        end. `since` is the position of the interval's start.
        """
        opened_query = select(kickout).where(kickout.c.block.between(blocks.first, blocks.last))
        closed_query = select(kickout).where(
            kickout.c.closed_block.between(blocks.first, blocks.last)
        )
        rows: list[Row] = [
            (*decode_position(row), encode_hex(row.node), True, *decode_position(row))
            for row in self._connection.execute(opened_query)
        ]
        rows += [
            (
                *(getattr(row, name) for name in _CLOSED_COLUMNS),
                encode_hex(row.node),
                False,
                *decode_position(row),
            )
            for row in self._connection.execute(closed_query)
        ]
        return sorted(rows)

    def iterate_nodes(self, blocks: BlockRange) -> Iterator[Node]:
        """Yield the nodes that changed in these blocks, with their state after the last block.

        Nodes are ordered by address. Nodes that changed later are restored from the undo journal.

        Raises:
            FatalError: the journal does not reach back to the last block.
        """
        rows_after = UndoJournal(self._connection).load_node_rows_as_of(blocks.last)
        yield from iterate_nodes_as_of(self._connection, blocks, rows_after)

    def _iterate_rows(self, query: Select[*tuple[Any, ...]]) -> Iterator[Any]:
        yield from self._connection.execute(query.execution_options(yield_per=_PAGE_ROWS))
