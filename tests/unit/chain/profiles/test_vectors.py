"""Crynux's profiles use only events and functions of its released ABIs."""

import json
from pathlib import Path
from typing import Any

import pytest

from oracle.chain.decode.abi import AbiSignature
from oracle.chain.profiles.profile_loader import load_profile

VECTORS = Path(__file__).resolve().parents[3] / "vectors" / "crynux.json"


@pytest.fixture(scope="module")
def released() -> dict[str, Any]:
    abi: dict[str, Any] = json.loads(VECTORS.read_text("utf-8"))["abi"]
    return abi


def describe_signature(signature: AbiSignature) -> tuple[str, list[tuple[str, bool]]]:
    return signature.text, [
        (parameter.abi_type, parameter.indexed) for parameter in signature.inputs
    ]


def describe_abi_entry(row: dict[str, Any]) -> tuple[str, list[tuple[str, bool]]]:
    return row["signature"], [
        (parameter["type"], parameter.get("indexed", False)) for parameter in row["inputs"]
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("crynux-vss", {}),
        ("crynux-commit", {}),
        ("crynux-staking", {}),
        ("crynux-staking", {"credits": True}),
    ],
)
def test_profile_events_match_released_topics_and_indexed_inputs(
    name: str, options: dict[str, bool], released: dict[str, Any]
):
    released_events = {
        (row["contract"], row["topic0"], str(describe_abi_entry(row)))
        for row in released["events"]
    }

    read = {
        (contract.name, speech.signature.digest, str(describe_signature(speech.signature)))
        for contract in load_profile(name, options).contracts.values()
        for speech in contract.events
    }

    assert read <= released_events


@pytest.mark.parametrize("name", ["crynux-vss", "crynux-commit"])
def test_profile_functions_match_released_selectors(name: str, released: dict[str, Any]):
    released_functions = {
        (row["contract"], row["selector"], row["signature"]) for row in released["functions"]
    }

    read = {
        (contract.name, speech.signature.selector, speech.signature.text)
        for contract in load_profile(name).contracts.values()
        for speech in contract.calls
    }

    assert read
    assert read <= released_functions
