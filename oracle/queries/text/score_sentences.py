"""The answer first: what a node's score is and why, in sentences, then the reasons by weight.

For the page, the read API and `explain` alike: each takes an `Explanation`, none has a clock.
See docs/how-to/explain-a-score.md#the-answer-first.
"""

from collections import Counter
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, times
from oracle.domain.fold.working_set import ReliabilityCause
from oracle.domain.scoring.node_scores import (
    back_at,
    factors_of,
    is_excluded,
    is_kickout_due,
    long_term,
    qos_at,
    reliability_at,
)
from oracle.domain.scoring.reliability import boosted
from oracle.domain.scoring.score_window import with_score
from oracle.domain.state.node import Membership
from oracle.queries.explain import Explanation
from oracle.queries.text.human_numbers import (
    capital,
    counted,
    in_words,
    listed,
    ordinal,
    place,
    span,
    two_digits,
)

# Timeouts of so many seconds before the block count as the cause of what it shows.
_OF_LATE = 1_800
_RECENT = 7_200
# What costs less is no cause worth a sentence: a hundredth of QoS.
_WORTH_SAYING = UNIT // 100
# Steps that are played to find what would lift it.
_MOST_STEPS = 200
_GONE = {
    Membership.KICKED_OUT: "It was kicked out",
    Membership.SLASHED: "It was slashed",
    Membership.QUIT: "It has left the network",
}


class ScoreCost(NamedTuple):
    """What costs a part of QoS, in units of 10^-18; all of them and the QoS make one."""

    costs: int
    words: str


class NodePlace(NamedTuple):
    """The node's place among the members, the best first."""

    place: int
    of: int

    @property
    def words(self) -> str:
        """Say it in a sentence of its own."""
        return f"{'Best' if self.place == 1 else ordinal(self.place)} of {self.of} nodes."


def sentences(told: Explanation, standing: NodePlace | None = None) -> list[str]:
    """Return the answer: its first sentence, the other cause and the place, what would lift it."""
    first = headline(told)
    second = [line for line in (_other_cause(told, first), standing and standing.words) if line]
    return [first, *([" ".join(second)] if second else []), *_lift(told)]


def headline(told: Explanation) -> str:
    """Return the one sentence that says how the node stands and why."""
    node, rules, now = told.node, told.rules, told.as_of.time
    if node.membership is not Membership.MEMBER:
        return _of_gone(told)
    if node.paused:
        return "Paused by its owner: it is given no tasks."
    if is_kickout_due(node, rules, now):
        return f"To be kicked out: {_mean(told)}."
    return _of_timeouts(told) or _of_places(told)


def reasons(told: Explanation) -> list[ScoreCost]:
    """Return what keeps QoS from one, the heaviest first; nothing for who is no member."""
    node, rules, now = told.node, told.rules, told.as_of.time
    if qos_at(node, now, rules, told.peers) is None:
        return []
    if rules.legacy is not None:
        found = _of_factors(told)
    else:
        lost = times(long_term(node, rules, now), UNIT - reliability_at(node, now, rules))
        found = [*_of_scores(told), ScoreCost(lost, _of_reliability(told))]
    return sorted((one for one in found if one.costs > 0), key=lambda one: -one.costs)


def _of_gone(told: Explanation) -> str:
    gone = _GONE.get(told.node.membership)
    if gone is None:
        return "It never joined the network."
    if told.node.membership is Membership.KICKED_OUT and told.pool:
        return f"{gone}: {_mean(told)}."
    return f"{gone}."


def _of_timeouts(told: Explanation) -> str | None:
    """Say that timeouts exclude it, or cost it no less than its places do; None: neither."""
    node, rules, now = told.node, told.rules, told.as_of.time
    if is_excluded(node, now, rules):
        left = span(max(0, back_at(node, rules) - now))
        return f"Excluded for {left} more: {_timeouts(told, _OF_LATE)}."
    if _is_unreliable(told):
        lowered = two_digits(reliability_at(node, now, rules))
        return f"{capital(_timeouts(told, _RECENT))}: reliability is down to {lowered}."
    return None


