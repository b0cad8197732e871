"""Invariants of the oracle of roots after every call, read from the chain alone.

The model is not used, so an error in the model cannot hide one in the contract. Each function is
an invariant of docs/reference/contract-invariants.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.contracts.fuzz.evm import Answer
from tests.contracts.fuzz.limits import DAY, KickLimits
from tests.contracts.fuzz.quorums import list_addresses
from tests.contracts.fuzz.roots.contract_views import ContractViews
from tests.contracts.fuzz.roots.limits import MAXIMA, MINIMA, RootLimits, can_set_kick_limits
from tests.contracts.fuzz.roots.state import ACCUSED, EXPELLED, Place
from tests.contracts.fuzz.roots.step import Step
from tests.contracts.fuzz.roots.trees import HELD, ZERO_QOS, Contents, read_leaf

# Calls that a pause of kickouts stops, and those that a pause of the oracle stops.
OF_KICKOUTS = {"accuse", "executeKick", "retryKick"}
STOPPED = {"push", *OF_KICKOUTS}


class Moment(NamedTuple):
    """One call between two readings of the chain."""

    place: Place
    step: Step
    answer: Answer
    before: ContractViews
    after: ContractViews
    now: int

    @property
    def is_done(self) -> bool:
        return self.answer.error is None

    @property
    def caller(self) -> int:
        return self.place.network if self.step.is_forwarded else self.step.caller

    @property
    def is_fresh(self) -> bool:
        head = self.before.head
        max_age = RootLimits(*self.before.limits).max_age
        return self.now <= head.pushed_at + max_age + head.held

    def events(self, name: str) -> Iterator[tuple[int, ...]]:
        return (event.words for event in self.answer.events if event.name == name)


class Accusation(NamedTuple):
    """The state of an accusation when it was made."""

    due_since: int
    ready_at: int
    round: int


@dataclass
class History:
    """The summarised calls of a walk and their events."""

    contents: dict[int, Contents] = field(default_factory=dict)
    struck: set[int] = field(default_factory=set)
    accused: dict[int, Accusation] = field(default_factory=dict)
    # Intervals of a node that began until then were vetoed, executed or readmitted.
    spared: dict[int, int] = field(default_factory=dict)
    allowed: dict[int, int] = field(default_factory=dict)
    executions: list[int] = field(default_factory=list)
    executed: Accusation | None = None
    paused_until: int = 0
    # Open lanes of the hot set after the last call, and at the ends of earlier days.
    open_at: list[tuple[int, int]] = field(default_factory=list)
    falls: dict[int, int] = field(default_factory=dict)

    def record(self, moment: Moment) -> None:
        """Record the effects of an accepted call."""
        for name, record in _RECORDED.items():
            for words in moment.events(name):
                record(self, moment, words)


Words = tuple[int, ...]


def _record_round(history: History, moment: Moment, words: Words) -> None:
    assert moment.step.contents is not None
    history.contents[words[0]] = moment.step.contents


def _record_strike(history: History, _: Moment, words: Words) -> None:
    history.struck |= set(range(words[0], words[1] + 1))


def _record_cancellation(history: History, moment: Moment, words: Words) -> None:
    cancelled = history.accused.pop(words[0])
    if moment.step.name == "veto":
        history.spared[words[0]] = cancelled.due_since


def _record_accusation(history: History, moment: Moment, words: Words) -> None:
    node, round_, due_since, *_ = words
    delay = RootLimits(*moment.before.limits).veto_delay
    history.accused[node] = Accusation(due_since, moment.now + delay, round_)


def _record_permission(history: History, _: Moment, words: Words) -> None:
    history.allowed[words[0]] = words[1]


def _record_execution(history: History, moment: Moment, words: Words) -> None:
    if moment.step.name == "executeKick":
        history.executed = history.accused.pop(words[0])
        history.spared[words[0]] = history.executed.due_since


def _record_readmission(history: History, moment: Moment, words: Words) -> None:
    history.spared[words[0]] = moment.now


def _record_pause(history: History, _: Moment, words: Words) -> None:
    history.paused_until = words[0]


# In the order in which a call emits them.
_RECORDED: dict[str, Callable[[History, Moment, Words], None]] = {
    "RoundAccepted": _record_round,
    "RoundsStruck": _record_strike,
    "KickCancelled": _record_cancellation,
    "KickAccused": _record_accusation,
    "KickAllowed": _record_permission,
    "KickExecuted": _record_execution,
    "NodeReadmitted": _record_readmission,
    "PausedUntil": _record_pause,
}


def check(moment: Moment, history: History) -> None:
    """Check every invariant of the oracle, and record the call.

    Raises:
        AssertionError: one of them does not hold.
    """
    for invariant in (
        check_refused_call_changes_nothing,
        check_rounds_follow_each_other,
        check_report_is_signed_by_a_quorum,
        check_struck_round_is_not_read,
        check_accused_interval_is_due,
        check_executed_interval_was_accused_and_waited_out,
        check_executions_are_within_the_bucket,
        check_expulsion_ends_by_readmission_or_time,
        check_pause_is_bounded,
        check_pause_stops_rounds_and_kickouts,
        check_limits_are_within_floors_and_ends,
        check_role_is_replaced_by_its_rule,
    ):
        invariant(moment, history)


# --- rounds ---


def check_refused_call_changes_nothing(moment: Moment, _: History) -> None:
    if moment.is_done:
        return
    assert moment.before.kicks.items() <= moment.after.kicks.items(), "a refused call kicked"
    before, after = (
        # Time alone refills the bucket and starts a day.
        seen._replace(bucket=(), falls=(), kicks={})
        for seen in (moment.before, moment.after)
    )
    assert before == after, "a refused call changed something"


def check_rounds_follow_each_other(moment: Moment, history: History) -> None:
    before, after = moment.before, moment.after
    if moment.step.name != "push" or not moment.is_done:
        assert before.head.round == after.head.round, "a round without a report"
        assert before.head[1:3] == after.head[1:3], "another as-of block without a report"
        return
    contents = history.contents[after.head.round]
    assert after.head.round == before.head.round + 1
    assert after.head.as_of > before.head.as_of, "the as-of block does not rise"
    assert after.head.pushed_at == moment.now
    assert after.last_root == int.from_bytes(contents.root), "another root than the report's"
    assert after.head.round_config == before.head.config
    assert before.config == after.config, "a report changed the configuration"


def check_report_is_signed_by_a_quorum(moment: Moment, _: History) -> None:
    signers = moment.after.signers
    quorum = moment.after.head.quorum
    assert 2 * quorum > len(signers) >= quorum, "a quorum of half or fewer"
    for words in moment.events("RoundAccepted"):
        bitmap = words[-1]
        signed = [who for bit, who in enumerate(signers) if bitmap >> bit & 1]
        assert bitmap.bit_count() == len(signed) == quorum
        assert set(signed) == set(list_addresses(moment.step.signatures))


def check_struck_round_is_not_read(moment: Moment, history: History) -> None:
    for round_, root in moment.after.roots.items():
        if round_ in history.struck:
            assert root is None, "a struck root is still read"
        elif root is not None:
            assert root == int.from_bytes(history.contents[round_].root)
    last = moment.after.head.round
    assert moment.after.last_root == 0 or last not in history.struck, "a struck root as prev"
    if moment.is_done and moment.step.name in {"accuse", "executeKick", "clear"}:
        assert moment.before.head.round not in history.struck, "a kickout by a struck root"


# --- kickouts ---


def _stated_leaf(moment: Moment, history: History) -> Any:
    """Return the leaf that a kickout named, which the last root must state."""
    leaf: Any = moment.step.arguments[0]
    contents = history.contents[moment.before.head.round]
    assert contents.has_leaf(leaf), "a leaf that the last root does not state"
    return read_leaf(leaf)


def check_accused_interval_is_due(moment: Moment, history: History) -> None:
    if moment.step.name != "accuse" or not moment.is_done:
        return
    leaf = _stated_leaf(moment, history)
    limits = RootLimits(*moment.before.limits)
    kick = moment.after.kick(leaf.node)
    assert kick.state == ACCUSED
    assert 0 < leaf.due_since <= moment.now
    assert kick.due_since == leaf.due_since
    assert leaf.lane < limits.kick_below + ZERO_QOS, "a lane that is not low"
    assert kick.ready_at == moment.now + limits.veto_delay
    assert leaf.due_since > history.spared.get(leaf.node, 0), "a spared interval"
    assert moment.before.head.round_config == moment.before.head.config


def check_executed_interval_was_accused_and_waited_out(moment: Moment, history: History) -> None:
    if moment.step.name != "executeKick" or not moment.is_done:
        return
    leaf = _stated_leaf(moment, history)
    limits = RootLimits(*moment.before.limits)
    head = moment.before.head
    accusation = history.executed
    summary = history.contents[head.round].summary
    assert accusation is not None, "executed without an accusation"
    assert accusation.due_since == leaf.due_since, "another interval"
    assert moment.before.kick(leaf.node).spared_until < leaf.due_since, "a spared interval"
    assert moment.now >= accusation.ready_at, "before the end of the veto delay"
    assert head.round >= accusation.round + limits.kick_rounds, "too few rounds"
    assert leaf.lane < limits.kick_below + ZERO_QOS, "a lane that is not low"
    is_allowed = history.allowed.get(leaf.node) == leaf.due_since
    assert not leaf.flags & HELD or is_allowed, "held, and not allowed"
    assert moment.is_fresh, "stale scores"
    assert summary.open_count >= limits.min_open, "too few open lanes"
    assert head.round_config == head.config, "a root of earlier signers"
    assert moment.after.kick(leaf.node).state >= EXPELLED, "executed, and not expelled"


def check_executions_are_within_the_bucket(moment: Moment, history: History) -> None:
    """In every window that ends now, the number is at most the bucket's size and its refills."""
    if next(moment.events("KickLimitsSet"), None):
        history.executions.clear()
    if moment.step.name != "executeKick" or not moment.is_done:
        return
    history.executions.append(moment.now)
    limits = KickLimits(*moment.after.kick_limits)
    for count, start in enumerate(reversed(history.executions), 1):
        frames = (moment.now - start) // limits.frame + 1
        assert count <= limits.most + frames * limits.per_frame, "more kickouts than allowed"


