"""The real daemon as an operator runs it: a separate process, configured by a settings file."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from oracle.errors import FatalError
from oracle.resources import shipped_path

# The daemon stops within ten seconds of SIGTERM; starting processes may be slow on some machines.
_PATIENCE_SECONDS = 60


class Daemon:
    """A running `qos-oracle run` whose log lines go to a file."""

    def __init__(self, command: Sequence[str], configuration: Path, log: Path) -> None:
        self._command = command
        self.configuration = configuration
        self._log = log
        self._running = self._start({})

    def _start(self, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as lines:
            return subprocess.Popen(  # noqa: S603 - ourselves
                self._command,
                env={**os.environ, **settings},
                stdout=lines,
                stderr=lines,
                # Ctrl-C must reach only the demo, which stops the daemon in order.
                process_group=0,
            )

    def restart(self, settings: Mapping[str, str]) -> None:
        """Stop the daemon and start it with additional environment variables.

        Raises:
            FatalError: the daemon does not stop in time.
        """
        self.stop()
        self._running = self._start(settings)

    def kill(self) -> None:
        """Kill the daemon process if it is running."""
        if self._running.poll() is None:
            self._running.kill()
        self._running.wait()

    def check(self) -> None:
        """Raise FatalError with the last log line if the daemon has ended by itself."""
        if (code := self._running.poll()) is not None:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else "it said nothing"
            raise FatalError(f"the daemon ended with exit code {code}: {last}")

    def stop(self) -> int:
        """Stop the daemon with SIGTERM, as systemd does, and return its exit code.

        Raises:
            FatalError: the daemon does not end in time; it is killed.
        """
        self._running.terminate()
        try:
            return self._running.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise FatalError(f"the daemon did not end in {_PATIENCE_SECONDS} s") from None


# Tests replace this program to make the daemon fail.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "oracle")


# Options of a daemon that sends transactions.
SENDING = ("--publish", "--dispatch")


@contextmanager
def daemon(
    configuration: Path,
    log: Path,
    program: Sequence[str] = PROGRAM,
    sending: Sequence[str] = SENDING,
) -> Iterator[Daemon]:
    """Run the daemon with a configuration; without `run_options` it only indexes and scores."""
    command = [*program, "run", "--config", str(configuration), *sending]
    running = Daemon(command, configuration, log)
    try:
        yield running
    finally:
        running.kill()


Settings = Mapping[str, Mapping[str, object]]


def write_configuration(path: Path, made: Settings, without: Collection[str] = ()) -> None:
    """Write the settings of `config/demo.toml` to `path`, overridden by those of `settings`.

    The sections in `omitted_sections` are left out.
    """
    shown = {name: keys for name, keys in demo_settings().items() if name not in without}
    sections = {name: dict(keys) for name, keys in shown.items()}
    for name, keys in made.items():
        sections.setdefault(name, {}).update(keys)
    lines = ["# Made for one run; goes with the chain that it was made for."]
    for name, keys in sections.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    # The file may contain a database password, so only the owner may read it.
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def demo_settings() -> Settings:
    """Return the settings of the shipped demo configuration."""
    settings: Settings = tomllib.loads(shipped_path("config/demo.toml").read_text("utf-8"))
    return settings


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    # Strings, numbers, booleans and lists are written the same in JSON and TOML.
    return json.dumps(str(value) if isinstance(value, Path) else value)
