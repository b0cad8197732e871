"""The traffic of a VSSTask network: waves of groups of three tasks, played by the cast.

A creator orders and validates, the contract draws the nodes, the relay reports that parameters and
results were uploaded, and the nodes answer. Each acts when the chain's logs show that it is due.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from devnet.crynux.crynux_network import CREATOR_PLACES, CrynuxNetwork
from devnet.crynux.dev_keys import public_key
from devnet.demo.cast import BLOCK_SECONDS, CAST, GROUP_SIZE, DemoNode
from devnet.demo.stage import ETHER, MODEL, VERSION
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
_FEE = ETHER // 10
_IMAGE, _ANY_GPU = 0, (0, "", 0)
_GROUPS = len(CAST) // GROUP_SIZE
# The contract's timeout, in seconds from the start; creator or node may abort after it.
TIMEOUT = 180
# TaskAbortReason; the contract accepts any value.
_TIMED_OUT = 1
# The stand-in omits the draw that decides whether a task is compared.
_PROOF = b"\1"
_WORD = 64


@dataclass(slots=True)
class VssJob:
    """One task of a group.

    Events are block numbers, None until they happen. `answer_due_at` is the block in which the
    node will answer, None if it never does. `answered_at` and `aborted_at` are the blocks in which
    the answer and the abort were sent.
    """

    id: bytes
    nonce: bytes
    node: DemoNode | None = None
    started_at: int | None = None
    is_uploaded: bool = False
    answers_at: int | None = None
    answered_at: int | None = None
    aborted_at: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether a node has the task and has neither answered nor been released."""
        ended = self.answered_at is not None or self.aborted_at is not None
        return self.started_at is not None and not ended


@dataclass(slots=True)
class VssGroup:
    """The tasks of one group; `creator_index` is an index into the network's creators.

    `validated_at` is the block in which the results were compared; `is_uploaded` is set once the
    result was uploaded.
    """

    guid: bytes
    creator: int
    jobs: list[VssJob] = field(default_factory=list)
    validated_at: int | None = None
    is_uploaded: bool = False

    @property
    def is_answered(self) -> bool:
        return all(job.answered_at is not None for job in self.jobs)

    @property
    def is_broken(self) -> bool:
        """Whether a member was aborted after its start, which prevents the comparison."""
        return any(job.aborted_at is not None for job in self.jobs)

    @property
    def has_ended(self) -> bool:
        return self.is_uploaded or all(job.aborted_at is not None for job in self.jobs)


