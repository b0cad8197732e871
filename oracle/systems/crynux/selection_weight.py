"""Computes the selection weight: the harmonic mean of stake and QoS, times model locality.

Numbers are in units of 10^-18, rounded down at every step
(docs/reference/scoring-rules.md#selection-weight; docs/reference/sources.md#crynux-dispatching,
Selection Weight).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Membership, Node

# Prefixes of models that modify a base model; all other names are base models.
_AUXILIARY_PREFIXES = ("lora:", "controlnet:")


# With M at most 9, neither a weight nor any of its parts reaches 2^64.
_MAX_PARAMETER = 4 * UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The parameters of the weight; fractions in units of 10^-18.

    Raises:
        ValueError: a parameter is below 0 or above 4; the message names the field.
    """

    # The minimum W of a candidate, so that a failing node completes its 50 scores and any eligible
    # node can be chosen (decision 0173). 0: a node whose mean is 0 is never drawn again.
    weight_floor: int = UNIT // 100
    # Added to M = 1 if all required models are on disk, and in GPU memory.
    disk_boost: int = 7 * UNIT // 10
    memory_boost: int = 3 * UNIT // 10
    # Whether nodes without the models are candidates if no eligible node has all models.
    fallback: bool = True
    # Whether only base models count, for eligibility and for the boosts (relay).
    base_models_only: bool = False

    def __post_init__(self) -> None:
        for name in ("weight_floor", "disk_boost", "memory_boost"):
            if not 0 <= getattr(self, name) <= _MAX_PARAMETER:
                raise ValueError(f"{name}: must be 0 to 4")

    def select_counted_models(self, models: Iterable[str]) -> frozenset[str]:
        """Return the models of a task that count for locality, without duplicates."""
        if self.base_models_only:
            return frozenset(
                model for model in models if not model.startswith(_AUXILIARY_PREFIXES)
            )
        return frozenset(models)


# As documented, with a floor (docs/reference/sources.md#crynux-dispatching).
CRYNUX_WEIGHTING = Weighting()
# As documented, without a floor.
DOCS_WEIGHTING = Weighting(weight_floor=0)
# The base model must always be on disk, which adds nothing to the weight
# (docs/explanation/crynux.md#the-relays-selection).
RELAY_WEIGHTING = Weighting(weight_floor=0, disk_boost=0, fallback=False, base_models_only=True)


def find_largest_stake(nodes: Iterable[Node]) -> int:
    """Return the largest stake among members, in wei; an unknown stake counts as 0."""
    member = Membership.MEMBER
    return max((node.stake or 0 for node in nodes if node.membership is member), default=0)


def compute_stake_score(stake: int | None, max_stake: int) -> int:
    """Return S = sqrt(stake / max_stake), or 0 if no node has a stake."""
    if not max_stake:
        return 0
    return isqrt((stake or 0) * UNIT * UNIT // max_stake)


def compute_locality_boost(
    node: Node, counted_models: frozenset[str], weighting: Weighting
) -> int:
    """Return the boost M for counted models on disk and in GPU memory; 1 if no models count."""
    total = len(counted_models)
    if not total:
        return UNIT
    local = len(counted_models.intersection(node.models))
    in_use = len(counted_models.intersection(node.in_use))
    disk = weighting.disk_boost * local // total
    return UNIT + disk + weighting.memory_boost * in_use // total


def compute_weight(boost: int, stake_score: int, qos: int, weighting: Weighting) -> int:
    """Return W = M*S*QoS / (S + QoS), at least the floor; `stake_score` is S."""
    score_sum = stake_score + qos
    combined = boost * stake_score * qos // score_sum // UNIT if score_sum else 0
    return max(combined, weighting.weight_floor)
