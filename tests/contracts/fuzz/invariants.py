"""What holds after every call, whoever made it, read off the chain alone.

The model is not asked: these would hold for a contract that the model gets wrong.
See docs/reference/contract.md#what-always-holds.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.contracts.fuzz.data_refusals import falls
from tests.contracts.fuzz.evm import Answer
from tests.contracts.fuzz.ledger import Ledger
from tests.contracts.fuzz.limits import KickLimits, Limits
from tests.contracts.fuzz.seen import Seen
from tests.contracts.fuzz.state import ALWAYS, BEST_LANE, EXPELLED, PENDING, RECENT, ZERO_QOS
from tests.contracts.fuzz.step import Step

# What a pause stops.
STOPPED = {"push", "proposeKick", "executeKick", "retryKick"}
OF_KICKOUTS = STOPPED - {"push"}


class Moment(NamedTuple):
    """One call between two looks at the chain."""

    step: Step
    answer: Answer
    before: Seen
    after: Seen
    now: int

    @property
    def is_fresh(self) -> bool:
        head = self.before.head
        return self.now <= head.pushed_at + Limits(*self.before.limits).max_age + head.held


@dataclass
class Kicked:
    """When kickouts were executed since the bucket was last set."""

    times: list[int] = field(default_factory=list)

    def count(self, moment: Moment) -> None:
        """Over every window that ends now: no more than the bucket holds and flows in."""
        event_names = {event.name for event in moment.answer.said}
        if "KickLimitsSet" in event_names:
            self.times.clear()
        if moment.step.name != "executeKick" or "KickExecuted" not in event_names:
            return
        self.times.append(moment.now)
        limits = KickLimits(*moment.after.kick_limits)
        for count, start in enumerate(reversed(self.times), 1):
            frames = (moment.now - start) // limits.frame + 1
            assert count <= limits.most + frames * limits.per_frame, "more kickouts than allowed"


def check(moment: Moment, ledger: Ledger) -> None:
    """Raises: AssertionError: one of them does not hold."""
    _rounds(moment)
    _lanes(moment)
    _pause(moment)
    _kickouts(moment, ledger)
    _nodes(moment)
    if moment.answer.error is not None:
        slots = moment.after.slots
        same = all(
            slots.get(node, slot_before) == slot_before
            for node, slot_before in moment.before.slots.items()
        )
        assert same, "a refused call changed a node"
        unbucketed = [snapshot._replace(bucket=(), slots={}) for snapshot in moment[2:4]]
        assert unbucketed[0] == unbucketed[1], "a refused call changed something"


def _rounds(moment: Moment) -> None:
    before, after = moment.before, moment.after
    assert after.head.round - before.head.round in {0, 1}, "rounds rise by one"
    if after.head.round == before.head.round:
        assert before.last_report == after.last_report, "no round, but another digest"
        assert before.words == after.words, "no round, but other words"
        assert before.head[1:3] == after.head[1:3], "no round, but another as-of"
        assert before.head.node_count == after.head.node_count, "no round, but another index"
        return
    assert moment.step.name == "push"
    assert after.head.as_of > before.head.as_of, "as-of rises"
    assert after.head.pushed_at == moment.now
    assert after.config == before.config, "a round changed the configuration"


def _lanes(moment: Moment) -> None:
    after, limits = moment.after.lanes, Limits(*moment.before.limits)
    before = moment.before.lanes + [0] * len(after)
    count = moment.after.head.node_count
    assert max(after) <= BEST_LANE, "a lane above the cap"
    assert not any(after[count:]), "a lane that is nobody's"
    assert all(after[:count]), "an index without a score"
    assert sum(lane >= ZERO_QOS for lane in after) == moment.after.head.open_count
    fallen = sum(falls(old, new, limits.big_fall) for old, new in zip(before, after, strict=False))
    share = moment.before.head.open_count * limits.fall_share // 10_000
    assert fallen <= max(ALWAYS, share), "more lanes fell than may"


def _pause(moment: Moment) -> None:
    if moment.answer.error is not None:
        return
    name, head = moment.step.name, moment.before.head
    assert name not in STOPPED or moment.now >= head.paused_until, "paused"
    assert name not in OF_KICKOUTS or not head.kicks_paused, "kickouts rest"


def _kickouts(moment: Moment, ledger: Ledger) -> None:
    for name, words in moment.answer.said:
        if name == "KickProposed":
            node, round_, lane, evidence = words[:4]
            index = moment.before.slot(node).index_plus_one - 1
            assert 0 < lane == moment.before.lanes[index], "proposed for another lane"
            assert evidence, "no evidence"
            assert round_ == moment.before.head.round, "told of another round"
            signed_on, report = moment.step.words[:2]
            assert round_ - RECENT < signed_on, "signed on a round long over"
            assert ledger.reports[signed_on] == report, "signed on another history"
        elif name == "KickExecuted" and moment.step.name == "executeKick":
            _executed(moment, words[0])
    for node, slot_before in moment.before.slots.items():
        is_kept = slot_before[1] < EXPELLED or moment.after.slots[node][1] >= EXPELLED
        lapsed = moment.now >= slot_before[4]
        assert is_kept or lapsed or moment.step.name == "readmit", "an expulsion that went away"


def _executed(moment: Moment, node: int) -> None:
    slot, limits = moment.before.slot(node), Limits(*moment.before.limits)
    head = moment.before.head
    assert slot.kick == PENDING, "executed, and not proposed"
    assert slot.config == head.config, "proposed under another configuration"
    assert slot.ready_at <= moment.now <= slot.dies_at, "before the veto's end, or too late"
    assert head.round >= slot.round + limits.kick_rounds, "too few rounds"
    lane = moment.before.lanes[slot.index_plus_one - 1]
    assert 0 < lane < limits.kick_below + ZERO_QOS, "a lane not low"
    assert head.open_count >= limits.min_open, "too few open lanes"
    assert moment.is_fresh, "stale scores"
    assert moment.after.slot(node).kick >= EXPELLED, "executed, and not expelled"


def _nodes(moment: Moment) -> None:
    assert moment.after.head.node_count >= moment.before.head.node_count, "indexes taken back"
    held = [slot[0] for slot in moment.after.slots.values() if slot[0]]
    assert len(set(held)) == len(held), "an index of two nodes"