class VssTraffic:
    """Generates wave after wave; the same seed gives the same tasks and answers."""

    def __init__(self, network: CrynuxNetwork, seed: int) -> None:
        self._network = network
        # Not for secrets: the nodes must behave the same way in every run.
        self._chance = random.Random(seed)  # noqa: S311
        self._started = load_abi("testing/VssTask").get_event("TaskStarted").digest
        self._kicked_out = load_abi("testing/VssNode").get_event("NodeKickedOut").digest
        self._names = {address: name for name, address in network.nodes.items()}
        self._cast = {one.name: one for one in CAST}
        self._seen = -1
        # The groups of all waves, in order.
        self.groups: list[VssGroup] = []
        # Names of the nodes that the network's logs show as kicked out.
        self.gone: set[str] = set()
        # Number of the current wave, counted from 0.
        self.wave = -1
        # While paused, no new task is ordered.
        self.is_resting = False

    def next_block(self, head: int) -> list[Transaction]:
        """Return all transactions for the block after `head`."""
        self._read(head)
        block = head + 1
        sent = [*self._uploads(), *self._answers(block), *self._aborts(block)]
        sent += [*self._results(), *self._validations(block)]
        if self.is_idle and not self.is_resting:
            self.wave += 1
            sent += [*self._moves(), *self._orders()]
        return sent

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        return not self._open_groups()

    def _open_groups(self) -> list[VssGroup]:
        return [group for group in self.groups[-_GROUPS:] if not group.has_ended]

    def _open_jobs(self) -> Iterator[tuple[VssGroup, VssJob]]:
        return ((group, job) for group in self._open_groups() for job in group.jobs)

    def _read(self, head: int) -> None:
        """Read from the chain's logs which node got which task, and which were kicked out."""
        if head <= self._seen:
            return
        network = self._network
        asked = {
            "address": [network.contracts["VSSTask"], network.contracts["Node"]],
            "fromBlock": hex(self._seen + 1),
            "toBlock": hex(head),
            "topics": [[self._started, self._kicked_out]],
        }
        self._seen = head
        jobs = {job.id: job for _, job in self._open_jobs()}
        for log in network.chain.ask("eth_getLogs", asked):
            words = log["data"][2:]
            name = self._names.get(Address("0x" + words[-40:]))
            job = jobs.get(bytes.fromhex(words[:_WORD]))
            if name is not None and log["topics"][0] == self._kicked_out:
                self.gone.add(name)
            elif name is not None and job is not None:
                self._begin(job, self._cast[name], int(log["blockNumber"], 16))

    def _begin(self, job: VssJob, node: DemoNode, block: int) -> None:
        blocks = node.answers_after(self.wave, self._chance)
        job.node, job.started_at = node, block
        # The parameters are uploaded in the block after the start.
        job.answers_at = None if blocks is None else block + 1 + blocks

    def _uploads(self) -> Iterator[Transaction]:
        for _, job in self._open_jobs():
            if job.started_at is not None and not job.is_uploaded:
                job.is_uploaded = True
                yield self._relay("reportTaskParametersUploaded", job)

    def _answers(self, block: int) -> Iterator[Transaction]:
        """Yield answers; all nodes are honest here, so the results of a group are equal."""
        for group, job in self._open_jobs():
            if not job.is_running or job.node is None or job.answers_at is None:
                continue
            if job.answers_at <= block:
                job.answered_at = block
                account = self._network.nodes[job.node.name]
                result = hashlib.sha256(group.guid).digest()
                yield self._network.call(account, "VSSTask", "submitTaskScore", job.id, result)

    def _aborts(self, block: int) -> Iterator[Transaction]:
        """Yield aborts of silent nodes, and then of members that cannot be compared any more."""
        for group, job in self._open_jobs():
            if job.started_at is None or job.aborted_at is not None or group.is_answered:
                continue
            is_waited_for = job.answered_at is None and job.answers_at is not None
            is_over = (block - job.started_at) * BLOCK_SECONDS > TIMEOUT
            if is_over and not is_waited_for and (job.answered_at is None or group.is_broken):
                job.aborted_at = block
                yield self._creator(group, "abortTask", job.id, _TIMED_OUT)

    def _validations(self, block: int) -> Iterator[Transaction]:
        for group in self._open_groups():
            if group.is_answered and not group.is_broken and group.validated_at is None:
                group.validated_at = block
                ids = [job.id for job in group.jobs]
                key = public_key(CREATOR_PLACES[group.creator])
                yield self._creator(group, "validateTaskGroup", *ids, group.guid, _PROOF, key)

    def _results(self) -> Iterator[Transaction]:
        """Yield the upload report of the first of those that agree."""
        for group in self._open_groups():
            if group.validated_at is not None:
                group.is_uploaded = True
                yield self._relay("reportTaskResultUploaded", group.jobs[0])

    def _moves(self) -> Iterator[Transaction]:
        """Yield the pauses and resumptions of nodes that are away for some waves."""
        for one in CAST:
            account = self._network.nodes[one.name]
            if one.name in self.gone:
                continue
            if self.wave in one.away and self.wave - 1 not in one.away:
                yield self._network.call(account, "Node", "pause")
            if self.wave not in one.away and self.wave - 1 in one.away:
                yield self._network.call(account, "Node", "resume")

    def _orders(self) -> Iterator[Transaction]:
        for place in range(_GROUPS):
            creator = (self.wave + place) % len(CREATOR_PLACES)
            group = VssGroup(_word("group", self.wave, place, 0), creator)
            self.groups.append(group)
            for member in range(GROUP_SIZE):
                nonce = _word("nonce", self.wave, place, member)
                job = VssJob(keccak(group.guid + nonce), nonce)
                group.jobs.append(job)
                order = (_IMAGE, job.id, nonce, [MODEL], *_ANY_GPU, VERSION, 1)
                yield self._creator(group, "createTask", *order, value=_FEE)

    def _creator(
        self, group: VssGroup, function: str, *arguments: object, value: int = 0
    ) -> Transaction:
        network = self._network
        creator = network.creators[group.creator]
        return network.call(creator, "VSSTask", function, *arguments, value=value)

    def _relay(self, function: str, job: VssJob) -> Transaction:
        return self._network.call(self._network.relay, "VSSTask", function, job.id)


def _word(kind: str, wave: int, place: int, member: int) -> bytes:
    return hashlib.sha256(f"{kind} {wave} {place} {member}".encode()).digest()
