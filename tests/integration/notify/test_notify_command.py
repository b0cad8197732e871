"""`notify test` reports for each target whether it accepted a message,
also while a daemon runs.
"""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.integration.notify.notified_daemon import SECRET, NotifiedDaemon


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str, notified_daemon: NotifiedDaemon) -> Path:
    secret = tmp_path / "secret"
    path = tmp_path / "oracle.toml"
    secret.write_bytes(SECRET)
    path.write_text(
        f'[database]\nurl = "{sqlite_url}"\n'
        '[chain]\nid = 31337\nendpoints = ["http://127.0.0.1:1"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "0x{1:040x}" }}\n'
        f'[[notify]]\nname = "ours"\nurl = "{notified_daemon.receiver.url}"\n'
        f'secret_file = "{secret}"\nallow_private = true\n',
        "utf-8",
    )
    for private_file in (secret, path):
        private_file.chmod(0o600)
    return path


def test_successful_delivery_to_target_is_reported(
    config: Path, notified_daemon: NotifiedDaemon, capsys
):
    assert run(["notify", "test", "-c", str(config)]) == 0

    assert capsys.readouterr().out == "ours: delivered\n"
    assert notified_daemon.receiver.kinds == ["test"]


def test_failed_delivery_prints_a_reason_and_exits_with_1(
    config: Path, notified_daemon: NotifiedDaemon, capsys
):
    notified_daemon.receiver.statuses.append(401)

    assert run(["notify", "test", "-c", str(config), "--json"]) == 1

    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["error"].endswith("HTTP status 401; expected 2xx")


def test_dry_run_lists_targets_and_sends_nothing(
    config: Path, notified_daemon: NotifiedDaemon, capsys
):
    assert run(["notify", "test", "-c", str(config), "--dry-run"]) == 0

    assert capsys.readouterr().out == "dry run, nothing sent; a message would go to: ours\n"
    assert notified_daemon.receiver.got == []


def test_secret_readable_by_others_is_rejected(config: Path, capsys):
    (config.parent / "secret").chmod(0o644)

    assert run(["notify", "test", "-c", str(config)]) == 2
    assert "chmod 600" in capsys.readouterr().err


def test_notify_list_shows_new_targets(config: Path, capsys):
    assert run(["notify", "list", "-c", str(config)]) == 0
    assert "new" in capsys.readouterr().out
