"""Builds the answer of an explanation, which `explain --json` and the read API print."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import is_of_feed, row_of
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.queries.answers import BlockView
from oracle.queries.earnings import Earning
from oracle.queries.explain import Explanation, OnChain, ReportedLane
from oracle.queries.explanation_models import (
    DownloadView,
    EarningView,
    GroupFellow,
    KickoutInterval,
    LaneOnChain,
    NodeExplanation,
    Origin,
    ReliabilityChangeView,
    ReliabilityView,
    ScorePoolView,
    ScoreView,
    SentLane,
)
from oracle.queries.legacy_models import LegacyRounds, legacy_rounds
from oracle.queries.population import node_entry
from oracle.queries.rule_set_view import rule_set_view
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.crynux.predownload import requests_of


def explanation_view(explanation: Explanation, labels: Mapping[Address, str]) -> NodeExplanation:
    """Return the answer of an explanation: its entries, changes and computed figures."""
    node, rules, figures = explanation.node, explanation.rules, explanation.figures
    population = replace(explanation.population, labels=labels)
    return NodeExplanation(
        row=node_entry(node, figures, population, explanation.place),
        as_of=BlockView(**explanation.as_of._asdict()),
        rules=rules.name,
        rules_version=rules.version,
        rules_sha256=named_by(rules).sha256,
        pool=_pool_view(explanation),
        lowest_long_term=explanation.lowest_long_term,
        possible_zeros=[origin_of(at) for at in explanation.possible_zeros],
        reliability=ReliabilityView(
            base=node.base,
            since=node.since,
            changes=[_change_view(explanation, change) for change in explanation.changes],
        ),
        kickouts=[_kickout_interval(due) for due in explanation.kickouts],
        held=explanation.held_reason if figures.is_kickout_due else None,
        downloads=[
            DownloadView(**request.request._asdict(), state=request.state)
            for request in requests_of(node, population.time)
        ],
        on_chain=None if explanation.on_chain is None else _lane_on_chain(explanation.on_chain),
        sent=None if explanation.sent is None else _sent_lane(explanation.sent),
        legacy_rounds=None if rules.legacy is None else list(_legacy_rounds(explanation)),
    )


def origin_of(at: Position) -> Origin:
    """Return the source of an event; a feed's row is no log, and has no proof."""
    if not is_of_feed(at):
        return Origin(block=at.block, log=at.log, feed=None, proof="chain")
    return Origin(block=at.block, log=None, feed=row_of(at), proof="none")


def _pool_view(explanation: Explanation) -> ScorePoolView:
    spread = explanation.spread
    return ScorePoolView(
        scores=list(explanation.pool),
        sum=sum(explanation.pool),
        size=explanation.rules.pool_size,
        creators=spread.creators,
        most_of_one_creator=spread.most,
        decisive_of_one_creator=spread.decisive,
        entries=[_score_view(explanation, entry) for entry in explanation.scores],
    )


def _legacy_rounds(explanation: Explanation) -> Iterator[LegacyRounds]:
    """Yield both rounds of every task in the window."""
    for entry in explanation.scores:
        if entry.task in explanation.tasks:
            runs = explanation.rounds_of(entry)
            yield legacy_rounds(entry.task, runs, explanation.rules)


def _score_view(explanation: Explanation, entry: ScoreEntry) -> ScoreView:
    scored_by, earning = explanation.scored_by.get(entry.seq), explanation.earning(entry)
    return ScoreView(
        **origin_of(entry.at).model_dump(),
        transaction=explanation.transactions.get(entry.at),
        seq=entry.seq,
        task=entry.task,
        group=entry.group,
        creator=explanation.creator_of(entry.task),
        rank=entry.rank,
        elapsed=entry.elapsed,
        error_reported=_is_error(explanation, entry.task),
        score=entry.score,
        derived=entry.is_derived,
        rules=None if scored_by is None else rule_set_view(scored_by),
        time=entry.time,
        earned=None if earning is None else _earning_view(earning),
        others=[
            GroupFellow(
                task=member.task,
                node=member.node,
                rank=member.rank,
                elapsed=member.elapsed,
                error_reported=_is_error(explanation, member.task),
                possible=member.is_possible,
            )
            for member in explanation.groups.get(entry.at, ())
            if member.task != entry.task
        ],
    )


def _earning_view(earning: Earning) -> EarningView:
    return EarningView(
        paid=earning.paid,
        fee=earning.fee,
        points=earning.points,
        of_points=earning.all_points,
        by_points=earning.by_points,
    )


def _is_error(explanation: Explanation, key: TaskKey) -> bool:
    task = explanation.tasks.get(key)
    return task is not None and task.error_reported


def _change_view(explanation: Explanation, change: ReliabilityChange) -> ReliabilityChangeView:
    return ReliabilityChangeView(
        **origin_of(change.at).model_dump(),
        transaction=explanation.transactions.get(change.at),
        cause=change.cause.value,
        task=change.task,
        before=change.before,
        after=change.after,
        time=change.time,
    )


def _kickout_interval(due: KickoutDue) -> KickoutInterval:
    return KickoutInterval(
        opened_at=origin_of(due.opened_at),
        closed_at=None if due.closed_at is None else origin_of(due.closed_at),
    )


def _lane_on_chain(on_chain: OnChain) -> LaneOnChain:
    return LaneOnChain(
        index=on_chain.index,
        lane=on_chain.lane,
        qos=max(0, on_chain.lane - LOWEST_SCORE),
        round=None if on_chain.word is None else on_chain.word.round,
        time=None if on_chain.word is None else on_chain.word.time,
        as_of=on_chain.as_of,
    )


def _sent_lane(sent: ReportedLane) -> SentLane:
    return SentLane(
        **origin_of(sent.at).model_dump(),
        transaction=sent.transaction,
        round=sent.round,
        lane=sent.lane,
    )
