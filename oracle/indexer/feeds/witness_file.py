"""Witness files: a reader's times of a feed's rows, with which another reader gets equal bytes.

JSON lines of `id`, `t` (seconds) and `hash`, in order of ids; see
docs/explanation/feed.md#witness-files.
"""

import json
from collections.abc import Iterable, Iterator

from oracle.domain.feed_rows import LARGEST_ID
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork

_DIGITS = 66


def witness_lines(uow: UnitOfWork) -> Iterator[str]:
    """Yield a JSON line for every settled row, without its line end."""
    for row in uow.feed.settled():
        said = {"id": row.id, "t": row.time, "hash": row.hash}
        yield json.dumps(said, separators=(",", ":"))


def import_witness(store: Store, lines: Iterable[str]) -> int:
    """Import another reader's times; return the number of rows.

    Raises:
        InputError: a line is malformed, or rows were already settled here, so their order is
            fixed.
    """
    times = times_in(lines)
    with store.transaction() as uow:
        cursor = uow.feed.cursor()
        if cursor is not None and cursor.row_time:
            raise InputError(
                "this database has settled rows by its own clock already: a witness file is for "
                "an empty one"
            )
        return uow.feed.bear_witness(times)


def times_in(lines: Iterable[str]) -> list[tuple[int, Hash, int]]:
    """Return id, hash and time of each row of a witness file; raises InputError as above."""
    return [_time_in(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _time_in(number: int, line: str) -> tuple[int, Hash, int]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"line {number}: no JSON") from None
    if not isinstance(said, dict):
        raise InputError(f"line {number}: no object")
    row, time, hash_ = said.get("id"), said.get("t"), said.get("hash")
    for name, value in (("id", row), ("t", time)):
        if type(value) is not int or not 0 < value <= LARGEST_ID:
            raise InputError(f"line {number}: {name}: must be a whole number above 0")
    if not isinstance(hash_, str) or not _is_hash(hash_):
        raise InputError(f"line {number}: hash: must be 0x and 64 hex digits")
    return int(row or 0), Hash(hash_.lower()), int(time or 0)


def _is_hash(text: str) -> bool:
    digits = text.removeprefix("0x")
    return len(text) == _DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in digits)
