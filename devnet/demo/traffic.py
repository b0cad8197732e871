"""Simulates creators that order groups of tasks, and nodes that run dispatched tasks.

Creators order and validate tasks, and nodes answer them. Each of them acts when the chain's logs
show that an action is due. The daemon draws the node of each task. The nodes of a group first
commit to their answers. Once all have committed, they reveal, the faster ones first. The nodes
also answer the dispatcher's system tasks, which the dispatcher validates. If a node submitted a
false result, the group is contested: the nodes of a second group do the same work, and an honest
member of the first group settles the contest with the correct result.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak

from devnet.demo.contested_groups import ContestTracker, DemoGroup, DemoTask
from devnet.demo.demo_nodes import (
    BLOCK_SECONDS,
    BURST_GROUPS,
    BURST_WAVE,
    GROUP_SIZE,
    TASK_TIMEOUT,
    DemoNode,
)
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem, GroupOrder
from devnet.demo.stage import MODEL, VERSION, Stage
from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address

Transaction = dict[str, str]
# A real node draws a new salt for each answer; the demo's answers need no secrecy.
SALT = bytes(31) + b"\x01"


class DemoTraffic:
    """Generates one wave after another.

    The same seed produces the same tasks and answers.
    """

    def __init__(self, stage: Stage, seed: int, system: DemoSystem = CRYNUX_SYSTEM) -> None:
        self._stage = stage
        self._system = system
        # These numbers are not secret; the seed makes the nodes behave alike in every run.
        self._random = random.Random(seed)  # noqa: S311
        # Reveal delays have their own random source, so that they do not affect the delays of
        # answers.
        self._reveal_random = random.Random(seed)  # noqa: S311
        network = load_abi("TaskNetwork")
        self._handler_by_topic = {
            network.get_event("TaskCreated").digest: self._handle_task_created,
            network.get_event("TaskStarted").digest: self._handle_task_started,
            network.get_event("TaskTimedOut").digest: self._handle_task_timed_out,
            network.get_event("DownloadRequested").digest: self._handle_download_requested,
            network.get_event("GroupRevalidates").digest: self._handle_group_revalidates,
            network.get_event("GroupValidated").digest: self._handle_group_validated,
        }
        # Requested downloads that have not been completed, as (node, model).
        self._requested_downloads: list[tuple[Address, str]] = []
        self._name_by_address = {address: name for name, address in stage.nodes.items()}
        self._node_by_name = {node.name: node for node in system.nodes}
        self._groups: list[DemoGroup] = []
        # Groups of system tasks by group key. A system task without a group is stored as a group
        # under its task key.
        self._probe_groups: dict[bytes, DemoGroup] = {}
        self._contest_tracker = ContestTracker(stage)
        # Names of nodes that have already submitted a false result.
        self._liar_names: set[str] = set()
        self._last_read_block = -1
        # Number of the current wave, counted from 0, or -1 before the first wave.
        self.wave = -1

    @property
    def is_idle(self) -> bool:
        """Whether no group is open."""
        return not self._groups

    @property
    def has_open_contest(self) -> bool:
        """Whether a contested group waits for its second group or for its settlement."""
        return self._contest_tracker.has_open_contests

    def build_next_transactions(self, head: int, *, may_order: bool = True) -> list[Transaction]:
        """Build the transactions of nodes and creators for the block after `head`.

        If `may_order` is set, the next wave is ordered in the block that judges the last group.
        """
        self._process_new_logs(head)
        next_block_number = head + 1
        # All reveals of a group come in the block after its last answer. The validation follows
        # them in the same block.
        transactions = [*self._build_reveals(), *self._build_validations()]
        transactions += [
            *self._build_answers(next_block_number),
            *self._build_timeouts(next_block_number),
            *self._build_download_completions(),
        ]
        transactions += self._contest_tracker.build_settlements()
        if self.is_idle and may_order:
            self.wave += 1
            transactions += [*self._build_pauses_and_resumes(), *self._build_task_orders()]
        return transactions

    def _process_new_logs(self, head: int) -> None:
        """Find out from the chain's logs which tasks were started, and how they ended."""
        if head <= self._last_read_block:
            return
        log_filter = {
            "address": self._stage.network,
            "fromBlock": hex(self._last_read_block + 1),
            "toBlock": hex(head),
            "topics": [list(self._handler_by_topic)],
        }
        self._last_read_block = head
        for log in self._stage.chain.make_request("eth_getLogs", log_filter):
            self._handler_by_topic[log["topics"][0]](log)

    def _handle_download_requested(self, log: Mapping[str, Any]) -> None:
        """Record that a node was asked to download a model."""
        model, _ = decode(["string", "uint256"], bytes.fromhex(log["data"][2:]))
        self._requested_downloads.append((Address("0x" + log["topics"][1][-40:]), model))

    def _handle_group_revalidates(self, log: Mapping[str, Any]) -> None:
        """Record that a second group computes the tasks of a contested group again."""
        group, second_group = (bytes.fromhex(topic[2:]) for topic in log["topics"][1:])
        result = self._contest_tracker.link_second_group(group, second_group)
        if result is not None:
            for task in self._probe_groups[second_group].tasks:
                task.result = result

    def _handle_group_validated(self, log: Mapping[str, Any]) -> None:
        self._contest_tracker.mark_contest_decided(bytes.fromhex(log["topics"][1][2:]))

    def _handle_task_timed_out(self, log: Mapping[str, Any]) -> None:
        task = self._find_task(log)
        if task is not None:
            task.is_committed = task.is_revealed = True

    def _handle_task_started(self, log: Mapping[str, Any]) -> None:
        """Record that a task was started on a demo node."""
        task = self._find_task(log)
        name = self._name_by_address.get(Address("0x" + log["topics"][2][-40:]))
        if task is not None and name is not None:
            self._record_task_start(task, self._node_by_name[name], int(log["blockNumber"], 16))

    def _find_task(self, log: Mapping[str, Any]) -> DemoTask | None:
        contract_key = bytes.fromhex(log["topics"][1][2:])
        open_tasks = (task for group in self._list_open_groups() for task in group.tasks)
        return next((task for task in open_tasks if task.contract_key == contract_key), None)

    def _handle_task_created(self, log: Mapping[str, Any]) -> None:
        """Record a task that the dispatcher created, and add it to its group if there is one."""
        _, key_topic, creator, group_topic = log["topics"]
        if not creator.endswith(self._stage.dispatcher[2:]):
            return
        key = bytes.fromhex(key_topic[2:])
        group_key = bytes.fromhex(group_topic[2:])
        probe_key = group_key if any(group_key) else key
        probe_group = self._probe_groups.setdefault(probe_key, DemoGroup(probe_key))
        # All tasks of a group have the same result, so the group's key serves as the id of each
        # task.
        task = DemoTask(
            id=group_key,
            contract_key=key,
            creator=self._stage.dispatcher,
            result=_compute_result(probe_key),
            group=group_key if any(group_key) else None,
            is_probe=True,
        )
        probe_group.tasks.append(task)

    def _list_open_groups(self) -> list[DemoGroup]:
        self._probe_groups = {
            key: probe for key, probe in self._probe_groups.items() if not probe.is_fully_revealed
        }
        return [*self._groups, *self._probe_groups.values()]

    def _record_task_start(self, task: DemoTask, node: DemoNode, start_block: int) -> None:
        answer_delay = node.sample_answer_delay(self.wave, self._random)
        if task.creator == self._stage.failing_creator:
            answer_delay = None
        task.node, task.started_at = node, start_block
        task.answer_due_at = None if answer_delay is None else start_block + answer_delay
        can_lie = task.group is not None and not task.is_probe and answer_delay is not None
        if node.lies_once and node.name not in self._liar_names and can_lie:
            self._liar_names.add(node.name)
            task.is_false = True

    def _build_answers(self, block_number: int) -> Iterator[Transaction]:
        for task in self._iter_open_tasks():
            if (
                task.node is None
                or task.answer_due_at is None
                or task.answer_due_at > block_number
            ):
                continue
            task.is_committed = True
            node_address = self._stage.nodes[task.node.name]
            if task.group is None:
                task.is_revealed = True
                yield self._stage.build_transaction(
                    node_address,
                    "TaskNetwork",
                    "submitResult",
                    task.contract_key,
                    task.commitment_hash,
                )
                continue
            commitment = compute_commitment(task.contract_key, node_address, task.commitment_hash)
            yield self._stage.build_transaction(
                node_address, "TaskNetwork", "commitAnswer", task.contract_key, commitment
            )

    def _build_download_completions(self) -> Iterator[Transaction]:
        """Yield the completion of each download, one block after its request."""
        for node, model in self._requested_downloads:
            yield self._stage.build_transaction(node, "TaskNetwork", "addModel", model)
        self._requested_downloads.clear()

    def _build_reveals(self) -> Iterator[Transaction]:
        """Yield reveals for groups whose nodes have all committed.

        The fastest nodes come first.
        """
        for group in [group for group in self._list_open_groups() if group.is_fully_committed]:
            for task in sorted(group.tasks, key=self._sample_reveal_delay):
                if task.is_revealed or task.node is None:
                    continue
                task.is_revealed = True
                reveal_arguments = (task.contract_key, task.commitment_hash, SALT)
                node_address = self._stage.nodes[task.node.name]
                yield self._stage.build_transaction(
                    node_address, "TaskNetwork", "revealAnswer", *reveal_arguments
                )

    def _sample_reveal_delay(self, task: DemoTask) -> int:
        node = task.node
        if node is None:
            return 0
        return self._reveal_random.randint(node.min_answer_blocks, node.max_answer_blocks)

    def _build_timeouts(self, block_number: int) -> Iterator[Transaction]:
        """Yield timeouts of tasks that were not answered in time."""
        for task in self._iter_open_tasks():
            if task.started_at is None or task.answer_due_at is not None or task.is_probe:
                continue
            if (block_number - task.started_at) * BLOCK_SECONDS > TASK_TIMEOUT:
                task.is_committed = task.is_revealed = True
                yield self._build_creator_transaction(
                    task.creator, "timeOutTask", task.contract_key
                )

    def _build_validations(self) -> Iterator[Transaction]:
        for group in [group for group in self._groups if group.is_fully_revealed]:
            self._groups.remove(group)
            keys = [task.contract_key for task in group.tasks]
            if group.has_false_answer:
                self._contest_tracker.add_contested_group(group)
            yield self._build_creator_transaction(
                group.tasks[0].creator, "validateGroup", group.id, keys
            )

    def _build_pauses_and_resumes(self) -> Iterator[Transaction]:
        """Yield the pauses and resumptions of nodes that are away during some waves."""
        for node in self._system.nodes:
            node_address = self._stage.nodes[node.name]
            if self.wave in node.away_waves and self.wave - 1 not in node.away_waves:
                yield self._stage.build_transaction(node_address, "TaskNetwork", "pause")
            if self.wave not in node.away_waves and self.wave - 1 in node.away_waves:
                yield self._stage.build_transaction(node_address, "TaskNetwork", "resume")

    def _build_task_orders(self) -> Iterator[Transaction]:
        creators, orders = self._stage.creators, self._system.orders
        if self._system.has_burst and self.wave == BURST_WAVE:
            any_node_orders = tuple(order for order in orders if not order.min_vram)
            creators = (self._stage.failing_creator,)
            orders = any_node_orders[:BURST_GROUPS]
        for group_index, order in enumerate(orders):
            group = DemoGroup(_derive_id("group", self.wave, group_index, 0))
            task_ids = [
                _derive_id("task", self.wave, group_index, member_index)
                for member_index in range(GROUP_SIZE)
            ]
            creator = (
                self._stage.large_creator
                if order.min_vram
                else creators[(self.wave + group_index) % len(creators)]
            )
            group_key, *keys = self._fetch_contract_keys(creator, [group.id, *task_ids])
            result = _compute_result(task_ids[0])
            group.tasks = [
                DemoTask(id_, key, creator, result, group_key)
                for id_, key in zip(task_ids, keys, strict=True)
            ]
            self._groups.append(group)
            for task in group.tasks:
                order_struct = _build_order_struct(task.id, group.id, order)
                yield self._build_creator_transaction(
                    creator, "createTask", order_struct, value=order.fee
                )

    def _iter_open_tasks(self) -> Iterator[DemoTask]:
        return (
            task
            for group in self._list_open_groups()
            for task in group.tasks
            if not task.is_committed
        )

    def _build_creator_transaction(
        self, creator: Address, function_name: str, *arguments: object, value: int = 0
    ) -> Transaction:
        return self._stage.build_transaction(
            creator, "TaskNetwork", function_name, *arguments, value=value
        )

    def _fetch_contract_keys(self, creator: Address, ids: list[bytes]) -> list[bytes]:
        """Fetch the contract's keys for the tasks and groups of a creator."""
        stage = self._stage
        calldata_list = [encode_call("TaskNetwork", "keyOf", creator, id_) for id_ in ids]
        results = stage.chain.make_batch_request(
            [
                ("eth_call", {"to": stage.network, "data": calldata}, "latest")
                for calldata in calldata_list
            ]
        )
        return [decode_result("TaskNetwork", "keyOf", result)[0] for result in results]