def _mean(told: Explanation) -> str:
    if told.rules.legacy is not None or not told.pool:
        return "its node score is below the line"
    mean = two_digits(sum(told.pool) * UNIT // len(told.pool))
    line = two_digits(told.rules.kickout_below)
    return f"its last {counted(len(told.pool), 'task')} brought {mean} on average, of {line}"


def _timeouts(told: Explanation, seconds: int) -> str:
    """Say how many timeouts there were of late, or that they lie further back."""
    now = told.as_of.time
    timed_out = [c.time for c in told.changes if c.cause is ReliabilityCause.TIMED_OUT]
    late = [time for time in timed_out if time >= now - seconds]
    if late:
        return f"{counted(len(late), 'timeout')} in the last {span(max(1, now - late[0]))}"
    if timed_out:
        return f"{counted(len(timed_out), 'timeout')}, the last {span(now - timed_out[-1])} before"
    return "it was unreliable"


def _is_unreliable(told: Explanation) -> bool:
    """Tell whether timeouts of late cost it no less than its places do."""
    node, rules, now = told.node, told.rules, told.as_of.time
    if rules.legacy is not None:
        return False
    recent = any(
        change.cause is ReliabilityCause.TIMED_OUT and change.time >= now - _RECENT
        for change in told.changes
    )
    lost = UNIT - reliability_at(node, now, rules)
    return recent and lost > 0 and lost >= UNIT - long_term(node, rules, now)


def _of_places(told: Explanation) -> str:
    if told.rules.legacy is not None:
        heaviest = reasons(told)
        return f"{capital(heaviest[0].words)}: that costs it most." if heaviest else "At its best."
    if not told.pool:
        return "No task was scored yet, so it counts as an average node."
    if not told.scores:
        return f"Its last {counted(len(told.pool), 'score')} come from before a restart."
    return _of_ranks(told, Counter(entry.rank for entry in told.scores))


def _of_ranks(told: Explanation, places: Counter[int | None]) -> str:
    """Say how often it had which place; the place it mostly had alone, where there is one."""
    rank, many = max(places.items(), key=lambda found: (found[1], -(found[0] or 0)))
    total = len(told.scores)
    if many == total and total > 1:
        return f"{capital(_placed(told, rank))} in all of its last {total} tasks."
    if 2 * many > total > 1:
        silent = places[None] if rank is not None else 0
        also = f", and no result in {in_words(silent)}" if silent else ""
        return f"{capital(_placed(told, rank))} in {many} of its last {total} tasks{also}."
    parts = [f"{place(at)} in {n}" for at, n in sorted(_ranked(places).items())]
    if places[None]:
        parts.append(f"without a result in {in_words(places[None])}")
    return f"Of its last {counted(total, 'task')} it was {listed(parts)}."


def _ranked(places: Counter[int | None]) -> dict[int, int]:
    return {rank: many for rank, many in places.items() if rank is not None}


def _placed(told: Explanation, rank: int | None) -> str:
    """Say a place and of how many, where all the groups were as large."""
    if rank is None:
        return "no result"
    sizes = {len(told.groups.get(entry.at, ())) for entry in told.scores}
    size = next(iter(sizes)) if len(sizes) == 1 else 0
    return f"{place(rank)} of {in_words(size)}" if size > 1 else place(rank)


def _other_cause(told: Explanation, said: str) -> str | None:
    """Return what else costs it a hundredth or more, in a sentence."""
    if told.rules.legacy is not None or told.node.membership is not Membership.MEMBER:
        return None
    of_places = _of_places(told)
    if of_places != said:
        return of_places
    node, rules, now = told.node, told.rules, told.as_of.time
    lost = UNIT - reliability_at(node, now, rules)
    if lost < _WORTH_SAYING:
        return None
    return f"{capital(_of_reliability(told))}."


def _of_reliability(told: Explanation) -> str:
    node, rules, now = told.node, told.rules, told.as_of.time
    lowered = two_digits(reliability_at(node, now, rules))
    return f"{_timeouts(told, _RECENT)}: reliability {lowered}"


def _of_scores(told: Explanation) -> list[ScoreCost]:
    """Share out what the long-term score lacks among the places that lack it."""
    node, rules, now = told.node, told.rules, told.as_of.time
    lacks = UNIT - long_term(node, rules, now)
    entries = told.scores
    if not entries or sum(entry.score for entry in entries) != sum(told.pool):
        words = "no task was scored yet" if not told.pool else "scores from before a restart"
        return [ScoreCost(lacks, words)]
    lost: Counter[int | None] = Counter()
    for entry in entries:
        lost[entry.rank] += rules.q_max - entry.score
    all_lost, total = sum(lost.values()), len(entries)
    many = Counter(entry.rank for entry in entries)
    return [
        ScoreCost(lacks * points // all_lost, f"{_placed(told, rank)} in {many[rank]} of {total}")
        for rank, points in lost.items()
        if points
    ]


def _of_factors(told: Explanation) -> list[ScoreCost]:
    """Return what R, P and B lack, by their weights."""
    legacy, found = told.rules.legacy, factors_of(
        told.node, told.as_of.time, told.rules, told.peers
    )  # fmt: skip
    if legacy is None or found is None:
        return []
    speed = found.speed or 0
    return [
        ScoreCost(
            times(legacy.vram_weight, UNIT - found.size), f"R {two_digits(found.size)}, VRAM"
        ),
        ScoreCost(
            times(legacy.timeout_weight, UNIT - found.promptness),
            f"P {two_digits(found.promptness)}, its timeout setting",
        ),
        ScoreCost(times(legacy.speed_weight, UNIT - speed), f"B {two_digits(speed)}, its speed"),
    ]


def _lift(told: Explanation) -> list[str]:
    """Say what would lift it, as the fold's own functions play it; at most two parts."""
    node, rules, now = told.node, told.rules, told.as_of.time
    if node.membership is not Membership.MEMBER or rules.legacy is not None:
        return []
    parts = []
    if is_excluded(node, now, rules) and not node.paused:
        parts.append(f"in {span(max(0, back_at(node, rules) - now))} it can be given tasks again")
    if is_kickout_due(node, rules, now):
        parts += _out_of_kickout(told)
    steps, reliability = 0, reliability_at(node, now, rules)
    while reliability < UNIT and rules.boost > 0 and steps < _MOST_STEPS:
        steps, reliability = steps + 1, boosted(reliability, rules)
    if steps:
        parts.append(f"{counted(steps, 'success', 'successes')} in a row make reliability whole")
    return [f"{capital(listed(parts[:2]))}."] if parts else []


def _out_of_kickout(told: Explanation) -> list[str]:
    """Say how many first places in a row lift the mean over the line."""
    rules, pool = told.rules, told.pool
    best = max(rules.rank_scores)
    for steps in range(1, _MOST_STEPS + 1):
        pool = with_score(pool, best, rules)
        if sum(pool) * UNIT >= rules.kickout_below * rules.pool_size:
            lifted = counted(steps, "first place in a row lifts", "first places in a row lift")
            return [f"{lifted} it over the line"]
    return []
