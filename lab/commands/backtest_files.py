"""Reads the files and exports named by options, and writes the HTML page atomically."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lab.backtest.event_history import History
from oracle.cli.inspect.parquet_command import require_pyarrow
from oracle.errors import InputError


def read_text_file(path: Path) -> str:
    """Read a text file.

    Raises:
        InputError: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the file is not UTF-8 text") from None


@contextmanager
def open_html_output(path: Path | None) -> Iterator[TextIO | None]:
    """Open the file of `--html` for writing.

    Yields None if `path` is None. The page replaces an existing file only when the page is
    complete. It is opened before any other work is done, so that an unwritable path is detected
    early.

    Raises:
        InputError: the file cannot be written.
    """
    if path is None:
        yield None
        return
    if path.is_dir():
        raise InputError(f"--html: {path}: the path is a folder; expected a file")
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        page = temporary_path.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"--html: {path}: cannot be written: {error.strerror}") from None
    try:
        with page:
            yield page
        temporary_path.replace(path)
    finally:
        temporary_path.unlink(missing_ok=True)


def open_exported_history(path: Path, first_block: int, last_block: int | None) -> History:
    """Open the history in an `export --parquet` folder.

    Its events are read during the fold.

    Args:
        path: the folder.
        first_block: the first block that is counted; earlier events are folded but not counted.
        last_block: the last block that is read, or None for the end of the history.

    Raises:
        InputError: the folder is not an export or has no event to count, or pyarrow is missing.
    """
    with require_pyarrow():
        from lab.backtest.parquet_events import ParquetEvents  # noqa: PLC0415
    events = ParquetEvents.open_export(path, last_block)
    return events.open_history(first_block)
