"""Runs the real daemon in another process, and serves web pages from its database."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from oracle.daemon.config.loader import read_config
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.errors import FatalError
from oracle.resources import find_shipped_path

# The daemon stops within ten seconds of SIGTERM. More time is allowed, because some machines start
# processes slowly.
_STOP_TIMEOUT_SECONDS = 60


class DemoDaemon:
    """A running process of `qos-oracle run` that writes its log lines to a file."""

    def __init__(self, command: Sequence[str], configuration: Path, log_path: Path) -> None:
        self._command = command
        self.configuration = configuration
        self._log_path = log_path
        self._process = self._spawn_process({})

    def _spawn_process(self, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        with self._log_path.open("ab") as log_file:
            return subprocess.Popen(  # noqa: S603 - ourselves
                self._command,
                env={**os.environ, **settings},
                stdout=log_file,
                stderr=log_file,
                # In a process group of its own, the daemon does not receive Ctrl-C. The demo does,
                # and shuts the daemon down in order.
                process_group=0,
            )

    def restart(self, settings: Mapping[str, str]) -> None:
        """Stop the daemon, and start it with additional environment variables.

        Raises:
            FatalError: the daemon does not stop in time.
        """
        self.stop()
        self._process = self._spawn_process(settings)

    def kill(self) -> None:
        """Kill the daemon process if it is running."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def raise_if_ended(self) -> None:
        """Raise FatalError with the last log line if the daemon ended unexpectedly."""
        if (exit_code := self._process.poll()) is not None:
            log_lines = self._log_path.read_text("utf-8", "replace").strip().splitlines()
            last_line = log_lines[-1] if log_lines else "no output"
            raise FatalError(f"the daemon ended with exit code {exit_code}: {last_line}")

    def stop(self) -> int:
        """Stop the daemon by SIGTERM, as systemd does, and return its exit code.

        Raises:
            FatalError: the daemon did not end in time and was killed.
        """
        self._process.terminate()
        try:
            return self._process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise FatalError(f"the daemon did not stop within {_STOP_TIMEOUT_SECONDS} s") from None


# A test replaces this program to make the daemon fail.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "oracle")


# Options of a daemon that sends transactions.
SENDING_OPTIONS = ("--publish", "--dispatch")


@contextmanager
def run_daemon(
    configuration: Path,
    log_path: Path,
    program: Sequence[str] = PROGRAM,
    run_options: Sequence[str] = SENDING_OPTIONS,
) -> Iterator[DemoDaemon]:
    """Run the daemon with a configuration.

    Without `run_options` it only indexes and scores.
    """
    command = [*program, "run", "--config", str(configuration), *run_options]
    daemon_process = DemoDaemon(command, configuration, log_path)
    try:
        yield daemon_process
    finally:
        daemon_process.kill()


SettingsBySection = Mapping[str, Mapping[str, object]]


def write_configuration(
    path: Path, settings: SettingsBySection, omitted_sections: Collection[str] = ()
) -> None:
    """Write the settings of `config/demo.toml` to `path`, with some of them overridden.

    `settings` contains the overriding settings. The file does not contain the sections
    `omitted_sections`.
    """
    shipped_settings = {
        name: keys for name, keys in read_demo_settings().items() if name not in omitted_sections
    }
    settings_by_section = {name: dict(keys) for name, keys in shipped_settings.items()}
    for name, keys in settings.items():
        settings_by_section.setdefault(name, {}).update(keys)
    lines = ["# Generated for one run; only valid for the local chain of that run."]
    for name, keys in settings_by_section.items():
        lines += ["", f"[{name}]"]
        lines += [f"{key} = {_format_toml_value(value)}" for key, value in keys.items()]
    # The file may contain a database password, so only its owner may read it.
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def read_demo_settings() -> SettingsBySection:
    """Read the settings of the demo configuration that is shipped."""
    settings: SettingsBySection = tomllib.loads(
        find_shipped_path("config/demo.toml").read_text("utf-8")
    )
    return settings


def _format_toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        table_text = ", ".join(
            f"{key} = {_format_toml_value(item)}" for key, item in value.items()
        )
        return f"{{ {table_text} }}"
    # Strings, numbers, booleans and lists are written in TOML as in JSON.
    return json.dumps(str(value) if isinstance(value, Path) else value)


@contextmanager
def serve_demo_pages(
    configuration: Path,
    get_head: Callable[[], int],
    get_chain_time: Callable[[], int],
    get_phase: Callable[[], DemoPhase],
) -> Iterator[str]:
    """Serve the pages of a daemon's database from this process, and yield the URL.

    The daemon cannot serve them, because the pages also show the demo's current phase. `get_head`,
    `get_chain_time` and `get_phase` may be called from any thread.
    """
    # Imported here, because importing the server takes a second and `demo --help` must stay quick.
    from oracle.daemon.event_readers import open_reader  # noqa: PLC0415
    from oracle.daemon.records import open_records  # noqa: PLC0415
    from oracle.daemon.startup import open_read_api  # noqa: PLC0415
    from oracle.daemon.web.http_server import serve_app  # noqa: PLC0415

    with open_records(read_config(configuration)) as records:
        reader = open_reader(records.config)
        read_api = open_read_api(
            records, reader, get_head, clock=get_chain_time, get_phase=get_phase
        )
        api_section = records.config.api
        with serve_app(read_api, api_section, api_section.port) as address:
            yield address
