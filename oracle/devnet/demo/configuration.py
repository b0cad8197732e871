"""Writes the configuration that a daemon of ours needs: the shipped demo's, with what was made."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from oracle.resources import shipped

Settings = Mapping[str, Mapping[str, object]]


def write_configuration(path: Path, made: Settings) -> None:
    """Write `config/demo.toml` with the settings of `made` on top, section by section."""
    sections = {name: dict(keys) for name, keys in demo_settings().items()}
    for name, keys in made.items():
        sections.setdefault(name, {}).update(keys)
    lines = ["# Made for one run; goes with the chain that it was made for."]
    for name, keys in sections.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def demo_settings() -> Settings:
    """Return what the shipped demo configuration says."""
    settings: Settings = tomllib.loads(shipped("config/demo.toml").read_text("utf-8"))
    return settings


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    # JSON's strings, numbers, booleans and lists are TOML's.
    return json.dumps(str(value) if isinstance(value, Path) else value)
