"""A profile's reader produces the events and calls that the profile defines."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.chain.decode.call_arguments import MAX_DECODED_BYTES, build_arguments_decoder
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import Position
from oracle.domain.events.network_events import (
    AbortReason,
    GroupValidated,
    LastStatus,
    ModelAdded,
    NodeJoined,
    NodePaused,
    TaskAborted,
    TaskCreated,
    TaskStarted,
    TaskTimedOut,
)
from oracle.domain.ids import Address, GroupKey, TaskKey
from tests.support.examples import examples
from tests.unit.chain.profiles.profile_files import (
    BLOCK,
    INDEX,
    SENDER,
    TIME,
    TX,
    build_call,
    build_decoder,
    build_log,
    open_profile_reader,
    with_input,
)

AT = Position(BLOCK, TX, INDEX)
CALLED = Position(BLOCK, TX, -1)
TASK = TaskKey("0x" + "ab" * 32)
NODE = Address("0x" + "0d" * 20)
ENDED = "event Ended(bytes32 task, uint8 status, uint8 reason)"
MADE = "function make((bytes32 id, string[] models) task, uint256[3] version, bytes proof) payable"
STARTED = "event Started(bytes32 task, address node)"

PROFILE = f"""
[options]
blame = true
shift = 100

[constants]
card = "RTX 4090"

[enums.status]
words = ["queued", "started", "validated"]
otherwise = "absent"

[[enums.reason]]
words = ["timeout", "cancelled"]

[[enums.reason]]
from_block = "$shift"
words = ["none", "timeout", "cancelled"]

[contracts.Network]
abi = [
    "{ENDED}", "{MADE}", "{STARTED}", "event Joined(address node, uint32 vram)",
    "function leave()", "function check(bytes32 a, bytes32 b, bytes32 group)",
]

[contracts.Network.events.Started]
says = "task_started"
task = "task"
node = "node"

[[contracts.Network.events.Joined]]
says = "node_joined"
node = "node"
gpu_vram = {{ argument = "vram", zero_is_absent = true }}
gpu_name = "$card"

[[contracts.Network.events.Joined]]
unless = {{ vram = 0 }}
says = "model_added"
node = "node"
model = {{ constant = "base" }}

[[contracts.Network.events.Ended]]
when = {{ status = 1, "$blame" = true }}
says = "task_timed_out"
task = "task"
last_status = {{ argument = "status", enum = "status" }}

[[contracts.Network.events.Ended]]
when = {{ status = [0, 2] }}
says = "task_aborted"
task = "task"
reason = {{ argument = "reason", enum = "reason" }}
last_status = {{ argument = "status", enum = "status" }}

[[contracts.Network.events.Ended]]
when = {{ status = 9 }}
says = "nothing"

[contracts.Network.calls.make]
says = "task_created"
task = "task.id"
creator = "@sender"
fee = "@value"
models = "task.models"
version = "version"
min_vram = "version.1"

[contracts.Network.calls.leave]
says = "node_paused"
node = "@sender"

