"""Recomputes the draw of a task from the chain, and compares it with the actual start.

See docs/explanation/dispatch.md#the-draw.
"""

from dataclasses import dataclass
from enum import StrEnum

from oracle.chain.protocols import ChainReader, LogReader
from oracle.dispatch.assigner import check_draw_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.redraw import HeaderReader, Redrawer, TaskStart, is_started_at_creation
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.state import Task
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events
from oracle.store.database import Store, UnitOfWork
from oracle.systems.assignment import TaskDraw


class DrawVerdict(StrEnum):
    """The result of comparing the draw of a task with its start."""

    # The drawn node started the task.
    AGREES = "agrees"
    # Another node started the task, or no node had been drawn.
    DIFFERS = "differs"
    # The task started before `dispatch.start_block`, ended without a start, or is a system task.
    NOT_DISPATCHED = "not_dispatched"
    # The task has neither started nor ended.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class RecordedDraw:
    """A row of the daemon's table `draw`; `voided_block` is None while the draw is active."""

    seed_block: int
    seed_hash: Hash
    node: Address
    voided_block: int | None


@dataclass(frozen=True, slots=True)
class DrawCheck:
    """The recomputed draw of a task.

    `drawings`: every draw that the rules require, oldest first, each with its candidates and
    numbers; the last one counts if it was `active` just before the task started, or is active now.
    `started_by` is None if no node started the task. `recorded`: the daemon's own records. `why`
    explains the verdict in a sentence. `as_of`: the last block whose end state was used.
    """

    task: TaskKey
    verdict: DrawVerdict
    why: str
    drawings: tuple[TaskDraw, ...]
    active: bool
    started_by: Address | None
    started_block: int | None
    recorded: tuple[RecordedDraw, ...]
    as_of: BlockRef


@dataclass(frozen=True, slots=True)
class AllDraws:
    """The recomputed draws of all tasks.

    `started_count`: number of tasks that started after `start_block`. `differing`: the tasks
    among them that another node than the drawn one started, oldest first. `as_of`: the last block
    that was used.
    """

    started_count: int
    differing: tuple[TaskStart, ...]
    start_block: int
    as_of: BlockRef

    @property
    def verdict(self) -> DrawVerdict:
        """Return the verdict on all draws; NOT_DISPATCHED if no task started."""
        if self.differing:
            return DrawVerdict.DIFFERS
        return DrawVerdict.AGREES if self.started_count else DrawVerdict.NOT_DISPATCHED


def verify_draw(
    chain: ChainReader, store: Store, reader: LogReader, settings: DispatchSettings, task: TaskKey
) -> DrawCheck:
    """Recompute the draws of a task from the stored events, and compare them with its start.

    Events are folded from the start block of the index on, and draws are made from
    `settings.start_block` on. Block hashes and times are fetched from the chain in batches.

    Raises:
        InputError: nothing is indexed, the settings differ from the daemon's, or there is no such
            task.
        TransientError: the chain does not answer, or does not have the stored blocks any more.
    """
    with store.read_transaction() as uow:
        check_draw_settings(uow, settings)
        cursor, identity = uow.cursor.get(), uow.identity.get()
        stored_task = uow.tasks.get_many([task]).get(task)
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet: there is no draw to verify")
        if stored_task is None or stored_task.created_at is None:
            raise InputError(f"no task {task} was created up to block {cursor.number}")
        recorded = tuple(
            RecordedDraw(
                stored_draw.seed_block,
                stored_draw.seed_hash,
                stored_draw.node,
                stored_draw.voided_block,
            )
            for stored_draw in uow.draws.list_for_task(task)
        )
        end_position = stored_task.started_at or stored_task.ended_at
        last_block = cursor.number if end_position is None else end_position.block - 1
        events = list(
            iterate_stored_events(uow, reader, BlockRange(identity.start_block, last_block + 1))
        )
        stored_blocks = {
            block.number: block for block in _load_blocks(uow, settings.start_block, last_block)
        }
    headers = HeaderReader(chain, stored_blocks, last_block)
    redrawing = Redrawer(settings, headers)
    outcomes = redrawing.iter_draws_and_starts(last_block, events)
    drawings = tuple(
        drawing for drawing in outcomes if isinstance(drawing, TaskDraw) and drawing.task == task
    )
    drawn_node = redrawing.active_draws.get(task)
    verdict, reason = _judge_start(stored_task, drawn_node, settings.start_block)
    return DrawCheck(
        task=task,
        verdict=verdict,
        why=reason,
        drawings=drawings,
        active=drawn_node is not None,
        started_by=stored_task.node,
        started_block=None if stored_task.started_at is None else stored_task.started_at.block,
        recorded=recorded,
        as_of=headers.get_header_up_to(last_block),
    )


def verify_all_draws(
    chain: ChainReader, store: Store, reader: LogReader, settings: DispatchSettings
) -> AllDraws:
    """Verify the draw of every task that started after `settings.start_block`, in one pass.

    Raises:
        InputError: nothing is indexed, or the settings differ from the daemon's.
        TransientError: the chain does not answer, or does not have the stored blocks any more.
    """
    with store.read_transaction() as uow:
        check_draw_settings(uow, settings)
        cursor, identity = uow.cursor.get(), uow.identity.get()
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet: there is no draw to verify")
        last_block = cursor.number
        events = list(
            iterate_stored_events(uow, reader, BlockRange(identity.start_block, last_block))
        )
        stored_blocks = {
            block.number: block for block in _load_blocks(uow, settings.start_block, last_block)
        }
    headers = HeaderReader(chain, stored_blocks, last_block)
    starts = [
        start
        for start in Redrawer(settings, headers).iter_draws_and_starts(last_block, events)
        if isinstance(start, TaskStart) and start.block > settings.start_block
    ]
    differing = tuple(
        start for start in starts if start.node is None or start.node != start.drawn_node
    )
    return AllDraws(
        len(starts), differing, settings.start_block, headers.get_header_up_to(last_block)
    )


def _load_blocks(uow: UnitOfWork, first: int, last: int) -> list[BlockRef]:
    return uow.blocks.list_canonical(first, last) if first <= last else []


def _judge_start(
    task: Task, drawn_node: Address | None, start_block: int
) -> tuple[DrawVerdict, str]:
    if task.started_at is None:
        if task.ending is not None:
            reason = f"it ended ({task.ending}) without having started"
            return DrawVerdict.NOT_DISPATCHED, reason
        drawn_text = "no node is drawn yet" if drawn_node is None else f"{drawn_node} is drawn"
        return DrawVerdict.WAITING, f"it has not started; {drawn_text}"
    started_text = f"{task.node} started it in block {task.started_at.block}"
    if task.started_at.block <= start_block:
        reason = f"{started_text}, and nothing is drawn up to dispatch.start_block {start_block}"
        return DrawVerdict.NOT_DISPATCHED, reason
    if is_started_at_creation(task):
        reason = f"{started_text}, in the transaction that created it: system tasks are not drawn"
        return DrawVerdict.NOT_DISPATCHED, reason
    if drawn_node == task.node:
        return DrawVerdict.AGREES, f"{started_text}, as drawn"
    actual_text = "no draw was active" if drawn_node is None else f"{drawn_node} was drawn"
    return DrawVerdict.DIFFERS, f"{started_text}, and {actual_text}"
