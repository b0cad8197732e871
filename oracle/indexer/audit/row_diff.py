"""Compares an endpoint's rows with the stored rows, and repairs the stored rows.

A repair inserts rows that an endpoint had left out, removes rows that it had invented, replaces
rows that it had changed, and then refolds the state. The caller decides which side is right; data
that is proven by the receipts root is always right.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.ids import Hash
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import (
    IncompleteLogsError,
    RebuildOptions,
    RebuildResult,
    rebuild_state_up_to,
    renew_cursor_epoch,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor

_MISSING_BLOCK = Hash("not there")


@dataclass(slots=True)
class RowDiff:
    """The differences between an endpoint's rows and the stored rows.

    It is false if there are none. `missing` rows are only at the endpoint, and `extra` rows only
    in the database. `changed` rows are stored with other contents; they are listed in the
    endpoint's version.
    """

    missing_logs: list[Log] = field(default_factory=list)
    missing_calls: list[Call] = field(default_factory=list)
    extra_logs: list[Log] = field(default_factory=list)
    extra_calls: list[Call] = field(default_factory=list)
    changed_logs: list[Log] = field(default_factory=list)
    changed_calls: list[Call] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(self._get_row_lists())

    @property
    def missing_rows(self) -> list[Log | Call]:
        """The rows that only the endpoint has."""
        return [*self.missing_logs, *self.missing_calls]

    @property
    def extra_rows(self) -> list[Log | Call]:
        """The rows that only the database has."""
        return [*self.extra_logs, *self.extra_calls]

    @property
    def changed_rows(self) -> list[Log | Call]:
        """The endpoint's version of rows that are stored with other contents."""
        return [*self.changed_logs, *self.changed_calls]

    @property
    def row_count(self) -> int:
        """The number of rows that differ."""
        return sum(map(len, self._get_row_lists()))

    @property
    def block_numbers(self) -> list[int]:
        """The numbers of the blocks with differing rows, in ascending order."""
        return sorted({row.block for rows in self._get_row_lists() for row in rows})

    def merge(self, other: "RowDiff") -> None:
        """Add the differences of other blocks."""
        self.missing_logs += other.missing_logs
        self.missing_calls += other.missing_calls
        self.extra_logs += other.extra_logs
        self.extra_calls += other.extra_calls
        self.changed_logs += other.changed_logs
        self.changed_calls += other.changed_calls

    def select_blocks(self, is_selected: Callable[[int], bool]) -> "RowDiff":
        """Return the differences in the blocks whose numbers are selected."""
        return RowDiff(
            [log for log in self.missing_logs if is_selected(log.block)],
            [call for call in self.missing_calls if is_selected(call.block)],
            [log for log in self.extra_logs if is_selected(log.block)],
            [call for call in self.extra_calls if is_selected(call.block)],
            [log for log in self.changed_logs if is_selected(log.block)],
            [call for call in self.changed_calls if is_selected(call.block)],
        )

    def _get_row_lists(self) -> Sequence[list[Log] | list[Call]]:
        return (
            self.missing_logs,
            self.missing_calls,
            self.extra_logs,
            self.extra_calls,
            self.changed_logs,
            self.changed_calls,
        )


def compare_window_with_database(uow: UnitOfWork, window: BlockWindow) -> RowDiff:
    """Compare a window with the canonical stored rows of its blocks, field by field."""
    first_block, last_block = window.range.first, window.range.last
    stored_logs = {
        _build_log_key(log): log for log in uow.logs.iterate_between(first_block, last_block)
    }
    served_logs = {_build_log_key(log): log for log in window.logs}
    stored_calls = {
        _build_call_key(call): call for call in uow.calls.iterate_between(first_block, last_block)
    }
    served_calls = {_build_call_key(call): call for call in window.calls}
    return RowDiff(
        missing_logs=[log for key, log in served_logs.items() if key not in stored_logs],
        missing_calls=[call for key, call in served_calls.items() if key not in stored_calls],
        extra_logs=[log for key, log in stored_logs.items() if key not in served_logs],
        extra_calls=[call for key, call in stored_calls.items() if key not in served_calls],
        changed_logs=[log for key, log in served_logs.items() if stored_logs.get(key, log) != log],
        changed_calls=[
            served_call
            for key, served_call in served_calls.items()
            if stored_calls.get(key, served_call) != served_call
        ],
    )


