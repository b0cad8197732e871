"""Builds the packages of a commit so that every build has the same bytes.

All inputs are fixed. Only the files of the commit are used as sources, all times are the time of
the commit (SOURCE_DATE_EPOCH), and constraints/build.txt pins the build tools.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.pins import ROOT


def get_commit_time(commit: str = "HEAD") -> int:
    """Return the time of a commit in unix seconds."""
    return int(_run_git("log", "-1", "--format=%ct", commit))


def get_commit_hash(commit: str = "HEAD") -> str:
    """Return the full hash of a commit."""
    return _run_git("rev-parse", commit).decode().strip()


def is_checkout_clean() -> bool:
    """Return whether the checkout has no uncommitted changes."""
    return not _run_git("status", "--porcelain")


def extract_sources(folder: Path, commit: str = "HEAD") -> Path:
    """Extract the files of a commit, and no others, into a new folder.

    The result is the folder.
    """
    folder.mkdir(parents=True)
    subprocess.run(  # noqa: S603 - of our own commit
        ["tar", "--extract", "--directory", str(folder)],  # noqa: S607 - tar is where it is
        input=_run_git("archive", "--format=tar", commit),
        check=True,
    )
    return folder


def build_wheel(checkout: Path, out: Path, epoch: int, **environment: str) -> Path:
    """Build a checkout's wheel in the folder `out`, and return its path.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out))
    _run_build((*command, str(checkout)), checkout, epoch, environment)
    (built_wheel,) = out.glob("*.whl")
    return built_wheel


def build_sdist(checkout: Path, out: Path, epoch: int) -> Path:
    """Build a checkout's source distribution in the folder `out`, and return its path.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    command = (sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out))
    _run_build((*command, str(checkout)), checkout, epoch, {})
    (built_sdist,) = out.glob("*.tar.gz")
    return built_sdist


def build_wheel_from_sdist(sdist: Path, folder: Path, epoch: int) -> Path:
    """Build a wheel from a source distribution, and return its path.

    The source distribution is extracted into a folder first.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    checkout = folder / sdist.name.removesuffix(".tar.gz")
    return build_wheel(checkout, folder / f"{checkout.name} out", epoch)


def pack_npm_package(folder: Path, out: Path) -> Path:
    """Pack the npm package in a folder into `out`, and return the archive's path.

    npm gives every file in the archive the same time, so the result is reproducible.

    Raises:
        subprocess.CalledProcessError: npm failed.
    """
    out.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm") or str(ROOT / ".venv/bin/npm")
    command = (npm, "pack", str(folder), "--json", "--ignore-scripts", f"--pack-destination={out}")
    npm_output = subprocess.run(  # noqa: S603 - our own command
        command, cwd=out, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    (package,) = json.loads(npm_output)
    return out / str(package["filename"])


def _run_build(
    command: Sequence[str], checkout: Path, epoch: int, environment: Mapping[str, str]
) -> None:
    subprocess.run(  # noqa: S603 - our own command
        command,
        cwd=checkout,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), **environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file's content, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run_git(*arguments: str) -> bytes:
    return subprocess.run(  # noqa: S603 - read only
        ["git", *arguments],  # noqa: S607 - git is where it is
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
