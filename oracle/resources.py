"""Finds shipped data files, and formats commands that run the program or add packages.

Migrations, ABIs, profiles, configurations and npm lists are at the top of the checkout; a wheel
contains copies of them (decision 0001).
"""

import shlex
import shutil
import sys
from importlib.metadata import requires
from pathlib import Path

from oracle.errors import FatalError

_PACKAGE = Path(__file__).resolve().parent
_PROGRAM = "qos-oracle"


def find_shipped_path(name: str) -> Path:
    """Return the path of a shipped file or folder, such as `abi` or `package.json`.

    Raises:
        FatalError: neither the wheel nor a checkout has it, so the installation is broken.
    """
    for base_path in (_PACKAGE / "_shipped", _PACKAGE.parent):
        path = base_path / name
        if path.exists():
            return path
    raise FatalError(f"{name}: missing from the installation; reinstall qos-oracle")


def format_program_command(*arguments: object) -> str:
    """Return a `qos-oracle` command line that can be pasted into a shell.

    The program is given by name if it is on the PATH, otherwise by its full path.
    """
    program = Path(sys.argv[0]).absolute()
    if program.name != _PROGRAM:
        command = [sys.executable, "-m", "oracle"]
    elif (installed_program := shutil.which(_PROGRAM)) and Path(installed_program).samefile(
        program
    ):
        command = [_PROGRAM]
    else:
        command = [str(program)]
    return shlex.join([*command, *map(str, arguments)])


def format_install_command(extra: str) -> str:
    """Return the pip command that installs an extra's packages for this Python interpreter.

    The command names the packages instead of the extra, because qos-oracle itself is not on a
    package index. The same command works for a checkout and for a wheel.
    """
    extra_marker = f"extra == '{extra}'"
    requirements = [
        requirement.replace('"', "'").partition(";") for requirement in requires(_PROGRAM) or ()
    ]
    extra_packages = [
        name.strip() for name, _, condition in requirements if condition.strip() == extra_marker
    ]
    return shlex.join([sys.executable, "-m", "pip", "install", *extra_packages])
