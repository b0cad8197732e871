"""Reads contested groups from the network contract, and encodes their settlement.

See docs/explanation/dispatch.md#contests.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from oracle.bindings.codec import decode_arguments, decode_result, encode_call, load_artifact
from oracle.bindings.task_network import CONTRACT
from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import ZERO_HASH, Address, GroupKey, Hash, TaskKey
from oracle.domain.state import Task
from oracle.rpc.fanout import PoolView, expect_response_format

# The values of GroupStanding.Contested and GroupStanding.Validated in TaskNetwork.
_CONTESTED, _VALIDATED = 2, 3


class GroupRecord(NamedTuple):
    """A group of tasks as stored by the network contract.

    `is_settled` is whether the group's answers were compared and no stake is locked for the group.
    `peer` is the other group of a contest, or None; one of the two groups repeats the work of the
    other. `verdict` is the answer of the majority, or None if there is no majority.
    """

    is_contested: bool
    is_settled: bool
    contested_at: int
    peer: GroupKey | None
    verdict: Hash | None

    @property
    def has_compared_answers(self) -> bool:
        """Return whether the contract has compared the answers of the group."""
        return self.is_contested or self.is_settled


def encode_settle_contest_call(
    group: GroupKey, tasks: Sequence[TaskKey], result: Hash = ZERO_HASH
) -> str:
    """Encode the call that settles a contest.

    The zero hash means that there is no result. In this case, no stake is slashed, and the
    contract accepts the call only after the window for a second group.
    """
    keys = [bytes.fromhex(task[2:]) for task in tasks]
    return encode_call(
        CONTRACT, "settleContest", bytes.fromhex(group[2:]), keys, bytes.fromhex(result[2:])
    )


def decode_settle_contest_call(calldata: str) -> tuple[GroupKey, list[TaskKey]]:
    """Decode the group key and the task keys from a `settleContest` call."""
    arguments = decode_arguments(CONTRACT, "settleContest", calldata)
    tasks = [TaskKey("0x" + bytes(key).hex()) for key in arguments["keys"]]
    return GroupKey("0x" + bytes(arguments["key"]).hex()), tasks


def compute_answer(group: GroupKey, result: Hash) -> Hash:
    """Compute the answer that a group member submits for a result.

    The contract's `answerOf` returns the same. The zero hash means "the task cannot be run", both
    as a result and as an answer.
    """
    if result == ZERO_HASH:
        return ZERO_HASH
    return Hash("0x" + keccak(bytes.fromhex(group[2:] + result[2:])).hex())


def fetch_min_task_fee(pool_view: PoolView, network: Address, task: Task) -> int:
    """Fetch the minimum fee in wei for a task of this kind and size.

    Raises:
        TransientError: no endpoint responds.
    """
    kind = 0 if task.kind is None else tuple(TaskKind).index(task.kind)
    calldata = encode_call(CONTRACT, "leastFee", kind, task.size or 1)
    result_hex = pool_view.request("eth_call", {"to": network, "data": calldata}, "latest")
    with expect_response_format(f"leastFee of a TaskNetwork at {network}"):
        return int(decode_result(CONTRACT, "leastFee", str(result_hex))[0])


def fetch_contest_end(
    pool_view: PoolView, network: Address, group: GroupKey, block_tag: str = "latest"
) -> int | None:
    """Fetch the unix time at which a group's contest ends, or None without a contest.

    `block_tag` is the block at which the contract is read.

    Raises:
        TransientError: no endpoint responds.
    """
    record = fetch_group_record(pool_view, network, group, block_tag)
    if not record.is_contested:
        return None
    settings = _fetch_struct(pool_view, network, block_tag, "settings")
    return record.contested_at + int(settings["revalidationWindow"])


def fetch_group_record(
    pool_view: PoolView, network: Address, group: GroupKey, block_tag: str = "latest"
) -> GroupRecord:
    """Fetch a group as the contract stores it at a block.

    Raises:
        TransientError: no endpoint responds.
    """
    fields = _fetch_struct(pool_view, network, block_tag, "groupOf", bytes.fromhex(group[2:]))
    peer_key = bytes(fields["peer"])
    return GroupRecord(
        is_contested=fields["standing"] == _CONTESTED,
        is_settled=fields["standing"] == _VALIDATED,
        contested_at=int(fields["contestedAt"]),
        peer=GroupKey("0x" + peer_key.hex()) if any(peer_key) else None,
        verdict=Hash("0x" + bytes(fields["verdict"]).hex()) if fields["decided"] else None,
    )


def _fetch_struct(
    pool_view: PoolView, network: Address, block_tag: str, function: str, *arguments: object
) -> dict[str, Any]:
    """Call a view that returns a struct, and return the struct's fields by name."""
    calldata = encode_call(CONTRACT, function, *arguments)
    result_hex = pool_view.request("eth_call", {"to": network, "data": calldata}, block_tag)
    with expect_response_format(f"{function} of a TaskNetwork at {network}"):
        (values,) = decode_result(CONTRACT, function, str(result_hex))
        return dict(zip(_get_struct_field_names(function), values, strict=True))


def _get_struct_field_names(function: str) -> list[str]:
    (entry,) = (
        entry
        for entry in load_artifact(CONTRACT)["abi"]
        if entry["type"] == "function" and entry["name"] == function
    )
    return [component["name"] for component in entry["outputs"][0]["components"]]
