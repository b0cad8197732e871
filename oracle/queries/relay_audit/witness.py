"""Times of rows that another reader saw: a witness file (docs/explanation/feed.md#witness).

JSON lines with `id`, `t` (the relay's second) and `hash` (of the row); other fields are left.
"""

import json
from collections.abc import Iterable, Mapping

from oracle.domain.feed_rows import FeedRow
from oracle.errors import InputError


def witnessed_times(lines: Iterable[str]) -> dict[int, tuple[str, int]]:
    """Return hash and time of each row, by id.

    Raises:
        InputError: a line is none of a witness file; its number is named.
    """
    found: dict[int, tuple[str, int]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
            found[int(one["id"])] = (str(one["hash"]), int(one["t"]))
        except (ValueError, TypeError, KeyError):
            raise InputError(f"--witness: line {number} has no id, t and hash") from None
    return found


def believed(rows: Mapping[int, FeedRow], noted: Mapping[int, tuple[str, int]]) -> dict[int, int]:
    """Return the times of those rows that are, byte for byte, what the witness saw."""
    return {
        number: time
        for number, (seen, time) in noted.items()
        if number in rows and rows[number].hash == seen
    }
