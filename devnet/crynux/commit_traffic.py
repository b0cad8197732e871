"""Simulates the nodes and the creator of a network with commitments and disclosures.

A creator orders a task, and the contract assigns it to the three nodes that have waited longest.
Each node commits to a result, and discloses it once all three have committed. The first node whose
result agrees with another one uploads the result. There is one open task for every three nodes.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from devnet.crynux.crynux_network import CrynuxNetwork
from devnet.demo.demo_nodes import BLOCK_SECONDS, DEMO_NODES, DemoNode
from devnet.demo.stage import ETHER
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
_FEE = ETHER // 10
_NODES_PER_TASK = 3
# Number of open tasks at which every node is busy.
_MAX_OPEN_TASKS = len(DEMO_NODES) // _NODES_PER_TASK
# The contract's time limit for a task, in seconds. When it has passed, the creator may cancel the
# task.
TASK_TIMEOUT_SECONDS = 900
_IMAGE = 0
_IMAGE_COUNT = 1
_MIN_VRAM = 1
_ANY_GPU = ("", 0)
_NO_HASH = bytes(32)
_WORD_HEX_DIGITS = 64


@dataclass(slots=True)
class CommitAssignment:
    """A node's part in a task.

    `committed_at` and `disclosed_at` are block numbers, or None until the event. `commit_due_at`
    is the block in which the node will commit, or None if the node never commits.
    """

    node: DemoNode
    round_number: int
    commit_due_at: int | None
    committed_at: int | None = None
    disclosed_at: int | None = None

    def is_commit_due(self, block_number: int) -> bool:
        """Return whether the node commits to its result in this block."""
        return self.commit_due_at is not None and self.commit_due_at <= block_number


@dataclass(slots=True)
class CommitJob:
    """A task.

    `task_number` is its number in the contract, counted from 1.
    """

    task_number: int
    started_at: int | None = None
    assignments: list[CommitAssignment] = field(default_factory=list)
    is_uploaded: bool = False
    is_cancelled: bool = False

    @property
    def is_fully_committed(self) -> bool:
        committed_assignments = [
            assignment for assignment in self.assignments if assignment.committed_at is not None
        ]
        return len(committed_assignments) == _NODES_PER_TASK

    @property
    def has_ended(self) -> bool:
        return self.is_uploaded or self.is_cancelled


class CommitTraffic:
    """Generates one task after another.

    The same seed produces the same tasks and answers.
    """

    def __init__(self, network: CrynuxNetwork, seed: int) -> None:
        self._network = network
        # These numbers are not secret; the seed makes the nodes behave alike in every run.
        self._random = random.Random(seed)  # noqa: S311
        self._task_started_topic = load_abi("testing/CommitTask").get_event("TaskStarted").digest
        self._name_by_address = {address: name for name, address in network.nodes.items()}
        self._node_by_name = {node.name: node for node in DEMO_NODES}
        self._last_read_block = -1
        # Number of tasks that each node has been assigned.
        self._task_counts: Counter[str] = Counter()
        self.jobs: list[CommitJob] = []
        # While this is True, no new task is ordered.
        self.is_paused = False

    @property
    def wave(self) -> int:
        """The average number of tasks per node so far."""
        return len(self.jobs) // _MAX_OPEN_TASKS

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        return not self._list_open_jobs()

    def build_next_transactions(self, head: int) -> list[Transaction]:
        """Build the transactions of the nodes and the creator for the block after `head`."""
        self._process_new_logs(head)
        next_block_number = head + 1
        transactions = [
            *self._build_upload_reports(),
            *self._build_disclosures(next_block_number),
            *self._build_commitments(next_block_number),
        ]
        transactions += self._build_cancellations(next_block_number)
        return transactions if self.is_paused else [*transactions, *self._build_task_orders()]

    def _list_open_jobs(self) -> list[CommitJob]:
        return [job for job in self.jobs if not job.has_ended]

    def _process_new_logs(self, head: int) -> None:
        """Find out from the chain's logs to which node each task was assigned."""
        if head <= self._last_read_block:
            return
        log_filter = {
            "address": self._network.contracts["Task"],
            "fromBlock": hex(self._last_read_block + 1),
            "toBlock": hex(head),
            "topics": [self._task_started_topic],
        }
        self._last_read_block = head
        jobs = {job.task_number: job for job in self._list_open_jobs()}
        for log in self._network.chain.make_request("eth_getLogs", log_filter):
            data_hex = log["data"][2:]
            job = jobs.get(int(data_hex[:_WORD_HEX_DIGITS], 16))
            name = self._name_by_address.get(Address("0x" + log["topics"][2][-40:]))
            if job is not None and name is not None:
                self._record_assignment(
                    job, self._node_by_name[name], int(data_hex[-_WORD_HEX_DIGITS:], 16), log
                )

    def _record_assignment(
        self, job: CommitJob, node: DemoNode, round_number: int, log: dict[str, str]
    ) -> None:
        start_block = int(log["blockNumber"], 16)
        answer_delay = node.sample_answer_delay(self._task_counts[node.name], self._random)
        self._task_counts[node.name] += 1
        job.started_at = start_block
        commit_due_at = None if answer_delay is None else start_block + answer_delay
        job.assignments.append(CommitAssignment(node, round_number, commit_due_at))

    def _build_commitments(self, block_number: int) -> Iterator[Transaction]:
        for job in self._list_open_jobs():
            for assignment in job.assignments:
                if assignment.committed_at is None and assignment.is_commit_due(block_number):
                    assignment.committed_at = block_number
                    yield self._build_commitment(job, assignment)

    def _build_commitment(self, job: CommitJob, assignment: CommitAssignment) -> Transaction:
        nonce = _NO_HASH[:-1] + bytes([assignment.round_number + 1])
        commitment = keccak(_compute_result(job) + nonce)
        return self._build_node_transaction(
            assignment,
            "submitTaskResultCommitment",
            job.task_number,
            assignment.round_number,
            commitment,
            nonce,
        )

    def _build_disclosures(self, block_number: int) -> Iterator[Transaction]:
        """Yield the disclosures that are due.

        All nodes are honest, so the three results are equal.
        """
        for job in self._list_open_jobs():
            if not job.is_fully_committed:
                continue
            for part in sorted(
                job.assignments, key=lambda assignment: assignment.committed_at or 0
            ):
                if part.disclosed_at is None and (part.committed_at or 0) < block_number:
                    part.disclosed_at = block_number
                    yield self._build_node_transaction(
                        part,
                        "discloseTaskResult",
                        job.task_number,
                        part.round_number,
                        _compute_result(job),
                    )

    def _build_upload_reports(self) -> Iterator[Transaction]:
        """Yield the upload report of the first node that disclosed.

        It is sent one block after the last disclosure.
        """
        for job in self._list_open_jobs():
            disclosed_assignments = [
                disclosed_assignment
                for disclosed_assignment in job.assignments
                if disclosed_assignment.disclosed_at is not None
            ]
            if len(disclosed_assignments) == _NODES_PER_TASK:
                job.is_uploaded = True
                earliest_disclosure = min(
                    disclosed_assignments,
                    key=lambda assignment: (assignment.disclosed_at, assignment.committed_at or 0),
                )
                yield self._build_node_transaction(
                    earliest_disclosure,
                    "reportResultsUploaded",
                    job.task_number,
                    earliest_disclosure.round_number,
                )

    def _build_cancellations(self, block_number: int) -> Iterator[Transaction]:
        for job in self._list_open_jobs():
            if job.started_at is None or job.is_fully_committed:
                continue
            if (block_number - job.started_at) * BLOCK_SECONDS > TASK_TIMEOUT_SECONDS:
                job.is_cancelled = True
                yield self._build_creator_transaction("cancelTask", job.task_number)

    def _build_task_orders(self) -> Iterator[Transaction]:
        for _ in range(_MAX_OPEN_TASKS - len(self._list_open_jobs())):
            job = CommitJob(len(self.jobs) + 1)
            self.jobs.append(job)
            order_arguments = (_IMAGE, _NO_HASH, _NO_HASH, _MIN_VRAM, _IMAGE_COUNT, *_ANY_GPU)
            yield self._build_creator_transaction("createTask", *order_arguments, value=_FEE)

    def _build_node_transaction(
        self, assignment: CommitAssignment, function_name: str, *arguments: object
    ) -> Transaction:
        node_address = self._network.nodes[assignment.node.name]
        return self._network.build_transaction(node_address, "Task", function_name, *arguments)

    def _build_creator_transaction(
        self, function_name: str, *arguments: object, value: int = 0
    ) -> Transaction:
        network = self._network
        return network.build_transaction(
            network.creators[0], "Task", function_name, *arguments, value=value
        )


def _compute_result(job: CommitJob) -> bytes:
    return hashlib.sha256(f"result {job.task_number}".encode()).digest()
