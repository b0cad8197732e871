"""Writes the provenance of a release, and the hashes of its files with a signature.

The provenance is an in-toto statement (https://in-toto.io/Statement/v1) with SLSA's predicate for
provenance (https://slsa.dev/provenance/v1). It names the commit, the command and the locked
packages that made the files. It contains nothing about the machine, so every build of a commit has
the same statement.
"""

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from release.pins import FOLDER, ROOT
from release.wheels import hash_file

_BUILD_TYPE = "urn:qos-oracle:make-release:1"
_BUILDER = "urn:qos-oracle:release-manager"
_SIGNATURE_NAMESPACE = "qos-oracle-release"


def build_provenance(
    files: Iterable[Path], commit: str, debian_sources: Sequence[str] = ()
) -> str:
    """Build the provenance of the files that `make release` built from a commit.

    The result is JSON. Without `debian_sources`, the images contain the packages that Debian
    served at the time of the build.
    """
    lock_files = [*sorted(FOLDER.glob("*.txt")), ROOT / "package-lock.json"]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": hash_file(path)}} for path in sorted(files)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"command": "make release", "debian": list(debian_sources)},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *(
                        {
                            "name": str(path.relative_to(ROOT)),
                            "digest": {"sha256": hash_file(path)},
                        }
                        for path in lock_files
                    ),
                ],
            },
            "runDetails": {"builder": {"id": _BUILDER}},
        },
    }
    return f"{json.dumps(statement, indent=2)}\n"


def format_checksum_lines(files: Sequence[Path]) -> list[str]:
    """Format the lines of SHA256SUMS, which `sha256sum --check` can read."""
    return [f"{hash_file(path)}  {path.name}" for path in files]


def sign_file(path: Path, key: Path) -> None:
    """Sign a file with an SSH key, and write the signature to `FILE.sig` beside it.

    `key` is the file of the private key, or of the public key if an agent or a hardware token
    holds the private key. Because of the namespace, a signature that was made for something else,
    such as a Git commit, is not accepted.

    Raises:
        subprocess.CalledProcessError: ssh-keygen failed; its output is printed.
    """
    # Remove an existing signature. Otherwise ssh-keygen would ask before overwriting it.
    path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    command = ("ssh-keygen", "-Y", "sign", "-f", str(key), "-n", _SIGNATURE_NAMESPACE, str(path))
    subprocess.run(command, check=True)  # noqa: S603 - our own command
