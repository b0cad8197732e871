"""Reads the tables of a profile's file, and collects faults by key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oracle.chain.profiles.profile import Literal
from oracle.chain.profiles.value_paths import hint
from oracle.errors import InputError

Table = dict[str, Any]

# `$name` refers to an option or a constant of the profile.
_SETTING = "$"
_KINDS = {bool: "true or false", int: "a number", str: "a text"}


@dataclass(slots=True)
class Faults:
    """The faults of a file as `key: message`, in the order in which they were found."""

    file: str
    found: list[str] = field(default_factory=list)

    def add(self, key: str, words: str) -> None:
        """Add a fault."""
        self.found.append(f"{key}: {words}")

    def unknown(self, key: str, table: Mapping[str, object], allowed: Iterable[str]) -> None:
        """Add a fault for every key of the table that is not allowed."""
        known = list(allowed)
        for name in table.keys() - set(known):
            self.add(f"{key}.{name}".lstrip("."), f"is no key of a profile{hint(name, known)}")

    def tables(self, key: str, table: Mapping[str, object], least: int = 0) -> dict[str, Any]:
        """Return the tables under the last part of a key, by name."""
        found = table.get(key.rpartition(".")[2], {})
        if not isinstance(found, dict):
            self.add(key, "must be a table")
            return {}
        if len(found) < least:
            self.add(key, "is missing")
        return found

    def rows(self, key: str, written: object) -> list[tuple[str, Table]]:
        """Return one table or several, each with its key."""
        if isinstance(written, dict):
            return [(key, written)]
        if isinstance(written, list) and written and all(isinstance(r, dict) for r in written):
            if len(written) == 1:
                return [(key, written[0])]
            return [(f"{key}[{place}]", row) for place, row in enumerate(written)]
        self.add(key, "must be a table, or several: [[…]]")
        return []

    def raise_any(self) -> None:
        """Raise InputError with a line for each fault, if there are any."""
        lines = [f"{self.file}: {fault}" for fault in self.found]
        if len(lines) == 1:
            raise InputError(lines[0])
        if lines:
            raise InputError("\n".join([f"{self.file}: {len(lines)} faults", *lines]))


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective options, the constants, and the names of the enums."""

    options: Mapping[str, Literal]
    constants: Mapping[str, object]
    enums: frozenset[str]

    @classmethod
    def of(cls, written: Table, chosen: Mapping[str, Literal], faults: Faults) -> "Settings":
        """Parse options and constants; `overrides` replace the defaults of the file."""
        defaults: dict[str, Literal] = {}
        for name, value in faults.tables("options", written).items():
            if isinstance(value, bool | int | str):
                defaults[name] = value
            else:
                faults.add(f"options.{name}", "must be a number, a text, true or false")
        for name, value in chosen.items():
            words = f"is set in [network] options, and {faults.file} has no such option"
            if name not in defaults:
                faults.add(f"options.{name}", words + hint(name, defaults))
            elif type(value) is not type(defaults[name]):
                kind = _KINDS[type(defaults[name])]
                words = f"is set in [network] options to {value!r}, and must be {kind}"
                faults.add(f"options.{name}", words)
        constants = _constants(written, defaults, faults)
        options = {**defaults, **{name: v for name, v in chosen.items() if name in defaults}}
        return cls(options, constants, frozenset(faults.tables("enums", written)))

    def is_setting(self, value: object) -> bool:
        """Return whether a value refers to an option or constant."""
        return isinstance(value, str) and value.startswith(_SETTING)

    def value(self, written: object) -> object:
        """Return the option or constant that `$name` refers to, and any other value unchanged.

        Raises:
            ValueError: there is no such option or constant.
        """
        if not isinstance(written, str) or not written.startswith(_SETTING):
            return written
        name, known = written.removeprefix(_SETTING), {**self.constants, **self.options}
        if name not in known:
            raise ValueError(f"there is no option or constant {name}{hint(name, known)}")
        return known[name]

    def literals(self, written: object) -> tuple[Literal, ...]:
        """Return one or several literals to compare with.

        Raises:
            ValueError: a value is not a number, text or boolean, refers to an unknown option or
                constant, or the list is empty.
        """
        found: list[Literal] = []
        if written == []:
            raise ValueError("is an empty list: nothing is ever in it")
        for one in written if isinstance(written, list) else [written]:
            value = self.value(one)
            if not isinstance(value, bool | int | str):
                raise ValueError("must be a number, a text, true or false")  # noqa: TRY004  # a fault of the file
            found.append(value)
        return tuple(found)


def _constants(
    written: Table, options: Mapping[str, Literal], faults: Faults
) -> Mapping[str, object]:
    """Return the constants: literals, and lists of literals."""
    constants = faults.tables("constants", written)
    for name, value in constants.items():
        if name in options:
            faults.add(f"constants.{name}", "there is an option of this name")
        listed = value if isinstance(value, list) else [value]
        if not all(isinstance(one, bool | int | str) for one in listed):
            faults.add(f"constants.{name}", "must be numbers, texts, true or false")
    return constants
