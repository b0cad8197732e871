"""H and exclusion of the source documents and of the relay."""

import re
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

from oracle.domain.events.network_events import TYPE_BY_NAME, AbortReason, LastStatus
from oracle.domain.fixed_point import UNIT, compute_decay, move_towards_one
from oracle.domain.fold.fold import Fold
from oracle.domain.scoring.node_scores import compute_reliability, heal_reliability, is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS, RELAY
from tests.support.histories import History, make_node_address
from tests.support.vectors import Vector, vectors_of

# By the text of the documents: tests/vectors/SUPERSEDED.md.
PROFILES = {"seed_current": CRYNUX_DOCS, "relay_head": RELAY, "crynux": CRYNUX}


def units(number: str | float) -> int:
    return floor(Fraction(str(number)) * UNIT)


def close_to(number: str, value: int) -> bool:
    """Compare with a vector: vectors are rounded to nearest, the product rounds down at every
    step.

    See docs/reference/scoring-rules.md#numbers.
    """
    return abs(units(number) - value) <= 2


class MemberHistory:
    """A member with its own reliability, to which events are applied."""

    def __init__(self, rules: Rules, reliability: int = UNIT, *, excluded: bool = False) -> None:
        self.rules = rules
        self.history = History().joins("A")
        self.fold = Fold(rules)
        self._tasks = 0
        self._go_on()
        self.node.base, self.node.excluded = reliability, excluded

    def _go_on(self) -> None:
        self.fold.fold_events(self.history.events)
        self.history.events.clear()

    @property
    def node(self) -> Node:
        return self.fold.ledger.nodes[make_node_address("A")]

    @property
    def reliability(self) -> int:
        return compute_reliability(self.node, self.history.time, self.rules)

    @property
    def excluded(self) -> bool:
        return is_excluded(self.node, self.history.time, self.rules)

    def apply(self, event: str) -> None:
        self._tasks += 1
        name = str(self._tasks)
        match event:
            case "timeout":
                self.history.starts(name, "A").times_out(name)
            case "success":
                self.history.starts(name, "A").submits(name).succeeds(name)
            case "join":
                self.history.quits("A").joins("A")
            case "start":
                self.history.starts(name, "A")
            case "read":
                pass
            case _:
                self.history.has_event(TYPE_BY_NAME[event], "A")
        self._go_on()


@vectors_of("health")
def test_reliability_matches_vectors(vector):
    rules = PROFILES[vector["profile"]]
    if "trace" in vector:
        changes: dict[str, Any] = {
            name: units(value) for name, value in vector.get("changes", {}).items()
        }
        check_trace(vector, replace(rules, **changes))
    else:
        _HEALTH[vector["id"].split()[0]](vector, rules)


def check_trace(vector: Vector, rules: Rules) -> None:
    member = MemberHistory(rules, units(vector["h_initial"]))
    begin = member.history.time
    for step in vector["trace"]:
        then = begin + int(Fraction(step["at_min"]) * 60)
        member.history.after(then - member.history.time)
        assert close_to(step["h_before"], member.reliability)
        member.apply(step["event"])
        assert close_to(step["h_after"], member.reliability)
        assert member.excluded is step["excluded_after"]


def exclusion_is_strict(vector: Vector, rules: Rules) -> None:
    penalty = units(vector["overrides"]["penalty_factor"])
    member = MemberHistory(replace(rules, penalty=penalty), units(vector["h_initial"]))
    member.apply(vector["event"])
    assert close_to(vector["expected"]["h_after"], member.reliability)
    assert member.excluded is vector["expected"]["excluded"]


def flag_and_exit(vector: Vector, rules: Rules) -> None:
    for case in vector["cases"]:
        member = MemberHistory(rules, units(case["h"]), excluded=case["flag"])
        assert member.excluded is case["excluded"]


def never_healed_backwards(vector: Vector, rules: Rules) -> None:
    base = units(vector["input"]["h_base"])
    minutes = vector["input"]["elapsed_minutes"]
    assert close_to(
        vector["expected"]["h_effective"], heal_reliability(base, 0, 60 * minutes, rules)
    )


def fractions_of_the_gap(vector: Vector, rules: Rules) -> None:
    for case in vector["cases"]:
        fraction = move_towards_one(0, compute_decay(60 * case["minutes"], rules.tau_seconds))
        assert close_to(case["exact_fraction_of_gap"], fraction)
        assert round(100 * fraction / UNIT) == case["printed_percent"]


def excluded_for_so_long(vector: Vector, rules: Rules) -> None:
    for case in vector["cases"]:
        member = MemberHistory(rules, units(case["h"]), excluded=True)
        member.history.after(floor(Fraction(case["minutes"]) * 60))
        assert member.excluded
        member.history.after(1)
        assert not member.excluded


