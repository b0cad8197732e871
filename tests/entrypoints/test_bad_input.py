"""What a user can get wrong: each one clear line, exit code 2, and nothing half-written."""

import os
import socket
import sqlite3
from pathlib import Path

import pytest

from oracle.entrypoints.cli import run
from tests.entrypoints.local_network import Settings, write


def refused(capsys, *arguments, code=2):
    """The one line on stderr; the traceback of a bug would be more."""
    assert run([*map(str, arguments)]) == code
    said = capsys.readouterr().err.strip()
    assert said.startswith("qos-oracle: ")
    assert "Traceback" not in said
    return said


def refused_run(capsys, settings, tmp_path, code=2):
    path = write(settings, tmp_path / "config.toml")
    line = refused(capsys, "run", "--once", "--config", path, code=code)
    assert "\n" not in line
    return line


SOUND: Settings = {
    "database": {"url": "sqlite:///nowhere.sqlite"},
    "chain": {"id": 1, "endpoints": ["http://127.0.0.1:1"]},
    "network": {"contracts": {"TaskNetwork": "0x" + "1" * 40}},
}


@pytest.fixture
def sound(tmp_path):
    """Settings without a chain, for faults that are found before one is asked."""
    database = {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"}
    return {**{name: dict(section) for name, section in SOUND.items()}, "database": database}


# --- configuration ---


def test_no_such_file(capsys, tmp_path):
    line = refused(capsys, "status", "--config", tmp_path / "missing.toml")
    assert "missing.toml: there is no such configuration" in line


def test_not_toml(capsys, tmp_path):
    (tmp_path / "bad.toml").write_text("[chain\nid = 1")
    assert "is not TOML" in refused(capsys, "status", "--config", tmp_path / "bad.toml")


def test_not_text(capsys, tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in refused(capsys, "status", "--config", tmp_path / "bad.toml")


def test_an_unknown_key_is_named(capsys, sound, tmp_path):
    sound["chain"]["finality"] = 5
    path = write(sound, tmp_path / "config.toml")
    assert "chain.finality: is not a setting" in refused(capsys, "status", "--config", path)


def test_every_fault_is_told_at_once(capsys, sound, tmp_path, monkeypatch):
    sound["chain"] |= {"id": 0, "endpoints": ["ftp://here"], "foo": 1}
    sound["network"]["contracts"] = {"TaskNetwork": "0x12"}
    sound["bar"] = {"x": 1}
    monkeypatch.setenv("QOS_ORACLE_CHIAN__ID", "1")
    monkeypatch.setenv("QOS_ORACLE_WEB__PORT", "70000")
    path = write(sound, tmp_path / "config.toml")

    said = refused(capsys, "config", "check", "--config", path)

    for fault in (
        "chain.id",
        "chain.endpoints.0",
        "chain.foo",
        "network.contracts.TaskNetwork",
        "bar",
        "QOS_ORACLE_CHIAN__ID",
        "web.port",
    ):
        assert f"\n  {fault}: " in said


def test_settings_that_do_not_go_together(capsys, sound, tmp_path):
    sound["oracle"] = {"publish": True, "level": "safe", "anchor_window": 20}
    sound["keys"] = {"signer_keystore": "signer.json"}
    path = write(sound, tmp_path / "config.toml")

    said = refused(capsys, "run", "--config", path)

    assert "oracle.publish: needs oracle.address" in said
    assert "keys.signer_keystore and keys.signer_password_file: give both or none" in said
    assert "keys.transmitter_keystore: is missing" in said
    assert "oracle.anchor_window: 20 blocks are too few" in said


def test_an_unknown_rule_set_names_those_there_are(capsys, sound, tmp_path):
    sound["rules"] = {"set": "sead"}
    path = write(sound, tmp_path / "config.toml")
    assert "seed" in refused(capsys, "nodes", "--config", path)


def test_an_option_that_does_not_exist(capsys):
    assert "No such option" in refused(capsys, "status", "--jsn")


def test_secrets_in_addresses_are_not_repeated(capsys, sound, tmp_path):
    sound["chain"]["endpoints"] = ["https://user:pass@host:port/v3/APIKEY"]
    sound["database"]["url"] = "postgresql://me:hunter2@127.0.0.1:1/oracle"
    path = write(sound, tmp_path / "config.toml")

    first = refused(capsys, "status", "--config", path)
    sound["chain"]["endpoints"] = ["https://host/v3/APIKEY"]
    second = refused(capsys, "status", "--config", write(sound, path))

    assert "APIKEY" not in first + second
    assert "pass@" not in first
    assert "hunter2" not in second


# --- database ---


def test_a_database_without_tables_names_migrate(capsys, sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert "qos-oracle migrate" in refused(capsys, "status", "--config", path)


@pytest.mark.parametrize(
    ("revision", "words"), [("0000", "qos-oracle migrate"), ("9999", "install the newer")]
)
def test_a_database_of_another_age_says_what_to_do(capsys, sound, tmp_path, revision, words):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    with sqlite3.connect(tmp_path / "oracle.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    database.close()

    assert words in refused(capsys, "status", "--config", path)


def test_a_file_that_is_no_database(capsys, sound, tmp_path):
    (tmp_path / "oracle.sqlite").write_text("not a database at all, whatever its name says" * 50)
    path = write(sound, tmp_path / "config.toml")
    assert "no SQLite database" in refused(capsys, "migrate", "--config", path)


def test_a_folder_that_is_not_there(capsys, sound, tmp_path):
    sound["database"]["url"] = f"sqlite:///{tmp_path / 'no' / 'oracle.sqlite'}"
    path = write(sound, tmp_path / "config.toml")
    assert "cannot be opened" in refused(capsys, "migrate", "--config", path)


def test_an_unreachable_server(capsys, sound, tmp_path):
    sound["database"]["url"] = "postgresql://me@127.0.0.1:1/oracle"
    path = write(sound, tmp_path / "config.toml")
    assert "127.0.0.1:1/oracle" in refused(capsys, "status", "--config", path)


def test_a_database_that_another_process_writes_to_is_not_waited_for_long(capsys, sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    other = sqlite3.connect(tmp_path / "oracle.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        line = refused(capsys, "run", "--once", "--config", path, code=1)
    finally:
        other.close()
    assert "another process is writing to it" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_a_database_that_may_not_be_written(capsys, sound, tmp_path):
    path = write(sound, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    (tmp_path / "oracle.sqlite").chmod(0o400)
    assert "read-only" in refused(capsys, "run", "--once", "--config", path)


# --- chain ---


def test_no_endpoint_answers(capsys, sound, tmp_path):
    line = refused_run(capsys, sound, tmp_path)
    assert "127.0.0.1" in line
    assert not any(Path(tmp_path).glob("evidence"))


@pytest.mark.evm
def test_another_chain(capsys, settings, tmp_path):
    settings["chain"]["id"] = 1
    line = refused_run(capsys, settings, tmp_path)
    assert "31337" in line
    assert "1" in line


@pytest.mark.evm
def test_an_address_without_a_contract(capsys, settings, tmp_path):
    settings["network"]["contracts"]["TaskNetwork"] = "0x" + "9" * 40
    assert "0x" + "9" * 40 in refused_run(capsys, settings, tmp_path)


@pytest.mark.evm
def test_the_address_of_another_contract(capsys, settings, network, tmp_path):
    settings["network"]["contracts"]["TaskNetwork"] = network.stage.oracle
    settings["oracle"]["address"] = network.stage.network
    assert network.stage.oracle in refused_run(capsys, settings, tmp_path)


@pytest.mark.evm
def test_a_database_of_another_network(capsys, settings, network, tmp_path):
    path = write(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    capsys.readouterr()
    settings["chain"]["start_block"] = 1
    line = refused_run(capsys, settings, tmp_path)
    assert "from 0, the configuration says 1" in line


@pytest.mark.evm
def test_a_contract_with_other_rules_is_not_published_to(capsys, settings, tmp_path):
    settings["oracle"]["deviation"] = 50
    path = write(settings, tmp_path / "config.toml")
    said = refused(capsys, "run", "--once", "--publish", "--config", path)
    assert "rulesHash: expected" in said


# --- keys, ports, nodes ---


@pytest.mark.evm
def test_a_key_file_that_others_may_read(capsys, settings, tmp_path):
    copy = tmp_path / "signer.json"
    copy.write_bytes(Path(settings["keys"]["signer_keystore"]).read_bytes())
    copy.chmod(0o644)
    settings["keys"]["signer_keystore"] = str(copy)
    path = write(settings, tmp_path / "config.toml")
    said = refused(capsys, "run", "--once", "--publish", "--config", path)
    assert "signer.json" in said


@pytest.mark.evm
def test_a_wrong_password(capsys, settings, tmp_path):
    wrong = tmp_path / "wrong.password"
    wrong.write_text("not it\n")
    wrong.chmod(0o600)
    settings["keys"]["signer_password_file"] = str(wrong)
    path = write(settings, tmp_path / "config.toml")
    said = refused(capsys, "run", "--once", "--publish", "--config", path)
    assert "wrong.password is wrong" in said
    assert "not it" not in said


@pytest.mark.evm
def test_a_port_in_use(capsys, settings, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings["web"]["port"] = taken.getsockname()[1]
        path = write(settings, tmp_path / "config.toml")
        line = refused(capsys, "run", "--config", path)
    assert f"cannot listen on 127.0.0.1:{settings['web']['port']}" in line


@pytest.mark.evm
def test_a_node_that_nobody_knows(capsys, indexed):
    line = refused(capsys, "explain", "0x" + "7" * 40, "--config", indexed)
    assert "qos-oracle nodes" in line


@pytest.mark.evm
def test_a_block_or_round_that_is_not_indexed(capsys, indexed):
    node = "0x" + "7" * 40
    assert "not indexed" in refused(capsys, "explain", node, "--at", 10**6, "--config", indexed)
    assert "round 77" in refused(capsys, "explain", node, "--round", 77, "--config", indexed)
