"""Builds the wheel of a commit, such that whoever builds it anew gets the same bytes.

What could get in from outside is fixed: the sources are those of the commit and nothing that lies
beside them, times are the commit's (SOURCE_DATE_EPOCH), the build's tools are those of
constraints/build.txt.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from release.pins import ROOT


def commit_time(commit: str = "HEAD") -> int:
    """When the commit was made, unix seconds."""
    return int(_git("log", "-1", "--format=%ct", commit))


def is_clean() -> bool:
    """Tell whether what lies here is what is committed."""
    return not _git("status", "--porcelain")


def sources(folder: Path, commit: str = "HEAD") -> Path:
    """Put the files of a commit, and no others, into a new folder."""
    folder.mkdir(parents=True)
    subprocess.run(  # noqa: S603 - of our own commit
        ["tar", "--extract", "--directory", str(folder)],  # noqa: S607 - tar is where it is
        input=_git("archive", "--format=tar", commit),
        check=True,
    )
    return folder


def build_wheel(checkout: Path, out: Path, epoch: int, **environment: str) -> Path:
    """Build the wheel of a checkout into a folder of its own; return its file.

    Raises:
        subprocess.CalledProcessError: it does not build.
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
    """The hash of a file's bytes, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(*arguments: str) -> bytes:
    return subprocess.run(  # noqa: S603 - read only
        ["git", *arguments],  # noqa: S607 - git is where it is
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
