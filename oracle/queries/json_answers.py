"""What we answer to programs: JSON of `status` and its kin, the same by command and by HTTP."""

from typing import Any

from oracle import __version__
from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import TaskKey
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.domain.reports.round_data import RECORD_BYTES
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
from oracle.queries.contract_view import AccountBalance, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.explain import Explanation, OnChain, ReportedLane
from oracle.queries.feed_view import origin_of
from oracle.queries.halt_view import halt_view
from oracle.queries.legacy_answers import (
    factors_answer,
    rounds_answer,
    share_answer,
    tally_answer,
)
from oracle.queries.node_rows import rule_set_answer
from oracle.queries.status import StatusReport
from oracle.store.raw.reorg_repository import Reorg
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.crynux.predownload import requests_of


def status_answer(
    seen: StatusReport,
    dispatcher: AccountBalance | None,
    endpoints: list[EndpointView],
    chain: ChainView,
) -> dict[str, Any]:
    """Return what `/v1/status` and `status --json` say; `dispatcher` None: nothing is started."""
    head = None if chain.head is None else chain.head.number
    return {
        "version": __version__,
        "halts": [halt_view(halt).model_dump(mode="json") for halt in seen.halts],
        "chain_id": seen.chain_id,
        "start_block": seen.start_block,
        "rules": None if seen.rules is None else rule_set_answer(seen.rules),
        "folded": None if seen.folded is None else seen.folded._asdict(),
        "final": seen.final,
        "head": head,
        "lag_blocks": seen.lag_to(chain.head),
        "contract": chain.contract_view().model_dump(mode="json"),
        "senders": [
            {
                "address": account.address,
                "paused": None if pause is None else pause.kind.value,
                "reason": None if pause is None else pause.reason,
            }
            for account, pause in seen.accounts.items()
        ],
        "held": [{"period": hold.period, "reason": hold.reason} for hold in seen.held],
        "unproven": list(seen.unproven),
        "state_mismatch": seen.mismatch,
        "push_waits": None if seen.push is None else seen.push.error_text,
        "kickouts_proposed": [
            {"node": kick.node, "round": kick.round, "ready_at": kick.ready_at}
            for kick in seen.kicks
        ],
        "kickouts_refused": seen.kicks_refused,
        "nodes_without_index": seen.unregistered,
        "registration_gas": seen.unregistered * REGISTRATION_GAS,
        "endpoints": [view.model_dump(mode="json") for view in endpoints],
        "endpoints_proven_wrong": dict(seen.wrong),
        "suspect_blocks": seen.suspect,
        "levels": dict(seen.levels),
        "refused": None if seen.refusal is None else seen.refusal.words,
        "last_reorg": None if seen.reorg is None else _reorg(seen.reorg),
        "dead_letters": seen.dead_letters,
        "feed": None if seen.feed is None else seen.feed.model_dump(mode="json"),
        "anomalies": seen.anomalies,
        "nodes": dict(sorted(seen.nodes.items())),
        "kickouts_due": seen.kickouts_due,
        "round": seen.round,
        "round_age_seconds": seen.round_age,
        "reports": [
            {
                "period": kept.report.period,
                "as_of": kept.report.as_of.number,
                "words": len(kept.report.records) // RECORD_BYTES,
                "state": kept.outcome,
                "reason": kept.reason,
                "round": kept.round,
            }
            for kept in seen.reports
        ],
        "outbox": [
            {"kind": kind, "state": state, "count": count}
            for (kind, state), count in sorted(seen.outbox.items())
        ],
        "tasks_waiting": seen.tasks_waiting,
        "draws_standing": seen.draws_active,
        "oldest_draw_block": seen.oldest_draw,
        "dispatcher": None if dispatcher is None else dispatcher.model_dump(mode="json"),
        "lease": seen.lease,
    }


def _reorg(one: Reorg) -> dict[str, Any]:
    return {
        "time": one.time,
        "depth": one.depth,
        "ancestor": one.ancestor,
        "old_tip": one.old_tip,
        "old_hash": one.old_hash,
        "new_tip": one.new_tip,
        "new_hash": one.new_hash,
        "endpoints": list(one.endpoints),
        "logs_orphaned": one.logs_orphaned,
    }


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
        "rules": rule_set_answer(told.scored_by[entry.seq])
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
