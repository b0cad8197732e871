"""Builds the documentation site in a tar archive, for any web server."""

import gzip
import os
import subprocess
from pathlib import Path

from release.layers import write_tar
from release.pins import ROOT


def build_site(checkout: Path, folder: Path, version: str, epoch: int) -> Path:
    """Build the site of a checkout with the tools in .venv-docs.

    `python bootstrap.py docs` installs these tools.

    Raises:
        subprocess.CalledProcessError: a link is broken, or the build failed.
    """
    name = f"qos-oracle-docs-{version}"
    site_folder = folder / name / name
    command = (
        str(ROOT / ".venv-docs/bin/mkdocs"),
        "build",
        "--quiet",
        "--site-dir",
        str(site_folder),
    )
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "SOURCE_DATE_EPOCH": str(epoch),
    }
    subprocess.run(command, cwd=checkout, check=True, env=environment)  # noqa: S603 - our own command
    archive = write_tar(folder / name, folder / f"{name}.tar", epoch)
    packed_archive = folder / f"{name}.tar.gz"
    packed_archive.write_bytes(gzip.compress(archive.read_bytes(), mtime=0))
    return packed_archive
