"""Builds sentences about a node's state, its cause, its rank and possible improvements.

The functions are pure, so the same summary gives the same sentences on every page
(docs/explanation/pages.md#sentences).
"""

from collections import Counter
from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.node_figures import NodeScores
from oracle.domain.scoring.rules import Rules
from oracle.queries.advice.kickout_outlook import KickoutOutlook, format_kickout_outlook
from oracle.queries.api.lifting import NodeLift
from oracle.queries.node_models import QosIntervalView
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_enumeration,
    format_number_in_words,
    format_ordinal,
    format_rank,
    format_time,
    format_two_decimals,
)
from oracle.queries.text.reliability_decreases import format_decrease_counts, name_decrease_causes

# Maximum age at which an event that lowered reliability counts as a cause of the score.
_MAX_DECREASE_AGE_SECONDS = 7_200
_EXCLUSION_CAUSE_SECONDS = 1_800
# Minimum cost in QoS of a cause that gets a sentence.
_MIN_MENTIONED_COST = UNIT // 100
# Sentence for each inactive state. If the time of the last membership change is known, the second
# text is inserted with that time.
_SENTENCE_BY_STATE = {
    "slashed": ("Slashed{}, and out of the network.", " on {}"),
    "quit": ("It left the network{}.", " on {}"),
    "unknown": ("It never joined.", ""),
    "paused": ("Paused by its owner{}.", " since {}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCauses:
    """The causes of a node's score at the block time `time`, in seconds.

    `ranks` are the ranks of the scores that count, oldest first; a rank of None means that the
    node gave no right answer. Legacy rules rank the two rounds of a task separately, so ranks are
    not a cause under them. `decreases` are the changes that lowered its reliability, oldest first.
    """

    time: int
    rules: Rules
    node_scores: NodeScores
    ranks: tuple[int | None, ...]
    decreases: tuple[ReliabilityChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary(NodeCauses):
    """The data for sentences about a node; times are in unix seconds.

    `points` is the mean of the scores that count, in units of 10^-18. `group_size` is the size of
    the groups of these scores, or None if the sizes differ. `kick_at` is the time from which an
    accused node may be kicked out, or None. `changed_at` is the time of the change to the current
    membership, or None if the node was never a member. `kickout` is the forecast of a kickout, or
    None if no kickout becomes due at the present rate. `obstacle` is why no account can accuse the
    node although its kickout is due, or None. `is_expelled` is whether the oracle has expelled the
    node. `score_gap` is the median time between the node's last scores in seconds, or None if
    there are too few scores. `shown_round` is the last accepted round if its leaves show the due
    kickout, so that any account can prove it to the contract, else None.
    """

    points: int
    group_size: int | None
    place: int | None
    members: int
    lift: NodeLift
    kickout: KickoutOutlook | None = None
    kick_at: int | None = None
    changed_at: int | None = None
    obstacle: str | None = None
    is_expelled: bool = False
    score_gap: int | None = None
    shown_round: int | None = None


def format_headline(summary: NodeSummary) -> str:
    """Return one sentence about the node's state and its main cause."""
    if summary.node_scores.state == "kicked_out":
        return f"Kicked out: {_format_mean_points(summary)}."
    if summary.is_expelled:
        return "The oracle has expelled it, but the network has not ended its membership."
    kickout_headline = _format_kickout_headline(summary)
    if kickout_headline is not None:
        return kickout_headline
    if summary.node_scores.state in _SENTENCE_BY_STATE:
        template, time_template = _SENTENCE_BY_STATE[summary.node_scores.state]
        changed_at = summary.changed_at
        return template.format(
            "" if changed_at is None else time_template.format(format_time(changed_at))
        )
    if summary.kickout is not None and summary.kickout.is_near:
        return format_kickout_outlook(summary.kickout)
    return (
        _format_exclusion(summary)
        if summary.node_scores.state == "excluded"
        else _format_member_headline(summary)
    )


def _format_kickout_headline(summary: NodeSummary) -> str | None:
    """Return the headline of a node that is accused or whose kickout is due.

    The result is None for any other node.
    """
    if not summary.node_scores.is_kickout_due:
        if summary.kick_at is None or summary.node_scores.qos is None:
            return None
        return "Accused, but its scores have risen: no kickout once the next round shows that."
    if summary.obstacle is not None:
        # The headline omits the reason. Another sentence gives it, together with the action to
        # take.
        return f"It stays in the network: {summary.obstacle.partition(', because ')[0]}."
    if summary.kick_at is not None:
        delay = _format_delay(summary.kick_at - summary.time)
        return f"To be kicked out {delay}, unless its scores rise."
    return f"A kickout is due: {_format_mean_points(summary)}."


def _format_mean_points(summary: NodeSummary) -> str:
    points_text = format_two_decimals(summary.points)
    return f"{_format_last_tasks(summary)} brought {points_text} points on average"


def _format_member_headline(summary: NodeSummary) -> str:
    if summary.node_scores.factors is not None:
        return _format_factor_costs(summary, summary.node_scores.factors)
    if _is_caused_by_decreases(summary):
        return (
            f"{capitalize_first(format_recent_decreases(summary))}: "
            f"reliability is {_format_reliability(summary)}."
        )
    return _format_ranks_headline(summary)


def format_secondary_details(summary: NodeSummary) -> str:
    """Return the second cause of the score, and the node's rank among members."""
    node_scores = summary.node_scores
    needs_kickout_line = node_scores.state == "kicked_out" or node_scores.is_kickout_due
    sentences = [_format_kickout_line(summary)] if needs_kickout_line else []
    is_ranked = summary.node_scores.factors is None and format_headline(
        summary
    ) == _format_ranks_headline(summary)
    if summary.node_scores.factors is not None and summary.node_scores.is_kickout_due:
        sentences.append(_format_factor_costs(summary, summary.node_scores.factors))
    elif summary.ranks and summary.node_scores.factors is not None:
        sentences.append(
            f"{capitalize_first(_format_window_tasks(summary))} "
            f"{format_two_decimals(summary.points)} points on average."
        )
    elif summary.ranks and not is_ranked:
        sentences.append(f"Of {_format_last_tasks(summary)} it {_format_rank_counts(summary)}.")
    cost = UNIT - summary.node_scores.reliability
    if summary.place is not None and is_ranked and cost >= _MIN_MENTIONED_COST:
        sentences.append(
            f"Reliability, which {name_decrease_causes(summary.rules)} lower, is "
            f"{_format_reliability(summary)} and recovers by itself."
        )
    if summary.place is not None:
        sentences.append(_format_rank_among_members(summary.place, summary.members))
    return " ".join(sentences)


def format_improvement(summary: NodeSummary) -> str | None:
    """Return up to two events that would improve the node's rank or state, if there are any."""
    sentences = []
    if summary.node_scores.back_at is not None:
        sentences.append(
            f"{_format_delay(summary.node_scores.back_at - summary.time)} "
            "it can be given tasks again"
        )
    lift = summary.lift
    if summary.node_scores.is_kickout_due and lift.first_places_to_clear:
        sentences.append(
            f"{format_first_places(lift.first_places_to_clear)} would lift it above the threshold"
        )
    if summary.kickout is not None and summary.kickout.is_near:
        sentences.append(format_ranks_that_avoid_kickout(summary.kickout))
    if lift.first_places and lift.place_then is not None:
        steps_text = format_first_places(lift.first_places)
        target_rank_text = f"the {format_ordinal(lift.place_then)} of {summary.members}"
        sentences.append(
            f"{'then ' if sentences else ''}{steps_text} would make it {target_rank_text}"
        )
    if lift.successes and summary.node_scores.back_at is None:
        steps_text = format_count(lift.successes, "success", "successes") + _format_streak_suffix(
            lift.successes
        )
        sentences.append(f"{steps_text} would fully restore its reliability")
    return capitalize_first("; ".join(sentences[:2])) + "." if sentences else None


def format_first_places(first_places: int) -> str:
    """Return a phrase for a number of first places in a row."""
    return format_count(first_places, "first place") + _format_streak_suffix(first_places)


def format_ranks_that_avoid_kickout(outlook: KickoutOutlook) -> str:
    places = [
        format_count(count, noun)
        for count, noun in (
            (outlook.first_places, "first place"),
            (outlook.second_places, "second place"),
        )
        if count is not None
    ]
    if not places:
        return "not even first places in all of these tasks would avoid the kickout"
    return f"{' or '.join(places)} in these tasks would avoid the kickout"


def format_qos_interval(interval: QosIntervalView) -> str:
    """Return a phrase for a QoS interval, with both ends rounded down."""
    return f"between {format_two_decimals(interval.low)} and {format_two_decimals(interval.high)}"


def format_short_cause(causes: NodeCauses) -> str:
    """Return a short phrase for the cause of a score, for rows of a list."""
    if causes.node_scores.back_at is not None:
        return f"back in {format_duration(causes.node_scores.back_at - causes.time)}"
    if causes.node_scores.factors is not None:
        return _format_factors(causes.node_scores.factors)
    if _is_caused_by_decreases(causes):
        reliability_text = format_two_decimals(causes.node_scores.reliability)
        return f"{format_recent_decreases(causes)}, H {reliability_text}"
    rank, count = _find_most_common_rank(causes)
    if not count:
        return "no score yet"
    return (
        f"{'no right answer' if rank is None else format_rank(rank)} in {count} of "
        f"{len(causes.ranks)}"
    )


def _format_factor_costs(summary: NodeSummary, factors: Factors) -> str:
    """Return the factors R, P and B, and which of them costs the node most."""
    legacy = summary.rules.legacy
    if legacy is None:
        raise ValueError("only legacy rules have factors")
    cost_by_cause = {
        "its memory": multiply_fixed_point(legacy.vram_weight, UNIT - factors.size),
        "its timeout": multiply_fixed_point(legacy.timeout_weight, UNIT - factors.promptness),
        "its speed": multiply_fixed_point(legacy.speed_weight, UNIT - (factors.speed or 0)),
    }
    costliest_cause = max(cost_by_cause, key=lambda cause: cost_by_cause[cause])
    factor_text = _format_factors(factors)
    if cost_by_cause[costliest_cause]:
        return f"{factor_text}: {costliest_cause} costs it most."
    return f"{factor_text}: at its best."


def _format_factors(factors: Factors) -> str:
    speed_text = "none" if factors.speed is None else format_two_decimals(factors.speed)
    return (
        f"R {format_two_decimals(factors.size)}, P {format_two_decimals(factors.promptness)}, "
        f"B {speed_text}"
    )


def _format_window_tasks(summary: NodeSummary) -> str:
    task_count = len(summary.ranks)
    tasks_text = (
        "its only task" if task_count == 1 else f"its {format_number_in_words(task_count)} tasks"
    )
    return f"{tasks_text} of this window brought"


def _format_exclusion(summary: NodeSummary) -> str:
    cause_text = format_recent_decreases(summary, _EXCLUSION_CAUSE_SECONDS)
    if summary.node_scores.back_at is None:
        return f"Excluded: {cause_text}."
    remaining_text = format_duration(summary.node_scores.back_at - summary.time)
    return f"Excluded for {remaining_text} more: {cause_text}."


def _format_streak_suffix(count: int) -> str:
    return "" if count == 1 else " in a row"


def _format_delay(seconds: int) -> str:
    return "now" if seconds <= 0 else f"in {format_duration(seconds)}"


def _is_caused_by_decreases(causes: NodeCauses) -> bool:
    lost_reliability = UNIT - causes.node_scores.reliability
    has_recent_decrease = any(
        causes.time - decrease.time <= _MAX_DECREASE_AGE_SECONDS for decrease in causes.decreases
    )
    return (
        lost_reliability > 0
        and lost_reliability >= UNIT - causes.node_scores.long_term
        and has_recent_decrease
    )


def format_recent_decreases(
    causes: NodeCauses, max_age_seconds: int = _MAX_DECREASE_AGE_SECONDS
) -> str:
    """Return a phrase about the number and age of the node's recent reliability decreases."""
    recent_decreases = [
        decrease for decrease in causes.decreases if causes.time - decrease.time <= max_age_seconds
    ]
    if not recent_decreases:
        decrease_nouns = name_decrease_causes(
            causes.rules, (decrease.cause for decrease in causes.decreases)
        )
        return f"reliability has not recovered from its {decrease_nouns} yet"
    return (
        f"{format_decrease_counts(decrease.cause for decrease in recent_decreases)} in the last "
        f"{format_duration(causes.time - recent_decreases[0].time)}"
    )


def _format_reliability(summary: NodeSummary) -> str:
    return f"down to {format_two_decimals(summary.node_scores.reliability)}"


def _format_kickout_line(summary: NodeSummary) -> str:
    legacy = summary.rules.legacy
    kickout_threshold = summary.rules.kickout_below if legacy is None else legacy.kickout_below
    return f"At least {format_two_decimals(kickout_threshold)} are needed."


def _format_last_tasks(summary: NodeSummary) -> str:
    task_count = len(summary.ranks)
    if task_count == 1:
        return "its last task"
    return f"its last {format_number_in_words(task_count)} tasks"


def _format_rank_among_members(rank: int, member_count: int) -> str:
    if member_count == 1:
        return "It is the only node."
    if rank == 1:
        return f"Best of {member_count} nodes."
    return f"It is the {format_ordinal(rank)} of {member_count} nodes."


def _find_most_common_rank(causes: NodeCauses) -> tuple[int | None, int]:
    most_common_ranks = Counter(causes.ranks).most_common(1)
    return most_common_ranks[0] if most_common_ranks else (None, 0)


def _format_group_size(summary: NodeSummary) -> str:
    if summary.group_size is None:
        return ""
    return f" of {format_number_in_words(summary.group_size)}"


def _format_ranks_headline(summary: NodeSummary) -> str:
    rank, count = _find_most_common_rank(summary)
    if not summary.ranks:
        return "No task was scored yet, so it counts as an average node."
    if rank is None or 2 * count <= len(summary.ranks):
        return f"Of {_format_last_tasks(summary)} it {_format_rank_counts(summary)}."
    rank_phrase = capitalize_first(format_rank(rank)) + _format_group_size(summary)
    if count == len(summary.ranks):
        return f"{rank_phrase} in {'' if count == 1 else 'all of '}{_format_last_tasks(summary)}."
    unranked_count = summary.ranks.count(None)
    unanswered_text = (
        f", and no right answer in {format_number_in_words(unranked_count)}"
        if unranked_count
        else ""
    )
    return (
        f"{rank_phrase} in {format_number_in_words(count)} of "
        f"{_format_last_tasks(summary)}{unanswered_text}."
    )


def _format_rank_counts(summary: NodeSummary) -> str:
    count_by_rank = Counter(summary.ranks)
    distinct_ranks = sorted(rank for rank in count_by_rank if rank is not None)
    rank_texts = [
        f"{format_rank(rank)} in {format_number_in_words(count_by_rank[rank])}"
        for rank in distinct_ranks
    ]
    if rank_texts:
        rank_texts[0] = f"was {rank_texts[0]}"
    if count_by_rank[None]:
        rank_texts.append(f"gave no right answer in {format_number_in_words(count_by_rank[None])}")
    return format_enumeration(rank_texts)
