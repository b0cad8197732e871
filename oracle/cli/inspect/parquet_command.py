"""`export --parquet`, and the reader of such a folder; pyarrow is imported on demand.

See docs/reference/parquet.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from oracle.cli.options import load_config, print_answer
from oracle.cli.resync.resync_session import bar
from oracle.daemon.compose import open_reader
from oracle.daemon.records import open_records
from oracle.errors import InputError
from oracle.queries.event_history import History
from oracle.queries.export_models import ParquetAnswer
from oracle.resources import extra_command

# About one day at one block per second: files of some MB, and not too many of them.
BLOCKS_PER_FOLDER = 100_000


@contextmanager
def _with_pyarrow() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        if error.name is None or not error.name.startswith("pyarrow"):
            raise
        raise InputError(
            f"Parquet files: pyarrow is not installed; run {extra_command('parquet')}"
        ) from None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the output folder in operating system errors; data saved before stays valid."""
    try:
        yield
    except OSError as error:
        raise InputError(f"--parquet {path}: {error.strerror or error}") from None


def exported_history(path: Path, first: int, last: int | None) -> History:
    """Return the history in an `export --parquet` folder; events are read during the fold.

    Args:
        path: the folder.
        first_block: the first block that is counted; earlier events are folded but not counted.
        last_block: the last block that is read, or None for the end of the history.

    Raises:
        InputError: the folder is no such export, or has no event to count; pyarrow is missing.
    """
    with _with_pyarrow():
        from oracle.queries.parquet.parquet_events import ParquetEvents  # noqa: PLC0415
    events = ParquetEvents.of(path, last)
    return events.history(first)


def export_parquet(
    config: Path, path: Path, *, recent: bool, dry_run: bool, as_json: bool
) -> None:
    """Add the newly final blocks to a folder, or describe what would be added.

    Raises:
        InputError: pyarrow is not installed, the folder cannot be written, or any reason of
            `parquet_export.export_to`.
    """
    with _with_pyarrow():
        from oracle.queries.parquet import parquet_export as exporting  # noqa: PLC0415
        from oracle.queries.parquet.parquet_folder import ParquetFolder  # noqa: PLC0415

    with open_records(load_config(config)) as records, bar("export --parquet") as told:
        reader = open_reader(records.config)
        with records.store.reading() as uow:
            source = exporting.source_of(uow, reader)
        folder = ParquetFolder.of(path, source, BLOCKS_PER_FOLDER)
        if dry_run:
            done = exporting.planned(folder, records.store, recent=recent)
        else:
            with _named(path):
                done = exporting.export_to(folder, records.store, reader, told, recent=recent)
    blocks = done.blocks
    if as_json:
        print_answer(
            ParquetAnswer(
                dry_run=dry_run,
                folder=str(path),
                first=None if blocks is None else blocks.first,
                last=None if blocks is None else blocks.last,
                final_to=done.final,
                rows=None if dry_run else {str(table): rows for table, rows in done.rows.items()},
            )
        )
    elif blocks is None:
        typer.echo(f"nothing new is final: {path} has every block to {done.final}")
    elif dry_run:
        typer.echo(f"dry run, nothing written: blocks {blocks.first} to {blocks.last} in {path}")
    else:
        rows = ", ".join(f"{number} {table}" for table, number in done.rows.items())
        typer.echo(f"blocks {blocks.first} to {blocks.last} in {path}: {rows}")
