"""Lists recorded draws, recomputes draws with all candidates, and selects for possible tasks.

The answer for a recomputed draw has every input of the computation, so that anybody can verify the
draw (docs/reference/scoring-rules.md#the-draw). The history is folded up to the seed block. This
takes seconds, so callers run one such request at a time.
"""

from collections.abc import Sequence
from itertools import groupby

from pydantic import Field

from oracle.dispatch.assigner import check_draw_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import BlockDrawer
from oracle.dispatch.redraw import WorkingSetView
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent, TaskCreated
from oracle.domain.ids import ZERO_HASH, Hash, TaskKey
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText, IntegerText
from oracle.queries.api.source import ApiSnapshot, ApiSource, NotFoundError, open_snapshot
from oracle.queries.selection.draw_history import (
    DrawEntry,
    DrawHistory,
    build_draw_entries,
    load_draw_history,
)
from oracle.queries.selection.network_snapshot import SnapshotQuery, load_snapshot_in_transaction
from oracle.queries.selection.node_selection import build_task, run_selection
from oracle.queries.selection.selection_models import SelectionFigures
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.assignment import AssignmentPlan, TaskDraw
from oracle.systems.registry import get_policy
from oracle.systems.weighted_draw import compute_draw_seed


class DrawPage(DrawHistory, Answer):
    """The active draws, oldest first, and the last voided draws, newest first."""


class TaskDraws(Answer):
    """Every draw of one task, oldest first."""

    draws: list[DrawEntry]


def list_draws(snapshot: ApiSnapshot, limit: int) -> DrawPage:
    """Return all active draws, and up to `limit` voided draws."""
    history = load_draw_history(snapshot.uow, limit)
    return DrawPage(as_of=snapshot.as_of, active=history.active, over=history.over)


def list_task_draws(snapshot: ApiSnapshot, task: TaskKey) -> TaskDraws:
    """Return the draws of a task; raise NotFoundError if the task has no draw."""
    stored_draws = snapshot.uow.draws.list_for_task(task)
    if not stored_draws:
        raise NotFoundError(f"no node was drawn for task {task}")
    return TaskDraws(as_of=snapshot.as_of, draws=build_draw_entries(snapshot.uow, stored_draws))


class WeightedCandidate(ApiModel):
    """A candidate of a draw and its weight; if all weights are 0, each counts as 1."""

    node: AddressText
    weight: IntegerText


class DrawnAgain(Answer):
    """The inputs and the result of the draw for a task.

    seed = sha256(seed_hash || seed_name), digest = sha256(seed || counter as 32 bytes), x = digest
    modulo the sum of the weights. The drawn node is the first candidate, in ascending order of
    addresses, at which the running sum of the weights exceeds x.
    """

    task: HashText
    seed_block: int
    seed_hash: HashText
    seed_name: HashText = Field(
        description="Key of the task; if the tasks of a group share a seed, key of the group."
    )
    counter: int = Field(
        description="Number of nodes that were drawn before this node with the same seed."
    )
    gpu: str | None = Field(
        description=(
            "GPU model that was drawn before the node, under a legacy policy; otherwise null."
        )
    )
    candidates: list[WeightedCandidate] = Field(
        description="All candidates with their weights, in ascending order of their addresses."
    )
    digest: HashText
    total: IntegerText = Field(description="Sum of the weights of the candidates.")
    x: IntegerText
    node: AddressText = Field(description="Node that this recomputation draws.")
    recorded: AddressText = Field(description="Node that the daemon drew and stored.")
    agrees: bool


