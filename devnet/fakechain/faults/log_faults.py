"""Faults of logs: missing, capped, duplicated, of another fork, or malformed.

All of them change `eth_getLogs`; `methods=RECEIPTS` or `methods=EVERYWHERE` changes receipts too.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from devnet.fakechain.answering import Answering
from devnet.fakechain.fault import FaultLimits, InjectedFault, on_success, only
from devnet.fakechain.requests import FakeRequest, FakeRpcError

Json = dict[str, Any]
LOGS = frozenset({"eth_getLogs"})
RECEIPTS = frozenset({"eth_getBlockReceipts", "eth_getTransactionReceipt"})
EVERYWHERE = LOGS | RECEIPTS


def spoiled_logs(
    name: str, change: Callable[[list[Json]], Sequence[Json]], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that replaces the logs of a result; `change` gets copies of all of them."""

    def changed(asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        if asked.method in LOGS:
            return list(change([dict(log) for log in answer]))
        if isinstance(answer, dict):
            return {**answer, "logs": list(change([dict(log) for log in answer["logs"]]))}
        return [
            {**receipt, "logs": list(change([dict(log) for log in receipt["logs"]]))}
            for receipt in answer
        ]

    return InjectedFault(name, on_success(changed), limits=only(limits, *LOGS))


def spoiled_log(
    name: str, change: Callable[[Json], object], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that changes every log of a result in place."""

    def changed(logs: list[Json]) -> list[Json]:
        for log in logs:
            change(log)
        return logs

    return spoiled_logs(name, changed, **limits)


# --- left out ---


def omits_logs(
    which: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that leaves out logs, by default all of them."""
    return spoiled_logs(
        "logs left out", lambda logs: [log for log in logs if which and not which(log)], **limits
    )


def omits_in_ranges(
    which: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that leaves out logs of ranges, but not of block hashes (geth #31593)."""
    when = limits.get("when")
    limits["when"] = lambda asked: not asked.by_hash and (when is None or when(asked))
    return omits_logs(which, **limits)


def omits_one(nth: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that leaves one log out of each result, counted from 0."""
    return spoiled_logs("one log left out", lambda logs: logs[:nth] + logs[nth + 1 :], **limits)


def capped(most: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: only the first so many logs, without any notice (ethers #1389)."""
    return spoiled_logs(f"{most} logs at most", lambda logs: logs[:most], **limits)


def pruned_silently(below: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: blocks below this one look empty (Ghoststake #58).

    Ranges lose the logs below it, and receipts are null.
    """

    def changed(asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        if asked.method in LOGS:
            return [log for log in answer if int(log["blockNumber"], 16) >= below]
        return None if asked.blocks and asked.blocks[1] < below else answer

    return InjectedFault("pruned history", on_success(changed), limits=only(limits, *EVERYWHERE))


def empty_where_unknown(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: `[]` for an unknown block, as Ganache and others return (0x PR#1080)."""

    def changed(_asked: FakeRequest, answer: object) -> object:
        return [] if isinstance(answer, FakeRpcError) else answer

    return InjectedFault("[] for an unknown block", changed, limits=only(limits, *LOGS))


def logs_of(other: Answering, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the logs of another endpoint, of another fork or of fewer blocks."""

    def changed(asked: FakeRequest, _answer: object) -> object:
        try:
            return other.answer(asked.method, asked.params)
        except FakeRpcError as error:
            return error

    return InjectedFault("logs of another view", changed, limits=only(limits, *LOGS))


# --- too many, or not in order ---


def doubled(nth: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that repeats one log unchanged."""
    return spoiled_logs("a log twice", lambda logs: logs + logs[nth : nth + 1], **limits)


def contradicted(nth: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds a log with other data at the same position (ponder #2182)."""

    def changed(logs: list[Json]) -> list[Json]:
        return logs + [{**log, "data": log["data"] + "00" * 32} for log in logs[nth : nth + 1]]

    return spoiled_logs("two logs at one place", changed, **limits)


def shuffled_logs(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reverses the order of the logs."""
    return spoiled_logs("logs out of order", lambda logs: logs[::-1], **limits)


def with_log(extra: Json, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds a log that does not belong to the result."""
    return spoiled_logs("a log too many", lambda logs: [*logs, extra], **limits)


def of_blocks_moved(blocks: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the block number of each log is this much higher, outside the range."""
    return spoiled_log(
        "logs of other blocks",
        lambda log: log.update(blockNumber=hex(int(log["blockNumber"], 16) + blocks)),
        **limits,
    )


def of_address(address: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: all logs name another contract."""
    return spoiled_log(
        "logs of another address", lambda log: log.update(address=address), **limits
    )


# --- malformed ---


def removed(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that marks the logs as removed."""
    return spoiled_log("removed logs", lambda log: log.update(removed=True), **limits)


def pending(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: logs without a block, like pending ones."""
    nothing = dict.fromkeys(("blockHash", "blockNumber", "logIndex"))
    return spoiled_log("pending logs", lambda log: log.update(nothing), **limits)


def without_tx_hash(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: transaction hashes are zero (zkSync)."""
    zeros = "0x" + "00" * 32
    return spoiled_log("zero hashes", lambda log: log.update(transactionHash=zeros), **limits)


def upper_case(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that writes all hex in capitals."""

    def loud(text: str) -> str:
        return "0x" + text[2:].upper()

    def changed(log: Json) -> None:
        for field in ("address", "data", "blockHash", "transactionHash", "logIndex"):
            log[field] = loud(log[field])
        log["topics"] = [loud(topic) for topic in log["topics"]]

    return spoiled_log("hex in capitals", changed, **limits)


def odd_hex(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that appends half a byte to the data of the logs."""
    return spoiled_log("half a byte", lambda log: log.update(data=log["data"] + "0"), **limits)


def with_field(name: str, value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sets one field of every log."""
    return spoiled_log(f"other {name}", lambda log: log.update({name: value}), **limits)


def without_field(name: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that removes one field of every log, such as `blockTimestamp`."""
    return spoiled_log(f"no {name}", lambda log: log.pop(name, None), **limits)
