"""Determines which of two endpoints is right about blocks on which they differ.

The receipts root, the transactions root and the header hash of a final block prove which side is
right. An endpoint that was proven wrong is quarantined, in this process and in later ones. An
endpoint that only lags behind is not proven wrong. If there is no proof, missing rows are
inserted, stored rows are kept, and the blocks are reported as unproven. See
docs/explanation/verification.md#l5.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.chain.verification.proven_lies import count_logs_by_content
from oracle.chain.watched_calls import is_watched_call
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.errors import TransientError
from oracle.indexer.audit.row_diff import (
    RepairContext,
    RowDiff,
    check_endpoint_on_same_chain,
    compare_window_with_database,
    find_proven_blocks,
    repair_blocks,
    require_cursor,
    select_rows_to_repair,
)
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, RebuildResult
from oracle.store.database import Store, UnitOfWork

SelectorsByContract = Mapping[Address, frozenset[str]]


def is_served_data_wrong(
    window: BlockWindow, logs: Iterable[Log], calls: Iterable[Call], selectors: SelectorsByContract
) -> bool:
    """Return whether an endpoint's logs and calls contradict the proof of their block.

    The proof in `window` covers neither the positions of logs, nor calls that were read without
    the whole block.
    """
    has_other_logs = count_logs_by_content(logs) != count_logs_by_content(window.logs)
    return has_other_logs or _count_calls_by_content(calls, selectors) != _count_calls_by_content(
        window.calls, selectors
    )


def is_stored_data_wrong(
    uow: UnitOfWork, folder: EventFolder, block_number: int, window: BlockWindow
) -> bool:
    """Return whether the stored rows of a block contradict the proof in this window."""
    logs = uow.logs.iterate_between(block_number, block_number)
    calls = uow.calls.iterate_between(block_number, block_number)
    proven_window = BlockWindow(
        window.range,
        window.first_parent,
        window.last,
        [],
        [log for log in window.logs if log.block == block_number],
        [call for call in window.calls if call.block == block_number],
    )
    return is_served_data_wrong(proven_window, logs, calls, folder.reader.selectors)


def describe_wrong_blocks(blocks: Sequence[int]) -> str:
    """Describe the blocks that an endpoint served wrongly.

    The result is empty without such blocks.
    """
    if not blocks:
        return ""
    remaining_text = f" and of {len(blocks) - 1} more" if len(blocks) > 1 else ""
    return f"had other logs or calls than the receipts of block {min(blocks)}{remaining_text}"


def record_endpoints_proven_wrong(
    chain: ChainSource, store: Store, rebuild_options: RebuildOptions
) -> list[str]:
    """Store the endpoints that were proven wrong by reads, and return the new ones."""
    reason_by_endpoint = chain.get_proven_wrong_endpoints()
    if not reason_by_endpoint:
        return []
    with store.read_transaction() as uow:
        new_endpoints = (
            reason_by_endpoint.keys() - uow.facts.quarantine.get_reason_by_endpoint().keys()
        )
    if new_endpoints:
        with rebuild_options.transaction(store) as uow:
            for endpoint in sorted(new_endpoints):
                uow.facts.quarantine.add(endpoint, reason_by_endpoint[endpoint])
    return sorted(new_endpoints)


def _count_calls_by_content(
    calls: Iterable[Call], selectors: SelectorsByContract
) -> Counter[tuple[object, ...]]:
    return Counter(
        (call.tx, call.to, call.value, call.input, call.succeeded)
        for call in calls
        if is_watched_call(call.to, call.input, selectors)
    )


# Receipts are requested for at most this many blocks per window to resolve differences.
_MAX_PROOFS = 50


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of auditing a window with a second endpoint.

    `source_endpoint` served the stored rows, and `auditor` is the endpoint that they were compared
    with. `at_fault` is the endpoint that was found wrong, or None if there is no difference or no
    proof. `proven_wrong` describes the wrong data of this endpoint if no honest endpoint could
    have returned it, and is empty otherwise. `repaired` is None if no row was repaired.
    `is_repeated` is whether the window had been audited before. `unsettled_blocks` are blocks with
    stored rows that the auditor does not confirm, and that no proof confirms or refutes.
    `accepted_blocks` are blocks with differences that an operator has accepted, which `difference`
    does not contain.
    `conflicting_hashes` are the auditor's hashes of blocks that have another hash in the database;
    hashes that an operator has rejected are left out.
    """

    blocks: BlockRange
    source_endpoint: str
    auditor: str
    difference: RowDiff
    at_fault: str | None = None
    repaired: RebuildResult | None = None
    is_repeated: bool = False
    unsettled_blocks: tuple[int, ...] = ()
    proven_wrong: str = ""
    accepted_blocks: frozenset[int] = frozenset()
    conflicting_hashes: Mapping[int, str] = field(default_factory=dict)

    @property
    def has_difference(self) -> bool:
        """Whether rows or the hash of a block differ."""
        return bool(self.difference) or bool(self.conflicting_hashes)

    @property
    def outcome(self) -> str:
        """The outcome of the audit as a word.

        It is `equal`, `accepted`, `repaired`, `denied` (the auditor was wrong) or `unproven`.
        """
        if not self.has_difference:
            return "accepted" if self.accepted_blocks else "equal"
        if self.repaired is not None:
            return "repaired"
        return "unproven" if self.at_fault is None else "denied"


