"""`contract`: the shipped contract is recognised, differences are named,
and deploying has a dry run.
"""

import json
import re

import pytest
from eth_utils.crypto import keccak

from oracle.bindings.objections import build_objections_creation_code
from oracle.bindings.timelock import build_timelock_creation_code
from oracle.cli.main import run
from oracle.domain.ids import Address
from oracle.signing.key_locations import KeyFiles
from oracle.signing.keystore import create_keystore
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config
from tests.support.faulty_endpoint import run_faulty_endpoint
from tests.support.sending.faults import Fault
from tests.support.sending.proxy import run_proxy

ADMIN = "0x" + "ad" * 20
NOBODY = "0x" + "9" * 40


@pytest.fixture
def watched(network):
    """Yield the network's endpoint, which records its requests."""
    with run_faulty_endpoint(network.url) as endpoint:
        yield endpoint


def test_contract_show_returns_contract_state(config, network, capsys):
    assert run(["contract", "show", "--config", str(config), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["is_our_code"] is True
    assert answer["target"] == network.stage.network
    assert answer["limits"]["kick_below"] == 2000
    assert answer["head"]["config_count"] == 1


def test_contract_show_prints_readable_text(config, capsys):
    assert run(["contract", "show", "--config", str(config)]) == 0
    stdout = capsys.readouterr().out
    for line in (r"is our code +yes", r"limits\.kick below +QoS 0\.2000"):
        assert re.search(f"^{line}$", stdout, re.MULTILINE)


def test_check_reports_no_difference_for_matching_contract(config, capsys):
    assert run(["contract", "check", "--dev", "--config", str(config)]) == 0
    assert "matches the configuration" in capsys.readouterr().out


def test_check_reports_excessive_admin_powers(config, capsys):
    assert run(["contract", "check", "--config", str(config), "--json"]) == 2
    named = {finding["subject"] for finding in json.loads(capsys.readouterr().out)}
    assert {
        *("delay of the timelock", "signers", "pauser"),
        *("limits.veto_delay", "floors.veto_delay"),
    } <= named


def test_contract_check_reports_different_rules(settings, tmp_path, capsys):
    settings["oracle"]["deviation"] = 77
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", "check", "--dev", "--config", str(path), "--json"]) == 2
    (difference,) = json.loads(capsys.readouterr().out)
    assert difference["subject"] == "rulesHash"


def test_check_reports_timelock_that_is_not_admin(settings, network, tmp_path, capsys):
    settings["oracle"]["timelock"] = network.stage.timelock
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", "check", "--dev", "--config", str(path)]) == 0
    other_timelock = deploy_timelock(network)
    settings["oracle"]["timelock"] = other_timelock
    path = write_config(settings, tmp_path / "config.toml")
    capsys.readouterr()
    assert run(["contract", "check", "--dev", "--config", str(path)]) == 2
    assert f"admin: expected oracle.timelock {other_timelock}" in capsys.readouterr().out


def test_check_reports_objection_contract_of_another_oracle(settings, network, tmp_path, capsys):
    objections = deploy(network, build_objections_creation_code(Address(NOBODY)))
    settings["objections"] = {"address": objections}
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", "check", "--dev", "--config", str(path), "--json"]) == 2
    (difference,) = json.loads(capsys.readouterr().out)
    assert difference["subject"] == "oracle of the objections"


def deploy_timelock(network: LocalNetwork) -> str:
    sender = Address(network.stage.chain.make_request("eth_accounts")[0])
    return deploy(network, build_timelock_creation_code(sender))


def deploy(network: LocalNetwork, creation_code: str) -> str:
    """Deploy a contract, and return its address."""
    chain = network.stage.chain
    sender = Address(chain.make_request("eth_accounts")[0])
    deployment = {"from": sender, "data": creation_code, "gas": hex(5_000_000)}
    (receipt,) = chain.mine_and_check_receipts(network.clock.advance(), [deployment])
    return str(receipt["contractAddress"]).lower()


def test_check_reports_signer_unknown_to_contract(settings, tmp_path, capsys):
    files = KeyFiles(tmp_path / "other.json", tmp_path / "other.password")
    address = create_keystore(*files, iterations=1000)
    settings["keys"] |= {
        "signer_keystore": str(files.keystore),
        "signer_password_file": str(files.password_file),
    }
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", "check", "--dev", "--config", str(path)]) == 2
    assert f"signers: expected a list with {address}" in capsys.readouterr().out


def test_check_rejects_network_contract_as_oracle(settings, network, tmp_path, capsys):
    settings["oracle"]["address"] = network.stage.network
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", "check", "--dev", "--config", str(path)]) == 2
    assert "have the same address" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["show"], ["check"], ["deploy", "--dev", "--admin", ADMIN]])
