"""Stores blocks about which two endpoints differ and no proof shows which is right.

The stored rows of these blocks rest on one endpoint's claim, which another denies. The dispute is
reported until an operator verifies the blocks.
"""

from collections.abc import Mapping

import msgspec

from oracle.domain.blocks import BlockRange
from oracle.indexer.audit.judgement import Audited
from oracle.indexer.audit.row_diff import RowDiff
from oracle.store.database import UnitOfWork

# Facts of the chain, rather than of an endpoint, are stored under this name.
_CHAIN = ""
_NAME = "disputed "


class Dispute(msgspec.Struct, frozen=True):
    """The disputed blocks, the endpoints of both sides, and the number of differing rows."""

    first: int
    last: int
    giver: str
    auditor: str
    rows: int

    @property
    def words(self) -> str:
        """Description of the dispute, and how to end it."""
        return (
            f"blocks {self.first} to {self.last} are unproven: {self.giver} and {self.auditor} "
            f"differ about {self.rows} rows, and no proof says who is right; `qos-oracle resync "
            f"verify --from {self.first} --to {self.last} --endpoint NAME --repair` asks whom you "
            "trust"
        )


def disputed(found: Audited, difference: RowDiff) -> Dispute:
    """Return an audit's result as a dispute; `difference` is the complete one before judgement."""
    blocks = difference.blocks
    return Dispute(blocks[0], blocks[-1], found.giver, found.auditor, difference.rows)


def note_dispute(uow: UnitOfWork, told: Dispute) -> None:
    """Store a dispute, unless one about its first block is already stored."""
    if any(each.first <= told.first <= each.last for each in disputes_in(uow)):
        return
    uow.facts.set(_CHAIN, {f"{_NAME}{told.first}": msgspec.json.encode(told).decode()}, None)


def disputes_in(uow: UnitOfWork) -> list[Dispute]:
    """Return the open disputes, by block."""
    known: Mapping[str, str] = uow.facts.of(_CHAIN, 0)
    told = [msgspec.json.decode(known[n], type=Dispute) for n in known if n.startswith(_NAME)]
    return sorted(told, key=lambda each: each.first)


def settle(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Delete disputes inside these blocks, which an operator has verified."""
    for each in disputes_in(uow):
        if blocks.first <= each.first and each.last <= blocks.last:
            uow.facts.forget(_CHAIN, f"{_NAME}{each.first}")
