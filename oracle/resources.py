"""Where files live that are not Python: migrations, ABIs, profiles, configurations, npm lists.

They stand at the top of the checkout and travel inside the wheel (decision 0001).
"""

from pathlib import Path

from oracle.errors import FatalError

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Return the path of a shipped file or folder, such as `abi` or `package.json`.

    Raises:
        FatalError: neither the wheel nor a checkout holds it; the installation is broken.
    """
    for floor in (_PACKAGE / "_shipped", _PACKAGE.parent):
        found = floor / name
        if found.exists():
            return found
    raise FatalError(f"{name} is missing from the installation: install qos-oracle again")
