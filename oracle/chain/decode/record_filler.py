"""Builds events, which are frozen dataclasses, quickly: a backfill builds millions of them.

The generated `__init__` bypasses the frozen check for each field; setting the slots directly
takes half the time.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from oracle.chain.decode.log_parts import Getter, Parts
from oracle.domain.blocks import Position
from oracle.domain.logs import Call, Log

# A log or a call -> an event. Optional arguments: its parts, if it was split already, and the
# number of events that it yielded before this one.
RecordReader: TypeAlias = Callable[..., Any]

# Fields that no mapping fills: position and time are those of the log, in whole seconds.
PLACED = ("at", "time", "time_ms")


def reader_of(
    kind: type, values: Mapping[str, Getter], take: Callable[[Any], Parts]
) -> RecordReader:
    """Return a function that builds a `record_class` from a log or call that `split_row` splits.

    `record_class` is a dataclass with slots and without `__post_init__`. `getter_by_field` has the
    getters of its fields other than position and time; fields with a default may be left out.

    Raises:
        ValueError: a field is missing, or there is no such field.
    """
    named = {field.name: field for field in fields(kind) if field.name not in PLACED}
    unknown_columns = values.keys() - named.keys()
    if unknown_columns:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown_columns))}")
    for name, field in named.items():
        if name not in values and field.default is MISSING:
            raise ValueError(f"{kind.__name__}: nothing for {name}")
    put = {field.name: getattr(kind, field.name).__set__ for field in fields(kind)}
    read = [(put[name], get) for name, get in values.items()]
    left_out = [
        (put[each.name], each.default)
        for each in fields(kind)
        if each.default is not MISSING and each.name not in values
    ]
    put_at, put_time = put["at"], put["time"]
    new, position = object.__new__, tuple.__new__

    def made_of(row: Log | Call, parts: Parts | None = None, sub: int = 0) -> Any:  # noqa: ANN401  # a `kind`
        if parts is None:
            parts = take(row)
        made: Any = new(kind)
        put_at(made, position(Position, (row.block, row.tx, row.index, sub)))
        put_time(made, row.time)
        for put_value, get in read:
            put_value(made, get(parts))
        for put_value, default in left_out:
            put_value(made, default)
        return made

    return made_of
