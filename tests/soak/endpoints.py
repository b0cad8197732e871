"""The chain of a soak: three endpoints in a separate process, whose memory is not measured.

Run by `tests.soak.run` and `tests.soak.reporters`, which write a line to its input to advance the
chain; every output is a line of JSON. An input line may contain a report as JSON, which the
contract accepts or rejects like the real one; "end" ends the chain. Faults are drawn from a seed.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any

from devnet.fakechain.block_json import Block, FakeLog, Tx
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.requests import FakeRequest
from devnet.fakechain.tree import get_branch
from oracle.domain.ids import ZERO_HASH, Hash
from tests.properties.machine.faulty import LOUD
from tests.soak.traffic import blocks_of
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.event_encoding import build_transactions as txs_of
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import ANCHOR_WINDOW
from tests.support.rounds import build_accepted_round

# Percentage of spoiled responses by endpoint; the last endpoint is the best.
_PER_CENT = (25.0, 10.0, 3.0)
# Limits that a client keeps for a day, or permanently, after one error.
_LASTING = {"another chain", "short ranges", "few results", "small batches"}
_DEEPEST_FORK = 6
# The line that ends the chain, wherever it is.
END = "end"


@dataclass(frozen=True)
class Submission:
    """A submitted report, which can become round `round` after the root `prev`."""

    round: int
    prev: Hash
    root: Hash
    as_of: int
    as_of_hash: Hash


@dataclass
class Life:
    """The growing chain, with occasional forks.

    A `history` share of the events is there at the start; then `step` blocks come at a time, with
    about `logs_a_block` logs each.
    """

    chain: FakeChain
    events: int
    random: Random
    history: float
    step: int
    logs_a_block: int
    emitted_logs: int = 0
    forks: int = 0
    # Transactions of blocks that a fork took away: they are mined again.
    again: list[list[Tx]] = field(default_factory=list)
    # The accepted rounds of the branch, oldest first, and the log of each.
    rounds: list[Submission] = field(default_factory=list)
    round_by_log: dict[FakeLog, Submission] = field(default_factory=dict)
    rejected: int = 0
    # Accepted rounds that a fork moved to another block, and those that it removed.
    moved: int = 0
    removed: int = 0

    def __post_init__(self) -> None:
        self._coming = blocks_of(self.events, self.random, self.logs_a_block)
        while self.emitted_logs < self.history * self.events and self._mine() is not None:
            pass
        self.chain.show(self.chain.head)

    def _mine(self, on: Block | None = None, submission: Submission | None = None) -> Block | None:
        txs = self.again.pop(0) if self.again else next(self._coming, None)
        if txs is None:
            return None
        self.emitted_logs += count_network_logs(txs)
        round_txs = [] if submission is None else self._accept(submission)
        return self.chain.tree.mine([*txs, *round_txs], on)

    def grow(self, submission: Submission | None = None) -> bool:
        """Mine more blocks, occasionally on another fork; return whether more blocks will follow.

        A submitted report is mined after the transactions of blocks that the fork removes.
        """
        on = self._forked() if self.random.random() < 0.5 else None
        place = None if submission is None else self.random.randrange(_DEEPEST_FORK, self.step)
        for number in range(self.step):
            if self._mine(on, submission if number == place else None) is None:
                self.chain.mine_empty(1)
                return False
            on = None
        self.chain.show(self.chain.head)
        return True

    def _accept(self, submission: Submission) -> list[Tx]:
        """Return the transaction of a report if the contract accepts it, else an empty list."""
        head = self.chain.head
        depth = head.number - submission.as_of
        if (
            submission.round != len(self.rounds) + 1
            or submission.prev != (self.rounds[-1].root if self.rounds else ZERO_HASH)
            or not 0 <= depth < ANCHOR_WINDOW
            or head.get_ancestor(depth).hash != submission.as_of_hash
        ):
            self.rejected += 1
            return []
        event = build_accepted_round(
            submission.round,
            as_of=submission.as_of,
            as_of_hash=submission.as_of_hash,
            root=submission.root,
        )
        (tx,) = txs_of([event])
        self.rounds.append(submission)
        self.round_by_log[tx.logs[0]] = submission
        return [tx]

    def _forked(self) -> Block:
        depth = self.random.randint(1, _DEEPEST_FORK)
        left = branch_top(self.chain.head, depth)
        parent = left[0].parent
        assert parent is not None
        kept = self._keep_rounds(left, parent)
        self.again = [
            [
                tx
                for tx in block.txs
                if all(log in kept for log in tx.logs if log.address == ORACLE)
            ]
            for block in left
        ]
        self.emitted_logs -= sum(count_network_logs(block.txs) for block in left)
        self.forks += 1
        return parent

    def _keep_rounds(self, left: Sequence[Block], parent: Block) -> Collection[FakeLog]:
        """Return the logs of the rounds in `left` that are accepted again; drop the other rounds.

        Half of the forks accept no round again, as if the transactions were lost. The contract
        rejects a report whose as-of block a fork removes.
        """
        logs = [log for block in left for tx in block.txs for log in tx.logs]
        logs = [log for log in logs if log.address == ORACLE]
        are_lost = bool(logs) and self.random.random() < 0.5
        kept = {
            log for log in logs if not are_lost and self.round_by_log[log].as_of <= parent.number
        }
        self.moved += len(kept)
        self.removed += len(logs) - len(kept)
        dropped = [self.round_by_log[log] for log in logs if log not in kept]
        self.rounds = [accepted for accepted in self.rounds if accepted not in dropped]
        return kept


def count_network_logs(txs: Iterable[Tx]) -> int:
    """Return the number of logs of the network contract."""
    return sum(log.address == NETWORK for tx in txs for log in tx.emitted_logs)


def branch_top(head: Block, blocks: int) -> list[Block]:
    """Return the newest blocks up to a head, oldest first."""
    branch_blocks = [head]
    while len(branch_blocks) < blocks and branch_blocks[-1].parent is not None:
        branch_blocks.append(branch_blocks[-1].parent)
    return branch_blocks[::-1]


def list_random_faults(per_cent: float, seed: int) -> list[InjectedFault]:
    """Return every detectable fault, each with its share of the requests in percent."""
    # Repeatable, if requests come in the same order.
    random, lock = Random(seed), Lock()  # noqa: S311
    names = [name for name in sorted(LOUD) if name not in _LASTING]
    share = per_cent / 100 / len(names)

    def strikes(_: FakeRequest) -> bool:
        with lock:
            return random.random() < share

    return [restrict_fault(LOUD[name], strikes) for name in names]


def restrict_fault(
    make_fault: Callable[[], InjectedFault], strikes: Callable[[FakeRequest], bool]
) -> InjectedFault:
    """Return the fault, restricted to requests for which `strikes` is true."""
    fault = make_fault()
    fault.limits = {**fault.limits, "when": strikes}
    return fault


def _digest(head: Block) -> str:
    """Return the digest of (block hash, index) of every log of our contracts, in order."""
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
    for line in map(str.strip, sys.stdin):
        if is_more and line != END:
            is_more = life.grow(Submission(**json.loads(line)) if line else None)
            yield {"head": life.chain.head.number, "more": is_more}
        else:
            for provider in life.chain.providers:
                provider.faults = []
            digest = _digest(life.chain.head)
            yield {
                "digest": digest,
                "logs": life.emitted_logs,
                "forks": life.forks,
                "spoiled": hits(),
                "roots": [accepted.root for accepted in life.rounds],
                "rejected": life.rejected,
                "moved": life.moved,
                "removed": life.removed,
            }


def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--history", type=float, required=True)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--logs-a-block", type=int, required=True)
    options = parser.parse_args()
    with ExitStack() as until_the_end:
        chain = FakeChain(until_the_end)
        faults = [
            list_random_faults(rate, options.seed + number)
            for number, rate in enumerate(_PER_CENT)
        ]
        for endpoint_faults in faults:
            chain.serve().faults = endpoint_faults
        life = Life(
            chain,
            options.events,
            Random(options.seed),  # noqa: S311  # repeatable
            options.history,
            options.step,
            options.logs_a_block,
        )

        def hits() -> int:
            return sum(fault.hit_count for fault_group in faults for fault in fault_group)

        for answer in _answers(life, hits):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
