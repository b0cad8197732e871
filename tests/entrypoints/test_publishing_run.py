"""`run --once --publish` on a real chain, and the way from a node's tasks to its lane there."""

import json

import pytest

from oracle.chain.calldata import call_input
from oracle.entrypoints.cli import run
from tests.entrypoints.local_network import local_network, write

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A chain of this module's own: what is sent here uses the transmitter's nonces."""
    with local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def published(network, tmp_path_factory):
    """A configuration whose first round has landed."""
    folder = tmp_path_factory.mktemp("published")
    path = write(network.settings(folder), folder / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    network.mine(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return path


def told(capsys, *arguments):
    capsys.readouterr()
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def on_chain(network, index):
    asked = {"to": network.stage.oracle, "data": call_input("QoSOracle", "laneAt", index)}
    return int(network.stage.chain.ask("eth_call", asked, "latest"), 16)


def test_once_sends_what_is_due_and_sees_it_land(published, capsys):
    status = told(capsys, "status", "--config", published)

    assert status["round"] == 1
    (push,) = status["outbox"]
    assert (push["kind"], push["count"]) == ("push", 1)
    assert push["state"] in {"live", "mined"}


@pytest.mark.slow
def test_every_lane_of_a_round_is_explained_by_its_as_of_block(published, network, capsys):
    nodes = told(capsys, "nodes", "--config", published)
    assert len(nodes) == 12
    for node in nodes:
        why = told(capsys, "explain", node["node"], "--round", 1, "--config", published)
        assert why["lane"] == on_chain(network, node["index"])


def test_without_publish_nothing_is_sent(network, tmp_path, capsys):
    path = write(network.settings(tmp_path), tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    assert told(capsys, "status", "--config", path)["outbox"] == []
