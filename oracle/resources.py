"""Files installed beside the code that are not Python, the program's command, optional packages.

Migrations, ABIs, profiles, configurations and npm lists are at the top of the checkout, and are
included in the wheel (decision 0001).
"""

import shlex
import shutil
import sys
from importlib.metadata import requires
from pathlib import Path

from oracle.errors import FatalError

_PACKAGE = Path(__file__).resolve().parent
_PROGRAM = "qos-oracle"


def shipped(name: str) -> Path:
    """Return the path of a shipped file or folder, such as `abi` or `package.json`.

    Raises:
        FatalError: neither the wheel nor a checkout has it, so the installation is broken.
    """
    for floor in (_PACKAGE / "_shipped", _PACKAGE.parent):
        found = floor / name
        if found.exists():
            return found
    raise FatalError(f"{name} is missing from the installation: install qos-oracle again")


def program_command(*arguments: object) -> str:
    """Return a `qos-oracle` command line that works when pasted into a shell.

    The program is given by name if it is on the PATH, otherwise by its full path.
    """
    program = Path(sys.argv[0]).absolute()
    if program.name != _PROGRAM:
        words = [sys.executable, "-m", "oracle"]
    elif (on_path := shutil.which(_PROGRAM)) and Path(on_path).samefile(program):
        words = [_PROGRAM]
    else:
        words = [str(program)]
    return shlex.join([*words, *map(str, arguments)])


def extra_command(extra: str) -> str:
    """Return the command that installs the packages of an extra into this Python.

    The packages are listed instead of the extra, because qos-oracle itself is on no package index:
    the command works for a checkout and for a wheel.
    """
    marker = f"extra == '{extra}'"
    lines = [line.replace('"', "'").partition(";") for line in requires(_PROGRAM) or ()]
    packages = [name.strip() for name, _, condition in lines if condition.strip() == marker]
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
