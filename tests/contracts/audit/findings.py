"""The findings of an analyser, by function and not by line, and the list of accepted ones.

`baseline.toml` names every current finding, with the reason why it is accepted. A finding that is
not in the list is an error, and so is an entry that is no longer found.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).parent / "baseline.toml"
HEAD = """\
# Findings of Slither and solhint, and why they are accepted (docs/reference/audit.md).
# `make slither` compares; `make slither ARGS=--write` writes the findings, new ones without a
# reason. A place is CONTRACT.FUNCTION, and the number of findings if there are several.
"""


@dataclass(frozen=True, order=True)
class Finding:
    """A detector's finding at one function (empty: the contract itself;
    without contracts, the file).
    """

    detector: str
    contract: str
    function: str

    @property
    def place(self) -> str:
        """Return the contract and the function."""
        return ".".join(filter(None, (self.contract, self.function)))

    def __str__(self) -> str:
        """Return the finding as it is printed."""
        return f"{self.detector} in {self.place}"


def load_baseline(tool: str, path: Path = BASELINE) -> Counter[Finding]:
    """Return the accepted findings of a tool, each as often as it occurs at that place.

    Raises:
        ValueError: an entry has no reason.
    """
    accepted_findings: Counter[Finding] = Counter()
    for entry in _entries(tool, path):
        if not entry["reason"].strip():
            raise ValueError(f"no reason: {entry}")
        accepted_findings += _findings(entry)
    return accepted_findings


def _entries(tool: str, path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text("utf-8")).get(tool, [])
    return entries


def _findings(entry: Mapping[str, Any]) -> Counter[Finding]:
    named: Counter[Finding] = Counter()
    for place in entry["places"]:
        where, _, times = place.partition(" x")
        contract, _, function = where.partition(".")
        named[Finding(entry["detector"], contract, function)] += int(times or 1)
    return named


def find_differences(
    current_findings: Iterable[Finding], accepted_findings: Counter[Finding]
) -> Iterator[str]:
    """Yield a line for each finding that is new, and for each that is gone."""
    here = Counter(current_findings)
    for finding, times in sorted((here - accepted_findings).items()):
        yield f"new: {finding} ({times})"
    for finding, times in sorted((accepted_findings - here).items()):
        yield f"gone, take it out of the baseline: {finding} ({times})"


def rewrite_baseline(tool: str, findings: Iterable[Finding], path: Path = BASELINE) -> str:
    """Return a tool's part of the baseline as it would be true: places that are gone are left out.

    A new finding gets an entry of its own with an empty reason, which you fill in.
    """
    unmatched = Counter(findings)
    parts = []
    for entry in _entries(tool, path):
        matched = _findings(entry) & unmatched
        unmatched -= matched
        parts.append(_entry(tool, entry["detector"], entry["reason"], matched))
    for detector in sorted({finding.detector for finding in unmatched}):
        new = Counter(
            {
                new_finding: times
                for new_finding, times in unmatched.items()
                if new_finding.detector == detector
            }
        )
        parts.append(_entry(tool, detector, "", new))
    return "\n".join(filter(None, parts))


def _entry(tool: str, detector: str, reason: str, places: Counter[Finding]) -> str:
    if not places:
        return ""
    named = sorted(
        f"{finding.place}{f' x{many}' if many > 1 else ''}" for finding, many in places.items()
    )
    lines = "".join(f'    "{place}",\n' for place in named)
    return f'[[{tool}]]\ndetector = "{detector}"\nreason = "{reason}"\nplaces = [\n{lines}]\n'
