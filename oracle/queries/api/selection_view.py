"""The candidates of a task with their weights and chances: `select` over HTTP."""

from oracle.domain.events.network_events import TaskCreated
from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSource, looking
from oracle.queries.selection.network_snapshot import SnapshotQuery, snapshot_of_store
from oracle.queries.selection.node_selection import select, wanted_task
from oracle.queries.selection.selection_models import SelectionFigures, node_selection
from oracle.systems.registry import policy_named


class SelectionAnswer(SelectionFigures, Answer):
    """The verdict on every member for a task, as of the cursor; no node is drawn."""


def selection_view(source: ApiSource, said: TaskCreated) -> SelectionAnswer:
    """Judge every member for a task that does not exist yet."""
    rules = source.archive.rules
    with looking(source) as look:
        as_of = look.as_of
    policy = policy_named(rules.name)
    snapshot = snapshot_of_store(source.archive, SnapshotQuery(rules, group=said.group))
    found = select(snapshot, policy, policy.follow(), wanted_task(said, rules))
    selection = node_selection(found, rules.name, {})
    return SelectionAnswer(as_of=as_of, **selection.model_dump())
