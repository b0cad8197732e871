"""Stored draws whose weights do not matter to the test."""

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.store.state.draw_repository import StoredDraw


def create_draw(task: TaskKey, seed: BlockRef, node: Address) -> StoredDraw:
    """Return an active draw of the only candidate."""
    return StoredDraw(
        task=task,
        seed_block=seed.number,
        seed_hash=seed.hash,
        seed_time=seed.time,
        node=node,
        voided_block=None,
        total_weight=10**18,
        candidate_count=1,
        number_in_block=0,
    )
