"""Only the owner can read files with secrets: configurations and databases."""

from pathlib import Path

import pytest

from oracle.daemon.config.loader import read_config
from oracle.store.database import Store
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command

TOKEN = "0123456789abcdef0123"  # noqa: S105  made for this test


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ({"chain": {"endpoints": [f"https://rpc.example/v3/{TOKEN}"]}}, 0o644),
        ({"chain": {"websocket": f"wss://rpc.example/?key={TOKEN}"}}, 0o640),
        ({"database": {"url": f"postgresql://oracle:{TOKEN}@localhost/oracle"}}, 0o604),
        ({"reporters": {"peers": [f"https://peer.example/{TOKEN}"]}}, 0o660),
        ({"chain": {"endpoints": [f"https://{TOKEN}@rpc.example/"]}}, 0o644),
        ({"chain": {"endpoints": [f"https://{TOKEN[:8]}:@rpc.example/"]}}, 0o644),
        ({"chain": {"endpoints": [f"https://a{TOKEN}.rpc.example/"]}}, 0o644),
    ],
)
def test_world_readable_configuration_with_secret_is_rejected(
    capsys, offline_settings, tmp_path, written, mode
):
    for section, settings in written.items():
        offline_settings[section] = offline_settings.get(section, {}) | settings
    path = write_config(offline_settings, tmp_path / "config.toml")
    path.chmod(mode)
    line = run_refused_command(capsys, "status", "--config", path)
    assert line.rstrip().endswith(
        "config.toml: other users have access to this file; run `chmod 600` on it"
    )
    assert TOKEN not in line


def test_private_configuration_with_secret_is_accepted(offline_settings, tmp_path):
    offline_settings["chain"]["endpoints"] = [f"https://rpc.example/v3/{TOKEN}"]
    path = write_config(offline_settings, tmp_path / "config.toml")
    for mode in (0o600, 0o400):
        path.chmod(mode)
        assert read_config(path).chain.id == offline_settings["chain"]["id"]


def test_configuration_without_secret_may_be_world_readable(
    offline_settings, tmp_path, monkeypatch
):
    path = write_config(offline_settings, tmp_path / "config.toml")
    path.chmod(0o644)
    # A secret in the environment is not in the file.
    monkeypatch.setenv("QOS_ORACLE_CHAIN__ENDPOINTS", f"https://rpc.example/v3/{TOKEN}")
    assert TOKEN in read_config(path).chain.endpoints[0]


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def test_new_sqlite_database_files_are_private(tmp_path):
    with Store.open(f"sqlite:///{tmp_path / 'new.sqlite'}", create=True) as store:
        with store.transaction() as uow:
            uow.lease.acquire("somebody", 1.0)
        assert modes(tmp_path) == dict.fromkeys(
            ("new.sqlite", "new.sqlite-wal", "new.sqlite-shm"), 0o600
        )


def test_existing_sqlite_database_becomes_private_when_opened(tmp_path):
    path = tmp_path / "old.sqlite"
    with Store.open(f"sqlite:///{path}", create=True):
        path.chmod(0o644)
    with Store.open(f"sqlite:///{path}") as store, store.transaction():
        assert set(modes(tmp_path).values()) == {0o600}


def test_write_protected_sqlite_database_stays_protected(tmp_path):
    path = tmp_path / "old.sqlite"
    with Store.open(f"sqlite:///{path}", create=True):
        path.chmod(0o444)
    with Store.open(f"sqlite:///{path}") as store, store.read_transaction():
        assert modes(tmp_path)[path.name] == 0o400
