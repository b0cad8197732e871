"""Resolves positions of events to places in answers, with the transaction of each log."""

from collections.abc import Iterable

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import get_feed_row_key, is_feed_position
from oracle.domain.ids import Hash
from oracle.queries.answers import LogPlace
from oracle.store.database import UnitOfWork


def load_log_places(uow: UnitOfWork, positions: Iterable[Position]) -> dict[Position, LogPlace]:
    """Return the place of each position, with the transaction of its log (feed rows have none)."""
    distinct_positions = set(positions)
    hash_by_log: dict[tuple[int, int], Hash] = {}
    for block in {position.block for position in distinct_positions}:
        for log in uow.logs.iterate_between(block, block):
            hash_by_log[(block, log.index)] = log.tx_hash
    return {
        position: _build_log_place(position, hash_by_log.get((position.block, position.log)))
        for position in distinct_positions
    }


def _build_log_place(position: Position, transaction: Hash | None) -> LogPlace:
    if is_feed_position(position):
        row = get_feed_row_key(position)[1]
        return LogPlace(block=position.block, tx=None, log=None, feed_row=row, transaction=None)
    return LogPlace(
        block=position.block,
        tx=position.tx,
        log=position.log,
        feed_row=None,
        transaction=transaction,
    )
