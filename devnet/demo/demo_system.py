"""Defines the systems of the demo, each with rules, policy, nodes and orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from devnet.demo.demo_nodes import (
    DEMO_NODES,
    GROUP_SIZE,
    SINGLE_CREATOR_NODE,
    TASK_TIMEOUT,
    DemoNode,
)
from oracle.chain.profiles.profile_loader import load_profile
from oracle.daemon.config.loader import read_config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import compute_kickout_line_steps
from oracle.domain.reports.report import ReportSettings, hash_rules_and_settings
from oracle.domain.scoring.rules import Rules
from oracle.resources import find_shipped_path
from oracle.systems.registry import build_rules

_ETHER = 10**18
_IMAGE, _LANGUAGE = 0, 1
# Every node gets a task within this many seconds. If necessary, it is a system task with this fee
# in wei.
_PROBE_WINDOW_SECONDS = 300
_PROBE_FEE_WEI = _ETHER // 50
# Each wave has a task for every node. Tasks that no node can take wait in the queue.
_GROUPS = len(DEMO_NODES) // GROUP_SIZE


class GroupOrder(NamedTuple):
    """An order of a group of tasks in a wave.

    `task_kind` is as in TaskCreated, and `fee` is in wei per task. If `min_vram` (GB) is not 0,
    the group belongs to the application that needs this much memory.
    """

    task_kind: int
    fee: int
    min_vram: int = 0


@dataclass(frozen=True, slots=True)
class DemoSystem:
    """A rule set for the demo, with the policy of the same name.

    `changes` replaces some of its rules. `orders` are the groups of every wave. The nodes behave
    the same in every system, except for `SINGLE_CREATOR_NODE`; their GPUs differ. If
    `pays_by_points` is set, a group's fee is shared by the points of its rounds. If `has_probes`
    is set, the dispatcher creates system tasks. If `has_burst` is set, all tasks of one
    application time out. `dispatcher_balance` is the dispatcher's balance for system tasks and for
    the second groups of contests, in wei.
    """

    name: str
    changes: Mapping[str, str]
    nodes: tuple[DemoNode, ...]
    orders: tuple[GroupOrder, ...]
    pays_by_points: bool = False
    has_probes: bool = False
    has_burst: bool = False
    dispatcher_balance: int = _ETHER

    @property
    def has_single_creator_node(self) -> bool:
        """Whether the system has a node whose tasks all come from one creator."""
        return SINGLE_CREATOR_NODE in self.nodes

    @property
    def rules(self) -> Rules:
        """The complete rule set."""
        return build_rules(self.name, self.changes)

    @property
    def kick_below(self) -> int:
        """The contract's threshold for kickouts, in 1/10,000 of QoS."""
        return compute_kickout_line_steps(self.rules)

    @property
    def rules_hash(self) -> Hash:
        """The hash that identifies the rules of reports in the contract."""
        settings = replace(read_report_settings(), kick_below=self.kick_below)
        return hash_rules_and_settings(self.rules, load_profile("reference").identity, settings)

    @property
    def settings(self) -> dict[str, dict[str, object]]:
        """The settings that differ from the demo's shipped configuration."""
        if self.name == CRYNUX_SYSTEM.name:
            return {}
        rules_settings: dict[str, object] = {"set": self.name, "change": self.changes}
        settings: dict[str, dict[str, object]] = {
            "rules": rules_settings,
            "dispatch": {"policy": self.name},
        }
        if self.has_probes:
            settings["probing"] = {
                "enabled": True,
                "window_seconds": _PROBE_WINDOW_SECONDS,
                "fee_wei": _PROBE_FEE_WEI,
                "max_fee_per_window_wei": len(self.nodes) * GROUP_SIZE * _PROBE_FEE_WEI,
                "timeout_seconds": TASK_TIMEOUT,
            }
        return settings

    @property
    def replay_options(self) -> Sequence[str]:
        """The options with which `qos-oracle replay` uses the same rules."""
        return [
            "--rules",
            self.name,
            *(f"--set={rule}={value}" for rule, value in self.changes.items()),
        ]


def read_report_settings() -> ReportSettings:
    """Read the report settings that the contract needs from the demo's configuration."""
    oracle_section = read_config(find_shipped_path("config/demo.toml")).oracle
    return build_report_settings(oracle_section, CRYNUX_SYSTEM.rules)


def _replace_gpus(gpus: Mapping[str, tuple[str, int]]) -> tuple[DemoNode, ...]:
    """Return the demo nodes after giving some of them other GPUs.

    `gpus` maps a node's name to its GPU model and video memory in GB.
    """
    return tuple(
        replace(node, gpu_name=gpus[node.name][0], gpu_vram=gpus[node.name][1])
        if node.name in gpus
        else node
        for node in DEMO_NODES
    )


_IMAGE_GROUP = GroupOrder(_IMAGE, _ETHER // 10)
# Only three nodes have enough memory for this group. It comes first, so that its tasks are drawn
# first.
_LARGE_GROUP = _IMAGE_GROUP._replace(min_vram=SINGLE_CREATOR_NODE.gpu_vram)
_LARGE_GPUS = {"curie": ("NVIDIA RTX A6000", SINGLE_CREATOR_NODE.gpu_vram)}
CRYNUX_SYSTEM = DemoSystem(
    "crynux",
    {},
    tuple(
        SINGLE_CREATOR_NODE if node.name == SINGLE_CREATOR_NODE.name else node
        for node in _replace_gpus(_LARGE_GPUS)
    ),
    (_LARGE_GROUP, *(_IMAGE_GROUP,) * (_GROUPS - 1)),
    has_burst=True,
)
# This system follows exactly the rules on Crynux's published page, on the same network.
CRYNUX_DOCS_SYSTEM = DemoSystem("crynux-docs", {}, DEMO_NODES, (_IMAGE_GROUP,) * _GROUPS)
# This system follows the network of 2024. There, a text task runs on three nodes with the same
# GPU, and an image task on any three nodes.
LEGACY_SYSTEM = DemoSystem(
    "legacy",
    {
        # No network has published values for these rules.
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        # A node that is always last of three and sometimes silent has a mean below this value.
        "legacy.kickout_below": "4",
        "legacy.kickout_tasks": "20",
    },
    _replace_gpus({"curie": ("NVIDIA RTX 4090", 24), "moody": ("NVIDIA RTX 4070", 12)}),
    (GroupOrder(_LANGUAGE, _ETHER // 5), *(_IMAGE_GROUP,) * (_GROUPS - 1)),
    pays_by_points=True,
    has_probes=True,
    dispatcher_balance=20 * _ETHER,
)
DEMO_SYSTEMS = {
    system.name: system for system in (CRYNUX_SYSTEM, CRYNUX_DOCS_SYSTEM, LEGACY_SYSTEM)
}