def check_window_on_same_chain(uow: UnitOfWork, cursor: Cursor, window: BlockWindow) -> None:
    """Check that the block hashes of a window equal the stored hashes.

    Otherwise rows of another fork could be inserted.

    Raises:
        TransientError: the chain is reorganising in these blocks.
        FatalError: a final block differs.
    """
    if window.last.number > cursor.number:
        raise TransientError(
            f"block {window.last.number} follows block {window.range.first - 1} on the chain, but "
            "the database has blocks in between; a reorg is in progress"
        )
    stored_hashes, _ = _load_block_hashes(uow, window)
    for number, served_hash in find_conflicting_hashes(uow, window).items():
        raise _build_conflict_error(cursor, number, served_hash, stored_hashes[number])


def find_conflicting_hashes(uow: UnitOfWork, window: BlockWindow) -> dict[int, Hash]:
    """Return the window's hashes that differ from the stored ones, by ascending block number."""
    stored_hashes, served_hashes = _load_block_hashes(uow, window)
    return {
        number: served_hashes[number]
        for number in sorted(served_hashes.keys() & stored_hashes.keys())
        if served_hashes[number] != stored_hashes[number]
    }


def _load_block_hashes(
    uow: UnitOfWork, window: BlockWindow
) -> tuple[dict[int, Hash], dict[int, Hash]]:
    """Return the stored and the served block hashes, each by block number.

    If a window contains all headers of its range, a height without a header has no block.
    """
    first_block, last_block = window.range.first, window.range.last
    served_hashes = {block.number: block.hash for block in [*window.headers, window.last]}
    served_hashes |= {log.block: log.block_hash for log in window.logs}
    stored_hashes = {
        block.number: block.hash for block in uow.blocks.list_canonical(first_block, last_block)
    }
    stored_hashes |= {
        log.block: log.block_hash for log in uow.logs.iterate_between(first_block, last_block)
    }
    if window.headers:
        served_hashes |= dict.fromkeys(stored_hashes.keys() - served_hashes.keys(), _MISSING_BLOCK)
    return stored_hashes, served_hashes


def check_endpoint_on_same_chain(
    chain: ChainSource, uow: UnitOfWork, cursor: Cursor, window: BlockWindow
) -> None:
    """Check that an endpoint's window is on the indexed chain.

    If one endpoint returns another final block, the daemon does not stop, because `finality_halt`
    compares all endpoints.

    Raises:
        TransientError: the chain is reorganising in these blocks, or the endpoint is on another
            chain.
    """
    try:
        check_window_on_same_chain(uow, cursor, window)
    except FatalError as error:
        chain.report_wrong_logs(window.endpoint, str(error))
        raise TransientError(f"{window.endpoint}: {error}") from error


def _build_conflict_error(
    cursor: Cursor, number: int, served_hash: Hash, stored_hash: Hash
) -> Exception:
    conflict_text = (
        f"block {number} is {served_hash} on the chain but {stored_hash} in the database"
    )
    if cursor.final_number is None or number > cursor.final_number:
        return TransientError(f"{conflict_text}; let `qos-oracle run` follow the fork first")
    return FatalError(f"{conflict_text}, although it is final; check the endpoints first")


def _build_log_key(log: Log) -> tuple[int, int, Hash]:
    return log.block, log.index, log.block_hash


def _build_call_key(call: Call) -> tuple[int, int, Hash]:
    return call.block, call.tx, call.block_hash


