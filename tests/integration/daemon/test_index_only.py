"""Without an oracle contract, everything is indexed and shown;
publishing reports the missing address.
"""

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command

pytestmark = pytest.mark.evm

NODE = "0x" + "7" * 40


@pytest.fixture(scope="module")
def without(network, tmp_path_factory):
    """Return an indexed configuration without `oracle.address`; no test changes its database."""
    folder = tmp_path_factory.mktemp("without")
    settings = network.settings(folder)
    del settings["oracle"]["address"]
    path = write_config(settings, folder / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    return path


def test_publishing_commands_report_missing_contract_address(without, capsys):
    for command in (
        ["run", "--once", "--publish"],
        ["report", "push"],
        ["kickout", "accuse", NODE],
        ["kickout", "execute", NODE],
        ["kickout", "clear", NODE],
        ["contract", "show"],
        ["contract", "check"],
    ):
        assert "oracle.address: missing" in run_refused_command(
            capsys, *command, "--config", without
        )


@pytest.mark.parametrize("command", ["status", "nodes", "report show", "kickout list", "export"])
def test_read_only_commands_work_without_an_oracle_contract(without, command):
    # No daemon works, which `status` calls for attention.
    assert run([*command.split(), "--config", str(without)]) == (command == "status")
