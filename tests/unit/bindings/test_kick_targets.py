"""Which contract ends the membership of nodes in each network, and the calls to it."""

import pytest

from oracle.bindings.codec import decode_values, load_artifact
from oracle.bindings.kick_target_checks import (
    find_kick_target_mismatches,
    find_node_owner_mismatch,
    find_qos_contract_mismatch,
    find_staking_admin_mismatch,
    find_task_contract_mismatch,
)
from oracle.bindings.kick_targets import (
    COMMIT_TASK,
    KICK_TARGETS,
    NODE_STAKING,
    TASK_NETWORK,
    VSS_TASK,
    build_adapter_creation_code,
    build_role_change,
    find_default_kick_target,
    get_kick_target,
)
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.rpc.client import Json
from oracle.rpc.error_kinds import ErrorKind
from oracle.rpc.replies import JsonRpcErrorBody
from oracle.rpc.rpc_errors import RevertError

ORACLE, OWNER, NODE, QOS, TASK, ADAPTER = (Address("0x" + 40 * digit) for digit in "123456")
GIVEN = {"Node": NODE, "QOS": QOS, "VSSTask": TASK}


class RecordingEndpoint:
    """An endpoint that answers every call alike, and records the calls."""

    def __init__(self, answer: Json = "0x", refusal: str | None = None, data: str | None = None):
        self.answer, self.refusal, self.data = answer, refusal, data
        self.received_calls: list[dict[str, str]] = []

    def request(self, method: str, *parameters: object) -> Json:
        assert method == "eth_call"
        call = parameters[0]
        assert isinstance(call, dict)
        self.received_calls.append(call)
        if self.refusal is not None:
            body = JsonRpcErrorBody(code=3, message=f"execution reverted: {self.refusal}")
            raise RevertError("it", ErrorKind.REFUSED, body, self.data)
        return self.answer


