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

# Fields that the daemon and the replay both report for a node.
_COMPARED = ("status", "excluded", "kickout_due", "long_term", "reliability", "qos")
# The demo's rules where they differ from the shipped ones.
CHANGES: Mapping[str, Mapping[str, str]] = {
    # A node that is always last of three has a mean of 2 of 10: not below the shipped threshold.
    "crynux": {"kickout_below": "2.2"},
    # The weights were never published.
    "legacy": {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        # A node that is always last of three has a mean of 4 of 20.
        "legacy.kickout_below": "5",
        "legacy.kickout_tasks": "20",
    },
}


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The daemon's figures of a node; `equal`: whether a replay of the chain gives the same."""

    name: str
    node: Address
    status: str
    qos: str | None
    is_due: bool
    equal: bool


def rules_of(profile: str) -> str:
    """Return the name of the rule set that the network used in its time."""
    return "crynux" if profile == VSS else "legacy"


def readings(network: CrynuxNetwork, lines: list[str], configuration: Path) -> list[NodeReading]:
    """Compare the daemon's figures of every node with a replay of these events.

    Raises:
        FatalError: the daemon's command or the replay fails.
    """
    told = json.loads(_printed("nodes", "--json", "--config", str(configuration)))
    at = int(network.chain.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    wanted = _replayed(lines, network.profile, at)
    return [_reading(network, row, wanted) for row in told]


def _reading(
    network: CrynuxNetwork, told: dict[str, Any], wanted: Mapping[str, dict[str, Any]]
) -> NodeReading:
    recomputed = wanted.get(told["node"], {})
    is_equal = all(told[name] == recomputed.get(name) for name in _COMPARED)
    return NodeReading(
        name=network.name_of(Address(told["node"])),
        node=Address(told["node"]),
        status=told["status"],
        qos=told["qos"],
        is_due=told["kickout_due"],
        equal=is_equal,
    )


def events_of(network: CrynuxNetwork) -> list[str]:
    """Return the events of the whole chain, read by a separate process."""
    contracts = json.dumps(network.watched)
    module = "devnet.crynux.chain_reading"
    said = _output(["-m", module, network.chain.url, network.profile, contracts])
    return said.splitlines()


def _replayed(lines: list[str], profile: str, at: int) -> dict[str, dict[str, Any]]:
    """Return the nodes as `qos-oracle replay` prints them for a time, by address."""
    rules = rules_of(profile)
    changes = [f"--set={name}={text}" for name, text in CHANGES[rules].items()]
    written = "\n".join(lines) + "\n"
    said = _printed("replay", "-", "--rules", rules, *changes, "--at", str(at), given=written)
    return {row["node"]: row for row in json.loads(said)["nodes"]}


def _printed(*arguments: str, given: str = "") -> str:
    return _output(["-m", "oracle", *arguments], given)


def _output(arguments: list[str], given: str = "") -> str:
    """Run a Python process and return its output.

    Raises:
        FatalError: the process failed; the message is its last line.
    """
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *arguments], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise FatalError(f"{arguments[1]} {arguments[2]} failed: {last}")
    return done.stdout