@pytest.mark.parametrize(
    "fault",
    [
        ({"chain": {"id": 5}}, "is on chain 31337, but [chain] id is 5", 2),
        # The endpoint may respond later.
        ({"chain": {"endpoints": ["http://127.0.0.1:9"]}}, "no endpoint answers", 1),
        ({"network": {"contracts": {"TaskNetwork": NOBODY}}}, "there is no contract at", 2),
    ],
)
def test_every_contract_command_rejects_wrong_network(settings, tmp_path, capsys, command, fault):
    wrong, message, code = fault
    for section, values in wrong.items():
        settings[section] |= values
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["contract", *command, "--config", str(path)]) == code
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_deploy_dry_run_prints_readable_text(config, capsys):
    options = ["--dev", "--admin", ADMIN, "--config", str(config), "--dry-run"]
    assert run(["contract", "deploy", *options]) == 0
    stdout = capsys.readouterr().out
    assert re.search(r"(?m)^arguments\.limits\.max age seconds +2 h \(7200 s\)$", stdout)


def test_run_publishes_nothing_if_the_contract_does_not_match(settings, tmp_path, capsys, watched):
    settings["oracle"]["deviation"] = 77
    settings["chain"]["endpoints"] = [watched.url]
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 2
    stderr = capsys.readouterr().err
    assert "the oracle contract differs from the configuration; nothing is sent" in stderr
    assert "rulesHash: expected" in stderr
    assert "eth_sendRawTransaction" not in watched.seen


def test_run_without_publish_signs_and_sends_nothing(settings, tmp_path, watched):
    settings["chain"]["endpoints"] = [watched.url]
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    assert "eth_sendRawTransaction" not in watched.seen


