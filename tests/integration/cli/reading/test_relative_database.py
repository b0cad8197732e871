"""A relative SQLite path is resolved from its configuration file, not from the working folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from oracle.daemon.config.loader import resolve_config_relative_path


@pytest.mark.slow
def test_relative_database_path_does_not_depend_on_the_working_directory(tmp_path: Path):
    folder = tmp_path / "settings"
    elsewhere = tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    config = folder / "oracle.toml"
    config.touch(0o600)
    config.write_text(
        '[database]\nurl = "sqlite:///index.sqlite"\n[chain]\nid = 1\nendpoints = ["http://x"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "0x{20 * "11"}" }}\n',
        "utf-8",
    )
    for start, name in ((folder, "oracle.toml"), (elsewhere, "../settings/oracle.toml")):
        command = [sys.executable, "-m", "oracle", "migrate", "--config", name]
        done = subprocess.run(
            command, cwd=start, check=False, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    assert (folder / "index.sqlite").is_file()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["sqlite:////var/x.sqlite", "postgresql://me@db/oracle", "sqlite:///:memory:"]
)
def test_absolute_and_remote_database_urls_are_unchanged(url: str):
    written = {"database": {"url": url}}
    resolve_config_relative_path(Path("/etc/qos-oracle/config.toml"), written, "database", "url")
    assert written == {"database": {"url": url}}
