"""A third-party project that installed the npm package of the contracts."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "consumer"


def run(*command: str, cwd: Path) -> str:
    """Run a command and return its output."""
    program = shutil.which(command[0]) or str(ROOT / ".venv" / "bin" / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install_package(folder: Path) -> None:
    """Pack the contracts and install the package into an empty folder, without a registry."""
    cache = ("--cache", str(folder / "cache"))
    packed = run("npm", "pack", str(ROOT / "contracts"), "--json", *cache, cwd=folder)
    (package,) = json.loads(packed)
    (folder / "package.json").write_text('{"name": "consumer", "private": true}', "utf-8")
    run("npm", "install", "--offline", f"./{package['filename']}", *cache, cwd=folder)


def compile_files(project: Path, *arguments: str) -> str:
    """Compile files of the project; see consumer/compile.mjs."""
    return run("node", str(HERE / "compile.mjs"), str(project), *arguments, cwd=project)


def build_artifacts(project: Path, *files: str) -> dict[str, dict[str, Any]]:
    """Return the ABI and the bytecode of each contract of these files, by its name."""
    return dict(json.loads(compile_files(project, "--build", *files)))
