"""What the daemon says of a network that is not ours, beside a reading of the chain itself."""

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

# What is told of a node by both, in the same words.
_COMPARED = ("status", "excluded", "kickout_due", "long_term", "reliability", "qos")
# The rules of the show, where they are not as shipped.
CHANGES: Mapping[str, Mapping[str, str]] = {
    # Who is always the last of three has a mean of 2, of 10: not below the line as shipped.
    "crynux": {"kickout_below": "2.2"},
    # The weights were never published.
    "legacy": {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        # Who is always the last of three has a mean of 4, of 20.
        "legacy.kickout_below": "5",
        "legacy.kickout_tasks": "20",
    },
}


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the daemon tells of a node; `equal` where a reading of the chain says the same."""

    name: str
    node: Address
    status: str
    qos: str | None
    is_due: bool
    equal: bool


def rules_of(profile: str) -> str:
    """Return the name of the rule set that a network's own time knew."""
    return "crynux" if profile == VSS else "legacy"


def readings(network: CrynuxNetwork, lines: list[str], configuration: Path) -> list[NodeReading]:
    """Return what the daemon tells of every node, compared with a replay of these events.

    Raises:
        FatalError: one of both fails.
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
    """Let a process of its own read the whole chain."""
    contracts = json.dumps(network.watched)
    module = "devnet.crynux.chain_reading"
    said = _output(["-m", module, network.chain.url, network.profile, contracts])
    return said.splitlines()


def _replayed(lines: list[str], profile: str, at: int) -> dict[str, dict[str, Any]]:
    """Return what `qos-oracle replay` prints about the nodes at a time, by address."""
    rules = rules_of(profile)
    changes = [f"--set={name}={text}" for name, text in CHANGES[rules].items()]
    written = "\n".join(lines) + "\n"
    said = _printed("replay", "-", "--rules", rules, *changes, "--at", str(at), given=written)
    return {row["node"]: row for row in json.loads(said)["nodes"]}


def _printed(*arguments: str, given: str = "") -> str:
    return _output(["-m", "oracle", *arguments], given)


def _output(arguments: list[str], given: str = "") -> str:
    """Return what a process of ours prints.

    Raises:
        FatalError: it failed; the line is its last word.
    """
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *arguments], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise FatalError(f"{arguments[1]} {arguments[2]} failed: {last}")
    return done.stdout
