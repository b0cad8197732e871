"""Chains that skip heights, and indexers that follow them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from devnet.fakechain.block_json import Block
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.forked import drop_local_rows
from tests.support.ingest.indexer import FINALITY, Indexer, limit_ranges

# More turns than any of these chains needs, and the seconds between two idle turns.
TURNS, _REST_SECONDS = 300, 20.0
# Contracts and event kinds are numbered in the order of arrival, also on a fork.
_NUMBERED = ("log_row", "log_source")
# More heights than a batch of headers contains.
FAR = 110


class Skipping:
    """A chain that skips heights, its endpoints, and indexers that are closed with it."""

    def __init__(self, until_the_end: ExitStack, database: Callable[[], str]) -> None:
        self.chain = FakeChain(until_the_end)
        self._until_the_end = until_the_end
        self._database = database
        self._clock = VirtualClock()

    def grow(self, skipped: Sequence[int], on: Block | None = None) -> Block:
        """Mine one block after each of these numbers of skipped heights."""
        return self.chain.live_after_gaps(skipped, on)

    def part(self, depth: int) -> Block:
        """Return the block `depth` blocks below the head, but not below the final block."""
        all_blocks = get_branch(self.chain.head)
        above = [block for block in all_blocks if block.number > self.chain.head.number - FINALITY]
        return all_blocks[-1 - min(depth, len(above))]

    def logs(self, start: int) -> list[tuple[str, int]]:
        """Return our contracts' logs from a block on; see `FakeChain.logs`."""
        read = {block.hash for block in get_branch(self.chain.head) if block.number >= start}
        return [log for log in self.chain.logs() if log[0] in read]

    def indexer(self, blocks: int | None = None, **options: Any) -> Indexer:
        """Open an indexer that reads at most `blocks` heights at once."""
        urls, clock = self.chain.urls, self._clock
        indexer = Indexer(urls, self._database(), clock=clock, reports=False, **options)
        self._until_the_end.callback(indexer.close)
        return indexer if blocks is None else limit_ranges(indexer, blocks)

    def turns(self, indexer: Indexer, turns: int) -> list[object]:
        """Run `turns` turns with time between them, and return their results."""
        done: list[object] = []
        for _ in range(turns):
            try:
                done.append(indexer.step())
            except TransientError as error:
                done.append(error)
            self._clock.advance(_REST_SECONDS)
        return done

    def read(self, indexer: Indexer) -> list[str]:
        """Index up to the newest block, and return the stored rows of the chain."""
        head, failed = self.chain.head, None
        for _ in range(TURNS):
            try:
                done = indexer.step()
            except TransientError as error:
                done, failed = None, error
            if done is None:
                with indexer.store.read_transaction() as uow:
                    at = uow.cursor.get()
                if at is not None and at.hash == head.hash:
                    return drop_local_rows(
                        dump_database_rows(indexer.url, orphans=False, without=_NUMBERED)
                    )
                self._clock.advance(_REST_SECONDS)
        raise AssertionError(f"not at block {head.number}: {failed}")