def check_expulsion_ends_by_readmission_or_time(moment: Moment, _: History) -> None:
    for node, words in moment.before.kicks.items():
        kick = moment.before.kick(node)
        if kick.state < EXPELLED or moment.now >= kick.expelled_until:
            continue
        is_kept = moment.after.kick(node).state >= EXPELLED
        is_readmitted = moment.step.name == "readmit" and moment.caller == _admin(moment)
        assert is_kept or is_readmitted, f"an expulsion ended: {words}"


# --- pauses, limits and roles ---


def _admin(moment: Moment) -> int:
    return moment.before.roles["admin"]


def check_pause_is_bounded(moment: Moment, history: History) -> None:
    before, after = moment.before.head.paused_until, moment.after.head.paused_until
    if after == before:
        return
    assert after == history.paused_until
    if moment.step.name == "resume":
        assert moment.now == after < before, "a pause was extended"
        return
    assert moment.step.name == "pauseFor"
    assert 0 < after - moment.now <= 7 * DAY, "a pause of more than seven days"
    assert moment.now >= before + moment.before.pause, "a pause within the cool-down"


def check_pause_stops_rounds_and_kickouts(moment: Moment, _: History) -> None:
    if not moment.is_done:
        return
    name, head = moment.step.name, moment.before.head
    assert name not in STOPPED or moment.now >= head.paused_until, "paused"
    assert name not in OF_KICKOUTS or not head.kicks_paused, "kickouts are paused"
    assert name != "strike" or moment.now < head.paused_until, "struck without a pause"


