"""Reads the text files that options name, and writes the HTML page atomically."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from oracle.errors import InputError


def read_text(path: Path) -> str:
    """Return the text of a file.

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
def open_page(path: Path | None) -> Iterator[TextIO | None]:
    """Open a page for writing; yield None if `path` is None.

    The page replaces the file at its path only when it is complete. It is opened before any other
    work is done, so an unwritable path is detected early.

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