def error(text: str) -> str:
    """Return the return data of a call that reverts with Solidity's Error(string)."""
    raw = text.encode()
    padded = raw.ljust(-(-len(raw) // 32) * 32, b"\0")
    return f"0x08c379a0{32:064x}{len(raw):064x}{padded.hex()}"


def test_each_shipped_profile_has_a_default_kick_target():
    assert find_default_kick_target("reference") is TASK_NETWORK
    assert find_default_kick_target("crynux-vss") is VSS_TASK
    assert find_default_kick_target("crynux-commit") is COMMIT_TASK
    assert find_default_kick_target("config/our-network.toml") is None


def test_every_kick_target_except_node_staking_is_a_profile_default():
    profiles = ("reference", "crynux-vss", "crynux-commit")
    assert set(KICK_TARGETS) - {find_default_kick_target(profile) for profile in profiles} == {
        NODE_STAKING
    }


def test_vss_task_adapter_has_a_higher_kick_gas_limit_than_others():
    assert {target.name: target.kick_gas for target in KICK_TARGETS} == {
        "TaskNetwork": 600_000,
        "VssTaskAdapter": 3_000_000,
        "CommitTaskAdapter": 600_000,
        "NodeStakingAdapter": 600_000,
    }


def test_kick_target_is_found_only_by_its_exact_name():
    assert get_kick_target("NodeStakingAdapter") is NODE_STAKING
    with pytest.raises(InputError, match="unknown kick target Adapter; expected one of: TaskN"):
        get_kick_target("Adapter")


def test_adapter_code_encodes_constructor_arguments_in_order():
    code = build_adapter_creation_code(VSS_TASK, ORACLE, OWNER, GIVEN)
    compiled = load_artifact("adapters/VssTaskAdapter")["bytecode"]
    constructor_arguments = decode_values(
        ["address"] * 5, bytes.fromhex(code.removeprefix(compiled))
    )
    assert constructor_arguments == (ORACLE, OWNER, NODE, QOS, TASK)


def test_missing_adapter_addresses_are_named_in_the_error():
    with pytest.raises(InputError, match="these contract addresses are missing: QOS, Task"):
        build_adapter_creation_code(COMMIT_TASK, ORACLE, OWNER, {"Node": NODE})
    with pytest.raises(InputError, match="TaskNetwork: has no adapter"):
        build_adapter_creation_code(TASK_NETWORK, ORACLE, OWNER, {})


def test_role_change_transfers_ownership_of_the_node_contract():
    change = build_role_change(VSS_TASK, ADAPTER, GIVEN)
    selector = "0xf2fde38b"
    assert change.calldata == selector + 24 * "0" + ADAPTER[2:]
    assert (change.to, change.sender) == (NODE, "the owner of Node")
    with pytest.raises(InputError, match="the address of ParameterController is missing"):
        build_role_change(NODE_STAKING, ADAPTER, GIVEN)


def test_role_change_for_a_task_network_raises_input_error():
    with pytest.raises(InputError, match="TaskNetwork: grants no role"):
        build_role_change(TASK_NETWORK, ADAPTER, GIVEN)


def test_task_contract_check_simulates_a_call_from_that_contract():
    pool_view = RecordingEndpoint(refusal="no words", data=error("Illegal node status"))
    assert find_task_contract_mismatch(pool_view, NODE, TASK) is None
    (call,) = pool_view.received_calls
    assert (call["from"], call["to"]) == (TASK, NODE)


@pytest.mark.parametrize("data", [error("Not called by the task contract"), None, "0x"])
def test_wrong_task_contract_is_reported_with_the_revert_reason(data: str | None):
    pool_view = RecordingEndpoint(refusal="Not called by the task contract", data=data)
    assert find_task_contract_mismatch(pool_view, NODE, TASK) == "Not called by the task contract"


def test_task_contract_that_does_not_revert_is_reported_as_a_mismatch():
    assert find_task_contract_mismatch(RecordingEndpoint(), NODE, TASK) == (
        "no revert, although the call is for a node that does not exist"
    )


def test_wrong_qos_contract_is_reported_with_the_revert_reason():
    assert find_qos_contract_mismatch(RecordingEndpoint(), NODE, QOS) is None
    wrong = RecordingEndpoint(refusal="x", data=error("Not called by the node contract"))
    assert find_qos_contract_mismatch(wrong, NODE, QOS) == "Not called by the node contract"


def test_owner_mismatch_ignores_address_case():
    mixed = Address("0x" + 20 * "aB")
    owner_word = "0x" + 24 * "0" + mixed[2:].lower()
    assert find_node_owner_mismatch(RecordingEndpoint(owner_word), NODE, mixed) is None
    assert find_node_owner_mismatch(RecordingEndpoint(owner_word), NODE, ADAPTER) == mixed.lower()


def test_staking_admin_check_passes_only_if_the_error_is_node_not_staked():
    assert (
        find_staking_admin_mismatch(
            RecordingEndpoint(refusal="x", data=error("Node not staked")), NODE, ADAPTER
        )
        is None
    )
    mismatch = find_staking_admin_mismatch(
        RecordingEndpoint(refusal="x", data="0x1234"), NODE, ADAPTER
    )
    assert mismatch == "0x1234"
    mismatch = find_staking_admin_mismatch(RecordingEndpoint(), NODE, ADAPTER)
    assert mismatch == "no revert, although the call is for a node that does not exist"


def test_task_network_with_another_oracle_is_reported():
    wiring = TASK_NETWORK, NODE, ORACLE, dict[str, str]()
    zero_padding = "0x" + 24 * "0"
    assert find_kick_target_mismatches(RecordingEndpoint(zero_padding + ORACLE[2:]), *wiring) == []
    (mismatch,) = find_kick_target_mismatches(RecordingEndpoint(zero_padding + QOS[2:]), *wiring)
    assert mismatch.format_line() == f"oracle of TaskNetwork: expected {ORACLE}, found {QOS}"
