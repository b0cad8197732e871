"""Finds out which of two endpoints is right about blocks on which they differ.

The side that the receipts prove wins, and an endpoint that was proven wrong is quarantined.
Without a proof missing rows are inserted, stored rows stay, and the blocks are reported as
unproven. See docs/explanation/verification.md#l5.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.errors import TransientError
from oracle.indexer.audit.quarantine_liars import (
    is_served_data_wrong,
    is_stored_data_wrong,
    lie_of,
)
from oracle.indexer.audit.repair import RepairContext, proven_in, repair_blocks, settled
from oracle.indexer.audit.row_diff import RowDiff, check_or_blame, compare
from oracle.indexer.rebuild import RebuildResult
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Blocks of one window whose receipts are requested to settle a difference.
_MOST_PROOFS = 50


@dataclass(frozen=True, slots=True)
class Audited:
    """Result of auditing one window with a second endpoint.

    `source_endpoint` served the window, `auditor` differs if there is a `difference`. `at_fault`:
    the endpoint that was found wrong; None if none was, or without proof. `proven_wrong`: what it
    was proven wrong about, if nothing but a lie explains it, else empty. `repaired` is None if no
    row was repaired. `is_repeated`: the window was audited before. `unsettled_blocks`: blocks of
    which only the database has rows, neither proven nor disproven.
    """

    blocks: BlockRange
    giver: str
    auditor: str
    difference: RowDiff
    at_fault: str | None = None
    repaired: RebuildResult | None = None
    again: bool = False
    left: tuple[int, ...] = ()
    proven_wrong: str = ""

    @property
    def result(self) -> str:
        """Outcome: equal, repaired, denied (the auditor is wrong) or unproven."""
        if not self.difference:
            return "equal"
        if self.repaired is not None:
            return "repaired"
        return "unproven" if self.at_fault is None else "denied"


def resolve_disputed_blocks(task: RepairContext, found: Audited) -> Audited:
    """Find out which side is right about each differing block, and repair the rows."""
    chain, folder, manner = task.chain, task.folder, task.manner
    found = _shortened(chain, found)
    proofs = _proofs(chain, found)
    repair, rebuilt, lied = RowDiff(), None, list[int]()
    with folder.following(None), manner.transaction(task.store) as uow:
        cursor = _cursor(uow)
        # What the stored side has proven holds, unless a newer proof contradicts it.
        proven = proven_in(uow, folder.scope, found.blocks)
        for number, window in proofs.items():
            check_or_blame(chain, uow, cursor, window)
            if is_stored_data_wrong(uow, folder, number, window):
                lied.append(number)
            repair.add(compare(uow, window))
            uow.verified_blocks.save([(number, window.last.hash)], Level.PROVEN, window.endpoint)
        repair.add(settled(found.difference, (), proven | proofs.keys()))
        if repair:
            rebuilt = repair_blocks(uow, folder, cursor, repair, manner)
        # In the same transaction, so that no repair is stored without its quarantine.
        lie = lie_of(lied) if chain.is_vouched() and found.giver else ""
        if lie:
            uow.facts.quarantine.add(found.giver, lie)
    folder.forget()
    kept = {row.block for row in [*found.difference.extra, *found.difference.other]}
    left = tuple(sorted(kept - proven - proofs.keys()))
    found = replace(found, left=left)
    if rebuilt is not None:
        found = replace(found, difference=repair, at_fault=found.giver, proven_wrong=lie)
        return replace(found, repaired=rebuilt)
    if not proven | proofs.keys() >= set(found.difference.blocks):
        return found
    return replace(found, at_fault=found.auditor, proven_wrong=_again(task, found, proofs))


def _again(task: RepairContext, found: Audited, proofs: Mapping[int, BlockWindow]) -> str:
    """Request a proven block from the auditor again; return its proven lie, or "".

    One response may have been truncated, and an endpoint that lags behind does not lie: nothing is
    proven if the block is not final, or was not proven now.
    """
    chain, by = task.chain, task.folder.reader.selectors
    with task.store.reading() as uow:
        final = _cursor(uow).final_number
    number = min(proofs, default=0)
    if number not in proofs or final is None or number > final or not chain.is_vouched():
        return ""
    try:
        said = chain.verified(BlockRange(number, number), Level.CHECKED, found.auditor)
    except TransientError:
        return ""
    if said.last.number != number:
        # The endpoint has no block at this height, so its response proves nothing.
        return ""
    return (
        lie_of([number]) if is_served_data_wrong(proofs[number], said.logs, said.calls, by) else ""
    )


def _shortened(chain: ChainReader, found: Audited) -> Audited:
    """Leave blocks above the last one whose receipts are requested now to the next tick."""
    asked = found.difference.blocks[:_MOST_PROOFS]
    if chain.level_allowed() < Level.PROVEN or asked == found.difference.blocks:
        return found
    blocks = BlockRange(found.blocks.first, asked[-1])
    return replace(found, blocks=blocks, difference=found.difference.up_to(blocks.last))


def _proofs(chain: ChainReader, found: Audited) -> dict[int, BlockWindow]:
    """Return the differing blocks as proven by receipts, from any endpoint that can."""
    if chain.level_allowed() < Level.PROVEN:
        return {}
    proofs = {number: _proof(chain, number, found) for number in found.difference.blocks}
    return {number: window for number, window in proofs.items() if window is not None}


def _proof(chain: ChainReader, number: int, found: Audited) -> BlockWindow | None:
    names = [name for name in chain.endpoint_names() if name not in chain.proven_wrong()]
    # The source endpoint may be removed from the settings; other endpoints may prove it as well.
    sides = [name for name in (found.auditor, found.giver) if name in names]
    for endpoint in [*sides, *(name for name in names if name not in sides)]:
        try:
            window = chain.verified(BlockRange(number, number), Level.PROVEN, endpoint)
        except TransientError:
            continue
        is_proven = window.level >= Level.PROVEN or number in window.proven
        if is_proven and window.last.number == number:
            return window
    return None


def _cursor(uow: UnitOfWork) -> Cursor:
    cursor = uow.cursor.get()
    if cursor is None:
        raise TransientError("nothing is indexed any more")
    return cursor
