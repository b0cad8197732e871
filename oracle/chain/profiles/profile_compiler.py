"""Compiles the mappings of an event or function into one decoding function.

The lookup of arguments, the conversion of enums and the construction of events are closures that
are built once. Therefore a mapping in a file is as fast as a decoder that is written by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any, TypeAlias

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.decode.abi_values import MalformedError
from oracle.chain.decode.decoder_plan import (
    Getter,
    LogSplitter,
    Parts,
    TypedValue,
    build_call_splitter,
    build_decoder_plan,
)
from oracle.chain.decode.field_bounds import (
    build_field_getter,
    can_equal_literal,
    find_zero_value,
    is_unsigned_type,
)
from oracle.chain.decode.log_decoder import RecordReader, build_record_reader
from oracle.chain.profiles.profile import (
    ABSENT,
    EnumMapping,
    EventMapping,
    FieldValue,
    Literal,
    MappedSignature,
)
from oracle.chain.profiles.value_paths import (
    InputValues,
    collect_argument_names,
    format_name_suggestion,
)
from oracle.domain.events.event_fields import get_field_kinds, get_required_fields
from oracle.domain.events.network_events import FIELD_KINDS, NAME_BY_TYPE, DomainEvent
from oracle.domain.logs import Call, Log

_MAX_SHOWN_CHARS = 40

# The enumeration class of each enumeration field.
ENUM_CLASS_BY_FIELD: Mapping[str, type[StrEnum]] = {
    name: kind.enum for name, kind in FIELD_KINDS.items() if kind.enum is not None
}


class _EnumTable(dict[Literal, StrEnum | None]):
    """A table of enumeration values.

    A missing key returns a default or raises MalformedError.
    """

    def __init__(self, key: str, word_by_literal: Mapping[Literal, StrEnum | None]) -> None:
        super().__init__(word_by_literal)
        self._key = key
        self._has_default = False
        self._default: StrEnum | None = None

    def set_default(self, default: StrEnum | None) -> None:
        """Set the value to return for keys that are not in the table."""
        self._has_default, self._default = True, default

    def __missing__(self, value: Literal) -> StrEnum | None:
        if not self._has_default:
            raise MalformedError(f"{self._key} has no entry for {str(value)[:_MAX_SHOWN_CHARS]!r}")
        return self._default


def build_enum_getter(
    enum: EnumMapping, field_name: str, typed_value: TypedValue, get_block: Getter
) -> Getter:
    """Return the getter of an enum field.

    The enum's table depends on the block number.

    Raises:
        ValueError: the enum's words or input type do not fit the field or value.
    """
    _check_enum_fits_argument(enum, field_name, typed_value)
    tables_by_block = [
        (first_block, _build_enum_table(enum, field_name, table))
        for first_block, table in enum.tables
    ]
    (_, first_table), *later_tables = tables_by_block
    if not later_tables:
        return typed_value.build_converting_getter(first_table.__getitem__)
    get_value = typed_value.getter

    def get_enum_value(parts: Parts) -> StrEnum | None:
        block_number = get_block(parts)
        current_table = first_table
        for first_block, table in later_tables:
            if block_number >= first_block:
                current_table = table
        return current_table[get_value(parts)]

    return get_enum_value


def _build_enum_table(
    enum: EnumMapping, field_name: str, table: Mapping[Literal, str]
) -> _EnumTable:
    enum_table = _EnumTable(
        enum.key, {literal: _parse_enum_value(field_name, word) for literal, word in table.items()}
    )
    if enum.otherwise is not None:
        enum_table.set_default(_parse_enum_value(field_name, enum.otherwise))
    return enum_table


def _parse_enum_value(field_name: str, text: str) -> StrEnum | None:
    return None if text == ABSENT else ENUM_CLASS_BY_FIELD[field_name](text)


def _check_enum_fits_argument(enum: EnumMapping, field_name: str, typed_value: TypedValue) -> None:
    if field_name not in ENUM_CLASS_BY_FIELD:
        raise ValueError(f"an enum is only valid for {', '.join(ENUM_CLASS_BY_FIELD)}")
    is_text = typed_value.abi_type == "string"
    if not (is_text or is_unsigned_type(typed_value.abi_type)):
        raise ValueError(
            f"an enum needs an unsigned number or a string, got {typed_value.type_description}"
        )
    if any(
        isinstance(used_words, str) is not is_text
        for _, table in enum.tables
        for used_words in table
    ):
        raise ValueError(
            f"{enum.key}: its keys do not match the type {typed_value.type_description}"
        )
    enum_words = [word for _, table in enum.tables for word in table.values()]
    for word in [*enum_words, enum.otherwise or ABSENT]:
        if word != ABSENT and word not in set(ENUM_CLASS_BY_FIELD[field_name]):
            raise ValueError(f"{enum.key}: {word!r} is not a valid {field_name}")


_RowSplitter: TypeAlias = Callable[[Any], Parts]
_Condition: TypeAlias = Callable[[Parts], bool]
# The function that builds a mapping's event (or None if the mapping has no event), and the
# conditions of the mapping.
_MappingReader: TypeAlias = tuple[RecordReader | None, Sequence[_Condition]]
# The block number is the last part of a split log.
_get_block_number: Getter = itemgetter(-1)


@dataclass(slots=True)
class MappingCompiler:
    """Compiles the mappings of one profile, and collects faults.

    Each fault has the form `key: what is wrong`.
    """

    enums: Mapping[str, EnumMapping]
    faults: list[str] = field(default_factory=list)

    def compile_event(
        self, signature: AbiSignature, mappings: Sequence[EventMapping]
    ) -> MappedSignature | None:
        """Compile an event with a decoder for its logs, or return None if it has a fault."""
        try:
            plan = build_decoder_plan(
                signature, collect_argument_names(_iterate_argument_paths(mappings))
            )
        except ValueError as error:
            self.faults.append(f"{mappings[0].key}: {error}, in {signature.text}")
            return None
        # An enum may have several tables, each for a range of blocks, so decoding needs the block
        # number.
        has_block_tables = any(len(enum.tables) > 1 for enum in self.enums.values())
        split_log = (
            _append_block_number_to_parts(plan.split_log) if has_block_tables else plan.split_log
        )
        inputs = InputValues(signature, plan.value_by_input, is_log=True)
        return self._compile_mappings(inputs, mappings, split_log, plan.data_length)

    def compile_call(
        self, signature: AbiSignature, mappings: Sequence[EventMapping]
    ) -> MappedSignature | None:
        """Compile a function with a decoder for its calls, or return None if it has a fault."""
        try:
            split_call, inputs = build_call_splitter(signature)
        except ValueError as error:
            self.faults.append(f"{mappings[0].key}: {error}, in {signature.text}")
            return None
        return self._compile_mappings(
            InputValues(signature, inputs, is_log=False), mappings, split_call
        )

    def _compile_mappings(
        self,
        inputs: InputValues,
        mappings: Sequence[EventMapping],
        split_row: _RowSplitter,
        data_length: int | None = None,
    ) -> MappedSignature | None:
        fault_count = len(self.faults)
        field_compiler = _FieldCompiler(self, inputs, split_row)
        readers: list[_MappingReader] = [
            (field_compiler.build_event_reader(mapping), field_compiler.build_conditions(mapping))
            for mapping in mappings
        ]
        if len(self.faults) > fault_count:
            return None
        build_event, conditions = readers[0]
        returns_list = len(readers) > 1 or build_event is None or bool(conditions)
        if build_event is None or returns_list:
            build_event = _build_multi_mapping_reader(readers, split_row)
        return MappedSignature(
            inputs.signature, tuple(mappings), build_event, returns_list, data_length
        )


def _iterate_argument_paths(mappings: Sequence[EventMapping]) -> Iterator[str]:
    for mapping in mappings:
        yield from (*mapping.when, *mapping.unless)
        for value in mapping.value_by_field.values():
            yield from value.arguments


def _append_block_number_to_parts(split_log: LogSplitter) -> LogSplitter:
    return lambda log: (*split_log(log), log.block)


def _build_multi_mapping_reader(
    readers: Sequence[_MappingReader], split_row: _RowSplitter
) -> Callable[[Any], Any]:
    """Return a reader that applies all matching mappings, in order.

    The reader raises MalformedError if no mapping matches.
    """

    def read_row(row: Log | Call) -> list[Any]:
        parts = split_row(row)
        events = list[Any]()
        is_matched = False
        for make, conditions in readers:
            if all(condition(parts) for condition in conditions):
                is_matched = True
                if make is not None:
                    events.append(make(row, parts, len(events)))
        if not is_matched:
            raise MalformedError("no event of the profile matches the values")
        return events

    return read_row


@dataclass(frozen=True, slots=True)
class _FieldCompiler:
    """Compiles the field getters and the conditions of one event or function."""

    compiler: MappingCompiler
    inputs: InputValues
    split_row: _RowSplitter

    def build_event_reader(self, mapping: EventMapping) -> RecordReader | None:
        """Return a function that builds the mapping's event from a log or call.

        The result is None if the mapping yields no event, or if it has a fault.
        """
        if mapping.event_type is None:
            return None
        fault_count = len(self.compiler.faults)
        getter_by_field = self._build_field_getters(mapping, mapping.event_type)
        if len(self.compiler.faults) > fault_count:
            return None
        return build_record_reader(mapping.event_type, getter_by_field, self.split_row)

    def _build_field_getters(
        self, mapping: EventMapping, event_type: type[DomainEvent]
    ) -> dict[str, Getter]:
        """Return a getter for every event field that the mapping fills."""
        field_kinds = get_field_kinds(event_type)
        required_fields = set(get_required_fields(event_type))
        for name in required_fields - mapping.value_by_field.keys():
            self.compiler.faults.append(
                f"{mapping.key}: {NAME_BY_TYPE[event_type]} requires the field {name}"
            )
        getter_by_field = dict[str, Getter]()
        for name, value in mapping.value_by_field.items():
            try:
                if name not in field_kinds:
                    name_suggestion = format_name_suggestion(name, field_kinds)
                    message = f"{NAME_BY_TYPE[event_type]} has no such field{name_suggestion}"
                    raise ValueError(message)  # noqa: TRY301  # beside the others
                if value.zero_is_absent and name in required_fields:
                    raise ValueError("zero_is_absent is only valid for optional fields")  # noqa: TRY301  # beside the others
                getter_by_field[name] = self._build_field_getter(name, value)
            except ValueError as error:
                self.compiler.faults.append(f"{mapping.key}.{name}: {error}")
        return getter_by_field

    def _build_field_getter(self, name: str, value: FieldValue) -> Getter:
        if not value.arguments:
            constant = value.constant
            return lambda _: constant
        typed_value = self.inputs.resolve_value(value)
        if not value.zero_is_absent:
            return self._build_enum_or_field_getter(name, value, typed_value)
        zero = find_zero_value(typed_value.abi_type)
        if zero is None:
            raise ValueError(f"{typed_value.type_description} has no zero value")
        return _build_optional_getter(
            zero, typed_value.getter, self._build_enum_or_field_getter(name, value, typed_value)
        )

    def _build_enum_or_field_getter(
        self, name: str, value: FieldValue, typed_value: TypedValue
    ) -> Getter:
        if value.enum is not None:
            enum = self.compiler.enums.get(value.enum)
            # A missing enum was already reported with its own faults.
            if enum is None:
                return typed_value.getter
            return build_enum_getter(enum, name, typed_value, _get_block_number)
        if name in ENUM_CLASS_BY_FIELD:
            raise ValueError(f"an enum is required, because {name} is an enumeration field")
        return build_field_getter(name, typed_value)

    def build_conditions(self, mapping: EventMapping) -> list[_Condition]:
        """Return a mapping's conditions as functions.

        Each function tests the parts of a log or call.
        """
        conditions = [self._build_condition(mapping, "when", path) for path in mapping.when]
        return conditions + [
            self._build_condition(mapping, "unless", path) for path in mapping.unless
        ]

    def _build_condition(self, mapping: EventMapping, condition_key: str, path: str) -> _Condition:
        literals = (mapping.when if condition_key == "when" else mapping.unless)[path]
        try:
            get_value, allowed_values = self._resolve_comparison(path, literals)
        except ValueError as error:
            self.compiler.faults.append(f"{mapping.key}.{condition_key}.{path}: {error}")
            return lambda _: False
        if condition_key == "when":
            return lambda parts: get_value(parts) in allowed_values
        return lambda parts: get_value(parts) not in allowed_values

    def _resolve_comparison(
        self, path: str, literals: Sequence[Literal]
    ) -> tuple[Getter, frozenset[Literal]]:
        """Return the getter of an argument, and the values with which it is compared."""
        typed_value = self.inputs.resolve_path(path)
        for literal in literals:
            if not can_equal_literal(typed_value.abi_type, literal):
                raise ValueError(f"{typed_value.type_description} never equals {literal!r}")
        is_hex = typed_value.abi_type not in {"string", "bool"} and not is_unsigned_type(
            typed_value.abi_type
        )
        return typed_value.getter, frozenset(
            str(value).lower() if is_hex else value for value in literals
        )


def _build_optional_getter(zero: str | int, get_raw_value: Getter, get_value: Getter) -> Getter:
    return lambda parts: None if get_raw_value(parts) == zero else get_value(parts)
