"""The traffic of a commit/disclose network: one task at a time for every three idle nodes.

A creator orders a task, and the contract assigns it to the three nodes that have waited longest.
They commit, disclose once all have committed, and the first of those that agree uploads the
result.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from devnet.crynux.crynux_network import CrynuxNetwork
from devnet.demo.cast import BLOCK_SECONDS, CAST, DemoNode
from devnet.demo.stage import ETHER
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
_FEE = ETHER // 10
_PARTS = 3
# This number of open tasks keeps all nodes busy.
_OPEN_TASKS = len(CAST) // _PARTS
# The contract's timeout, in seconds; the creator may cancel the task after it.
TIMEOUT = 900
_IMAGE, _ONE_PICTURE, _LEAST_VRAM, _ANY_GPU = 0, 1, 1, ("", 0)
_NO_HASH = bytes(32)
_WORD = 64


@dataclass(slots=True)
class CommitPart:
    """One node's part in a task.

    Events are block numbers, None until they happen. `commit_due_at` is the block in which the
    node will commit, None if it never does.
    """

    node: DemoNode
    round: int
    commits_at: int | None
    committed_at: int | None = None
    disclosed_at: int | None = None

    def is_ready(self, block: int) -> bool:
        """Return whether the node has a result to commit to."""
        return self.commits_at is not None and self.commits_at <= block


@dataclass(slots=True)
class CommitJob:
    """One task; `task_number` is its number in the contract, counted from 1."""

    order: int
    started_at: int | None = None
    parts: list[CommitPart] = field(default_factory=list)
    is_uploaded: bool = False
    is_cancelled: bool = False

    @property
    def all_committed(self) -> bool:
        here = [part for part in self.parts if part.committed_at is not None]
        return len(here) == _PARTS

    @property
    def has_ended(self) -> bool:
        return self.is_uploaded or self.is_cancelled


class CommitTraffic:
    """Generates task after task; the same seed gives the same tasks and answers."""

    def __init__(self, network: CrynuxNetwork, seed: int) -> None:
        self._network = network
        # Not for secrets: the nodes must behave the same way in every run.
        self._chance = random.Random(seed)  # noqa: S311
        self._started = load_abi("testing/CommitTask").get_event("TaskStarted").digest
        self._names = {address: name for name, address in network.nodes.items()}
        self._cast = {one.name: one for one in CAST}
        self._seen = -1
        # Number of tasks that each node was given.
        self._turns: Counter[str] = Counter()
        self.jobs: list[CommitJob] = []
        # While paused, no new task is ordered.
        self.is_resting = False

    @property
    def wave(self) -> int:
        """The average number of tasks per node so far."""
        return len(self.jobs) // _OPEN_TASKS

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        return not self._open()

    def next_block(self, head: int) -> list[Transaction]:
        """Return the transactions of nodes and creator for the block after `head`."""
        self._read(head)
        block = head + 1
        sent = [*self._uploads(), *self._disclosures(block), *self._commitments(block)]
        sent += self._cancellations(block)
        return sent if self.is_resting else [*sent, *self._orders()]

    def _open(self) -> list[CommitJob]:
        return [job for job in self.jobs if not job.has_ended]

    def _read(self, head: int) -> None:
        """Read from the chain's logs which node was assigned to which task."""
        if head <= self._seen:
            return
        asked = {
            "address": self._network.contracts["Task"],
            "fromBlock": hex(self._seen + 1),
            "toBlock": hex(head),
            "topics": [self._started],
        }
        self._seen = head
        jobs = {job.order: job for job in self._open()}
        for log in self._network.chain.ask("eth_getLogs", asked):
            words = log["data"][2:]
            job = jobs.get(int(words[:_WORD], 16))
            name = self._names.get(Address("0x" + log["topics"][2][-40:]))
            if job is not None and name is not None:
                self._begin(job, self._cast[name], int(words[-_WORD:], 16), log)

    def _begin(self, job: CommitJob, node: DemoNode, round_: int, log: dict[str, str]) -> None:
        block = int(log["blockNumber"], 16)
        blocks = node.answers_after(self._turns[node.name], self._chance)
        self._turns[node.name] += 1
        job.started_at = block
        at = None if blocks is None else block + blocks
        job.parts.append(CommitPart(node, round_, at))

    def _commitments(self, block: int) -> Iterator[Transaction]:
        for job in self._open():
            for part in job.parts:
                if part.committed_at is None and part.is_ready(block):
                    part.committed_at = block
                    yield self._commitment(job, part)

    def _commitment(self, job: CommitJob, part: CommitPart) -> Transaction:
        nonce = _NO_HASH[:-1] + bytes([part.round + 1])
        sealed = keccak(_result(job) + nonce)
        return self._say(part, "submitTaskResultCommitment", job.order, part.round, sealed, nonce)

    def _disclosures(self, block: int) -> Iterator[Transaction]:
        """Yield disclosures; all nodes are honest here, so the three results are equal."""
        for job in self._open():
            if not job.all_committed:
                continue
            for part in sorted(job.parts, key=lambda one: one.committed_at or 0):
                if part.disclosed_at is None and (part.committed_at or 0) < block:
                    part.disclosed_at = block
                    yield self._say(
                        part, "discloseTaskResult", job.order, part.round, _result(job)
                    )

    def _uploads(self) -> Iterator[Transaction]:
        """Yield the upload report of the first discloser, one block after the last disclosure."""
        for job in self._open():
            disclosed = [part for part in job.parts if part.disclosed_at is not None]
            if len(disclosed) == _PARTS:
                job.is_uploaded = True
                first = min(disclosed, key=lambda one: (one.disclosed_at, one.committed_at or 0))
                yield self._say(first, "reportResultsUploaded", job.order, first.round)

    def _cancellations(self, block: int) -> Iterator[Transaction]:
        for job in self._open():
            if job.started_at is None or job.all_committed:
                continue
            if (block - job.started_at) * BLOCK_SECONDS > TIMEOUT:
                job.is_cancelled = True
                yield self._creator("cancelTask", job.order)

    def _orders(self) -> Iterator[Transaction]:
        for _ in range(_OPEN_TASKS - len(self._open())):
            job = CommitJob(len(self.jobs) + 1)
            self.jobs.append(job)
            asked = (_IMAGE, _NO_HASH, _NO_HASH, _LEAST_VRAM, _ONE_PICTURE, *_ANY_GPU)
            yield self._creator("createTask", *asked, value=_FEE)

    def _say(self, part: CommitPart, function: str, *arguments: object) -> Transaction:
        account = self._network.nodes[part.node.name]
        return self._network.call(account, "Task", function, *arguments)

    def _creator(self, function: str, *arguments: object, value: int = 0) -> Transaction:
        network = self._network
        return network.call(network.creators[0], "Task", function, *arguments, value=value)


def _result(job: CommitJob) -> bytes:
    return hashlib.sha256(f"result {job.order}".encode()).digest()
