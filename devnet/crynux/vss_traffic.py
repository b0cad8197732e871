"""Simulates the participants of a VSSTask network, who run groups of three tasks in waves.

A creator orders and validates the tasks, the contract draws the nodes, the nodes answer, and the
relay reports that parameters and results were uploaded. Each account acts as soon as the chain's
logs show that its action is due.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from devnet.crynux.crynux_network import CREATOR_ACCOUNT_INDICES, CrynuxNetwork, derive_public_key
from devnet.demo.demo_nodes import BLOCK_SECONDS, DEMO_NODES, GROUP_SIZE, DemoNode
from devnet.demo.stage import ETHER, MODEL, VERSION
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
_FEE = ETHER // 10
_IMAGE = 0
_ANY_GPU = (0, "", 0)
_GROUPS_PER_WAVE = len(DEMO_NODES) // GROUP_SIZE
# The contract's time limit for a task, in seconds from the start. When it has passed, the creator
# or the node may abort the task.
TASK_TIMEOUT_SECONDS = 180
# A value of the contract's enum TaskAbortReason. The contract accepts any of them.
_TIMED_OUT = 1
# The stand-in contract does not draw whether a task is compared, so it accepts any bytes as proof.
_PROOF = b"\1"
_WORD_HEX_DIGITS = 64


@dataclass(slots=True)
class VssJob:
    """One task of a group.

    `started_at`, `answered_at` and `aborted_at` are the blocks in which the task was started, and
    the answer or the abort was sent; they are None until then. `answer_due_at` is the block in
    which the node will answer, or None if the node never does.
    """

    id: bytes
    nonce: bytes
    node: DemoNode | None = None
    started_at: int | None = None
    are_parameters_uploaded: bool = False
    answer_due_at: int | None = None
    answered_at: int | None = None
    aborted_at: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether a node has started the task, but neither answered nor aborted it."""
        has_ended = self.answered_at is not None or self.aborted_at is not None
        return self.started_at is not None and not has_ended


@dataclass(slots=True)
class VssGroup:
    """The tasks of a group.

    `creator_index` is an index into the network's creators. `validated_at` is the block in which
    the results were compared; `is_uploaded` is set once the result was uploaded.
    """

    guid: bytes
    creator_index: int
    jobs: list[VssJob] = field(default_factory=list)
    validated_at: int | None = None
    is_uploaded: bool = False

    @property
    def is_fully_answered(self) -> bool:
        return all(job.answered_at is not None for job in self.jobs)

    @property
    def has_aborted_member(self) -> bool:
        """Whether a task was aborted after its start.

        The group can then not be compared.
        """
        return any(job.aborted_at is not None for job in self.jobs)

    @property
    def has_ended(self) -> bool:
        return self.is_uploaded or all(job.aborted_at is not None for job in self.jobs)


