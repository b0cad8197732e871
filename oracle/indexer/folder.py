"""Folds a range of blocks over the store, inside the transaction that stores the range.

The rows that the events need are loaded first, in bulk; changes of the fold are written last. Rows
of running tasks stay in memory for the next range.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from typing import TypeVar

from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import IngestScope
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.row_prefetch import (
    node_addresses_in,
    open_group_keys_in,
    task_keys_in,
    task_keys_of_open_groups,
)
from oracle.domain.ids import TaskKey
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.rules import Rules
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.provenance import scope_of
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Number of rows kept in memory between two ranges; above it all are reloaded.
MOST_TASKS = 200_000
MOST_NODES = 200_000

Key = TypeVar("Key")
Row = TypeVar("Row")

# Callback at a stop; the unit of work and the rounds are exactly as of the block.
AtStop = Callable[[UnitOfWork, Rounds, BlockRef], None]


class Folder:
    """Folds events into one database and caches the rows that it works on."""

    def __init__(self, rules: Rules, reader: LogReader, hooks: Iterable[BlockHook] = ()) -> None:
        """`hooks` are called in this order; without any, blocks are only folded."""
        self.rules = rules
        self.reader = reader
        self.hooks = tuple(hooks)
        self._fold = Fold(rules)
        self._rounds: Rounds | None = None
        self._cursor: Cursor | None = None
        # Number of the configured rule set, by which scores refer to it.
        self._rule_set = 0
        # Tasks that the current range changed.
        self._touched: set[TaskKey] = set()

    @cached_property
    def scope(self) -> IngestScope:
        """Addresses, topics and calls that are read in every block."""
        return scope_of(self.reader)

    @contextmanager
    def following(self, cursor: Cursor | None) -> Iterator[None]:
        """Continue from `cursor`; after any failure inside, all rows are reloaded.

        The context must enclose the whole transaction, because a failed commit leaves wrong rows
        in memory.
        """
        if cursor is None or self._cursor != cursor:
            self.forget()
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def commit_memory(self, cursor: Cursor | None) -> None:
        """Record that the rows in memory belong to `cursor`."""
        self._cursor = cursor

    def forget(self) -> None:
        """Discard all rows in memory, after a rewind or a failure."""
        self._fold = Fold(self.rules)
        self._rounds = None
        self._cursor = None
        self._touched = set()
        for hook in self.hooks:
            hook.reset()

    def fold(
        self,
        uow: UnitOfWork,
        decoded: Decoded,
        *,
        final: int,
        stops: Sequence[BlockRef] = (),
        at_stop: AtStop | None = None,
    ) -> int:
        """Fold a range, write its changes, and return the number of anomalies.

        Changes of blocks above `final_number` are journaled. `stops` ascend, and `on_stop` is
        called at each; a stop below the first block is called at once. The caller moves the
        cursor.
        """
        rounds = self._loaded_rounds(uow)
        self._load(uow, decoded.events)
        remaining, anomalies = decoded, 0
        for stop in stops:
            piece, remaining = _parted(remaining, stop.number)
            anomalies += self._fold_piece(uow, rounds, piece, final)
            if at_stop is not None:
                at_stop(uow, rounds, stop)
        anomalies += self._fold_piece(uow, rounds, remaining, final)
        self._evict_finished()
        return anomalies

    def _loaded_rounds(self, uow: UnitOfWork) -> Rounds:
        if self._rounds is None:
            self._rounds = uow.rounds.load()
            self._rule_set = uow.rule_sets.number_of(self.rules)
            self._fold.last = uow.last_event.get()
        return self._rounds

    def _load(self, uow: UnitOfWork, events: Sequence[DomainEvent]) -> None:
        """Load the rows that these events need and that are not in memory."""
        rows = self._fold.ledger
        named = task_keys_in(events)
        rows.tasks.update(uow.tasks.named(named - rows.tasks.keys()))
        groups = open_group_keys_in(events, _those(rows.tasks, named), self.rules)
        rows.groups.update(uow.groups.named(groups - rows.groups.keys()))
        members = task_keys_of_open_groups(_those(rows.groups, groups).values())
        rows.tasks.update(uow.tasks.named(members - rows.tasks.keys()))
        nodes = node_addresses_in(events, _those(rows.tasks, named | members))
        rows.nodes.update(uow.nodes.named(nodes - rows.nodes.keys()))

    def _fold_piece(self, uow: UnitOfWork, rounds: Rounds, piece: Decoded, final: int) -> int:
        """Fold and store whole blocks: final ones at once, the others with a journal."""
        settled, open_ = _parted(piece, final)
        if settled.events:
            self._fold.many(settled.events)
        for number, events in groupby(open_.events, key=_block_of):
            self._fold.block(number, list(events), journal=True)
        rounds.block(final, settled.contract_events, journal=False)
        for number, contract_events in groupby(open_.contract_events, key=_block_of):
            rounds.block(number, list(contract_events), journal=True)
        changes = self._fold.drain()
        uow.changes(changes, self._rule_set)
        uow.rounds.write(rounds.drain())
        self._touched.update(changes.tasks)
        for hook in self.hooks:
            hook.folded(changes)
        return len(changes.anomalies)

    def _evict_finished(self) -> None:
        """Evict ended tasks, which later events rarely name, and excess rows."""
        rows = self._fold.ledger
        for key in self._touched:
            if rows.tasks[key].ending is not None:
                del rows.tasks[key]
        self._touched.clear()
        rows.groups.clear()
        if len(rows.tasks) > MOST_TASKS:
            rows.tasks.clear()
        if len(rows.nodes) > MOST_NODES:
            rows.nodes.clear()


def _those(rows: dict[Key, Row], keys: set[Key]) -> dict[Key, Row]:
    return {key: rows[key] for key in keys if key in rows}


def _parted(decoded: Decoded, number: int) -> tuple[Decoded, Decoded]:
    """Split events into those up to `block_number` and those above it."""
    event = bisect_right(decoded.events, number, key=_block_of)
    contract_event = bisect_right(decoded.contract_events, number, key=_block_of)
    return (
        Decoded(decoded.events[:event], decoded.contract_events[:contract_event]),
        Decoded(decoded.events[event:], decoded.contract_events[contract_event:]),
    )


def _block_of(event: DomainEvent | ContractEvent) -> int:
    return event.at.block
