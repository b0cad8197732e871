"""Sentences about a node, the answer first: state, cause, place, and possible improvements.

Pure functions: the same summary gives the same sentences, on the page and elsewhere
(docs/explanation/pages.md#sentences).
"""

from collections import Counter
from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT, multiply
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.node_figures import NodeFigures
from oracle.domain.scoring.rules import Rules
from oracle.queries.api.lifting import NodeLift
from oracle.queries.text.human_numbers import (
    capital,
    counted,
    in_words,
    listed,
    moment,
    ordinal,
    rank_text,
    span,
    two_digits,
)

# Timeouts up to this age still count as a cause.
_RECENT_SECONDS = 7_200
_EXCLUSION_SECONDS = 1_800
# A cause that costs less gets no sentence.
_WORTH_SAYING = UNIT // 100
# Sentence of each inactive state, with the time of the last membership change if it is known.
_GONE = {
    "slashed": ("Slashed{}, and out of the network.", " on {}"),
    "quit": ("It left the network{}.", " on {}"),
    "unknown": ("It never joined.", ""),
    "paused": ("Paused by its owner{}.", " since {}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCauses:
    """The causes of a node's score, as of block time `time` in seconds.

    `ranks`: of the scores that count, oldest first; None for no right answer. Under legacy rules
    ranks belong to rounds and are no cause. `timeouts` are block times, oldest first.
    """

    time: int
    rules: Rules
    figures: NodeFigures
    ranks: tuple[int | None, ...]
    timeouts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding(NodeCauses):
    """The data from which the sentences about a node are made.

    `points` is the mean of the scores that count, in units of 10^-18. `group_size`: of all their
    groups, None if the sizes differ. `kick_at`: unix seconds from which a proposed kickout may be
    executed, or None. `changed_at`: unix seconds of the change to the current membership, or None
    if the node never was a member.
    """

    points: int
    group_size: int | None
    place: int | None
    members: int
    lift: NodeLift
    kick_at: int | None = None
    turned_at: int | None = None


def headline(told: NodeStanding) -> str:
    """Return the answer in one sentence."""
    if told.figures.state in _GONE:
        words, when = _GONE[told.figures.state]
        turned_at = told.turned_at
        return words.format("" if turned_at is None else when.format(moment(turned_at)))
    if told.figures.state == "kicked_out":
        return f"Kicked out: {_last(told)} brought {two_digits(told.points)} points on average."
    if told.kick_at is not None:
        return f"To be kicked out {_in(told.kick_at - told.time)}, unless its scores rise."
    if told.figures.is_kickout_due:
        return f"To be kicked out: {_last(told)} brought {two_digits(told.points)} on average."
    return _excluded(told) if told.figures.state == "excluded" else _of_member(told)


def _of_member(told: NodeStanding) -> str:
    if told.figures.factors is not None:
        return _of_factors(told, told.figures.factors)
    if _is_about_timeouts(told):
        return f"{capital(_recent(told, _RECENT_SECONDS))}: reliability is {_trust(told)}."
    return _ranks_headline(told)


def details(told: NodeStanding) -> str:
    """Return the secondary cause, and the place among the members."""
    figures = told.figures
    needs_line = figures.state == "kicked_out" or figures.is_kickout_due
    parts = [_line(told)] if needs_line else []
    is_ranked = told.figures.factors is None and headline(told) == _ranks_headline(told)
    if told.figures.factors is not None and told.figures.is_kickout_due:
        parts.append(_of_factors(told, told.figures.factors))
    elif told.ranks and told.figures.factors is not None:
        parts.append(f"{capital(_of_window(told))} {two_digits(told.points)} points on average.")
    elif told.ranks and not is_ranked:
        parts.append(f"Of {_last(told)} it {_by_rank(told)}.")
    cost = UNIT - told.figures.reliability
    if told.place is not None and is_ranked and cost >= _WORTH_SAYING:
        parts.append(f"Reliability is {_trust(told)}, and heals by itself.")
    if told.place is not None:
        parts.append(_place(told.place, told.members))
    return " ".join(parts)


def lifted(told: NodeStanding) -> str | None:
    """Return at most two events that would improve the node's place or state, or None."""
    parts = []
    if told.figures.back_at is not None:
        parts.append(f"{_in(told.figures.back_at - told.time)} it can be given tasks again")
    steps = told.lift
    if told.figures.is_kickout_due and steps.over_line:
        words = counted(steps.over_line, "first place") + _in_a_row(steps.over_line)
        parts.append(f"{words} would lift it over the line")
    if steps.first_places and steps.place_then is not None:
        words = counted(steps.first_places, "first place") + _in_a_row(steps.first_places)
        target = f"the {ordinal(steps.place_then)} of {told.members}"
        parts.append(f"{'then ' if parts else ''}{words} would make it {target}")
    if steps.successes and told.figures.back_at is None:
        words = counted(steps.successes, "success", "successes") + _in_a_row(steps.successes)
        parts.append(f"{words} would make its reliability whole")
    return capital("; ".join(parts[:2])) + "." if parts else None


def short_reason(told: NodeCauses) -> str:
    """Return the cause in a few words, for a row of a list."""
    if told.figures.back_at is not None:
        return f"back in {span(told.figures.back_at - told.time)}"
    if told.figures.factors is not None:
        return _shown_factors(told.figures.factors)
    if _is_about_timeouts(told):
        return f"{_recent(told, _RECENT_SECONDS)}, H {two_digits(told.figures.reliability)}"
    rank, many = _commonest(told)
    if not many:
        return "no score yet"
    return (
        f"{'no right answer' if rank is None else rank_text(rank)} in {many} of {len(told.ranks)}"
    )


def _of_factors(told: NodeStanding, found: Factors) -> str:
    """Return the values of R, P and B, and the one that costs most by its weight."""
    legacy = told.rules.legacy
    if legacy is None:
        raise ValueError("factors come from legacy rules")
    costs = {
        "its memory": multiply(legacy.vram_weight, UNIT - found.size),
        "its timeout": multiply(legacy.timeout_weight, UNIT - found.promptness),
        "its speed": multiply(legacy.speed_weight, UNIT - (found.speed or 0)),
    }
    heaviest = max(costs, key=lambda cause: costs[cause])
    said = _shown_factors(found)
    return f"{said}: {heaviest} costs it most." if costs[heaviest] else f"{said}: at its best."


def _shown_factors(found: Factors) -> str:
    speed = "none" if found.speed is None else two_digits(found.speed)
    return f"R {two_digits(found.size)}, P {two_digits(found.promptness)}, B {speed}"


def _of_window(told: NodeStanding) -> str:
    many = len(told.ranks)
    said = "its only task" if many == 1 else f"its {in_words(many)} tasks"
    return f"{said} of this window brought"


def _excluded(told: NodeStanding) -> str:
    cause = _recent(told, _EXCLUSION_SECONDS)
    if told.figures.back_at is None:
        return f"Excluded: {cause}."
    return f"Excluded for {span(told.figures.back_at - told.time)} more: {cause}."


def _in_a_row(count: int) -> str:
    return "" if count == 1 else " in a row"


def _in(seconds: int) -> str:
    return "now" if seconds <= 0 else f"in {span(seconds)}"


def _is_about_timeouts(told: NodeCauses) -> bool:
    lost = UNIT - told.figures.reliability
    is_recent = any(told.time - at <= _RECENT_SECONDS for at in told.timeouts)
    return lost > 0 and lost >= UNIT - told.figures.long_term and is_recent


def of_timeouts(told: NodeStanding) -> str:
    """Return the number of recent timeouts, and the time since the first of them."""
    return _recent(told, _RECENT_SECONDS)


def _recent(told: NodeCauses, seconds: int) -> str:
    recent = [at for at in told.timeouts if told.time - at <= seconds]
    if not recent:
        return "its timeouts have not healed yet"
    return f"{counted(len(recent), 'timeout')} in the last {span(told.time - recent[0])}"


def _trust(told: NodeStanding) -> str:
    return f"down to {two_digits(told.figures.reliability)}"


def _line(told: NodeStanding) -> str:
    legacy = told.rules.legacy
    below = told.rules.kickout_below if legacy is None else legacy.kickout_below
    return f"At least {two_digits(below)} are needed."


def _last(told: NodeStanding) -> str:
    many = len(told.ranks)
    return "its last task" if many == 1 else f"its last {in_words(many)} tasks"


def _place(place: int, members: int) -> str:
    if members == 1:
        return "It is the only node."
    if place == 1:
        return f"Best of {members} nodes."
    return f"It is the {ordinal(place)} of {members} nodes."


def _commonest(told: NodeCauses) -> tuple[int | None, int]:
    found = Counter(told.ranks).most_common(1)
    return found[0] if found else (None, 0)


def _of_size(told: NodeStanding) -> str:
    return "" if told.group_size is None else f" of {in_words(told.group_size)}"


def _ranks_headline(told: NodeStanding) -> str:
    rank, many = _commonest(told)
    if not told.ranks:
        return "No task was scored yet, so it counts as an average node."
    if rank is None or 2 * many <= len(told.ranks):
        return f"Of {_last(told)} it {_by_rank(told)}."
    word = capital(rank_text(rank)) + _of_size(told)
    if many == len(told.ranks):
        return f"{word} in {'' if many == 1 else 'all of '}{_last(told)}."
    silent = told.ranks.count(None)
    rest = f", and no right answer in {in_words(silent)}" if silent else ""
    return f"{word} in {in_words(many)} of {_last(told)}{rest}."


def _by_rank(told: NodeStanding) -> str:
    found = Counter(told.ranks)
    ranked = sorted(rank for rank in found if rank is not None)
    parts = [f"{rank_text(rank)} in {in_words(found[rank])}" for rank in ranked]
    if parts:
        parts[0] = f"was {parts[0]}"
    if found[None]:
        parts.append(f"gave no right answer in {in_words(found[None])}")
    return listed(parts)
