"""The settings of system tasks, and the block that opened the current window.

The hash of this block determines when each node is due in the window. A bookmark stores the block.
A rewind below the block deletes the bookmark, and the block that then opens the window is stored
instead. See docs/explanation/dispatch.md#due-nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from typing_extensions import override

from oracle.bindings.probe_calls import ProbeOrder
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.indexer.block_hooks import BlockHook
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.systems.probing import ProbeWindow

# The bookmark has the form "window seconds block hash".
_WINDOW_BOOKMARK = "probe_window"
# A daemon that missed more than this many blocks at the start of a window creates system tasks
# only from the next window on.
_HEADER_DEPTH = 256


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The settings of `[probing]`.

    A member without a task for a whole window of `window_seconds` gets a system task.
    `max_fee_wei` is the maximum total of the fees that the tasks of a window may lock, including
    fees that are refunded later. With `group`, two other nodes with the same GPU do the same work,
    so that the task gets a score.
    """

    window_seconds: int
    max_fee_wei: int
    group: bool
    order: ProbeOrder

    def __post_init__(self) -> None:
        if self.window_seconds < 1 or self.order.fee < 1:
            raise ValueError("[probing]: window_seconds and fee_wei must be at least 1")

    def get_window_number(self, time: int) -> int:
        """Return the number of the window that contains a block time in seconds."""
        return time // self.window_seconds


class ProbeWindowHook(BlockHook):
    """Records the first block of each window as blocks are folded."""

    def __init__(self, settings: ProbeSettings | None) -> None:
        """Create the hook; even without `settings`, a rewind clears an old window."""
        self._settings = settings
        self.header_depth = 0 if settings is None else _HEADER_DEPTH

    @override
    def select_stop_blocks(self, headers: Sequence[BlockRef], newest_block: int) -> list[BlockRef]:
        settings = self._settings
        if settings is None:
            return []
        return [
            header
            for previous_header, header in pairwise(headers)
            if settings.get_window_number(header.time)
            > settings.get_window_number(previous_header.time)
        ]

    @override
    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> None:
        if self._settings is not None:
            seconds = self._settings.window_seconds
            values = (
                self._settings.get_window_number(block.time),
                seconds,
                block.number,
                block.hash,
            )
            uow.bookmarks.set(_WINDOW_BOOKMARK, " ".join(map(str, values)))

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        bookmark = uow.bookmarks.get(_WINDOW_BOOKMARK)
        if bookmark is not None and int(bookmark.split()[2]) > ancestor:
            uow.bookmarks.delete(_WINDOW_BOOKMARK)


def get_open_window(uow: UnitOfWork, settings: ProbeSettings, time: int) -> ProbeWindow | None:
    """Return the window that contains `time`, or None if its first block was not seen."""
    bookmark = uow.bookmarks.get(_WINDOW_BOOKMARK)
    if bookmark is None:
        return None
    number, seconds, _, seed = bookmark.split()
    window = ProbeWindow(int(number), int(seconds), Hash(seed))
    is_open = window.number == settings.get_window_number(time)
    return window if is_open and window.seconds == settings.window_seconds else None
