"""The environment of the process that folds the next rules."""

from pathlib import Path

import pytest

from oracle.daemon.config.loader import read_config
from oracle.daemon.rules_previews import start_preview_worker
from oracle.resources import find_shipped_path

# Names under which a key may be stored: a setting, `keys.signer_env`, those of libraries.
KEY_VARIABLES = (
    *("QOS_ORACLE_KEYS__SIGNER_PASSWORD", "PGP_SIGNING_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_SESSION_TOKEN", "VAULT_TOKEN", "key"),
)


@pytest.mark.slow
def test_preview_worker_receives_only_database_variables(
    monkeypatch: pytest.MonkeyPatch,
):
    config = read_config(find_shipped_path("config/example.toml"))
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"hidden-{name}")
    monkeypatch.setenv("PGPASSFILE", "/pgpass")

    with start_preview_worker(config) as worker:
        process = Path(f"/proc/{worker.pid}")
        # Both are empty until the kernel has set up the memory of the new program.
        while not (environment := (process / "environ").read_bytes()):
            assert worker.poll() is None
        command = (process / "cmdline").read_bytes()
        # There is no database; the pipe is still open.
        assert worker.wait(60) == 1

    assert b"PGPASSFILE=/pgpass" in environment.split(b"\0")
    assert b"hidden" not in environment + command


@pytest.mark.slow
def test_preview_worker_exits_when_its_input_is_closed():
    config = read_config(find_shipped_path("config/example.toml"))
    with start_preview_worker(config) as worker:
        assert worker.stdin is not None
        worker.stdin.close()

        assert worker.wait(60) == 1
