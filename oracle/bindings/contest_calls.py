"""Contests of the network contract: how long a group's stakes are held, and the call that ends it.

See docs/explanation/dispatch.md#contests.
"""

from collections.abc import Sequence
from typing import Any

from oracle.bindings.codec import call_input, call_output, contract_artifact
from oracle.bindings.task_network import CONTRACT
from oracle.domain.ids import ZERO_HASH, Address, GroupKey, Hash, TaskKey
from oracle.rpc.fanout import PoolView, understood

# TaskNetwork's GroupStanding.Contested.
_CONTESTED = 2


def settle_contest_call(
    group: GroupKey, tasks: Sequence[TaskKey], result: Hash = ZERO_HASH
) -> str:
    """Return the calldata that ends a contest; without a result it slashes nobody.

    The contract takes it without a result only when the window for a second group is over.
    """
    keys = [bytes.fromhex(task[2:]) for task in tasks]
    return call_input(
        CONTRACT, "settleContest", bytes.fromhex(group[2:]), keys, bytes.fromhex(result[2:])
    )


def contest_end(lines: PoolView, network: Address, group: GroupKey) -> int | None:
    """Return the last second of a group's contest, block time; None: it is not contested.

    Raises:
        TransientError: no endpoint answers.
    """
    found = _read(lines, network, "groupOf", bytes.fromhex(group[2:]))
    if found["standing"] != _CONTESTED:
        return None
    settings = _read(lines, network, "settings")
    return int(found["contestedAt"]) + int(settings["revalidationWindow"])


def _read(lines: PoolView, network: Address, function: str, *arguments: object) -> dict[str, Any]:
    """Return the fields of the struct that a view returns, by name."""
    data = call_input(CONTRACT, function, *arguments)
    answer = lines.ask("eth_call", {"to": network, "data": data}, "latest")
    with understood(f"{function} of a TaskNetwork at {network}"):
        (values,) = call_output(CONTRACT, function, str(answer))
        return dict(zip(_field_names(function), values, strict=True))


def _field_names(function: str) -> list[str]:
    (entry,) = (
        entry
        for entry in contract_artifact(CONTRACT)["abi"]
        if entry["type"] == "function" and entry["name"] == function
    )
    return [component["name"] for component in entry["outputs"][0]["components"]]
