"""Refolds stored raw rows without requests to the chain.

Stored reports are compared with the new state. A refold runs in one transaction. Readers see the
old state until the commit, an interruption keeps the old state, and a dry run is a real run that
is rolled back at its end. No refold starts if raw rows have changed since their commit
(docs/explanation/storage.md#raw-checksums). Logs and calls that could not be decoded (dead
letters) are decoded again (docs/explanation/ingest.md#decoding).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.logs import DeadLetter
from oracle.domain.reports.contract_state import ContractState
from oracle.errors import FatalError, InputError
from oracle.indexer.block_hooks import BlockHook, HookStops
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import increment_refold_count, record_fold_version
from oracle.indexer.rules_binding import bind_rules
from oracle.indexer.stored_events import iterate_decoded_chunks
from oracle.store.database import Store, UnitOfWork
from oracle.store.raw.raw_checksums import DamagedSpan
from oracle.store.state.cursor_repository import Cursor

# An error message lists at most this many spans.
_MAX_LISTED_SPANS = 3
_NAME_BY_KIND = {"log": "logs", "call": "calls", "feed": "feed rows"}


class IncompleteLogsError(InputError):
    """Raised if raw rows were lost or changed outside the program.

    A fold of such rows would be wrong.
    """


def find_damaged_spans(
    uow: UnitOfWork, last_block: int, verified_blocks: BlockRange | None = None
) -> list[DamagedSpan]:
    """Return the spans up to `last_block` whose rows differ from the committed rows.

    `verified_blocks` are blocks that were just found equal to the chain; spans within them are
    left out.
    """
    identity = uow.identity.get()
    first_block = 0 if identity is None else min(identity.start_block, last_block)
    spans = uow.raw_checksums.find_damaged_spans(first_block, last_block)
    return [
        span
        for span in spans
        if verified_blocks is None or not _is_span_inside(span, verified_blocks)
    ]


def check_raw_rows_complete(
    uow: UnitOfWork, last_block: int, verified_blocks: BlockRange | None = None
) -> None:
    """Check that no raw row is missing or changed before a refold.

    Raises:
        IncompleteLogsError: rows up to `last_block` are missing, added or changed.
    """
    spans = find_damaged_spans(uow, last_block, verified_blocks)
    if spans:
        damage_text = "; ".join(describe_damaged_rows(*span) for span in spans[:_MAX_LISTED_SPANS])
        raise IncompleteLogsError(f"raw rows: {damage_text}; {_format_repair_advice(spans)}")


def describe_damaged_rows(kind: str, first: int, last: int, missing_count: int) -> str:
    """Describe how the rows of a damaged span differ.

    The arguments are those of `DamagedSpan`.
    """
    return (
        f"the {_NAME_BY_KIND[kind]} of blocks {first} to {last} differ from those that were "
        f"committed ({_describe_missing_rows(missing_count)})"
    )


def _describe_missing_rows(missing_count: int) -> str:
    if missing_count == 0:
        return "a row was changed"
    return f"{missing_count} missing" if missing_count > 0 else f"{-missing_count} too many"


def _format_repair_advice(spans: Sequence[DamagedSpan]) -> str:
    first_block = min(span.first for span in spans)
    last_block = max(span.last for span in spans)
    unlisted_count = len(spans) - _MAX_LISTED_SPANS
    remaining_text = "" if unlisted_count <= 0 else f"{unlisted_count} more spans are damaged; "
    return (
        f"{remaining_text}damaged rows are not folded; run `qos-oracle resync verify --from "
        f"{first_block} --to {last_block} --repair` to read these blocks again"
    )


def _is_span_inside(span: DamagedSpan, verified_blocks: BlockRange) -> bool:
    is_fully_verified = verified_blocks.first <= span.first and span.last <= verified_blocks.last
    # Feed rows are never verified, because they are not on the chain.
    return is_fully_verified and span.kind != "feed"


def _ignore_progress(_block: int, _last: int) -> None:
    """Ignore the progress of a rebuild."""


def _do_nothing() -> None:
    """Do nothing, because there is no lease to renew."""


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The options of a resync command.

    With `dry_run` the transaction is rolled back at its end. `progress` is called with the current
    and the last block. `lease_epoch` is the epoch of the lease under which this process may write,
    or None in tests. `renew_lease` is called regularly while no transaction is open.
    """

    dry_run: bool = False
    progress: Callable[[int, int], None] = _ignore_progress
    lease_epoch: int | None = None
    renew_lease: Callable[[], None] = _do_nothing

    @contextmanager
    def transaction(self, store: Store) -> Iterator[UnitOfWork]:
        """Open a transaction that excludes other writers until its end.

        Raises:
            FatalError: another process has taken over the lease; nothing was changed.
        """
        try:
            with store.transaction() as uow:
                if self.lease_epoch is not None:
                    uow.lease.lock_held_lease(self.lease_epoch)
                yield uow
                self._roll_back_dry_run()
        except _DryRunRollbackError:
            return

    def _roll_back_dry_run(self) -> None:
        if self.dry_run:
            raise _DryRunRollbackError


