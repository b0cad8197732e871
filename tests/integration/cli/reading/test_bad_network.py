"""Each fault of a chain, its contracts, keys or ports is reported in one line."""

import socket
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command, run_with_refused_settings


def test_unreachable_endpoint_is_reported_and_creates_no_files(capsys, offline_settings, tmp_path):
    line = run_with_refused_settings(capsys, offline_settings, tmp_path, code=1)
    assert "127.0.0.1" in line
    assert not any(Path(tmp_path).glob("evidence"))
    assert not any(Path(tmp_path).glob("oracle.sqlite*"))


@pytest.mark.evm
def test_wrong_chain_is_reported_and_creates_no_database(capsys, settings, tmp_path):
    settings["chain"]["id"] = 1
    line = run_with_refused_settings(capsys, settings, tmp_path)
    assert "31337" in line
    assert "1" in line
    assert not any(Path(tmp_path).glob("oracle.sqlite*"))


@pytest.mark.evm
def test_endpoint_of_wrong_chain_prevents_startup(capsys, settings, tmp_path):
    settings["chain"]["id"] = 1
    path = write_config(settings, tmp_path / "config.toml")
    assert "31337" in run_refused_command(capsys, "run", "--config", path)


@pytest.mark.evm
def test_address_without_contract_is_reported(capsys, settings, tmp_path):
    settings["network"]["contracts"]["TaskNetwork"] = "0x" + "9" * 40
    assert "0x" + "9" * 40 in run_with_refused_settings(capsys, settings, tmp_path)


@pytest.mark.evm
def test_swapped_contract_addresses_are_reported(capsys, settings, network, tmp_path):
    settings["network"]["contracts"]["TaskNetwork"] = network.stage.oracle
    settings["oracle"]["address"] = network.stage.network
    assert network.stage.oracle in run_with_refused_settings(capsys, settings, tmp_path)


@pytest.mark.evm
def test_database_of_another_network_is_rejected(capsys, settings, network, tmp_path):
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    capsys.readouterr()
    settings["chain"]["start_block"] = 1
    line = run_with_refused_settings(capsys, settings, tmp_path)
    assert "start block 0, but the configuration has 1" in line
    settings["chain"]["start_block"] = 0
    oracle = settings["oracle"].pop("address")
    line = run_with_refused_settings(capsys, settings, tmp_path)
    assert f"the oracle contract {oracle}, but the configuration has none" in line


@pytest.mark.evm
def test_nothing_is_published_to_a_contract_with_different_rules(capsys, settings, tmp_path):
    settings["oracle"]["deviation"] = 50
    path = write_config(settings, tmp_path / "config.toml")
    message = run_refused_command(capsys, "run", "--once", "--publish", "--config", path)
    assert "rulesHash: expected" in message
    assert "restore the previous settings" in message


@pytest.mark.evm
def test_key_file_readable_by_others_is_rejected(capsys, settings, tmp_path):
    copy = tmp_path / "signer.json"
    copy.write_bytes(Path(settings["keys"]["signer_keystore"]).read_bytes())
    copy.chmod(0o644)
    settings["keys"]["signer_keystore"] = str(copy)
    path = write_config(settings, tmp_path / "config.toml")
    message = run_refused_command(capsys, "run", "--once", "--publish", "--config", path)
    assert "signer.json" in message
    assert run(["config", "check", "--config", str(path)]) == 2
    assert capsys.readouterr().out.count("signer.json") == 1


@pytest.mark.evm
def test_wrong_keystore_password_is_reported_but_not_shown(capsys, settings, tmp_path):
    wrong = tmp_path / "wrong.password"
    wrong.write_text("not it\n")
    wrong.chmod(0o600)
    settings["keys"]["signer_password_file"] = str(wrong)
    path = write_config(settings, tmp_path / "config.toml")
    message = run_refused_command(capsys, "run", "--once", "--publish", "--config", path)
    assert "wrong.password is wrong" in message
    assert "not it" not in message


@pytest.mark.evm
def test_port_in_use_is_reported(capsys, settings, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings["web"]["port"] = listener.getsockname()[1]
        path = write_config(settings, tmp_path / "config.toml")
        line = run_refused_command(capsys, "run", "--config", path)
    assert f"cannot listen on 127.0.0.1:{settings['web']['port']}" in line


@pytest.mark.evm
def test_unknown_node_is_rejected_with_hint(capsys, indexed_config):
    line = run_refused_command(capsys, "explain", "0x" + "7" * 40, "--config", indexed_config)
    assert "qos-oracle nodes" in line


@pytest.mark.evm
def test_unindexed_block_or_round_is_rejected(capsys, indexed_config):
    node = "0x" + "7" * 40
    assert "not indexed" in run_refused_command(
        capsys, "explain", node, "--at", 10**6, "--config", indexed_config
    )
    assert "round 77" in run_refused_command(
        capsys, "explain", node, "--round", 77, "--config", indexed_config
    )
