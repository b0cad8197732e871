"""Groups of three nodes that compete, and the record of a node."""

from collections.abc import Mapping

from oracle.domain.scoring.rules import Rules
from oracle.queries.advice.advice_record import AdviceRecord, match_scored_tasks
from oracle.queries.api.history_points import NodeRecord
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_history, make_node_address

FEE = 340


def race(history: History, name: str, elapsed: Mapping[str, int | None]) -> History:
    """Run a group of nodes; a node with the time None times out."""
    tasks = {runner: f"{name}/{runner}" for runner in elapsed}
    for runner, key in tasks.items():
        history.creates(key, fee=FEE).starts(key, runner)
    start = history.time
    answered = sorted((seconds, runner) for runner, seconds in elapsed.items() if seconds)
    for seconds, runner in answered:
        history.after(start + seconds - history.time)
        history.submits(tasks[runner])
    for runner in elapsed:
        if not elapsed[runner]:
            history.times_out(tasks[runner])
    history.closes(name, *tasks.values())
    for _, runner in answered:
        history.succeeds(tasks[runner])
    return history.after(1)


def record_of(history: History, name: str = "A", rules: Rules = CRYNUX) -> AdviceRecord:
    """Return the record of a node at the end of a history, as if read from the database."""
    fold, changes = fold_history(history, rules)
    entries = [entry for entry in changes.scores if entry.node == make_node_address(name)]
    return AdviceRecord(
        node=fold.ledger.nodes[make_node_address(name)],
        time=history.time,
        known_since=min((event.time for event in history.events), default=0),
        rules=rules,
        entries=entries[-rules.pool_size :],
        scored_tasks=match_scored_tasks(entries, changes.results, fold.ledger.tasks),
        task_by_key=fold.ledger.tasks,
        history=NodeRecord(
            earlier_scores=[],
            scores=entries,
            changes=[
                change for change in changes.reliability if change.node == make_node_address(name)
            ],
            kickout_intervals=[],
            membership_changes=[],
        ),
    )
