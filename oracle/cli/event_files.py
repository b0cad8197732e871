"""Reads the lines of an input file that is named on the command line, or of stdin."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from oracle.errors import InputError

_STDIN = "-"


@contextmanager
def open_lines(file: str) -> Iterator[Iterator[str]]:
    """Open a file, or stdin for `-`, and yield its lines.

    An InputError raised by the caller gets the name of the file as a prefix. Lines end at line
    feeds only, because strings may contain other line separators.

    Raises:
        InputError: the file cannot be read or is not UTF-8, or the caller found a fault in it.
    """
    with _open_binary(file) as stream:
        try:
            yield _decode_lines(stream)
        except InputError as error:
            raise InputError(f"{'stdin' if file == _STDIN else file}: {error}") from None


@contextmanager
def _open_binary(file: str) -> Iterator[BinaryIO]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below, errors distinguished
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    with stream:
        yield stream


def _decode_lines(stream: BinaryIO) -> Iterator[str]:
    for line_number, raw_line in enumerate(stream, start=1):
        try:
            yield raw_line.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"line {line_number}: not UTF-8") from None
