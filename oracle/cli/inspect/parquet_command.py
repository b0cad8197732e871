"""Implements `export --parquet`; pyarrow is imported on demand.

See docs/reference/parquet.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from oracle.cli.options import load_config, print_model
from oracle.cli.resync.resync_session import show_progress
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.errors import InputError
from oracle.resources import format_install_command

# A folder holds about one day of a chain with a block per second. This keeps the number of files
# low and each file at a few MB.
BLOCKS_PER_FOLDER = 100_000


@contextmanager
def require_pyarrow() -> Iterator[None]:
    """Raise InputError with an install command if pyarrow cannot be imported."""
    try:
        yield
    except ImportError as error:
        if error.name is None or not error.name.startswith("pyarrow"):
            raise
        raise InputError(
            f"Parquet files: pyarrow is not installed; run {format_install_command('parquet')}"
        ) from None


@contextmanager
def _convert_os_errors(path: Path) -> Iterator[None]:
    """Convert an OSError to an InputError that names the folder.

    Data that is already written is kept.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"--parquet {path}: {error.strerror or error}") from None


def export_parquet(
    config: Path, path: Path, *, recent: bool, dry_run: bool, as_json: bool
) -> None:
    """Add newly final blocks to a Parquet folder, or describe what would be added.

    Raises:
        InputError: pyarrow is not installed, the folder cannot be written, or
            `parquet_export.export_blocks` raises it.
    """
    with require_pyarrow():
        from oracle.queries.parquet import parquet_export as exporting  # noqa: PLC0415
        from oracle.queries.parquet.parquet_folder import ParquetFolder  # noqa: PLC0415

    with (
        open_records(load_config(config)) as records,
        show_progress("export --parquet") as report_progress,
    ):
        reader = open_reader(records.config)
        with records.store.read_transaction() as uow:
            source = exporting.load_export_source(uow, reader)
        folder = ParquetFolder.open_for_append(path, source, BLOCKS_PER_FOLDER)
        if dry_run:
            answer = exporting.plan_export(folder, records.store, include_recent=recent)
        else:
            with _convert_os_errors(path):
                answer = exporting.export_blocks(
                    folder, records.store, reader, report_progress, include_recent=recent
                )
    if as_json:
        print_model(answer)
    elif answer.first is None:
        typer.echo(f"no new final blocks: {path} is complete up to block {answer.final_to}")
    elif answer.rows is None:
        typer.echo(f"dry run, nothing written: blocks {answer.first} to {answer.last} in {path}")
    else:
        row_counts_text = ", ".join(
            f"{row_count} {table}" for table, row_count in answer.rows.items()
        )
        typer.echo(f"blocks {answer.first} to {answer.last} in {path}: {row_counts_text}")
