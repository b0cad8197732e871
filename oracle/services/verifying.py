"""Draws a task's node again from the chain, and compares with what happened (scoring.md 7)."""

from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.block import BlockRef
from oracle.domain.ids import Address, TaskKey
from oracle.errors import InputError
from oracle.services.dispatch_settings import DispatchSettings
from oracle.services.ports import Chain, Reader
from oracle.store.store import Store
from oracle.systems.dispatching import Drawing


class DrawVerdict(StrEnum):
    """What came of the comparison."""

    # The node that started the task is the one that was drawn for it.
    AGREES = "agrees"
    # Another node started it, or one for which no draw stood.
    DIFFERS = "differs"
    # It started before `dispatch.start_block`, or was never started and has ended.
    NOT_DISPATCHED = "not_dispatched"
    # It has neither started nor ended.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the daemon wrote down in `draw`; `over_block` None: the draw stands."""

    seed_block: int
    seed_hash: str
    node: Address
    over_block: int | None


@dataclass(frozen=True, slots=True)
class DrawCheck:
    """A task's draw, made again.

    `drawings`: every draw that the chain asks for, oldest first, each with its candidates and
    numbers; the last one counts. `standing`: whether it stood when the task started, or now.
    `started_by` None: nobody. `why` says the verdict in a sentence.
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

    Block hashes and times are asked of the chain, in batches; a stored block that differs from
    the chain's is a fault. `app.chain`, `app.store`, `app.reader` and `app.dispatch_settings` are
    what it wants.

    Raises:
        InputError: nothing is indexed, or there is no such task.
        TransientError: the chain does not answer, or has left the stored blocks.
    """
    raise InputError("selecting cannot be verified yet")
