"""Reads each version's section, and its breaking changes, from the changelog."""

import re
from collections.abc import Mapping

_VERSION_PATTERN = re.compile(r"\[([0-9][^\]]*)\]")
# The changes under this heading require a change to the configuration, a script or a contract.
_BREAKING_HEADING = "### Breaking changes"


def split_changelog_by_version(changelog: str) -> dict[str, str]:
    """Split the changelog into the text of each version, newest first."""
    releases = {}
    for section in changelog.split("\n## ")[1:]:
        if version_match := _VERSION_PATTERN.match(section):
            releases[version_match[1]] = f"## {section.strip()}\n"
    return releases


def list_breaking_changes(
    releases: Mapping[str, str], previous_version: str | None
) -> dict[str, list[str]]:
    """Return the breaking changes of each version newer than `previous_version`.

    If `previous_version` is None, the changes of all versions are returned. A version without
    breaking changes is left out.
    """
    changes_by_version = {}
    for version, section in releases.items():
        if version == previous_version:
            break
        _, _, text = section.partition(f"\n{_BREAKING_HEADING}\n")
        change_texts = re.split(r"^- ", text.partition("\n### ")[0], flags=re.MULTILINE)[1:]
        if change_texts:
            changes_by_version[version] = [" ".join(item.split()) for item in change_texts]
    return changes_by_version
