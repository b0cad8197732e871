"""Makes constraints/ anew: `make constraints`, with ARGS=--upgrade for the newest versions.

One file for each purpose (docs/how-to/release.md#pinned-versions). uv resolves for every Python
and platform at once, and writes down the hashes of all wheels of a version; without --upgrade,
versions stay as they are. It asks the index of pip's own settings, which no file names.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from bootstrap import pip_setting
from release.pins import FOLDER, ROOT, normalized

_HEAD = "# Made by `make constraints`; versions are raised on purpose, in a commit of their own.\n"
_COMPILE = (
    *("pip", "compile", "-", "--universal", "--python-version", "3.11", "--generate-hashes"),
    # A wheel runs nothing when it is installed; one version for every Python, where there is one.
    *("--only-binary", ":all:", "--fork-strategy", "fewest"),
    *("--annotation-style", "line", "--no-header", "--no-config", "--quiet"),
)
# That a version is as in check.txt is no news.
_LIKE = re.compile(r"(?:, |\n {4}# via )-c [\w./]+(?=\n|$)")
# Where pip's settings have it, what uv is told by.
_SETTINGS = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE"}


def project() -> Mapping[str, Any]:
    """Return what pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def purposes(project_table: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return what each file begins from; those after `check` take their versions from it."""
    extras = project_table["project"]["optional-dependencies"]
    run = project_table["project"]["dependencies"]
    # What builds the wheel, and what makes a checkout importable.
    build = [*project_table["build-system"]["requires"], "editables"]
    tested = [
        *(*extras["dev"], *extras["kms"], *extras["notify"]),
        *(*extras["otel"], *extras["parquet"]),
    ]
    return {
        "check": [*build, *run, *tested],
        "build": build,
        "run": run,
        "node": extras["node"],
        "notify": extras["notify"],
        "otel": extras["otel"],
        "audit": project_table["dependency-groups"]["audit"],
        "docs": project_table["dependency-groups"]["docs"],
    }


def names(lines: Sequence[str]) -> set[str]:
    """Return the packages that requirements are of, as indexes compare them."""
    return {normalized(re.split(r"[\[<>=;! ]", line)[0]) for line in lines}


def main(flags: Sequence[str]) -> int:
    """Write every file; the exit code is uv's first that is not 0."""
    FOLDER.mkdir(exist_ok=True)
    for name, requirements in purposes(project()).items():
        if code := _compile(name, requirements, flags):
            return code
    return 0


def _compile(name: str, requirements: Sequence[str], flags: Sequence[str]) -> int:
    """Uv takes the versions of the file that is there, and puts another in its place."""
    path = FOLDER / f"{name}.txt"
    like = ("--constraint", str(FOLDER / "check.txt")) if name in ("build", "run") else ()
    uv = (sys.executable, "-m", "uv", *_COMPILE, *like, *flags, "--output-file", str(path))
    done = subprocess.run(  # noqa: S603 - uv of the environment
        uv,
        input="\n".join(requirements),
        cwd=ROOT,
        env={**os.environ, **_of_pip()},
        text=True,
        check=False,
        stdout=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        written = path.read_text("utf-8").removeprefix(_HEAD)
        path.write_text(_HEAD + _LIKE.sub("", written), "utf-8")
    return done.returncode


def _of_pip() -> dict[str, str]:
    """A password in the address of an index stays in the environment, and so off the screen."""
    settings = {name: pip_setting(setting) for setting, name in _SETTINGS.items()}
    return {name: value for name, value in settings.items() if value}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
