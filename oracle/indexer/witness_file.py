"""Exports and imports witness files with the times of a feed's rows.

Two readers of a feed need them to build identical reports. A witness file contains the times that
one reader assigned to the feed's rows, as JSON lines with `id`, `t` (unix seconds) and `hash`, in
order of ids; see docs/explanation/feed.md#witness-files.
"""

import json
from collections.abc import Iterable, Iterator

from oracle.domain.feed_rows import MAX_ROW_ID
from oracle.domain.ids import Hash
from oracle.errors import InputError
from oracle.store.database import Store, UnitOfWork

_HASH_LENGTH = 66


def export_witness_lines(uow: UnitOfWork) -> Iterator[str]:
    """Yield a JSON line for each settled row, without a line end."""
    for row in uow.feed.iterate_settled_rows():
        record = {"id": row.id, "t": row.time, "hash": row.hash}
        yield json.dumps(record, separators=(",", ":"))


def import_witness_lines(store: Store, lines: Iterable[str]) -> int:
    """Import another reader's row times, and return the number of rows.

    Raises:
        InputError: a line is malformed, or rows of this database are already settled, so that
            their times cannot change.
    """
    row_times = parse_witness_lines(lines)
    with store.transaction() as uow:
        cursor = uow.feed.get_cursor()
        if cursor is not None and cursor.row_time:
            raise InputError(
                "this database already contains feed rows with times from its own clock; import a "
                "witness file into an empty database"
            )
        return uow.feed.save_witness_times(row_times)


def parse_witness_lines(lines: Iterable[str]) -> list[tuple[int, Hash, int]]:
    """Parse the id, hash and time of each row in a witness file.

    Raises:
        InputError: a line is malformed.
    """
    return [
        _parse_witness_line(number, line) for number, line in enumerate(lines, 1) if line.strip()
    ]


def _parse_witness_line(line_number: int, line: str) -> tuple[int, Hash, int]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"line {line_number}: the line is not valid JSON") from None
    if not isinstance(record, dict):
        raise InputError(f"line {line_number}: expected a JSON object")
    row_id = record.get("id")
    time = record.get("t")
    row_hash = record.get("hash")
    for name, value in (("id", row_id), ("t", time)):
        if type(value) is not int or not 0 < value <= MAX_ROW_ID:
            raise InputError(f"line {line_number}: {name}: must be a whole number above 0")
    if not isinstance(row_hash, str) or not _is_hash(row_hash):
        raise InputError(f"line {line_number}: hash: must be 0x and 64 hex digits")
    return int(row_id or 0), Hash(row_hash.lower()), int(time or 0)


def _is_hash(text: str) -> bool:
    hex_digits = text.removeprefix("0x")
    return len(text) == _HASH_LENGTH and all(
        digit in "0123456789abcdefABCDEF" for digit in hex_digits
    )
