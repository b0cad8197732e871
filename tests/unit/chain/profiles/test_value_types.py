"""Types of contract values must fit the fields of the events that they fill."""

from pathlib import Path
from typing import Any

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import NodeUpdated, TaskStarted
from oracle.domain.ids import Address, TaskKey
from tests.unit.chain.profiles.profile_files import (
    BLOCK,
    INDEX,
    TIME,
    TX,
    build_decoder,
    build_log,
    open_profile_reader,
)

AT = Position(BLOCK, TX, INDEX)
NODE = Address("0x" + "0d" * 20)

FITS = [
    ("uint256", 2**256 - 1, "gpu_vram", 2**32 - 1),
    ("uint32", 2**32 - 1, "gpu_vram", 2**32 - 1),
    ("uint256", 2**256 - 1, "timeout", 2**63 - 1),
    ("uint256", 2**256 - 1, "stake", 2**256 - 1),
    ("uint16[3]", [1, 2, 3], "version", (1, 2, 3)),
    ("string[]", ["a", ""], "models", ("a", "")),
    ("string[2]", ["a", ""], "models", ("a", "")),
]


@pytest.mark.parametrize(("kind", "value", "field", "expected"), FITS)
def test_value_is_converted_to_field_range(
    tmp_path: Path, kind: str, value: Any, field: str, expected: object
):
    text = f"event Told(address node, {kind} what)"
    profile = f"""
[contracts.Network]
abi = ["{text}"]
[contracts.Network.events.Told]
says = "node_updated"
node = "node"
{field} = "what"
"""
    (event,) = build_decoder(
        open_profile_reader(tmp_path, profile), build_log(text, NODE, value)
    ).events

    assert isinstance(event, NodeUpdated)
    assert getattr(event, field) == expected


def test_numeric_task_key_and_round_are_decoded(tmp_path: Path):
    text = "event Began(uint256 task, address node, uint256 round)"
    profile = f"""
[contracts.Network]
abi = ["{text}"]
[contracts.Network.events.Began]
says = "task_started"
task = "task"
node = "node"
round = "round"
"""
    reader = open_profile_reader(tmp_path, profile)

    assert build_decoder(reader, build_log(text, 255, NODE, 2)).events == [
        TaskStarted(AT, TIME, TaskKey(f"0x{255:064x}"), NODE, 2)
    ]
    assert [
        letter.error for letter in build_decoder(reader, build_log(text, 1, NODE, 3)).dead_letters
    ] == ["the round position is 3; expected at most 2"]
