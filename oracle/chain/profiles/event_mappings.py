"""Parses the event mappings of a profile: `says`, `when`, `unless`, and a value per field."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oracle.chain.profiles.profile import EventMapping, Literal, Value
from oracle.chain.profiles.toml_tables import Faults, Settings, Table
from oracle.chain.profiles.value_paths import hint
from oracle.domain.events.event_names import TYPES
from oracle.domain.events.jsonl import field_value
from oracle.domain.events.network_events import DomainEvent

NOTHING = "nothing"
_KEYS = ("says", "when", "unless")
_VALUE_KEYS = ("argument", "constant", "enum", "zero_is_absent")


class Readings(NamedTuple):
    """The mappings of one event or call that the options enable, and those they disable."""

    held: list[EventMapping]
    ruled_out: list[EventMapping]


def readings_of(key: str, written: object, settings: Settings, faults: Faults) -> Readings:
    """Return the mappings of one event or call."""
    found = Readings([], [])
    for place, table in faults.rows(key, written):
        says = _says(place, table, faults)
        must, when = _conditions(f"{place}.when", table, settings, faults)
        must_not, unless = _conditions(f"{place}.unless", table, settings, faults)
        values = {
            name: value
            for name, row in table.items()
            if name not in _KEYS
            and (value := _value(f"{place}.{name}", name, row, settings, faults)) is not None
        }
        holds = all(must) and not any(must_not)
        where = found.held if holds else found.ruled_out
        where.append(EventMapping(place, says, values, when, unless))
    return found


def _says(key: str, table: Table, faults: Faults) -> type[DomainEvent] | None:
    name = table.get("says")
    if name == NOTHING:
        return None
    if not isinstance(name, str):
        faults.add(f"{key}.says", "is missing: the event of ours that it says, or `nothing`")
        return None
    if name not in TYPES:
        faults.add(f"{key}.says", f"{name!r} is no event{hint(name, TYPES)}")
        return None
    return TYPES[name]


def _conditions(
    key: str, table: Table, settings: Settings, faults: Faults
) -> tuple[list[bool], Mapping[str, tuple[Literal, ...]]]:
    """Return the results of comparing options, and the literals to compare arguments with."""
    known, tests = list[bool](), dict[str, tuple[Literal, ...]]()
    for path, written in faults.tables(key, table).items():
        try:
            literals = settings.literals(written)
            if settings.is_setting(path):
                known.append(_is_condition_met(settings.value(path), literals))
            else:
                tests[path] = literals
        except ValueError as error:
            faults.add(f"{key}.{path}", str(error))
    return known, tests


def _is_condition_met(chosen: object, literals: Sequence[Literal]) -> bool:
    """Return whether an option has one of the values; a literal of another type is a fault."""
    for literal in literals:
        if type(literal) is not type(chosen):
            raise ValueError(f"is {chosen!r}, and never {literal!r}")
    return chosen in literals


def _value(
    key: str, field: str, written: object, settings: Settings, faults: Faults
) -> Value | None:
    try:
        if isinstance(written, dict):
            return _told(key, field, written, settings, faults)
        if settings.is_setting(written):
            return Value(constant=field_value(field, settings.value(written)))
        return _taken(written)
    except ValueError as error:
        faults.add(key, str(error))
        return None


def _told(key: str, field: str, table: Table, settings: Settings, faults: Faults) -> Value:
    faults.unknown(key, table, _VALUE_KEYS)
    if ("argument" in table) is ("constant" in table):
        raise ValueError("needs `argument` or `constant`, one of them")
    if "constant" in table:
        return Value(constant=field_value(field, settings.value(table["constant"])))
    taken, enum, absent = (
        _taken(table["argument"]),
        table.get("enum"),
        table.get("zero_is_absent", False),
    )
    if enum is not None and not isinstance(enum, str):
        raise ValueError("enum must be the name of one")
    if enum is not None and enum not in settings.enums:
        raise ValueError(f"there is no enum {enum}{hint(enum, settings.enums)}")
    if not isinstance(absent, bool):
        raise ValueError("zero_is_absent must be true or false")  # noqa: TRY004  # a fault of the file
    return Value(taken.arguments, taken.is_list, None, enum, absent)


def _taken(written: object) -> Value:
    if isinstance(written, str) and written:
        return Value((written,))
    if isinstance(written, list) and written and all(isinstance(one, str) for one in written):
        return Value(tuple(written), is_list=True)
    raise ValueError("must name an argument, or several in a list; else write { constant = … }")
