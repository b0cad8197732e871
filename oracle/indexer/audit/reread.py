"""Rereads blocks whose verification level can be raised.

Their level is below the level that settings and chain allow. The headers of a chain serve as
proofs only after samples of them were checked (calibration). Blocks that were read before, or by
an older version of the program, were returned by one endpoint without a proof. The coverage lists
these blocks. They are reread in ascending order, and no report depends on such a block before it
was reread. See docs/explanation/verification.md#calibration.
"""

from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.chain.verification.refused_blocks import BlockRefusedError
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, VerificationLevel
from oracle.indexer.audit.reverify import reverify_and_repair
from oracle.indexer.audit.row_diff import (
    RepairContext,
    RowDiff,
    check_endpoint_on_same_chain,
    compare_window_with_database,
    require_cursor,
)
from oracle.indexer.block_confirmation import (
    clear_block_refusal,
    confirm_block,
    store_block_refusal,
)
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import record_proven_blocks
from oracle.indexer.rebuild import RebuildResult
from oracle.indexer.reorgs.fork_detection import ForkContext
from oracle.store.database import UnitOfWork
from oracle.telemetry.indexer_metrics import BELOW_LEVEL


@dataclass(frozen=True, slots=True)
class RereadResult:
    """The result of rereading blocks.

    `row_count` is the number of rows that differed, and `blocks_left` the number of blocks that
    are still to be reread. `repaired` is None if no row had to be repaired.
    """

    blocks: BlockRange
    level: VerificationLevel
    endpoint: str
    row_count: int = 0
    blocks_left: int = 0
    repaired: RebuildResult | None = None


@dataclass(slots=True)
class Rereader:
    """The state of rereading between ticks.

    The coverage shows which blocks are to be reread. The search for blocks starts at `next_block`.
    Blocks below it whose level could not be raised are left to the next process. The search
    restarts if the level that can be reached has changed.
    """

    next_block: int = 0
    level: VerificationLevel | None = None

    def find_span_to_reread(
        self, chain: ChainSource, uow: UnitOfWork, folder: EventFolder
    ) -> CoverageInterval | None:
        """Return the lowest blocks that are to be reread, or None if there are none."""
        level = chain.get_history_level()
        cursor = uow.cursor.get()
        if level != self.level:
            self.level, self.next_block = level, 0
        if level < VerificationLevel.BLOOMED or cursor is None or cursor.final_number is None:
            return None
        final_number = min(cursor.final_number, cursor.number)
        if self.next_block > final_number:
            return None
        interval = uow.coverage.find_lowest_interval_below_level(
            folder.scope.id, level, BlockRange(self.next_block, final_number)
        )
        # Every block below has the highest possible level, so the next search starts here.
        self.next_block = max(
            self.next_block, final_number + 1 if interval is None else interval.first
        )
        return interval

    def count_blocks_to_reread(self, uow: UnitOfWork, folder: EventFolder) -> int:
        cursor = uow.cursor.get()
        final_number = None if cursor is None else cursor.final_number
        if self.level is None or self.level < VerificationLevel.BLOOMED or final_number is None:
            return 0
        return uow.coverage.count_blocks_below_level(
            folder.scope.id, self.level, self.next_block, final_number
        )


def reread_next_window(context: RepairContext, rereader: Rereader) -> RereadResult | None:
    """Reread the next blocks whose level can be raised, or return None if there are none.

    Rows that an endpoint had left out, invented or changed are repaired, and that endpoint is
    deprioritised.

    Raises:
        TransientError: no endpoint returns a complete and consistent response, or a block is
            refused.
    """
    chain, store, folder = context.chain, context.store, context.folder
    # Calibrate before the first window too; otherwise the level of that window would depend on the
    # order of the jobs.
    chain.calibrate()
    with store.read_transaction() as uow:
        due_span = rereader.find_span_to_reread(chain, uow, folder)
        BELOW_LEVEL.set(rereader.count_blocks_to_reread(uow, folder))
    if due_span is None:
        return None
    window = _read_window(context, due_span.blocks)
    with store.read_transaction() as uow:
        check_endpoint_on_same_chain(chain, uow, require_cursor(uow), window)
        row_diff = compare_window_with_database(uow, window)
    repair_result = _repair_rows(context, row_diff) if row_diff else None
    with context.rebuild_options.transaction(store) as uow:
        is_equal = not compare_window_with_database(uow, window)
        if is_equal:
            clear_block_refusal(uow, window.range)
            uow.coverage.raise_level(folder.scope.id, window.range, window.level, window.endpoint)
            record_proven_blocks(uow, window)
        if not is_equal or window.level < chain.get_history_level():
            rereader.next_block = window.range.last + 1
        blocks_left = rereader.count_blocks_to_reread(uow, folder)
    BELOW_LEVEL.set(blocks_left)
    return RereadResult(
        window.range, window.level, window.endpoint, row_diff.row_count, blocks_left, repair_result
    )


def _read_window(context: RepairContext, blocks: BlockRange) -> BlockWindow:
    try:
        window = context.chain.fetch_window(blocks, with_headers=False)
    except BlockRefusedError as error:
        raise store_block_refusal(context.store, error.refusal) from error
    fork_context = ForkContext(context.chain, context.store)
    confirm_block(fork_context, window.last, window.endpoint, window.range)
    return window


def _repair_rows(context: RepairContext, difference: RowDiff) -> RebuildResult | None:
    """Prove the differing blocks and repair their rows, or return None if no row changed."""
    blocks = BlockRange(difference.block_numbers[0], difference.block_numbers[-1])
    with context.store.read_transaction() as uow:
        intervals = uow.coverage.list_intervals(context.folder.scope.id, blocks.first, blocks.last)
    verify_result = reverify_and_repair(context, blocks, VerificationLevel.PROVEN)
    if verify_result.repaired is not None:
        accusation_text = (
            f"was wrong about {verify_result.difference.row_count} rows of blocks "
            f"{blocks.first} to"
        )
        for source_endpoint in sorted(
            {span.endpoint for span in intervals} - set(verify_result.endpoints)
        ):
            context.chain.report_wrong_logs(source_endpoint, f"{accusation_text} {blocks.last}")
    return verify_result.repaired
