"""Makes many events of one class at once from the columns of their fields.

A frozen dataclass is made field by field, in Python; of a million events each such step counts.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any


def events_from(made: type, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the events whose fields stand in these columns; `made` has slots.

    Values are taken as they are: who calls knows that they are of the field's type.

    Raises:
        ValueError: a field has no column, or columns are of different lengths.
    """
    setters = _setters(made)
    if columns.keys() != setters.keys():
        raise ValueError(f"{made.__name__} has other fields than {', '.join(columns)}")
    lengths = set(map(len, columns.values()))
    if len(lengths) != 1:
        raise ValueError("columns of events are of different lengths")
    events: list[Any] = list(map(object.__new__, repeat(made, lengths.pop())))
    for name, column in columns.items():
        # What it returns is nothing: only that it is called counts.
        deque(map(setters[name], events, column), maxlen=0)
    return events


@cache
def _setters(made: type) -> dict[str, Callable[[Any, Any], None]]:
    """Return what sets each field: dataclasses with slots only, events have no others."""
    return {field.name: getattr(made, field.name).__set__ for field in fields(made)}
