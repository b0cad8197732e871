"""One writer for one database: takes the lease, keeps it, gives it back.

Every command that writes works inside `leased`; commands that only read never need it.
See docs/explanation/daemon.md#lease.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from oracle.daemon.lease.lease_holder import Fate, fate_of, holder_name
from oracle.errors import FatalError, OracleError, TransientError
from oracle.store.database import Store
from oracle.store.engine import STALLED_SECONDS
from oracle.store.ops.lease_repository import LeaseState

# A holder that died is waited for this long; one that lives renews three times in between.
LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
# Not renewed for so long, the holder has to end: well before another one may take over.
GIVE_UP_SECONDS = 20.0


class HeldError(FatalError):
    """Another process holds the lease; it passes when that one ends."""

    def __init__(self, held: LeaseState) -> None:
        super().__init__(
            f"another process works on this database: {held.holder}; stop it, or wait "
            f"{max(1, round(held.seconds_left))} s if it is dead"
        )


def worker(held: LeaseState) -> str | None:
    """Return who works on the database; None: nobody, or it is known to be gone."""
    is_over = held.holder is None or held.seconds_left <= 0
    return None if is_over or fate_of(held.holder) is Fate.GONE else held.holder


@contextmanager
def leased(store: Store, command: str) -> Iterator[int]:
    """Hold the lease around a piece of work; yields its epoch, which guards every write.

    Raises:
        HeldError: another process holds it; the message names the holder.
    """
    epoch = take(store, command)
    try:
        yield epoch
    finally:
        release(store, epoch)


def take(store: Store, command: str) -> int:
    """Take the lease and return its epoch.

    Raises:
        HeldError: another process holds it; the message names the holder.
    """
    epoch, held = try_take(store, command)
    if epoch is None:
        raise HeldError(held)
    return epoch


def try_take(store: Store, command: str) -> tuple[int | None, LeaseState]:
    """Take the lease where it is free or over, or its holder is gone; return its epoch or None.

    And how it stands. Where another holds it, nothing is written: whoever stands by may ask often.
    Where it is over, and its holder stalled inside a transaction, that transaction is ended if
    the database can.

    Raises:
        TransientError: the database is away, or another process is writing to it.
    """
    with store.reading() as uow:
        held = uow.lease.current()
    is_gone = held.holder is not None and fate_of(held.holder) is Fate.GONE
    if held.holder is not None and held.seconds_left >= 0 and not is_gone:
        return None, held
    gone = held.epoch if is_gone else None
    try:
        with store.transaction() as uow:
            epoch = uow.lease.take(holder_name(command), LEASE_SECONDS, gone=gone)
            now = uow.lease.current()
    except TransientError as error:
        raise TransientError(f"{error}{_in_the_way(store, held)}") from error
    if is_gone and epoch is not None:
        structlog.get_logger().warning("holder_gone", holder=held.holder, epoch=epoch)
    return epoch, now


def _in_the_way(store: Store, held: LeaseState) -> str:
    """Say what may keep us from writing, and remove a writer that stalled."""
    try:
        with store.reading() as uow:
            if uow.lease.end_stalled_writer(STALLED_SECONDS):
                return f"; one that stood still for {STALLED_SECONDS} s was ended"
    except OracleError as error:
        return f"; whether it stands still cannot be seen: {error}"
    if held.holder is None:
        return ""
    return f"; the lease of {held.holder} is over: where that one hangs inside a write, kill it"


def renew(store: Store, epoch: int) -> None:
    """Hold the lease for another while.

    Raises:
        FatalError: another process has taken over; this one must not write any more.
    """
    with store.transaction() as uow:
        if not uow.lease.renew(epoch, LEASE_SECONDS):
            raise FatalError("another process has taken over the lease of this database")


def release(store: Store, epoch: int) -> None:
    """Give the lease back, so that the next process need not wait for its end."""
    with store.transaction() as uow:
        uow.lease.release(epoch)
