"""Folds the events of a block range into the database, in one transaction.

The rows that the events need are loaded in bulk before the fold, and the changed rows are written
after it. Rows of running tasks stay in memory for the next range.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from typing import TypeVar

from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import IngestScope
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.fold.fold import (
    Fold,
    collect_node_addresses,
    collect_open_group_keys,
    collect_open_group_task_keys,
    collect_task_keys,
)
from oracle.domain.ids import TaskKey
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.scoring.rules import Rules
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.provenance import build_ingest_scope
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# At most this many rows stay in memory between two ranges. With more, all rows are dropped and
# loaded again when needed.
MAX_CACHED_TASKS = 200_000
MAX_CACHED_NODES = 200_000

Key = TypeVar("Key")
Row = TypeVar("Row")

# The folder calls this when it pauses after a block. The unit of work and the contract state are
# then exactly as of this block.
StopCallback = Callable[[UnitOfWork, ContractState, BlockRef], None]


class EventFolder:
    """Folds events into one database.

    The database rows that events change are cached.
    """

    def __init__(self, rules: Rules, reader: EventReader, hooks: Iterable[BlockHook] = ()) -> None:
        """Create the folder.

        Hooks are called in the given order.
        """
        self.rules = rules
        self.reader = reader
        self.hooks = tuple(hooks)
        self._fold = Fold(rules)
        self._contract_state: ContractState | None = None
        self._cursor: Cursor | None = None
        # The number by which stored scores refer to the configured rule set.
        self._rule_set_number = 0
        # The tasks changed by the current range.
        self._changed_tasks: set[TaskKey] = set()

    @cached_property
    def scope(self) -> IngestScope:
        """The addresses, topics and calls that are read from every block."""
        return build_ingest_scope(self.reader)

    @contextmanager
    def keep_cached_rows_if_current(self, cursor: Cursor | None) -> Iterator[None]:
        """Keep the cached rows if they belong to `cursor` and the `with` block succeeds.

        Otherwise they are dropped. The context must enclose the whole transaction, because after a
        failed commit the rows in memory differ from the database.
        """
        if cursor is None or self._cursor != cursor:
            self.discard_cached_rows()
        try:
            yield
        except BaseException:
            self.discard_cached_rows()
            raise

    def set_cached_rows_cursor(self, cursor: Cursor | None) -> None:
        """Record that the cached rows belong to `cursor`."""
        self._cursor = cursor

    def discard_cached_rows(self) -> None:
        """Discard all cached rows after a rewind or a failure."""
        self._fold = Fold(self.rules)
        self._contract_state = None
        self._cursor = None
        self._changed_tasks = set()
        for hook in self.hooks:
            hook.reset()

    def fold_events(
        self,
        uow: UnitOfWork,
        decoded_events: DecodedEvents,
        *,
        final_number: int,
        stops: Sequence[BlockRef] = (),
        on_stop: StopCallback | None = None,
    ) -> None:
        """Fold the events of a block range, and write the changes to the database.

        The changes of blocks above `final_number` are written to the undo journal. `on_stop` is
        called at the end of each block in `stops`, which must be in ascending order; for a block
        below the range, it is called before the fold. The caller moves the cursor.
        """
        contract_state = self._load_contract_state(uow)
        self._load_rows(uow, decoded_events.events)
        remaining_events = decoded_events
        for stop in stops:
            events_up_to_stop, remaining_events = _split_events_at_block(
                remaining_events, stop.number
            )
            self._fold_blocks(uow, contract_state, events_up_to_stop, final_number)
            if on_stop is not None:
                on_stop(uow, contract_state, stop)
        self._fold_blocks(uow, contract_state, remaining_events, final_number)
        self._evict_finished_tasks()

    def _load_contract_state(self, uow: UnitOfWork) -> ContractState:
        if self._contract_state is None:
            self._contract_state = uow.rounds.load_contract_state()
            self._rule_set_number = uow.rule_sets.get_or_assign_number(self.rules)
            self._fold.last = uow.last_event.get()
            self._fold.ledger.detector = uow.incidents.load_detector()
        return self._contract_state

    def _load_rows(self, uow: UnitOfWork, events: Sequence[DomainEvent]) -> None:
        """Load the rows that these events need from the database, unless they are cached."""
        ledger = self._fold.ledger
        task_keys = collect_task_keys(events)
        ledger.tasks.update(uow.tasks.get_many(task_keys - ledger.tasks.keys()))
        group_keys = collect_open_group_keys(
            events, _select_rows(ledger.tasks, task_keys), self.rules
        )
        ledger.groups.update(uow.groups.get_many(group_keys - ledger.groups.keys()))
        member_keys = collect_open_group_task_keys(
            _select_rows(ledger.groups, group_keys).values()
        )
        ledger.tasks.update(uow.tasks.get_many(member_keys - ledger.tasks.keys()))
        node_addresses = collect_node_addresses(
            events, _select_rows(ledger.tasks, task_keys | member_keys)
        )
        ledger.nodes.update(uow.nodes.get_many(node_addresses - ledger.nodes.keys()))

    def _fold_blocks(
        self,
        uow: UnitOfWork,
        contract_state: ContractState,
        part: DecodedEvents,
        final_number: int,
    ) -> None:
        """Fold and store blocks, with undo data if they are not final.

        Final blocks are folded at once, and other blocks one by one.
        """
        final_part, journaled_part = _split_events_at_block(part, final_number)
        if final_part.events:
            self._fold.fold_events(final_part.events)
        for number, events in groupby(journaled_part.events, key=_get_block_number):
            self._fold.fold_block(number, list(events), journal=True)
        contract_state.fold_block(final_number, final_part.contract_events, journal=False)
        for number, contract_events in groupby(
            journaled_part.contract_events, key=_get_block_number
        ):
            contract_state.fold_block(number, list(contract_events), journal=True)
        changes = self._fold.drain_changes()
        uow.write_changes(changes, self._rule_set_number)
        uow.rounds.save_changes(contract_state.drain_changes())
        self._changed_tasks.update(changes.tasks)
        for hook in self.hooks:
            hook.on_folded(changes)

    def _evict_finished_tasks(self) -> None:
        """Drop ended tasks and excess rows from memory.

        Later events rarely need ended tasks.
        """
        ledger = self._fold.ledger
        for key in self._changed_tasks:
            if ledger.tasks[key].ending is not None:
                del ledger.tasks[key]
        self._changed_tasks.clear()
        ledger.groups.clear()
        if len(ledger.tasks) > MAX_CACHED_TASKS:
            ledger.tasks.clear()
        if len(ledger.nodes) > MAX_CACHED_NODES:
            ledger.nodes.clear()


def _select_rows(row_by_key: dict[Key, Row], keys: set[Key]) -> dict[Key, Row]:
    return {key: row_by_key[key] for key in keys if key in row_by_key}


def _split_events_at_block(
    decoded_events: DecodedEvents, block_number: int
) -> tuple[DecodedEvents, DecodedEvents]:
    """Split events into those up to `block_number` and those above it."""
    event_index = bisect_right(decoded_events.events, block_number, key=_get_block_number)
    contract_event_index = bisect_right(
        decoded_events.contract_events, block_number, key=_get_block_number
    )
    return (
        DecodedEvents(
            decoded_events.events[:event_index],
            decoded_events.contract_events[:contract_event_index],
        ),
        DecodedEvents(
            decoded_events.events[event_index:],
            decoded_events.contract_events[contract_event_index:],
        ),
    )


def _get_block_number(event: DomainEvent | ContractEvent) -> int:
    return event.at.block
