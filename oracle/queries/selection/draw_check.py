"""Recomputes the draw of a task from the chain, and compares it with the actual start.

See docs/explanation/dispatch.md#the-draw.
"""

from dataclasses import dataclass
from enum import StrEnum

from oracle.chain.protocols import ChainReader, LogReader
from oracle.dispatch.assigner import refuse_other_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.redraw import Headers, Redrawing, Start, is_given_at_creation
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.state.task import Task
from oracle.errors import InputError
from oracle.indexer.stored_events import stored_events
from oracle.store.database import Store, UnitOfWork
from oracle.systems.assignment import Drawing


class DrawVerdict(StrEnum):
    """The result of the comparison."""

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
    over_block: int | None


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
    drawings: tuple[Drawing, ...]
    active: bool
    started_by: Address | None
    started_block: int | None
    recorded: tuple[RecordedDraw, ...]
    as_of: BlockRef


@dataclass(frozen=True, slots=True)
class AllDraws:
    """The recomputed draws of all tasks.

    `started_count`: tasks that started after `start_block`. `differing`: those of them that
    another node started, or that had no active draw, oldest first. `as_of`: the last block that
    was used.
    """

    started: int
    differing: tuple[Start, ...]
    start_block: int
    as_of: BlockRef

    @property
    def verdict(self) -> DrawVerdict:
        """Return the verdict on all draws; NOT_DISPATCHED if no task started."""
        if self.differing:
            return DrawVerdict.DIFFERS
        return DrawVerdict.AGREES if self.started else DrawVerdict.NOT_DISPATCHED


def verify_draw(
    chain: ChainReader, store: Store, reader: LogReader, settings: DispatchSettings, task: TaskKey
) -> DrawCheck:
    """Fold the stored events from the start, draw from `settings.start_block` on, and compare.

    Block hashes and times are fetched from the chain in batches.

    Raises:
        InputError: nothing is indexed, the settings differ from the daemon's, or there is no such
            task.
        TransientError: the chain does not answer, or does not have the stored blocks any more.
    """
    with store.reading() as uow:
        refuse_other_settings(uow, settings)
        cursor, identity = uow.cursor.get(), uow.identity.get()
        found = uow.tasks.named([task]).get(task)
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet: there is no draw to verify")
        if found is None or found.created_at is None:
            raise InputError(f"no task {task} was created up to block {cursor.number}")
        recorded = tuple(
            RecordedDraw(one.seed_block, one.seed_hash, one.node, one.voided_block)
            for one in uow.draws.of_task(task)
        )
        over = found.started_at or found.ended_at
        last = cursor.number if over is None else over.block - 1
        events = list(stored_events(uow, reader, BlockRange(identity.start_block, last + 1)))
        ours = {block.number: block for block in _stored(uow, settings.start_block, last)}
    headers = Headers(chain, ours, last)
    redrawing = Redrawing(settings, headers)
    told = redrawing.up_to(last, events)
    drawings = tuple(one for one in told if isinstance(one, Drawing) and one.task == task)
    active = redrawing.active.get(task)
    verdict, why = _judged(found, active, settings.start_block)
    return DrawCheck(
        task=task,
        verdict=verdict,
        why=why,
        drawings=drawings,
        active=active is not None,
        started_by=found.node,
        started_block=None if found.started_at is None else found.started_at.block,
        recorded=recorded,
        as_of=headers.up_to(last),
    )


def verify_all(
    chain: ChainReader, store: Store, reader: LogReader, settings: DispatchSettings
) -> AllDraws:
    """Verify the draw of every task that started after `settings.start_block`, in one pass.

    Raises:
        InputError: nothing is indexed, or the settings differ from the daemon's.
        TransientError: the chain does not answer, or does not have the stored blocks any more.
    """
    with store.reading() as uow:
        refuse_other_settings(uow, settings)
        cursor, identity = uow.cursor.get(), uow.identity.get()
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet: there is no draw to verify")
        last = cursor.number
        events = list(stored_events(uow, reader, BlockRange(identity.start_block, last)))
        ours = {block.number: block for block in _stored(uow, settings.start_block, last)}
    headers = Headers(chain, ours, last)
    starts = [
        one
        for one in Redrawing(settings, headers).up_to(last, events)
        if isinstance(one, Start) and one.block > settings.start_block
    ]
    differing = tuple(one for one in starts if one.node is None or one.node != one.drawn)
    return AllDraws(len(starts), differing, settings.start_block, headers.up_to(last))


def _stored(uow: UnitOfWork, first: int, last: int) -> list[BlockRef]:
    return uow.blocks.between(first, last) if first <= last else []


def _judged(task: Task, active: Address | None, start: int) -> tuple[DrawVerdict, str]:
    if task.started_at is None:
        if task.ending is not None:
            why = f"it ended ({task.ending}) without having started"
            return DrawVerdict.NOT_DISPATCHED, why
        who = "nobody is drawn yet" if active is None else f"{active} is drawn"
        return DrawVerdict.WAITING, f"it has not started; {who}"
    started = f"{task.node} started it in block {task.started_at.block}"
    if task.started_at.block <= start:
        why = f"{started}, and nothing is drawn up to dispatch.start_block {start}"
        return DrawVerdict.NOT_DISPATCHED, why
    if is_given_at_creation(task):
        why = f"{started}, in the transaction that created it: system tasks are not drawn"
        return DrawVerdict.NOT_DISPATCHED, why
    if active == task.node:
        return DrawVerdict.AGREES, f"{started}, as drawn"
    instead = "no draw stood then" if active is None else f"{active} was drawn"
    return DrawVerdict.DIFFERS, f"{started}, and {instead}"
