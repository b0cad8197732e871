"""What holds after every call, whoever made it, read off the chain alone.

The model is not asked: these would hold for a contract that the model gets wrong.
See docs/reference/contract.md#hardening.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.contracts.fuzz.evm import Answer
from tests.contracts.fuzz.ledger import Ledger
from tests.contracts.fuzz.seen import Seen
from tests.contracts.fuzz.state import BEST_LANE, RECENT, ZERO_QOS, Bucket, Limits
from tests.contracts.fuzz.step import Step

# What a pause stops.
STOPPED = {"push", "proposeKick", "executeKick"}


class Moment(NamedTuple):
    """One call between two looks at the chain; `active`: members before and after."""

    step: Step
    answer: Answer
    before: Seen
    after: Seen
    now: int
    active: tuple[int, int]


@dataclass
class Kicked:
    """When kickouts were executed since the bucket was last set."""

    times: list[int] = field(default_factory=list)

    def count(self, moment: Moment) -> None:
        """Over every window that ends now: no more than the bucket holds and flows in."""
        said = {one.name for one in moment.answer.said}
        if "BucketSet" in said:
            self.times.clear()
        if "KickExecuted" not in said:
            return
        self.times.append(moment.now)
        bucket = Bucket(*moment.after.bucket)
        for count, start in enumerate(reversed(self.times), 1):
            frames = (moment.now - start) // bucket.frame + 1
            assert count <= bucket.most + frames * bucket.per_frame, "more kickouts than allowed"


def check(moment: Moment, ledger: Ledger) -> None:
    """Raises: AssertionError: one of them does not hold."""
    _rounds(moment)
    _lanes(moment)
    _pause(moment)
    _kickouts(moment, ledger)
    _nodes(moment, ledger)
    if moment.answer.error is not None:
        kicks = moment.after.kicks
        same = all(kicks.get(index, was) == was for index, was in moment.before.kicks.items())
        assert same, "a refused call changed a kickout"
        unbucketed = [one._replace(bucket=(), kicks={}) for one in moment[2:4]]
        assert unbucketed[0] == unbucketed[1], "a refused call changed something"


def _rounds(moment: Moment) -> None:
    before, after = moment.before, moment.after
    assert after.round - before.round in {0, 1}, "rounds rise by one"
    if after.round == before.round:
        kept = ("last_report", "words")
        # A node that joins may bring a word into sight, which is empty.
        seen = [[getattr(one, name) for name in kept] for one in (before, after)]
        assert seen[0][0] == seen[1][0], "no round, but another digest"
        assert sum(seen[0][1]) == sum(seen[1][1]), "no round, but other words"
        assert before.head[1:3] == after.head[1:3], "no round, but another as-of"
        return
    assert moment.step.name == "push"
    assert after.head[1] > before.head[1], "as-of rises"
    assert after.head[2] == moment.now


def _lanes(moment: Moment) -> None:
    after, limits = moment.after.lanes, Limits(*moment.before.limits)
    before = moment.before.lanes + [0] * len(after)
    assert max(after) <= BEST_LANE, "a lane above the cap"
    assert not any(after[moment.after.node_count :]), "a lane that is nobody's"
    for old, new in zip(before, after, strict=False):
        assert new or not old, "a lane back to 0"
        if min(old, new) >= ZERO_QOS:
            assert abs(old - new) <= limits.max_step, "a step above maxStep"


def _pause(moment: Moment) -> None:
    if moment.answer.error is not None:
        return
    assert moment.step.name not in STOPPED or moment.now >= moment.before.head[3], "paused"
    if moment.before.head[8]:
        assert moment.step.name not in {"proposeKick", "executeKick"}, "kickouts rest"


def _kickouts(moment: Moment, ledger: Ledger) -> None:
    for name, words in moment.answer.said:
        if name == "KickProposed":
            index = words[0]
            assert 0 < words[3] == moment.before.lanes[index], "proposed for another lane"
            assert words[4], "no evidence"
            assert words[2] == moment.before.round, "told of another round"
            signed_on, report = moment.step.words[:2]
            assert words[2] - RECENT < signed_on, "signed on a round long over"
            assert ledger.reports[signed_on] == report, "signed on another history"
        elif name == "KickExecuted":
            _executed(moment, words[0])
    assert moment.active[1] >= moment.active[0] - 1


def _executed(moment: Moment, index: int) -> None:
    kick, limits = moment.before.live()[index], Limits(*moment.before.limits)
    assert kick.ready_at <= moment.now <= kick.dies_at, "before the veto's end, or too late"
    assert moment.before.round >= kick.round + limits.kick_rounds, "too few rounds"
    assert 0 < moment.before.lanes[index] < limits.kick_below + ZERO_QOS, "a lane not low"
    assert moment.active[1] >= limits.min_active, "too few members left"
    assert moment.now - moment.before.head[2] <= limits.max_age, "stale scores"


def _nodes(moment: Moment, ledger: Ledger) -> None:
    assert moment.after.node_count >= moment.before.node_count, "indexes are never taken back"
    current = set(ledger.index_of.values())
    assert moment.after.live().keys() <= current, "a kickout outlived its index"
