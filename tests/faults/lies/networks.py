"""Encodes a story for two networks: one with logs only, one with logs and calldata."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.mining import create_account
from oracle.resources import find_shipped_path
from tests.faults.lies.expected import Event, Watched
from tests.faults.lies.story import Deed
from tests.support.chain.network_logs import (
    NETWORK,
    encode_network_log,
    encode_task_created_log,
    group_key,
    task_key,
)

# Contracts of the second network, and one that nobody asked about.
TASKS, NODES, OTHER = "0x" + "7a" * 20, "0x" + "70" * 20, "0x" + "0f" * 20
CREATOR, RELAY = create_account(0xC0), create_account(0xE0)
GPU, VRAM, VERSION, MODEL = "NVIDIA GeForce RTX 4090", 24, (2, 5, 0), "crynux-ai/sdxl-turbo"


@dataclass(frozen=True, slots=True)
class Written:
    """One transaction and its events, by the position of the log; None for the call."""

    tx: Tx
    events: tuple[tuple[int | None, Event], ...] = ()


@dataclass(frozen=True)
class Network:
    """A profile, the data that its index stores, and the encoding of a story's deeds."""

    profile: str
    contracts: Mapping[str, str]
    watched: Watched
    codes: Mapping[str, str]
    write: Callable[[Deed], Written]


def _sender(number: int) -> str:
    return create_account(number)


def _event(kind: str, **more: Any) -> Event:
    return {"type": kind, **more}


# --- logs alone: the reference profile ---


def _in_logs(deed: Deed) -> Written:
    who = _sender(deed.node)
    if deed.what == "noise":
        return Written(
            Tx(RELAY, NETWORK, logs=(_foreign(), FakeLog(NETWORK, ("0x" + "ee" * 32,))))
        )
    if deed.what == "refused":
        return Written(Tx(who, NETWORK, input="0x" + "99" * 36, succeeded=False))
    if deed.what == "validate":
        return _validated_in_logs(deed)
    kind, log_fields = _LOGS[deed.what](deed)
    log = FakeLog(NETWORK, *log_fields)
    return Written(Tx(RELAY, NETWORK, logs=(_foreign(), log)), ((1, kind),))


def _said(event: str, **values: Any) -> tuple[tuple[str, ...], str]:
    log = encode_network_log(event, **values)
    return log.topics, log.data


def _foreign() -> FakeLog:
    """Return a log of another contract, which shifts the indexes of our logs."""
    return FakeLog(OTHER, ("0x" + "ab" * 32,), "0x01")


def _joined(deed: Deed) -> tuple[Event, tuple[tuple[str, ...], str]]:
    who = _sender(deed.node)
    major, minor, patch = VERSION
    log_fields = _said(
        "NodeJoined",
        node=who,
        stake=deed.fee,
        gpuName=GPU,
        gpuVram=VRAM,
        major=major,
        minor=minor,
        patch=patch,
        models=[MODEL],
    )
    return _event("node_joined", node=who), log_fields


def _of_node(name: str, kind: str) -> Callable[[Deed], tuple[Event, tuple[tuple[str, ...], str]]]:
    return lambda deed: (
        _event(kind, node=_sender(deed.node)),
        _said(name, node=_sender(deed.node)),
    )


def _created(deed: Deed) -> tuple[Event, tuple[tuple[str, ...], str]]:
    (number,) = deed.tasks
    log = encode_task_created_log(
        number, creator=CREATOR, fee=deed.fee, group=group_key(deed.group)
    )
    event = _event("task_created", task=task_key(number), fee=deed.fee, creator=CREATOR)
    return event, (log.topics, log.data)


def _of_task(name: str, kind: str, **more: Any) -> Callable[[Deed], Any]:
    def made(deed: Deed) -> tuple[Event, tuple[tuple[str, ...], str]]:
        key, who = task_key(deed.tasks[0]), _sender(deed.node)
        return _event(kind, task=key, node=who), _said(name, task=key, node=who, **more)

    return made


