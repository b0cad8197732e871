"""Draws a task's node again from the chain, and compares with what happened (scoring.md 7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from oracle.domain.block import BlockRange, BlockRef
from oracle.domain.events import DomainEvent
from oracle.domain.fold import Fold
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.nodes import Node
from oracle.domain.rules import Rules
from oracle.domain.tasks import Task
from oracle.errors import InputError, TransientError
from oracle.services.dispatch_settings import DispatchSettings
from oracle.services.drawing import Drawer
from oracle.services.exporting import stored_events
from oracle.services.ports import Chain, Reader
from oracle.store.store import Store, Unit
from oracle.systems.crynux.task_queue import is_waiting
from oracle.systems.dispatching import Drawing

# Headers asked for at once.
_AT_ONCE = 128


class DrawVerdict(StrEnum):
    """What came of the comparison."""

    # The node that started the task is the one that was drawn for it.
    AGREES = "agrees"
    # Another node started it, or none had been drawn.
    DIFFERS = "differs"
    # It started before `dispatch.start_block`, or ended without having started.
    NOT_DISPATCHED = "not_dispatched"
    # It has neither started nor ended.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the daemon wrote down in `draw`; `over_block` None: the draw stands."""

    seed_block: int
    seed_hash: Hash
    node: Address
    over_block: int | None


@dataclass(frozen=True, slots=True)
class DrawCheck:
    """A task's draw, made again.

    `drawings`: every draw that the chain asks for, oldest first, each with its candidates and
    numbers; the last one counts, if it is `standing`: just before the task started, or now.
    `started_by` None: nobody. `recorded`: what the daemon wrote down. `why` says the verdict in a
    sentence. `as_of`: the last block at whose end was looked.
    """

    task: TaskKey
    verdict: DrawVerdict
    why: str
    drawings: tuple[Drawing, ...]
    standing: bool
    started_by: Address | None
    started_block: int | None
    recorded: tuple[Recorded, ...]
    as_of: BlockRef


def verify_draw(
    chain: Chain, store: Store, reader: Reader, settings: DispatchSettings, task: TaskKey
) -> DrawCheck:
    """Fold the stored events from the start, draw from `settings.start_block` on, and compare.

    Block hashes and times are asked of the chain, in batches. `app.chain`, `app.store`,
    `app.reader` and `app.dispatch_settings` are what it wants.

    Raises:
        InputError: nothing is indexed, or there is no such task.
        TransientError: the chain does not answer, or does not have the stored blocks any more.
    """
    with store.reading() as unit:
        cursor, identity = unit.cursor.get(), unit.identity.get()
        found = unit.tasks.named([task]).get(task)
        if cursor is None or identity is None:
            raise InputError("nothing is indexed yet: there is no draw to verify")
        if found is None or found.created_at is None:
            raise InputError(f"no task {task} was created up to block {cursor.number}")
        recorded = tuple(
            Recorded(one.seed_block, one.seed_hash, one.node, one.void_block)
            for one in unit.draws.of_task(task)
        )
        over = found.started_at or found.ended_at
        last = cursor.number if over is None else over.block - 1
        events = list(stored_events(unit, reader, BlockRange(identity.start_block, last + 1)))
        ours = {block.number: block for block in _stored(unit, settings.start_block, last)}
    headers = _Headers(chain, ours, last)
    replay = _Replay(settings, headers)
    drawings = tuple(one for one in replay.up_to(last, events) if one.task == task)
    standing = replay.standing.get(task)
    verdict, why = _judged(found, standing, settings.start_block)
    return DrawCheck(
        task=task,
        verdict=verdict,
        why=why,
        drawings=drawings,
        standing=standing is not None,
        started_by=found.node,
        started_block=None if found.started_at is None else found.started_at.block,
        recorded=recorded,
        as_of=headers.at(last),
    )


def _stored(unit: Unit, first: int, last: int) -> list[BlockRef]:
    return unit.blocks.between(first, last) if first <= last else []


