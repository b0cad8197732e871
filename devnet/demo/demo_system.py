"""Which system the demo plays: its rules, its policy, its nodes, and what is ordered of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from devnet.demo.cast import CAST, GROUP_SIZE, TASK_TIMEOUT, DemoNode
from oracle.chain.profiles.profile_loader import load_profile
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import compute_kick_below
from oracle.domain.reports.report import ReportSettings, compute_rules_id
from oracle.domain.scoring.rules import Rules
from oracle.resources import shipped_path
from oracle.systems.registry import build_rules

_ETHER = 10**18
_IMAGE, _LANGUAGE = 0, 1
# Seconds in which every node gets a task, if need be a system task; what that pays, wei.
_PROBE_WINDOW = 300
_PROBE_FEE = _ETHER // 50
# One task for each node of the cast. Where fewer can take one, the rest waits in the queue.
_GROUPS = len(CAST) // GROUP_SIZE


class GroupOrder(NamedTuple):
    """A group of a wave: the kind of its tasks, as TaskCreated counts it, and the fee of each."""

    kind: int
    fee: int


@dataclass(frozen=True, slots=True)
class DemoSystem:
    """Rules and policy have one name; `changes` are the rules that are not as published.

    `orders`: the groups of every wave. Its nodes are the same characters in every system; their
    cards differ. `pays_by_points`: a group's fee is shared by the points of its rounds.
    `has_probes`: the dispatcher gives system tasks. `purse`: what it has for them and for the
    second groups of contests, wei.
    """

    name: str
    changes: Mapping[str, str]
    cast: tuple[DemoNode, ...]
    orders: tuple[GroupOrder, ...]
    pays_by_points: bool = False
    has_probes: bool = False
    purse: int = _ETHER

    @property
    def rules(self) -> Rules:
        """Return the rule set, whole."""
        return build_rules(self.name, self.changes)

    @property
    def kick_below(self) -> int:
        """Return the contract's line, 0 to 10,000 steps of QoS."""
        return compute_kick_below(self.rules)

    @property
    def rules_hash(self) -> Hash:
        """Return by what the contract knows the rules that are reported by."""
        settings = replace(report_settings(), kick_below=self.kick_below)
        return compute_rules_id(self.rules, load_profile("reference").identity, settings)

    @property
    def settings(self) -> dict[str, dict[str, object]]:
        """Return what the daemon is told beside the shipped demo configuration."""
        if self.name == CRYNUX_SYSTEM.name:
            return {}
        rules: dict[str, object] = {"set": self.name, "change": self.changes}
        settings: dict[str, dict[str, object]] = {
            "rules": rules,
            "dispatch": {"policy": self.name},
        }
        if self.has_probes:
            settings["probing"] = {
                "enabled": True,
                "window_seconds": _PROBE_WINDOW,
                "fee_wei": _PROBE_FEE,
                "max_fee_per_window_wei": len(self.cast) * GROUP_SIZE * _PROBE_FEE,
                "timeout_seconds": TASK_TIMEOUT,
            }
        return settings

    @property
    def replay_options(self) -> Sequence[str]:
        """Return by which options `qos-oracle replay` judges by the same rules."""
        return ["--rules", self.name, *(f"--set={rule}={n}" for rule, n in self.changes.items())]


def report_settings() -> ReportSettings:
    """Return the numbers of the shipped demo configuration, which the contract has to know."""
    oracle = read_config(shipped_path("config/demo.toml")).oracle
    return ReportSettings(
        period_seconds=oracle.period_seconds,
        heartbeat_seconds=oracle.heartbeat_seconds,
        deviation=oracle.deviation,
        ttl_seconds=oracle.report_ttl_seconds,
        kick_below=CRYNUX_SYSTEM.kick_below,
    )


def _with_cards(cards: Mapping[str, tuple[str, int]]) -> tuple[DemoNode, ...]:
    """Return the cast where these nodes have other cards, by name and GB."""
    return tuple(
        replace(one, gpu_name=cards[one.name][0], gpu_vram=cards[one.name][1])
        if one.name in cards
        else one
        for one in CAST
    )


_PICTURES = GroupOrder(_IMAGE, _ETHER // 10)
CRYNUX_SYSTEM = DemoSystem("crynux", {}, CAST, (_PICTURES,) * _GROUPS)
# The page to the letter, on the same network.
CRYNUX_DOCS_SYSTEM = DemoSystem("crynux-docs", {}, CAST, (_PICTURES,) * _GROUPS)
# The network of 2024: text goes to three of one card, pictures to any three.
LEGACY_SYSTEM = DemoSystem(
    "legacy",
    {
        # The numbers of no published network.
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        # Who is always the last of three, and now and then silent, is below it.
        "legacy.kickout_below": "4",
        "legacy.kickout_tasks": "20",
    },
    _with_cards({"curie": ("NVIDIA RTX 4090", 24), "moody": ("NVIDIA RTX 4070", 12)}),
    (GroupOrder(_LANGUAGE, _ETHER // 5), *(_PICTURES,) * (_GROUPS - 1)),
    pays_by_points=True,
    has_probes=True,
    purse=20 * _ETHER,
)
DEMO_SYSTEMS = {
    system.name: system for system in (CRYNUX_SYSTEM, CRYNUX_DOCS_SYSTEM, LEGACY_SYSTEM)
}