def _validated_in_logs(deed: Deed) -> Written:
    keys = [task_key(number) for number in deed.tasks]
    log_fields = [_said("GroupValidated", group=group_key(deed.group), tasks=keys)]
    events = [_event("group_validated", group=group_key(deed.group), tasks=keys)]
    names = (("TaskSucceeded", "task_succeeded"), ("TaskRefunded", "task_refunded"))
    # `deed.node` of them submitted; the others have ended already.
    for place, key in enumerate(keys[: deed.node]):
        name, kind = names[place > 0]
        who = _sender(deed.runners[place])
        log_fields.append(_said(name, task=key, node=who))
        events.append(_event(kind, task=key, node=who))
    logs = tuple(FakeLog(NETWORK, *fields) for fields in log_fields)
    return Written(Tx(RELAY, NETWORK, logs=logs), tuple(enumerate(events)))


_LOGS: Mapping[str, Callable[[Deed], Any]] = {
    "join": _joined,
    "pause": _of_node("NodePaused", "node_paused"),
    "resume": _of_node("NodeResumed", "node_resumed"),
    "create": _created,
    "start": _of_task("TaskStarted", "task_started"),
    "submit": _of_task("TaskSubmitted", "task_submitted", resultHash="0x" + "aa" * 32),
    "time_out": _of_task("TaskTimedOut", "task_timed_out", lastStatus=2),
}

# --- logs and calldata: the profile crynux-vss ---

_JOIN = "join(string,uint256,uint256[3],bytes,string[])"
_CREATE = "createTask(uint8,bytes32,bytes32,string[],uint256,string,uint256,uint256[3],uint256)"
_VALIDATE = "validateTaskGroup(bytes32,bytes32,bytes32,bytes32,bytes,bytes)"


def _in_calldata(deed: Deed) -> Written:
    return _CALLDATA[deed.what](deed)


def _call(signature: str, *values: Any) -> str:
    kinds = _split(signature.partition("(")[2][:-1])
    return "0x" + (keccak(text=signature)[:4] + encode(kinds, values)).hex()


def _split(kinds: str) -> list[str]:
    return kinds.split(",") if kinds else []


def _log(signature: str, *values: Any, at: str = TASKS) -> FakeLog:
    kinds = _split(signature.partition("(")[2][:-1])
    return FakeLog(at, ("0x" + keccak(text=signature).hex(),), "0x" + encode(kinds, values).hex())


def _raw(key: str) -> bytes:
    return bytes.fromhex(key[2:])


def _join(deed: Deed) -> Written:
    who = _sender(deed.node)
    sent = _call(_JOIN, GPU, VRAM, VERSION, b"key", [MODEL])
    tx = Tx(who, NODES, sent, value=deed.fee)
    return Written(tx, ((None, _event("node_joined", node=who)),))


def _refused(deed: Deed) -> Written:
    """Return a reverted join of a member, which has no effect."""
    sent = _call(_JOIN, GPU, VRAM, VERSION, b"key", [MODEL])
    return Written(Tx(_sender(deed.node), NODES, sent, value=1, succeeded=False))


def _asks(name: str, kind: str) -> Callable[[Deed], Written]:
    def made(deed: Deed) -> Written:
        who = _sender(deed.node)
        return Written(Tx(who, NODES, _call(f"{name}()")), ((None, _event(kind, node=who)),))

    return made


def _create(deed: Deed) -> Written:
    key = task_key(deed.tasks[0])
    sent = _call(_CREATE, 1, _raw(key), bytes(32), [MODEL], 8, GPU, VRAM, VERSION, 1)
    tx = Tx(CREATOR, TASKS, sent, deed.fee, logs=(_log("TaskQueued(bytes32)", _raw(key)),))
    event = _event("task_created", task=key, fee=deed.fee, creator=CREATOR)
    return Written(tx, ((None, event), (0, _event("task_queued", task=key))))


def _of_node_and_task(signature: str, kind: str, *more: Any) -> Callable[[Deed], Written]:
    def made(deed: Deed) -> Written:
        key, who = task_key(deed.tasks[0]), _sender(deed.node)
        log = _log(signature, _raw(key), who, *more)
        event = _event(kind, task=key, node=who)
        return Written(Tx(RELAY, TASKS, logs=(_foreign(), log)), ((1, event),))

    return made


