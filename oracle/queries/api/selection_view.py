"""The read API's form of `select`: a task's candidates with their weights and chances."""

from oracle.domain.events.network_events import TaskCreated
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSource, open_snapshot
from oracle.queries.selection.network_snapshot import SnapshotQuery, load_snapshot_in_transaction
from oracle.queries.selection.node_selection import build_task, run_selection
from oracle.queries.selection.selection_models import SelectionFigures, build_selection_summary
from oracle.systems.registry import get_policy


class SelectionAnswer(SelectionFigures, Answer):
    """Whether each member is a candidate for a task, as of the cursor; no node is drawn."""


def build_selection_answer(source: ApiSource, event: TaskCreated) -> SelectionAnswer:
    """Return whether each member is a candidate for the hypothetical task of a creation event."""
    rules = source.archive.rules
    query = SnapshotQuery(rules, group=event.group)
    with open_snapshot(source) as api_snapshot:
        as_of = api_snapshot.as_of
        snapshot = load_snapshot_in_transaction(api_snapshot.uow, source.archive, query)
    policy = get_policy(rules.name)
    member_selection = run_selection(
        snapshot, policy, policy.create_follower(), build_task(event, rules)
    )
    figures = build_selection_summary(member_selection, rules.name, {})
    return SelectionAnswer(as_of=as_of, **figures.model_dump())