def compute_commitment(task: bytes, node: Address, answer: bytes) -> bytes:
    """Compute a node's commitment to an answer.

    `SALT` opens the commitment.
    """
    committed_fields = (task, bytes.fromhex(node[2:].rjust(64, "0")), answer, SALT)
    return bytes(keccak(b"".join(committed_fields)))


def _compute_result(group_id: bytes) -> bytes:
    """Compute the hash of the result that honest nodes return for all tasks of a group.

    The ids of a group's tasks differ only in the last byte.
    """
    return hashlib.sha256(group_id[:-1]).digest()


def _build_order_struct(id_: bytes, group: bytes, order: GroupOrder) -> tuple[object, ...]:
    gpu_requirement = (order.min_vram, "", 0)
    return (
        id_,
        group,
        GROUP_SIZE,
        order.task_kind,
        *gpu_requirement,
        [MODEL],
        *VERSION,
        1,
        TASK_TIMEOUT,
    )


def _derive_id(kind: str, wave: int, group_index: int, member_index: int) -> bytes:
    """Derive a 32-byte id.

    The ids of a group's members differ only in the last byte.
    """
    id_prefix = hashlib.sha256(f"{kind} {wave} {group_index}".encode()).digest()[:31]
    return id_prefix + bytes([member_index])
