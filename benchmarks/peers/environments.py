"""Installs peers with locked versions, each in its own environment under build/peers/."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS_FOLDER = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / "build" / "peers"


class PeerUnavailableError(Exception):
    """A peer cannot be installed or run here; the message gives the reason."""


def install_python_requirements(requirements: Path) -> Path:
    """Install a lock file with hashes into a virtual environment; return the path of its Python.

    Raises:
        PeerUnavailableError: a package is not available for this platform, or its hash differs.
    """
    folder = ENVIRONMENTS / requirements.parent.name
    python = folder / "bin" / "python"
    if _is_installed(folder, requirements):
        return python
    print(f"installing {requirements.parent.name} into {folder.relative_to(ROOT)}", flush=True)
    run_installer([sys.executable, "-m", "venv", "--clear", folder])
    run_installer(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", requirements]
    )
    shutil.copy(requirements, folder / "installed")
    return python


def install_npm_project(project: Path) -> Path:
    """Copy a project and install its `package-lock.json`; return the path of the copy.

    Raises:
        PeerUnavailableError: npm is missing, or a package is not available.
    """
    folder = ENVIRONMENTS / project.name
    lock = project / "package-lock.json"
    if _is_installed(folder, lock):
        shutil.copytree(project, folder, dirs_exist_ok=True)
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise PeerUnavailableError("npm is not on the PATH")
    print(f"installing {project.name} into {folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(project, folder)
    run_installer([npm, "ci", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts"])
    shutil.copy(lock, folder / "installed")
    return folder


def _is_installed(folder: Path, lock: Path) -> bool:
    """Return whether an environment was completed with this lock file."""
    marker_path = folder / "installed"
    return marker_path.exists() and marker_path.read_bytes() == lock.read_bytes()


def run_installer(command: list[str | Path]) -> None:
    """Run a command that installs or builds.

    Raises:
        PeerUnavailableError: it failed; the message has its first line about an error.
    """
    completed_process = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed_process.returncode != 0:
        lines = [
            line
            for line in completed_process.stdout.splitlines()
            + completed_process.stderr.splitlines()
            if "rror" in line
        ]
        raise PeerUnavailableError(f"it does not install: {(lines or ['unknown'])[0].strip()}")
