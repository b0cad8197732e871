"""Parses the contracts of a profile: their ABI, and the mapping of each event and call.

A mapping has the keys `says`, `when` and `unless`, and a key for each field of the event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from oracle.chain.decode.abi import AbiSignature, parse_signature, parse_signatures
from oracle.chain.hex_names import HexNameError, parse_address
from oracle.chain.profiles.profile import (
    Contract,
    EventMapping,
    FieldValue,
    Literal,
    MappedSignature,
)
from oracle.chain.profiles.profile_compiler import MappingCompiler
from oracle.chain.profiles.toml_tables import FaultCollector, ProfileSettings, Table
from oracle.chain.profiles.value_paths import format_name_suggestion
from oracle.domain.events.jsonl import parse_field_value
from oracle.domain.events.network_events import TYPE_BY_NAME, DomainEvent

_KEYS = ("abi", "address", "start_block", "proxy", "events", "calls")
_JSON_SUFFIX = ".json"


def parse_contract(
    name: str,
    raw_value: object,
    *,
    folder: Path,
    settings: ProfileSettings,
    compiler: MappingCompiler,
    faults: FaultCollector,
) -> Contract | None:
    """Parse a contract, or return None if `raw_value` is not a table.

    ABI files are looked up below `folder`; faults are added to `faults`.
    """
    contract_key = f"contracts.{name}"
    if not isinstance(raw_value, dict):
        faults.add_fault(contract_key, "must be a table")
        return None
    faults.check_keys(contract_key, raw_value, _KEYS)
    abi = _ContractAbi(contract_key, {"event": [], "function": []})
    abi.load_entries(raw_value.get("abi", []), folder, faults)
    parse_mapped = partial(
        _parse_mapped_signatures, abi, settings=settings, compiler=compiler, faults=faults
    )
    events = parse_mapped("event", faults.get_tables(f"{contract_key}.events", raw_value))
    calls = parse_mapped("function", faults.get_tables(f"{contract_key}.calls", raw_value))
    if not {"events", "calls"} & raw_value.keys():
        faults.add_fault(contract_key, "needs events or calls; the contract has neither")
    _report_ambiguous_events(contract_key, events, faults)
    return Contract(
        name,
        tuple(events),
        tuple(calls),
        _parse_optional_address(contract_key, raw_value, faults),
        _parse_start_block(contract_key, raw_value, faults),
        is_proxy=_parse_boolean(f"{contract_key}.proxy", raw_value.get("proxy", False), faults),
    )


@dataclass(frozen=True, slots=True)
class _ContractAbi:
    """The signatures of one contract's events and functions."""

    key: str
    signatures_by_kind: Mapping[str, list[AbiSignature]]

    def load_entries(self, raw_value: object, folder: Path, faults: FaultCollector) -> None:
        """Add signatures that are given as text or in JSON ABI files."""
        for entry in raw_value if isinstance(raw_value, list) else [raw_value]:
            try:
                self._load_entry(entry, folder)
            except ValueError as error:
                faults.add_fault(f"{self.key}.abi", f"{entry!r}: {error}")

    def _load_entry(self, entry: object, folder: Path) -> None:
        if not isinstance(entry, str):
            raise ValueError("must be a signature, or the name of a JSON file")  # noqa: TRY004  # a fault of the file
        if not entry.endswith(_JSON_SUFFIX):
            signature_kind, signature = parse_signature(entry)
            self.signatures_by_kind[signature_kind].append(signature)
            return
        try:
            document = msgspec.json.decode((folder / entry).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise ValueError(f"the file cannot be read: {error}") from None
        entries = document.get("abi") if isinstance(document, dict) else document
        if not isinstance(entries, list):
            raise ValueError("the file contains no ABI list")  # noqa: TRY004  # a fault of the file
        for signature_kind, signatures in self.signatures_by_kind.items():
            signatures.extend(parse_signatures(entries, signature_kind))

    def find_signatures(self, signature_kind: str, name: str) -> list[AbiSignature]:
        """Return the signatures with this name or full text.

        It does not matter which inputs are indexed.
        """
        return [
            signature
            for signature in self.signatures_by_kind[signature_kind]
            if name in (signature.name, signature.text)
        ]


def _parse_mapped_signatures(
    abi: _ContractAbi,
    signature_kind: str,
    table: Table,
    *,
    settings: ProfileSettings,
    compiler: MappingCompiler,
    faults: FaultCollector,
) -> list[MappedSignature]:
    """Return the events or functions of a table that have an enabled mapping.

    Options enable or disable mappings.
    """
    mapped_signatures: list[MappedSignature] = []
    for name, rows in table.items():
        key = f"{abi.key}.{_TABLE_BY_KIND[signature_kind]}.{name}"
        signatures = abi.find_signatures(signature_kind, name)
        if not signatures:
            known_names = {
                known_signature.name for known_signature in abi.signatures_by_kind[signature_kind]
            }
            faults.add_fault(
                key,
                f"the ABI has no {signature_kind} {name}"
                f"{format_name_suggestion(name, known_names)}",
            )
        active_mappings, inactive_mappings = parse_event_mappings(key, rows, settings, faults)
        compile_mapping = (
            compiler.compile_event if signature_kind == "event" else compiler.compile_call
        )
        for signature in signatures:
            if any(signature is mapped.signature for mapped in mapped_signatures):
                faults.add_fault(key, f"{signature.text} is mapped by an earlier key already")
            if inactive_mappings:
                # Mappings that the options disable are compiled too, but only to report their
                # faults.
                compile_mapping(signature, inactive_mappings)
            mapped_signature = (
                compile_mapping(signature, active_mappings) if active_mappings else None
            )
            if mapped_signature is not None:
                mapped_signatures.append(mapped_signature)
    return mapped_signatures


_TABLE_BY_KIND = {"event": "events", "function": "calls"}


def _report_ambiguous_events(
    key: str, events: Sequence[MappedSignature], faults: FaultCollector
) -> None:
    """Report events whose logs cannot be told apart.

    Logs with the same first topic are distinguished by their number of topics, and by the length
    of their data.
    """
    text_by_shape: dict[tuple[object, ...], str] = {}
    for event in events:
        signature = event.signature
        topic_count = sum(parameter.indexed for parameter in signature.inputs)
        log_shape = (signature.digest, topic_count, event.data_length)
        if log_shape in text_by_shape:
            message = "is in the ABI twice, and its logs cannot be distinguished"
            faults.add_fault(f"{key}.abi", f"{signature.text} {message}")
        text_by_shape[log_shape] = signature.text


def _parse_optional_address(key: str, table: Table, faults: FaultCollector) -> str | None:
    address = table.get("address")
    if address is None:
        return None
    try:
        return parse_address(str(address))
    except HexNameError as error:
        faults.add_fault(f"{key}.address", str(error))
        return None


def _parse_start_block(key: str, table: Table, faults: FaultCollector) -> int | None:
    block = table.get("start_block")
    if block is None or (type(block) is int and block >= 0):
        return block
    faults.add_fault(f"{key}.start_block", "must be a block number")
    return None


def _parse_boolean(key: str, raw_value: object, faults: FaultCollector) -> bool:
    if isinstance(raw_value, bool):
        return raw_value
    faults.add_fault(key, "must be true or false")
    return False


NO_EVENT = "nothing"
_CONTROL_KEYS = ("says", "when", "unless")
_VALUE_KEYS = ("argument", "constant", "enum", "zero_is_absent")


def parse_event_mappings(
    key: str, raw_value: object, settings: ProfileSettings, faults: FaultCollector
) -> tuple[list[EventMapping], list[EventMapping]]:
    """Parse the mappings of an event or call, and return enabled and disabled ones.

    Options enable or disable mappings.
    """
    active_mappings = list[EventMapping]()
    inactive_mappings = list[EventMapping]()
    for row_key, table in faults.get_keyed_tables(key, raw_value):
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
        (active_mappings if is_active else inactive_mappings).append(mapping)
    return active_mappings, inactive_mappings


def _parse_event_type(key: str, table: Table, faults: FaultCollector) -> type[DomainEvent] | None:
    type_name = table.get("says")
    if type_name == NO_EVENT:
        return None
    if not isinstance(type_name, str):
        faults.add_fault(
            f"{key}.says", f"is missing; expected the name of a domain event, or `{NO_EVENT}`"
        )
        return None
    if type_name not in TYPE_BY_NAME:
        suggestion = format_name_suggestion(type_name, TYPE_BY_NAME)
        faults.add_fault(f"{key}.says", f"{type_name!r} is not a domain event{suggestion}")
        return None
    return TYPE_BY_NAME[type_name]


def _parse_conditions(
    key: str, table: Table, settings: ProfileSettings, faults: FaultCollector
) -> tuple[list[bool], Mapping[str, tuple[Literal, ...]]]:
    """Parse a mapping's conditions on options and on arguments.

    The result has the results for options and the permitted values for arguments. A result is
    whether the condition on an option is met. The permitted values are by argument.
    """
    option_results = list[bool]()
    literals_by_argument = dict[str, tuple[Literal, ...]]()
    for path, raw_literals in faults.get_tables(key, table).items():
        try:
            literals = settings.parse_literals(raw_literals)
            if settings.is_reference(path):
                option_results.append(
                    _matches_option_condition(settings.resolve_reference(path), literals)
                )
            else:
                literals_by_argument[path] = literals
        except ValueError as error:
            faults.add_fault(f"{key}.{path}", str(error))
    return option_results, literals_by_argument


def _matches_option_condition(option_value: object, literals: Sequence[Literal]) -> bool:
    """Return whether an option has one of these values.

    Raises ValueError if the types differ.
    """
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
    argument_value = _parse_arguments(table["argument"])
    enum = table.get("enum")
    zero_is_absent = table.get("zero_is_absent", False)
    if enum is not None and not isinstance(enum, str):
        raise ValueError("enum must be the name of an enum")
    if enum is not None and enum not in settings.enums:
        raise ValueError(f"there is no enum {enum}{format_name_suggestion(enum, settings.enums)}")
    if not isinstance(zero_is_absent, bool):
        raise ValueError("zero_is_absent must be true or false")  # noqa: TRY004  # a fault of the file
    return FieldValue(argument_value.arguments, argument_value.is_list, None, enum, zero_is_absent)


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
