"""Builds many events of one class from columns of field values.

A frozen dataclass sets its fields one by one in Python, which is slow for a million events.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any


def build_events(event_class: type, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the events whose field values are in `columns`; `event_class` must have slots.

    Values are not checked, so the caller must pass values of the right types.

    Raises:
        ValueError: the columns do not match the fields, or their lengths differ.
    """
    setters = _get_field_setters(event_class)
    if columns.keys() != setters.keys():
        raise ValueError(
            f"{event_class.__name__}: the columns {', '.join(columns)} do not match its fields"
        )
    lengths = set(map(len, columns.values()))
    if len(lengths) != 1:
        raise ValueError("the event columns have different lengths")
    events: list[Any] = list(map(object.__new__, repeat(event_class, lengths.pop())))
    for name, column in columns.items():
        # Only the calls matter; the deque discards their results.
        deque(map(setters[name], events, column), maxlen=0)
    return events


@cache
def _get_field_setters(event_class: type) -> dict[str, Callable[[Any, Any], None]]:
    """Return the slot setter of each field; the dataclass must have slots, as events do."""
    return {field.name: getattr(event_class, field.name).__set__ for field in fields(event_class)}
