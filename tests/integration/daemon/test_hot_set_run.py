"""`run` with a hot set: the checks at startup, and the words that the daemon sends."""

import pytest

from oracle.bindings.codec import decode_result, encode_call
from oracle.bindings.qos_words import CONTRACT
from oracle.cli.main import run
from oracle.store.database import Store
from oracle.store.outbox.records import UPDATE_WORDS
from tests.support.cli.local_network import run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]

OTHER_ORACLE = "0x" + 40 * "9"
COPY = "0x" + 40 * "c"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Yield a separate chain for this module."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


def configure(network, folder, hot_set):
    settings = network.settings(folder)
    settings["hot_set"] = {"address": hot_set}
    return write_config(settings, folder / "config.toml")


@pytest.fixture
def words_of_another_oracle(network):
    """Deploy the hot set's code for another oracle."""
    stage = network.stage
    code = stage.chain.make_request("eth_getCode", stage.hot_set, "latest")
    changed = code.replace(stage.oracle[2:], OTHER_ORACLE[2:])
    assert changed != code
    stage.chain.make_request("anvil_setCode", COPY, changed)
    return COPY


@pytest.mark.parametrize("command", [("run", "--once", "--publish"), ("config", "check")])
def test_hot_set_of_another_oracle_is_rejected(
    network, words_of_another_oracle, tmp_path, capsys, command
):
    path = configure(network, tmp_path, words_of_another_oracle)
    assert run([*command, "--config", str(path)]) == 2
    printed = capsys.readouterr()
    assert (
        f"hot_set.address: {COPY}: oracle of the words: expected {network.stage.oracle}, found "
        f"{OTHER_ORACLE}"
    ) in printed.out + printed.err


def test_contract_without_hot_set_interface_is_rejected(network, tmp_path, capsys):
    path = configure(network, tmp_path, network.stage.timelock)
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 1
    assert "does not look like a QoSWords contract; check hot_set.address" in (
        capsys.readouterr().err
    )


def test_hot_set_setting_requires_an_oracle_setting(network, tmp_path, capsys):
    settings = network.settings(tmp_path)
    del settings["oracle"]["address"]
    settings["hot_set"] = {"address": network.stage.hot_set}
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["config", "check", "--offline", "--config", str(path)]) == 2
    assert "hot_set.address: requires oracle.address" in capsys.readouterr().err


def test_daemon_writes_words_of_first_round_to_hot_set(network, tmp_path):
    path = configure(network, tmp_path, network.stage.hot_set)
    stage = network.stage
    for _ in range(3):
        assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
        network.mine(1)
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with Store.open(url) as store, store.read_transaction() as uow:
        (brought,) = uow.outbox.intents.list_newest(10, kind=UPDATE_WORDS)
    assert brought.request.contract == stage.hot_set
    call = {"to": stage.hot_set, "data": encode_call(CONTRACT, "roundsAt", 0, 1)}
    result = stage.chain.make_request("eth_call", call, "latest")
    assert decode_result(CONTRACT, "roundsAt", result) == ((1,),)
