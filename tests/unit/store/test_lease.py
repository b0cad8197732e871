"""A database has one writer, identified by a rising epoch."""

import pytest

from oracle.domain.ids import Address
from oracle.errors import FatalError
from oracle.store.database import Store
from oracle.store.outbox.records import Account, Stamp


def acquire_lease(store: Store, holder: str, seconds: float = 30) -> int | None:
    with store.transaction() as uow:
        return uow.lease.acquire(holder, seconds)


def test_first_holder_takes_lease_and_second_waits(store: Store):
    assert acquire_lease(store, "one") == 1
    assert acquire_lease(store, "two") is None
    with store.read_transaction() as uow:
        held = uow.lease.get_state()
    assert (held.holder, held.epoch) == ("one", 1)
    assert 29 < held.seconds_left <= 30


def test_expired_lease_is_taken_by_next_holder(store: Store):
    acquire_lease(store, "one", seconds=-1)
    assert acquire_lease(store, "two") == 2


def test_released_lease_is_free_immediately(store: Store):
    epoch = acquire_lease(store, "one")
    assert epoch is not None
    with store.transaction() as uow:
        uow.lease.release(epoch)
    assert acquire_lease(store, "two") == 2


def test_holder_that_lost_the_lease_cannot_renew_write_or_release(store: Store):
    old = acquire_lease(store, "one", seconds=-1)
    new = acquire_lease(store, "two")
    assert (old, new) == (1, 2)
    with store.transaction() as uow:
        assert not uow.lease.renew(1, 30)
        uow.lease.release(1)
    with (
        pytest.raises(FatalError, match="another process has taken over"),
        store.transaction() as uow,
    ):
        uow.lease.lock_held_lease(1)
    with store.transaction() as uow:
        uow.lease.lock_held_lease(2)
        assert uow.lease.renew(2, 30)
        assert uow.lease.get_state().holder == "two"


def test_renewed_lease_lasts_from_the_current_time(store: Store):
    epoch = acquire_lease(store, "one", seconds=5)
    assert epoch is not None
    with store.transaction() as uow:
        assert uow.lease.renew(epoch, 60)
    with store.read_transaction() as uow:
        assert 59 < uow.lease.get_state().seconds_left <= 60


def test_new_database_has_no_lease_holder(store: Store):
    with store.read_transaction() as uow:
        held = uow.lease.get_state()
    assert (held.holder, held.epoch) == (None, 0)


def test_fenced_store_cannot_write_after_takeover(database_url: str):
    with Store.open(database_url) as old, Store.open(database_url) as new:
        epoch = acquire_lease(old, "one", seconds=-1)
        assert epoch is not None
        old.set_fencing_epoch(epoch)
        with old.transaction() as uow:
            uow.outbox.accounts.enroll_account(
                Account(1, Address("0x" + 40 * "a")), 0, Stamp(1, epoch)
            )
        assert acquire_lease(new, "two") == 2
        with pytest.raises(FatalError, match="taken over"), old.transaction():
            pytest.fail("it was let in")
