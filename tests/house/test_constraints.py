"""constraints/ pins each package by its hash, and all requirements."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

import pytest
from packaging.requirements import Requirement

from release.constraints import get_requirements_by_file, parse_package_names, read_project
from release.pins import FOLDER, Pin, normalize_name, read_pins

REQUIREMENTS_BY_FILE = get_requirements_by_file(read_project())
NAMES = sorted(REQUIREMENTS_BY_FILE)


def list_pinned_packages(name: str) -> set[str]:
    return {normalize_name(pin.name) for pin in read_pins(FOLDER / f"{name}.txt")}


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_is_pinned(name):
    assert parse_package_names(REQUIREMENTS_BY_FILE[name]) <= list_pinned_packages(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_pin_has_wheel_hashes(name):
    assert [pin.name for pin in read_pins(FOLDER / f"{name}.txt") if not pin.hashes] == []


@pytest.mark.parametrize("name", ["run", "build"])
def test_tested_packages_equal_installed_packages(name):
    """`./check` installs the same bytes as an operator's installation."""
    tested = {(pin.name, pin.version): set(pin.hashes) for pin in read_pins(FOLDER / "check.txt")}
    differing_pins = [
        pin
        for pin in read_pins(FOLDER / f"{name}.txt")
        if tested.get((pin.name, pin.version)) != set(pin.hashes)
    ]
    assert differing_pins == []


@pytest.mark.parametrize("name", NAMES)
def test_lock_satisfies_every_requirement_of_its_packages(name):
    """pip's resolver is not used, so it does not notice that a lock lacks a package.

    The requirements are those of the packages installed here, and so those for this Python. `pip
    check` does the same wherever a lock is installed.

    Read from the packages that are installed here, and so for this Python. `pip check` does the
    same wherever a lock is installed.
    """
    versions = {normalize_name(pin.name): pin.version for pin in read_pins(FOLDER / f"{name}.txt")}
    missing = [
        f"{caller}: {requirement}"
        for caller, requirement in reachable(
            [Requirement(line) for line in REQUIREMENTS_BY_FILE[name]]
        )
        if not requirement.specifier.contains(
            versions.get(normalize_name(requirement.name), ""), prereleases=True
        )
    ]
    assert missing == []


def reachable(requirements: list[Requirement]) -> Iterator[tuple[str, Requirement]]:
    """Yield each direct or indirect requirement with the package that requires it.

    The requirements of extras are included.
    """
    queue = [
        ("pyproject.toml", dependency) for dependency in requirements if applies(dependency, set())
    ]
    visited: set[tuple[str, str]] = set()
    while queue:
        caller, requirement = queue.pop()
        yield caller, requirement
        for extra in {"", *requirement.extras}:
            if (requirement.name, extra) not in visited:
                visited.add((requirement.name, extra))
                nested = requirements_of(requirement.name)
                queue += [
                    (requirement.name, dependency)
                    for dependency in nested
                    if applies(dependency, {extra})
                ]


def applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def requirements_of(package: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in requires(package) or ()]
    except PackageNotFoundError:
        return []


def test_every_package_that_requires_a_pin_is_itself_pinned():
    """Otherwise the bill of materials would have an edge that leads nowhere."""
    pins = read_pins(FOLDER / "run.txt")
    dependents = {normalize_name(dependent) for pin in pins for dependent in pin.dependents}
    assert dependents <= list_pinned_packages("run")


def test_pin_is_parsed_with_marker_hashes_and_requiring_packages(tmp_path):
    first = "a" * 64
    second = "b" * 64
    (tmp_path / "some.txt").write_text(
        f"# a comment\nCoin.curve==21.0.0 ; python_full_version < '3.14' \\\n"
        f"    --hash=sha256:{first} \\\n    --hash=sha256:{second}\n    # via trie, eth-keys\n",
        "utf-8",
    )
    (pin,) = read_pins(tmp_path / "some.txt")
    marker = "python_full_version < '3.14'"
    assert pin == Pin("Coin.curve", "21.0.0", marker, (first, second), ("trie", "eth-keys"))
    assert pin.purl == "pkg:pypi/coin-curve@21.0.0"


def test_pin_without_a_hash_is_rejected(tmp_path):
    (tmp_path / "some.txt").write_text("pytest==9.2.0\n", "utf-8")
    with pytest.raises(ValueError, match=r"not a pinned version with hashes: pytest==9\.2\.0"):
        read_pins(tmp_path / "some.txt")
