"""`init --network` writes the shipped configuration of a public network."""

import stat
import tomllib
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.daemon.config.loader import read_config
from tests.support.cli.refusal import run_refused_command

ROOT = Path(__file__).resolve().parents[4]


def test_preset_config_differs_only_in_database_and_endpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "config.toml"
    database = f"sqlite:///{tmp_path / 'crynux.sqlite'}"
    endpoint = "https://rpc.example/key"
    options = ["--config", str(path), "--database", database, "--endpoint", endpoint]
    assert run(["init", "--network", "crynux", *options]) == 0
    assert "not been\ntested against the live network" in capsys.readouterr().out
    # An endpoint's URL may contain a key.
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    expected = tomllib.loads((ROOT / "config/crynux.toml").read_text("utf-8"))
    expected["database"]["url"], expected["chain"]["endpoints"] = database, [endpoint]
    assert tomllib.loads(path.read_text("utf-8")) == expected
    assert read_config(path).chain.id == expected["chain"]["id"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--network", "pocket"], "no such preset; expected one of: crynux"),
        (["--network", "crynux", "--profile", "reference"], "leave out --profile"),
    ],
)
def test_unknown_preset_or_conflicting_options_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
):
    path = tmp_path / "config.toml"
    assert reason in run_refused_command(capsys, "init", "--config", str(path), *options)
    assert not path.exists()
