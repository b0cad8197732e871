"""Recomputes a task's draw from the chain, and compares it with the task's actual start.

`select --verify --json` prints the answers.

See docs/explanation/dispatch.md#the-draw.
"""

from enum import StrEnum

from pydantic import Field

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.dispatch.assigner import check_draw_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.redraw import HeaderReader, Redrawer, TaskStart, is_started_at_creation
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Task
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events
from oracle.queries.answers import AddressText, ApiModel, HashText, Integer
from oracle.queries.selection.selection_models import DrawnNode, SnapshotTime, build_drawn_node
from oracle.store.database import Store, UnitOfWork
from oracle.systems.assignment import TaskDraw


class DrawVerdict(StrEnum):
    """The result of comparing a task's draw with its actual start."""

    # The node that was drawn has started the task.
    AGREES = "agrees"
    # A different node has started the task, or no node had been drawn.
    DIFFERS = "differs"
    # The task started before `dispatch.start_block`, ended without a start, or is a system task.
    NOT_DISPATCHED = "not_dispatched"
    # The task has neither started nor ended.
    WAITING = "waiting"


class CandidateWeight(ApiModel):
    """A candidate of a draw, with its weight."""

    node: AddressText
    weight: Integer


class DrawMadeAgain(DrawnNode):
    """A draw that was recomputed according to the rules."""

    seed_block: int
    seed_hash: HashText
    seed: HashText
    gpu: str | None
    candidates: list[CandidateWeight]


class RecordedDrawEntry(ApiModel):
    """A draw as the daemon recorded it."""

    seed_block: int
    seed_hash: HashText
    node: AddressText
    voided_block: int | None = Field(
        description="Block at the end of which the draw was voided; null if the draw is active."
    )


class DrawCheckAnswer(ApiModel):
    """The recomputed draws of a task, and its actual start.

    `active` is whether the last draw was active just before the task started, or is active now.
    """

    task: HashText
    verdict: DrawVerdict
    why: str
    as_of: SnapshotTime
    draws: list[DrawMadeAgain]
    active: bool
    started_by: AddressText | None
    started_block: int | None
    recorded: list[RecordedDrawEntry]


class DifferingStart(ApiModel):
    """A task that was started by a node other than the drawn node."""

    task: HashText
    started_by: AddressText | None
    started_block: int
    drawn: AddressText | None


class AllDrawsAnswer(ApiModel):
    """The result of comparing the draws of all tasks with their actual starts."""

    verdict: DrawVerdict
    start_block: int
    as_of: SnapshotTime
    started: int
    agree: int
    differ: list[DifferingStart]


def verify_draw(
    chain: ChainSource,
    store: Store,
    reader: EventReader,
    settings: DispatchSettings,
    task: TaskKey,
) -> DrawCheckAnswer:
    """Recompute a task's draws from stored events, and compare them with its actual start.

    Events are folded from the start block of the index on, and draws are made from
    `settings.start_block` on. Block hashes and times are fetched from the chain in batches.

    Raises:
        InputError: nothing is indexed, the settings differ from the daemon's, or there is no such
            task.
        TransientError: no endpoint responds, or the chain no longer has the stored blocks.
    """
    with store.read_transaction() as uow:
        check_draw_settings(uow, settings)
        cursor = uow.cursor.get()
        identity = uow.identity.get()
        stored_task = uow.tasks.get_many([task]).get(task)
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet; there is no draw to verify")
        if stored_task is None or stored_task.created_at is None:
            raise InputError(f"task {task} was not created up to block {cursor.number}")
        stored_draws = uow.draws.list_for_task(task)
        end_position = stored_task.started_at or stored_task.ended_at
        last_block = cursor.number if end_position is None else end_position.block - 1
        events = list(
            iterate_stored_events(uow, reader, BlockRange(identity.start_block, last_block + 1))
        )
        stored_blocks = _load_blocks(uow, settings.start_block, last_block)
    headers = HeaderReader(chain, stored_blocks, last_block)
    redrawer = Redrawer(settings, headers)
    draws_and_starts = redrawer.iter_draws_and_starts(last_block, events)
    drawings = [
        drawing
        for drawing in draws_and_starts
        if isinstance(drawing, TaskDraw) and drawing.task == task
    ]
    drawn_node = redrawer.active_draws.get(task)
    verdict, reason = _judge_task_start(stored_task, drawn_node, settings.start_block)
    return DrawCheckAnswer(
        task=task,
        verdict=verdict,
        why=reason,
        as_of=_build_snapshot_time(headers.get_header_at_or_below(last_block)),
        draws=[_build_recomputed_draw_entry(drawing) for drawing in drawings],
        active=drawn_node is not None,
        started_by=stored_task.node,
        started_block=None if stored_task.started_at is None else stored_task.started_at.block,
        recorded=[RecordedDrawEntry.model_validate(draw) for draw in stored_draws],
    )


