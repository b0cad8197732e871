"""`run` with one of the two keys: a reporter that only signs, and one that only sends."""

import json

import pytest

from oracle.cli.main import run
from oracle.store.database import Store
from tests.support.cli.local_network import run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Yield a separate chain for this module."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


def without(network, folder, role):
    """Return a configuration with only the other key."""
    settings = network.settings(folder)
    settings["keys"] = {name: path for name, path in settings["keys"].items() if role not in name}
    return settings


def test_reporter_without_transmitter_signs_report_but_sends_nothing(network, tmp_path, capsys):
    settings = without(network, tmp_path, "transmitter")
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0

    with Store.open(settings["database"]["url"]) as store, store.read_transaction() as uow:
        (signed,) = uow.statements.list_for_round(network.stage.oracle, 1)
        assert uow.outbox.intents.list_newest(10) == []
        (bound,) = [report for report in uow.reports.list_newest() if report.digest is not None]
    assert (bound.round, bound.digest) == (1, signed.digest)
    capsys.readouterr()
    assert run(["status", "--json", "--config", str(path)]) == 1
    assert json.loads(capsys.readouterr().out)["outbox"] == []


def test_transmitter_with_neither_signer_nor_peers_is_rejected(network, tmp_path, capsys):
    path = write_config(without(network, tmp_path, "signer"), tmp_path / "config.toml")

    assert run(["run", "--once", "--publish", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert "quorum: expected at most 0, because [reporters] peers lists no other reporter" in error


def test_transmitter_with_peers_runs_and_waits_for_signatures(network, tmp_path):
    settings = without(network, tmp_path, "signer")
    settings["reporters"] = {"peers": ["http://127.0.0.1:9/secret-path"], "timeout_seconds": 0.2}
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0

    with Store.open(settings["database"]["url"]) as store, store.read_transaction() as uow:
        assert uow.outbox.intents.list_newest(10) == []
        assert uow.reports.list_due() != []
