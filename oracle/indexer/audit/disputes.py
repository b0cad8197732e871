"""Stores disputes: blocks on which two endpoints differ and no proof shows which is right.

The stored rows of these blocks rest on one endpoint's claim, which another endpoint denies. The
dispute is reported until an operator verifies the blocks.
"""

from collections.abc import Mapping

import msgspec

from oracle.domain.blocks import BlockRange
from oracle.indexer.audit.judgement import AuditResult
from oracle.indexer.audit.row_diff import RowDiff
from oracle.store.database import UnitOfWork

# Facts of the chain, rather than of an endpoint, are stored under this name.
_CHAIN_FACTS_KEY = ""
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
        """Description of the dispute, and how to end it."""
        return (
            f"blocks {self.first} to {self.last} are unproven: {self.giver} and {self.auditor} "
            f"differ about {self.rows} rows, and no proof shows which is right; to accept the "
            f"rows of an endpoint that you trust, run `qos-oracle resync verify --from "
            f"{self.first} --to {self.last} --endpoint NAME --repair`"
        )


def build_dispute(audit: AuditResult, difference: RowDiff) -> Dispute:
    """Return the dispute of an audit; `difference` is the complete one, from before any repair."""
    blocks = difference.blocks
    return Dispute(
        blocks[0], blocks[-1], audit.source_endpoint, audit.auditor, difference.row_count
    )


def record_dispute(uow: UnitOfWork, dispute: Dispute) -> None:
    """Store a dispute, unless one about its first block is already stored."""
    if any(
        existing_dispute.first <= dispute.first <= existing_dispute.last
        for existing_dispute in get_disputes(uow)
    ):
        return
    uow.facts.set(
        _CHAIN_FACTS_KEY,
        {f"{_FACT_PREFIX}{dispute.first}": msgspec.json.encode(dispute).decode()},
        None,
    )


def get_disputes(uow: UnitOfWork) -> list[Dispute]:
    """Return the open disputes, by block."""
    fact_by_name: Mapping[str, str] = uow.facts.get_all(_CHAIN_FACTS_KEY, 0)
    disputes = [
        msgspec.json.decode(fact_by_name[name], type=Dispute)
        for name in fact_by_name
        if name.startswith(_FACT_PREFIX)
    ]
    return sorted(disputes, key=lambda dispute: dispute.first)


def settle_disputes(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete disputes inside these blocks, which an operator has verified."""
    for dispute in get_disputes(uow):
        if blocks.first <= dispute.first and dispute.last <= blocks.last:
            uow.facts.delete(_CHAIN_FACTS_KEY, f"{_FACT_PREFIX}{dispute.first}")