def never_updated(vector: Vector, rules: Rules) -> None:
    """The time of the last change of H is always known:
    the first event names the node even if it never joined.
    """
    fold = Fold(rules)
    fold.fold_events(History().starts("1", "A").events)
    first = fold.ledger.nodes[make_node_address("A")]
    for later in (0, 1, 10**6):
        reliability = compute_reliability(first, first.since + later, rules)
        assert close_to(vector["expected"]["h_effective"], reliability)


_HEALTH = {
    "hr-10": exclusion_is_strict,
    "hr-11": flag_and_exit,
    "hr-12": never_healed_backwards,
    "hr-13": never_updated,
    "hs-07": fractions_of_the_gap,
    "hs-08": excluded_for_so_long,
    "hr-14": excluded_for_so_long,
}


@vectors_of("health_metrics_events")
def test_exclusions_are_counted_like_the_metrics_of_the_relay(vector):
    start, event, minutes = _METRICS[vector["id"].split()[0]]
    member = MemberHistory(RELAY, units(start), excluded=minutes is not None)
    if minutes is not None:
        member.history.after(minutes * 60)
    before = member.node.excluded
    member.apply(event)
    after = member.node.excluded
    expected = vector["expected"]

    assert int(after and not before) == expected.get("health_excluded", 0)
    assert after is expected.get("excluded", False)
    recovered_by_healing = before and not after and event != "join"
    assert int(recovered_by_healing) == expected.get("health_recovered", 0)


# The status of H, the event, and the following minutes of exclusion.
_METRICS = {
    "hm-01": ("0.5", "timeout", None),
    "hm-02": ("1.0", "timeout", None),
    "hm-03": ("0.1", "start", 60),
    "hm-04": ("0.1", "join", 1),
}

_STATUSES = {
    "Queued": LastStatus.QUEUED,
    "Started": LastStatus.STARTED,
    "ParametersUploaded": LastStatus.STARTED,
    "ScoreReady": LastStatus.SUBMITTED,
    "ErrorReported": LastStatus.ERROR_REPORTED,
    "Validated": LastStatus.VALIDATED,
    "GroupValidated": LastStatus.VALIDATED,
}
_REASONS = {
    "Timeout": AbortReason.TIMEOUT,
    "CreatorValidationTimeout": AbortReason.CREATOR_VALIDATION_TIMEOUT,
    "ResultUploadTimeout": AbortReason.RESULT_UPLOAD_TIMEOUT,
    "IncorrectResult": AbortReason.INCORRECT_RESULT,
    "GroupTimeout": AbortReason.GROUP_TIMEOUT,
    "ErrorReported": AbortReason.ERROR_REPORTED,
    "CreatorCancelled": AbortReason.CANCELLED,
    "NodeSlashed": AbortReason.UNKNOWN,
}


def brought_to(history: History, status: LastStatus) -> History:
    if status is LastStatus.QUEUED:
        return history.creates("1").queues("1")
    history.creates("1").starts("1", "A")
    if status in (LastStatus.SUBMITTED, LastStatus.VALIDATED):
        history.submits("1")
    if status is LastStatus.ERROR_REPORTED:
        history.reports_error("1")
    return history.validates("1") if status is LastStatus.VALIDATED else history


@vectors_of("penalty_decision/rows")
def test_only_endings_that_the_node_caused_lower_its_reliability(vector):
    """If the relay blames the node, the profile emits `task_timed_out`."""
    status_names = re.findall(r"\w+", vector["last_status"].replace("(legacy task)", ""))
    reason = _REASONS[vector["reason"].partition("(")[0]]
    for status in (
        _STATUSES.values()
        if status_names == ["any"]
        else [_STATUSES[name] for name in status_names]
    ):
        member = MemberHistory(RELAY, UNIT // 2)
        brought_to(member.history, status)
        if vector["penalty"]:
            member.history.times_out("1", status)
        else:
            member.history.aborts("1", reason, status)
        member.apply("read")
        assert (member.reliability < UNIT // 2) is vector["penalty"]
        assert (member.reliability > UNIT // 2) is vector["boost"]


_ENDS = {
    "EndSuccess": History.succeeds,
    "EndGroupSuccess": History.succeeds,
    "EndGroupRefund": History.is_refunded,
    "Validated": History.validates,
    "GroupValidated": lambda history, name: history.closes("g", name).validates(name),
    "EndInvalidated": History.is_invalidated,
    "EndAborted": History.aborts,
}


@vectors_of("penalty_decision/boost_events")
def test_success_raises_reliability_only_once(vector):
    member = MemberHistory(RELAY, UNIT // 2)
    _ENDS[vector["terminal"]](member.history.starts("1", "A").submits("1"), "1")
    member.apply("read")
    assert (member.reliability > UNIT // 2) is vector["boost"]