def recompute_task_draw(source: ApiSource, task: TaskKey, seed_block: int | None) -> DrawnAgain:
    """Recompute a task's draw with the given seed block, or by default its newest draw.

    Raises:
        NotFoundError: the task has no such draw, or this host cannot recompute it.
    """
    dispatch_settings = source.dispatch
    if dispatch_settings is None:
        raise NotFoundError("this server draws no nodes, so it cannot recompute draws")
    with open_snapshot(source) as snapshot:
        as_of = snapshot.as_of
        stored_draw = _find_stored_draw(snapshot, dispatch_settings, task, seed_block)
        plan_before = _load_plan_before_block(snapshot, stored_draw.seed_block)
        events = _load_events(snapshot, stored_draw.seed_block)
        stored_task = snapshot.uow.tasks.get_many([task]).get(task)
    drawings = _recompute_block_draws(dispatch_settings, stored_draw, plan_before, events)
    own_drawing = next((drawing for drawing in drawings if drawing.task == task), None)
    if own_drawing is None:
        raise NotFoundError("the stored logs do not reproduce this draw")
    drawings_of_seed = [drawing for drawing in drawings if drawing.seed == own_drawing.seed]
    earlier_nodes = {
        drawing.node for drawing in drawings_of_seed[: drawings_of_seed.index(own_drawing)]
    }
    has_own_seed = compute_draw_seed(stored_draw.seed_hash, task) == own_drawing.seed
    group = None if stored_task is None else stored_task.group
    return DrawnAgain(
        as_of=as_of,
        task=task,
        seed_block=stored_draw.seed_block,
        seed_hash=stored_draw.seed_hash,
        seed_name=task if has_own_seed or group is None else group,
        counter=len(earlier_nodes),
        gpu=own_drawing.gpu,
        candidates=[
            WeightedCandidate(node=address, weight=str(weight))
            for address, weight in sorted(own_drawing.candidates)
            if address not in earlier_nodes
        ],
        digest=Hash(own_drawing.node_draw.digest),
        total=str(own_drawing.node_draw.total),
        x=str(own_drawing.node_draw.x),
        node=own_drawing.node,
        recorded=stored_draw.node,
        agrees=own_drawing.node == stored_draw.node,
    )


def _find_stored_draw(
    snapshot: ApiSnapshot, settings: DispatchSettings, task: TaskKey, seed_block: int | None
) -> StoredDraw:
    try:
        check_draw_settings(snapshot.uow, settings)
    except InputError as error:
        raise NotFoundError(
            "the draw was made with settings that differ from those of this server"
        ) from error
    matching_draws = [
        stored_draw
        for stored_draw in snapshot.uow.draws.list_for_task(task)
        if seed_block in (None, stored_draw.seed_block)
    ]
    if not matching_draws:
        raise NotFoundError(f"task {task} has no draw, or none with this seed block")
    return matching_draws[-1]


def _load_plan_before_block(snapshot: ApiSnapshot, block_number: int) -> AssignmentPlan:
    """Load the assignment plan as it was before the first draw of a block."""
    earlier_draws, block_tasks = snapshot.uow.draws.load_draws_before(block_number)
    return AssignmentPlan(
        {earlier_draw.task: earlier_draw.node for earlier_draw in earlier_draws},
        frozenset(block_tasks),
    )


def _load_events(snapshot: ApiSnapshot, last_block: int) -> list[DomainEvent]:
    identity = snapshot.uow.identity.get()
    blocks = BlockRange(0 if identity is None else identity.start_block, last_block)
    return list(iterate_stored_events(snapshot.uow, snapshot.source.archive.reader, blocks))


def _recompute_block_draws(
    settings: DispatchSettings,
    stored_draw: StoredDraw,
    plan_before: AssignmentPlan,
    events: Sequence[DomainEvent],
) -> Sequence[TaskDraw]:
    """Repeat all draws of a stored draw's seed block.

    `events` are all events before the draws.
    """
    view = WorkingSetView(settings)
    drawer = BlockDrawer(settings, explains=True)
    for block_number, block_events in groupby(events, key=lambda event: event.at.block):
        view.fold_block(block_number, list(block_events))
    drawer.plan = plan_before
    drawer.block_number = stored_draw.seed_block - 1
    block = BlockRef(
        stored_draw.seed_block, stored_draw.seed_hash, ZERO_HASH, stored_draw.seed_time
    )
    return drawer.draw_at_block(view, block).new_draws


class SelectionAnswer(SelectionFigures, Answer):
    """The candidates for a task as of the cursor, and the ineligible members; no node is drawn."""


def build_selection_answer(source: ApiSource, event: TaskCreated) -> SelectionAnswer:
    """Return which members are candidates for a hypothetical task."""
    rules = source.archive.rules
    query = SnapshotQuery(rules, group=event.group)
    with open_snapshot(source) as api_snapshot:
        as_of = api_snapshot.as_of
        snapshot = load_snapshot_in_transaction(api_snapshot.uow, source.archive, query)
    policy = get_policy(rules.name)
    selection = run_selection(
        snapshot, policy, policy.create_evaluator(), build_task(event, rules)
    )
    return SelectionAnswer(as_of=as_of, **dict(selection))
