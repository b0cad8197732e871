"""`contract calldata`: the scheduled call has the delay that the timelock reports."""

import json
import re
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
INPUTS = {entry["name"]: entry["inputs"] for entry in ORACLE_ABI if entry["type"] == "function"}
VALUES = {
    "address": "0x" + "5" * 40,
    "address[]": "0x" + "5" * 40 + ",0x" + "6" * 40,
    "uint8": "2",
    "uint32": "7",
    "uint40": "86400",
    "bytes32": "0x" + "7" * 64,
}
LIMITS = (
    "min_interval=60,anchor_window=200,max_age_seconds=7200,kick_below=2000,veto_delay=3600,"
    "kick_rounds=2,min_open=10"
)
KICK_LIMITS = (
    "kick_gas=300000,kick_cooldown=86400,bucket_most=5,bucket_per_frame=1,bucket_frame=600"
)
ARGUMENTS = {
    "veto": ["0x" + "5" * 40, "wrong"],
    "set-limits": [LIMITS],
    "tighten-limits": [LIMITS],
    "set-kick-limits": [KICK_LIMITS],
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
    parameters = INPUTS[CONTRACT_CALLS[action].function]
    return ARGUMENTS.get(action) or [VALUES[parameter["type"]] for parameter in parameters]


def format_type(parameter: dict[str, Any]) -> str:
    if parameter["type"] != "tuple":
        return str(parameter["type"])
    return f"({','.join(map(format_type, parameter['components']))})"


@pytest.mark.parametrize("delay", [0, 1, 86_400])
def test_schedule_calldata_contains_reported_delay(delay: int):
    answer = build_call("resume", [], delay)
    assert (answer.to, answer.delay_seconds) == (ROLES["admin"], delay)
    assert answer.schedule is not None
    # The delay is the last of the six arguments of `schedule`; the bytes follow in the tail.
    words = [answer.schedule[10 + 64 * index :][:64] for index in range(6)]
    assert int(words[5], 16) == delay


@pytest.mark.parametrize("action", CONTRACT_CALLS)
def test_every_contract_action_has_the_selector_and_sender_of_its_role(action: str):
    call = build_call(action, list_arguments(action))
    function = CONTRACT_CALLS[action].function
    signature = f"{function}({','.join(map(format_type, INPUTS[function]))})"
    assert call.calldata[:10] == "0x" + keccak(text=signature)[:4].hex()
    role = CONTRACT_CALLS[action].role
    # The proposer is not an account of the oracle.
    holder = ROLES[{"proposer": "admin", "new vetoer": "pending"}.get(role, role)]
    assert call.sender.endswith(holder)
    assert (call.to, call.schedule) == (ORACLE, None)


def to_snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


@pytest.mark.parametrize(
    ("action", "limits"),
    [("set-limits", LIMITS), ("tighten-limits", LIMITS), ("set-kick-limits", KICK_LIMITS)],
)
def test_limits_are_encoded_in_contract_order(action: str, limits: str):
    number_by_name = dict(pair.split("=") for pair in limits.split(","))
    reversed_limits = ",".join(reversed(limits.split(",")))
    (parameter,) = INPUTS[CONTRACT_CALLS[action].function]
    calldata = build_call(action, [limits]).calldata
    words = [int(calldata[start : start + 64], 16) for start in range(10, len(calldata), 64)]
    assert words == [
        int(number_by_name[to_snake_case(part["name"])]) for part in parameter["components"]
    ]
    assert build_call(action, [reversed_limits]).calldata == calldata


@pytest.mark.parametrize("action", CONTRACT_CALLS)
def test_only_admin_calls_go_through_timelock(action: str):
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
        ("set-limits", []),
        ("set-limits", ["min_interval=60"]),
        ("set-limits", [f"{LIMITS},min_interval=60"]),
        ("set-limits", [f"{LIMITS},max_words=8"]),
        ("set-limits", [LIMITS.replace("=60", "=a minute")]),
        ("set-limits", [LIMITS.replace("=60", "=99999999999")]),
        ("set-kick-limits", [LIMITS]),
    ],
)
def test_invalid_call_is_rejected(action: str, arguments: list[str]):
    with pytest.raises(InputError):
        build_call(action, arguments)
