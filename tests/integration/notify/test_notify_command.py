"""`notify test` says of each target whether it took a message, beside a daemon, too."""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.integration.notify.told import SECRET, Told


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str, told: Told) -> Path:
    secret, path = tmp_path / "secret", tmp_path / "oracle.toml"
    secret.write_bytes(SECRET)
    path.write_text(
        f'[database]\nurl = "{sqlite_url}"\n'
        '[chain]\nid = 31337\nendpoints = ["http://127.0.0.1:1"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "0x{1:040x}" }}\n'
        f'[[notify]]\nname = "ours"\nurl = "{told.receiver.url}"\n'
        f'secret_file = "{secret}"\nallow_private = true\n',
        "utf-8",
    )
    for one in (secret, path):
        one.chmod(0o600)
    return path


def test_a_target_that_takes_the_message_is_said_to(config: Path, told: Told, capsys):
    assert run(["notify", "test", "-c", str(config)]) == 0

    assert capsys.readouterr().out == "ours: took it\n"
    assert told.receiver.kinds == ["test"]


def test_a_target_that_does_not_ends_with_1_and_its_reason(config: Path, told: Told, capsys):
    told.receiver.statuses.append(401)

    assert run(["notify", "test", "-c", str(config), "--json"]) == 1

    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["error"].endswith("answered 401")


def test_a_dry_run_names_who_would_be_told_and_tells_nobody(config: Path, told: Told, capsys):
    assert run(["notify", "test", "-c", str(config), "--dry-run"]) == 0

    assert capsys.readouterr().out == "dry run, nothing sent: would be told: ours\n"
    assert told.receiver.got == []


def test_a_secret_that_others_may_read_is_refused(config: Path, capsys):
    (config.parent / "secret").chmod(0o644)

    assert run(["notify", "test", "-c", str(config)]) == 2
    assert "chmod 600" in capsys.readouterr().err


def test_a_list_says_who_is_new(config: Path, capsys):
    assert run(["notify", "list", "-c", str(config)]) == 0
    assert "new" in capsys.readouterr().out
