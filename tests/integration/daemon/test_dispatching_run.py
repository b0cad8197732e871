"""`run --dispatch` on a real chain without an oracle contract: a task starts exactly once."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from oracle.cli.main import run
from oracle.signing.keystore import create_keystore
from tests.support.cli.local_network import Settings, write_config
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain
from tests.support.evm.network import ETHER, Network, Status
from tests.support.harness import CHAIN_ID, QUICK

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture
def network() -> Iterator[Network]:
    """Yield a separate chain, because the tests use the dispatcher's nonces."""
    with run_anvil(*FREE_BY_HAND, "--slots-in-an-epoch", "1") as url:
        chain = Chain(url)
        network = Network.deployed(chain)
        for node in network.nodes[:2]:
            network.join(node)
        yield network
        chain.close()


@pytest.fixture
def settings(network: Network, tmp_path: Path) -> Settings:
    """Return a configuration that can dispatch if it is enabled."""
    files = (tmp_path / "dispatcher.json", tmp_path / "dispatcher.password")
    sender = Web3.to_checksum_address(create_keystore(*files, iterations=QUICK))
    network.chain.send(network.does.setDispatcher(sender), sender=network.admin)
    network.chain.rpc("anvil_setBalance", sender, hex(ETHER))
    return {
        "database": {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"},
        "chain": {"id": CHAIN_ID, "endpoints": [network.chain.url], "finality_depth": 2},
        "network": {"contracts": {"TaskNetwork": network.contract.address}},
        "dispatch": {
            "start_block": 0,
            "queue_alpha": 2,
            "fixed_seconds": {"sd": 5, "llm": 2, "sd_ft": 60},
            "unit_seconds": {"sd": 1, "llm": 0.05, "sd_ft": 1},
        },
        "keys": {
            "dispatcher_keystore": str(files[0]),
            "dispatcher_password_file": str(files[1]),
        },
        "log": {"format": "json"},
    }


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    # No daemon works, which `status` calls for attention.
    assert run([*map(str, arguments), "--json"]) == (arguments[0] == "status")
    return json.loads(capsys.readouterr().out)


def run_once_after_block(network: Network, path: Path, *flags: str) -> None:
    """Mine a block, and run the daemon once; return its output."""
    network.chain.later(1)
    network.chain.mine()
    assert run(["run", "--once", *flags, "--config", str(path)]) == 0


@pytest.mark.parametrize("policy", ["crynux", "article", "portal_api_head"])
def test_node_is_drawn_for_task_and_task_is_started_and_verified(
    network: Network,
    settings: Settings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    policy: str,
):
    settings["dispatch"]["policy"] = policy
    path = write_config(settings, tmp_path / "config.toml")
    task = network.create()
    run_once_after_block(network, path)
    run_once_after_block(network, path)
    # Only the flag, or dispatch.enabled, permits sending.
    assert run_json(capsys, "status", "--config", path)["outbox"] == []
    run_once_after_block(network, path, "--dispatch")
    run_once_after_block(network, path, "--dispatch")
    assert network.status(task) is Status.STARTED

    check = run_json(capsys, "select", "--verify", "0x" + task.hex(), "--config", path)
    assert check["verdict"] == "agrees"
    task_file = tmp_path / "task.json"
    task_file.write_text('{"kind": "sd"}')
    assert run_json(capsys, "select", "--task", task_file, "--config", path)["policy"] == policy
    facts = run_json(capsys, "config", "check", "--config", path)["facts"]
    assert (
        f"policy {policy} from block 0 on, 2 waiting tasks per member, dispatcher 0x"
        in facts["dispatch"]
    )
    # 1 ether over 145,000 gas of 200 gwei.
    assert facts["starts"].startswith("34 per day fit limits.max_cost_per_day_wei")


def test_outbox_list_abbreviates_a_task_id_that_show_prints_in_full(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_config(settings, tmp_path / "config.toml")
    task = "0x" + network.create().hex()
    for _ in range(3):
        run_once_after_block(network, path, "--dispatch")
    (start,) = run_json(capsys, "outbox", "list", "--kind", "start_task", "--config", path)
    assert run(["outbox", "list", "--config", str(path)]) == 0
    text = capsys.readouterr().out
    # The block number is part of the next line.
    assert f"{task[:10]}…, block" in text
    assert "None" not in text
    assert max(map(len, text.splitlines())) <= 100

    outbox_entry = run_json(capsys, "outbox", "show", start["id"], "--config", path)
    check = run_json(capsys, "select", "--verify", task, "--config", path)
    recorded = check["recorded"][-1]
    assert (outbox_entry["task"], outbox_entry["node"]) == (task, recorded["node"])
    assert outbox_entry["as_of_hash"] == recorded["seed_hash"]


def test_status_and_draws_show_waiting_and_pending_tasks(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_config(settings, tmp_path / "config.toml")
    task = "0x" + network.create().hex()
    run_once_after_block(network, path)
    run_once_after_block(network, path)
    status = run_json(capsys, "status", "--config", path)
    assert (status["tasks_waiting"], status["draws_standing"]) == (1, 1)
    assert status["dispatcher"]["balance_wei"] == str(ETHER)
    (drawn,) = run_json(capsys, "draws", "--config", path)["active"]
    assert (drawn["task"], drawn["seed_block"]) == (task, status["oldest_draw_block"])
    assert drawn["outcome"] is None
    assert run(["status", "--config", str(path)]) == 1
    assert f"{status['dispatcher']['address']}, 1.000000 ether" in capsys.readouterr().out

    run_once_after_block(network, path, "--dispatch")
    run_once_after_block(network, path)
    listed_draws = run_json(capsys, "draws", "--config", path)
    assert (listed_draws["active"], listed_draws["over"][0]["node"]) == ([], drawn["node"])
    assert listed_draws["over"][0]["outcome"] == "started"
    assert run_json(capsys, "draws", "--last", 0, "--config", path)["over"] == []
    assert run(["draws", "--config", str(path)]) == 0
    text = capsys.readouterr().out
    assert re.search(f"{drawn['task'][:14]}… .*{drawn['node']} .* started as drawn\n", text)
    assert max(map(len, text.splitlines())) <= 100


def test_status_without_an_endpoint_reports_an_unknown_balance(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["chain"]["endpoints"] = ["http://127.0.0.1:9"]
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["migrate", "--config", str(path)]) == 0
    account_balance = run_json(capsys, "status", "--config", path)["dispatcher"]
    assert account_balance["balance_wei"] is None
    assert "no connection" in account_balance["unknown"]
    Path(settings["keys"]["dispatcher_keystore"]).write_text("nothing")
    account_balance = run_json(capsys, "status", "--config", path)["dispatcher"]
    assert "not a keystore" in account_balance["unknown"]


def test_dry_run_starts_no_task(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["dispatch"]["enabled"] = True
    path = write_config(settings, tmp_path / "config.toml")
    network.create()
    for _ in range(3):
        run_once_after_block(network, path, "--dry-run")
    assert run_json(capsys, "status", "--config", path)["outbox"] == []
    assert run(["run", "--once", "--dry-run", "--dispatch", "--config", str(path)]) == 2
    assert "--dispatch and --dry-run: mutually exclusive" in capsys.readouterr().err


def test_no_task_is_started_without_the_dispatcher_role(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    network.chain.send(network.does.setDispatcher(network.admin), sender=network.admin)
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--dispatch", "--config", str(path)]) == 2
    assert "use the other key" in capsys.readouterr().err


def test_config_check_warns_about_too_low_start_limits(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["limits"] = {"max_cost_per_day_wei": 10**15, "max_cost_per_transaction_wei": 10**15}
    path = write_config(settings, tmp_path / "config.toml")
    report = run_json(capsys, "config", "check", "--offline", "--config", path)
    assert [warning.partition(":")[0] for warning in report["warnings"]] == [
        "limits.max_cost_per_day_wei",
        "limits.max_cost_per_transaction_wei",
    ]


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("start_block", "dispatch.start_block: missing"),
        ("queue_alpha", "dispatch.queue_alpha: missing"),
        ("unit_seconds", "dispatch.unit_seconds: no value for sd, llm, sd_ft"),
    ],
)
def test_missing_required_dispatch_setting_is_rejected(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], missing, complaint
):
    settings["dispatch"]["enabled"] = True
    del settings["dispatch"][missing]
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dispatch", "complaint"),
    [
        ({"policy": "legacies"}, "dispatch.policy: "),
        (
            {"policy": "article", "change": {"flag_ttl_ms": 1}},
            "dispatch.change: flag_ttl_ms: no such parameter of article (available: expected, ",
        ),
        (
            {"policy": "portal_api_head", "change": {"expected": "0"}},
            "dispatch.change: expected: must be above 0",
        ),
        (
            {"policy": "article", "weight_floor": 0.01},
            "dispatch.weight_floor: the policy article has tickets, and no minimum weight",
        ),
        ({"weight_floor": 5}, "dispatch.weight_floor: Input should be less than or equal to 4"),
    ],
)
def test_invalid_policy_settings_are_rejected_before_draw(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], dispatch, complaint
):
    settings["dispatch"] |= dispatch
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 2
    assert complaint in capsys.readouterr().err


def test_missing_results_folder_prevents_startup(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["dispatch"]["results_folder"] = "results"
    path = write_config(settings, tmp_path / "config.toml")
    fault = (
        f"dispatch.results_folder: {tmp_path / 'results'}: no such folder; "
        "create it, or remove the setting"
    )
    assert run(["run", "--once", "--dispatch", "--config", str(path)]) == 2
    assert capsys.readouterr().err == f"qos-oracle: {fault}\n"
    assert run(["config", "check", "--json", "--config", str(path)]) == 2
    assert json.loads(capsys.readouterr().out)["faults"] == [f"dispatch: {fault}"]

    (tmp_path / "results").mkdir()
    facts = run_json(capsys, "config", "check", "--config", path)["facts"]
    assert facts["dispatch"].endswith(f", results from {tmp_path / 'results'}")


def test_rule_set_without_scoring_rules_is_rejected(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["rules"] = {"set": "article"}
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 2
    assert "rules.set: article is a policy without scoring rules" in capsys.readouterr().err


def test_legacy_policy_starts_three_tasks_in_one_transaction(
    network: Network, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    network.join(network.nodes[2])
    settings["dispatch"]["policy"] = "legacy"
    path = write_config(settings, tmp_path / "config.toml")
    tasks = [network.create(group=b"g" * 32, group_size=3) for _ in range(3)]
    for _ in range(3):
        run_once_after_block(network, path, "--dispatch")
    assert {network.status(task) for task in tasks} == {Status.STARTED}
    (start,) = run_json(capsys, "outbox", "list", "--kind", "start_group", "--config", path)
    assert start["state"] in {"mined", "final"}
    check = run_json(capsys, "select", "--verify", "all", "--config", path)
    assert (check["verdict"], check["started"]) == ("agrees", 3)
    facts = run_json(capsys, "config", "check", "--config", path)["facts"]
    assert "375000 gas each" in facts["starts"]


def test_weight_floor_is_rejected_for_legacy_policy(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    settings["dispatch"] |= {"policy": "legacy", "weight_floor": 0.1}
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert "dispatch.weight_floor: the policy legacy has no minimum weight" in error
