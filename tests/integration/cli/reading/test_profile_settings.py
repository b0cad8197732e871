"""The section [network]: a shipped profile or a custom one, its options, and their errors."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.chain.profiles.profile_loader import load_profile
from oracle.cli.main import run
from oracle.cli.setup.profile_report import describe_on_chain_actions
from oracle.daemon.config.loader import read_config
from tests.support.cli.local_network import write_config
from tests.support.cli.refusal import run_refused_command

TASKS = "0x" + "4e" * 20
NODES = "0x" + "4f" * 20
VSS = {"profile": "crynux-vss", "contracts": {"VSSTask": TASKS, "Node": NODES}}
OWN = """
[contracts.Work]
abi = ["event Began(bytes32 task, address node)"]
address = "0x4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e"
start_block = 5

[contracts.Work.events.Began]
says = "task_started"
task = "task"
node = "node"
"""


@pytest.fixture
def settings(offline_settings, tmp_path):
    """Return a function that writes settings for indexing this network, and returns their path."""
    for section in ("oracle", "keys", "dispatch"):
        offline_settings.pop(section, None)
    offline_settings["database"] = {"url": f"sqlite:///{tmp_path / 'new.sqlite'}"}

    def of(network: dict[str, object], **chain: object) -> Path:
        offline_settings["network"] = network
        offline_settings["chain"] |= chain
        return write_config(offline_settings, tmp_path / "config.toml")

    return of


def run_config_check(capsys, path):
    """Return the output of `config check`."""
    assert run(["config", "check", "--offline", "--json", "--config", str(path)]) == 0
    return json.loads(capsys.readouterr().out)


def test_shipped_profile_is_checked_with_its_options(capsys, settings):
    report = run_config_check(
        capsys, settings({**VSS, "options": {"blame_missing_upload": False}})
    )

    assert "blame_missing_upload = false" in report["facts"]["profile"]
    assert "reads logs and calls (full blocks)" in report["facts"]["profile"]
    assert report["facts"]["contracts"] == f"VSSTask {TASKS}; Node {NODES}"
    assert report["warnings"] == []


def test_custom_profile_reports_missing_scoring_inputs(capsys, settings, tmp_path):
    profile = tmp_path / "own.toml"
    profile.write_text(OWN)

    report = run_config_check(capsys, settings({"profile": str(profile)}, start_block=9))

    assert report["facts"]["profile"].endswith("emits only task_started")
    assert report["facts"]["contracts"] == f"Work {TASKS} from block 5"
    warnings_text = " ".join(report["warnings"])
    for loss in ("no node is a member", "no group is ranked", "no node is ever excluded"):
        assert loss in warnings_text
    assert "chain.start_block: 9 is after block 5, where Work begins" in warnings_text


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (('"node"\n', '"nod"\n'), "contracts.Work.events.Began.node: .*no argument nod; did you"),
        (("Began]", "Begun]"), "contracts.Work.events.Begun: the ABI has no event Begun; did you"),
        (
            ('node = "node"', ""),
            "contracts.Work.events.Began: task_started requires the field node",
        ),
    ],
)
def test_invalid_custom_profile_fails_with_one_line_error(capsys, settings, change, fault):
    path = settings({})
    profile = path.parent / "own.toml"
    profile.write_text(OWN.replace(*change))

    line = run_refused_command(
        capsys, "config", "check", "--config", settings({"profile": str(profile)})
    )

    with pytest.raises(AssertionError, match=f"own.toml: {fault}"):
        raise AssertionError(line)


def test_contracts_missing_for_profile_are_reported(capsys, settings):
    path = settings({**VSS, "contracts": {"Node": NODES}})

    assert (
        "network.contracts: VSSTask is missing; the profile crynux-vss requires it"
        in run_refused_command(capsys, "status", "--config", path)
    )


@pytest.mark.parametrize(
    ("contracts", "fault"),
    [
        ({"Work": NODES, "Wrok": TASKS}, "network.contracts.Wrok: unknown contract"),
        ({"Work": NODES, "More": NODES}, f"Work and More have the same address, {NODES}"),
    ],
)
def test_extra_contract_is_reported_as_a_single_problem(capsys, settings, contracts, fault):
    profile = settings({}).parent / "own.toml"
    more = OWN[OWN.index("[") :].replace("Work", "More").replace(TASKS, "0x" + "4d" * 20)
    profile.write_text(OWN + (more if "More" in contracts else ""))
    path = settings({"profile": str(profile), "contracts": contracts})

    message = run_refused_command(capsys, "config", "check", "--offline", "--config", path)

    assert fault in message
    assert len(message.splitlines()) == 1


def test_number_of_profile_problems_is_reported(capsys, settings):
    profile = settings({}).parent / "own.toml"
    profile.write_text(OWN.replace("bytes32 task", "bytes33 task"))
    path = settings({"profile": str(profile)})

    message = run_refused_command(capsys, "config", "check", "--offline", "--config", path)

    assert ": 2 faults\n" in message
    assert len(message.splitlines()) == 3


def test_dispatch_is_rejected_if_the_network_draws_no_nodes(capsys, settings, offline_settings):
    offline_settings["dispatch"] = {"start_block": 0}

    line = run_refused_command(capsys, "status", "--config", settings(VSS))

    assert "network.profile: crynux-vss has no TaskNetwork" in line
    assert "remove dispatch.start_block" in line


def test_publishing_can_be_configured_for_any_network(settings, offline_settings):
    offline_settings["oracle"] = {"address": "0x" + "0a" * 20}

    assert read_config(settings(VSS)).oracle.address == "0x" + "0a" * 20


@pytest.mark.parametrize(
    ("network", "possible"),
    [
        (VSS, "scores; kickouts through VssTaskAdapter, which `contract deploy` adds; "),
        (
            {"profile": "crynux-staking", "contracts": {"NodeStaking": TASKS}},
            "no scores: the profile emits no task events; a [feed] would have to supply them",
        ),
    ],
)
def test_config_check_reports_whether_the_profile_allows_publishing(
    capsys, settings, network, possible
):
    onchain_fact = run_config_check(capsys, settings(network))["facts"]["on chain"]

    assert onchain_fact.startswith(possible)
    assert onchain_fact.endswith(". Nothing now: oracle.address is missing")


def test_config_check_reports_that_a_profile_holds_kickouts():
    profile = load_profile("reference")
    held = replace(profile, holds_kickouts=True)

    assert "held for an operator" not in describe_on_chain_actions(profile)
    assert "; every kickout is held for an operator; " in describe_on_chain_actions(held)
