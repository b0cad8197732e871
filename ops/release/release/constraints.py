"""Generates constraints/ (`make constraints`).

ARGS=--upgrade selects the newest versions. There is one file for each purpose
(docs/how-to/release.md#pinned-versions). uv resolves the versions for all Pythons and platforms at
once, and writes the hashes of all wheels of a version. Without --upgrade, existing versions are
kept. The package index comes from pip's settings, and is not named in any file.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from bootstrap import read_pip_setting
from release.pins import FOLDER, ROOT, normalize_name

_HEADER = (
    "# Made by `make constraints`; versions are raised on purpose, in a commit of their own.\n"
)
_UV_ARGUMENTS = (
    *("pip", "compile", "-", "--universal", "--python-version", "3.11", "--generate-hashes"),
    # Only wheels are permitted, because installing a wheel runs no code. As far as possible, all
    # Python versions get the same version of a package.
    *("--only-binary", ":all:", "--fork-strategy", "fewest"),
    *("--annotation-style", "line", "--no-header", "--no-config", "--quiet"),
)
# This pattern matches the note that check.txt determines a version, so that the note can be
# removed.
_CONSTRAINT_ANNOTATION = re.compile(r"(?:, |\n {4}# via )-c [\w./]+(?=\n|$)")
# Settings of pip, and the environment variable that passes each of them to uv.
_VARIABLE_BY_SETTING = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE"}


def read_project() -> Mapping[str, Any]:
    """Read and parse pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def get_requirements_by_file(project_table: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the direct requirements of each constraints file.

    The versions in `build` and `run` are the same as those in `check`.
    """
    optional_dependencies = project_table["project"]["optional-dependencies"]
    run_requirements = project_table["project"]["dependencies"]
    # An editable installation of a checkout needs `editables`.
    build_requirements = [*project_table["build-system"]["requires"], "editables"]
    check_requirements = [
        *(
            *optional_dependencies["dev"],
            *optional_dependencies["kms"],
            *optional_dependencies["notify"],
        ),
        *(*optional_dependencies["otel"], *optional_dependencies["parquet"]),
    ]
    return {
        "check": [*build_requirements, *run_requirements, *check_requirements],
        "build": build_requirements,
        "run": run_requirements,
        "node": optional_dependencies["node"],
        "notify": optional_dependencies["notify"],
        "otel": optional_dependencies["otel"],
        "audit": project_table["dependency-groups"]["audit"],
        "docs": project_table["dependency-groups"]["docs"],
    }


def parse_package_names(lines: Sequence[str]) -> set[str]:
    """Return the normalized package names of requirements."""
    return {normalize_name(re.split(r"[\[<>=;! ]", line)[0]) for line in lines}


def main(flags: Sequence[str]) -> int:
    """Write every constraints file.

    The result is the first exit code of uv that is not zero, or 0.
    """
    FOLDER.mkdir(exist_ok=True)
    for name, requirements in get_requirements_by_file(read_project()).items():
        if exit_code := _compile_constraints(name, requirements, flags):
            return exit_code
    return 0


def _compile_constraints(name: str, requirements: Sequence[str], flags: Sequence[str]) -> int:
    """Resolve one file with uv, keeping existing versions if possible."""
    path = FOLDER / f"{name}.txt"
    constraint_options = (
        ("--constraint", str(FOLDER / "check.txt")) if name in ("build", "run") else ()
    )
    uv_command = (
        sys.executable,
        "-m",
        "uv",
        *_UV_ARGUMENTS,
        *constraint_options,
        *flags,
        "--output-file",
        str(path),
    )
    completed_process = subprocess.run(  # noqa: S603 - uv of the environment
        uv_command,
        input="\n".join(requirements),
        cwd=ROOT,
        env={**os.environ, **_build_uv_environment()},
        text=True,
        check=False,
        stdout=subprocess.DEVNULL,
    )
    if completed_process.returncode == 0:
        constraints_text = path.read_text("utf-8").removeprefix(_HEADER)
        path.write_text(_HEADER + _CONSTRAINT_ANNOTATION.sub("", constraints_text), "utf-8")
    return completed_process.returncode


def _build_uv_environment() -> dict[str, str]:
    """Build environment variables for uv from pip's settings.

    They are passed in the environment, because an index URL may contain a password that must not
    be printed.
    """
    environment_settings = {
        name: read_pip_setting(setting) for setting, name in _VARIABLE_BY_SETTING.items()
    }
    return {name: value for name, value in environment_settings.items() if value}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
