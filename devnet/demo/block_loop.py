"""The block loop of the demo: mine a block, show the daemon's state, wait for the daemon."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from devnet.anvil import LocalChain
from devnet.demo.daemon_process import Daemon
from devnet.demo.news import news
from devnet.demo.screen import Screen
from devnet.demo.snapshot import DemoSnapshot, SnapshotReader
from devnet.demo.stage import Clock
from oracle.errors import FatalError
from oracle.store.outbox.records import Account

# The chain waits this long for a busy daemon, so that a slow machine shows the same demo.
_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.2
# After the demo the network runs slowly: the pages still change, and the CPU is mostly idle.
_KEPT_BLOCK_SECONDS = 3.0
_KEPT_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Watched:
    """Reads the daemon's database; the chain waits for transactions of `sender`."""

    gallery: SnapshotReader
    sender: Account


class BlockLoop:
    """Mines blocks, shows the daemon's state, and waits while the daemon is behind."""

    def __init__(
        self, chain: LocalChain, clock: Clock, screen: Screen, watched: Watched, stop: Event
    ) -> None:
        self._chain = chain
        self._clock = clock
        self._screen = screen
        self._watched = watched
        self._stop = stop
        self._looked = 0.0
        self._due = time.monotonic()
        # The newest block, and the last snapshot of the daemon's state.
        self.head = int(chain.ask("eth_blockNumber"), 16)
        self.snapshot: DemoSnapshot | None = None

    def next_block(
        self, transactions: Sequence[dict[str, str]], running: Daemon, seconds: float
    ) -> None:
        """Mine one block; the next follows `seconds` of wall time later.

        Raises:
            FatalError: the daemon has ended, or the user has stopped the demo.
        """
        self._mine(transactions)
        self._pass_time(running, seconds)
        refuse_ended(self._stop)

    def keep_working(
        self,
        running: Daemon,
        next_transactions: Callable[[int], Sequence[dict[str, str]]],
    ) -> None:
        """Mine a block every few seconds until the user stops the demo.

        The daemon is restarted with an ordinary polling interval. `build_next_transactions`
        returns the transactions for the block after a given height.

        Raises:
            FatalError: the daemon has ended unexpectedly.
        """
        running.restart({"QOS_ORACLE_CHAIN__POLL_SECONDS": str(_KEPT_POLL_SECONDS)})
        while not self._stop.wait(_KEPT_BLOCK_SECONDS):
            self._mine(next_transactions(self.head))
            self._look(running)

    def _mine(self, transactions: Sequence[dict[str, str]]) -> None:
        self._chain.mine(self._clock.next_block(), transactions)
        self.head = int(self._chain.ask("eth_blockNumber"), 16)

    def _pass_time(self, running: Daemon, seconds: float) -> None:
        self._due = max(self._due + seconds, time.monotonic())
        patience = time.monotonic() + _PATIENCE_SECONDS
        self._look(running)
        while time.monotonic() < self._due or self._is_waited_for(patience):
            # The pace of the demo: only the wall clock and the daemon are waited for.
            if self._stop.wait(0.01):
                return
            self._look(running)

    def _look(self, running: Daemon) -> None:
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        running.check()
        self._looked = time.monotonic()
        snapshot = self._watched.gallery.look()
        if snapshot is None:
            return
        lines = list(news(self.snapshot, snapshot))
        self._screen.show(snapshot, lines, head=self.head)
        self.snapshot = snapshot

    def _is_waited_for(self, until: float) -> bool:
        if time.monotonic() >= until:
            return False
        return self._watched.gallery.is_behind(self.head, self._watched.sender)


def refuse_ended(stop: Event) -> None:
    """Raise FatalError if the user has stopped the demo."""
    if stop.is_set():
        raise FatalError("broken off before it was over")
