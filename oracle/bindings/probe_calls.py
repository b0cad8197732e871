"""Encodes the calls for system tasks: TaskNetwork's `probe`, and those that end tasks.

See docs/explanation/dispatch.md#how-system-tasks-are-sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from oracle.bindings.codec import decode_arguments, encode_call
from oracle.bindings.task_network import CONTRACT
from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.network_events import TaskKind, Version
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Task

_WORD_BYTES = 32
_KINDS = tuple(TaskKind)


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """The parameters of a system task.

    `size` is in units of work, `timeout` in seconds, and `fee` in wei.
    """

    kind: TaskKind
    models: tuple[str, ...]
    size: int
    timeout: int
    fee: int


def encode_probe_call(
    order: ProbeOrder, window: int, nodes: Sequence[Address], version: Version
) -> str:
    """Encode the call that creates a window's system task and starts it on nodes.

    The task id is derived from the window and the first node, so that the contract rejects a
    duplicate.
    """
    seed = f"probe {window} {nodes[0]}".encode()
    # The last byte of a task id is the task's index in its group.
    task_id = sha256(seed).digest()[:-1] + b"\0"
    is_group = len(nodes) > 1
    task_order = (
        task_id,
        task_id if is_group else bytes(_WORD_BYTES),
        len(nodes) if is_group else 0,
        _KINDS.index(order.kind),
        *(0, "", 0),
        list(order.models),
        *version,
        order.size,
        order.timeout,
    )
    return encode_call(CONTRACT, "probe", task_order, order.fee, list(nodes), bytes(_WORD_BYTES))


def encode_second_group_call(
    task: Task, fee: int, nodes: Sequence[Address], contested: GroupKey
) -> str:
    """Encode the call for a task in which nodes repeat a contested group's work.

    `task` is one of the contested group's tasks. The ids are derived from the contested group, so
    that the contract rejects another second group of the same creator.
    """
    task_id = sha256(f"second group {contested}".encode()).digest()[:-1] + b"\0"
    order = (
        task_id,
        task_id,
        len(nodes),
        0 if task.kind is None else _KINDS.index(task.kind),
        *(task.min_vram or 0, task.required_gpu or "", task.required_gpu_vram or 0),
        list(task.models),
        *(task.version or (0, 0, 0)),
        task.size or 0,
        task.timeout or 0,
    )
    return encode_call(CONTRACT, "probe", order, fee, list(nodes), bytes.fromhex(contested[2:]))


def decode_probe_nodes(calldata: str) -> tuple[Address, ...]:
    """Decode the nodes of a `probe` call, in the order of their tasks."""
    nodes = decode_arguments(CONTRACT, "probe", calldata)["nodes"]
    return tuple(Address(str(node).lower()) for node in nodes)


def compute_total_probe_fee(calldata: str) -> int:
    """Return the total fees, in wei, that a system task locks in the contract."""
    arguments = decode_arguments(CONTRACT, "probe", calldata)
    return int(arguments["fee"]) * len(arguments["nodes"])


def compute_probe_task_keys(calldata: str, creator: Address) -> list[TaskKey]:
    """Compute the keys of the tasks that a `probe` call creates, in node order."""
    arguments = decode_arguments(CONTRACT, "probe", calldata)
    first_id = int.from_bytes(arguments["order"][0])
    padded_creator = bytes.fromhex(creator[2:].rjust(2 * _WORD_BYTES, "0"))
    task_ids = [
        (first_id + index).to_bytes(_WORD_BYTES) for index in range(len(arguments["nodes"]))
    ]
    return [TaskKey("0x" + keccak(padded_creator + task_id).hex()) for task_id in task_ids]


def encode_validate_task_call(key: TaskKey) -> str:
    """Encode the call that accepts the result of a task without a group."""
    return encode_call(CONTRACT, "validateTask", bytes.fromhex(key[2:]))


def encode_accept_error_call(key: TaskKey) -> str:
    """Encode the call that accepts the error report of a task without a group.

    Accepting it means that the task cannot be run.
    """
    return encode_call(CONTRACT, "acceptError", bytes.fromhex(key[2:]))


def encode_time_out_task_call(key: TaskKey) -> str:
    """Encode the call that ends a task whose node did not answer or did not reveal."""
    return encode_call(CONTRACT, "timeOutTask", bytes.fromhex(key[2:]))


def encode_validate_group_call(calldata: str, creator: Address) -> str:
    """Encode the call that makes the contract compare a system task's answers."""
    keys = [bytes.fromhex(key[2:]) for key in compute_probe_task_keys(calldata, creator)]
    group_id = decode_arguments(CONTRACT, "probe", calldata)["order"][1]
    return encode_call(CONTRACT, "validateGroup", group_id, keys)
