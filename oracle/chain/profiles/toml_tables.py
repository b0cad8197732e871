"""Reads the tables of a profile file, and collects faults by key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oracle.chain.profiles.profile import Literal
from oracle.chain.profiles.value_paths import format_name_suggestion
from oracle.errors import InputError

Table = dict[str, Any]

# `$name` refers to an option or a constant of the profile.
_REFERENCE_PREFIX = "$"
_TYPE_NAMES = {bool: "true or false", int: "a number", str: "a string"}


@dataclass(slots=True)
class FaultCollector:
    """The faults of a file as `key: message`, in the order in which they were found."""

    file: str
    messages: list[str] = field(default_factory=list)

    def add_fault(self, key: str, message: str) -> None:
        self.messages.append(f"{key}: {message}")

    def check_keys(self, key: str, table: Mapping[str, object], allowed: Iterable[str]) -> None:
        """Add a fault for every key of the table that is not allowed."""
        allowed_keys = list(allowed)
        for name in table.keys() - set(allowed_keys):
            self.add_fault(
                f"{key}.{name}".lstrip("."),
                f"is not a key of a profile{format_name_suggestion(name, allowed_keys)}",
            )

    def get_tables(
        self, key: str, table: Mapping[str, object], min_count: int = 0
    ) -> dict[str, Any]:
        """Return the sub-tables of `table` under the last part of `key`, keyed by name."""
        tables = table.get(key.rpartition(".")[2], {})
        if not isinstance(tables, dict):
            self.add_fault(key, "must be a table")
            return {}
        if len(tables) < min_count:
            self.add_fault(key, "is missing")
        return tables

    def get_keyed_tables(self, key: str, raw_value: object) -> list[tuple[str, Table]]:
        """Return the tables in a value, each with its key.

        The value is a single table with this key, or a list of tables with keys of their own.
        """
        if isinstance(raw_value, dict):
            return [(key, raw_value)]
        if (
            isinstance(raw_value, list)
            and raw_value
            and all(isinstance(entry, dict) for entry in raw_value)
        ):
            if len(raw_value) == 1:
                return [(key, raw_value[0])]
            return [(f"{key}[{index}]", row) for index, row in enumerate(raw_value)]
        self.add_fault(key, "must be a table, or a list of tables: [[…]]")
        return []

    def raise_if_any(self) -> None:
        """Raise InputError if there are faults, with one line for each fault."""
        fault_lines = [f"{self.file}: {fault}" for fault in self.messages]
        if len(fault_lines) == 1:
            raise InputError(fault_lines[0])
        if fault_lines:
            raise InputError("\n".join([f"{self.file}: {len(fault_lines)} faults", *fault_lines]))


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """The option values, constants and enum names of a profile."""

    options: Mapping[str, Literal]
    constants: Mapping[str, object]
    enums: frozenset[str]

    @classmethod
    def from_document(
        cls, document: Table, overrides: Mapping[str, Literal], faults: FaultCollector
    ) -> "ProfileSettings":
        """Parse options and constants.

        `overrides` replace the defaults of the file.
        """
        default_options: dict[str, Literal] = {}
        for name, value in faults.get_tables("options", document).items():
            if isinstance(value, bool | int | str):
                default_options[name] = value
            else:
                faults.add_fault(f"options.{name}", "must be an integer, a string, true or false")
        for name, value in overrides.items():
            message = f"is set in [network] options, but {faults.file} has no such option"
            if name not in default_options:
                faults.add_fault(
                    f"options.{name}", message + format_name_suggestion(name, default_options)
                )
            elif type(value) is not type(default_options[name]):
                expected_type = _TYPE_NAMES[type(default_options[name])]
                message = f"is set in [network] options to {value!r}, but must be {expected_type}"
                faults.add_fault(f"options.{name}", message)
        constants = _parse_constants(document, default_options, faults)
        options = {
            **default_options,
            **{name: override for name, override in overrides.items() if name in default_options},
        }
        return cls(options, constants, frozenset(faults.get_tables("enums", document)))

    def is_reference(self, value: object) -> bool:
        """Return whether a value refers to an option or constant."""
        return isinstance(value, str) and value.startswith(_REFERENCE_PREFIX)

    def resolve_reference(self, raw_value: object) -> object:
        """Replace a `$name` reference by its option or constant.

        Any other value is returned unchanged.

        Raises:
            ValueError: there is no such option or constant.
        """
        if not isinstance(raw_value, str) or not raw_value.startswith(_REFERENCE_PREFIX):
            return raw_value
        name = raw_value.removeprefix(_REFERENCE_PREFIX)
        value_by_name = {**self.constants, **self.options}
        if name not in value_by_name:
            raise ValueError(
                f"there is no option or constant {name}"
                f"{format_name_suggestion(name, value_by_name)}"
            )
        return value_by_name[name]

    def parse_literals(self, raw_value: object) -> tuple[Literal, ...]:
        """Parse a single literal or a list of literals into a tuple.

        Raises:
            ValueError: the list is empty, a value is not an integer, string or boolean, or a
                value refers to an unknown option or constant.
        """
        literals: list[Literal] = []
        if raw_value == []:
            raise ValueError("the list is empty; expected at least one value")
        for entry in raw_value if isinstance(raw_value, list) else [raw_value]:
            value = self.resolve_reference(entry)
            if not isinstance(value, bool | int | str):
                raise ValueError("must be an integer, a string, true or false")  # noqa: TRY004  # a fault of the file
            literals.append(value)
        return tuple(literals)


def _parse_constants(
    document: Table, options: Mapping[str, Literal], faults: FaultCollector
) -> Mapping[str, object]:
    """Parse the constants, which are literals or lists of literals."""
    constants = faults.get_tables("constants", document)
    for name, value in constants.items():
        if name in options:
            faults.add_fault(f"constants.{name}", "has the same name as an option")
        literal_list = value if isinstance(value, list) else [value]
        if not all(isinstance(literal, bool | int | str) for literal in literal_list):
            faults.add_fault(f"constants.{name}", "must be numbers, strings, true or false")
    return constants
