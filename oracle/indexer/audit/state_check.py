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
from oracle.indexer.feeds.feed_events import with_feed
from oracle.indexer.folder import Folder
from oracle.indexer.stored_events import chunks
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

    last: int
    logs: int
    differing: tuple[StateRow, ...]


def compare_state(
    uow: UnitOfWork, reader: LogReader, rules: Rules, progress: Callable[[int, int], None]
) -> StateComparison:
    """Fold all raw rows of a snapshot and compare every row of every projection.

    Raises:
        InputError: nothing is indexed yet.
    """
    with folded_state(uow, reader, rules, progress) as state:
        return StateComparison(state.last, state.logs, tuple(differing_rows(uow, state.uow)))


class FreshState(NamedTuple):
    """State folded from the raw rows up to block `last_block`, in a temporary database."""

    uow: UnitOfWork
    last: int
    logs: int


@contextmanager
def folded_state(
    uow: UnitOfWork, reader: LogReader, rules: Rules, progress: Callable[[int, int], None]
) -> Iterator[FreshState]:
    """Fold all raw rows of a snapshot into a database that is deleted afterwards.

    Raises:
        InputError: nothing is indexed yet.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet: there is no state to compare")
    final = -1 if cursor.final_number is None else cursor.final_number
    with TemporaryDirectory(prefix="qos-oracle-fold-") as folder:
        url = f"sqlite:///{Path(folder) / 'state.sqlite'}"
        with Store.open(url, create=True) as store:
            logs_folded = 0
            with store.transaction() as fresh:
                fold = Folder(rules, reader)
                for blocks, logs in chunks(uow, BlockRange(0, cursor.number)):
                    calls = list(uow.calls.between(blocks.first, blocks.last))
                    decoded = reader.read(logs, calls)
                    fresh.dead_letters.append(decoded.dead)
                    decoded = with_feed(uow, reader, decoded, blocks)
                    fold.fold(fresh, decoded, final=final)
                    logs_folded += len(logs)
                    progress(blocks.last, cursor.number)
                fresh.undo.prune_to(min(final, cursor.number))
            with store.reading() as folded:
                yield FreshState(folded, cursor.number, logs_folded)


def differing_rows(stored: UnitOfWork, folded: UnitOfWork) -> Iterator[StateRow]:
    """Yield every row that differs between the two, by table and key."""
    for table in stored.projections.compared_tables():
        sides = merge(
            ((row, False) for row in stored.projections.rows(table)),
            ((row, True) for row in folded.projections.rows(table)),
            key=_key_of,
        )
        for _, rows in groupby(sides, key=_key_of):
            pair = list(rows)
            row, is_of_fold = pair[0]
            if len(pair) == 1:
                yield StateRow(table.name, row.shown, "missing" if is_of_fold else "extra")
            elif pair[0][0].values != pair[1][0].values:
                yield StateRow(table.name, row.shown, "other")


def _key_of(side: tuple[ProjectionRow, bool]) -> tuple[object, ...]:
    return side[0].key
