"""What is known of each node by checks: staked, on the right chain, in sync; and who is left out.

See docs/explanation/gateway.md#checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.systems.pocket.sync_check import HeightOut, best_height, out_of_sync

# How long a passed check counts.
SYNC_PASS_MS = 300_000
CHAIN_PASS_MS = 600_000
_STAKE_UNKNOWN, _NOT_STAKED = "stake_unknown", "not_staked"
UNSTAKED = frozenset({_STAKE_UNKNOWN, _NOT_STAKED})


class Unchecked(StrEnum):
    """What a node is that was not checked yet, or too long ago."""

    ALLOW = "allow"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRules:
    """What is asked of the nodes of one chain; `allowance` in blocks."""

    chain_id: int
    allowance: int = 5
    needs_stake: bool = False
    unchecked: Unchecked = Unchecked.ALLOW
    # Nobody passes: all that are staked are drawn from, marked as degraded; else nobody is.
    all_where_none_passes: bool = True


class ProbeAnswer(NamedTuple):
    """What a node said; `fault` where it did not."""

    chain_id: int | None = None
    height: int | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """One node's state on one chain. Times in milliseconds since 1970, 0: never."""

    at: int = 0
    chain_id: int | None = None
    height: int | None = None
    best: int | None = None
    chain_until: int = 0
    sync_until: int = 0
    fault: str | None = None

    @property
    def behind(self) -> int | None:
        """Blocks under the best height."""
        if self.height is None or self.best is None:
            return None
        return max(0, self.best - self.height)


@dataclass(slots=True)
class NodeChecks:
    """The nodes of one chain that are checked.

    `members`: who is staked, whether it is checked or not; None: it is not known of anybody.
    """

    rules: CheckRules
    nodes: dict[str, CheckedNode] = field(default_factory=dict)
    members: frozenset[str] | None = None

    def answered(self, answers: Mapping[str, ProbeAnswer], now: int) -> list[str]:
        """Take in one round of answers; return the nodes that passed the sync check."""
        rules = self.rules
        heights = {
            Address(node): answer.height
            for node, answer in answers.items()
            if answer.fault is None and answer.chain_id == rules.chain_id
        }
        best = best_height((one for one in heights.values() if one is not None), rules.allowance)
        late = out_of_sync(heights, rules.allowance)
        for node, answer in answers.items():
            state = replace(
                self.nodes.get(node, CheckedNode()),
                at=now,
                chain_id=answer.chain_id,
                height=answer.height,
                best=best,
            )
            self.nodes[node] = _passed(state, _fault(answer, late.get(Address(node)), rules))
        return [node for node in answers if now < self.nodes[node].sync_until]

    def stake_state(self, node: str) -> bool | None:
        """Tell whether a node is staked; None: it is not known."""
        return None if self.members is None else node in self.members

    def left_out(self, candidates: Iterable[str], now: int) -> dict[str, str]:
        """Return who gets nothing, and why."""
        found = ((node, self.why_out(node, now)) for node in candidates)
        return {node: why for node, why in found if why is not None}

    def why_out(self, node: str, now: int) -> str | None:
        """Return why a node is no candidate; None: it is one."""
        state = self.nodes.get(node, CheckedNode())
        if self.rules.needs_stake and not self.stake_state(node):
            return _STAKE_UNKNOWN if self.members is None else _NOT_STAKED
        if state.fault is not None:
            return state.fault
        if now < min(state.chain_until, state.sync_until):
            return None
        return None if self.rules.unchecked is Unchecked.ALLOW else "unchecked"


def _passed(state: CheckedNode, fault: str | None) -> CheckedNode:
    is_right = fault is None or fault in set(HeightOut)
    return replace(
        state,
        chain_until=state.at + CHAIN_PASS_MS if is_right else 0,
        sync_until=state.at + SYNC_PASS_MS if fault is None else 0,
        fault=fault,
    )


def _fault(answer: ProbeAnswer, late: HeightOut | None, rules: CheckRules) -> str | None:
    if answer.fault is not None:
        return answer.fault
    if answer.chain_id != rules.chain_id:
        return "wrong_chain"
    return None if late is None else late.value
