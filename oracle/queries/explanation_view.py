"""Builds an explanation's answer for `explain --json` and the read API."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from oracle.domain.feed_rows import is_feed_position
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.queries.answers import BlockView, RuleSetView
from oracle.queries.explain import Explanation
from oracle.queries.explanation_models import (
    DownloadView,
    GroupFellow,
    KickoutInterval,
    NodeExplanation,
    ReliabilityChangeView,
    ReliabilityView,
    ScorePoolView,
    ScoreView,
    build_event_origin,
)
from oracle.queries.incident_models import build_incident_view
from oracle.queries.legacy_models import LegacyRounds, build_legacy_rounds
from oracle.queries.node_models import build_qos_interval
from oracle.queries.population import build_node_entry
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.predownload import list_download_requests


def build_explanation_view(
    explanation: Explanation, labels: Mapping[Address, str]
) -> NodeExplanation:
    """Build the answer of an explanation, including the operator's labels for addresses."""
    node, rules, node_scores = explanation.node, explanation.rules, explanation.node_scores
    population = replace(explanation.population, labels=labels)
    return NodeExplanation(
        row=build_node_entry(node, node_scores, population, explanation.place),
        interval=build_qos_interval(node, explanation.as_of.time, rules),
        as_of=BlockView(**explanation.as_of._asdict()),
        rules=rules.name,
        rules_version=rules.version,
        rules_sha256=identify_rules(rules).sha256,
        pool=_build_pool_view(explanation),
        lowest_long_term=explanation.min_long_term_score,
        possible_zeros=[build_event_origin(position) for position in explanation.possible_zeros],
        reliability=ReliabilityView(
            base=node.base,
            since=node.since,
            changes=[
                _build_reliability_change_view(explanation, change)
                for change in explanation.changes
            ],
        ),
        incidents=list(map(build_incident_view, explanation.timeout_marks.incidents)),
        kickouts=[_build_kickout_interval(interval) for interval in explanation.kickouts],
        held=explanation.hold_reason if node_scores.is_kickout_due else None,
        objections=explanation.objections,
        objection_delay=explanation.objection_delay,
        downloads=[
            DownloadView(**request._asdict(), state=state)
            for request, state in list_download_requests(node, explanation.as_of.time)
        ],
        on_chain=explanation.on_chain_lane,
        sent=explanation.reported_lane,
        legacy_rounds=None if rules.legacy is None else list(_build_legacy_rounds(explanation)),
    )


def _build_pool_view(explanation: Explanation) -> ScorePoolView:
    creator_spread = explanation.creator_spread
    return ScorePoolView(
        scores=list(explanation.pool),
        sum=sum(explanation.pool),
        size=explanation.rules.pool_size,
        creators=creator_spread.creators,
        most_of_one_creator=creator_spread.max_per_creator,
        decisive_of_one_creator=creator_spread.decisive_scores,
        entries=[_build_score_view(explanation, entry) for entry in explanation.scores],
    )


def _build_legacy_rounds(explanation: Explanation) -> Iterator[LegacyRounds]:
    """Yield the two rounds of each legacy task in the window."""
    for entry in explanation.scores:
        if entry.task in explanation.task_by_key:
            runs = explanation.get_task_runs(entry)
            yield build_legacy_rounds(entry.task, runs, explanation.rules)


def _build_score_view(explanation: Explanation, entry: ScoreEntry) -> ScoreView:
    rule_set = explanation.rule_set_by_score.get(entry.seq)
    return ScoreView(
        **build_event_origin(entry.at).model_dump(),
        transaction=explanation.transaction_by_position.get(entry.at),
        seq=entry.seq,
        task=entry.task,
        group=entry.group,
        creator=explanation.find_creator(entry.task),
        rank=entry.rank,
        elapsed=entry.elapsed,
        error_reported=_is_error_reported(explanation, entry.task),
        score=entry.score,
        derived=entry.is_derived,
        rules=None if rule_set is None else RuleSetView.model_validate(rule_set),
        time=entry.time,
        earned=explanation.compute_earning(entry),
        others=[
            GroupFellow(
                task=member.task,
                node=member.node,
                rank=member.rank,
                elapsed=member.elapsed,
                error_reported=_is_error_reported(explanation, member.task),
                # Only the closing event of a feed may list tasks that are not members of the
                # group.
                possible=member.is_possible_member and is_feed_position(entry.at),
            )
            for member in explanation.members_by_position.get(entry.at, ())
            if member.task != entry.task
        ],
    )


def _is_error_reported(explanation: Explanation, task_key: TaskKey) -> bool:
    task = explanation.task_by_key.get(task_key)
    return task is not None and task.error_reported


def _build_reliability_change_view(
    explanation: Explanation, change: ReliabilityChange
) -> ReliabilityChangeView:
    return ReliabilityChangeView(
        **build_event_origin(change.at).model_dump(),
        transaction=explanation.transaction_by_position.get(change.at),
        cause=change.cause.value,
        task=change.task,
        before=change.before,
        after=change.after,
        time=change.time,
        incident=explanation.timeout_marks.find_incident_number(change.at),
    )


def _build_kickout_interval(interval: KickoutDue) -> KickoutInterval:
    return KickoutInterval(
        opened_at=build_event_origin(interval.opened_at),
        closed_at=None if interval.closed_at is None else build_event_origin(interval.closed_at),
    )
