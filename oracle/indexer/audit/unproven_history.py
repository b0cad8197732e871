"""Reports unproven blocks of history: disputed blocks, and blocks below the required level.

Blocks are disputed if two endpoints differ about them, and no proof shows which endpoint is right.
The stored rows of these blocks come from one endpoint, and another endpoint contradicts them. The
dispute is stored and reported until an operator verifies the blocks.

On a chain whose headers cannot serve as proofs, the level that `[verify]` requires cannot be
reached. This is reported as a failure until a second endpoint agrees on every block, or until an
operator lowers the level. A chain that is still too short for calibration is exempt.
"""

from typing import TYPE_CHECKING

import msgspec

from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange, format_block_count
from oracle.domain.coverage import IngestScope
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.store.database import UnitOfWork

if TYPE_CHECKING:
    # These names are not imported at run time, because `status` only reads disputes and needs no
    # audit.
    from oracle.indexer.audit.judgement import AuditResult
    from oracle.indexer.audit.row_diff import RowDiff


def describe_unproven_history(
    source: ChainSource, uow: UnitOfWork, scope: IngestScope, *, max_unaudited: int = 0
) -> str | None:
    """Describe the unproven blocks and how to prove them, or return None if there are none.

    Up to `max_unaudited` blocks that wait for the audit are not reported, provided that a second
    witness can audit them.
    """
    shortfall = source.find_level_shortfall()
    cursor = uow.cursor.get()
    if shortfall is None or cursor is None or cursor.final_number is None:
        return None
    final_number = min(cursor.final_number, cursor.number)
    unaudited_blocks = uow.coverage.count_unaudited_blocks_below_level(
        scope.id, shortfall.unproven_below, final_number
    )
    has_second_endpoint = source.count_usable_witnesses() > 1
    if unaudited_blocks <= (max_unaudited if has_second_endpoint else 0):
        return None
    explanation = (
        "no second endpoint has confirmed it yet"
        if has_second_endpoint
        else "there is no second endpoint"
    )
    advice = (
        "wait for the audit" if has_second_endpoint else "add a second one to [chain] endpoints"
    )
    unsupported_features = ", ".join(shortfall.unsupported_features)
    return (
        f"data of {format_block_count(unaudited_blocks)} is unproven and rests on a single "
        "endpoint, because "
        f"{explanation} and the chain's headers ({unsupported_features}) do not "
        f'allow the proof that verify.history = "{shortfall.wanted_level.name.lower()}" '
        f"requires; {advice}, or lower the requirement with "
        f'verify.history = "{shortfall.reachable_level.name.lower()}"'
    )


_FACT_PREFIX = "disputed "


class Dispute(msgspec.Struct, frozen=True):
    """The disputed blocks, the endpoints of both sides, and the number of differing rows."""

    first: int
    last: int
    giver: str
    auditor: str
    rows: int

    @property
    def message(self) -> str:
        """A description of the dispute, and how to end it."""
        return (
            f"blocks {self.first} to {self.last} are unproven: {self.giver} and {self.auditor} "
            f"differ about {self.rows} rows, and no proof shows which is right; to accept the "
            f"rows of an endpoint that you trust, run `qos-oracle resync verify --from "
            f"{self.first} --to {self.last} --endpoint NAME --repair`"
        )


def build_dispute(audit: "AuditResult", difference: "RowDiff") -> Dispute:
    """Return the dispute that an audit found, given all differing rows before any repair."""
    blocks = difference.block_numbers
    return Dispute(
        blocks[0], blocks[-1], audit.source_endpoint, audit.auditor, difference.row_count
    )


def record_dispute(uow: UnitOfWork, dispute: Dispute) -> None:
    """Store a dispute, unless its first block is already part of a stored dispute."""
    if any(
        existing_dispute.first <= dispute.first <= existing_dispute.last
        for existing_dispute in load_disputes(uow)
    ):
        return
    uow.facts.set(
        CHAIN_FACTS_KEY,
        {f"{_FACT_PREFIX}{dispute.first}": msgspec.json.encode(dispute).decode()},
        None,
    )


def load_disputes(uow: UnitOfWork) -> list[Dispute]:
    """Return the open disputes, in order of blocks."""
    fact_by_name = uow.facts.get_all(CHAIN_FACTS_KEY, 0)
    disputes = [
        msgspec.json.decode(fact_by_name[name], type=Dispute)
        for name in fact_by_name
        if name.startswith(_FACT_PREFIX)
    ]
    return sorted(disputes, key=lambda dispute: dispute.first)


def settle_disputes(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete the disputes within these blocks, because an operator has verified the blocks."""
    for dispute in load_disputes(uow):
        if blocks.first <= dispute.first and dispute.last <= blocks.last:
            uow.facts.delete(CHAIN_FACTS_KEY, f"{_FACT_PREFIX}{dispute.first}")
