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
from tests.faults.lies.story import Action
from tests.support.chain.network_logs import (
    NETWORK,
    encode_network_log,
    encode_task_created_log,
    make_group_key,
    make_task_key,
)

# Contracts of the second network, and one that is not indexed.
TASKS = "0x" + "7a" * 20
NODES = "0x" + "70" * 20
OTHER = "0x" + "0f" * 20
CREATOR = create_account(0xC0)
RELAY = create_account(0xE0)
GPU = "NVIDIA GeForce RTX 4090"
VRAM = 24
VERSION = (2, 5, 0)
MODEL = "crynux-ai/sdxl-turbo"


@dataclass(frozen=True, slots=True)
class EncodedTransaction:
    """One transaction and its events, by the position of the log; None for the call."""

    tx: Tx
    events: tuple[tuple[int | None, Event], ...] = ()


@dataclass(frozen=True)
class Network:
    """A profile, the data that its index stores, and the encoding of a story's actions."""

    profile: str
    contracts: Mapping[str, str]
    watched: Watched
    codes: Mapping[str, str]
    write: Callable[[Action], EncodedTransaction]


def _make_sender_address(number: int) -> str:
    return create_account(number)


def _make_event(kind: str, **more: Any) -> Event:
    return {"type": kind, **more}


# --- logs alone: the reference profile ---


def _encode_in_logs(action: Action) -> EncodedTransaction:
    who = _make_sender_address(action.node)
    if action.kind == "noise":
        return EncodedTransaction(
            Tx(RELAY, NETWORK, logs=(_make_foreign_log(), FakeLog(NETWORK, ("0x" + "ee" * 32,))))
        )
    if action.kind == "refused":
        return EncodedTransaction(Tx(who, NETWORK, input="0x" + "99" * 36, succeeded=False))
    if action.kind == "validate":
        return _encode_validation_in_logs(action)
    kind, log_fields = _LOGS[action.kind](action)
    log = FakeLog(NETWORK, *log_fields)
    return EncodedTransaction(Tx(RELAY, NETWORK, logs=(_make_foreign_log(), log)), ((1, kind),))


def _encode_event(event: str, **values: Any) -> tuple[tuple[str, ...], str]:
    log = encode_network_log(event, **values)
    return log.topics, log.data


def _make_foreign_log() -> FakeLog:
    """Return a log of another contract, which shifts the indexes of our logs."""
    return FakeLog(OTHER, ("0x" + "ab" * 32,), "0x01")


def _encode_join(action: Action) -> tuple[Event, tuple[tuple[str, ...], str]]:
    who = _make_sender_address(action.node)
    major, minor, patch = VERSION
    log_fields = _encode_event(
        "NodeJoined",
        node=who,
        stake=action.fee,
        gpuName=GPU,
        gpuVram=VRAM,
        major=major,
        minor=minor,
        patch=patch,
        models=[MODEL],
    )
    return _make_event("node_joined", node=who), log_fields


def _build_node_encoder(
    name: str, kind: str
) -> Callable[[Action], tuple[Event, tuple[tuple[str, ...], str]]]:
    return lambda action: (
        _make_event(kind, node=_make_sender_address(action.node)),
        _encode_event(name, node=_make_sender_address(action.node)),
    )


def _encode_creation(action: Action) -> tuple[Event, tuple[tuple[str, ...], str]]:
    (number,) = action.tasks
    log = encode_task_created_log(
        number, creator=CREATOR, fee=action.fee, group=make_group_key(action.group)
    )
    event = _make_event(
        "task_created", task=make_task_key(number), fee=action.fee, creator=CREATOR
    )
    return event, (log.topics, log.data)


def _build_task_encoder(name: str, kind: str, **more: Any) -> Callable[[Action], Any]:
    def made(action: Action) -> tuple[Event, tuple[tuple[str, ...], str]]:
        key = make_task_key(action.tasks[0])
        who = _make_sender_address(action.node)
        return _make_event(kind, task=key, node=who), _encode_event(
            name, task=key, node=who, **more
        )

    return made


