"""Parses the files of constraints/, which pin packages and the hashes of their wheels.

They are pip's requirement files for `--require-hashes`, written by uv. For each package, a comment
lists the packages that depend on it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "constraints"

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,.-]+\])?==(?P<version>[\w.!+]+)"
    r"(?: ; (?P<marker>[^#\\]+?))?(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
    r"(?: # via (?P<via>.+))?"
)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A package and its pinned version.

    `marker` is the environment marker, or empty if the package is needed everywhere. `hashes` are
    SHA-256 hashes in hex. `dependents` are the packages that depend on this one, empty if only the
    project does.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    dependents: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL (purl) of this version."""
        return f"pkg:pypi/{normalize_name(self.name)}@{self.version}"


def normalize_name(name: str) -> str:
    """Normalize a package name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> list[Pin]:
    """Read the pins of a file in order.

    Raises:
        ValueError: a line is not in uv's format, because no line may be skipped silently.
    """
    return [_parse_pin(line) for line in _iter_pin_lines(path.read_text("utf-8"))]


def _iter_pin_lines(text: str) -> Iterator[str]:
    """Yield each pin on one line, with its hashes and the following comment."""
    pin_line = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            if pin_line:
                yield pin_line
            pin_line = "" if line.startswith("#") else line.strip()
        else:
            pin_line = f"{pin_line.removesuffix(chr(92)).strip()} {line.strip()}"
    if pin_line:
        yield pin_line


def _parse_pin(line: str) -> Pin:
    match = _PIN.fullmatch(line)
    if match is None:
        raise ValueError(f"not a pinned version with hashes: {line[:99]}")
    return Pin(
        match["name"],
        match["version"],
        match["marker"] or "",
        tuple(_HASH.findall(match["hashes"])),
        tuple(match["via"].split(", ")) if match["via"] else (),
    )
