"""Opens the transaction of a writing command, with its lease, its user and dry-run support."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from oracle.daemon.lease_keeper import LeaseHeldError, find_leader, hold_lease
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import FatalError
from oracle.store.database import Store, UnitOfWork
from oracle.store.lease_repository import LeaseState
from oracle.store.outbox.records import Stamp


def get_actor() -> str:
    """Return the OS user who runs the command, as recorded in the journal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@contextmanager
def open_write_session(
    store: Store, command: str, *, dry_run: bool
) -> Iterator[tuple[UnitOfWork, Stamp]]:
    """Open a transaction under the lease, or a read-only transaction for a dry run.

    The yielded stamp names the user of the command.

    Raises:
        FatalError: a daemon holds the lease of this database.
    """
    if dry_run:
        warn_if_leased(store)
        with store.read_transaction() as uow:
            yield uow, Stamp(0, 0)
        return
    with hold_command_lease(store, command) as epoch, store.transaction() as uow:
        uow.lease.lock_held_lease(epoch)
        yield uow, Stamp(int(unix_seconds()), epoch, get_actor())


def warn_if_leased(store: Store) -> None:
    """Warn if another process holds the lease that a real run would need."""
    with store.read_transaction() as uow:
        holder = find_leader(uow.lease.get_state())
    if holder is not None:
        typer.echo(
            f"{holder} works on this database; stop it before you run this without --dry-run",
            err=True,
        )


def check_lease_is_free(store: Store, command: str) -> int:
    """Check that a command could acquire the lease now, and return its epoch.

    The epoch stays the same until another process takes the lease.

    Raises:
        FatalError: a daemon holds the lease of this database.
    """
    with store.read_transaction() as uow:
        lease_state = uow.lease.get_state()
    check_no_lease_holder(lease_state, command)
    return lease_state.epoch


def check_no_lease_holder(lease_state: LeaseState, command: str) -> None:
    """Check that no running process holds the lease.

    Raises:
        FatalError: a daemon holds the lease of this database.
    """
    if find_leader(lease_state) is not None:
        raise _build_lease_error(LeaseHeldError(lease_state), command)


@contextmanager
def hold_command_lease(store: Store, command: str) -> Iterator[int]:
    """Hold the lease for a command, and yield its epoch.

    Raises:
        FatalError: a daemon holds the lease of this database.
    """
    try:
        with hold_lease(store, f"qos-oracle {command}") as epoch:
            yield epoch
    except LeaseHeldError as error:
        raise _build_lease_error(error, command) from None


def _build_lease_error(error: LeaseHeldError, command: str) -> FatalError:
    return FatalError(
        f"{error}. Stop the daemon and its standbys, run `{command}` again, then restart them"
    )