class _DryRunRollbackError(Exception):
    """Raised at the end of a dry run to roll back its transaction."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The result of a refold up to block `last_block`.

    `is_same` is whether the new state is byte-identical to the old state. `differing` are the
    periods whose report has changed.
    """

    last_block: int
    log_count: int
    is_same: bool
    report_count: int
    differing: tuple[int, ...]


@dataclass(slots=True)
class _HookCheck:
    """Compares the stored results of every hook with the new state.

    Each hook is called at the blocks of its stored results.
    """

    hooks: Sequence[BlockHook]
    checked_count: int = 0
    differing: list[int] = field(default_factory=list)
    _stops: HookStops = field(default_factory=HookStops)

    def collect_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        """Collect the blocks of a range for which hooks have stored results."""
        self._stops = HookStops()
        for hook in self.hooks:
            self._stops.add(hook, hook.get_stored_stop_blocks(uow, blocks))
        return self._stops.blocks

    def compare_at_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef
    ) -> None:
        """Compare the stored results at a block with the newly folded state."""
        for hook in self._stops.get_hooks_at_block(block):
            self.checked_count += 1
            hook_difference = hook.find_difference(uow, contract_state, block)
            if hook_difference is not None:
                self.differing.append(hook_difference.number)


def rebuild_state(
    store: Store, folder: EventFolder, rebuild_options: RebuildOptions
) -> RebuildResult:
    """Discard the folded state and fold everything again up to the cursor.

    Raises:
        InputError: nothing is indexed yet, or raw rows are missing.
    """
    with folder.keep_cached_rows_if_current(None), rebuild_options.transaction(store) as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; there is nothing to refold")
        renew_cursor_epoch(uow, cursor)
        rebuild_result = rebuild_state_up_to(uow, folder, cursor.number, rebuild_options)
    folder.discard_cached_rows()
    return rebuild_result


def renew_cursor_epoch(uow: UnitOfWork, cursor: Cursor) -> None:
    """Give the cursor a new epoch.

    Windows that were read earlier are then not committed.

    Raises:
        FatalError: the header of the cursor's block is missing.
    """
    block = uow.blocks.find_canonical(cursor.number)
    if block is None or block.hash != cursor.hash:
        raise FatalError(f"the cursor is at block {cursor.number}, but its header is missing")
    uow.cursor.move_to(block, None, cursor.epoch)


def rebuild_state_up_to(
    uow: UnitOfWork,
    folder: EventFolder,
    last_block: int,
    rebuild_options: RebuildOptions,
    verified_blocks: BlockRange | None = None,
) -> RebuildResult:
    """Refold the canonical rows up to `last_block` in the caller's transaction.

    The changes of blocks above the final block are written to the undo journal, so that these
    blocks can still be rewound. `verified_blocks` are blocks whose rows were just found equal to
    the chain.

    Raises:
        IncompleteLogsError: other raw rows were lost or changed; nothing was changed.
    """
    check_raw_rows_complete(uow, last_block, verified_blocks)
    old_digest = uow.projections.compute_digest()
    uow.projections.clear()
    bind_rules(uow, folder.rules, block=last_block)
    hook_check = _HookCheck(folder.hooks)
    folded_log_count = fold_stored_rows(
        uow, folder, BlockRange(0, last_block), rebuild_options, hook_check
    )
    record_fold_version(uow, folder.reader)
    is_state_unchanged = uow.projections.compute_digest() == old_digest
    return RebuildResult(
        last_block,
        folded_log_count,
        is_state_unchanged,
        hook_check.checked_count,
        tuple(hook_check.differing),
    )


