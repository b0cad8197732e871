"""The numbers of the legacy system, where a rule set is of that kind.

See docs/explanation/legacy.md#scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Self

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_json import json_value, missing_rules, read_value

# Written as decimals in JSON; every other number is a whole one.
LEGACY_FRACTIONS = frozenset({
    "vram_weight", "timeout_weight", "speed_weight", "kickout_below",
})  # fmt: skip

_NO_POOL = "legacy keeps no pool: legacy.window_seconds says which scores count"
_NO_GROUP = "in legacy three nodes share each task, and whoever answers takes a place"
_NO_RELIABILITY = "legacy has no reliability, and excludes nobody"
_NO_LIMIT = "in legacy a node sets its own limit: set legacy.least_timeout_seconds"
# Rules that are never looked at in a legacy rule set, and what stands there in their place.
IDLE_RULES: Mapping[str, str] = MappingProxyType({
    "group_size": _NO_GROUP,
    "pool_zero_only_on_timeout": f"{_NO_GROUP}; absent_score is what silence is worth",
    "creator_timeout_rejects_group": _NO_GROUP,
    "ranked_answers": f"{_NO_GROUP}, right or wrong",
    "error_rank": f"{_NO_GROUP}; an error report takes its node's place in a round",
    "least_timeout_seconds": _NO_LIMIT,
    "pool_size": f"{_NO_POOL}, legacy.kickout_tasks how many a kickout takes",
    "zero_mean_is_new": f"{_NO_POOL}; new_node_long_term is for who has none",
    "reseed_copies": _NO_POOL,
    "restarts": _NO_POOL,
    "rejoin_heals": _NO_RELIABILITY,
    "tau_seconds": _NO_RELIABILITY,
    "first_penalty_from": _NO_RELIABILITY,
    "exclude_enter": _NO_RELIABILITY,
    "exclude_exit": _NO_RELIABILITY,
    "kickout_below": "set legacy.kickout_below, the line of legacy's node score",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRules:
    """What a legacy rule set adds. Fractions in units of 10^-18, times in seconds.

    The weights, the shortest timeout and the kickout line were never published
    (docs/explanation/crynux.md#weighted-sum-of-scores): none has a default.

    Raises:
        ValueError: a number outside of what it means; the field is named.
    """

    # How much VRAM size, timeout setting and submission speed count in the combined score: the
    # a, b and c of docs/explanation/legacy.md#scores; together at most 1.
    vram_weight: int
    timeout_weight: int
    speed_weight: int
    # O_min, the shortest timeout that the network allows
    # (docs/reference/sources.md#crynux-qos-of-2024, The Timeout Setting).
    least_timeout_seconds: int
    # Kickout is due below this node score (0 to 20 whole points, in units of 10^-18) ...
    kickout_below: int
    # ... once the window holds at least so many tasks of the node.
    kickout_tasks: int
    # Length of a window, counted from the epoch; None: the calendar month in UTC.
    window_seconds: int | None = None

    def __post_init__(self) -> None:
        weights = (self.vram_weight, self.timeout_weight, self.speed_weight)
        window = self.window_seconds
        for field, sound, meaning in (
            ("vram_weight", 0 <= self.vram_weight <= UNIT, "must be 0 to 1"),
            ("timeout_weight", 0 <= self.timeout_weight <= UNIT, "must be 0 to 1"),
            ("speed_weight", 0 <= self.speed_weight <= UNIT, "must be 0 to 1"),
            ("speed_weight", 0 < sum(weights) <= UNIT, "the three weights make 1 at most"),
            ("least_timeout_seconds", self.least_timeout_seconds >= 0, "must be 0 or more"),
            ("kickout_below", 0 <= self.kickout_below <= 20 * UNIT, "must be 0 to 20"),
            ("kickout_tasks", self.kickout_tasks >= 1, "must be 1 or more"),
            ("window_seconds", window is None or window >= 1, "must be 1 or more"),
        ):
            if not sound:
                raise ValueError(f"legacy.{field}: {meaning}")

    def to_values(self) -> dict[str, object]:
        """Return the JSON object that the rule set's `legacy` is."""
        return {
            field.name: json_value(field.name, getattr(self, field.name), LEGACY_FRACTIONS)
            for field in fields(self)
        }

    @classmethod
    def from_values(cls, values: object) -> Self:
        """Read what `to_values` made.

        Raises:
            ValueError: no JSON object, a number unknown, missing, or of a wrong type or value.
        """
        if not isinstance(values, dict):
            raise ValueError("legacy: must be a JSON object")  # noqa: TRY004 - the text is at fault
        known = {field.name: field for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ValueError(f"legacy.{name}: no such rule")
        absent = [f"legacy.{name}" for name in missing_rules(known, values)]
        if absent:
            raise ValueError(
                f"{', '.join(absent)}: missing; the sources never published them, so every "
                "network has to choose its own"
            )
        try:
            read = {
                name: read_value(known[name], value, LEGACY_FRACTIONS)
                for name, value in values.items()
            }
        except ValueError as error:
            raise ValueError(f"legacy.{error}") from None
        return cls(**read)