[contracts.Network.calls.check]
says = "group_validated"
group = "group"
tasks = ["a", "b"]
"""


@pytest.fixture
def reader(tmp_path: Path) -> EventReader:
    return open_profile_reader(tmp_path, PROFILE)


def build_ended_log(status: int, reason: int, block: int = BLOCK) -> Any:
    return build_log(ENDED, TASK, status, reason, block=block)


# --- calls ---


def test_call_is_decoded_from_input_sender_and_value(reader: EventReader):
    call = build_call(MADE, (bytes.fromhex(TASK[2:]), ["a", "b"]), [2, 5, 2**40], b"", value=7)

    (event,) = build_decoder(reader, call).events

    clamped_version = (2, 5, 2**32 - 1)
    assert event == TaskCreated(
        CALLED, TIME, TASK, SENDER, 7, 5, None, None, ("a", "b"), clamped_version, None
    )


def test_reverted_call_yields_no_events(reader: EventReader):
    assert build_decoder(reader, build_call("function leave()", succeeded=False)).events == []


def test_call_events_precede_logs_of_same_transaction(reader: EventReader):
    log = build_log(STARTED, TASK, NODE)

    events = build_decoder(reader, log, build_call("function leave()")).events

    assert [type(event) for event in events] == [NodePaused, TaskStarted]


def test_list_field_is_built_from_several_arguments(reader: EventReader):
    a, b, group = (f"0x{number:064x}" for number in (1, 2, 3))

    call = build_call("function check(bytes32 a, bytes32 b, bytes32 group)", a, b, group)

    tasks = (TaskKey(a), TaskKey(b))
    assert build_decoder(reader, call).events == [
        GroupValidated(CALLED, TIME, GroupKey(group), tasks)
    ]


def test_noncanonical_calldata_decodes_to_the_same_event(reader: EventReader):
    canonical_call = build_call(MADE, (bytes.fromhex(TASK[2:]), ["a"]), [1, 2, 3], b"proof")
    abi_words = [
        canonical_call.input[10:][at : at + 64]
        for at in range(0, len(canonical_call.input) - 10, 64)
    ]
    # 64 zero bytes between the head and the offset that it contains, and extra bytes at the
    # end.
    head = [
        f"{int(abi_words[0], 16) + 64:064x}",
        *abi_words[1:4],
        f"{int(abi_words[4], 16) + 64:064x}",
    ]
    noncanonical_input = canonical_call.input[:10] + "".join(
        [*head, *["ee" * 32] * 2, *abi_words[5:], "ff" * 5]
    )

    assert (
        build_decoder(reader, with_input(noncanonical_input)).events
        == build_decoder(reader, canonical_call).events
        != []
    )


@pytest.mark.parametrize("cut", [1, 31, 32, 64])
def test_truncated_call_becomes_a_dead_letter(reader: EventReader, cut: int):
    full_input = build_call(MADE, (bytes.fromhex(TASK[2:]), ["a"]), [1, 2, 3], b"").input

    decoded = build_decoder(reader, with_input(full_input[: -2 * cut]))

    assert decoded.events == []
    (letter,) = decoded.dead_letters
    assert (letter.index, letter.name, letter.error) == (-1, "make", "the calldata is too short")


def test_calldata_that_expands_beyond_the_size_limit_is_rejected():
    text = f"{32:064x}" + f"{100_000:064x}" + f"{100_000 * 32:064x}" * 100_000
    # Every string of the list points at the same 1,000 bytes.
    text += f"{1000:064x}" + "61" * 1000

    assert len(text) // 2 < MAX_DECODED_BYTES
    with pytest.raises(ValueError, match="decoded arguments exceed"):
        build_arguments_decoder(["string[]"])(bytes.fromhex(text))


@examples(200)
@given(noise=st.binary(max_size=400))
def test_arbitrary_call_input_is_decoded_or_raises_value_error(noise: bytes):
    kinds = ["(bytes32,string[])", "uint256[3]", "bytes", "uint8[][2]", "(bool,address)[]"]
    try:
        build_arguments_decoder(kinds)(noise)
    except ValueError:
        return
    assert len(noise) >= 32 * 8


# --- conditions, words and combinations ---


def test_first_profile_entry_that_matches_the_values_is_used(reader: EventReader):
    assert build_decoder(reader, build_ended_log(1, 5)).events == [
        TaskTimedOut(AT, TIME, TASK, None, LastStatus.STARTED)
    ]
    assert build_decoder(reader, build_ended_log(2, 1)).events == [
        TaskAborted(AT, TIME, TASK, None, AbortReason.CANCELLED, LastStatus.VALIDATED)
    ]


def test_profile_entry_disabled_by_an_option_is_skipped(tmp_path: Path):
    decoded = build_decoder(
        open_profile_reader(tmp_path, PROFILE, blame=False), build_ended_log(1, 1)
    )

    assert (decoded.events, [letter.name for letter in decoded.dead_letters]) == ([], ["Ended"])


def test_log_that_matches_no_profile_entry_becomes_a_dead_letter(
    reader: EventReader,
):
    assert [
        letter.error for letter in build_decoder(reader, build_ended_log(7, 0)).dead_letters
    ] == ["no event of the profile matches the values"]
    assert build_decoder(reader, build_ended_log(9, 0)).dead_letters == []


@pytest.mark.parametrize(
    ("block", "number", "reason"),
    [
        (99, 0, AbortReason.TIMEOUT),
        (100, 0, AbortReason.NONE),
        (99, 1, AbortReason.CANCELLED),
        (100, 1, AbortReason.TIMEOUT),
    ],
)
def test_enum_mapping_changes_at_configured_block(
    reader: EventReader, block: int, number: int, reason: AbortReason
):
    (event,) = build_decoder(reader, build_ended_log(0, number, block)).events

    assert isinstance(event, TaskAborted)
    assert event.reason is reason


def test_unmapped_enum_value_becomes_a_dead_letter(reader: EventReader):
    (letter,) = build_decoder(reader, build_ended_log(0, 2)).dead_letters

    assert letter.error == "enums.reason has no entry for '2'"


def test_log_with_two_profile_entries_yields_two_events(reader: EventReader):
    joined = "event Joined(address node, uint32 vram)"

    assert build_decoder(reader, build_log(joined, NODE, 24)).events == [
        NodeJoined(AT, TIME, NODE, gpu_vram=24, gpu_name="RTX 4090"),
        ModelAdded(AT._replace(sub=1), TIME, NODE, "base"),
    ]
    assert build_decoder(reader, build_log(joined, NODE, 0)).events == [
        NodeJoined(AT, TIME, NODE, gpu_name="RTX 4090")
    ]
