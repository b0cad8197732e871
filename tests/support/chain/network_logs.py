"""Logs of TaskNetwork and QoSRoots, encoded by eth_abi from the artifacts."""

from functools import cache
from typing import Any

from eth_abi.abi import encode

from oracle.chain.decode.abi import load_abi
from oracle.chain.decode.oracle_logs import ORACLE_CONTRACT
from oracle.domain.blocks import Position
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.logs import Log
from tests.support.chain.memory_chain import UnminedLog

NETWORK = Address("0x" + "4e" * 20)
ORACLE = Address("0x" + "0a" * 20)


def make_node_address(number: int) -> Address:
    return Address(f"0x{number:040x}")


def make_task_key(number: int) -> TaskKey:
    return TaskKey(f"0x{number:064x}")


def make_group_key(number: int) -> GroupKey:
    return GroupKey(f"0x{0xFF << 240 | number:064x}")


def make_hash(number: int) -> Hash:
    return Hash(f"0x{0xAA << 240 | number:064x}")


def encode_log(contract: str, address: str, event: str, **values: Any) -> UnminedLog:
    """Return the log of an event of a shipped contract.

    Addresses and 32-byte values are given as hex. An omitted value is zero.
    """
    signature = load_abi(contract).get_event(event)
    topics = [signature.digest]
    plain: list[tuple[str, Any]] = []
    for parameter in signature.inputs:
        value = values.pop(parameter.name, _ZERO_BY_TYPE.get(parameter.abi_type, 0))
        if parameter.indexed:
            topics.append(
                "0x"
                + encode([parameter.abi_type], [_to_abi_value(parameter.abi_type, value)]).hex()
            )
        else:
            plain.append((parameter.abi_type, _to_abi_value(parameter.abi_type, value)))
    if values:
        raise ValueError(f"{event} has no {', '.join(values)}")
    data = encode([kind for kind, _ in plain], [value for _, value in plain])
    return UnminedLog(address, tuple(topics), "0x" + data.hex())


def encode_network_log(event: str, **values: Any) -> UnminedLog:
    return encode_log("TaskNetwork", NETWORK, event, **values)


def encode_oracle_log(event: str, **values: Any) -> UnminedLog:
    return encode_log(ORACLE_CONTRACT, ORACLE, event, **values)


_ZERO_BY_TYPE = {"address": make_node_address(0), "bytes32": make_task_key(0), "string": ""}


def _to_abi_value(kind: str, value: Any) -> Any:
    if kind == "bytes32":
        return bytes.fromhex(value[2:])
    return [_to_abi_value("bytes32", word) for word in value] if kind == "bytes32[]" else value


@cache
def get_task_created_log(number: int) -> UnminedLog:
    """Return the TaskCreated log with this number; logs are cached, because tests use many."""
    return encode_task_created_log(number)


def encode_task_created_log(number: int, **changed: Any) -> UnminedLog:
    """Return a TaskCreated log with usual values, except those in `changed`."""
    values = {
        "task": make_task_key(number),
        "creator": make_node_address(0xC0),
        "group": make_group_key(number),
        "fee": 3 * 10**18,
        "kind": 1,
        "minVram": 8,
        "requiredGpu": "NVIDIA GeForce RTX 4090",
        "requiredGpuVram": 24,
        "models": ["crynux-ai/sdxl-turbo", "lora"],
        "major": 2,
        "minor": 5,
        "patch": 0,
        "size": 1,
        "timeout": 300,
        "groupSize": 3,
    }
    return encode_network_log("TaskCreated", **{**values, **changed})


# The position and block time that `as_log` gives to a log.
AT = Position(7, 2, 3)
TIME = 100


def to_mined_log(event: UnminedLog) -> Log:
    who = Address(event.address)
    return Log(7, make_hash(7), TIME, 2, make_hash(2), 3, who, event.topics, event.data)
