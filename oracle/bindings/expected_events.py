"""Checks whether a call had its effect: the receipt must have the event with the call's values.

A status of 1 only means that nothing reverted.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from oracle.bindings.codec import call_arguments, contract_object
from oracle.chain.decode.abi import load
from oracle.domain.ids import Address, Hash
from oracle.txmgr.client.receipt_quorum import Receipt, ReceiptLog

if TYPE_CHECKING:
    from web3.types import TxReceipt

_SELECTOR = 10


@dataclass(frozen=True, slots=True)
class _Effect:
    """The event that a function emits, and the function's input that equals each event field."""

    contract: str
    function: str
    event: str
    inputs: Mapping[str, str]
    # The event field with the statement's digest, if there is one.
    digest: str | None = None


_ROUND_OF_PUSH = {"round": "round", "asOf": "asOf", "asOfHash": "asOfHash"}
_EFFECTS = (
    _Effect("QoSOracle", "push", "RoundAccepted", _ROUND_OF_PUSH, "digest"),
    _Effect(
        "QoSOracle",
        "proposeKick",
        "KickProposed",
        {"node": "node", "evidence": "evidence"},
    ),
    _Effect("QoSOracle", "executeKick", "KickExecuted", {"node": "node"}),
    _Effect("QoSOracle", "retryKick", "KickExecuted", {"node": "node"}),
    _Effect("QoSOracle", "cancelKick", "KickCancelled", {"node": "node", "why": "why"}),
    _Effect("TaskNetwork", "startTask", "TaskStarted", {"task": "key", "node": "account"}),
    _Effect("TaskNetwork", "startTaskAsOf", "TaskStarted", {"task": "key", "node": "account"}),
    _Effect("TaskNetwork", "startGroup", "GroupStarted", {"tasks": "keys", "nodes": "accounts"}),
    _Effect("TaskNetwork", "queueTask", "TaskQueued", {"task": "key"}),
    _Effect("TaskNetwork", "dropTask", "TaskAborted", {"task": "key"}),
    # All tasks of the group end, or none: the first one stands for all.
    _Effect("TaskNetwork", "dropGroup", "TaskAborted", {"task": "keys[0]"}),
    _Effect("TaskNetwork", "probe", "ProbeStarted", {"nodes": "nodes"}),
    _Effect("TaskNetwork", "validateTask", "TaskSucceeded", {"task": "key"}),
    _Effect("TaskNetwork", "acceptError", "TaskAborted", {"task": "key"}),
    _Effect("TaskNetwork", "timeOutTask", "TaskTimedOut", {"task": "key"}),
    _Effect("TaskNetwork", "validateGroup", "GroupValidated", {"tasks": "keys"}),
    _Effect(
        "TaskNetwork",
        "requestDownload",
        "DownloadRequested",
        {"node": "account", "model": "model"},
    ),
)


def missing_effect(
    receipt: Receipt, contract: Address, calldata: str, digest: Hash | None
) -> str | None:
    """Return the event that a call should have emitted but did not, or None.

    `digest` is that of the pushed statement. A call without a known event, such as an empty
    transfer to the own account, needs none.
    """
    effect = _by_selector().get(calldata[:_SELECTOR])
    if effect is None:
        return None
    expected = _expected(effect, calldata, digest)
    events = [event for event in receipt.events if event.contract == contract]
    if any(_values(effect, said) == expected for said in _said(effect, events)):
        return None
    return effect.event


def _expected(effect: _Effect, calldata: str, digest: Hash | None) -> dict[str, object]:
    given = call_arguments(effect.contract, effect.function, calldata)
    wanted = {theirs: _plain(_argument(given, ours)) for theirs, ours in effect.inputs.items()}
    if effect.digest is not None and digest is not None:
        wanted[effect.digest] = bytes.fromhex(digest[2:])
    return wanted


def _argument(given: Mapping[str, Any], name: str) -> object:
    """Return an argument of a call; `keys[0]` is the first item of the list `keys`."""
    whole = name.removesuffix("[0]")
    return given[name] if whole == name else given[whole][0]


def _values(effect: _Effect, said: Mapping[str, object]) -> dict[str, object]:
    """Return the event's values that are compared."""
    names = [*effect.inputs, *([effect.digest] if effect.digest is not None else [])]
    return {name: _plain(said[name]) for name in names}


def _said(effect: _Effect, events: Sequence[ReceiptLog]) -> list[Mapping[str, object]]:
    """Return the arguments of the events of that name; malformed logs are skipped."""
    event = contract_object(effect.contract).events[effect.event]()
    digest = load(effect.contract).events[effect.event].digest
    # web3 is already loaded here, and eth_abi with it.
    from eth_abi.exceptions import DecodingError  # noqa: PLC0415
    from web3.logs import DISCARD  # noqa: PLC0415

    found: list[Mapping[str, object]] = []
    for one in events:
        if one.topics[:1] == (digest,):
            with suppress(DecodingError, ValueError):
                read = event.process_receipt(_as_receipt(one), errors=DISCARD)
                found += [said["args"] for said in read]
    return found


def _as_receipt(event: ReceiptLog) -> "TxReceipt":
    """Return a web3 receipt with only this log; its position does not matter."""
    log: Any = {
        "address": event.contract,
        "topics": [bytes.fromhex(topic[2:]) for topic in event.topics],
        "data": bytes.fromhex(event.words[2:]),
        **dict.fromkeys(("blockNumber", "transactionIndex", "logIndex"), 0),
        **dict.fromkeys(("blockHash", "transactionHash"), b""),
    }
    receipt: Any = {"logs": [log]}
    return cast("TxReceipt", receipt)


def _plain(value: object) -> object:
    """Return a web3 value in a comparable form: addresses in lower case, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value.lower() if isinstance(value, str) else value


@cache
def _by_selector() -> dict[str, _Effect]:
    return {load(one.contract).functions[one.function].selector: one for one in _EFFECTS}
