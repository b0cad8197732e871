"""Draws: the recorded ones, and one recomputed from the stored logs with its candidates.

The answer about a recomputed draw has every input of its arithmetic, so that anybody can verify it
(docs/reference/scoring-rules.md#the-draw). The history is folded up to the seed block, which takes
seconds, so callers run one such request at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import Field

from oracle.dispatch.assigner import check_draw_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import BlockDrawer
from oracle.dispatch.redraw import WorkingSetView
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import ZERO_HASH, GroupKey, Hash, TaskKey
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
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.assignment import AssignmentPlan, TaskDraw
from oracle.systems.weighted_draw import compute_draw_seed


class DrawPage(DrawHistory, Answer):
    """The active draws, oldest first, and the last voided draws, newest first."""


class TaskDraws(Answer):
    """Every draw of one task, the oldest first."""

    draws: list[DrawEntry]


def list_draws(snapshot: ApiSnapshot, limit: int) -> DrawPage:
    """Return all active draws, and up to `limit` voided draws."""
    history = load_draw_history(snapshot.uow, limit)
    return DrawPage(as_of=snapshot.as_of, active=history.active, over=history.over)


def list_task_draws(snapshot: ApiSnapshot, task: TaskKey) -> TaskDraws:
    """Return the draws of a task; raise NotFoundError if no node was drawn for it."""
    stored_draws = snapshot.uow.draws.list_for_task(task)
    if not stored_draws:
        raise NotFoundError(f"no node was drawn for task {task}")
    return TaskDraws(as_of=snapshot.as_of, draws=build_draw_entries(snapshot.uow, stored_draws))


class WeightedCandidate(ApiModel):
    """A candidate of a draw and its weight; if all weights are 0, each counts as 1."""

    node: AddressText
    weight: IntegerText


class DrawnAgain(Answer):
    """The inputs of the draw of a task, and its result.

    seed = sha256(seed_hash || seed_name), digest = sha256(seed || counter as 32 bytes), x = digest
    modulo the sum of the weights. The drawn node is the first candidate, in ascending order of
    addresses, at which the running sum of the weights exceeds x.
    """

    task: HashText
    seed_block: int
    seed_hash: HashText
    seed_name: HashText = Field(
        description="Key of the task, or of its group if the tasks of the group share a seed."
    )
    counter: int = Field(description="Number of nodes drawn before it with the same seed.")
    card: str | None = Field(
        description="Card that was drawn before the node, under a legacy policy."
    )
    candidates: list[WeightedCandidate] = Field(description="Ascending by address.")
    digest: HashText
    total: IntegerText = Field(description="Sum of the weights.")
    x: IntegerText
    node: AddressText = Field(description="Node drawn by the recomputation.")
    recorded: AddressText = Field(description="Node that the daemon recorded.")
    agrees: bool


@dataclass(frozen=True, slots=True)
class _RedrawInputs:
    """A recorded draw and the inputs to recompute it; `plan_before` precedes the seed block."""

    recorded: StoredDraw
    block: BlockRef
    plan_before: AssignmentPlan
    events: Sequence[DomainEvent]
    group: GroupKey | None


def recompute_task_draw(source: ApiSource, task: TaskKey, seed_block: int | None) -> DrawnAgain:
    """Recompute a task's draw with this seed block, or its newest draw if `seed_block` is None.

    Raises:
        NotFoundError: there is no such draw, or it cannot be recomputed here.
    """
    settings = source.dispatch
    if settings is None:
        raise NotFoundError("this server draws no nodes, so it cannot recompute draws")
    with open_snapshot(source) as snapshot:
        as_of, inputs = snapshot.as_of, _load_redraw_inputs(snapshot, settings, (task, seed_block))
    drawings = _redraw_block(settings, inputs)
    own_drawing = next((drawing for drawing in drawings if drawing.task == task), None)
    if own_drawing is None:
        raise NotFoundError("the stored logs do not reproduce this draw")
    same_seed = [drawing for drawing in drawings if drawing.seed == own_drawing.seed]
    earlier_nodes = {drawing.node for drawing in same_seed[: same_seed.index(own_drawing)]}
    has_own_seed = compute_draw_seed(inputs.block.hash, task) == own_drawing.seed
    return DrawnAgain(
        as_of=as_of,
        task=task,
        seed_block=inputs.block.number,
        seed_hash=inputs.block.hash,
        seed_name=task if has_own_seed or inputs.group is None else inputs.group,
        counter=len(earlier_nodes),
        card=own_drawing.card,
        candidates=[
            WeightedCandidate(node=address, weight=str(weight))
            for address, weight in sorted(own_drawing.candidates)
            if address not in earlier_nodes
        ],
        digest=Hash(own_drawing.node_draw.digest),
        total=str(own_drawing.node_draw.total),
        x=str(own_drawing.node_draw.x),
        node=own_drawing.node,
        recorded=inputs.recorded.node,
        agrees=own_drawing.node == inputs.recorded.node,
    )


def _load_redraw_inputs(
    snapshot: ApiSnapshot, settings: DispatchSettings, draw_key: tuple[TaskKey, int | None]
) -> _RedrawInputs:
    task, seed_block = draw_key
    try:
        check_draw_settings(snapshot.uow, settings)
    except InputError as error:
        raise NotFoundError(
            "the draw was made with other settings than this server has"
        ) from error
    matching_draws = [
        stored_draw
        for stored_draw in snapshot.uow.draws.list_for_task(task)
        if seed_block in (None, stored_draw.seed_block)
    ]
    if not matching_draws:
        raise NotFoundError(f"task {task} has no draw, or none with this seed block")
    recorded = matching_draws[-1]
    block_number, identity = recorded.seed_block, snapshot.uow.identity.get()
    first = 0 if identity is None else identity.start_block
    block = BlockRef(block_number, recorded.seed_hash, ZERO_HASH, recorded.seed_time)
    earlier_draws, block_tasks = snapshot.uow.draws.load_draws_before(block_number)
    task_by_key = snapshot.uow.tasks.get_many([task])
    return _RedrawInputs(
        recorded,
        block,
        AssignmentPlan(
            {earlier_draw.task: earlier_draw.node for earlier_draw in earlier_draws},
            frozenset(block_tasks),
        ),
        list(
            iterate_stored_events(
                snapshot.uow, snapshot.source.archive.reader, BlockRange(first, block_number)
            )
        ),
        task_by_key[task].group if task in task_by_key else None,
    )


def _redraw_block(settings: DispatchSettings, inputs: _RedrawInputs) -> Sequence[TaskDraw]:
    """Return all draws with this seed block, computed from the state after the stored events."""
    view, drawer = WorkingSetView(settings), BlockDrawer(settings, explains=True)
    for block_number, block_events in groupby(inputs.events, key=lambda event: event.at.block):
        view.fold_block(block_number, list(block_events))
    drawer.plan, drawer.block_number = inputs.plan_before, inputs.block.number - 1
    return drawer.draw_block(view, inputs.block).new_draws
