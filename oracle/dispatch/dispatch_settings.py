"""The settings for dispatching tasks: first block, policy, weights, prices and others."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from oracle.domain.events.network_events import TaskKind
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import SPREAD, ModelSpread, Weighting
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.pocket.pocket_policy import PocketPolicy
from oracle.systems.registry import get_policies, get_policy


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """The settings of `[dispatch]`; `fingerprint` covers those that determine draws.

    `policy` is the name of the policy. The policies `legacy` and Pocket's ignore `weighting`.
    `start_block` is the first block at whose end a task may be armed, so that a node is drawn for
    it with the next block (decision 0060). The queue holds floor(`alpha` * members) tasks, but at
    least 1. `max_in_flight` is the maximum number of starts that are pending at the same time.
    `spread` limits model downloads and is used only by Crynux's policies. `change` holds the
    policy parameters that differ from the published values, as text.
    """

    start_block: int
    rules: Rules
    policy: str
    weighting: Weighting
    pricing: Pricing
    alpha: Fraction
    max_in_flight: int
    spread: ModelSpread = SPREAD
    change: Mapping[str, str] = field(default_factory=dict)

    @property
    def pocket_policy(self) -> PocketPolicy | None:
        """Return the policy if it is a Pocket policy, else None."""
        policy = get_policy(self.policy, self.change)
        return policy if isinstance(policy, PocketPolicy) else None

    @property
    def legacy_policy(self) -> LegacyPolicy | None:
        """Return the policy if it is a legacy policy, else None."""
        policy = get_policies().get(self.policy)
        return policy if isinstance(policy, LegacyPolicy) else None

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of all settings that determine which nodes are drawn."""
        fingerprint_fields = {
            "start_block": self.start_block,
            "rules": hashlib.sha256(self.rules.to_json().encode()).hexdigest(),
            "policy": self.policy,
            "weight_floor": self.weighting.weight_floor,
            "change": dict(self.change),
            "fixed_seconds": _format_seconds(self.pricing.fixed_seconds),
            "unit_seconds": _format_seconds(self.pricing.unit_seconds),
        }
        return json.dumps(fingerprint_fields, sort_keys=True)


def _format_seconds(seconds_by_kind: Mapping[TaskKind, Fraction]) -> dict[str, str]:
    return {kind.value: str(seconds) for kind, seconds in seconds_by_kind.items()}
