"""Every number of the scoring rules, as one value with a name and a version.

The rule sets that there are stand in `systems`; the defaults here are those of `seed`, version 2.
See docs/reference/scoring-rules.md.
"""

import json
from dataclasses import dataclass, fields
from typing import Self

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_rules import IDLE_RULES, LegacyRules
from oracle.domain.scoring.rule_json import json_value, missing_rules, read_value

# Pools are kept as bytes.
_LARGEST_SCORE = 255
_CLOSES = ("validated", "terminal")
_ERROR_RANKS = ("last", "as_reported")
_RANKED_ANSWERS = ("all", "right")
# Written as decimals in JSON; every other number is a whole one.
FRACTIONS = frozenset({
    "new_node_long_term", "rejoin_floor", "penalty", "first_penalty", "first_penalty_from",
    "boost", "exclude_enter", "exclude_exit", "kickout_below", "kick_creator_share",
})  # fmt: skip
# Left out of the JSON at their default: rule sets from before there was the rule keep their hash
# (CONTRIBUTING.md, "A rule with a vector").
_LEFT_OUT = frozenset({"legacy", "ranked_answers"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One rule set. Fractions are in units of 10^-18, times in seconds.

    Raises:
        ValueError: a number outside of what the rules mean; the field is named.
    """

    name: str
    version: int

    # When a group is scored: where the chain says so, or when all its tasks have ended
    # (docs/reference/scoring-rules.md#task-groups).
    close: str = "validated"
    # Tasks of a group that has to be closed by counting.
    group_size: int = 3
    # By rank; the last one holds for every rank below (docs/reference/sources.md#crynux-qos,
    # figure "task score").
    rank_scores: tuple[int, ...] = (10, 5, 2)
    # A member that started but has no result when the group closes
    # (docs/reference/sources.md#crynux-qos, Task Score).
    absent_score: int = 0
    # Only members that timed out bring their absent score into the pool (relay).
    pool_zero_only_on_timeout: bool = False
    # A member aborted for `creator_validation_timeout` means that nobody scores (relay).
    creator_timeout_rejects_group: bool = False
    # Where error reports rank: behind every result, or by their time like results (relay)
    # (docs/reference/scoring-rules.md#task-groups).
    error_rank: str = "last"
    # Which answers of a closed group rank: `all` (relay), or those that its verdict confirms,
    # where more than half of the group answered (`right`: `seed` from version 3 on)
    # (docs/reference/scoring-rules.md#verdicts).
    ranked_answers: str = "all"
    # A task whose own limit is below this costs nobody anything: neither H nor a score; 0: every
    # limit is believed (docs/reference/scoring-rules.md#limits-that-are-not-believed).
    least_timeout_seconds: int = 0

    # Q_max, the best long-term score (docs/reference/sources.md#crynux-qos).
    q_max: int = 10
    pool_size: int = 50
    # Long-term score of an empty pool (docs/reference/sources.md#crynux-qos, Node QoS Score).
    new_node_long_term: int = UNIT // 2
    # A mean of exactly 0 counts as an empty pool (relay).
    zero_mean_is_new: bool = False
    # A node that re-joins below this gets it as its prior, and a fresh pool (relay).
    rejoin_floor: int | None = None
    # Whether a node that was kicked out while its kickout was due starts anew when it joins
    # again: with an empty pool, and H = 1 (docs/reference/scoring-rules.md#coming-back).
    kickout_starts_anew: bool = True
    # Whether every join sets H to 1 (relay).
    rejoin_heals: bool = False
    # How many copies of the truncated mean a pool becomes that was lost (relay).
    reseed_copies: int = 0
    # When all pools were lost, ascending block times (relay).
    restarts: tuple[int, ...] = ()

    # Reliability H: healing, penalty, boost (docs/reference/sources.md#crynux-qos, Short-term
    # Reliability Factor).
    tau_seconds: int = 1800
    penalty: int = 3 * UNIT // 10
    # The lighter penalty for a node at or above `first_penalty_from` (relay).
    first_penalty: int | None = None
    first_penalty_from: int = UNIT
    boost: int = 15 * UNIT // 100
    # Excluded from selection below `enter`, until `exit`; equal: no memory
    # (docs/reference/sources.md#crynux-qos, Hard Exclusion).
    exclude_enter: int = UNIT // 10
    exclude_exit: int = UNIT // 10

    # Kickout is due when the sum of a full pool is below this times `pool_size`: a mean score in
    # units of 10^-18 (docs/reference/sources.md#crynux-qos).
    kickout_below: int = 2 * UNIT
    # A kickout more than this part of whose scores come from tasks of one creator is not proposed
    # without a person; 1: every one is (docs/explanation/kickouts.md#held-for-a-person).
    kick_creator_share: int = UNIT // 2

    # Node scores from two rounds of submission instead of groups
    # (docs/explanation/legacy.md#scores); None: groups. Reliability has no part in them, `q_max`
    # is the best of both rounds together.
    legacy: LegacyRules | None = None

    def __post_init__(self) -> None:
        for field, sound, meaning in self._demands():
            if not sound:
                raise ValueError(f"{field}: {meaning}")

    def _demands(self) -> tuple[tuple[str, bool, str], ...]:
        demands = (
            *self._pool_demands(), *self._trust_demands(), *self._reliability_demands()
        )  # fmt: skip
        return demands if self.legacy is None else (*demands, *self._legacy_demands())

    def _pool_demands(self) -> tuple[tuple[str, bool, str], ...]:
        scores = (*self.rank_scores, self.absent_score)
        ascending = all(a < b for a, b in zip(self.restarts, self.restarts[1:], strict=False))
        floor = self.rejoin_floor
        return (
            ("name", bool(self.name), "must not be empty"),
            ("version", self.version >= 1, "must be 1 or more"),
            ("close", self.close in _CLOSES, f"must be one of {', '.join(_CLOSES)}"),
            ("group_size", self.group_size >= 1, "must be 1 or more"),
            ("rank_scores", bool(self.rank_scores), "must not be empty"),
            ("rank_scores", all(0 <= s <= self.q_max for s in scores), "must be 0 to q_max"),
            ("q_max", 1 <= self.q_max <= _LARGEST_SCORE, f"must be 1 to {_LARGEST_SCORE}"),
            ("pool_size", self.pool_size >= 1, "must be 1 or more"),
            ("new_node_long_term", 0 <= self.new_node_long_term <= UNIT, "must be 0 to 1"),
            ("rejoin_floor", floor is None or 0 <= floor <= UNIT, "must be 0 to 1"),
            ("reseed_copies", 0 <= self.reseed_copies < self.pool_size, "must be below pool_size"),
            ("restarts", ascending, "must be ascending block times"),
            ("kickout_below", 0 <= self.kickout_below <= self.q_max * UNIT, "must be 0 to q_max"),
        )

    def _trust_demands(self) -> tuple[tuple[str, bool, str], ...]:
        known = self.error_rank in _ERROR_RANKS
        return (
            ("error_rank", known, f"must be one of {', '.join(_ERROR_RANKS)}"),
            (
                "ranked_answers",
                self.ranked_answers in _RANKED_ANSWERS,
                f"must be one of {', '.join(_RANKED_ANSWERS)}",
            ),
            ("least_timeout_seconds", self.least_timeout_seconds >= 0, "must be 0 or more"),
            ("kick_creator_share", 0 <= self.kick_creator_share <= UNIT, "must be 0 to 1"),
        )

    def _reliability_demands(self) -> tuple[tuple[str, bool, str], ...]:
        enter, leave, first = self.exclude_enter, self.exclude_exit, self.first_penalty
        fair = first is None or 0 < first <= UNIT
        above = "must be above 0, at most 1"
        return (
            ("tau_seconds", self.tau_seconds >= 1, "must be 1 or more"),
            ("penalty", 0 < self.penalty <= UNIT, above),
            ("first_penalty", fair, above),
            ("first_penalty_from", 0 < self.first_penalty_from <= UNIT, above),
            ("boost", 0 <= self.boost <= UNIT, "must be 0 to 1"),
            ("exclude_enter", 0 < enter <= leave, "must be above 0, at most exclude_exit"),
            ("exclude_exit", leave <= UNIT, "must be at most 1"),
        )

    def _legacy_demands(self) -> tuple[tuple[str, bool, str], ...]:
        best = 2 * max((*self.rank_scores, self.absent_score))
        inert = "under legacy rules, which have no reliability"
        return (
            ("q_max", best <= self.q_max, f"must be {best} or more, as two rounds bring that"),
            ("penalty", self.penalty == UNIT, f"must be 1 {inert}"),
            ("first_penalty", self.first_penalty is None, f"must not be there {inert}"),
            ("boost", self.boost == 0, f"must be 0 {inert}"),
            (
                "rejoin_floor",
                self.rejoin_floor is None,
                "must not be there under legacy rules, whose window has no prior",
            ),
            *(
                (field.name, getattr(self, field.name) == field.default, IDLE_RULES[field.name])
                for field in fields(self)
                if field.name in IDLE_RULES
            ),
        )

    def is_believed(self, limit: int | None) -> bool:
        """Tell whether a task's own limit in seconds is one that a node can be held to.

        None: its network does not say it.
        """
        return limit is None or limit >= self.least_timeout_seconds

    @property
    def remembers_exclusion(self) -> bool:
        """Whether exclusion has two thresholds, so that a node has to remember it."""
        return self.exclude_enter != self.exclude_exit

    def to_json(self) -> str:
        """Write canonical JSON: sorted keys, no spaces, fractions as decimal strings."""
        values = {
            field.name: self._json_of(field.name)
            for field in fields(self)
            if field.name not in _LEFT_OUT or getattr(self, field.name) != field.default
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def _json_of(self, name: str) -> object:
        value = getattr(self, name)
        if isinstance(value, LegacyRules):
            return value.to_values()
        return json_value(name, value, FRACTIONS)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; fields left out have the defaults above.

        Raises:
            ValueError: no JSON object, a field unknown, missing, or of a wrong type or value.
        """
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("rules must be a JSON object")  # noqa: TRY004 - the text is at fault
        known = {field.name: field for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ValueError(f"{name}: no such rule")
        for name in missing_rules(known, values):
            raise ValueError(f"{name}: missing")
        legacy = values.pop("legacy", None)
        plain = {name: read_value(known[name], value, FRACTIONS) for name, value in values.items()}
        return cls(**plain, legacy=None if legacy is None else LegacyRules.from_values(legacy))
