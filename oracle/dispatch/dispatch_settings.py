"""What a network chose for dispatching: from which block on, how tasks and nodes are weighed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from oracle.domain.events.network_events import TaskKind
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.selection_weight import Weighting
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.registry import policies


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """The numbers of `[dispatch]`. All but the last two decide who is drawn.

    `policy`: its name; `weighting` is not looked at where it is a legacy one (`trios`).
    `start_block`: the first block at whose end a task may be armed (decision 0060).
    `alpha`: the queue holds floor(alpha*members) tasks, at least 1. `max_in_flight`: starts that
    are on their way to the chain at the same time.
    """

    start_block: int
    rules: Rules
    policy: str
    weighting: Weighting
    pricing: Pricing
    alpha: Fraction
    max_in_flight: int

    @property
    def trios(self) -> LegacyPolicy | None:
        """Return the policy where it starts groups of three at a time; None: single tasks."""
        found = policies().get(self.policy)
        return found if isinstance(found, LegacyPolicy) else None

    @property
    def sign(self) -> str:
        """Return what two daemons share that draw the same nodes from the same chain."""
        told = {
            "start_block": self.start_block,
            "rules": hashlib.sha256(self.rules.to_json().encode()).hexdigest(),
            "policy": self.policy,
            "weight_floor": self.weighting.weight_floor,
            "fixed_seconds": _seconds(self.pricing.fixed_seconds),
            "unit_seconds": _seconds(self.pricing.unit_seconds),
        }
        return json.dumps(told, sort_keys=True)


def _seconds(by_kind: Mapping[TaskKind, Fraction]) -> dict[str, str]:
    return {kind.value: str(seconds) for kind, seconds in by_kind.items()}
