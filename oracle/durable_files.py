"""Replaces files durably: after a crash or power loss, a file has its old or its new content."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The name of an unfinished file starts with a dot and ends with this suffix.
PART_SUFFIX = ".part"


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, then fsync the file and rename it to `path`.

    If the block raises an exception, the temporary file is removed and `path` is unchanged.

    Raises:
        OSError: the file cannot be written or renamed.
    """
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}{PART_SUFFIX}")
    try:
        yield temporary_path
        _fsync(temporary_path)
        temporary_path.replace(path)
    finally:
        temporary_path.unlink(missing_ok=True)
    if os.name == "posix":
        # The folder holds the file's new name, so it must be synced too.
        _fsync(path.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