def resolve_disputed_blocks(context: RepairContext, audit: AuditResult) -> AuditResult:
    """Determine which side is right about each disputed block, and repair the rows."""
    chain, folder, rebuild_options = context.chain, context.folder, context.rebuild_options
    audit = _limit_audit_to_provable_blocks(chain, audit)
    window_by_block = _fetch_block_proofs(chain, audit)
    repair_diff = RowDiff()
    rebuild_result = None
    wrong_blocks = list[int]()
    with (
        folder.keep_cached_rows_if_current(None),
        rebuild_options.transaction(context.store) as uow,
    ):
        cursor = require_cursor(uow)
        # Keep rows of blocks that were proven earlier, unless a newer proof contradicts them.
        proven_blocks = find_proven_blocks(uow, folder.scope, audit.blocks)
        for number, window in window_by_block.items():
            check_endpoint_on_same_chain(chain, uow, cursor, window)
            if is_stored_data_wrong(uow, folder, number, window):
                wrong_blocks.append(number)
            repair_diff.merge(compare_window_with_database(uow, window))
            uow.verified_blocks.save(
                [(number, window.last.hash)], VerificationLevel.PROVEN, window.endpoint
            )
        repair_diff.merge(
            select_rows_to_repair(audit.difference, (), proven_blocks | window_by_block.keys())
        )
        if repair_diff:
            rebuild_result = repair_blocks(uow, folder, cursor, repair_diff, rebuild_options)
        # One transaction stores both the repair and the quarantine, so that a crash cannot lose
        # either.
        wrong_blocks_text = (
            describe_wrong_blocks(wrong_blocks)
            if chain.are_receipts_provable() and audit.source_endpoint
            else ""
        )
        if wrong_blocks_text:
            uow.facts.quarantine.add(audit.source_endpoint, wrong_blocks_text)
    folder.discard_cached_rows()
    unmatched_blocks = {
        row.block for row in [*audit.difference.extra_rows, *audit.difference.changed_rows]
    }
    unsettled_blocks = tuple(sorted(unmatched_blocks - proven_blocks - window_by_block.keys()))
    audit = replace(audit, unsettled_blocks=unsettled_blocks)
    if rebuild_result is not None:
        audit = replace(
            audit,
            difference=repair_diff,
            at_fault=audit.source_endpoint,
            proven_wrong=wrong_blocks_text,
        )
        return replace(audit, repaired=rebuild_result)
    if not proven_blocks | window_by_block.keys() >= set(audit.difference.block_numbers):
        return audit
    return replace(
        audit,
        at_fault=audit.auditor,
        proven_wrong=_recheck_auditor(context, audit, window_by_block),
    )


def _recheck_auditor(
    context: RepairContext, audit: AuditResult, window_by_block: Mapping[int, BlockWindow]
) -> str:
    """Request a proven block again from the auditor, and describe any wrong data.

    A first response may be wrong because it was truncated, or because the endpoint lags behind.
    Therefore the auditor counts as proven wrong only if it returns wrong data a second time, for a
    final block that was proven in this audit.
    """
    chain, selectors = context.chain, context.folder.reader.selectors
    with context.store.read_transaction() as uow:
        final_number = require_cursor(uow).final_number
    lowest_block = min(window_by_block, default=0)
    if (
        lowest_block not in window_by_block
        or final_number is None
        or lowest_block > final_number
        or not chain.are_receipts_provable()
    ):
        return ""
    try:
        window = chain.fetch_verified_window(
            BlockRange(lowest_block, lowest_block), VerificationLevel.CHECKED, audit.auditor
        )
    except TransientError:
        return ""
    if window.last.number != lowest_block:
        # The endpoint lacks this block, so its response cannot show that the endpoint is wrong.
        return ""
    if is_served_data_wrong(window_by_block[lowest_block], window.logs, window.calls, selectors):
        return describe_wrong_blocks([lowest_block])
    return ""


def _limit_audit_to_provable_blocks(chain: ChainSource, audit: AuditResult) -> AuditResult:
    """Limit the audit to the blocks whose receipts are requested in this tick."""
    provable_blocks = audit.difference.block_numbers[:_MAX_PROOFS]
    if (
        chain.get_max_allowed_level() < VerificationLevel.PROVEN
        or provable_blocks == audit.difference.block_numbers
    ):
        return audit
    blocks = BlockRange(audit.blocks.first, provable_blocks[-1])
    difference = audit.difference.select_blocks(lambda number: number <= blocks.last)
    return replace(audit, blocks=blocks, difference=difference)


def _fetch_block_proofs(chain: ChainSource, audit: AuditResult) -> dict[int, BlockWindow]:
    """Fetch proofs of the differing blocks by receipts, from any endpoint that can prove them.

    Blocks that no endpoint can prove are left out.
    """
    if chain.get_max_allowed_level() < VerificationLevel.PROVEN:
        return {}
    window_by_block = {
        number: _fetch_block_proof(chain, number, audit)
        for number in audit.difference.block_numbers
    }
    return {number: window for number, window in window_by_block.items() if window is not None}


def _fetch_block_proof(chain: ChainSource, number: int, audit: AuditResult) -> BlockWindow | None:
    wrong_endpoints = chain.get_proven_wrong_endpoints()
    endpoints = [name for name in chain.list_endpoint_names() if name not in wrong_endpoints]
    # The source endpoint may no longer be configured, but any endpoint can prove the block.
    disputing_endpoints = [
        name for name in (audit.auditor, audit.source_endpoint) if name in endpoints
    ]
    for endpoint in [
        *disputing_endpoints,
        *(name for name in endpoints if name not in disputing_endpoints),
    ]:
        try:
            window = chain.fetch_verified_window(
                BlockRange(number, number), VerificationLevel.PROVEN, endpoint
            )
        except TransientError:
            continue
        is_proven = window.level >= VerificationLevel.PROVEN or number in window.proven
        if is_proven and window.last.number == number:
            return window
    return None