def _judged(task: Task, standing: Address | None, start: int) -> tuple[DrawVerdict, str]:
    if task.started_at is None:
        if task.ending is not None:
            why = f"it ended ({task.ending}) without having started"
            return DrawVerdict.NOT_DISPATCHED, why
        who = "nobody is drawn yet" if standing is None else f"{standing} is drawn"
        return DrawVerdict.WAITING, f"it has not started; {who}"
    started = f"{task.node} started it in block {task.started_at.block}"
    if task.started_at.block <= start:
        why = f"{started}, and nothing is drawn up to dispatch.start_block {start}"
        return DrawVerdict.NOT_DISPATCHED, why
    if standing == task.node:
        return DrawVerdict.AGREES, f"{started}, as drawn"
    instead = "no draw stood then" if standing is None else f"{standing} was drawn"
    return DrawVerdict.DIFFERS, f"{started}, and {instead}"


class _Headers:
    """Headers of the chain, asked for ahead in batches, and compared with our own."""

    def __init__(self, chain: Chain, ours: Mapping[int, BlockRef], last: int) -> None:
        self._chain = chain
        self._ours = ours
        self._last = last
        self._ahead: dict[int, BlockRef] = {}

    def at(self, number: int) -> BlockRef:
        """Return the chain's block.

        Raises:
            TransientError: it is missing, or not the one that we have.
        """
        if number not in self._ahead:
            blocks = BlockRange(number, min(self._last, number + _AT_ONCE - 1))
            self._ahead = {block.number: block for block in self._chain.headers(blocks)}
        block = self._ahead[number]
        ours = self._ours.get(number)
        if ours is not None and ours.hash != block.hash:
            raise TransientError(
                f"block {number} is {block.hash} on the chain and {ours.hash} here: "
                "the daemon has not followed the chain yet"
            )
        return block


class _Replay:
    """History folded in memory, drawn for at the end of every block where somebody waits."""

    def __init__(self, settings: DispatchSettings, headers: _Headers) -> None:
        self._start = settings.start_block
        self._sight = _LedgerSight(settings.rules)
        self._drawer = Drawer(settings)
        self._headers = headers

    @property
    def standing(self) -> Mapping[TaskKey, Address]:
        """Return who is to start which task."""
        return self._drawer.plan.standing

    def up_to(self, last: int, events: Iterable[DomainEvent]) -> Iterator[Drawing]:
        """Yield all draws up to the end of block `last`."""
        done = self._start - 1
        for number, said in groupby(events, key=lambda event: event.at.block):
            if number > last:
                break
            yield from self._draw(done + 1, number - 1)
            self._sight.fold(number, list(said))
            yield from self._draw(number, number)
            done = max(done, number)
        yield from self._draw(done + 1, last)

    def _draw(self, first: int, last: int) -> Iterator[Drawing]:
        """Draw at the end of these blocks; where nobody waits a block is not even asked for."""
        for number in range(max(first, self._start), last + 1):
            if not self._sight.is_idle or self._drawer.plan.standing:
                yield from self._drawer.turn(self._sight, self._headers.at(number)).drawn
            else:
                self._drawer.rest(last)
                return


class _LedgerSight:
    """Tasks and nodes as a fold in memory has them."""

    def __init__(self, rules: Rules) -> None:
        self._fold = Fold(rules)
        self._waiting: dict[TaskKey, Task] = {}
        self._groups: dict[GroupKey, dict[TaskKey, Task]] = {}
        self._changed: set[Address] = set()

    @property
    def is_idle(self) -> bool:
        """Nobody waits for a node."""
        return not self._waiting

    def fold(self, number: int, events: Sequence[DomainEvent]) -> None:
        """Go on to the end of a block."""
        self._fold.block(number, events, journal=False)
        changes = self._fold.drain()
        self._changed.update(changes.nodes)
        for key, task in changes.tasks.items():
            if task.group is not None:
                self._groups.setdefault(task.group, {})[key] = task
            if is_waiting(task):
                self._waiting[key] = task
            else:
                self._waiting.pop(key, None)

    def waiting(self) -> Sequence[Task]:
        return list(self._waiting.values())

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for group in groups for task in self._groups.get(group, {}).values()]

    def nodes(self, addresses: Iterable[Address]) -> Mapping[Address, Node]:
        rows = self._fold.ledger.nodes
        return {address: rows[address] for address in addresses if address in rows}

    def changed_since(self, block: int | None) -> Iterable[Node]:
        """Return what changed since the last time; the drawer asks in order."""
        rows = self._fold.ledger.nodes
        found = list(rows.values()) if block is None else [rows[one] for one in self._changed]
        self._changed.clear()
        return found
