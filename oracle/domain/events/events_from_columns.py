"""Builds many events of one class from the columns of their fields.

A frozen dataclass is created field by field, in Python; for a million events each step counts.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any


def build_events(event_class: type, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the events whose fields are in these columns; `event_class` has slots.

    Values are not checked: the caller ensures that they have the field's type.

    Raises:
        ValueError: a field has no column, or columns are of different lengths.
    """
    setters = _get_field_setters(event_class)
    if columns.keys() != setters.keys():
        raise ValueError(f"{event_class.__name__} has other fields than {', '.join(columns)}")
    lengths = set(map(len, columns.values()))
    if len(lengths) != 1:
        raise ValueError("columns of events are of different lengths")
    events: list[Any] = list(map(object.__new__, repeat(event_class, lengths.pop())))
    for name, column in columns.items():
        # Only the calls matter; the deque discards their results.
        deque(map(setters[name], events, column), maxlen=0)
    return events


@cache
def _get_field_setters(event_class: type) -> dict[str, Callable[[Any, Any], None]]:
    """Return the setter of each field; only for dataclasses with slots, as events are."""
    return {field.name: getattr(event_class, field.name).__set__ for field in fields(event_class)}
