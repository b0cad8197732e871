"""The traffic of the demo network: waves of task groups for the daemon to dispatch.

Creators order and validate tasks, and nodes answer them; each acts when the chain's logs show that
it is due. The daemon draws the node of each task. The nodes of a group first commit to their
answers, and reveal them once all have committed, the faster ones first. They also answer the
dispatcher's system tasks, which the dispatcher validates itself. If a node submitted a false
result, the group is contested: the nodes of a second group do the same work, and an honest member
of the first group settles the contest by its result.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak

from devnet.demo.cast import BLOCK_SECONDS, GROUP_SIZE, TASK_TIMEOUT, DemoNode
from devnet.demo.contested_groups import DemoTask, Group, OpenContests
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem
from devnet.demo.stage import MODEL, VERSION, Stage
from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
# A real node draws a new salt for each answer; the demo's answers need no secrecy.
SALT = bytes(31) + b"\x01"


class Traffic:
    """Generates wave after wave; the same seed gives the same tasks and answers."""

    def __init__(self, stage: Stage, seed: int, system: DemoSystem = CRYNUX_SYSTEM) -> None:
        self._stage = stage
        self._system = system
        # Not for secrets: the nodes must behave the same way in every run.
        self._chance = random.Random(seed)  # noqa: S311
        # Reveal delays have their own random source, so they do not change the time of any answer.
        self._latency = random.Random(seed)  # noqa: S311
        network = load_abi("TaskNetwork")
        self._handlers = {
            network.get_event("TaskCreated").digest: self._note_probe,
            network.get_event("TaskStarted").digest: self._note_start,
            network.get_event("TaskTimedOut").digest: self._note_timeout,
            network.get_event("DownloadRequested").digest: self._note_request,
            network.get_event("GroupRevalidates").digest: self._note_revalidation,
            network.get_event("GroupValidated").digest: self._note_comparison,
        }
        # Nodes that were asked to download a model and have not done so yet.
        self._asked: list[tuple[Address, str]] = []
        self._names = {address: name for name, address in stage.nodes.items()}
        self._cast = {node.name: node for node in system.cast}
        self._groups: list[Group] = []
        # Groups of system tasks and single system tasks, keyed by the group's or the task's key.
        self._probes: dict[bytes, Group] = {}
        self._contests = OpenContests(stage)
        # Names of the nodes that have submitted a false result.
        self._liars: set[str] = set()
        self._seen = -1
        # Number of the current wave, counted from 0.
        self.wave = -1

    @property
    def is_idle(self) -> bool:
        """Whether no group is open."""
        return not self._groups

    @property
    def has_open_contest(self) -> bool:
        """Whether a contested group waits for its second group, or for its settlement."""
        return self._contests.are_open

    def next_block(self, head: int, *, may_order: bool = True) -> list[Transaction]:
        """Return the transactions of nodes and creators for the block after `head`.

        The next wave is ordered in the block that judges the last group, if `may_order`.
        """
        self._note_logs(head)
        block = head + 1
        # A group's validation follows its reveals in the same block; the reveals are in the block
        # after the last answer.
        sent = [*self._reveals(), *self._validations()]
        sent += [*self._answers(block), *self._timeouts(block), *self._downloads()]
        sent += self._contests.settlements()
        if self.is_idle and may_order:
            self.wave += 1
            sent += [*self._moves(), *self._orders()]
        return sent

    def _note_logs(self, head: int) -> None:
        """Read from the chain's logs which tasks were started, and how they ended."""
        if head <= self._seen:
            return
        log_filter = {
            "address": self._stage.network,
            "fromBlock": hex(self._seen + 1),
            "toBlock": hex(head),
            "topics": [list(self._handlers)],
        }
        self._seen = head
        for log in self._stage.chain.ask("eth_getLogs", log_filter):
            self._handlers[log["topics"][0]](log)

    def _note_request(self, log: Mapping[str, Any]) -> None:
        """Record that a node was asked to download a model."""
        model, _ = decode(["string", "uint256"], bytes.fromhex(log["data"][2:]))
        self._asked.append((Address("0x" + log["topics"][1][-40:]), model))

    def _note_revalidation(self, log: Mapping[str, Any]) -> None:
        """Record that the nodes of a second group repeat the work of a contested group."""
        group, second = (bytes.fromhex(topic[2:]) for topic in log["topics"][1:])
        result = self._contests.add_second_group(group, second)
        if result is not None:
            for job in self._probes[second].jobs:
                job.result = result

    def _note_comparison(self, log: Mapping[str, Any]) -> None:
        self._contests.note_comparison(bytes.fromhex(log["topics"][1][2:]))

    def _note_timeout(self, log: Mapping[str, Any]) -> None:
        job = self._job_of(log)
        if job is not None:
            job.settled = job.shown = True

    def _note_start(self, log: Mapping[str, Any]) -> None:
        """Record that a task was started on a node of the cast."""
        job, name = self._job_of(log), self._names.get(Address("0x" + log["topics"][2][-40:]))
        if job is not None and name is not None:
            self._begin(job, self._cast[name], int(log["blockNumber"], 16))

    def _job_of(self, log: Mapping[str, Any]) -> DemoTask | None:
        key = bytes.fromhex(log["topics"][1][2:])
        jobs = (job for group in self._all_groups() for job in group.jobs)
        return next((job for job in jobs if job.key == key), None)

    def _note_probe(self, log: Mapping[str, Any]) -> None:
        """Add a task that the dispatcher created, to its group if it has one."""
        _, key_topic, creator, group_topic = log["topics"]
        if not creator.endswith(self._stage.dispatcher[2:]):
            return
        key, group = bytes.fromhex(key_topic[2:]), bytes.fromhex(group_topic[2:])
        name = group if any(group) else key
        probe = self._probes.setdefault(name, Group(name))
        # All tasks of a group have the same result, so the group is the id of each.
        job = DemoTask(
            id=group,
            key=key,
            creator=self._stage.dispatcher,
            result=_result_of(name),
            group=group if any(group) else None,
            is_probe=True,
        )
        probe.jobs.append(job)

    def _all_groups(self) -> list[Group]:
        self._probes = {key: probe for key, probe in self._probes.items() if not probe.is_shown}
        return [*self._groups, *self._probes.values()]

    def _begin(self, job: DemoTask, node: DemoNode, block: int) -> None:
        blocks = node.answers_after(self.wave, self._chance)
        job.node, job.started_at = node, block
        job.answers_at = None if blocks is None else block + blocks
        can_lie = job.group is not None and not job.is_probe and blocks is not None
        if node.lies_once and node.name not in self._liars and can_lie:
            self._liars.add(node.name)
            job.is_lie = True

    def _answers(self, block: int) -> Iterator[Transaction]:
        for job in self._open_jobs():
            if job.node is None or job.answers_at is None or job.answers_at > block:
                continue
            job.settled = True
            account = self._stage.nodes[job.node.name]
            if job.group is None:
                job.shown = True
                yield self._stage.call(account, "TaskNetwork", "submitResult", job.key, job.answer)
                continue
            commitment = commitment_of(job.key, account, job.answer)
            yield self._stage.call(account, "TaskNetwork", "commitAnswer", job.key, commitment)

    def _downloads(self) -> Iterator[Transaction]:
        """Yield completed downloads, one block after each request."""
        for node, model in self._asked:
            yield self._stage.call(node, "TaskNetwork", "addModel", model)
        self._asked.clear()

    def _reveals(self) -> Iterator[Transaction]:
        """Yield all reveals of the settled groups in one block, those of fast nodes first."""
        for group in [group for group in self._all_groups() if group.is_settled]:
            for job in sorted(group.jobs, key=self._reveal_delay):
                if job.shown or job.node is None:
                    continue
                job.shown = True
                shown = (job.key, job.answer, SALT)
                account = self._stage.nodes[job.node.name]
                yield self._stage.call(account, "TaskNetwork", "revealAnswer", *shown)

    def _reveal_delay(self, job: DemoTask) -> int:
        node = job.node
        return 0 if node is None else self._latency.randint(node.fastest, node.slowest)

    def _timeouts(self, block: int) -> Iterator[Transaction]:
        """Yield timeouts of tasks that were not answered in time."""
        for job in self._open_jobs():
            if job.started_at is None or job.answers_at is not None or job.is_probe:
                continue
            if (block - job.started_at) * BLOCK_SECONDS > TASK_TIMEOUT:
                job.settled = job.shown = True
                yield self._say(job.creator, "timeOutTask", job.key)

    def _validations(self) -> Iterator[Transaction]:
        for group in [group for group in self._groups if group.is_shown]:
            self._groups.remove(group)
            keys = [job.key for job in group.jobs]
            if group.has_lie:
                self._contests.add(group)
            yield self._say(group.jobs[0].creator, "validateGroup", group.id, keys)

    def _moves(self) -> Iterator[Transaction]:
        """Nodes that go away for some waves, and come back."""
        for one in self._system.cast:
            account = self._stage.nodes[one.name]
            if self.wave in one.away and self.wave - 1 not in one.away:
                yield self._stage.call(account, "TaskNetwork", "pause")
            if self.wave not in one.away and self.wave - 1 in one.away:
                yield self._stage.call(account, "TaskNetwork", "resume")

    def _orders(self) -> Iterator[Transaction]:
        creators = self._stage.creators
        for place, order in enumerate(self._system.orders):
            group = Group(_id("group", self.wave, place, 0))
            ids = [_id("task", self.wave, place, member) for member in range(GROUP_SIZE)]
            creator = creators[(self.wave + place) % len(creators)]
            group_key, *keys = self._keys(creator, [group.id, *ids])
            result = _result_of(ids[0])
            group.jobs = [
                DemoTask(id_, key, creator, result, group_key)
                for id_, key in zip(ids, keys, strict=True)
            ]
            self._groups.append(group)
            for job in group.jobs:
                wanted = _order(job.id, group.id, order.kind)
                yield self._say(creator, "createTask", wanted, value=order.fee)

    def _open_jobs(self) -> Iterator[DemoTask]:
        return (job for group in self._all_groups() for job in group.jobs if not job.settled)

    def _say(
        self, creator: Address, function: str, *arguments: object, value: int = 0
    ) -> Transaction:
        return self._stage.call(creator, "TaskNetwork", function, *arguments, value=value)

    def _keys(self, creator: Address, ids: list[bytes]) -> list[bytes]:
        """Return the contract's keys of a creator's tasks and groups."""
        stage = self._stage
        asked = [encode_call("TaskNetwork", "keyOf", creator, id_) for id_ in ids]
        answers = stage.chain.ask_all(
            [("eth_call", {"to": stage.network, "data": one}, "latest") for one in asked]
        )
        return [decode_result("TaskNetwork", "keyOf", answer)[0] for answer in answers]


def commitment_of(task: bytes, node: Address, answer: bytes) -> bytes:
    """Return a node's commitment to an answer; `SALT` opens the commitment."""
    words = (task, bytes.fromhex(node[2:].rjust(64, "0")), answer, SALT)
    return bytes(keccak(b"".join(words)))


def _result_of(name: bytes) -> bytes:
    """Return the hash of the result that honest nodes compute for all tasks of a group.

    The ids of a group's tasks differ only in the last byte.
    """
    return hashlib.sha256(name[:-1]).digest()


def _order(id_: bytes, group: bytes, kind: int) -> tuple[object, ...]:
    """Return the struct Order of TaskNetwork."""
    any_gpu = (0, "", 0)
    return (id_, group, GROUP_SIZE, kind, *any_gpu, [MODEL], *VERSION, 1, TASK_TIMEOUT)


def _id(kind: str, wave: int, place: int, member: int) -> bytes:
    """Return a 32-byte id; the ids of a group's members differ only in the last byte."""
    head = hashlib.sha256(f"{kind} {wave} {place}".encode()).digest()[:31]
    return head + bytes([member])
