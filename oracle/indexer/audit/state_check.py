"""Compares the state with a fold of the raw rows, and with the contracts' own counters.

For `resync verify`, the raw rows are folded into a temporary database, so that the real database
is only read. The contracts' counters are compared at the newest indexed block, because the
database contains only the state of this block (docs/explanation/reorgs.md#one-transaction). They
are compared only near the head, where every endpoint has the state of the contracts. See
docs/explanation/verification.md#l6.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.indexer.folder import EventFolder
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.projections import ProjectionRow
from oracle.telemetry import integrity_metrics as metrics


class StateRow(NamedTuple):
    """A state row that differs from the fold of the raw rows.

    `kind` is `missing` if only the fold contains the row, `extra` if only the table contains it,
    and `other` if the two versions differ.
    """

    table: str
    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class StateComparison:
    """The differences between the state and a fold of the raw rows up to block `last_block`."""

    last_block: int
    log_count: int
    differing: tuple[StateRow, ...]


def compare_state_with_refold(
    uow: UnitOfWork, reader: EventReader, rules: Rules, progress: Callable[[int, int], None]
) -> StateComparison:
    """Fold all raw rows of a snapshot and compare every row of every projection.

    Raises:
        InputError: nothing is indexed yet.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet; there is no state to compare")
    with refold_into_temporary_store(uow, cursor, reader, rules, progress) as (
        refolded_uow,
        log_count,
    ):
        differing_rows = tuple(iter_differing_rows(uow, refolded_uow))
    return StateComparison(cursor.number, log_count, differing_rows)


@contextmanager
def refold_into_temporary_store(
    uow: UnitOfWork,
    cursor: Cursor,
    reader: EventReader,
    rules: Rules,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[UnitOfWork, int]]:
    """Fold all raw rows up to `cursor` into a database that is deleted afterwards.

    Yields the folded state, and the number of logs.
    """
    final_number = -1 if cursor.final_number is None else cursor.final_number
    with TemporaryDirectory(prefix="qos-oracle-fold-") as directory:
        url = f"sqlite:///{Path(directory) / 'state.sqlite'}"
        with Store.open(url, create=True) as store:
            log_count = 0
            with store.transaction() as writer:
                event_folder = EventFolder(rules, reader)
                indexed_blocks = BlockRange(0, cursor.number)
                for blocks, chunk_log_count, decoded in iterate_decoded_chunks(
                    uow, reader, indexed_blocks
                ):
                    writer.dead_letters.append(decoded.dead_letters)
                    event_folder.fold_events(writer, decoded, final_number=final_number)
                    log_count += chunk_log_count
                    progress(blocks.last, cursor.number)
                writer.undo.prune_journal_to(min(final_number, cursor.number))
            with store.read_transaction() as reader_uow:
                yield reader_uow, log_count


def iter_differing_rows(stored_uow: UnitOfWork, folded_uow: UnitOfWork) -> Iterator[StateRow]:
    """Yield every row that differs between the stored and the folded state.

    Rows are in order of table and key.
    """
    for table in stored_uow.projections.list_compared_tables():
        tagged_rows = merge(
            ((row, False) for row in stored_uow.projections.iterate_rows(table)),
            ((row, True) for row in folded_uow.projections.iterate_rows(table)),
            key=_build_row_key,
        )
        for _, rows in groupby(tagged_rows, key=_build_row_key):
            row_pair = list(rows)
            row, is_refolded = row_pair[0]
            if len(row_pair) == 1:
                yield StateRow(table.name, row.key_text, "missing" if is_refolded else "extra")
            elif row_pair[0][0].values != row_pair[1][0].values:
                yield StateRow(table.name, row.key_text, "other")


def _build_row_key(tagged_row: tuple[ProjectionRow, bool]) -> tuple[object, ...]:
    return tagged_row[0].key


# Endpoints without an archive still have the state of blocks up to this far below the head.
MAX_HEAD_DISTANCE = 64


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """The counters at a block by name, as counted in the index and as read from the contracts."""

    block: int
    stored_counts: dict[str, int]
    chain_counts: dict[str, int]

    @property
    def differing_counters(self) -> dict[str, tuple[int, int]]:
        """Return (stored, on chain) for the counters that differ."""
        return {
            name: (self.stored_counts[name], count)
            for name, count in self.chain_counts.items()
            if name in self.stored_counts and self.stored_counts[name] != count
        }


@dataclass(slots=True)
class CounterQuery:
    """A read of the contracts' counters in the background, and the index's counts at its block."""

    background_call: BackgroundCall[dict[str, int]] = field(default_factory=BackgroundCall)
    block: int = 0
    stored_counts: dict[str, int] = field(default_factory=dict)

    def start(self, chain: ChainSource, store: Store, heads: Heads) -> None:
        """If the index is near the head, keep its counts and start to read the contracts."""
        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
            if cursor is None or heads.latest.number - cursor.number > MAX_HEAD_DISTANCE:
                return
            self.block = cursor.number
            self.stored_counts = _count_stored_rows(uow)
        block_hash = cursor.hash
        self.background_call.start(
            lambda: dict(chain.fetch_contract_counters(block_hash)), "counters"
        )


def compare_contract_counters(
    chain: ChainSource, store: Store, heads: Heads, query: CounterQuery | None = None
) -> CounterComparison | None:
    """Compare all counters of the profile's contracts; return None if there is no result.

    If `query` does not finish within its wait time, a later call returns the comparison. Without a
    `query` the call waits for the result.

    Raises:
        TransientError: no endpoint responds, or the block has left the chain.
    """
    query = CounterQuery() if query is None else query
    if not query.background_call.is_pending:
        query.start(chain, store, heads)
    finished_call = query.background_call.take_finished_call()
    chain_counts = {} if finished_call is None else finished_call.result()
    if not chain_counts:
        return None
    stored_counts = query.stored_counts
    metrics.COUNTERS_COMPARED.inc()
    for name, count in chain_counts.items():
        if name in stored_counts:
            metrics.COUNTER_DIFFERENCE.labels(name).set(count - stored_counts[name])
    return CounterComparison(query.block, stored_counts, chain_counts)


def _count_stored_rows(uow: UnitOfWork) -> dict[str, int]:
    """Return the index's counts, under the counter names of oracle/chain/contract_checks.py."""
    member_count = sum(
        count
        for (membership, _, _), count in uow.nodes.count_by_state().items()
        if membership is Membership.MEMBER
    )
    return {"members": member_count, "rounds": uow.rounds.get_last_round_and_root()[0]}
