"""Writes what a release has beside its packages: notes, provenance and hashes.

The provenance is an in-toto statement (https://in-toto.io/Statement/v1) with SLSA's predicate for
provenance (https://slsa.dev/provenance/v1): which commit, command and locked packages made the
files. It contains nothing of the machine, so every build of a commit has the same statement.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from release.pins import FOLDER, ROOT
from release.wheels import sha256

_BUILD_TYPE = "urn:qos-oracle:make-release:1"
_BUILDER = "urn:qos-oracle:release-manager"


def build_provenance(files: Iterable[Path], commit: str) -> str:
    """Return the provenance of files that `make release` built from a commit, as JSON."""
    lock_files = [*sorted(FOLDER.glob("*.txt")), ROOT / "package-lock.json"]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": sha256(path)}} for path in sorted(files)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"command": "make release"},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *(
                        {"name": str(path.relative_to(ROOT)), "digest": {"sha256": sha256(path)}}
                        for path in lock_files
                    ),
                ],
            },
            "runDetails": {"builder": {"id": _BUILDER}},
        },
    }
    return f"{json.dumps(statement, indent=2)}\n"


def build_hash_lines(folder: Path, files: Sequence[Path]) -> list[str]:
    """Return the lines of SHA256SUMS in a folder, as `sha256sum --check` reads them there."""
    return [f"{sha256(path)}  {os.path.relpath(path, folder)}" for path in files]
