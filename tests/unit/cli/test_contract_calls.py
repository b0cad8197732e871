"""`contract calldata`: the scheduled call has the delay that the timelock reports."""

import json
from typing import Any

import pytest
from eth_utils.crypto import keccak

from oracle.bindings.deployment import (
    DEFAULT_FLOORS,
    DEFAULT_KICK_FLOORS,
    DEFAULT_TIGHTEST,
)
from oracle.bindings.qos_roots import RootsConfiguration
from oracle.cli.setup.contract_calls import (
    CONTRACT_CALLS,
    build_contract_call,
    encode_contract_call,
)
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.queries.contract_models import ContractCallAnswer
from oracle.resources import find_shipped_path

ORACLE = Address("0x" + "1" * 40)


ORACLE_ABI = json.loads((find_shipped_path("abi") / "roots/QoSRoots.json").read_text())["abi"]
INPUTS = {
    entry["name"]: [part["type"] for part in entry["inputs"]]
    for entry in ORACLE_ABI
    if entry["type"] == "function"
}
VALUES = {
    "address": "0x" + "5" * 40,
    "address[]": "0x" + "5" * 40 + ",0x" + "6" * 40,
    "uint8": "2",
    "uint32": "7",
    "uint40": "86400",
    "bytes32": "0x" + "7" * 64,
}
ROLES = {
    role: Address("0x" + digit * 40)
    for role, digit in (("admin", "a"), ("pauser", "b"), ("vetoer", "c"), ("pending", "d"))
}


def build_configuration() -> RootsConfiguration:
    status: Any = None
    return RootsConfiguration(
        code="0x",
        target=ZERO_ADDRESS,
        admin=ROLES["admin"],
        pending_admin=ZERO_ADDRESS,
        pauser=ROLES["pauser"],
        vetoer=ROLES["vetoer"],
        pending_vetoer=ROLES["pending"],
        vetoer_offered_from=0,
        floors=DEFAULT_FLOORS,
        tightest=DEFAULT_TIGHTEST,
        kick_floors=DEFAULT_KICK_FLOORS,
        kept_rounds=256,
        lag_rounds=2,
        on_arbitrum=False,
        is_arbitrum_chain=False,
        contract_status=status,
    )


def build_call(action: str, arguments: list[str], delay: int | None = None) -> ContractCallAnswer:
    calldata = encode_contract_call(action, arguments)
    return build_contract_call(action, calldata, ORACLE, build_configuration(), delay)


def list_arguments(action: str) -> list[str]:
    """Return arguments that fit the function's parameters."""
    return [
        "wrong" if (action, kind) == ("veto", "bytes32") else VALUES[kind]
        for kind in INPUTS[CONTRACT_CALLS[action].function]
    ]


@pytest.mark.parametrize("delay", [0, 1, 86_400])
def test_schedule_calldata_contains_the_reported_delay(delay: int):
    answer = build_call("resume", [], delay)
    assert (answer.to, answer.delay_seconds) == (ROLES["admin"], delay)
    assert answer.schedule is not None
    # The delay is the last of the six arguments of `schedule`; the bytes follow in the tail.
    words = [answer.schedule[10 + 64 * index :][:64] for index in range(6)]
    assert int(words[5], 16) == delay


@pytest.mark.parametrize("action", CONTRACT_CALLS)
def test_call_of_every_action_has_the_selector_and_the_sender_of_its_role(action: str):
    call = build_call(action, list_arguments(action))
    signature = (
        f"{CONTRACT_CALLS[action].function}({','.join(INPUTS[CONTRACT_CALLS[action].function])})"
    )
    assert call.calldata[:10] == "0x" + keccak(text=signature)[:4].hex()
    role = CONTRACT_CALLS[action].role
    # A proposer is no account that the oracle knows.
    holder = ROLES[{"proposer": "admin", "new vetoer": "pending"}.get(role, role)]
    assert call.sender.endswith(holder)
    assert (call.to, call.schedule) == (ORACLE, None)


@pytest.mark.parametrize("action", CONTRACT_CALLS)
def test_only_calls_of_the_admin_go_through_the_timelock(action: str):
    call = build_call(action, list_arguments(action), delay=86_400)
    is_scheduled = CONTRACT_CALLS[action].role == "admin"
    assert (call.schedule is not None) is is_scheduled
    assert call.to == (ROLES["admin"] if is_scheduled else ORACLE)


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("fly", []),
        ("strike", []),
        ("strike", ["last"]),
        ("veto", ["0x1", "why"]),
        ("resume", ["1"]),
    ],
)
def test_invalid_call_is_rejected(action: str, arguments: list[str]):
    with pytest.raises(InputError):
        build_call(action, arguments)
