"""The events of single logs and calls of the contracts with commit and disclosure."""

from collections.abc import Sequence
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.blocks import Position
from oracle.domain.events import network_events
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.logs import Call, Log

TASK = Address("0x" + "aa" * 20)
NODES = Address("0x" + "bb" * 20)
SENDER = Address("0x" + "01" * 20)
BLOCK = Hash("0x" + "00" * 32)
TX = Hash("0x" + "11" * 32)
KEY = TaskKey(f"0x{7:064x}")
WORD = f"0x{7:064x}"


@pytest.fixture(scope="module")
def reader() -> EventReader:
    return EventReader.from_profile("crynux-commit", {"Task": TASK, "Node": NODES}, None)


def log(event: str, kinds: Sequence[str], values: Sequence[Any], *indexed: str) -> Log:
    digest = "0x" + keccak(text=event).hex()
    data = "0x" + encode(kinds, values).hex()
    return Log(1, BLOCK, 100, 0, TX, 0, TASK, (digest, *indexed), data)


def call(function: str, values: Sequence[Any], to: Address = TASK, *, works: bool = True) -> Call:
    kinds = [kind for kind in function.partition("(")[2][:-1].split(",") if kind]
    written = "0x" + (keccak(text=function)[:4] + encode(kinds, values)).hex()
    return Call(1, BLOCK, 100, 0, TX, SENDER, to, 0, written, succeeded=works)


def build_abort_log(reason: str, *, indexed: bool = True) -> Log:
    event = "TaskAborted(uint256,string)"
    if indexed:
        return log(event, ["string"], [reason], WORD)
    return log(event, ["uint256", "string"], [7, reason])


def kinds_of(decoded: DecodedEvents) -> list[str]:
    assert decoded.dead_letters == []
    return [type(event).__name__ for event in decoded.events]


Answer = (
    network_events.ResultCommitted
    | network_events.ResultDisclosed
    | network_events.TaskErrorReported
)
CALLS: dict[str, tuple[list[Any], type[Answer]]] = {
    "submitTaskResultCommitment(uint256,uint256,bytes32,bytes32)": (
        [7, 0, bytes(32), bytes(32)],
        network_events.ResultCommitted,
    ),
    "discloseTaskResult(uint256,uint256,bytes)": (
        [7, 0, b"right"],
        network_events.ResultDisclosed,
    ),
    "reportTaskError(uint256,uint256)": ([7, 0], network_events.TaskErrorReported),
}


@pytest.mark.parametrize("function", CALLS)
def test_sender_of_an_answer_call_is_decoded_as_the_node(reader: EventReader, function: str):
    values, kind = CALLS[function]
    (event,) = reader.decode_rows([], [call(function, values)]).events
    assert event == kind(Position(1, 0, -1), 100, KEY, SENDER)


@pytest.mark.parametrize("function", CALLS)
def test_failed_call_produces_no_event(reader: EventReader, function: str):
    values, _ = CALLS[function]
    assert reader.decode_rows([], [call(function, values, works=False)]).events == []


def test_cancelled_assignment_is_decoded_without_blame(
    reader: EventReader,
):
    cancelled = log("TaskNodeCancelled(uint256,address)", ["address"], [SENDER], WORD)
    (event,) = reader.decode_rows([cancelled], []).events
    assert event == network_events.TaskCancelled(Position(1, 0, 0), 100, KEY, SENDER)


@pytest.mark.parametrize("indexed", [True, False])
def test_abort_that_blames_no_node_is_decoded_as_a_cancellation(
    reader: EventReader, *, indexed: bool
):
    """Before 2024-03-23 the task was not indexed: the same first topic, another layout."""
    reasons = ["Task Cancelled", "Task fee is too low", "Task error reported"]
    decoded = reader.decode_rows(
        [build_abort_log(reason, indexed=indexed) for reason in reasons], []
    )
    assert kinds_of(decoded) == ["TaskCancelled", "TaskAborted"]
    waiting, evicted = decoded.events
    assert waiting == network_events.TaskCancelled(Position(1, 0, 0), 100, KEY)
    assert evicted == network_events.TaskAborted(
        Position(1, 0, 0), 100, KEY, reason=AbortReason.FEE_TOO_LOW
    )


def test_unknown_abort_reason_becomes_a_dead_letter(reader: EventReader):
    decoded = reader.decode_rows([build_abort_log("Because")], [])
    assert decoded.events == []
    assert len(decoded.dead_letters) == 1


@pytest.mark.parametrize("indexed", [True, False])
def test_accepted_result_is_decoded_as_a_validated_task(reader: EventReader, *, indexed: bool):
    event = "TaskSuccess(uint256,bytes,address)"
    node = f"0x{1:064x}"
    success_log = log(event, ["bytes"], [b"r"], WORD, node)
    if not indexed:
        success_log = log(event, ["uint256", "bytes"], [7, b"r"], node)
    assert kinds_of(reader.decode_rows([success_log], [])) == ["TaskValidated"]


def test_node_is_not_blamed_for_a_missing_upload_if_blame_is_off():
    lenient = EventReader.from_profile(
        "crynux-commit",
        {"Task": TASK, "Node": NODES},
        None,
        {"blame_missing_upload": False},
    )
    success_log = log("TaskSuccess(uint256,bytes,address)", ["bytes"], [b"r"], WORD, f"0x{1:064x}")
    assert kinds_of(lenient.decode_rows([success_log], [])) == []


def test_pause_and_quit_calls_are_decoded_as_requests(reader: EventReader):
    requests = [call(name, [], NODES) for name in ("pause()", "quit()", "resume()")]
    events = [reader.decode_rows([], [request]).events[0] for request in requests]
    assert [type(event) for event in events] == [
        network_events.NodePauseAsked,
        network_events.NodeQuitAsked,
        network_events.NodeResumed,
    ]


def test_task_start_is_decoded_with_the_position_of_the_node(reader: EventReader):
    kinds = ["uint256", "uint256", "bytes32", "bytes32", "uint256"]
    event = "TaskStarted(uint256,uint256,address,address,bytes32,bytes32,uint256)"
    values = [7, 0, bytes(32), bytes(32), 2]
    start_log = log(event, kinds, values, f"0x{9:064x}", f"0x{int(SENDER, 16):064x}")
    assert reader.decode_rows([start_log], []).events == [
        network_events.TaskStarted(Position(1, 0, 0), 100, KEY, SENDER, 2)
    ]
