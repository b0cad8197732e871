"""Declares a rule of a rule set in one place: default, meaning, source, bounds.

Everything else that is known of a rule is derived from its field: how it stands in JSON, its
refusal, `rules show`, `--set`, the rules of the read API.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from oracle.domain.fixed_point import UNIT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# In units of 10^-18; JSON has it as a decimal string, and every other number as a whole one.
Fraction = Annotated[int, "units of 10^-18"]

_KEY = "rule"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RuleBounds:
    """Which values a rule may have, and how any other is refused."""

    accepts: Callable[[Any], bool]
    refusal: str


def one_of(*words: str) -> RuleBounds:
    """Return the bounds of a rule whose value is one of a few words."""
    return RuleBounds(words.__contains__, f"must be one of {', '.join(words)}")


def between(low: int, high: int, unit: int = 1) -> RuleBounds:
    """Return the bounds of a number from `low` to `high`, both included, in `unit`."""
    return RuleBounds(
        lambda value: low * unit <= value <= high * unit, f"must be {low} to {high}"
    )  # fmt: skip


def _ascends(values: tuple[int, ...]) -> bool:
    return all(a < b for a, b in pairwise(values))


POSITIVE = RuleBounds(lambda value: value >= 1, "must be 1 or more")
NOT_NEGATIVE = RuleBounds(lambda value: value >= 0, "must be 0 or more")
NOT_EMPTY = RuleBounds(bool, "must not be empty")
SHARE = between(0, 1, UNIT)
FACTOR = RuleBounds(lambda value: 0 < value <= UNIT, "must be above 0, at most 1")
AT_MOST_ONE = RuleBounds(lambda value: value <= UNIT, "must be at most 1")
ASCENDING_TIMES = RuleBounds(_ascends, "must be ascending block times")


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What is known of a rule beside its name, type and default."""

    # One line for the person who chooses the value, with its source (docs/reference/sources.md;
    # `relay`: Crynux's production relay; `ours`: decided by this project). None: no rule.
    meaning: str | None
    bounds: RuleBounds | None = None
    # Set where legacy rules never look at the rule: what has its place there.
    idle: str | None = None
    # Left out of the JSON at its default, so that rule sets from before the rule keep their hash.
    omit_default: bool = False


def rule(
    default: _Value,
    meaning: str,
    source: str,
    *,
    bounds: RuleBounds | None = None,
    idle: str | None = None,
    omit_default: bool = False,
) -> _Value:
    """Declare a rule: a dataclass field with its default and all that `RuleInfo` holds."""
    info = RuleInfo(f"{meaning} ({source})", bounds, idle, omit_default)
    return field(default=default, metadata={_KEY: info})


def described(meaning: str, source: str, bounds: RuleBounds) -> Mapping[str, RuleInfo]:
    """Return the metadata of a rule that has no default: `field(metadata=described(...))`."""
    return {_KEY: RuleInfo(f"{meaning} ({source})", bounds)}


def no_rule(
    *, bounds: RuleBounds | None = None, omit_default: bool = False
) -> Mapping[str, RuleInfo]:
    """Return the metadata of a field of the rule set that is not a rule itself, as its name."""
    return {_KEY: RuleInfo(None, bounds, omit_default=omit_default)}


def rule_info(rule_field: Field[Any]) -> RuleInfo | None:
    """Return what is declared of a field; None where nothing is."""
    info: RuleInfo | None = rule_field.metadata.get(_KEY)
    return info


def is_fraction(rule_field: Field[Any]) -> bool:
    """Tell whether a rule is counted in units of 10^-18."""
    return Fraction in (rule_field.type, *get_args(rule_field.type))


def declared_rules(kind: "type[DataclassInstance]") -> dict[str, tuple[Field[Any], RuleInfo]]:
    """Return the rules of a rule set's class in their order; names of the set are left out."""
    infos = {each.name: (each, rule_info(each)) for each in fields(kind)}
    return {
        name: (each, info)
        for name, (each, info) in infos.items()
        if info is not None and info.meaning is not None
    }


def bound_checks(rules: "DataclassInstance") -> Iterator[tuple[str, bool, str]]:
    """Yield for each field with bounds: its name, whether its value is within, the refusal.

    A rule that may be absent and is has no bounds.
    """
    for each in fields(rules):
        info, value = rule_info(each), getattr(rules, each.name)
        if info is not None and info.bounds is not None and value is not None:
            yield each.name, info.bounds.accepts(value), info.bounds.refusal
