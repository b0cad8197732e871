"""Parses the event mappings of a profile: `says`, `when`, `unless`, and a value per field."""

from collections.abc import Mapping, Sequence

from oracle.chain.profiles.profile import EventMapping, FieldValue, Literal
from oracle.chain.profiles.toml_tables import FaultCollector, ProfileSettings, Table
from oracle.chain.profiles.value_paths import suggest_name
from oracle.domain.events.event_names import TYPE_BY_NAME
from oracle.domain.events.jsonl import parse_field_value
from oracle.domain.events.network_events import DomainEvent

NO_EVENT = "nothing"
_CONTROL_KEYS = ("says", "when", "unless")
_VALUE_KEYS = ("argument", "constant", "enum", "zero_is_absent")


def parse_event_mappings(
    key: str, raw_value: object, settings: ProfileSettings, faults: FaultCollector
) -> tuple[list[EventMapping], list[EventMapping]]:
    """Return one event's or call's mappings: those that the options enable, and the others."""
    active, inactive = list[EventMapping](), list[EventMapping]()
    for row_key, table in faults.get_rows(key, raw_value):
        event_type = _parse_event_type(row_key, table, faults)
        required_options, when = _parse_conditions(f"{row_key}.when", table, settings, faults)
        forbidden_options, unless = _parse_conditions(f"{row_key}.unless", table, settings, faults)
        value_by_field = {
            name: value
            for name, raw_field in table.items()
            if name not in _CONTROL_KEYS
            and (value := _parse_value(f"{row_key}.{name}", name, raw_field, settings, faults))
            is not None
        }
        is_active = all(required_options) and not any(forbidden_options)
        mapping = EventMapping(row_key, event_type, value_by_field, when, unless)
        (active if is_active else inactive).append(mapping)
    return active, inactive


def _parse_event_type(key: str, table: Table, faults: FaultCollector) -> type[DomainEvent] | None:
    name = table.get("says")
    if name == NO_EVENT:
        return None
    if not isinstance(name, str):
        faults.add_fault(
            f"{key}.says", f"is missing; expected the name of a domain event, or `{NO_EVENT}`"
        )
        return None
    if name not in TYPE_BY_NAME:
        suggestion = suggest_name(name, TYPE_BY_NAME)
        faults.add_fault(f"{key}.says", f"{name!r} is not a domain event{suggestion}")
        return None
    return TYPE_BY_NAME[name]


def _parse_conditions(
    key: str, table: Table, settings: ProfileSettings, faults: FaultCollector
) -> tuple[list[bool], Mapping[str, tuple[Literal, ...]]]:
    """Return the result of each option condition, and the literals of each argument condition."""
    option_results, literals_by_argument = list[bool](), dict[str, tuple[Literal, ...]]()
    for path, raw_literals in faults.get_tables(key, table).items():
        try:
            literals = settings.parse_literals(raw_literals)
            if settings.is_reference(path):
                option_results.append(_is_option_in(settings.resolve_reference(path), literals))
            else:
                literals_by_argument[path] = literals
        except ValueError as error:
            faults.add_fault(f"{key}.{path}", str(error))
    return option_results, literals_by_argument


def _is_option_in(option_value: object, literals: Sequence[Literal]) -> bool:
    """Return whether an option has one of the values; raise ValueError if the types differ."""
    for literal in literals:
        if type(literal) is not type(option_value):
            raise ValueError(f"the option is {option_value!r}, which never equals {literal!r}")
    return option_value in literals


def _parse_value(
    key: str, field_name: str, raw_value: object, settings: ProfileSettings, faults: FaultCollector
) -> FieldValue | None:
    try:
        if isinstance(raw_value, dict):
            return _parse_value_table(key, field_name, raw_value, settings, faults)
        if settings.is_reference(raw_value):
            return FieldValue(
                constant=parse_field_value(field_name, settings.resolve_reference(raw_value))
            )
        return _parse_arguments(raw_value)
    except ValueError as error:
        faults.add_fault(key, str(error))
        return None


def _parse_value_table(
    key: str, field_name: str, table: Table, settings: ProfileSettings, faults: FaultCollector
) -> FieldValue:
    faults.check_keys(key, table, _VALUE_KEYS)
    if ("argument" in table) is ("constant" in table):
        raise ValueError("expected either `argument` or `constant`")
    if "constant" in table:
        return FieldValue(
            constant=parse_field_value(field_name, settings.resolve_reference(table["constant"]))
        )
    source, enum, zero_is_absent = (
        _parse_arguments(table["argument"]),
        table.get("enum"),
        table.get("zero_is_absent", False),
    )
    if enum is not None and not isinstance(enum, str):
        raise ValueError("enum must be the name of an enum")
    if enum is not None and enum not in settings.enums:
        raise ValueError(f"there is no enum {enum}{suggest_name(enum, settings.enums)}")
    if not isinstance(zero_is_absent, bool):
        raise ValueError("zero_is_absent must be true or false")  # noqa: TRY004  # a fault of the file
    return FieldValue(source.arguments, source.is_list, None, enum, zero_is_absent)


def _parse_arguments(raw_value: object) -> FieldValue:
    if isinstance(raw_value, str) and raw_value:
        return FieldValue((raw_value,))
    if (
        isinstance(raw_value, list)
        and raw_value
        and all(isinstance(name, str) for name in raw_value)
    ):
        return FieldValue(tuple(raw_value), is_list=True)
    raise ValueError("expected the name of an argument, a list of names, or { constant = … }")
