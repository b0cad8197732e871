"""Remembers blocks that two endpoints tell of differently, where no proof says who is right.

Whatever stands in the database of them was taken on an endpoint's word, and another one denies it:
that is told until an operator has them verified.
"""

from collections.abc import Mapping

import msgspec

from oracle.domain.blocks import BlockRange
from oracle.indexer.audit.judgement import Audited
from oracle.indexer.audit.row_diff import RowDiff
from oracle.store.database import UnitOfWork

# What is known of the chain, and not of an endpoint, stands under this name.
_CHAIN = ""
_NAME = "disputed "


class Dispute(msgspec.Struct, frozen=True):
    """The blocks, who gave them, who says otherwise, and about how many rows."""

    first: int
    last: int
    giver: str
    auditor: str
    rows: int

    @property
    def words(self) -> str:
        """What to say of it, and what ends it."""
        return (
            f"blocks {self.first} to {self.last} are unproven: {self.giver} and {self.auditor} "
            f"differ about {self.rows} rows, and no proof says who is right; `qos-oracle resync "
            f"verify --from {self.first} --to {self.last} --endpoint NAME --repair` asks whom you "
            "trust"
        )


def disputed(found: Audited, difference: RowDiff) -> Dispute:
    """Return what an audit found as a dispute; `difference` is all of it, before it was judged."""
    blocks = difference.blocks
    return Dispute(blocks[0], blocks[-1], found.giver, found.auditor, difference.rows)


def note_dispute(uow: UnitOfWork, told: Dispute) -> None:
    """Write down what two endpoints differ about; the first word about the blocks stays."""
    if any(each.first <= told.first <= each.last for each in disputes_in(uow)):
        return
    uow.facts.set(_CHAIN, {f"{_NAME}{told.first}": msgspec.json.encode(told).decode()}, None)


def disputes_in(uow: UnitOfWork) -> list[Dispute]:
    """Return what nobody has settled, by block."""
    known: Mapping[str, str] = uow.facts.of(_CHAIN, 0)
    told = [msgspec.json.decode(known[n], type=Dispute) for n in known if n.startswith(_NAME)]
    return sorted(told, key=lambda each: each.first)


def settle(uow: UnitOfWork, blocks: BlockRange) -> None:
    """Forget disputes inside these blocks: an operator had them verified."""
    for each in disputes_in(uow):
        if blocks.first <= each.first and each.last <= blocks.last:
            uow.facts.forget(_CHAIN, f"{_NAME}{each.first}")
