"""Checks that a command rejects wrong input with one clear line on stderr and its exit code."""

from oracle.cli.main import run
from tests.support.cli.local_network import write_config


def run_refused_command(capsys, *arguments, code=2):
    """Run a command that must be refused, and return its only line on stderr.

    A traceback would have several lines.
    """
    assert run([*map(str, arguments)]) == code
    error_line = capsys.readouterr().err.strip()
    assert error_line.startswith("qos-oracle: ")
    assert "Traceback" not in error_line
    return error_line


def run_with_refused_settings(capsys, settings, tmp_path, code=2):
    path = write_config(settings, tmp_path / "config.toml")
    line = run_refused_command(capsys, "run", "--once", "--config", path, code=code)
    assert "\n" not in line
    return line
