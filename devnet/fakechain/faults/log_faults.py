"""Faults of logs that are missing, capped, duplicated, malformed or from another fork.

All of them change `eth_getLogs`. With `methods=RECEIPT_METHODS` they change receipts instead, and
with `methods=LOG_AND_RECEIPT_METHODS` both.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.fault import (
    FaultLimits,
    InjectedFault,
    add_default_methods,
    wrap_change_to_skip_errors,
)
from devnet.fakechain.requests import FakeRequest, FakeRpcError

Json = dict[str, Any]
LOG_METHODS = frozenset({"eth_getLogs"})
RECEIPT_METHODS = frozenset({"eth_getBlockReceipts", "eth_getTransactionReceipt"})
LOG_AND_RECEIPT_METHODS = LOG_METHODS | RECEIPT_METHODS


def build_changed_logs_fault(
    name: str, change: Callable[[list[Json]], Sequence[Json]], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that applies `change` to copies of a result's logs."""

    def change_result(request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if request.method in LOG_METHODS:
            return list(change([dict(log) for log in result]))
        if isinstance(result, dict):
            return {**result, "logs": list(change([dict(log) for log in result["logs"]]))}
        return [
            {**receipt, "logs": list(change([dict(log) for log in receipt["logs"]]))}
            for receipt in result
        ]

    return InjectedFault(
        name,
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, *LOG_METHODS),
    )


def build_every_log_changed_fault(
    name: str, change: Callable[[Json], object], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that applies a change to every log of a result."""

    def change_all(logs: list[Json]) -> list[Json]:
        for log in logs:
            change(log)
        return logs

    return build_changed_logs_fault(name, change_all, **limits)


# --- left out ---


def build_omitted_logs_fault(
    is_omitted: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that omits logs.

    By default it omits all logs.
    """
    return build_changed_logs_fault(
        "logs left out",
        lambda logs: [log for log in logs if is_omitted and not is_omitted(log)],
        **limits,
    )


def build_omitted_range_logs_fault(
    is_omitted: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that omits logs if a range of blocks is requested (geth #31593)."""
    condition = limits.get("when")
    limits["when"] = lambda request: (
        not request.is_by_block_hash and (condition is None or condition(request))
    )
    return build_omitted_logs_fault(is_omitted, **limits)


def build_omitted_log_fault(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that omits one log from each result.

    The log is at `index`, counted from 0.
    """
    return build_changed_logs_fault(
        "one log left out", lambda logs: logs[:index] + logs[index + 1 :], **limits
    )


def build_capped_logs_fault(max_logs: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that silently serves only the first `max_logs` logs (ethers #1389)."""
    return build_changed_logs_fault(
        f"{max_logs} logs at most", lambda logs: logs[:max_logs], **limits
    )


def build_silent_pruning_fault(below: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that makes blocks lower than `below` look empty (Ghoststake #58).

    Their logs are missing in the results of ranges, and their receipts are null.
    """

    def change_result(request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if request.method in LOG_METHODS:
            return [log for log in result if int(log["blockNumber"], 16) >= below]
        return None if request.block_range and request.block_range[1] < below else result

    return InjectedFault(
        "silently pruned history",
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, *LOG_AND_RECEIPT_METHODS),
    )


def build_empty_logs_for_unknown_block_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves `[]` for an unknown block, like Ganache (0x PR#1080)."""

    def change_result(_request: FakeRequest, result: object) -> object:
        return [] if isinstance(result, FakeRpcError) else result

    return InjectedFault(
        "empty list for an unknown block",
        change_result,
        limits=add_default_methods(limits, *LOG_METHODS),
    )


def build_foreign_logs_fault(
    other_endpoint: FakeEndpoint, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that serves the logs of another endpoint, even of another fork."""

    def change_result(request: FakeRequest, _result: object) -> object:
        try:
            return other_endpoint.handle_call(request.method, request.params)
        except FakeRpcError as error:
            return error

    return InjectedFault(
        "logs of another endpoint", change_result, limits=add_default_methods(limits, *LOG_METHODS)
    )


# --- too many, or not in order ---


def build_duplicated_log_fault(index: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that repeats one log unchanged."""
    return build_changed_logs_fault(
        "a log twice", lambda logs: logs + logs[index : index + 1], **limits
    )


def build_conflicting_log_fault(index: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds a log with other data at an existing position (ponder #2182)."""

    def change_all(logs: list[Json]) -> list[Json]:
        return logs + [{**log, "data": log["data"] + "00" * 32} for log in logs[index : index + 1]]

    return build_changed_logs_fault("two logs at one place", change_all, **limits)


def build_reversed_logs_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reverses the order of the logs."""
    return build_changed_logs_fault("logs out of order", lambda logs: logs[::-1], **limits)


def build_shifted_block_numbers_fault(offset: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds `offset` to the block number of each log."""
    return build_every_log_changed_fault(
        "logs of other blocks",
        lambda log: log.update(blockNumber=hex(int(log["blockNumber"], 16) + offset)),
        **limits,
    )


def build_wrong_log_address_fault(address: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sets the contract address of all logs to `address`."""
    return build_every_log_changed_fault(
        "logs of another address", lambda log: log.update(address=address), **limits
    )


# --- malformed ---


def build_removed_logs_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that marks the logs as removed."""
    return build_every_log_changed_fault(
        "removed logs", lambda log: log.update(removed=True), **limits
    )


def build_pending_logs_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves logs without a block, as if they were pending."""
    null_fields = dict.fromkeys(("blockHash", "blockNumber", "logIndex"))
    return build_every_log_changed_fault(
        "pending logs", lambda log: log.update(null_fields), **limits
    )


def build_zero_tx_hashes_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sets the transaction hashes of logs to zero (zkSync)."""
    zero_hash = "0x" + "00" * 32
    return build_every_log_changed_fault(
        "zero hashes", lambda log: log.update(transactionHash=zero_hash), **limits
    )


def build_uppercase_hex_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that writes all hex digits in upper case."""

    def to_upper(text: str) -> str:
        return "0x" + text[2:].upper()

    def change_log(log: Json) -> None:
        for field in ("address", "data", "blockHash", "transactionHash", "logIndex"):
            log[field] = to_upper(log[field])
        log["topics"] = [to_upper(topic) for topic in log["topics"]]

    return build_every_log_changed_fault("hex in capitals", change_log, **limits)


def build_odd_hex_length_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that appends a hex digit (half a byte) to the data of each log."""
    return build_every_log_changed_fault(
        "half a byte", lambda log: log.update(data=log["data"] + "0"), **limits
    )


def build_changed_log_field_fault(
    name: str, value: object, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that sets one field of every log."""
    return build_every_log_changed_fault(
        f"other {name}", lambda log: log.update({name: value}), **limits
    )


def build_missing_log_field_fault(name: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that removes one field of every log, such as `blockTimestamp`."""
    return build_every_log_changed_fault(f"no {name}", lambda log: log.pop(name, None), **limits)
