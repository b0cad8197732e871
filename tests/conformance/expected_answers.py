"""The expected result of a case of `random_cases`, by this project's own fold."""

import json
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.jsonl import parse_events
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import (
    KickoutReview,
    ScoreHistory,
    collect_task_creators,
    count_incident_scores,
    find_unanswered_scores,
    review_kickout,
)
from oracle.domain.roots.node_leaves import build_scoring_context, iter_linked_leaves
from oracle.domain.roots.round_tree import ProvableRound
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.replay import replay_events
from tests.conformance.random_cases import Case

Answer = dict[str, Any]


def compute_answer(case: Case) -> Answer:
    """Return the output of `replay` without its header, and the root of the case's round."""
    rules = Rules.from_json(json.dumps(case["rules"]))
    lines = [json.dumps(event) for event in case["events"]]
    answer: Answer = json.loads(replay_events(lines, rules, None, case["time"]))
    parts = {name: answer[name] for name in ("nodes", "groups", "anomalies")}
    return {**parts, "root": _compute_root(case, lines, rules)}


def _compute_root(case: Case, lines: list[str], rules: Rules) -> str:
    fold = Fold(rules)
    fold.fold_events(parse_events(lines))
    history = ScoreHistory(rules)
    tasks, nodes = fold.ledger.tasks, fold.ledger.nodes
    changes = fold.drain_changes()
    history.record_changes(changes, tasks)
    incidents = list(changes.incidents.list_incidents().values())
    policy = KickoutPolicy(rules, case["holds_kickouts"])

    def review(node: Node) -> KickoutReview:
        entries = [score.entry for score in history.get_scores_behind_kickout(node)]
        opened_at = node.kickout_due_since
        assert opened_at is not None
        creators = collect_task_creators((tasks[entry.task] for entry in entries), opened_at)
        unanswered = find_unanswered_scores(entries, tasks, opened_at)
        return review_kickout(
            entries,
            creators,
            policy,
            has_dead_letter=False,
            incident_score_count=count_incident_scores(unanswered, incidents, opened_at),
        )

    context = build_scoring_context(nodes, case["time"], rules, review)
    by_address = [nodes[address] for address in sorted(nodes)]
    values = case["round"]
    return (
        "0x"
        + ProvableRound(
            iter_linked_leaves(by_address, context, keccak),
            values["chain_id"],
            Address(values["oracle"]),
            values["round"],
            values["as_of"],
            keccak,
        ).root.hex()
    )
