"""`resync` on a database that a daemon has indexed, with a real chain."""

import json
import sqlite3
from contextlib import closing

import pytest

from oracle.cli.main import run
from oracle.store.database import Store
from tests.support.cli.local_network import write_config

pytestmark = pytest.mark.evm


@pytest.fixture
def database(indexed_config, tmp_path):
    """Return a copy of the indexed database, which the test may change."""
    path = tmp_path / "oracle.sqlite"
    with (
        closing(sqlite3.connect(indexed_config.parent / "oracle.sqlite")) as source,
        closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
    return path


@pytest.fixture
def config(network, database, tmp_path):
    return write_config(network.settings(tmp_path), tmp_path / "config.toml")


def run_json(capsys, *arguments, code=0):
    assert run(["resync", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def state(database):
    with Store.open(f"sqlite:///{database}") as store, store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        return cursor.number, uow.projections.compute_digest(), uow.logs.count()


def execute_statement(database, statement, *values):
    with closing(sqlite3.connect(database)) as connection, connection:
        return connection.execute(statement, values).rowcount


def test_rebuild_of_unchanged_database_finds_no_difference(config, database, capsys):
    before = state(database)

    answer = run_json(capsys, "rebuild", "--config", config)

    assert answer["same_state"]
    assert answer["logs"] == before[2]
    assert answer["reports"] > 0
    assert answer["differing_periods"] == []
    assert state(database) == before


def test_rebuild_repairs_modified_rows_and_exits_with_1(config, database, capsys):
    before = state(database)
    assert execute_statement(database, "UPDATE node SET base = 0")

    assert run(["resync", "rebuild", "--config", str(config), "--dry-run"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("dry run, nothing changed: folded")
    assert "state DIFFERENT" in out
    assert state(database) != before
    assert run(["resync", "rebuild", "--config", str(config)]) == 1
    assert state(database) == before


def test_rebuild_lists_reports_that_cannot_be_reproduced(config, database, capsys):
    assert execute_statement(database, "UPDATE report SET deadline = deadline + 1") > 0

    answer = run_json(capsys, "rebuild", "--config", config, code=1)

    assert answer["same_state"]
    assert len(answer["differing_periods"]) == answer["reports"]


@pytest.mark.parametrize(("back", "way"), [(2, "journal"), (30, "rebuild")])
def test_run_after_a_rewind_restores_the_previous_state(config, database, capsys, back, way):
    head, digest, logs = state(database)

    answer = run_json(capsys, "rewind", "--to-block", head - back, "--config", config)

    assert (answer["by"], answer["snapshot_block"]) == (way, None)
    assert state(database)[0] == head - back
    assert run(["run", "--once", "--config", str(config)]) == 0
    # Another test may have added blocks.
    assert state(database)[0] >= head
    if state(database)[0] == head:
        assert state(database) == (head, digest, logs)
    assert run_json(capsys, "rebuild", "--config", config)["same_state"]


def test_backfill_restores_missing_logs(config, database, capsys):
    head, digest, logs = state(database)
    number = "(SELECT max(block) FROM log WHERE block < ?)"
    one_block = f"DELETE FROM log_row WHERE id >> 24 = {number}"  # noqa: S608
    gone = execute_statement(database, one_block, head - 10)
    assert gone

    answer = run_json(capsys, "backfill", "--from", 0, "--to", head, "--config", config)

    assert len(answer["missing_logs"]) == gone
    assert state(database) == (head, digest, logs)
    assert run(["resync", "backfill", "--from", "0", "--to", "9", "--config", str(config)]) == 0
    assert "none was missing" in capsys.readouterr().out


def test_inverted_block_range_raises_input_error(config, capsys):
    assert run(["resync", "backfill", "--from", "9", "--to", "1", "--config", str(config)]) == 2
    assert "--from 9: above --to 1" in capsys.readouterr().err


def test_block_above_the_cursor_raises_input_error(config, capsys):
    assert run(["resync", "rewind", "--to-block", "99999", "--config", str(config)]) == 2
    assert "choose a block from" in capsys.readouterr().err


def test_resync_is_refused_while_daemon_holds_lease(config, database, capsys):
    with Store.open(f"sqlite:///{database}") as store, store.transaction() as uow:
        uow.lease.acquire("run on elsewhere", 60)

    assert run(["resync", "rebuild", "--config", str(config)]) == 1

    assert "run on elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ("rebuild",),
        ("rewind", "--to-block", "9"),
        ("backfill", "--from", "0", "--to", "9"),
        ("dead-letters", "retry"),
    ],
)
def test_resync_dry_run_works_while_the_daemon_holds_the_lease(config, database, capsys, command):
    with Store.open(f"sqlite:///{database}") as store, store.transaction() as uow:
        uow.lease.acquire("run on elsewhere", 60)
    before = state(database)
    beside = sorted(database.parent.iterdir())

    assert run(["resync", *command, "--dry-run", "--config", str(config)]) == 0

    assert state(database) == before
    assert sorted(database.parent.iterdir()) == beside
    assert capsys.readouterr().out.startswith("dry run, nothing changed")


def test_settings_of_another_network_raise_input_error(network, database, tmp_path, capsys):
    settings = network.settings(tmp_path)
    settings["network"]["contracts"]["TaskNetwork"] = "0x" + 40 * "9"
    elsewhere = write_config(settings, tmp_path / "elsewhere.toml")

    assert run(["resync", "rebuild", "--config", str(elsewhere)]) == 2

    assert "0x" + 40 * "9" in capsys.readouterr().err


def test_rebuild_sends_no_request_to_any_endpoint(network, database, tmp_path, capsys):
    settings = network.settings(tmp_path)
    settings["chain"]["endpoints"] = ["http://127.0.0.1:1"]
    offline = write_config(settings, tmp_path / "offline.toml")

    assert run_json(capsys, "rebuild", "--config", offline)["same_state"]


def test_rebuild_of_empty_database_is_rejected(settings, tmp_path, capsys):
    settings["database"]["url"] = f"sqlite:///{tmp_path / 'new.sqlite'}"
    new = write_config(settings, tmp_path / "new.toml")
    assert run(["migrate", "--config", str(new)]) == 0

    assert run(["resync", "rebuild", "--config", str(new)]) == 2

    assert "the database is empty" in capsys.readouterr().err
