"""Logs of the shipped contracts become events of the domain."""

from dataclasses import replace
from typing import Any

import pytest

from oracle.chain.decode.abi import load_abi
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    DownloadRequested,
    FeeShared,
    GroupValidated,
    LastStatus,
    ModelAdded,
    NodeJoined,
    NodeUpdated,
    ResultDisclosed,
    TaskAborted,
    TaskCreated,
    TaskErrorReported,
    TaskInvalidated,
    TaskKind,
    TaskQueued,
    TaskRefunded,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.ids import ZERO_ADDRESS
from oracle.domain.logs import DeadLetter
from oracle.errors import InputError
from tests.support.chain.memory_chain import UnminedLog
from tests.support.chain.network_logs import (
    AT,
    NETWORK,
    ORACLE,
    TIME,
    encode_network_log,
    encode_task_created_log,
    make_group_key,
    make_hash,
    make_node_address,
    make_task_key,
    to_mined_log,
)
from tests.support.histories import NODE_ONLY_KINDS

T = make_task_key(1)
N = make_node_address(1)
G = make_group_key(1)
BOTH = {"task": T, "node": N}
NETWORK_EVENTS = {event.name: event for event in load_abi("TaskNetwork").events.values()}


@pytest.mark.parametrize(
    ("unmined_log", "event"),
    [
        (
            encode_network_log(
                "NodeJoined",
                node=N,
                stake=400 * 10**18,
                gpuName="RTX",
                gpuVram=24,
                major=2,
                minor=5,
                patch=1,
                models=["a", "b"],
            ),
            NodeJoined(AT, TIME, N, 400 * 10**18, "RTX", 24, (2, 5, 1), ("a", "b")),
        ),
        (
            encode_network_log("NodeVersionUpdated", node=N, major=3, minor=0, patch=2),
            NodeUpdated(AT, TIME, N, version=(3, 0, 2)),
        ),
        (
            encode_network_log("NodeStakeChanged", node=N, stake=7),
            NodeUpdated(AT, TIME, N, stake=7),
        ),
        (encode_network_log("ModelAdded", node=N, model="m"), ModelAdded(AT, TIME, N, "m")),
        (
            encode_network_log("DownloadRequested", node=N, model="m", until=2**70),
            DownloadRequested(AT, TIME, N, "m", 2**63 - 1),
        ),
        (
            encode_task_created_log(1, kind=2),
            TaskCreated(
                AT,
                TIME,
                T,
                make_node_address(0xC0),
                3 * 10**18,
                8,
                "NVIDIA GeForce RTX 4090",
                24,
                ("crynux-ai/sdxl-turbo", "lora"),
                (2, 5, 0),
                1,
                TaskKind.SD_FT,
                300,
                G,
                3,
            ),
        ),
        (encode_network_log("TaskQueued", task=T), TaskQueued(AT, TIME, T)),
        (encode_network_log("TaskStarted", **BOTH), TaskStarted(AT, TIME, T, N)),
        (
            encode_network_log("TaskSubmitted", **BOTH, resultHash=make_hash(9)),
            TaskSubmitted(AT, TIME, T, N, frees=True),
        ),
        (
            encode_network_log("TaskErrorReported", **BOTH),
            TaskErrorReported(AT, TIME, T, N, frees=True),
        ),
        (
            encode_network_log("TaskCommitted", **BOTH, commitment=make_hash(9)),
            TaskSubmitted(AT, TIME, T, N, frees=True),
        ),
        (
            encode_network_log("TaskRevealed", **BOTH, answer=make_hash(9)),
            ResultDisclosed(AT, TIME, T, N),
        ),
        (encode_network_log("TaskErrorRevealed", **BOTH), TaskErrorReported(AT, TIME, T, N)),
        (encode_network_log("TaskValidated", task=T), TaskValidated(AT, TIME, T)),
        (
            encode_network_log(
                "GroupValidated", group=G, tasks=[make_task_key(3), make_task_key(1)]
            ),
            GroupValidated(AT, TIME, G, (make_task_key(3), make_task_key(1))),
        ),
        (encode_network_log("FeeShared", **BOTH, amount=7), FeeShared(AT, TIME, T, N, 7)),
        (encode_network_log("TaskSucceeded", **BOTH), TaskSucceeded(AT, TIME, T, N)),
        (encode_network_log("TaskRefunded", **BOTH), TaskRefunded(AT, TIME, T, N)),
        (encode_network_log("TaskInvalidated", **BOTH), TaskInvalidated(AT, TIME, T, N)),
        (
            encode_network_log("TaskAborted", **BOTH, reason=3, lastStatus=4),
            TaskAborted(AT, TIME, T, N, AbortReason.INCORRECT_RESULT, LastStatus.ERROR_REPORTED),
        ),
        (
            encode_network_log("TaskAborted", task=T, node=ZERO_ADDRESS, reason=99, lastStatus=99),
            TaskAborted(AT, TIME, T, None, AbortReason.UNKNOWN, None),
        ),
        (
            encode_network_log("TaskTimedOut", **BOTH, lastStatus=2),
            TaskTimedOut(AT, TIME, T, N, LastStatus.STARTED),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, UnminedLog) else "",
)
def test_every_network_event_maps_to_domain_event(
    reader: EventReader, unmined_log: UnminedLog, event: DomainEvent
):
    assert reader.decode_rows([to_mined_log(unmined_log)], []).events == [event]


@pytest.mark.parametrize(
    "kind", [kind for kind in NODE_ONLY_KINDS if kind.__name__ in NETWORK_EVENTS]
)
def test_network_event_about_node_maps_to_domain_event_of_same_name(
    reader: EventReader, kind: type[Any]
):
    log = to_mined_log(encode_network_log(kind.__name__, node=N))
    assert reader.decode_rows([log], []).events == [kind(AT, TIME, N)]


def test_only_listed_network_events_are_ignored(reader: EventReader):
    _, topics = reader.contracts[NETWORK]

    unread = {name for name, event in NETWORK_EVENTS.items() if event.digest not in topics}

    # TaskStarted replaces TaskDrawn. A contest is about the stake and scores nobody.
    silent = {"NodeReadmitted", "TaskDrawn", "NodeContested", "NodeCleared"}
    assert not [name for name in unread - silent if name.startswith(("Node", "Task"))]


def test_undecodable_log_becomes_a_dead_letter_and_decoding_continues(reader: EventReader):
    log = to_mined_log(encode_network_log("TaskQueued", task=T))
    broken = replace(log, index=2, data="0x00")

    decoded = reader.decode_rows([broken, log], [])

    assert decoded.events == [TaskQueued(AT, TIME, T)]
    assert decoded.dead_letters == [
        DeadLetter(
            7, log.block_hash, TIME, 2, 2, NETWORK, "TaskQueued", "the data has the wrong length"
        )
    ]


def test_unmapped_event_is_ignored(reader: EventReader):
    log = encode_network_log("Credited", account=N, amount=1)

    assert reader.decode_rows([to_mined_log(log)], []).events == []


# --- settings ---


@pytest.mark.parametrize(
    ("profile", "contracts", "reason"),
    [
        ("crynux", {"TaskNetwork": NETWORK}, "expected one of .*reference"),
        ("reference", {}, "TaskNetwork is missing"),
        ("reference", {"TaskNetwork": NETWORK, "Purse": N}, "reference has no contract Purse"),
        ("reference", {"TaskNetwork": "0x12"}, "not an address"),
        ("reference", {"TaskNetwork": ORACLE}, "the same address"),
    ],
)
def test_invalid_network_settings_raise_input_error(
    profile: str, contracts: dict[str, str], reason: str
):
    with pytest.raises(InputError, match=reason):
        EventReader.from_profile(profile, contracts, ORACLE)


def test_uppercase_contract_address_is_accepted():
    reader = EventReader.from_profile("reference", {"TaskNetwork": "0x" + "4E" * 20}, None)

    assert reader.addresses == (NETWORK,)
