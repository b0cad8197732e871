"""The test vectors as named entries, without those that do not apply (tests/vectors)."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

Vector = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "vectors"
_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)
_REPLACED = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
# Facts about a section, which are not entries.
_ABOUT = {"source", "kind", "note", "profile", "formula", "persist_source", "_meta", "meta"}

# Sections that a test module runs: each entry that is not listed as not applicable.
RUN: set[str] = set()


def list_not_applicable() -> dict[str, str]:
    """Return the patterns of NOT_APPLICABLE.md with their reasons."""
    return dict(_ROW.findall((FOLDER / "NOT_APPLICABLE.md").read_text(encoding="utf-8")))


def list_superseded() -> dict[str, str]:
    """Return the patterns of SUPERSEDED.md, each with the pattern that replaces it."""
    text = (FOLDER / "SUPERSEDED.md").read_text(encoding="utf-8")
    return {row[0]: row[1] for row in _REPLACED.findall(text)}


def load_entries() -> dict[str, Any]:
    """Return every entry of every file by its name: file/section/entry."""
    entry_by_name: dict[str, Any] = {}
    for file in sorted(FOLDER.glob("*.json")):
        for section, body in json.loads(file.read_text(encoding="utf-8")).items():
            if section not in _ABOUT:
                entry_by_name |= _list_entries(f"{file.stem}/{section}", body)
    return entry_by_name


def _list_entries(section: str, body: Any) -> dict[str, Any]:
    if isinstance(body, list):
        return {f"{section}/{_format_entry_name(entry, n)}": entry for n, entry in enumerate(body)}
    if not isinstance(body, dict):
        return {section: body}
    entry_by_name: dict[str, Any] = {}
    for key, value in body.items():
        if key in _ABOUT:
            continue
        if isinstance(value, list):
            entry_by_name |= {f"{section}/{key}/{n}": entry for n, entry in enumerate(value)}
        else:
            entry_by_name[f"{section}/{key}"] = value
    return entry_by_name


def _format_entry_name(entry: Any, n: int) -> str:
    return str(entry["id"]) if isinstance(entry, dict) and "id" in entry else str(n)


def is_listed(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in list_not_applicable())


def vectors_of(section: str, *, file: str = "crynux") -> pytest.MarkDecorator:
    """Return a decorator that runs a test with each applicable entry of a section as `vector`."""
    prefix = f"{file}/{section}/"
    RUN.add(prefix)
    cases = [
        pytest.param(entry, id=name.removeprefix(prefix))
        for name, entry in load_entries().items()
        if name.startswith(prefix) and not is_listed(name)
    ]
    return pytest.mark.parametrize("vector", cases)


def load_vector(name: str, *, file: str = "crynux") -> Any:
    """Return one entry of a file."""
    RUN.add(f"{file}/{name}")
    return load_entries()[f"{file}/{name}"]


def load_named_vectors(section: str, *, file: str = "crynux") -> dict[str, Any]:
    """Return every applicable entry of a section by its own name."""
    prefix = f"{file}/{section}/"
    RUN.add(prefix)
    return {
        name.removeprefix(prefix): entry
        for name, entry in load_entries().items()
        if name.startswith(prefix) and not is_listed(name)
    }