def test_two_hosts_of_one_provider_count_as_one_witness(tmp_path, capsys):
    """Both report that it failed; the honest provider is the first in the settings."""
    (tmp_path / "keys").mkdir()
    with (
        # A separate network: the deployment mines immediately and uses a nonce of the
        # transmitter.
        run_local_network(tmp_path / "keys") as network,
        run_proxy(network.url) as liar,
        run_proxy(network.url) as honest,
    ):
        network.stage.chain.make_request("evm_setAutomine", True)
        settings = network.settings(tmp_path)
        liar.rule("eth_getTransactionReceipt", Fault(answer=mark_reverted))
        settings["chain"] |= {
            "endpoints": [
                honest.url.replace("127.0.0.1", "127.1"),
                liar.url,
                liar.url.replace("127.0.0.1", "localhost"),
            ],
            "providers": {"127.0.0.1": "shared", "localhost": "shared"},
        }
        path = write_config(settings, tmp_path / "config.toml")
        command = ["contract", "deploy", "--dev", "--admin", ADMIN, "--yes", "--json"]
        assert run([*command, "--config", str(path)]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert network.stage.chain.make_request("eth_getCode", answer["address"], "latest") != "0x"


def mark_reverted(_, response):
    receipt = response["result"]
    return {**response, "result": receipt and {**receipt, "status": "0x0"}}


def test_unconfirmed_or_dry_run_deployment_sends_nothing(settings, tmp_path, capsys, watched):
    settings["chain"]["endpoints"] = [watched.url]
    path = write_config(settings, tmp_path / "config.toml")
    command = ["contract", "deploy", "--dev", "--admin", ADMIN, "--config", str(path), "--json"]
    assert run(command) == 2
    assert "use --yes to proceed, or --dry-run to see" in capsys.readouterr().err
    assert run([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["arguments"]["admin"] == ADMIN
    assert planned["gas_limit"] > 1_000_000
    assert len(planned["code_hash"]) == 66
    assert "eth_sendRawTransaction" not in watched.seen


@pytest.mark.parametrize(
    ("expected_error", "fault"),
    [
        (["--admin", "0x12"], "not an address; expected 0x and 40 hex digits"),
        (["--admin", ADMIN, "--limit", "kick_below"], "must be NAME=NUMBER"),
        (["--admin", ADMIN, "--limit", "speed=3"], "unknown limit speed"),
        (
            ["--admin", ADMIN, "--limit", "max_age_seconds=0"],
            "rejects the arguments: BadLimits()",
        ),
        (["--admin", ADMIN, "--keystore", "x"], "give both or neither"),
        (
            ["--admin", ADMIN, "--target", NOBODY, "--adapter", "VssTaskAdapter"],
            "--adapter and --target: mutually exclusive; with --target no adapter is deployed",
        ),
        (
            ["--admin", ADMIN, "--target", NOBODY, "--contract", f"QOS={NOBODY}"],
            "--contract and --target: mutually exclusive",
        ),
    ],
)
def test_invalid_deployment_fails_with_one_line_error(config, capsys, expected_error, fault):
    assert run(["contract", "deploy", "--dev", "--config", str(config), *expected_error]) == 2
    stderr = capsys.readouterr().err
    assert fault in stderr
    assert stderr.count("\n") == 1


def test_deployment_controlled_by_single_key_is_rejected(config, capsys):
    assert run(["contract", "deploy", "--admin", ADMIN, "--config", str(config)]) == 2
    stderr = capsys.readouterr().err
    assert "at least two signatures are required" in stderr
    assert "--pauser and --vetoer" in stderr


def test_planned_deployment_has_timelock_as_admin(config, capsys):
    people = ["--signers", f"{ADMIN},{NOBODY}", "--quorum", "2"]
    people += ["--pauser", "0x" + "1" * 40, "--vetoer", "0x" + "2" * 40]
    command = ["contract", "deploy", "--admin", ADMIN, *people, "--config", str(config), "--json"]
    assert run([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["timelock"]["owner"] == ADMIN
    assert planned["arguments"]["admin"] == planned["timelock"]["address"] != ADMIN
    assert planned["arguments"]["floors"]["veto_delay"] == 3600


@pytest.mark.parametrize(
    ("act", "selector", "role"),
    [
        (["pause", "86400"], "pauseFor(uint40)", "pauser"),
        (["veto", ADMIN, "stolen"], "veto(address,bytes32)", "vetoer"),
        (["allow", ADMIN, "1800000000"], "allow(address,uint40)", "vetoer"),
        (["strike", "7"], "strike(uint32)", "pauser"),
        (["drop-signer", ADMIN], "dropSigner(address)", "pauser"),
        (
            ["set-signers", f"{ADMIN},{NOBODY}", "2"],
            "setSigners(address[],uint8)",
            "a proposer of the timelock",
        ),
    ],
)
def test_emergency_calldata_is_printed_and_not_sent(config, capsys, act, selector, role):
    assert run(["contract", "calldata", *act, "--config", str(config), "--json"]) == 0
    printed_call = json.loads(capsys.readouterr().out)
    assert printed_call["calldata"][:10] == "0x" + keccak(text=selector)[:4].hex()
    assert printed_call["sender"].startswith(role)


@pytest.mark.parametrize("act", [["pause"], ["pause", "long"], ["drop-signer", "0x1"], ["fly"]])
def test_invalid_calldata_arguments_fail_with_one_line_error(config, capsys, act):
    assert run(["contract", "calldata", *act, "--config", str(config)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
