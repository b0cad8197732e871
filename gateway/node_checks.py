"""Excludes nodes that are unstaked, on a wrong chain or out of sync.

See docs/explanation/gateway.md#checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from gateway.sync_check import (
    HeightIneligibility,
    find_best_height,
    find_out_of_sync_nodes,
)
from oracle.domain.ids import Address

# Time for which a passed check is valid, in milliseconds.
SYNC_PASS_MS = 300_000
CHAIN_PASS_MS = 600_000
_STAKE_UNKNOWN, _NOT_STAKED = "stake_unknown", "not_staked"
UNSTAKED = frozenset({_STAKE_UNKNOWN, _NOT_STAKED})


class UncheckedPolicy(StrEnum):
    """The treatment of a node that was never checked, or not recently enough."""

    ALLOW = "allow"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """The requirements for the nodes of one chain.

    `allowance` is in blocks.
    """

    chain_id: int
    allowance: int = 5
    needs_stake: bool = False
    unchecked: UncheckedPolicy = UncheckedPolicy.ALLOW
    # True if the draw is from all staked candidates when none of them passes the checks. Such a
    # draw is marked as degraded.
    allows_degraded_draw: bool = True


class ProbeAnswer(NamedTuple):
    """A node's chain id and block height, or the `fault` of a failed probe."""

    chain_id: int | None = None
    height: int | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """The state of one node on one chain.

    Times are milliseconds since 1970, and 0 means never.
    """

    at: int = 0
    chain_id: int | None = None
    height: int | None = None
    best: int | None = None
    chain_until: int = 0
    sync_until: int = 0
    fault: str | None = None

    @property
    def blocks_behind(self) -> int | None:
        """The number of blocks below the best height, or None if a height is unknown."""
        if self.height is None or self.best is None:
            return None
        return max(0, self.best - self.height)


@dataclass(slots=True)
class NodeChecks:
    """The checked nodes of one chain.

    `staked_nodes` contains all staked nodes, whether they were checked or not; it is None if
    stakes are unknown.
    """

    rules: CheckRules
    nodes: dict[str, CheckedNode] = field(default_factory=dict)
    staked_nodes: frozenset[str] | None = None

    def apply_probe_answers(self, answers: Mapping[str, ProbeAnswer], now: int) -> list[str]:
        """Apply one round of probe answers, and return the nodes that passed the sync check."""
        rules = self.rules
        heights = {
            Address(node): answer.height
            for node, answer in answers.items()
            if answer.fault is None and answer.chain_id == rules.chain_id
        }
        max_height = find_best_height(
            (height for height in heights.values() if height is not None), rules.allowance
        )
        height_faults = find_out_of_sync_nodes(heights, rules.allowance)
        for node, answer in answers.items():
            checked_node = replace(
                self.nodes.get(node, CheckedNode()),
                at=now,
                chain_id=answer.chain_id,
                height=answer.height,
                best=max_height,
            )
            self.nodes[node] = _with_check_result(
                checked_node, _find_check_fault(answer, height_faults.get(Address(node)), rules)
            )
        return [node for node in answers if now < self.nodes[node].sync_until]

    def get_stake_state(self, node: str) -> bool | None:
        """Return whether a node is staked, or None if this is unknown."""
        return None if self.staked_nodes is None else node in self.staked_nodes

    def find_exclusion_reasons(self, candidates: Iterable[str], now: int) -> dict[str, str]:
        """Return the reasons why candidates are excluded.

        Candidates that are not excluded are left out.
        """
        reasons = ((node, self.find_exclusion_reason(node, now)) for node in candidates)
        return {node: reason for node, reason in reasons if reason is not None}

    def find_exclusion_reason(self, node: str, now: int) -> str | None:
        """Return why a node is excluded, or None if it is not."""
        checked_node = self.nodes.get(node, CheckedNode())
        if self.rules.needs_stake and not self.get_stake_state(node):
            return _STAKE_UNKNOWN if self.staked_nodes is None else _NOT_STAKED
        if checked_node.fault is not None:
            return checked_node.fault
        if now < min(checked_node.chain_until, checked_node.sync_until):
            return None
        return None if self.rules.unchecked is UncheckedPolicy.ALLOW else "unchecked"


def _with_check_result(state: CheckedNode, fault: str | None) -> CheckedNode:
    is_right_chain = fault is None or fault in set(HeightIneligibility)
    return replace(
        state,
        chain_until=state.at + CHAIN_PASS_MS if is_right_chain else 0,
        sync_until=state.at + SYNC_PASS_MS if fault is None else 0,
        fault=fault,
    )


def _find_check_fault(
    answer: ProbeAnswer, height_fault: HeightIneligibility | None, rules: CheckRules
) -> str | None:
    if answer.fault is not None:
        return answer.fault
    if answer.chain_id != rules.chain_id:
        return "wrong_chain"
    return None if height_fault is None else height_fault.value