def _encode_validation_in_logs(action: Action) -> EncodedTransaction:
    keys = [make_task_key(number) for number in action.tasks]
    log_fields = [_encode_event("GroupValidated", group=make_group_key(action.group), tasks=keys)]
    events = [_make_event("group_validated", group=make_group_key(action.group), tasks=keys)]
    names = (("TaskSucceeded", "task_succeeded"), ("TaskRefunded", "task_refunded"))
    # `action.node` of them submitted; the others have ended already.
    for place, key in enumerate(keys[: action.node]):
        name, kind = names[place > 0]
        who = _make_sender_address(action.runners[place])
        log_fields.append(_encode_event(name, task=key, node=who))
        events.append(_make_event(kind, task=key, node=who))
    logs = tuple(FakeLog(NETWORK, *fields) for fields in log_fields)
    return EncodedTransaction(Tx(RELAY, NETWORK, logs=logs), tuple(enumerate(events)))


_LOGS: Mapping[str, Callable[[Action], Any]] = {
    "join": _encode_join,
    "pause": _build_node_encoder("NodePaused", "node_paused"),
    "resume": _build_node_encoder("NodeResumed", "node_resumed"),
    "create": _encode_creation,
    "start": _build_task_encoder("TaskStarted", "task_started"),
    "submit": _build_task_encoder("TaskSubmitted", "task_submitted", resultHash="0x" + "aa" * 32),
    "time_out": _build_task_encoder("TaskTimedOut", "task_timed_out", lastStatus=2),
}

# --- logs and calldata: the profile crynux-vss ---

_JOIN = "join(string,uint256,uint256[3],bytes,string[])"
_CREATE = "createTask(uint8,bytes32,bytes32,string[],uint256,string,uint256,uint256[3],uint256)"
_VALIDATE = "validateTaskGroup(bytes32,bytes32,bytes32,bytes32,bytes,bytes)"


def _encode_in_calldata(action: Action) -> EncodedTransaction:
    return _CALLDATA[action.kind](action)


def _encode_call(signature: str, *values: Any) -> str:
    kinds = _split_types(signature.partition("(")[2][:-1])
    return "0x" + (keccak(text=signature)[:4] + encode(kinds, values)).hex()


def _split_types(kinds: str) -> list[str]:
    return kinds.split(",") if kinds else []


def _encode_log(signature: str, *values: Any, at: str = TASKS) -> FakeLog:
    kinds = _split_types(signature.partition("(")[2][:-1])
    return FakeLog(at, ("0x" + keccak(text=signature).hex(),), "0x" + encode(kinds, values).hex())


def _key_to_bytes(key: str) -> bytes:
    return bytes.fromhex(key[2:])


def _encode_join_call(action: Action) -> EncodedTransaction:
    who = _make_sender_address(action.node)
    sent = _encode_call(_JOIN, GPU, VRAM, VERSION, b"key", [MODEL])
    tx = Tx(who, NODES, sent, value=action.fee)
    return EncodedTransaction(tx, ((None, _make_event("node_joined", node=who)),))


def _encode_refused_call(action: Action) -> EncodedTransaction:
    """Return a reverted join of a member, which has no effect."""
    sent = _encode_call(_JOIN, GPU, VRAM, VERSION, b"key", [MODEL])
    return EncodedTransaction(
        Tx(_make_sender_address(action.node), NODES, sent, value=1, succeeded=False)
    )


def _build_request_encoder(name: str, kind: str) -> Callable[[Action], EncodedTransaction]:
    def made(action: Action) -> EncodedTransaction:
        who = _make_sender_address(action.node)
        return EncodedTransaction(
            Tx(who, NODES, _encode_call(f"{name}()")), ((None, _make_event(kind, node=who)),)
        )

    return made


def _encode_create_call(action: Action) -> EncodedTransaction:
    key = make_task_key(action.tasks[0])
    sent = _encode_call(
        _CREATE, 1, _key_to_bytes(key), bytes(32), [MODEL], 8, GPU, VRAM, VERSION, 1
    )
    tx = Tx(
        CREATOR,
        TASKS,
        sent,
        action.fee,
        logs=(_encode_log("TaskQueued(bytes32)", _key_to_bytes(key)),),
    )
    event = _make_event("task_created", task=key, fee=action.fee, creator=CREATOR)
    return EncodedTransaction(tx, ((None, event), (0, _make_event("task_queued", task=key))))


