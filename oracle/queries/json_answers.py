"""What `explain` answers to programs."""

from typing import Any

from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import TaskKey
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.node_scores import (
    factors_of,
    is_excluded,
    is_kickout_due,
    long_term,
    qos_at,
    reliability_at,
    status_of,
)
from oracle.domain.state.node import Membership
from oracle.queries.explain import Explanation, OnChain, ReportedLane
from oracle.queries.feed_view import origin_of
from oracle.queries.legacy_answers import (
    factors_answer,
    rounds_answer,
    share_answer,
    tally_answer,
)
from oracle.queries.rule_set_view import rule_set_view
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.crynux.predownload import requests_of


def explain_answer(told: Explanation) -> dict[str, Any]:
    """Return what `explain --json` says: entries, changes, and the numbers made of them.

    `legacy` is there under legacy rules alone: the window's rounds, and R, P, B, Q.
    """
    node, rules, time = told.node, told.rules, told.as_of.time
    qos = qos_at(node, time, rules, told.peers)
    found = factors_of(node, time, rules, told.peers)
    return {
        "node": node.address,
        "as_of": told.as_of._asdict(),
        "rules": rules.name,
        "rules_version": rules.version,
        "rules_sha256": named_by(rules).sha256,
        "status": status_of(node),
        "pool": {
            "scores": list(told.pool),
            "sum": sum(told.pool),
            "size": rules.pool_size,
            "creators": told.spread.creators,
            "most_of_one_creator": told.spread.most,
            "decisive_of_one_creator": told.spread.decisive,
            "entries": [_score(told, entry) for entry in told.scores],
        },
        "long_term": decimal_text(long_term(node, rules, time)),
        "lowest_long_term": decimal_text(told.lowest_long_term),
        "possible_zeros": [origin_of(at) for at in told.possible_zeros],
        "reliability": {
            "base": decimal_text(node.base),
            "since": node.since,
            "at": decimal_text(reliability_at(node, time, rules)),
            "changes": [_change(told, change) for change in told.changes],
        },
        "qos": None if qos is None else decimal_text(qos),
        "excluded": is_excluded(node, time, rules),
        "kickout_due": is_kickout_due(node, rules, time),
        "kickouts": [_interval(interval) for interval in told.kickouts],
        "held": told.held_reason if is_kickout_due(node, rules, time) else None,
        "downloads": [
            {**each.request._asdict(), "state": each.state} for each in requests_of(node, time)
        ],
        "lane": told.lane,
        "on_chain": None if told.on_chain is None else _on_chain(told.on_chain),
        "sent": None if told.sent is None else _sent(told.sent),
        **({} if found is None else {"legacy": _legacy_window(told, found)}),
    }


def _legacy_window(told: Explanation, found: Factors) -> dict[str, Any]:
    """Return a node's window, what it makes among its peers, and every task in it."""
    return {
        **tally_answer(found.tally),
        # No member has no share in anything.
        **factors_answer(found if told.node.membership is Membership.MEMBER else None),
        "incentive_share": share_answer(told.incentive_share),
        "rounds": [
            rounds_answer(entry.task, told.rounds_of(entry), told.rules)
            for entry in told.scores
            if entry.task in told.tasks
        ],
    }


def _score(told: Explanation, entry: ScoreEntry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "task": entry.task,
        "group": entry.group,
        "creator": told.creator_of(entry.task),
        "rank": entry.rank,
        "elapsed": entry.elapsed,
        "error_reported": _is_error(told, entry.task),
        "score": entry.score,
        "derived": entry.is_derived,
        "rules": rule_set_view(told.scored_by[entry.seq]).model_dump()
        if entry.seq in told.scored_by
        else None,
        "time": entry.time,
        **origin_of(entry.at),
        "transaction": told.transactions.get(entry.at),
        "earned": None if (earning := told.earning(entry)) is None else earning.answer(),
        "others": [
            {
                "task": member.task,
                "node": member.node,
                "rank": member.rank,
                "elapsed": member.elapsed,
                "error_reported": _is_error(told, member.task),
                "possible": member.is_possible,
            }
            for member in told.groups.get(entry.at, ())
            if member.task != entry.task
        ],
    }


def _is_error(told: Explanation, key: TaskKey) -> bool:
    task = told.tasks.get(key)
    return task is not None and task.error_reported


def _change(told: Explanation, change: ReliabilityChange) -> dict[str, Any]:
    return {
        "cause": change.cause.value,
        "task": change.task,
        "before": decimal_text(change.before),
        "after": decimal_text(change.after),
        "time": change.time,
        **origin_of(change.at),
        "transaction": told.transactions.get(change.at),
    }


def _interval(interval: KickoutDue) -> dict[str, Any]:
    return {
        "opened_at": origin_of(interval.opened_at),
        "closed_at": None if interval.closed_at is None else origin_of(interval.closed_at),
    }


def _on_chain(found: OnChain) -> dict[str, Any]:
    return {
        "index": found.index,
        "lane": found.lane,
        "qos": max(0, found.lane - LOWEST_SCORE),
        "round": None if found.word is None else found.word.round,
        "time": None if found.word is None else found.word.time,
        "as_of": found.as_of,
    }


def _sent(sent: ReportedLane) -> dict[str, Any]:
    return {
        "round": sent.round,
        "lane": sent.lane,
        **origin_of(sent.at),
        "transaction": sent.transaction,
    }
