"""The position of the index: identity, cursor, headers, bookmarks, last event."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.domain.state import LastEvent
from oracle.errors import FatalError, InputError
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.store.state.cursor_repository import Cursor
from tests.unit.store.samples import address, block, make_hash

OURS = Identity(
    chain_id=31337,
    genesis_hash=make_hash(1),
    contracts={"TaskNetwork": address(1), "Another": address(2)},
    oracle=Address("0x" + 40 * "d"),
    start_block=7,
)


def test_new_database_is_empty(store: Store):
    with store.read_transaction() as uow:
        assert uow.identity.get() is None
        assert uow.cursor.get() is None
        assert uow.last_event.get() is None
        assert uow.blocks.find_newest() is None


def test_identity_is_stored_once_and_checked_afterwards(store: Store):
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(OURS)
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(OURS)
        assert uow.identity.get() == OURS


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"chain_id": 1}, "31337"),
        ({"genesis_hash": make_hash(2)}, "genesis"),
        ({"contracts": {"TaskNetwork": address(3)}}, "contracts"),
        ({"oracle": address(4)}, "oracle contract"),
        ({"oracle": None}, "oracle contract"),
        ({"start_block": 8}, "created for start block 7"),
    ],
)
def test_database_of_another_chain_is_rejected(store: Store, change: dict[str, object], word: str):
    changed_identity = Identity(
        **{**{name: getattr(OURS, name) for name in OURS.__slots__}, **change}
    )
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(OURS)
    with pytest.raises(InputError, match=word) as caught, store.transaction() as uow:
        uow.identity.ensure_stored_identity(changed_identity)
    assert "\n" not in str(caught.value)


def test_contracts_may_be_added_to_database(store: Store):
    fewer = replace(OURS, contracts={"Another": address(2)}, oracle=None)
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(fewer)
        uow.identity.check(OURS)
        assert uow.identity.get() == fewer
        uow.identity.ensure_stored_identity(OURS)
        assert uow.identity.get() == OURS


def test_cursor_moves_forwards_and_back(store: Store):
    with store.transaction() as uow:
        assert uow.cursor.move_to(block(5), block(3), 0) == 1
        assert uow.cursor.move_to(block(9), None, 1) == 2
        assert uow.cursor.move_to(block(4), None, 2) == 3
        assert uow.cursor.get() == Cursor(
            number=4,
            hash=block(4).hash,
            time=block(4).time,
            final_number=3,
            final_hash=block(3).hash,
            epoch=3,
        )


def test_cursor_moved_without_final_block_has_no_final_block(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(5), None, 0)
        cursor = uow.cursor.get()
    assert cursor is not None
    assert (cursor.final_number, cursor.final_hash) == (None, None)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_cursor_cannot_be_moved_with_a_stale_epoch(store: Store, epoch: int):
    with store.transaction() as uow:
        uow.cursor.move_to(block(5), None, uow.cursor.move_to(block(4), None, 0))
    with pytest.raises(FatalError, match="another process moved"), store.transaction() as uow:
        uow.cursor.move_to(block(6), None, epoch)
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.number == 5


def test_cleared_cursor_can_move_to_any_block(store: Store):
    with store.transaction() as uow:
        uow.cursor.move_to(block(5), block(3), 0)
        uow.cursor.clear()
        assert uow.cursor.get() is None
        assert uow.cursor.move_to(block(1), None, 0) == 1


def test_headers_are_returned_by_height(store: Store):
    with store.transaction() as uow:
        uow.blocks.save([block(number) for number in (3, 1, 2)])
        uow.blocks.save([block(3)])
        assert uow.blocks.find_canonical(2) == block(2)
        assert uow.blocks.find_canonical(9) is None
        assert uow.blocks.list_canonical(2, 9) == [block(2), block(3)]
        assert uow.blocks.find_newest() == block(3)


def test_second_canonical_block_at_same_height_is_rejected(store: Store):
    with store.transaction() as uow:
        uow.blocks.save([block(3)])
    with pytest.raises(IntegrityError), store.transaction() as uow:
        uow.blocks.save([block(3, branch=1)])


def test_orphaned_block_can_be_replaced_and_restored(store: Store):
    with store.transaction() as uow:
        uow.blocks.save([block(1), block(2), block(3)])
        assert uow.blocks.orphan_above(1) == 2
        uow.blocks.save([block(2, branch=1)])
        assert uow.blocks.list_canonical(0, 9) == [block(1), block(2, branch=1)]
        uow.blocks.orphan_above(1)
        uow.blocks.save([block(2)])
        assert uow.blocks.find_newest() == block(2)


def test_old_headers_are_deleted_including_orphans(store: Store):
    with store.transaction() as uow:
        uow.blocks.save([block(number) for number in range(5)])
        uow.blocks.orphan_above(2)
        assert uow.blocks.prune_below(4) == 4
        uow.blocks.save([block(4)])
        assert uow.blocks.list_canonical(0, 9) == [block(4)]


def test_bookmark_is_kept_until_cleared(store: Store):
    with store.transaction() as uow:
        uow.bookmarks.set("rebuild", "12")
        uow.bookmarks.set("rebuild", "13")
    with store.transaction() as uow:
        assert uow.bookmarks.get("rebuild") == "13"
        uow.bookmarks.delete("rebuild")
        assert uow.bookmarks.get("rebuild") is None


def test_new_last_event_replaces_the_previous_one(store: Store):
    last = LastEvent(Position(2, 1, -1, 3), 50, 7)
    with store.transaction() as uow:
        uow.last_event.set(LastEvent(Position(1, 0, 0), 40, 6))
        uow.last_event.set(last)
        assert uow.last_event.get() == last
