"""The baseline equals today's findings: nothing new is missing, nothing outdated is listed."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.contracts.audit.findings import BASELINE, Finding, find_differences, load_baseline
from tests.contracts.audit.halmos import (
    CHECKS,
    HOLDS,
    PROVEN_FILES,
    REFUTED,
    compute_files_digest,
    expected_exit_code,
)
from tests.contracts.audit.solhint import place

ROOT = Path(__file__).resolve().parents[3]
KNOWN = Finding("timestamp", "Rounds", "push")
SOURCES = {
    path: path.read_text("utf-8")
    for path in (ROOT / "contracts").rglob("*.sol")
    if "testing" not in path.parts
}


def test_finding_in_the_baseline_is_not_reported():
    assert [*find_differences([KNOWN], Counter([KNOWN]))] == []


def test_new_finding_is_reported():
    assert [*find_differences([KNOWN], Counter())] == ["new: timestamp in Rounds.push (1)"]


def test_second_finding_at_the_same_location_is_reported():
    assert [*find_differences([KNOWN, KNOWN], Counter([KNOWN]))] == [
        "new: timestamp in Rounds.push (1)"
    ]


def test_baseline_entry_without_a_finding_is_reported():
    (line,) = find_differences([], Counter([KNOWN]))
    assert line == "gone, take it out of the baseline: timestamp in Rounds.push (1)"


def test_baseline_entry_without_a_reason_is_rejected(tmp_path):
    entry = '[[slither]]\ndetector = "timestamp"\nplaces = ["Rounds.push"]\nreason = " "\n'
    (tmp_path / "baseline.toml").write_text(entry, "utf-8")
    with pytest.raises(ValueError, match="no reason"):
        load_baseline("slither", tmp_path / "baseline.toml")


@pytest.mark.parametrize("tool", ["slither", "solhint"])
def test_every_contract_in_the_baseline_exists(tool):
    text = "\n".join(SOURCES.values())
    stems = {path.stem for path in SOURCES}
    names = {finding.contract for finding in load_baseline(tool)} - {""}
    gone = {
        name
        for name in names
        if name not in stems and not re.search(rf"\b(?:contract|library|interface) {name}\b", text)
    }
    assert gone == set()


def test_baseline_has_fewer_than_450_lines():
    assert len(BASELINE.read_text("utf-8").splitlines()) < 450


def test_source_line_is_mapped_to_its_contract_and_function(tmp_path):
    source = tmp_path / "Some.sol"
    source.write_text(
        "pragma solidity 0.8.37;\nabstract contract Head {\n    uint256 private x;\n"
        "    function first() external {\n        x = 1;\n    }\n    constructor() {\n",
        "utf-8",
    )
    places = [place(source, line) for line in (1, 3, 5, 7)]
    assert places == [("Some", ""), ("Head", ""), ("Head", "first"), ("Head", "constructor")]


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_contract_has_checks_expected_to_hold_and_to_fail(name):
    text = (ROOT / f"tests/contracts/audit/checks/{name}.sol").read_text("utf-8")
    checks = re.findall(r"function (check_\w+)", text)
    assert {expected_exit_code(check) for check in checks} == {HOLDS, REFUTED}


@pytest.mark.parametrize(
    "path",
    [
        "contracts/roots/Rounds.sol",
        "package-lock.json",
        "constraints/audit.txt",
        "tests/contracts/audit/checks/LanesCheck.sol",
        "tests/contracts/audit/tools.py",
    ],
)
def test_digest_changes_if_a_proven_file_changes(tmp_path: Path, path: str):
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("first", "utf-8")
    digest = compute_files_digest(tmp_path)
    file.write_text("second", "utf-8")
    assert compute_files_digest(tmp_path) not in {digest, compute_files_digest(tmp_path / "empty")}


def list_imports(source: Path) -> set[Path]:
    """Return the sources of this repository that a source imports, directly or indirectly."""
    imported: set[Path] = set()
    # package-lock.json determines the sources of packages, whose names begin with @.
    for name in re.findall(r'^import [^"]*"([^"@]+)";', source.read_text("utf-8"), re.MULTILINE):
        folder = source.parent if name.startswith(".") else ROOT
        path = (folder / name).resolve()
        imported |= {path} | list_imports(path)
    return imported


def test_digest_covers_every_source_that_a_check_imports():
    proven = {path for pattern in PROVEN_FILES for path in ROOT.glob(pattern)}
    imported = {
        path
        for check in (ROOT / "tests/contracts/audit/checks").glob("*.sol")
        for path in list_imports(check)
    }
    assert ROOT / "contracts/IKickTarget.sol" in imported
    assert imported <= proven


def test_digest_covers_files_that_exist():
    for pattern in PROVEN_FILES:
        assert [*ROOT.glob(pattern)], pattern
