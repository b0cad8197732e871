"""What a network chose for dispatching: from which block on, how tasks and nodes are weighed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from oracle.domain.events.network_events import TaskKind
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import SPREAD, ModelSpread
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.selection_weight import Weighting


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """The numbers of `[dispatch]`. All but the last three decide who is drawn.

    `start_block`: the first block at whose end a task may be armed (decision 0060).
    `alpha`: the queue holds floor(alpha*members) tasks, at least 1. `max_in_flight`: starts that
    are on their way to the chain at the same time. `spread`: who is asked for downloads.
    """

    start_block: int
    rules: Rules
    policy: str
    weighting: Weighting
    pricing: Pricing
    alpha: Fraction
    max_in_flight: int
    spread: ModelSpread = SPREAD

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
