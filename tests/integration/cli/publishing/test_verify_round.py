"""`report verify`: an accepted round is recomputed from the logs, and differences are named."""

import json
import shutil
import sqlite3

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def settings(network, tmp_path_factory):
    """Return the settings of a database in which round 1 was accepted."""
    folder = tmp_path_factory.mktemp("verified")
    settings = network.settings(folder)
    path = write_config(settings, folder / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    network.mine(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return settings


def verify_round(capsys, settings, folder, number=1):
    """Return the exit code and the output."""
    path = write_config(settings, folder / "config.toml")
    capsys.readouterr()
    code = run(["report", "verify", str(number), "--config", str(path), "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def copy_database(settings, folder):
    """Return the settings of a copy of the database, which the test may damage."""
    database = settings["database"]["url"].removeprefix("sqlite:///")
    shutil.copyfile(database, folder / "copy.sqlite")
    return settings | {"database": {"url": f"sqlite:///{folder / 'copy.sqlite'}"}}


def test_verify_reproduces_root_of_accepted_round(settings, tmp_path, capsys):
    code, comparison = verify_round(capsys, settings, tmp_path)

    assert code == 0
    assert (comparison["same"], comparison["same_block"], comparison["contract_has_root"]) == (
        True,
        True,
        True,
    )
    assert comparison["computed_root"] == comparison["root"]
    assert comparison["leaf_difference"] is None


def test_missing_logs_are_reported_as_a_differing_leaf(settings, tmp_path, capsys):
    spoiled = copy_database(settings, tmp_path)
    path = spoiled["database"]["url"].removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        # Events in the last third of the round's blocks.
        connection.execute(
            "delete from log_row where id >> 24 <= (select as_of from accepted_round) "
            "and id >> 24 > (select as_of * 2 / 3 from accepted_round)"
        )
    code, comparison = verify_round(capsys, spoiled, tmp_path)

    assert code == 1
    assert comparison["same"] is False
    assert comparison["computed_root"] != comparison["root"]
    assert comparison["contract_has_root"] is True
    difference = comparison["leaf_difference"]
    assert difference["own_leaf"] != difference["other_leaf"]


def test_verify_reports_a_round_built_on_an_orphaned_block(settings, tmp_path, capsys):
    spoiled = copy_database(settings, tmp_path)
    path = spoiled["database"]["url"].removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute("update accepted_round set as_of_hash = ?", (bytes(32),))
    code, comparison = verify_round(capsys, spoiled, tmp_path)

    assert code == 1
    assert (comparison["same"], comparison["same_block"]) == (False, False)
    assert comparison["computed_root"] == comparison["root"]


def test_unaccepted_round_fails_with_one_line_error(settings, tmp_path, capsys):
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["report", "verify", "99", "--config", str(path)]) == 2
    assert "round 99 was not accepted in the indexed blocks" in capsys.readouterr().err
