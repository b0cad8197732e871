"""Makes events, frozen dataclasses, quickly: millions of them are made in a backfill.

Their own `__init__` goes around the guard of each field; filling the slots takes half the time.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from oracle.chain.decode.log_parts import Getter, Parts
from oracle.domain.blocks import Position
from oracle.domain.logs import Call, Log

# A log or a call -> an event; its parts where it was taken apart already, and how many things it
# said before this one.
RecordReader: TypeAlias = Callable[..., Any]

# What no mapping fills: position and time are those of the log, and a log knows no milliseconds.
PLACED = ("at", "time", "time_ms")


def reader_of(
    kind: type, values: Mapping[str, Getter], take: Callable[[Any], Parts]
) -> RecordReader:
    """Return what makes a `kind` of a log or a call that `take` takes apart.

    `kind` is a dataclass with slots, and does nothing after its making; `values` read its fields
    beside position and time, by their names; those with a default may be left out.

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
