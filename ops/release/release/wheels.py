"""Builds the wheel of a commit reproducibly: every build has the same bytes.

All inputs are fixed. The sources are the files of the commit and no others, times are the commit's
(SOURCE_DATE_EPOCH), and constraints/build.txt pins the build tools.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from release.pins import ROOT


def get_commit_time(commit: str = "HEAD") -> int:
    """Return the time of a commit in Unix seconds."""
    return int(_git("log", "-1", "--format=%ct", commit))


def is_clean() -> bool:
    """Return whether the checkout has no uncommitted changes."""
    return not _git("status", "--porcelain")


def extract_sources(folder: Path, commit: str = "HEAD") -> Path:
    """Extract the files of a commit, and no others, into a new folder; return the folder."""
    folder.mkdir(parents=True)
    subprocess.run(  # noqa: S603 - of our own commit
        ["tar", "--extract", "--directory", str(folder)],  # noqa: S607 - tar is where it is
        input=_git("archive", "--format=tar", commit),
        check=True,
    )
    return folder


def build_wheel(checkout: Path, out: Path, epoch: int, **environment: str) -> Path:
    """Build the wheel of a checkout into the folder `out`; return the wheel's path.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out))
    build_environment = {"SOURCE_DATE_EPOCH": str(epoch), **environment}
    subprocess.run(  # noqa: S603 - our own command
        (*command, str(checkout)),
        cwd=checkout,
        env={**os.environ, **build_environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (built,) = out.glob("*.whl")
    return built


def sha256(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(*arguments: str) -> bytes:
    return subprocess.run(  # noqa: S603 - read only
        ["git", *arguments],  # noqa: S607 - git is where it is
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
