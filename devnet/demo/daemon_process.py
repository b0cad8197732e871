"""The real daemon, as an operator runs it: a process of its own, told everything by settings."""

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

# SIGTERM ends it in ten seconds at most; a machine that starts processes may be slow.
_PATIENCE_SECONDS = 60


class Daemon:
    """A running `qos-oracle run`; its log lines go to a file."""

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
                # Ctrl-C goes to the process that runs the show, which ends the daemon in order.
                process_group=0,
            )

    def restart(self, settings: Mapping[str, str]) -> None:
        """Stop the daemon and start it with these environment variables.

        Raises:
            FatalError: the daemon does not stop in time.
        """
        self.stop()
        self._running = self._start(settings)

    def kill(self) -> None:
        """End the daemon, if it runs, without waiting for its own end."""
        if self._running.poll() is None:
            self._running.kill()
        self._running.wait()

    def check(self) -> None:
        """Raise FatalError when it has ended by itself, with its last log line."""
        if (code := self._running.poll()) is not None:
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else "it said nothing"
            raise FatalError(f"the daemon ended with exit code {code}: {last}")

    def stop(self) -> int:
        """Ask it to end, as systemd would; return its exit code.

        Raises:
            FatalError: it does not end in time; it is killed.
        """
        self._running.terminate()
        try:
            return self._running.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise FatalError(f"the daemon did not end in {_PATIENCE_SECONDS} s") from None


# Tests put a program of their own here, to break what the daemon does.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "oracle")


# What a daemon of ours is told to do beside indexing.
SENDING = ("--publish", "--dispatch")


@contextmanager
def daemon(
    configuration: Path,
    log: Path,
    program: Sequence[str] = PROGRAM,
    sending: Sequence[str] = SENDING,
) -> Iterator[Daemon]:
    """Run the daemon with this configuration; without `sending` it indexes and scores alone."""
    command = [*program, "run", "--config", str(configuration), *sending]
    running = Daemon(command, configuration, log)
    try:
        yield running
    finally:
        running.kill()


Settings = Mapping[str, Mapping[str, object]]


def write_configuration(path: Path, made: Settings, without: Collection[str] = ()) -> None:
    """Write `config/demo.toml` with the settings of `made` on top, section by section.

    Sections of the file that are in `without` are left out.
    """
    shown = {name: keys for name, keys in demo_settings().items() if name not in without}
    sections = {name: dict(keys) for name, keys in shown.items()}
    for name, keys in made.items():
        sections.setdefault(name, {}).update(keys)
    lines = ["# Made for one run; goes with the chain that it was made for."]
    for name, keys in sections.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    # It may hold the password of a database, and is read by nobody else then.
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def demo_settings() -> Settings:
    """Return what the shipped demo configuration says."""
    settings: Settings = tomllib.loads(shipped_path("config/demo.toml").read_text("utf-8"))
    return settings


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    # JSON's strings, numbers, booleans and lists are TOML's.
    return json.dumps(str(value) if isinstance(value, Path) else value)
