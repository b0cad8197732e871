"""The answers of the `resync` commands about rewinds, rebuilds and index checks."""

from collections.abc import Iterable, Sequence

from pydantic import Field

from oracle.domain.logs import Call, DeadLetter, Log
from oracle.indexer.audit.reverify import VerifyResult
from oracle.indexer.backfill import BackfillResult
from oracle.indexer.rebuild import RebuildResult, RetryResult
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.queries.answers import AddressText, ApiModel, HashText
from oracle.store.raw.raw_checksums import DamagedSpan


class BlockRangeEntry(ApiModel):
    """A range of blocks, both ends included."""

    first: int = Field(serialization_alias="from")
    last: int = Field(serialization_alias="to")


class RebuildAnswer(ApiModel):
    """The result of folding the stored logs again."""

    dry_run: bool
    block: int = Field(description="The last indexed block.")
    logs: int
    same_state: bool
    reports: int = Field(
        description="Number of stored reports that were compared with recomputed ones."
    )
    differing_periods: list[int]


class RewindAnswer(ApiModel):
    """The block that the index was rewound to."""

    dry_run: bool
    block: int
    hash: HashText
    from_block: int
    logs: int = Field(description="Number of logs that were marked as orphaned.")
    reports_missed: int
    by: str = Field(examples=["journal", "rebuild"])
    snapshot_block: int | None = Field(
        description=(
            "Block of the state snapshot from which events were folded; null if they were folded "
            "from the start block, or if `by` is `journal`."
        )
    )


class RawRow(ApiModel):
    """A stored log or call."""

    block: int
    log: int | None = Field(description="Index of the log; null for a call.")
    tx_hash: HashText


class BackfillAnswer(BlockRangeEntry):
    """The blocks that were fetched again, and the rows that had been missing."""

    dry_run: bool
    served: int
    missing_logs: list[RawRow]
    missing_calls: list[RawRow]
    unserved: int = Field(
        description="Number of stored rows that the endpoint does not return now; they are kept."
    )
    differing: int = Field(
        description=(
            "Number of rows whose returned content differs from the stored content; the stored "
            "rows are kept."
        )
    )
    rebuilt: RebuildAnswer | None


class DamagedBlocks(BlockRangeEntry):
    """Blocks whose stored rows differ from the rows that were committed."""

    kind: str
    missing: int = Field(
        description=(
            "Number of rows that were lost; negative if there are more rows than were committed."
        )
    )


class StateRowEntry(ApiModel):
    """A state row that differs from a new fold of the stored logs."""

    table: str
    key: str
    kind: str = Field(
        description=(
            "`missing` if only the fold contains the row, `extra` if only the table contains it, "
            "and `other` if the two versions differ."
        ),
        examples=["missing", "extra", "other"],
    )


class StateCheckAnswer(ApiModel):
    """The result of comparing the state with a new fold of the stored logs."""

    block: int
    logs: int
    differing: list[StateRowEntry]
    rebuilt: RebuildAnswer | None


class VerifyAnswer(ApiModel):
    """The result of comparing the stored logs with the chain, and the state with the logs."""

    dry_run: bool
    first: int | None = Field(
        default=None,
        serialization_alias="from",
        description="First block that was compared; null if the command did not read the chain.",
    )
    last: int | None = Field(default=None, serialization_alias="to")
    level: str | None = None
    endpoints: Sequence[str] = ()
    resumed_at: int | None = None
    missing: Sequence[RawRow] = Field(
        default=(), description="Rows that are on the chain but not in the database."
    )
    extra: Sequence[RawRow] = Field(
        default=(), description="Rows that are in the database but not on the chain."
    )
    other: Sequence[RawRow] = Field(
        default=(), description="Rows whose stored content differs from the chain."
    )
    repaired: RebuildAnswer | None = None
    left: int = Field(default=0, description="Number of rows that differ and were not repaired.")
    damaged: list[DamagedBlocks]
    state: StateCheckAnswer | None = Field(
        description=(
            "Comparison of the state with a fold of the stored rows; null if it was not compared."
        )
    )


class CoverageSpan(BlockRangeEntry):
    """Consecutive blocks read from one endpoint at one verification level."""

    level: str
    endpoint: str
    audited_by: str | None


class GapsAnswer(BlockRangeEntry):
    """The blocks that the index never read, broken headers, and lost or changed logs."""

    levels: dict[str, int] = Field(
        description="Number of blocks by the verification level that they reached."
    )
    coverage: list[CoverageSpan]
    unread: list[BlockRangeEntry]
    headers: list[int] = Field(
        description=(
            "Blocks above the final block whose header is missing, or does not refer to its "
            "parent."
        )
    )
    mismatched_logs: list[int] = Field(
        description="Blocks whose stored logs have another block hash than the header."
    )
    cursor: list[str] = Field(
        description="Contradictions between the cursor and the headers or logs."
    )
    damaged: list[DamagedBlocks]

    @property
    def has_gaps(self) -> bool:
        return bool(
            self.unread or self.headers or self.mismatched_logs or self.cursor or self.damaged
        )