def verify_all_draws(
    chain: ChainSource, store: Store, reader: EventReader, settings: DispatchSettings
) -> AllDrawsAnswer:
    """Verify the draws of all tasks that started after `settings.start_block`, in one pass.

    Raises:
        InputError: nothing is indexed, or the settings differ from the daemon's.
        TransientError: no endpoint responds, or the chain no longer has the stored blocks.
    """
    with store.read_transaction() as uow:
        check_draw_settings(uow, settings)
        cursor = uow.cursor.get()
        identity = uow.identity.get()
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet; there is no draw to verify")
        last_block = cursor.number
        events = list(
            iterate_stored_events(uow, reader, BlockRange(identity.start_block, last_block))
        )
        stored_blocks = _load_blocks(uow, settings.start_block, last_block)
    headers = HeaderReader(chain, stored_blocks, last_block)
    starts = [
        start
        for start in Redrawer(settings, headers).iter_draws_and_starts(last_block, events)
        if isinstance(start, TaskStart) and start.block > settings.start_block
    ]
    differing_starts = [
        DifferingStart(
            task=start.task,
            started_by=start.node,
            started_block=start.block,
            drawn=start.drawn_node,
        )
        for start in starts
        if start.node is None or start.node != start.drawn_node
    ]
    verdict = DrawVerdict.AGREES if starts else DrawVerdict.NOT_DISPATCHED
    return AllDrawsAnswer(
        verdict=DrawVerdict.DIFFERS if differing_starts else verdict,
        start_block=settings.start_block,
        as_of=_build_snapshot_time(headers.get_header_at_or_below(last_block)),
        started=len(starts),
        agree=len(starts) - len(differing_starts),
        differ=differing_starts,
    )


def _load_blocks(uow: UnitOfWork, first: int, last: int) -> dict[int, BlockRef]:
    blocks = uow.blocks.list_canonical(first, last) if first <= last else []
    return {block.number: block for block in blocks}


def _judge_task_start(
    task: Task, drawn_node: Address | None, start_block: int
) -> tuple[DrawVerdict, str]:
    if task.started_at is None:
        if task.ending is not None:
            verdict_reason = f"it ended ({task.ending}) without having started"
            return DrawVerdict.NOT_DISPATCHED, verdict_reason
        drawn_text = "no node is drawn yet" if drawn_node is None else f"{drawn_node} is drawn"
        return DrawVerdict.WAITING, f"it has not started; {drawn_text}"
    started_text = f"{task.node} started it in block {task.started_at.block}"
    if task.started_at.block <= start_block:
        verdict_reason = (
            f"{started_text}, and nothing is drawn up to dispatch.start_block {start_block}"
        )
        return DrawVerdict.NOT_DISPATCHED, verdict_reason
    if is_started_at_creation(task):
        verdict_reason = (
            f"{started_text}, in the transaction that created it: system tasks are not drawn"
        )
        return DrawVerdict.NOT_DISPATCHED, verdict_reason
    if drawn_node == task.node:
        return DrawVerdict.AGREES, f"{started_text}, as drawn"
    actual_text = "no draw was active" if drawn_node is None else f"{drawn_node} was drawn"
    return DrawVerdict.DIFFERS, f"{started_text}, and {actual_text}"


def _build_snapshot_time(block: BlockRef) -> SnapshotTime:
    return SnapshotTime(block=block.number, time=block.time)


def _build_recomputed_draw_entry(drawing: TaskDraw) -> DrawMadeAgain:
    return DrawMadeAgain(
        **build_drawn_node(drawing.node_draw).model_dump(),
        seed_block=drawing.block.number,
        seed_hash=drawing.block.hash,
        seed="0x" + drawing.seed.hex(),
        gpu=drawing.gpu,
        candidates=[
            CandidateWeight(node=node, weight=weight) for node, weight in drawing.candidates
        ],
    )
