"""A wall clock that a test sets back or forth for real processes, by a preloaded library."""

import os
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")
_COMPILER = str(sysconfig.get_config_var("CC") or "cc").split()[0]

needs_compiler = pytest.mark.skipif(
    shutil.which(_COMPILER) is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ,
    reason="no C compiler: apt-get install gcc libc6-dev",
)


class SteppedClock:
    """Compiles the library into `folder`; start processes with `environment`."""

    def __init__(self, folder: Path) -> None:
        library = folder / "stepped_clock.so"
        self._offset = folder / "clock_offset"
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
        command = [_COMPILER, *flags, "-o", str(library), str(_SOURCE)]
        subprocess.run(command, check=True)
        self.step(0)
        self.environment = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._offset)}

    def step(self, seconds: int) -> None:
        """Set the wall clock `seconds` off the machine's clock."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as written:
            written.write(struct.pack("=q", seconds))