def _time_out(deed: Deed) -> Written:
    key = task_key(deed.tasks[0])
    log = _log("TaskEndAborted(bytes32,address,uint8,uint8)", _raw(key), RELAY, 2, 1)
    event = _event("task_timed_out", task=key)
    return Written(Tx(RELAY, TASKS, logs=(log,)), ((0, event),))


def _validate(deed: Deed) -> Written:
    keys = [task_key(number) for number in deed.tasks]
    sent = _call(_VALIDATE, *map(_raw, keys), _raw(group_key(deed.group)), b"proof", b"key")
    events: list[tuple[int | None, Event]]
    logs, events = [], [(None, _event("group_validated", group=group_key(deed.group), tasks=keys))]
    ends = ("TaskEndGroupSuccess(bytes32)", "TaskEndGroupRefund(bytes32)")
    kinds = ("task_succeeded", "task_refunded")
    # `deed.node` of them submitted; the others have ended already.
    for place, key in enumerate(keys[: deed.node]):
        logs.append(_log(ends[place > 0], _raw(key)))
        events.append((place, _event(kinds[place > 0], task=key)))
    return Written(Tx(CREATOR, TASKS, sent, logs=tuple(logs)), tuple(events))


def _noise(_deed: Deed) -> Written:
    unknown = FakeLog(TASKS, ("0x" + "ee" * 32,), "0x")
    return Written(Tx(RELAY, TASKS, "0x12345678", logs=(_foreign(), unknown)))


_CALLDATA: Mapping[str, Callable[[Deed], Written]] = {
    "join": _join,
    "refused": _refused,
    "pause": _asks("pause", "node_pause_asked"),
    "resume": _asks("resume", "node_resumed"),
    "create": _create,
    "start": _of_node_and_task("TaskStarted(bytes32,address)", "task_started"),
    "submit": _of_node_and_task("TaskScoreReady(bytes32,address,bytes)", "task_submitted", b"s"),
    "time_out": _time_out,
    "validate": _validate,
    "noise": _noise,
}


@cache
def _code(contract: str) -> str:
    """Return the code of a shipped contract, which a daemon checks before it trusts an address."""
    artifact = msgspec.json.decode(find_shipped_path(f"abi/{contract}.json").read_bytes())
    return str(artifact["deployedBytecode"])


# First topics and functions of what the second network says that an index must know.
_EVENTS = (
    "TaskQueued(bytes32)",
    "TaskStarted(bytes32,address)",
    "TaskScoreReady(bytes32,address,bytes)",
    "TaskErrorReported(bytes32,address,uint8)",
    "TaskValidated(bytes32)",
    "TaskEndSuccess(bytes32)",
    "TaskEndInvalidated(bytes32)",
    "TaskEndGroupSuccess(bytes32)",
    "TaskEndGroupRefund(bytes32)",
    "TaskEndAborted(bytes32,address,uint8,uint8)",
    "NodeSlashed(address)",
    "NodeKickedOut(address)",
)
_TOPICS = tuple("0x" + keccak(text=signature).hex() for signature in _EVENTS)
_FUNCTIONS = (_JOIN, _CREATE, _VALIDATE, "pause()", "resume()", "quit()")


def _said_topics() -> tuple[str, ...]:
    """Return the first topics of all events that the first network emits in a story."""
    deeds = [Deed(name, 1, (1,), 1, 1) for name in _LOGS]
    deeds.append(Deed("validate", 2, (1, 2, 3), 1, runners=(1, 2)))
    logs = [log for deed in deeds for log in _in_logs(deed).tx.logs]
    return tuple({log.topics[0] for log in logs if log.address == NETWORK})


REFERENCE = Network(
    "reference",
    {"TaskNetwork": NETWORK},
    Watched((NETWORK,), _said_topics()),
    {NETWORK: _code("TaskNetwork")},
    _in_logs,
)
VSS = Network(
    "crynux-vss",
    {"VSSTask": TASKS, "Node": NODES},
    Watched((TASKS, NODES), _TOPICS, tuple("0x" + keccak(text=f)[:4].hex() for f in _FUNCTIONS)),
    # Whoever checks the code looks for the topics in it.
    dict.fromkeys((TASKS, NODES), "0x" + "".join(topic[2:] for topic in _TOPICS)),
    _in_calldata,
)
NETWORKS = {one.profile: one for one in (REFERENCE, VSS)}