class DeadLetterEntry(ApiModel):
    """A log or call of a known kind that could not be decoded."""

    block: int
    block_hash: HashText
    tx: int
    log: int | None = Field(description="Index of the log; null for a call.")
    address: AddressText
    name: str
    error: str


class DeadLetterRetry(ApiModel):
    """The dead letters that were decoded on a retry, and those that remain."""

    dry_run: bool
    readable: list[DeadLetterEntry]
    left: list[DeadLetterEntry]
    rebuilt: RebuildAnswer | None


class RefusedBlock(ApiModel):
    """A block that the indexer refused because it failed a check."""

    block: int
    check: str = Field(description="Check that the block did not pass.")


class RefusalAnswer(ApiModel):
    """The block that the indexer is refusing, if any."""

    refused: RefusedBlock | None
    reason: str | None
    accepted: bool


def build_rebuild_answer(rebuild_result: RebuildResult, *, dry_run: bool) -> RebuildAnswer:
    """Build the answer about a rebuild from all stored logs."""
    return RebuildAnswer(
        dry_run=dry_run,
        block=rebuild_result.last_block,
        logs=rebuild_result.log_count,
        same_state=rebuild_result.is_same,
        reports=rebuild_result.report_count,
        differing_periods=list(rebuild_result.differing),
    )


def build_rewind_answer(rewind_result: RewindResult, *, dry_run: bool) -> RewindAnswer:
    return RewindAnswer(
        dry_run=dry_run,
        block=rewind_result.ancestor.number,
        hash=rewind_result.ancestor.hash,
        from_block=rewind_result.abandoned_number,
        logs=rewind_result.log_count,
        reports_missed=rewind_result.report_count,
        by="rebuild" if rewind_result.by_rebuild else "journal",
        snapshot_block=rewind_result.snapshot,
    )


def build_backfill_answer(result: BackfillResult, *, dry_run: bool) -> BackfillAnswer:
    """Build the answer about blocks that were fetched again."""
    return BackfillAnswer(
        dry_run=dry_run,
        first=result.blocks.first,
        last=result.blocks.last,
        served=result.served_count,
        missing_logs=[_build_raw_row(log) for log in result.missing_logs],
        missing_calls=[_build_raw_row(call) for call in result.missing_calls],
        unserved=result.unserved_count,
        differing=result.differing_count,
        rebuilt=_build_optional_rebuild(result.rebuilt, dry_run=dry_run),
    )


def build_verify_answer(
    verify_result: VerifyResult | None,
    damaged_spans: Sequence[DamagedSpan],
    state: StateCheckAnswer | None,
    *,
    dry_run: bool,
) -> VerifyAnswer:
    """Build the answer about the verification of stored blocks.

    `verify_result` is None if the chain was not queried.
    """
    damaged_blocks = build_damaged_blocks(damaged_spans)
    if verify_result is None:
        return VerifyAnswer(dry_run=dry_run, damaged=damaged_blocks, state=state)
    difference = verify_result.difference
    return VerifyAnswer(
        dry_run=dry_run,
        first=verify_result.blocks.first,
        last=verify_result.blocks.last,
        level=verify_result.reached_level.name.lower(),
        endpoints=verify_result.endpoints,
        resumed_at=verify_result.resumed_at,
        missing=[_build_raw_row(row) for row in difference.missing_rows],
        extra=[_build_raw_row(row) for row in difference.extra_rows],
        other=[_build_raw_row(row) for row in difference.changed_rows],
        repaired=_build_optional_rebuild(verify_result.repaired, dry_run=dry_run),
        left=verify_result.unrepaired_count,
        damaged=damaged_blocks,
        state=state,
    )


def build_dead_letter_entry(letter: DeadLetter) -> DeadLetterEntry:
    """Build the entry of a log or call that could not be decoded."""
    return DeadLetterEntry(
        block=letter.block,
        block_hash=letter.block_hash,
        tx=letter.tx,
        log=None if letter.index < 0 else letter.index,
        address=letter.address,
        name=letter.name,
        error=letter.error,
    )


def build_retry_answer(result: RetryResult, *, dry_run: bool) -> DeadLetterRetry:
    """Build the answer about dead letters that were decoded again."""
    return DeadLetterRetry(
        dry_run=dry_run,
        readable=[build_dead_letter_entry(letter) for letter in result.readable],
        left=[build_dead_letter_entry(letter) for letter in result.unreadable],
        rebuilt=_build_optional_rebuild(result.rebuilt, dry_run=dry_run),
    )


def _build_optional_rebuild(
    rebuild_result: RebuildResult | None, *, dry_run: bool
) -> RebuildAnswer | None:
    return (
        None if rebuild_result is None else build_rebuild_answer(rebuild_result, dry_run=dry_run)
    )


def _build_raw_row(row: Log | Call) -> RawRow:
    log = row.index if isinstance(row, Log) else None
    return RawRow(block=row.block, log=log, tx_hash=row.tx_hash)


def build_damaged_blocks(spans: Iterable[DamagedSpan]) -> list[DamagedBlocks]:
    """Build the entries of block spans whose stored rows have changed."""
    return [DamagedBlocks(**span._asdict()) for span in spans]
