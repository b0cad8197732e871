"""A database that is an old copy: `run` rejects it, and `status` reports why nothing is sent."""

import shutil
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]


def test_status_reports_rejected_old_database_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as network:
        path = write_config(network.settings(tmp_path), tmp_path / "config.toml")
        where = ["--config", str(path)]
        network.play(1)
        assert run(["run", "--once", "--publish", *where]) == 0
        database = tmp_path / "oracle.sqlite"
        old = tmp_path / "old.sqlite"
        shutil.copy(database, old)
        for _ in range(2):
            network.play(1)
            assert run(["run", "--once", "--publish", *where]) == 0
        network.mine(5)
        for database_file in tmp_path.glob("oracle.sqlite*"):
            database_file.unlink()
        shutil.copy(old, database)

        assert run(["run", "--once", "--publish", *where]) == 2
        capsys.readouterr()
        assert run(["status", *where]) > 0
        stdout = capsys.readouterr().out
    assert "may send" not in stdout
    (line,) = [line for line in stdout.splitlines() if line.lstrip().startswith("PAUSED-SENDER")]
    assert "sends nothing" in line
    assert "outbox rebuild --from-chain" in stdout
