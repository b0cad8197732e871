"""Resolves positions of events to answers: each position with the transaction of its log."""

from collections.abc import Iterable

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import is_of_feed, row_of
from oracle.domain.ids import Hash
from oracle.queries.answers import LogPlace
from oracle.store.database import UnitOfWork


def log_places(uow: UnitOfWork, positions: Iterable[Position]) -> dict[Position, LogPlace]:
    """Return each position with the transaction of its log; a feed's row has none."""
    distinct = set(positions)
    hashes: dict[tuple[int, int], Hash] = {}
    for block in {at.block for at in distinct}:
        for log in uow.logs.between(block, block):
            hashes[(block, log.index)] = log.tx_hash
    return {at: _log_place(at, hashes.get((at.block, at.log))) for at in distinct}


def _log_place(at: Position, transaction: Hash | None) -> LogPlace:
    if is_of_feed(at):
        row = row_of(at)[1]
        return LogPlace(block=at.block, tx=None, log=None, feed_row=row, transaction=None)
    return LogPlace(block=at.block, tx=at.tx, log=at.log, feed_row=None, transaction=transaction)
