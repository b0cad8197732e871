"""Compares the state with a fold of the raw rows: one half of `resync verify`.

The raw rows are folded into a temporary database, so that the real one is only read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.indexer.folder import EventFolder
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.projections import ProjectionRow


class StateRow(NamedTuple):
    """A row of the state that differs from the fold of the raw rows.

    `kind`: `missing` if only the fold has it, `extra` if only the table has it, else `other`.
    """

    table: str
    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class StateComparison:
    """Differences between the state and a fold of the raw rows up to block `last_block`."""

    last_block: int
    log_count: int
    differing: tuple[StateRow, ...]


def compare_state(
    uow: UnitOfWork, reader: LogReader, rules: Rules, progress: Callable[[int, int], None]
) -> StateComparison:
    """Fold all raw rows of a snapshot and compare every row of every projection.

    Raises:
        InputError: nothing is indexed yet.
    """
    with refold_into_temporary_store(uow, reader, rules, progress) as state:
        return StateComparison(
            state.last_block, state.log_count, tuple(find_differing_rows(uow, state.uow))
        )


class RefoldedState(NamedTuple):
    """State folded from the raw rows up to block `last_block`, in a temporary database."""

    uow: UnitOfWork
    last_block: int
    log_count: int


@contextmanager
def refold_into_temporary_store(
    uow: UnitOfWork, reader: LogReader, rules: Rules, progress: Callable[[int, int], None]
) -> Iterator[RefoldedState]:
    """Fold all raw rows of a snapshot into a database that is deleted afterwards.

    Raises:
        InputError: nothing is indexed yet.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet; there is no state to compare")
    final_number = -1 if cursor.final_number is None else cursor.final_number
    with TemporaryDirectory(prefix="qos-oracle-fold-") as directory:
        url = f"sqlite:///{Path(directory) / 'state.sqlite'}"
        with Store.open(url, create=True) as store:
            log_count = 0
            with store.transaction() as writer:
                state_folder = EventFolder(rules, reader)
                indexed_blocks = BlockRange(0, cursor.number)
                for blocks, chunk_log_count, decoded in iterate_decoded_chunks(
                    uow, reader, indexed_blocks
                ):
                    writer.dead_letters.append(decoded.dead_letters)
                    state_folder.fold_events(writer, decoded, final_number=final_number)
                    log_count += chunk_log_count
                    progress(blocks.last, cursor.number)
                writer.undo.prune_to(min(final_number, cursor.number))
            with store.read_transaction() as reader_uow:
                yield RefoldedState(reader_uow, cursor.number, log_count)


def find_differing_rows(stored: UnitOfWork, folded: UnitOfWork) -> Iterator[StateRow]:
    """Yield every row that differs between the stored and the folded state, by table and key."""
    for table in stored.projections.list_compared_tables():
        tagged_rows = merge(
            ((row, False) for row in stored.projections.iterate_rows(table)),
            ((row, True) for row in folded.projections.iterate_rows(table)),
            key=_row_key,
        )
        for _, rows in groupby(tagged_rows, key=_row_key):
            pair = list(rows)
            row, is_refolded = pair[0]
            if len(pair) == 1:
                yield StateRow(table.name, row.key_text, "missing" if is_refolded else "extra")
            elif pair[0][0].values != pair[1][0].values:
                yield StateRow(table.name, row.key_text, "other")


def _row_key(tagged_row: tuple[ProjectionRow, bool]) -> tuple[object, ...]:
    return tagged_row[0].key
