"""`report verify`: an accepted round is recomputed from the logs, and differences are named."""

import json
import shutil
import sqlite3

import pytest
import requests

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.cli.main import run
from tests.support.cli.local_network import run_local_network, write_config
from tests.support.sending.faults import respond_with
from tests.support.sending.proxy import run_proxy

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


def test_contract_root_is_reported_separately_for_each_endpoint(
    settings, network, tmp_path, capsys
):
    """A false root, or the state of an old block, is attributed to the endpoint."""
    accepted_at = verify_round(capsys, settings, tmp_path)[1]["place"]["block"]
    false_root = "0x" + 64 * "5"
    root_call = encode_call(CONTRACT, "rootOf", 1)
    with run_proxy(network.url) as liar, run_proxy(network.url) as laggard:
        liar.rule(
            "eth_call",
            respond_with(false_root),
            when=lambda question: question["params"][0]["data"] == root_call,
        )
        old_block = requests.post(
            network.url,
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "eth_getBlockByNumber",
                "params": [hex(accepted_at - 1), False],
            },
            timeout=60,
        ).json()["result"]
        laggard.rule(
            "eth_getBlockByNumber",
            respond_with(old_block),
            when=lambda question: question["params"][0] == "latest",
        )
        endpoints = [laggard.url, network.url, liar.url]
        with_three = {**settings, "chain": {**settings["chain"], "endpoints": endpoints}}
        code, comparison = verify_round(capsys, with_three, tmp_path)
        path = write_config(with_three, tmp_path / "config.toml")
        assert run(["report", "verify", "1", "--config", str(path)]) == code == 1
    text = capsys.readouterr().out

    assert comparison["contract_has_root"] is False
    assert comparison["computed_root"] == comparison["root"]
    behind, honest, false = comparison["contract_roots"]
    assert (behind["block"], behind["is_behind"]) == (accepted_at - 1, True)
    assert (honest["is_behind"], honest["root"]) == (False, comparison["root"])
    assert (behind["root"], false["root"]) == (None, false_root)
    block = honest["block"]
    assert (
        f"not compared at block {accepted_at - 1} of {laggard.url}: the round was accepted in "
        f"block {accepted_at}"
    ) in text
    assert f"the contract has this root at block {block} of {network.url}" in text
    assert f"the contract has ANOTHER root at block {block} of {liar.url}: {false_root}" in text


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
