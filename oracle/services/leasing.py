"""One writer for one database: takes the lease, keeps it, gives it back (decision 13).

Every command that writes works inside `leased`; commands that only read never need it.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from oracle.errors import FatalError, OracleError, TransientError
from oracle.store.engine import STALLED_SECONDS
from oracle.store.lease import Held
from oracle.store.store import Store

# A holder that died is waited for this long; one that lives renews three times in between.
LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
# Not renewed for so long, the holder has to end: well before another one may take over.
GIVE_UP_SECONDS = 20.0


def holder_name(command: str) -> str:
    """Name this process for whoever finds the lease taken: `run on host, process 123`."""
    return f"{command} on {socket.gethostname()}, process {os.getpid()}"


@contextmanager
def leased(store: Store, command: str) -> Iterator[int]:
    """Hold the lease around a piece of work; yields its epoch, which guards every write.

    Raises:
        FatalError: another process holds it; the message names the holder.
    """
    epoch = take(store, command)
    try:
        yield epoch
    finally:
        release(store, epoch)


def take(store: Store, command: str) -> int:
    """Take the lease and return its epoch.

    Raises:
        FatalError: another process holds it; the message names the holder.
    """
    epoch, held = try_take(store, command)
    if epoch is None:
        raise FatalError(
            f"another process works on this database: {held.holder}; stop it, or wait "
            f"{max(1, round(held.seconds_left))} s if it is dead"
        )
    return epoch


def try_take(store: Store, command: str) -> tuple[int | None, Held]:
    """Take the lease where it is free or over; return its epoch or None, and how it stands.

    Where another holds it, nothing is written: whoever stands by may ask often. Where it is over,
    and its holder stalled inside a transaction, that transaction is ended if the database can.

    Raises:
        TransientError: the database is away, or another process is writing to it.
    """
    with store.reading() as unit:
        held = unit.lease.current()
    if held.holder is not None and held.seconds_left >= 0:
        return None, held
    try:
        with store.transaction() as unit:
            epoch = unit.lease.take(holder_name(command), LEASE_SECONDS)
            return epoch, unit.lease.current()
    except TransientError as error:
        raise TransientError(f"{error}{_in_the_way(store, held)}") from error


def _in_the_way(store: Store, held: Held) -> str:
    """Say what may keep us from writing, and remove a writer that stalled."""
    try:
        with store.reading() as unit:
            if unit.lease.end_stalled_writer(STALLED_SECONDS):
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
    with store.transaction() as unit:
        if not unit.lease.renew(epoch, LEASE_SECONDS):
            raise FatalError("another process has taken over the lease of this database")


def release(store: Store, epoch: int) -> None:
    """Give the lease back, so that the next process need not wait for its end."""
    with store.transaction() as unit:
        unit.lease.release(epoch)
