"""The additional rules that apply to the legacy system.

See docs/explanation/legacy.md#scores.
"""

from dataclasses import dataclass, field, fields
from typing import Self

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_fields import (
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Fraction,
    build_rule_metadata,
    declare_rule,
    find_missing_rules,
    in_range,
    iter_bound_checks,
    parse_rule_value,
    rule_to_json,
)

_SOURCE = "QoS 2024"
_BEST_SCORE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRules:
    """The additional rules of the legacy system.

    Fractions are in units of 10^-18, times in seconds. The weights, the shortest timeout and the
    kickout line were never published (docs/explanation/crynux.md#weighted-sum-of-scores), so they
    have no default.

    Raises:
        ValueError: a number is out of range; the message names the field.
    """

    # The weights a, b and c of docs/explanation/legacy.md#scores; their sum is at most 1.
    vram_weight: Fraction = field(
        metadata=build_rule_metadata(
            "weight of the VRAM size in the combined score, a", _SOURCE, SHARE
        )
    )
    timeout_weight: Fraction = field(
        metadata=build_rule_metadata("weight of the timeout setting, b", _SOURCE, SHARE)
    )
    speed_weight: Fraction = field(
        metadata=build_rule_metadata("weight of the submission speed, c", _SOURCE, SHARE)
    )
    # O_min (docs/reference/sources.md#crynux-qos-of-2024, The Timeout Setting).
    least_timeout_seconds: int = field(
        metadata=build_rule_metadata(
            "the shortest timeout that a node may set", _SOURCE, NOT_NEGATIVE
        )
    )
    kickout_below: Fraction = field(
        metadata=build_rule_metadata(
            "kickout is due below this node score, out of 20",
            _SOURCE,
            in_range(0, _BEST_SCORE, UNIT),
        )
    )
    kickout_tasks: int = field(
        metadata=build_rule_metadata(
            "minimum number of tasks in the window for a kickout", _SOURCE, POSITIVE
        )
    )
    # Windows are counted from the Unix epoch.
    window_seconds: int | None = declare_rule(
        None,
        "length of a window in seconds; none is the calendar month in UTC",
        _SOURCE,
        bounds=POSITIVE,
    )

    def __post_init__(self) -> None:
        weight_sum = self.vram_weight + self.timeout_weight + self.speed_weight
        for name, is_sound, refusal in (
            *iter_bound_checks(self),
            (
                "speed_weight",
                0 < weight_sum <= UNIT,
                "the sum of the three weights must be above 0, at most 1",
            ),
        ):
            if not is_sound:
                raise ValueError(f"legacy.{name}: {refusal}")

    def to_values(self) -> dict[str, object]:
        """Return the rules as a JSON object, for the rule set's field `legacy`."""
        return {
            rule_field.name: rule_to_json(rule_field, getattr(self, rule_field.name))
            for rule_field in fields(self)
        }

    @classmethod
    def from_values(cls, values: object) -> Self:
        """Parse the rules from the JSON object that `to_values` returns.

        Raises:
            ValueError: `values` is not a JSON object, or a rule is unknown, missing, or of a wrong
                type or value.
        """
        if not isinstance(values, dict):
            raise ValueError("legacy: must be a JSON object")  # noqa: TRY004 - the text is at fault
        field_by_name = {rule_field.name: rule_field for rule_field in fields(cls)}
        for name in values:
            if name not in field_by_name:
                raise ValueError(f"legacy.{name}: no such rule")
        missing_names = [f"legacy.{name}" for name in find_missing_rules(field_by_name, values)]
        if missing_names:
            raise ValueError(
                f"{', '.join(missing_names)}: missing; these values were never published, so "
                "choose them for your network"
            )
        try:
            parsed_values = {
                name: parse_rule_value(field_by_name[name], value)
                for name, value in values.items()
            }
        except ValueError as error:
            raise ValueError(f"legacy.{error}") from None
        return cls(**parsed_values)
