"""The selection weight: stake and QoS by their harmonic mean, times model locality.

Numbers are in units of 10^-18, rounded down at every line
(docs/reference/scoring-rules.md#selection-weight; docs/reference/sources.md#crynux-dispatching,
Selection Weight).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from oracle.domain.fixed_point import UNIT
from oracle.domain.state.node import Membership, Node

# Models that only change a base model; every other name is a base model's, prefix or not.
_AUXILIARY = ("lora:", "controlnet:")


# With M at most 9, no weight and nothing that it is made of comes to 2^64.
_MOST = 4 * UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The parameters of the weight; fractions in units of 10^-18.

    Raises:
        ValueError: one below 0 or above 4; the field is named.
    """

    # The least W of a candidate: a dead node must come to its 50 scores, and any eligible one can
    # be chosen (decision 0173). 0: a node whose mean is 0 is never drawn again.
    weight_floor: int = UNIT // 100
    # What all required models on disk, and in GPU memory, add to M = 1.
    disk_boost: int = 7 * UNIT // 10
    memory_boost: int = 3 * UNIT // 10
    # Whether nodes without the models are taken where no eligible node has them all.
    fallback: bool = True
    # Whether only base models count, for the gate and for the boosts (relay).
    base_models_only: bool = False

    def __post_init__(self) -> None:
        for name in ("weight_floor", "disk_boost", "memory_boost"):
            if not 0 <= getattr(self, name) <= _MOST:
                raise ValueError(f"{name}: must be 0 to 4")

    def counted(self, models: Iterable[str]) -> frozenset[str]:
        """Return those of a task's models that count for locality, each once."""
        if self.base_models_only:
            return frozenset(model for model in models if not model.startswith(_AUXILIARY))
        return frozenset(models)


# As the page says, and a floor (docs/reference/sources.md#crynux-dispatching).
CRYNUX_WEIGHTING = Weighting()
# As the page says, without one.
DOCS_WEIGHTING = Weighting(weight_floor=0)
# The base model must be on disk, whatever comes; that adds nothing to the weight
# (docs/explanation/crynux.md#the-relays-selection).
RELAY_WEIGHTING = Weighting(weight_floor=0, disk_boost=0, fallback=False, base_models_only=True)


def largest_stake(nodes: Iterable[Node]) -> int:
    """Return the largest stake among members, in wei; one never said counts as 0."""
    member = Membership.MEMBER
    return max((node.stake or 0 for node in nodes if node.membership is member), default=0)


def stake_score(stake: int | None, largest: int) -> int:
    """Return S = sqrt(stake / largest); 0 where nobody has a stake."""
    if not largest:
        return 0
    return isqrt((stake or 0) * UNIT * UNIT // largest)


def locality_boost(node: Node, counted: frozenset[str], weighting: Weighting) -> int:
    """Return M, 1 or more, for the models that count; no models: 1."""
    total = len(counted)
    if not total:
        return UNIT
    local = len(counted.intersection(node.models))
    in_use = len(counted.intersection(node.in_use))
    disk = weighting.disk_boost * local // total
    return UNIT + disk + weighting.memory_boost * in_use // total


def weight_of(boost: int, stake: int, qos: int, weighting: Weighting) -> int:
    """Return W = M*S*QoS / (S + QoS), at least the floor; `stake` is S."""
    both = stake + qos
    combined = boost * stake * qos // both // UNIT if both else 0
    return max(combined, weighting.weight_floor)
