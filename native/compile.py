"""Compiles the native code into the wheel, with the compiler that was used for this Python."""

import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "oracle_native.abi3.so"
# At -O3, the compiler unrolls the rounds of a hash. This makes hashing three times as fast.
FLAGS = ("-std=c11", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden")


class CompilingHook(BuildHookInterface[Any]):
    """Puts a shared library into the wheel, for this platform and every Python from 3.11 on."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        self._folder = Path(mkdtemp(prefix="oracle-native-"))
        compile_into(self._folder / NAME, Path(self.root, "src"))
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"][str(self._folder / NAME)] = NAME

    def finalize(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def compile_into(made: Path, sources: Path, *flags: str) -> None:
    """Compile all sources into one library.

    Raises:
        CalledProcessError: the compiler failed; its messages are on standard error.
    """
    linking = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    named = (f"-I{sysconfig.get_path('include')}", *map(str, sorted(sources.glob("*.c"))))
    command = [*linking, *FLAGS, *flags, *named, "-lm", "-o", str(made)]
    subprocess.run(command, check=True)  # noqa: S603 - the compiler that made this Python
