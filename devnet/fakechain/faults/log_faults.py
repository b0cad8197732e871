"""Faults of logs: left out, capped, doubled, of another fork, or written as nobody may.

All of them spoil `eth_getLogs`; `methods=RECEIPTS` or `methods=EVERYWHERE` spoils receipts too.
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
    """Put other logs in place of those of an answer; `change` gets copies, all of the answer's."""

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
    """Change every log of an answer in place."""

    def changed(logs: list[Json]) -> list[Json]:
        for log in logs:
            change(log)
        return logs

    return spoiled_logs(name, changed, **limits)


# --- left out ---


def omits_logs(
    which: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Leave out logs, by default all, whatever was asked."""
    return spoiled_logs(
        "logs left out", lambda logs: [log for log in logs if which and not which(log)], **limits
    )


def omits_in_ranges(
    which: Callable[[Json], bool] | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Leave logs out of ranges, and give them where the block's hash is named (geth #31593)."""
    when = limits.get("when")
    limits["when"] = lambda asked: not asked.by_hash and (when is None or when(asked))
    return omits_logs(which, **limits)


def omits_one(nth: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Leave one log out of each answer, counted from 0."""
    return spoiled_logs("one log left out", lambda logs: logs[:nth] + logs[nth + 1 :], **limits)


def capped(most: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give the first so many and not a word of the rest (ethers #1389)."""
    return spoiled_logs(f"{most} logs at most", lambda logs: logs[:most], **limits)


def pruned_silently(below: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Answer for blocks below this one as if nothing had happened there (Ghoststake #58).

    Ranges lose the logs below it, receipts are null.
    """

    def changed(asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        if asked.method in LOGS:
            return [log for log in answer if int(log["blockNumber"], 16) >= below]
        return None if asked.blocks and asked.blocks[1] < below else answer

    return InjectedFault("pruned history", on_success(changed), limits=only(limits, *EVERYWHERE))


def empty_where_unknown(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Answer `[]` where a block is not known, as Ganache and others do (0x PR#1080)."""

    def changed(_asked: FakeRequest, answer: object) -> object:
        return [] if isinstance(answer, FakeRpcError) else answer

    return InjectedFault("[] for an unknown block", changed, limits=only(limits, *LOGS))


def logs_of(other: Answering, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give the logs that another endpoint has: of another fork, or of fewer blocks."""

    def changed(asked: FakeRequest, _answer: object) -> object:
        try:
            return other.answer(asked.method, asked.params)
        except FakeRpcError as error:
            return error

    return InjectedFault("logs of another view", changed, limits=only(limits, *LOGS))


# --- too many, or not in order ---


def doubled(nth: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give one log twice, word for word."""
    return spoiled_logs("a log twice", lambda logs: logs + logs[nth : nth + 1], **limits)


def contradicted(nth: int = 0, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give a second log of other content at the place of one (ponder #2182)."""

    def changed(logs: list[Json]) -> list[Json]:
        return logs + [{**log, "data": log["data"] + "00" * 32} for log in logs[nth : nth + 1]]

    return spoiled_logs("two logs at one place", changed, **limits)


def shuffled_logs(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give the logs last to first."""
    return spoiled_logs("logs out of order", lambda logs: logs[::-1], **limits)


def with_log(extra: Json, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Add a log that does not belong there."""
    return spoiled_logs("a log too many", lambda logs: [*logs, extra], **limits)


def of_blocks_moved(blocks: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Say that each log stands so many blocks higher: outside of the range."""
    return spoiled_log(
        "logs of other blocks",
        lambda log: log.update(blockNumber=hex(int(log["blockNumber"], 16) + blocks)),
        **limits,
    )


def of_address(address: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Say that another contract said it all."""
    return spoiled_log(
        "logs of another address", lambda log: log.update(address=address), **limits
    )


# --- written as nobody may ---


def removed(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Mark the logs as removed."""
    return spoiled_log("removed logs", lambda log: log.update(removed=True), **limits)


def pending(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give logs without a block, as of pending ones."""
    nothing = dict.fromkeys(("blockHash", "blockNumber", "logIndex"))
    return spoiled_log("pending logs", lambda log: log.update(nothing), **limits)


def without_tx_hash(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Give zeros for the transaction's hash (zkSync)."""
    zeros = "0x" + "00" * 32
    return spoiled_log("zero hashes", lambda log: log.update(transactionHash=zeros), **limits)


def upper_case(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Write all hex in capitals."""

    def loud(text: str) -> str:
        return "0x" + text[2:].upper()

    def changed(log: Json) -> None:
        for field in ("address", "data", "blockHash", "transactionHash", "logIndex"):
            log[field] = loud(log[field])
        log["topics"] = [loud(topic) for topic in log["topics"]]

    return spoiled_log("hex in capitals", changed, **limits)


def odd_hex(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Add half a byte to what the logs say."""
    return spoiled_log("half a byte", lambda log: log.update(data=log["data"] + "0"), **limits)


def with_field(name: str, value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Put this into one field of every log."""
    return spoiled_log(f"other {name}", lambda log: log.update({name: value}), **limits)


def without_field(name: str, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Leave one field out of every log, as `blockTimestamp` is left out by some."""
    return spoiled_log(f"no {name}", lambda log: log.pop(name, None), **limits)
