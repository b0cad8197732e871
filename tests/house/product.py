"""The packages that the wheel ships, as pyproject.toml names them, and their source files."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: tuple[str, ...] = tuple(
    _SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
)
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