class VssTraffic:
    """Generates one wave of tasks after another.

    The same seed produces the same tasks and answers.
    """

    def __init__(self, network: CrynuxNetwork, seed: int) -> None:
        self._network = network
        # These numbers are not secret; the seed makes the nodes behave alike in every run.
        self._random = random.Random(seed)  # noqa: S311
        self._task_started_topic = load_abi("testing/VssTask").get_event("TaskStarted").digest
        self._kicked_out_topic = load_abi("testing/VssNode").get_event("NodeKickedOut").digest
        self._name_by_address = {address: name for name, address in network.nodes.items()}
        self._node_by_name = {node.name: node for node in DEMO_NODES}
        self._last_read_block = -1
        # All groups that have been ordered, in order of creation.
        self.groups: list[VssGroup] = []
        # Names of the nodes that the network has kicked out, according to its logs.
        self.kicked_out_names: set[str] = set()
        # Number of the current wave, counted from 0, or -1 before the first wave.
        self.wave = -1
        # While this is True, no new task is ordered.
        self.is_paused = False

    def build_next_transactions(self, head: int) -> list[Transaction]:
        """Build all transactions for the block after `head`."""
        self._process_new_logs(head)
        next_block_number = head + 1
        transactions = [
            *self._build_parameter_upload_reports(),
            *self._build_answers(next_block_number),
            *self._build_aborts(next_block_number),
        ]
        transactions += [
            *self._build_result_upload_reports(),
            *self._build_validations(next_block_number),
        ]
        if self.is_idle and not self.is_paused:
            self.wave += 1
            transactions += [*self._build_pauses_and_resumes(), *self._build_task_orders()]
        return transactions

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        return not self._list_open_groups()

    def _list_open_groups(self) -> list[VssGroup]:
        return [group for group in self.groups[-_GROUPS_PER_WAVE:] if not group.has_ended]

    def _iter_open_jobs(self) -> Iterator[tuple[VssGroup, VssJob]]:
        return ((group, job) for group in self._list_open_groups() for job in group.jobs)

    def _process_new_logs(self, head: int) -> None:
        """Find out from the chain's logs which node got each task.

        Nodes that were kicked out are found as well.
        """
        if head <= self._last_read_block:
            return
        network = self._network
        log_filter = {
            "address": [network.contracts["VSSTask"], network.contracts["Node"]],
            "fromBlock": hex(self._last_read_block + 1),
            "toBlock": hex(head),
            "topics": [[self._task_started_topic, self._kicked_out_topic]],
        }
        self._last_read_block = head
        jobs = {job.id: job for _, job in self._iter_open_jobs()}
        for log in network.chain.make_request("eth_getLogs", log_filter):
            data_hex = log["data"][2:]
            name = self._name_by_address.get(Address("0x" + data_hex[-40:]))
            job = jobs.get(bytes.fromhex(data_hex[:_WORD_HEX_DIGITS]))
            if name is not None and log["topics"][0] == self._kicked_out_topic:
                self.kicked_out_names.add(name)
            elif name is not None and job is not None:
                self._record_task_start(job, self._node_by_name[name], int(log["blockNumber"], 16))

    def _record_task_start(self, job: VssJob, node: DemoNode, start_block: int) -> None:
        answer_delay = node.sample_answer_delay(self.wave, self._random)
        job.node, job.started_at = node, start_block
        # The parameters are uploaded in the block after the start, and the answer comes
        # `answer_delay` blocks later.
        job.answer_due_at = None if answer_delay is None else start_block + 1 + answer_delay

    def _build_parameter_upload_reports(self) -> Iterator[Transaction]:
        for _, job in self._iter_open_jobs():
            if job.started_at is not None and not job.are_parameters_uploaded:
                job.are_parameters_uploaded = True
                yield self._build_relay_transaction("reportTaskParametersUploaded", job)

    def _build_answers(self, block_number: int) -> Iterator[Transaction]:
        """Yield the answers that are due.

        All nodes are honest, so the results of a group are equal.
        """
        for group, job in self._iter_open_jobs():
            if not job.is_running or job.node is None or job.answer_due_at is None:
                continue
            if job.answer_due_at <= block_number:
                job.answered_at = block_number
                node_address = self._network.nodes[job.node.name]
                result = hashlib.sha256(group.guid).digest()
                yield self._network.build_transaction(
                    node_address, "VSSTask", "submitTaskScore", job.id, result
                )

    def _build_aborts(self, block_number: int) -> Iterator[Transaction]:
        """Yield aborts of overdue tasks.

        Their node is silent, or their group cannot be compared.
        """
        for group, job in self._iter_open_jobs():
            if job.started_at is None or job.aborted_at is not None or group.is_fully_answered:
                continue
            is_waited_for = job.answered_at is None and job.answer_due_at is not None
            is_timed_out = (block_number - job.started_at) * BLOCK_SECONDS > TASK_TIMEOUT_SECONDS
            if (
                is_timed_out
                and not is_waited_for
                and (job.answered_at is None or group.has_aborted_member)
            ):
                job.aborted_at = block_number
                yield self._build_creator_transaction(group, "abortTask", job.id, _TIMED_OUT)

    def _build_validations(self, block_number: int) -> Iterator[Transaction]:
        for group in self._list_open_groups():
            if (
                group.is_fully_answered
                and not group.has_aborted_member
                and group.validated_at is None
            ):
                group.validated_at = block_number
                job_ids = [job.id for job in group.jobs]
                key = derive_public_key(CREATOR_ACCOUNT_INDICES[group.creator_index])
                yield self._build_creator_transaction(
                    group, "validateTaskGroup", *job_ids, group.guid, _PROOF, key
                )

    def _build_result_upload_reports(self) -> Iterator[Transaction]:
        """Yield the relay's reports about uploaded results of validated groups."""
        for group in self._list_open_groups():
            if group.validated_at is not None:
                group.is_uploaded = True
                yield self._build_relay_transaction("reportTaskResultUploaded", group.jobs[0])

    def _build_pauses_and_resumes(self) -> Iterator[Transaction]:
        """Yield the pauses and resumptions of nodes that are away during some waves."""
        for node in DEMO_NODES:
            node_address = self._network.nodes[node.name]
            if node.name in self.kicked_out_names:
                continue
            if self.wave in node.away_waves and self.wave - 1 not in node.away_waves:
                yield self._network.build_transaction(node_address, "Node", "pause")
            if self.wave not in node.away_waves and self.wave - 1 in node.away_waves:
                yield self._network.build_transaction(node_address, "Node", "resume")

    def _build_task_orders(self) -> Iterator[Transaction]:
        for group_index in range(_GROUPS_PER_WAVE):
            creator_index = (self.wave + group_index) % len(CREATOR_ACCOUNT_INDICES)
            group = VssGroup(_derive_id("group", self.wave, group_index, 0), creator_index)
            self.groups.append(group)
            for member_index in range(GROUP_SIZE):
                nonce = _derive_id("nonce", self.wave, group_index, member_index)
                job = VssJob(keccak(group.guid + nonce), nonce)
                group.jobs.append(job)
                order_arguments = (_IMAGE, job.id, nonce, [MODEL], *_ANY_GPU, VERSION, 1)
                yield self._build_creator_transaction(
                    group, "createTask", *order_arguments, value=_FEE
                )

    def _build_creator_transaction(
        self, group: VssGroup, function_name: str, *arguments: object, value: int = 0
    ) -> Transaction:
        network = self._network
        creator = network.creators[group.creator_index]
        return network.build_transaction(
            creator, "VSSTask", function_name, *arguments, value=value
        )

    def _build_relay_transaction(self, function_name: str, job: VssJob) -> Transaction:
        return self._network.build_transaction(
            self._network.relay, "VSSTask", function_name, job.id
        )


def _derive_id(kind: str, wave: int, group_index: int, member_index: int) -> bytes:
    return hashlib.sha256(f"{kind} {wave} {group_index} {member_index}".encode()).digest()
