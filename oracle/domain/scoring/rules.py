"""All scoring rules with their values, as one object with a name and a version.

The rule sets are declared in `systems`; the defaults here are the values of `crynux`, version 2.
See docs/reference/scoring-rules.md.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rule_fields import (
    ASCENDING_TIMES,
    AT_MOST_ONE,
    FACTOR,
    NOT_EMPTY,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Fraction,
    build_non_rule_metadata,
    declare_rule,
    find_missing_rules,
    get_declared_rules,
    get_rule_info,
    in_range,
    iter_bound_checks,
    one_of,
    parse_rule_value,
    rule_to_json,
)

# Each score in a pool is stored as one byte.
_LARGEST_SCORE = 255

# Each string explains why legacy rules ignore a rule and names the replacement.
_NO_POOL = "legacy keeps no pool; legacy.window_seconds decides which scores count"
_NO_GROUP = "in legacy three nodes share each task, and every answer gets a rank"
_NO_RELIABILITY = "legacy has no reliability and excludes no node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rule set.

    Fractions are in units of 10^-18, times in seconds.

    Raises:
        ValueError: a number is out of range; the message names the field.
    """

    name: str = field(metadata=build_non_rule_metadata(bounds=NOT_EMPTY))
    version: int = field(metadata=build_non_rule_metadata(bounds=POSITIVE))

    # Rules for groups (docs/reference/scoring-rules.md#task-groups):
    close: str = declare_rule(
        "validated",
        "groups are scored at their event (validated) or once all ended (terminal)",
        "ours",
        bounds=one_of("validated", "terminal"),
    )
    group_size: int = declare_rule(
        3,
        "tasks in a group, if groups close by counting them",
        "QoS",
        bounds=POSITIVE,
        idle=_NO_GROUP,
    )
    rank_scores: tuple[int, ...] = declare_rule(
        (10, 5, 2),
        "score by rank; the last one is for all lower ranks",
        "QoS, Task Score",
        bounds=NOT_EMPTY,
    )
    absent_score: int = declare_rule(
        0, "score of a member without a result when the group closes", "QoS, Task Score"
    )
    pool_zero_only_on_timeout: bool = declare_rule(
        False,
        "only members that timed out get absent_score",
        "relay",
        idle=f"{_NO_GROUP}; absent_score is the score without an answer",
    )
    creator_timeout_rejects_group: bool = declare_rule(
        False,
        "a group whose creator validated nothing in time gets no scores",
        "relay",
        idle=_NO_GROUP,
    )
    error_rank: str = declare_rule(
        "last",
        "error reports rank last (ours), or as_reported: by their time",
        "relay",
        bounds=one_of("last", "as_reported"),
        idle=f"{_NO_GROUP}; an error report counts as its node's answer in a round",
    )
    # `crynux` uses `right` since version 3 (docs/reference/scoring-rules.md#verdicts).
    ranked_answers: str = declare_rule(
        "all",
        "ranked answers: all (relay), or only those the verdict confirms (right)",
        "ours",
        bounds=one_of("all", "right"),
        idle=f"{_NO_GROUP}, right or wrong",
        omit_default=True,
    )
    # With 0, every time limit is credible
    # (docs/reference/scoring-rules.md#limits-that-are-not-believed).
    least_timeout_seconds: int = declare_rule(
        0,
        "a timeout of a task with a shorter limit has no effect",
        "ours",
        bounds=NOT_NEGATIVE,
        idle="in legacy a node sets its own limit; set legacy.least_timeout_seconds",
    )

    # Rules for the pool (docs/reference/scoring-rules.md#long-term-score):
    q_max: int = declare_rule(
        10,
        "best possible score, by which means are divided",
        "QoS",
        bounds=in_range(1, _LARGEST_SCORE),
    )
    pool_size: int = declare_rule(
        50,
        "number of newest task scores that count",
        "QoS",
        bounds=POSITIVE,
        idle=f"{_NO_POOL}, and legacy.kickout_tasks how many a kickout needs",
    )
    new_node_long_term: Fraction = declare_rule(
        UNIT // 2,
        "long-term score of an empty pool",
        "QoS, Node QoS Score",
        bounds=SHARE,
    )
    zero_mean_is_new: bool = declare_rule(
        False,
        "a mean of 0 counts as an empty pool",
        "relay",
        idle=f"{_NO_POOL}; new_node_long_term is for nodes without scores",
    )
    rejoin_floor: Fraction | None = declare_rule(
        None, "a node that rejoins below this score restarts with it", "relay", bounds=SHARE
    )
    # The node also rejoins with reliability 1 (docs/reference/scoring-rules.md#coming-back).
    kickout_starts_anew: bool = declare_rule(
        True, "a node kicked out while due rejoins with an empty pool", "ours"
    )
    rejoin_heals: bool = declare_rule(
        False, "every join sets reliability to 1", "QoS, relay", idle=_NO_RELIABILITY
    )
    # Each copy is the mean of the old pool, truncated.
    reseed_copies: int = declare_rule(
        0,
        "copies of the mean that replace a lost pool",
        "relay",
        idle=_NO_POOL,
    )
    restarts: tuple[int, ...] = declare_rule(
        (),
        "block times at which all pools were lost",
        "relay",
        bounds=ASCENDING_TIMES,
        idle=_NO_POOL,
    )

    # Rules for the reliability H (docs/reference/scoring-rules.md#reliability):
    tau_seconds: int = declare_rule(
        1800,
        "time constant of healing, in seconds",
        "QoS, Short-term Reliability Factor",
        bounds=POSITIVE,
        idle=_NO_RELIABILITY,
    )
    penalty: Fraction = declare_rule(
        3 * UNIT // 10, "factor applied to reliability at a timeout", "QoS", bounds=FACTOR
    )
    first_penalty: Fraction | None = declare_rule(
        None, "penalty for a node at first_penalty_from or above", "relay", bounds=FACTOR
    )
    first_penalty_from: Fraction = declare_rule(
        UNIT,
        "minimum reliability for the lighter first penalty",
        "relay",
        bounds=FACTOR,
        idle=_NO_RELIABILITY,
    )
    boost: Fraction = declare_rule(
        15 * UNIT // 100, "reliability added by a success", "QoS", bounds=SHARE
    )
    # If both thresholds are equal, exclusions need no stored state.
    exclude_enter: Fraction = declare_rule(
        UNIT // 10,
        "a node is excluded below this reliability",
        "QoS, Hard Exclusion",
        idle=_NO_RELIABILITY,
    )
    exclude_exit: Fraction = declare_rule(
        UNIT // 10,
        "an exclusion ends at this reliability",
        "relay; QoS: the same",
        bounds=AT_MOST_ONE,
        idle=_NO_RELIABILITY,
    )

    # Rules for kickouts (docs/reference/scoring-rules.md#qos-and-kickout). The sum of a pool is
    # compared with this mean times `pool_size`.
    kickout_below: Fraction = declare_rule(
        2 * UNIT,
        "kickout is due while a full pool's mean is below it",
        "QoS, Kickout",
        idle="set legacy.kickout_below, the line of legacy's node score",
    )
    # A share of the scores; with 1, no kickout is held because of one creator
    # (docs/explanation/kickouts.md#held-for-a-person).
    kick_creator_share: Fraction = declare_rule(
        UNIT // 2,
        "share of one creator above which the kickout is held for the vetoer",
        "ours",
        bounds=SHARE,
    )
    # A share of the scores; with 1, no kickout is held because of incidents
    # (docs/explanation/kickouts.md#held-for-a-person).
    kick_incident_share: Fraction = declare_rule(
        UNIT,
        "share of zeros in incidents above which the kickout is held",
        "ours",
        bounds=SHARE,
        omit_default=True,
    )

    # None if scores come from groups, set if they come from two rounds of submission
    # (docs/explanation/legacy.md#scores). Under legacy rules, scores do not depend on reliability,
    # and `q_max` is the best score of both rounds together.
    legacy: LegacyRules | None = field(
        default=None, metadata=build_non_rule_metadata(omit_default=True)
    )

    def __post_init__(self) -> None:
        for name, is_sound, refusal in self._iter_rule_checks():
            if not is_sound:
                raise ValueError(f"{name}: {refusal}")

    def _iter_rule_checks(self) -> Iterator[tuple[str, bool, str]]:
        yield from iter_bound_checks(self)
        yield from self._list_relation_checks()
        if self.legacy is not None:
            yield from self._list_legacy_checks()

    def _list_relation_checks(self) -> tuple[tuple[str, bool, str], ...]:
        possible_scores = (*self.rank_scores, self.absent_score)
        are_thresholds_ordered = 0 < self.exclude_enter <= self.exclude_exit
        return (
            (
                "rank_scores",
                all(0 <= s <= self.q_max for s in possible_scores),
                "must be 0 to q_max",
            ),
            ("reseed_copies", 0 <= self.reseed_copies < self.pool_size, "must be below pool_size"),
            ("kickout_below", 0 <= self.kickout_below <= self.q_max * UNIT, "must be 0 to q_max"),
            ("exclude_enter", are_thresholds_ordered, "must be above 0, at most exclude_exit"),
        )

    def _list_legacy_checks(self) -> tuple[tuple[str, bool, str], ...]:
        best_score_of_two_rounds = 2 * max((*self.rank_scores, self.absent_score))
        condition = "under legacy rules, which have no reliability"
        return (
            (
                "q_max",
                best_score_of_two_rounds <= self.q_max,
                f"must be at least {best_score_of_two_rounds}, the best score of two rounds",
            ),
            ("penalty", self.penalty == UNIT, f"must be 1 {condition}"),
            ("first_penalty", self.first_penalty is None, f"must not be set {condition}"),
            ("boost", self.boost == 0, f"must be 0 {condition}"),
            (
                "rejoin_floor",
                self.rejoin_floor is None,
                "must not be set under legacy rules, whose window has no prior",
            ),
            *(
                (
                    rule_field.name,
                    getattr(self, rule_field.name) == rule_field.default,
                    RULES_IGNORED_BY_LEGACY[rule_field.name],
                )
                for rule_field in fields(self)
                if rule_field.name in RULES_IGNORED_BY_LEGACY
            ),
        )

    def is_credible_timeout(self, timeout_seconds: int | None) -> bool:
        """Return whether a task's time limit is long enough to blame a node for a timeout.

        `timeout_seconds` is the limit in seconds, or None if the network does not report it.
        """
        return timeout_seconds is None or timeout_seconds >= self.least_timeout_seconds

    @property
    def has_exclusion_hysteresis(self) -> bool:
        """Whether exclusion has separate enter and exit thresholds.

        If so, a node's exclusion must be stored.
        """
        return self.exclude_enter != self.exclude_exit

    def to_json(self) -> str:
        """Return the rules as canonical JSON.

        Keys are sorted, there are no spaces, and fractions are decimal strings.
        """
        value_by_name = {
            rule_field.name: rule_to_json(rule_field, getattr(self, rule_field.name))
            for rule_field in fields(self)
            if not (
                _is_omitted_if_default(rule_field)
                and getattr(self, rule_field.name) == rule_field.default
            )
        }
        if self.legacy is not None:
            value_by_name["legacy"] = self.legacy.to_values()
        return json.dumps(value_by_name, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse rules from the JSON that `to_json` returns.

        Omitted fields get their default.

        Raises:
            ValueError: `text` is not a JSON object, or a field in it is unknown, missing, or of a
                wrong type or value.
        """
        value_by_name = json.loads(text)
        if not isinstance(value_by_name, dict):
            raise ValueError("the rules must be a JSON object")  # noqa: TRY004 - the text is at fault
        field_by_name = {rule_field.name: rule_field for rule_field in fields(cls)}
        for name in value_by_name:
            if name not in field_by_name:
                raise ValueError(f"{name}: no such rule")
        for name in find_missing_rules(field_by_name, value_by_name):
            raise ValueError(f"{name}: the field is missing")
        legacy = value_by_name.pop("legacy", None)
        parsed_values = {
            name: parse_rule_value(field_by_name[name], value)
            for name, value in value_by_name.items()
        }
        return cls(
            **parsed_values, legacy=None if legacy is None else LegacyRules.from_values(legacy)
        )


def _is_omitted_if_default(rule_field: Field[Any]) -> bool:
    info = get_rule_info(rule_field)
    return info is not None and info.omit_default


# The rules that legacy rules ignore, and a string that names the replacement of each.
RULES_IGNORED_BY_LEGACY: Mapping[str, str] = MappingProxyType({
    name: info.idle
    for name, (_, info) in get_declared_rules(Rules).items()
    if info.idle is not None
})  # fmt: skip
