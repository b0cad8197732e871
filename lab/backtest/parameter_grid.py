"""Reads a grid: systems, and values to try for some of their rules."""

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from lab.backtest.system_columns import Grid, SystemBase

_KEYS = {"rules", "set"}


def read_grid(text: str, basis: Callable[[str], SystemBase], *, is_toml: bool) -> Grid:
    """Parse a grid such as `{"rules": "crynux", "set": {"penalty": ["0.3", "0.5"]}}`.

    `rules` may be a list of several. `find_base` returns the system of a name.

    Raises:
        ValueError: the text is invalid, or a key is missing, unknown or of the wrong type.
    """
    told = _object(text, is_toml=is_toml)
    for key in told:
        if key not in _KEYS:
            raise ValueError(f"{key}: no such key (there is rules and set)")
    names = told.get("rules")
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ValueError("rules: must be a rule set, or a list of them")
    if len(set(names)) < len(names):
        raise ValueError("rules: names a rule set twice")
    tried = told.get("set")
    if not isinstance(tried, dict) or not tried:
        raise ValueError("set: must say for at least one rule which values to try")
    flat = _flat(tried)
    return Grid([basis(name) for name in names], {k: _values(k, flat[k]) for k in flat})


def _object(text: str, *, is_toml: bool) -> Mapping[str, Any]:
    try:
        told = tomllib.loads(text) if is_toml else json.loads(text)
    except ValueError as error:
        raise ValueError(f"not {'TOML' if is_toml else 'JSON'}: {error}") from None
    except RecursionError:
        raise ValueError("too many brackets") from None
    if not isinstance(told, dict):
        raise ValueError("must be an object with rules and set")  # noqa: TRY004 - the text is at fault
    return told


def _flat(tried: Mapping[str, Any]) -> dict[str, Any]:
    """Convert nested tables to dotted names; TOML parses `legacy.vram_weight` as a table."""
    flat: dict[str, Any] = {}
    for key, value in tried.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return flat


def _values(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"set.{key}: must be a list of values to try")
    said = [_text(key, value) for value in values]
    if len(set(said)) < len(said):
        raise ValueError(f"set.{key}: names a value twice")
    return said


def _text(key: str, value: object) -> str:
    """Return a value as `--set` accepts it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_text(key, each) for each in value)
    if value is None:
        return "none"
    if not isinstance(value, str | int | float):
        raise ValueError(f"set.{key}: {value!r} is no value of a rule")  # noqa: TRY004 - as above
    return str(value)
