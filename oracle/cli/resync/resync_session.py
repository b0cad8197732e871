"""The session of every `resync` command: lease, network check, progress bar."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from oracle.cli.options import load_config
from oracle.cli.write_session import command_lease
from oracle.daemon.compose import Index, check_chain_of, open_index
from oracle.daemon.lease.lease_keeper import renew
from oracle.daemon.records import Records, open_records
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.errors import InputError
from oracle.indexer.rebuild import RebuildOptions, RebuildResult


@contextmanager
def working(
    config: Path,
    command: str,
    *,
    dry_run: bool,
    offline: bool = False,
    only_reads: bool = False,
) -> Iterator[tuple[Index, RebuildOptions]]:
    """Open the index under the lease, and show progress if stderr is a terminal.

    With `only_reads` no lease is needed and the daemon may be running. The same holds for a dry
    run on SQLite, which works on a copy; on PostgreSQL a dry run would block the daemon.
    """
    with (
        open_records(load_config(config)) as records,
        bar(command) as tell,
        _copied(records, dry_run=dry_run) as copy,
        open_index(copy or records) as index,
    ):
        _check_network(index, offline=offline)
        if only_reads or copy is not None:
            yield index, RebuildOptions(dry_run, tell)
            return
        with command_lease(records.store, command) as epoch:

            def keep_lease() -> None:
                renew(records.store, epoch)

            yield index, RebuildOptions(dry_run, tell, epoch, keep_lease)


@contextmanager
def _copied(records: Records, *, dry_run: bool) -> Iterator[Records | None]:
    """Yield records on a copy of the database for a dry run, or None to work in place."""
    if not dry_run:
        yield None
        return
    with records.store.copied() as url:
        if url is None:
            yield None
            return
        database = records.config.database.model_copy(update={"url": url})
        with open_records(records.config.model_copy(update={"database": database})) as copy:
            yield copy


def _check_network(index: Index, *, offline: bool) -> None:
    """Reject a database that belongs to another network than the configuration.

    Raises:
        InputError: the networks differ, or nothing is indexed yet.
    """
    settings = index.config
    with index.store.reading() as uow:
        known = uow.identity.get()
    if known is None:
        raise InputError("nothing is indexed yet: `qos-oracle run` fetches everything")
    if not offline:
        check_chain_of(index)
    wanted = replace(
        known,
        chain_id=settings.chain.id,
        genesis_hash=known.genesis_hash if offline else index.chain.genesis_hash(),
        contracts={name: Address(at) for name, at in settings.network.contracts.items()},
        oracle=None if settings.oracle.address is None else Address(settings.oracle.address),
        start_block=settings.chain.start_block,
    )
    with index.store.reading() as uow:
        uow.identity.check(wanted)


@contextmanager
def bar(command: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield the callback for the current and the last block."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task(command, total=None)
        yield lambda block, last: shown.update(task, completed=block, total=last)


def say(line: str, *, dry_run: bool) -> None:
    """Print one line; a dry run is marked as such."""
    typer.echo(f"dry run, nothing changed: {line}" if dry_run else line)


def told(rebuilt: RebuildResult) -> str:
    """Return a sentence about the result of a rebuild."""
    state = "the same state" if rebuilt.same else "ANOTHER STATE than before"
    reports = f"{rebuilt.reports} reports compared"
    if rebuilt.differing:
        periods = ", ".join(str(period) for period in rebuilt.differing)
        reports += f", DIFFERENT in periods {periods}"
    return f"folded {rebuilt.logs} logs up to block {rebuilt.last}: {state}; {reports}"


def named(row: Log | Call) -> str:
    """Return the position of a raw row as readable text."""
    where = f"block {row.block}, transaction {row.tx_hash}"
    return f"log {row.index} of {where}" if isinstance(row, Log) else f"call of {where}"
