"""Parses a parameter grid: the systems, and the values to try for some of their rules."""

import json
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from lab.backtest.system_columns import Grid, SystemBase

_GRID_KEYS = {"rules", "set"}


def parse_grid(text: str, find_base: Callable[[str], SystemBase], *, is_toml: bool) -> Grid:
    """Parse a grid such as `{"rules": "crynux", "set": {"penalty": ["0.3", "0.5"]}}`.

    `rules` may also be a list of systems. `find_base` returns the system with a name.

    Raises:
        ValueError: the text is invalid, or a key is missing, unknown or of the wrong type.
    """
    grid_object = _parse_object(text, is_toml=is_toml)
    for key in grid_object:
        if key not in _GRID_KEYS:
            raise ValueError(f"{key}: no such key; expected rules and set")
    names = grid_object.get("rules")
    names = [names] if isinstance(names, str) else names
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError("rules: must be a system (name or file) or a list of systems")
    if len(set(names)) < len(names):
        raise ValueError("rules: a system is given twice")
    values_by_key = grid_object.get("set")
    if not isinstance(values_by_key, dict) or not values_by_key:
        raise ValueError("set: must list the values to try for at least one rule")
    values_by_rule = _flatten_keys(values_by_key)
    return Grid(
        [find_base(name) for name in names],
        {rule: _parse_values(rule, values_by_rule[rule]) for rule in values_by_rule},
    )


def _parse_object(text: str, *, is_toml: bool) -> Mapping[str, Any]:
    try:
        parsed = tomllib.loads(text) if is_toml else json.loads(text)
    except ValueError as error:
        raise ValueError(f"not {'TOML' if is_toml else 'JSON'}: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(parsed, dict):
        raise ValueError("must be an object with the keys rules and set")  # noqa: TRY004 - the text is at fault
    return parsed


def _flatten_keys(values_by_key: Mapping[str, Any]) -> dict[str, Any]:
    """Convert nested tables to dotted names; TOML parses `legacy.vram_weight` as a table."""
    flat: dict[str, Any] = {}
    for key, value in values_by_key.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner_key}": inner_value for inner_key, inner_value in value.items()}
        else:
            flat[key] = value
    return flat


def _parse_values(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"set.{key}: must be a list of values to try")
    texts = [_format_value(key, value) for value in values]
    if len(set(texts)) < len(texts):
        raise ValueError(f"set.{key}: a value is given twice")
    return texts


def _format_value(key: str, value: object) -> str:
    """Return a value as text, in the format that `--set` accepts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_format_value(key, item) for item in value)
    if value is None:
        return "none"
    if not isinstance(value, str | int | float):
        raise ValueError(f"set.{key}: {value!r} cannot be the value of a rule")  # noqa: TRY004 - as above
    return str(value)
