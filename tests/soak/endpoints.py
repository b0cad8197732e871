"""The chain of a soak: three endpoints in a process of their own, whose memory is not ours.

Run by `tests.soak.run`, which writes a line to its input for more of the chain; every answer is a
line of JSON. Faults strike by lot, from a seed.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any

from devnet.fakechain.block_json import Block, Tx
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.requests import FakeRequest
from devnet.fakechain.tree import get_branch
from tests.properties.machine.faulty import LOUD
from tests.soak.traffic import blocks_of
from tests.support.chain.network_logs import NETWORK
from tests.support.ingest.a_chain import AChain

# Of a hundred questions, how many are spoiled, by the endpoint; the last one is the best.
_PER_CENT = (25.0, 10.0, 3.0)
# So much of the traffic is there at the start; the rest comes while it is followed.
_HISTORY = 0.8
# Whoever hears of these once keeps to them for a day, or for ever.
_LASTING = {"another chain", "short ranges", "few results", "small batches"}
_BLOCKS_AT_ONCE, _DEEPEST_FORK = 25, 6


@dataclass
class Life:
    """The chain as it grows: mostly forwards."""

    chain: AChain
    events: int
    random: Random
    said: int = 0
    forks: int = 0
    # Transactions of blocks that a fork took away: they are mined again.
    again: list[tuple[Tx, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._coming = blocks_of(self.events, self.random)
        while self.said < _HISTORY * self.events and self._mine() is not None:
            pass
        self.chain.show(self.chain.head)

    def _mine(self, on: Block | None = None) -> Block | None:
        txs = self.again.pop(0) if self.again else next(self._coming, None)
        if txs is None:
            return None
        self.said += sum(len(tx.emitted_logs) for tx in txs)
        return self.chain.tree.mine(txs, on)

    def grow(self) -> bool:
        """Mine some more, now and then on another fork; tell whether there is more to come."""
        on = self._forked() if self.random.random() < 0.5 else None
        for _ in range(_BLOCKS_AT_ONCE):
            if self._mine(on) is None:
                self.chain.quiet(1)
                return False
            on = None
        self.chain.show(self.chain.head)
        return True

    def _forked(self) -> Block:
        depth = self.random.randint(1, _DEEPEST_FORK)
        left = branch_top(self.chain.head, depth)
        self.again = [block.txs for block in left]
        self.said -= sum(len(block.logs) for block in left)
        self.forks += 1
        parent = left[0].parent
        assert parent is not None
        return parent


def branch_top(head: Block, blocks: int) -> list[Block]:
    """Return the newest blocks up to a head, the oldest of them first."""
    branch_blocks = [head]
    while len(branch_blocks) < blocks and branch_blocks[-1].parent is not None:
        branch_blocks.append(branch_blocks[-1].parent)
    return branch_blocks[::-1]


def by_lot(per_cent: float, seed: int) -> list[InjectedFault]:
    """Return every loud fault, each to strike its share of so many questions in a hundred."""
    # Repeatable, as far as questions come in the same order.
    random, lock = Random(seed), Lock()  # noqa: S311
    names = [name for name in sorted(LOUD) if name not in _LASTING]
    share = per_cent / 100 / len(names)

    def strikes(_: FakeRequest) -> bool:
        with lock:
            return random.random() < share

    return [spoiled(LOUD[name], strikes) for name in names]


def spoiled(
    make_fault: Callable[[], InjectedFault], strikes: Callable[[FakeRequest], bool]
) -> InjectedFault:
    """Return the fault, to strike only where `strikes` says so as well."""
    fault = make_fault()
    fault.limits = {**fault.limits, "when": strikes}
    return fault


def _digest(head: Block) -> str:
    """Of (block hash, index) of every log of ours, in order."""
    sha = hashlib.sha256()
    for block in get_branch(head):
        index = 0
        for tx in block.txs:
            for log in tx.emitted_logs:
                if log.address == NETWORK:
                    sha.update(f"{block.hash} {index}\n".encode())
                index += 1
    return sha.hexdigest()


def _answers(life: Life, hits: Callable[[], int]) -> Iterator[dict[str, Any]]:
    yield {"urls": life.chain.urls, "head": life.chain.head.number}
    is_more = True
    for _ in sys.stdin:
        if is_more:
            is_more = life.grow()
            yield {"head": life.chain.head.number, "more": is_more}
        else:
            for provider in life.chain.providers:
                provider.faults = []
            digest = _digest(life.chain.head)
            yield {"digest": digest, "logs": life.said, "forks": life.forks, "spoiled": hits()}


def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    with ExitStack() as until_the_end:
        chain = AChain(until_the_end)
        faults = [by_lot(rate, options.seed + number) for number, rate in enumerate(_PER_CENT)]
        for endpoint_faults in faults:
            chain.serve().faults = endpoint_faults
        life = Life(chain, options.events, Random(options.seed))  # noqa: S311  # repeatable

        def hits() -> int:
            return sum(fault.hit_count for fault_group in faults for fault in fault_group)

        for answer in _answers(life, hits):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
