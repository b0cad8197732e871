"""Checks that a command rejects wrong input with one clear line on stderr and its exit code."""

from oracle.cli.main import run
from tests.support.cli.local_network import write


def refused(capsys, *arguments, code=2):
    """Return the one line on stderr; a traceback would have several lines."""
    assert run([*map(str, arguments)]) == code
    error_line = capsys.readouterr().err.strip()
    assert error_line.startswith("qos-oracle: ")
    assert "Traceback" not in error_line
    return error_line


def refused_run(capsys, settings, tmp_path, code=2):
    path = write(settings, tmp_path / "config.toml")
    line = refused(capsys, "run", "--once", "--config", path, code=code)
    assert "\n" not in line
    return line
