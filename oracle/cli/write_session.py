"""What every command that changes something works in: the lease, the user's name, or a dry run."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from oracle.daemon.lease.lease_keeper import LeaseHeldError, leased, worker
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import FatalError
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp


def actor() -> str:
    """Return the OS user who runs the command: the journal keeps it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@contextmanager
def acting(store: Store, command: str, *, dry_run: bool) -> Iterator[tuple[UnitOfWork, Stamp]]:
    """One transaction under the lease, in the user's name; a dry run only reads.

    Raises:
        FatalError: a daemon works on this database.
    """
    if dry_run:
        tell_of_lease(store)
        with store.reading() as uow:
            yield uow, Stamp(0, 0)
        return
    with command_lease(store, command) as epoch, store.transaction() as uow:
        uow.lease.guard(epoch)
        yield uow, Stamp(int(unix_seconds()), epoch, actor())


def tell_of_lease(store: Store) -> None:
    """Say what a dry run does not need and the real one does: that nobody works here."""
    with store.reading() as uow:
        working = worker(uow.lease.current())
    if working is not None:
        typer.echo(
            f"{working} works on this database: without --dry-run it has to be stopped first",
            err=True,
        )


@contextmanager
def command_lease(store: Store, command: str) -> Iterator[int]:
    """Hold the lease for a command; yields its epoch.

    Raises:
        FatalError: a daemon works on this database.
    """
    try:
        with leased(store, f"qos-oracle {command}") as epoch:
            yield epoch
    except LeaseHeldError as error:
        raise FatalError(
            f"{error}. Stop the daemon, and what stands by for it, run `{command}` again, and "
            "start them: they go on where they were"
        ) from None