def _build_node_and_task_encoder(
    signature: str, kind: str, *more: Any
) -> Callable[[Action], EncodedTransaction]:
    def made(action: Action) -> EncodedTransaction:
        key = make_task_key(action.tasks[0])
        who = _make_sender_address(action.node)
        log = _encode_log(signature, _key_to_bytes(key), who, *more)
        event = _make_event(kind, task=key, node=who)
        return EncodedTransaction(Tx(RELAY, TASKS, logs=(_make_foreign_log(), log)), ((1, event),))

    return made


def _encode_timeout(action: Action) -> EncodedTransaction:
    key = make_task_key(action.tasks[0])
    log = _encode_log(
        "TaskEndAborted(bytes32,address,uint8,uint8)", _key_to_bytes(key), RELAY, 2, 1
    )
    event = _make_event("task_timed_out", task=key)
    return EncodedTransaction(Tx(RELAY, TASKS, logs=(log,)), ((0, event),))


def _encode_validate_call(action: Action) -> EncodedTransaction:
    keys = [make_task_key(number) for number in action.tasks]
    sent = _encode_call(
        _VALIDATE,
        *map(_key_to_bytes, keys),
        _key_to_bytes(make_group_key(action.group)),
        b"proof",
        b"key",
    )
    events: list[tuple[int | None, Event]]
    logs = []
    events = [
        (None, _make_event("group_validated", group=make_group_key(action.group), tasks=keys))
    ]
    ends = ("TaskEndGroupSuccess(bytes32)", "TaskEndGroupRefund(bytes32)")
    kinds = ("task_succeeded", "task_refunded")
    # `action.node` of them submitted; the others have ended already.
    for place, key in enumerate(keys[: action.node]):
        logs.append(_encode_log(ends[place > 0], _key_to_bytes(key)))
        events.append((place, _make_event(kinds[place > 0], task=key)))
    return EncodedTransaction(Tx(CREATOR, TASKS, sent, logs=tuple(logs)), tuple(events))


def _encode_noise(_deed: Action) -> EncodedTransaction:
    unknown = FakeLog(TASKS, ("0x" + "ee" * 32,), "0x")
    return EncodedTransaction(Tx(RELAY, TASKS, "0x12345678", logs=(_make_foreign_log(), unknown)))


_CALLDATA: Mapping[str, Callable[[Action], EncodedTransaction]] = {
    "join": _encode_join_call,
    "refused": _encode_refused_call,
    "pause": _build_request_encoder("pause", "node_pause_asked"),
    "resume": _build_request_encoder("resume", "node_resumed"),
    "create": _encode_create_call,
    "start": _build_node_and_task_encoder("TaskStarted(bytes32,address)", "task_started"),
    "submit": _build_node_and_task_encoder(
        "TaskScoreReady(bytes32,address,bytes)", "task_submitted", b"s"
    ),
    "time_out": _encode_timeout,
    "validate": _encode_validate_call,
    "noise": _encode_noise,
}


@cache
def _load_code(contract: str) -> str:
    """Return the code of a shipped contract, which a daemon checks before it trusts an address."""
    artifact = msgspec.json.decode(find_shipped_path(f"abi/{contract}.json").read_bytes())
    return str(artifact["deployedBytecode"])


# First topics and functions of the second network that an index must decode.
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


def _list_event_topics() -> tuple[str, ...]:
    """Return the first topics of all events that the first network emits in a story."""
    actions = [Action(name, 1, (1,), 1, 1) for name in _LOGS]
    actions.append(Action("validate", 2, (1, 2, 3), 1, runners=(1, 2)))
    logs = [log for action in actions for log in _encode_in_logs(action).tx.logs]
    return tuple({log.topics[0] for log in logs if log.address == NETWORK})


REFERENCE = Network(
    "reference",
    {"TaskNetwork": NETWORK},
    Watched((NETWORK,), _list_event_topics()),
    {NETWORK: _load_code("TaskNetwork")},
    _encode_in_logs,
)
VSS = Network(
    "crynux-vss",
    {"VSSTask": TASKS, "Node": NODES},
    Watched((TASKS, NODES), _TOPICS, tuple("0x" + keccak(text=f)[:4].hex() for f in _FUNCTIONS)),
    # The code check looks for the topics in it.
    dict.fromkeys((TASKS, NODES), "0x" + "".join(topic[2:] for topic in _TOPICS)),
    _encode_in_calldata,
)
NETWORKS = {one.profile: one for one in (REFERENCE, VSS)}
