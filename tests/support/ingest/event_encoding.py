"""Encodes domain events as the contracts do: as logs in transactions of real blocks."""

from collections.abc import Callable, Iterable
from typing import Any

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.mining import create_account
from oracle.chain.decode.oracle_logs import ORACLE_CONTRACT
from oracle.domain.events import network_events as of_network, oracle_events as of_oracle
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    LastStatus,
    TaskCreated,
    TaskKind,
)
from oracle.domain.events.oracle_events import ContractEvent
from tests.support.chain import network_logs
from tests.support.chain.network_logs import (
    NETWORK,
    ORACLE,
    encode_log,
    make_group_key,
    make_hash,
    make_node_address,
)
from tests.support.histories import NODE_ONLY_KINDS

Event = DomainEvent | ContractEvent

# The sender of transactions whose sender does not matter.
ANYBODY = create_account(0xE0)
_VERSION = ("major", "minor", "patch")
_STATUSES = list(LastStatus)


def encode_network_log(event: str, **values: Any) -> FakeLog:
    """Return the log of a TaskNetwork event."""
    return _to_fake_log(encode_log("TaskNetwork", NETWORK, event, **values))


def encode_oracle_log(event: str, **values: Any) -> FakeLog:
    """Return the log of an oracle event."""
    return _to_fake_log(encode_log(ORACLE_CONTRACT, ORACLE, event, **values))


def encode_task_created_log(number: int, **changed: Any) -> FakeLog:
    """Return the log of a TaskCreated with usual values, except those in `changed`."""
    return _to_fake_log(network_logs.encode_task_created_log(number, **changed))


def build_transaction(*logs: FakeLog) -> Tx:
    """Return a transaction to the network contract that emits these logs."""
    return Tx(ANYBODY, NETWORK, logs=logs)


def build_transactions(events: Iterable[Event]) -> list[Tx]:
    """Return a transaction for each event; the chain sets position and time."""
    return [_build_event_transaction(event) for event in events]


def _build_event_transaction(event: Event) -> Tx:
    if type(event).__module__ == of_network.__name__:
        return build_transaction(_NETWORK[type(event)](event))
    return Tx(ANYBODY, ORACLE, logs=(_ORACLE[type(event)](event),))


def encode_creation(event: TaskCreated) -> FakeLog:
    kinds = list(TaskKind)
    return encode_task_created_log(
        0,
        task=event.task,
        group=event.group or make_group_key(0),
        fee=event.fee or 0,
        kind=kinds.index(event.kind) if event.kind in kinds else 0,
        creator=event.creator or make_node_address(0xC0),
    )


def encode_join(event: of_network.NodeJoined) -> FakeLog:
    return encode_network_log(
        "NodeJoined",
        node=event.node,
        stake=event.stake or 0,
        gpuName=event.gpu_name or "",
        gpuVram=event.gpu_vram or 0,
        **dict(zip(_VERSION, event.version or (0, 0, 0), strict=True)),
        models=list(event.models or ()),
    )


def encode_node_event(event: Any) -> FakeLog:
    return encode_network_log(type(event).__name__, node=event.node)


def encode_task_event(event: Any) -> FakeLog:
    more = {"resultHash": make_hash(1)} if isinstance(event, of_network.TaskSubmitted) else {}
    return encode_network_log(type(event).__name__, task=event.task, node=event.node, **more)


def encode_timeout(event: of_network.TaskTimedOut) -> FakeLog:
    return encode_network_log(
        "TaskTimedOut", task=event.task, node=_get_node(event), lastStatus=_get_status_code(event)
    )


def encode_abort(event: of_network.TaskAborted) -> FakeLog:
    reason = list(AbortReason).index(event.reason or AbortReason.UNKNOWN)
    return encode_network_log(
        "TaskAborted",
        task=event.task,
        node=_get_node(event),
        reason=reason,
        lastStatus=_get_status_code(event),
    )


def _get_node(event: of_network.TaskTimedOut | of_network.TaskAborted) -> str:
    return event.node or make_node_address(0)


def _get_status_code(event: of_network.TaskTimedOut | of_network.TaskAborted) -> int:
    return 0 if event.last_status is None else _STATUSES.index(event.last_status)


_NETWORK: dict[type[Event], Callable[[Any], FakeLog]] = {
    of_network.NodeJoined: encode_join,
    **dict.fromkeys(NODE_ONLY_KINDS, encode_node_event),
    of_network.TaskCreated: encode_creation,
    **dict.fromkeys(
        (
            of_network.TaskStarted,
            of_network.TaskSubmitted,
            of_network.TaskErrorReported,
            of_network.TaskSucceeded,
            of_network.TaskRefunded,
            of_network.TaskInvalidated,
        ),
        encode_task_event,
    ),
    of_network.TaskTimedOut: encode_timeout,
    of_network.TaskAborted: encode_abort,
    of_network.GroupValidated: lambda event: encode_network_log(
        "GroupValidated", group=event.group, tasks=list(event.tasks)
    ),
}
_ORACLE: dict[type[Event], Callable[[Any], FakeLog]] = {
    of_oracle.RoundAccepted: lambda event: encode_oracle_log(
        "RoundAccepted",
        round=event.round,
        asOf=event.as_of,
        asOfHash=event.as_of_hash,
        root=event.root,
        config=event.config,
        signers=event.signer_bitmap,
    ),
    of_oracle.KickAccused: lambda event: encode_oracle_log(
        "KickAccused",
        node=event.node,
        round=event.round,
        dueSince=event.due_since,
        evidence=event.evidence,
        readyAt=event.ready_at,
    ),
    of_oracle.KickCancelled: lambda event: encode_oracle_log(
        "KickCancelled", node=event.node, by=event.by, why=event.why
    ),
}


def _to_fake_log(log: Any) -> FakeLog:
    return FakeLog(log.address, log.topics, log.data)
