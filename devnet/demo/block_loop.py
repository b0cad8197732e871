"""Mines the blocks of the demo, shows the daemon's state, and waits for the daemon."""

import time
from collections.abc import Callable, Sequence
from threading import Event

from devnet.anvil import LocalChain
from devnet.demo.daemon_process import DemoDaemon
from devnet.demo.news import iter_feed_entries
from devnet.demo.screen import Screen
from devnet.demo.snapshot import DemoSnapshot, SnapshotReader
from devnet.demo.stage import ChainClock
from oracle.domain.ids import Address
from oracle.errors import FatalError
from oracle.store.outbox.records import Account

# Maximum time for which the chain waits for a busy daemon. Because of this wait, the demo is the
# same on slow machines.
_MAX_WAIT_SECONDS = 5.0
_REFRESH_SECONDS = 0.2
# After the demo, the network runs slowly. The pages still change, but the CPU is idle most of the
# time.
_IDLE_BLOCK_SECONDS = 3.0
_IDLE_POLL_SECONDS = 1.0


class BlockLoop:
    """Mines blocks, shows the daemon's state, and waits while the daemon is behind.

    `snapshot_reader` reads the daemon's database. The chain also waits for the transactions of
    `sender`.
    """

    def __init__(
        self,
        chain: LocalChain,
        clock: ChainClock,
        screen: Screen,
        snapshot_reader: SnapshotReader,
        sender: Account,
        stop_event: Event,
    ) -> None:
        self._chain = chain
        self._clock = clock
        self._screen = screen
        self._snapshot_reader = snapshot_reader
        self._sender = sender
        self._stop = stop_event
        self._refreshed_at = 0.0
        self._next_block_at = time.monotonic()
        # Number of the newest block, and the last snapshot of the daemon's state.
        self.head = int(chain.make_request("eth_blockNumber"), 16)
        self.snapshot: DemoSnapshot | None = None

    def mine_next_block(
        self, transactions: Sequence[dict[str, str]], daemon_process: DemoDaemon, seconds: float
    ) -> None:
        """Mine a block, and wait at least `seconds` of wall time for the daemon.

        Raises:
            FatalError: the daemon has ended, or the user has stopped the demo.
        """
        self._mine_block(transactions)
        self._wait_for_daemon(daemon_process, seconds)
        raise_if_stopped(self._stop)

    def list_nodes_due_for_kickout(self) -> tuple[Address, ...]:
        """Return the nodes whose kickout is due, according to the daemon's database."""
        return self._snapshot_reader.list_nodes_due_for_kickout()

    def run_until_stopped(
        self,
        daemon_process: DemoDaemon,
        build_next_transactions: Callable[[int], Sequence[dict[str, str]]],
    ) -> None:
        """Mine a block every few seconds until the user stops the demo.

        The daemon is restarted with an ordinary polling interval. `build_next_transactions`
        returns the transactions for the block after a given height.

        Raises:
            FatalError: the daemon has ended unexpectedly.
        """
        daemon_process.restart({"QOS_ORACLE_CHAIN__POLL_SECONDS": str(_IDLE_POLL_SECONDS)})
        while not self._stop.wait(_IDLE_BLOCK_SECONDS):
            self._mine_block(build_next_transactions(self.head))
            self._refresh_screen(daemon_process)

    def _mine_block(self, transactions: Sequence[dict[str, str]]) -> None:
        self._chain.mine(self._clock.advance(), transactions)
        self.head = int(self._chain.make_request("eth_blockNumber"), 16)

    def _wait_for_daemon(self, daemon_process: DemoDaemon, seconds: float) -> None:
        self._next_block_at = max(self._next_block_at + seconds, time.monotonic())
        deadline = time.monotonic() + _MAX_WAIT_SECONDS
        self._refresh_screen(daemon_process)
        while time.monotonic() < self._next_block_at or self._is_daemon_behind(deadline):
            # The chain waits here for the wall clock or the daemon. No other wait affects the
            # demo's speed.
            if self._stop.wait(0.01):
                return
            self._refresh_screen(daemon_process)

    def _refresh_screen(self, daemon_process: DemoDaemon) -> None:
        if time.monotonic() - self._refreshed_at < _REFRESH_SECONDS:
            return
        daemon_process.raise_if_ended()
        self._refreshed_at = time.monotonic()
        snapshot = self._snapshot_reader.load_snapshot()
        if snapshot is None:
            return
        lines = list(iter_feed_entries(self.snapshot, snapshot))
        self._screen.update(snapshot, lines, head=self.head)
        self.snapshot = snapshot

    def _is_daemon_behind(self, deadline: float) -> bool:
        if time.monotonic() >= deadline:
            return False
        return self._snapshot_reader.is_daemon_behind(self.head, self._sender)


def raise_if_stopped(stop_event: Event) -> None:
    """Raise FatalError if the user has stopped the demo."""
    if stop_event.is_set():
        raise FatalError("the demo was stopped before it was complete")