def require_cursor(uow: UnitOfWork) -> Cursor:
    """Return the cursor, which must exist.

    It is missing if the index was emptied during this run.

    Raises:
        TransientError: the index has become empty.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise TransientError("the index is empty; it was rewound during this run")
    return cursor


def require_indexed_blocks(action: str, uow: UnitOfWork, blocks: BlockRange) -> Cursor:
    """Return the cursor, after checking that all of `blocks` are indexed.

    Raises:
        InputError: some blocks are not indexed; the message contains `action` (a verb) and the
            indexed range.
    """
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None:
        raise InputError("nothing is indexed yet; run `qos-oracle run` first")
    if blocks.first < identity.start_block or blocks.last > cursor.number:
        raise InputError(
            f"cannot {action} blocks {blocks.first} to {blocks.last}; only blocks "
            f"{identity.start_block} to {cursor.number} are indexed"
        )
    return cursor


@dataclass(frozen=True, slots=True)
class RepairContext:
    """The objects that audits and repairs of stored rows need."""

    chain: ChainSource
    store: Store
    folder: EventFolder
    rebuild_options: RebuildOptions


def select_rows_to_repair(
    difference: RowDiff,
    served_proven_blocks: Collection[int],
    stored_proven_blocks: Collection[int],
) -> RowDiff:
    """Select the differing rows that are to be repaired.

    `served_proven_blocks` are blocks for which the endpoint's rows are proven; they are repaired
    completely. `stored_proven_blocks` are blocks for which the stored rows are proven; they are
    left as they are. In all other blocks missing rows are inserted, because endpoints often omit
    logs but hardly ever invent them. No stored row of these blocks is removed or replaced.
    """

    def should_insert(block_number: int) -> bool:
        return block_number in served_proven_blocks or block_number not in stored_proven_blocks

    return RowDiff(
        missing_logs=[log for log in difference.missing_logs if should_insert(log.block)],
        missing_calls=[call for call in difference.missing_calls if should_insert(call.block)],
        extra_logs=[log for log in difference.extra_logs if log.block in served_proven_blocks],
        extra_calls=[
            call for call in difference.extra_calls if call.block in served_proven_blocks
        ],
        changed_logs=[log for log in difference.changed_logs if log.block in served_proven_blocks],
        changed_calls=[
            call for call in difference.changed_calls if call.block in served_proven_blocks
        ],
    )


def repair_blocks(
    uow: UnitOfWork,
    folder: EventFolder,
    cursor: Cursor,
    row_diff: RowDiff,
    rebuild_options: RebuildOptions,
    verified_blocks: BlockRange | None = None,
) -> RebuildResult:
    """Write the repaired rows, and refold the state up to the cursor in one transaction.

    The caller opens the transaction. `verified_blocks` are blocks that equal the chain once these
    rows are written.

    Raises:
        FatalError: the header of the cursor's block is missing.
        TransientError: raw rows of other blocks are missing; nothing was changed.
    """
    renew_cursor_epoch(uow, cursor)
    # Remove rows first, because an inserted row may have the same number as a removed one.
    uow.logs.orphan(row_diff.extra_logs)
    uow.calls.orphan(row_diff.extra_calls)
    uow.logs.append(row_diff.missing_logs)
    uow.calls.append(row_diff.missing_calls)
    uow.logs.replace(row_diff.changed_logs)
    uow.calls.replace(row_diff.changed_calls)
    try:
        return rebuild_state_up_to(uow, folder, cursor.number, rebuild_options, verified_blocks)
    except IncompleteLogsError as error:
        # The daemon continues with the current state until an operator lets it reread the rows.
        raise TransientError(str(error)) from error


def find_proven_blocks(uow: UnitOfWork, scope: IngestScope, blocks: BlockRange) -> set[int]:
    """Return the blocks of a range that are recorded as proven by their receipts."""
    level_by_block = uow.verified_blocks.get_level_by_number(blocks.first, blocks.last)
    proven_blocks = {
        number for number, level in level_by_block.items() if level >= VerificationLevel.PROVEN
    }
    for span in uow.coverage.list_intervals(scope.id, blocks.first, blocks.last):
        if span.level >= VerificationLevel.PROVEN:
            proven_blocks.update(range(span.first, span.last + 1))
    return proven_blocks