def check_limits_are_within_floors_and_ends(moment: Moment, _: History) -> None:
    place, end = moment.place, moment.place.tightest
    before = RootLimits(*moment.before.limits)
    after = RootLimits(*moment.after.limits)
    assert after.can_work(place.lag, place.farthest)
    assert after.is_within(place.floors), "a limit looser than its floor"
    assert can_set_kick_limits(KickLimits(*moment.after.kick_limits), place.kick_floors)
    if before == after or moment.step.name == "setLimits":
        return
    assert moment.step.name == "tightenLimits"
    for name in MINIMA:
        old = getattr(before, name)
        new = getattr(after, name)
        assert new == old or old < new <= getattr(end, name), f"{name} beyond its end"
    for name in MAXIMA:
        old = getattr(before, name)
        new = getattr(after, name)
        assert new == old or old > new >= getattr(end, name), f"{name} beyond its end"
    assert before.anchor_window == after.anchor_window


def check_role_is_replaced_by_its_rule(moment: Moment, _: History) -> None:
    before, after, name = moment.before.roles, moment.after.roles, moment.step.name
    changed = {role for role in before if before[role] != after[role]}
    if not changed:
        return
    caller = moment.caller
    if name == "acceptAdmin":
        assert changed <= {"admin", "pendingAdmin"}
        assert caller == before["pendingAdmin"] == after["admin"]
    elif name == "acceptVetoer":
        assert changed <= {"vetoer", "pendingVetoer", "vetoerOfferedFrom"}
        assert caller == before["pendingVetoer"] == after["vetoer"]
        assert moment.now >= before["vetoerOfferedFrom"], "an offer accepted too early"
    elif name == "offerVetoer":
        assert changed <= {"pendingVetoer", "vetoerOfferedFrom"}
        assert caller == moment.place.proposer
        assert after["vetoerOfferedFrom"] == moment.now + 7 * DAY
    elif name == "withdrawVetoerOffer":
        assert changed <= {"pendingVetoer", "vetoerOfferedFrom"}
        is_pauser = caller == before["pauser"] != before["vetoer"]
        assert caller == before["admin"] or is_pauser, "withdrawn by the vetoer"
    else:
        assert name in {"transferAdmin", "setPauser", "setVetoer", "setTarget"}
        assert caller == before["admin"]
