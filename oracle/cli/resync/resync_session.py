"""Opens the index for `resync` commands, with the lease, a network check and progress bar."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from oracle.cli.options import load_config
from oracle.cli.write_session import hold_command_lease
from oracle.daemon.compose import Index, get_checked_chain, open_index
from oracle.daemon.lease_keeper import renew_held_lease
from oracle.daemon.records import Records, open_records
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.rebuild import RebuildOptions
from oracle.queries.resync_models import RawRow, RebuildAnswer

# The terminal shows at most this many rows and ranges; `--json` shows all.
_MAX_LINES = 20


@contextmanager
def open_resync_session(
    config: Path,
    command: str,
    *,
    dry_run: bool,
    offline: bool = False,
    read_only: bool = False,
) -> Iterator[tuple[Index, RebuildOptions]]:
    """Open the index under the lease, and show progress if stderr is a terminal.

    With `read_only`, no lease is needed and the daemon may be running. A dry run on SQLite needs
    no lease either, because it works on a copy. On PostgreSQL, a dry run needs the lease, because
    it would block the daemon.
    """
    with (
        open_records(load_config(config)) as records,
        show_progress(command) as report_progress,
        _copy_records_for_dry_run(records, dry_run=dry_run) as copied_records,
        open_index(copied_records or records) as index,
    ):
        _check_network(index, offline=offline)
        if read_only or copied_records is not None:
            yield index, RebuildOptions(dry_run, report_progress)
            return
        with hold_command_lease(records.store, command) as epoch:

            def renew_lease() -> None:
                renew_held_lease(records.store, epoch)

            yield index, RebuildOptions(dry_run, report_progress, epoch, renew_lease)


@contextmanager
def _copy_records_for_dry_run(records: Records, *, dry_run: bool) -> Iterator[Records | None]:
    """Yield records of a temporary database copy for a dry run, otherwise None.

    None is also yielded if the database cannot be copied; the caller then works in place.
    """
    if not dry_run:
        yield None
        return
    with records.store.open_temporary_copy() as url:
        if url is None:
            yield None
            return
        database = records.config.database.model_copy(update={"url": url})
        with open_records(
            records.config.model_copy(update={"database": database})
        ) as copied_records:
            yield copied_records


def _check_network(index: Index, *, offline: bool) -> None:
    """Check that the database and the configuration belong to the same network.

    Raises:
        InputError: the networks differ, or nothing is indexed yet.
    """
    settings = index.config
    with index.store.read_transaction() as uow:
        stored_identity = uow.identity.get()
    if stored_identity is None:
        raise InputError("the database is empty; run `qos-oracle run` to index the chain")
    if not offline:
        get_checked_chain(index)
    configured_identity = replace(
        stored_identity,
        chain_id=settings.chain.id,
        genesis_hash=stored_identity.genesis_hash if offline else index.chain.fetch_genesis_hash(),
        contracts={
            name: Address(address_text)
            for name, address_text in settings.network.contracts.items()
        },
        oracle=None if settings.oracle.address is None else Address(settings.oracle.address),
        start_block=settings.chain.start_block,
    )
    with index.store.read_transaction() as uow:
        uow.identity.check(configured_identity)


@contextmanager
def show_progress(command: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and yield a callback that advances it.

    The callback takes the current and the last block.
    """
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not sys.stderr.isatty()
    ) as progress_bar:
        task = progress_bar.add_task(command, total=None)
        yield lambda block, last_block: progress_bar.update(
            task, completed=block, total=last_block
        )


def print_line(line: str, *, dry_run: bool) -> None:
    """Print a line, marked as a dry run if `dry_run` is set."""
    typer.echo(f"dry run, nothing changed: {line}" if dry_run else line)


def render_limited_lines(label: str, entries: Sequence[str]) -> Iterator[str]:
    """Yield the first entries as lines, followed by the number of omitted entries."""
    for entry in entries[:_MAX_LINES]:
        yield f"{label}: {entry}"
    if len(entries) > _MAX_LINES:
        yield f"{label}: and {len(entries) - _MAX_LINES} more (--json lists all)"


def describe_rebuild(answer: RebuildAnswer) -> str:
    """Return a sentence that describes the result of a rebuild."""
    state_text = "state unchanged" if answer.same_state else "state DIFFERENT from before"
    report_text = f"{answer.reports} reports compared"
    if answer.differing_periods:
        periods_text = ", ".join(str(period) for period in answer.differing_periods)
        report_text += f", DIFFERENT in periods {periods_text}"
    return f"folded {answer.logs} logs up to block {answer.block}: {state_text}; {report_text}"


def format_row_position(row: RawRow) -> str:
    """Format the position of a raw row as readable text."""
    position_text = f"block {row.block}, transaction {row.tx_hash}"
    if row.log is None:
        return f"call of {position_text}"
    return f"log {row.log} of {position_text}"
