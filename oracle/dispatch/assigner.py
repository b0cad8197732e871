"""Draws nodes for waiting tasks at the end of every block, in the transaction that folds it.

A record, like reports: what was drawn stands in `draw`, and a rewind takes it back exactly. What
is armed is never stored: it follows from the state at the cursor (decision 0060).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.reports.rounds import Rounds
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.errors import InputError
from oracle.store.database import UnitOfWork

# What the database remembers of the draws: by which settings, and up to which block.
_SETTINGS = "dispatch_settings"
_THROUGH = "dispatch_through"

_AtStop = Callable[[UnitOfWork, Rounds, BlockRef], None]


@dataclass(frozen=True, slots=True)
class StoredNetworkView:
    """The network as the database has it."""

    uow: UnitOfWork

    def waiting(self) -> Sequence[Task]:
        return self.uow.tasks.waiting()

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return self.uow.tasks.of_groups(groups)

    def nodes(self, addresses: Iterable[Address]) -> Mapping[Address, Node]:
        return self.uow.nodes.named(addresses)

    def changed_since(self, block: int | None) -> Iterable[Node]:
        return self.uow.nodes.all() if block is None else self.uow.nodes.changed_since(block)


class DrawAssigner:
    """Draws while the fold goes from block to block, from `start_block` on."""

    def __init__(self, settings: DispatchSettings) -> None:
        self.settings = settings
        self._drawer = BlockDrawer(settings)

    def forget(self) -> None:
        """Begin anew from what is stored: the state was rewound or a transaction was lost."""
        self._drawer.forget()

    def stops(self, before: BlockRef | None, headers: Sequence[BlockRef]) -> list[BlockRef]:
        """Return where to stop in a window: at every block, and at the one before it."""
        blocks = [*([] if before is None else [before]), *headers]
        return [block for block in blocks if block.number >= self.settings.start_block]

    def at_block(self, uow: UnitOfWork, block: BlockRef) -> None:
        """Draw at the end of a block; one that was drawn at before is only looked at again."""
        sight, known = StoredNetworkView(uow), uow.progress.get(_THROUGH)
        if known is not None and int(known) >= block.number:
            if self._drawer.at != block.number:
                self._drawer.resume(sight, block, standing_in(uow))
            return
        if block.number == self.settings.start_block:
            # Of other settings, that ended here.
            _void(uow, [one.task for one in uow.draws.standing()], block.number)
        turn = self._drawer.turn(sight, block)
        _void(uow, turn.over, block.number)
        for one in turn.drawn:
            uow.draws.add(one.task, block, one.node)
        uow.progress.set(_THROUGH, str(block.number))


def with_draws(
    assigner: DrawAssigner, at_every: Sequence[BlockRef], cuts: Sequence[BlockRef], cut: _AtStop
) -> tuple[list[BlockRef], _AtStop]:
    """Join the stops of draws and of reports, and what is done there."""
    numbers = {block.number for block in at_every}
    due = {block.number for block in cuts}
    stops = sorted({*at_every, *cuts})

    def at_stop(uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        if block.number in due:
            cut(uow, rounds, block)
        if block.number in numbers:
            assigner.at_block(uow, block)

    return stops, at_stop


def take_back_draws(uow: UnitOfWork, number: int) -> None:
    """Undo what was drawn, and what ended, above block `number`."""
    uow.draws.take_back_above(number)
    known = uow.progress.get(_THROUGH)
    if known is not None and int(known) > number:
        uow.progress.set(_THROUGH, str(number))


def check_dispatch(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Let nobody be drawn with a gap, or by two kinds of settings from one start block.

    Raises:
        InputError: blocks from `start_block` on were folded without draws, or by other settings.
    """
    cursor, known = uow.cursor.get(), uow.progress.get(_SETTINGS)
    at, start = -1 if cursor is None else cursor.number, settings.start_block
    if known != settings.sign:
        if at >= start:
            what = "without draws" if known is None else "with other settings of [dispatch]"
            raise InputError(
                f"dispatch.start_block: block {start} is folded already, {what}: name one above "
                f"{at}, or {_back_to(start - 1)}"
            )
        uow.progress.set(_SETTINGS, settings.sign)
        uow.progress.set(_THROUGH, str(start - 1))
        return
    through = int(uow.progress.get(_THROUGH) or -1)
    if at >= start and through < at:
        raise InputError(
            f"dispatch: blocks {through + 1} to {at} were folded without draws: name a "
            f"dispatch.start_block above {at}, or {_back_to(through)}"
        )


def refuse_other_settings(uow: UnitOfWork, settings: DispatchSettings) -> None:
    """Let nobody judge the draws of a database by settings that did not make them.

    A database that draws nothing may be looked at by any.

    Raises:
        InputError: it draws by other ones.
    """
    known = uow.progress.get(_SETTINGS)
    if known is not None and known != settings.sign:
        raise InputError(
            "[dispatch]: the database draws by other settings or rules than the configuration's: "
            "put the configuration back, or let the daemon begin with the new one"
        )


def _back_to(block: int) -> str:
    """Say how to come to where nothing above `block` is folded; no block is below the first."""
    if block < 0:
        return "start with an empty database"
    return f"run `qos-oracle resync rewind --to-block {block}`"


def standing_in(uow: UnitOfWork) -> dict[TaskKey, Address]:
    """Return who is to start which task, at the cursor."""
    return {one.task: one.node for one in uow.draws.standing()}


def _void(uow: UnitOfWork, tasks: Iterable[TaskKey], block: int) -> None:
    for task in tasks:
        uow.draws.void(task, block)