def fold_stored_rows(
    uow: UnitOfWork,
    folder: EventFolder,
    blocks: BlockRange,
    rebuild_options: RebuildOptions,
    hook_check: _HookCheck | None = None,
) -> int:
    """Fold the canonical rows of these blocks onto the state.

    The result is the number of logs. The changes of blocks above the final block are written to
    the undo journal. Rows in memory are discarded, because the stored rows may have changed. Dead
    letters that can be decoded now are closed.
    """
    folder.discard_cached_rows()
    uow.dead_letters.delete_open(blocks.first, blocks.last)
    for hook in folder.hooks:
        hook.on_rebuild()
    cursor = uow.cursor.get()
    final_number = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    hook_check = hook_check or _HookCheck(())
    log_count = 0
    for chunk, chunk_log_count, decoded_events in iterate_decoded_chunks(
        uow, folder.reader, blocks
    ):
        uow.dead_letters.append(decoded_events.dead_letters)
        stop_blocks = hook_check.collect_stop_blocks(uow, chunk)
        folder.fold_events(
            uow,
            decoded_events,
            final_number=final_number,
            stops=stop_blocks,
            on_stop=hook_check.compare_at_block,
        )
        log_count += chunk_log_count
        rebuild_options.progress(chunk.last, blocks.last)
    uow.undo.prune_journal_to(min(final_number, blocks.last))
    increment_refold_count(uow)
    return log_count


# Higher than any block.
_MAX_BLOCK = 2**62


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The dead letters that can be decoded now, and those that still cannot.

    `rebuilt` is None if none of them can be decoded.
    """

    readable: tuple[DeadLetter, ...]
    unreadable: tuple[DeadLetter, ...]
    rebuilt: RebuildResult | None


def list_open_dead_letters(store: Store) -> list[DeadLetter]:
    """Return the dead letters that were not decoded yet, by position."""
    with store.read_transaction() as uow:
        return uow.dead_letters.list_open(0, _MAX_BLOCK)


def retry_dead_letters(
    store: Store, folder: EventFolder, rebuild_options: RebuildOptions
) -> RetryResult:
    """Decode the dead letters again, and refold everything if any can be decoded now.

    The state is then the same as if they had been decoded from the start.

    Raises:
        InputError: nothing is indexed yet.
    """
    open_dead_letters = list_open_dead_letters(store)
    unreadable_dead_letters = list(_iter_unreadable_dead_letters(store, folder, open_dead_letters))
    unreadable_positions = {_get_position(dead_letter) for dead_letter in unreadable_dead_letters}
    readable_dead_letters = tuple(
        dead_letter
        for dead_letter in open_dead_letters
        if _get_position(dead_letter) not in unreadable_positions
    )
    rebuild_result = (
        rebuild_state(store, folder, rebuild_options) if readable_dead_letters else None
    )
    return RetryResult(readable_dead_letters, tuple(unreadable_dead_letters), rebuild_result)


def _iter_unreadable_dead_letters(
    store: Store, folder: EventFolder, dead_letters: list[DeadLetter]
) -> Iterator[DeadLetter]:
    """Decode the blocks of these dead letters again, and yield those that still fail."""
    with store.read_transaction() as uow:
        for block in sorted({dead_letter.block for dead_letter in dead_letters}):
            logs = list(uow.logs.iterate_between(block, block))
            calls = list(uow.calls.iterate_between(block, block))
            yield from folder.reader.decode_rows(logs, calls).dead_letters


def _get_position(dead_letter: DeadLetter) -> tuple[int, int, int]:
    return dead_letter.block, dead_letter.tx, dead_letter.index
