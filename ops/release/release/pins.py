"""Reads the files of constraints/: one version of each package, and the hashes of all its wheels.

They are requirement files of pip (`--require-hashes`) as uv writes them, with the packages that
ask for each one in a comment.
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
    """A package at the one version that may be installed.

    `marker` says where it is needed (empty: everywhere), `hashes` are sha256 in hex, `askers` the
    packages of the file that depend on it: none where the project alone does.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    askers: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The name of this very version among all packages of all languages."""
        return f"pkg:pypi/{normalized(self.name)}@{self.version}"


def normalized(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> list[Pin]:
    """Return what a file pins, in its order.

    Raises:
        ValueError: a line is none that uv writes, so that nothing of it is overlooked.
    """
    return [_pin(line) for line in _lines(path.read_text("utf-8"))]


def _lines(text: str) -> Iterator[str]:
    """Each pin as one line, with its hashes and the comment that follows them."""
    joined = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            if joined:
                yield joined
            joined = "" if line.startswith("#") else line.strip()
        else:
            joined = f"{joined.removesuffix(chr(92)).strip()} {line.strip()}"
    if joined:
        yield joined


def _pin(line: str) -> Pin:
    match = _PIN.fullmatch(line)
    if match is None:
        raise ValueError(f"no pin with hashes: {line[:99]}")
    return Pin(
        match["name"],
        match["version"],
        match["marker"] or "",
        tuple(_HASH.findall(match["hashes"])),
        tuple(match["via"].split(", ")) if match["via"] else (),
    )
