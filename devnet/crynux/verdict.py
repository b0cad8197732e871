"""Compares the daemon's view of a third-party network with an independent reading of the chain."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devnet.crynux.crynux_network import VSS, CrynuxNetwork
from oracle.domain.ids import Address
from oracle.errors import FatalError

# Fields of a node that the daemon and the replay both report.
_COMPARED_FIELDS = ("status", "excluded", "kickout_due", "long_term", "reliability", "qos")
RULE_CHANGES: Mapping[str, Mapping[str, str]] = {
    # A node that is always last of three has a mean of 2 out of 10. The shipped threshold is not
    # above that, so a higher one is used.
    "crynux": {"kickout_below": "2.2"},
    # These weights were never published.
    "legacy": {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        # A node that is always last of three has a mean of 4 out of 20. This threshold is above
        # that.
        "legacy.kickout_below": "5",
        "legacy.kickout_tasks": "20",
    },
}


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """The daemon's values for one node.

    `equal` is set if a replay of the chain gives the same values. `proven` is set if a contract
    verified the proof of the node's leaf against the root on chain, and None without reports.
    """

    name: str
    node: Address
    status: str
    qos: str | None
    is_due: bool
    equal: bool
    proven: bool | None = None


def get_rule_set_name(profile: str) -> str:
    """Return the name of the rule set for the contract generation of a profile."""
    return "crynux" if profile == VSS else "legacy"


def compare_nodes_with_replay(
    network: CrynuxNetwork, lines: list[str], configuration: Path
) -> list[NodeComparison]:
    """Compare the daemon's values of each node with a replay of the events in `lines`.

    Raises:
        FatalError: the daemon's command or the replay fails.
    """
    node_page = json.loads(_run_oracle("nodes", "--json", "--config", str(configuration)))
    block_time = int(
        network.chain.make_request("eth_getBlockByNumber", "latest", False)["timestamp"], 16
    )
    replayed_by_node = _replay_events(lines, network.profile, block_time)
    return [_compare_node(network, row, replayed_by_node) for row in node_page["nodes"]]


def _compare_node(
    network: CrynuxNetwork,
    daemon_row: dict[str, Any],
    replayed_by_node: Mapping[str, dict[str, Any]],
) -> NodeComparison:
    replayed_node = replayed_by_node.get(daemon_row["node"], {})
    is_equal = all(daemon_row[name] == replayed_node.get(name) for name in _COMPARED_FIELDS)
    return NodeComparison(
        name=network.get_node_name(Address(daemon_row["node"])),
        node=Address(daemon_row["node"]),
        status=daemon_row["status"],
        qos=daemon_row["qos"],
        is_due=daemon_row["kickout_due"],
        equal=is_equal,
    )


def fetch_event_lines(network: CrynuxNetwork) -> list[str]:
    """Fetch the events of the whole chain as JSON lines in a separate process."""
    contracts = json.dumps(network.profile_contracts)
    module = "devnet.crynux.chain_reading"
    output = _run_python(["-m", module, network.chain.url, network.profile, contracts])
    return output.splitlines()


def _replay_events(lines: list[str], profile: str, block_time: int) -> dict[str, dict[str, Any]]:
    """Return the rows that `qos-oracle replay` prints for `block_time`, by node address."""
    rule_set_name = get_rule_set_name(profile)
    set_options = [f"--set={name}={text}" for name, text in RULE_CHANGES[rule_set_name].items()]
    events_text = "\n".join(lines) + "\n"
    output = _run_oracle(
        "replay",
        "-",
        "--rules",
        rule_set_name,
        *set_options,
        "--at",
        str(block_time),
        stdin_text=events_text,
    )
    return {row["node"]: row for row in json.loads(output)["nodes"]}


def _run_oracle(*arguments: str, stdin_text: str = "") -> str:
    return _run_python(["-m", "oracle", *arguments], stdin_text)


def _run_python(arguments: list[str], stdin_text: str = "") -> str:
    """Run a Python process, and return its output.

    Raises:
        FatalError: the process failed; the message is the last line of its output.
    """
    completed_process = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *arguments], input=stdin_text, capture_output=True, text=True, check=False
    )
    if completed_process.returncode:
        last_line = (completed_process.stderr.strip().splitlines() or ["no output"])[-1]
        raise FatalError(f"{arguments[1]} {arguments[2]} failed: {last_line}")
    return completed_process.stdout
