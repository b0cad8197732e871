"""Checks in a receipt that a call emitted the expected event with the expected values.

The check is needed, because a receipt status of 1 only means that the call did not revert.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from oracle.bindings.codec import decode_arguments, get_contract_class
from oracle.chain.decode.abi import SELECTOR_DIGITS, Parameter, load_abi
from oracle.domain.ids import Address
from oracle.store.outbox.records import Intent
from oracle.txmgr.call_registry import CallKind
from oracle.txmgr.client.receipts import Receipt, ReceiptLog

if TYPE_CHECKING:
    from web3.types import TxReceipt


@dataclass(frozen=True, slots=True)
class _ExpectedEvent:
    """The event that a function emits, and the input that each event field must equal.

    For example, the input `report.root` is a member of the struct `report`, and `keys[0]` is the
    first item of the list `keys`.
    """

    contract: str
    function: str
    event: str
    input_by_event_field: Mapping[str, str]


_ROUND_OF_PUSH = {name: f"report.{name}" for name in ("round", "asOf", "asOfHash", "root")}
_LEAF_OF_KICK = {"node": "leaf.node", "evidence": "leaf.poolHash"}
_EXPECTED_EVENTS = (
    _ExpectedEvent("roots/QoSRoots", "push", "RoundAccepted", _ROUND_OF_PUSH),
    _ExpectedEvent("roots/QoSRoots", "accuse", "KickAccused", _LEAF_OF_KICK),
    _ExpectedEvent("roots/QoSRoots", "executeKick", "KickExecuted", _LEAF_OF_KICK),
    _ExpectedEvent("roots/QoSRoots", "retryKick", "KickExecuted", {"node": "node"}),
    _ExpectedEvent("roots/QoSRoots", "clear", "KickCancelled", {"node": "leaf.node"}),
    _ExpectedEvent("roots/QoSRoots", "veto", "KickCancelled", {"node": "node", "why": "why"}),
    _ExpectedEvent(
        "roots/QoSWords", "bring", "WordsBrought", {"round": "round", "first": "first"}
    ),
    _ExpectedEvent("roots/QoSWords", "bind", "NodeRegistered", {"node": "leaves[0].node"}),
    _ExpectedEvent(
        "roots/Objections",
        "objectFor",
        "Objected",
        {"node": "objection.node", "seq": "objection.seq"},
    ),
    _ExpectedEvent("TaskNetwork", "startTask", "TaskStarted", {"task": "key", "node": "account"}),
    _ExpectedEvent(
        "TaskNetwork", "startTaskAsOf", "TaskStarted", {"task": "key", "node": "account"}
    ),
    _ExpectedEvent(
        "TaskNetwork", "startGroup", "GroupStarted", {"tasks": "keys", "nodes": "accounts"}
    ),
    _ExpectedEvent("TaskNetwork", "queueTask", "TaskQueued", {"task": "key"}),
    _ExpectedEvent("TaskNetwork", "dropTask", "TaskAborted", {"task": "key"}),
    # Checking the first task is enough, because all tasks of a group end together.
    _ExpectedEvent("TaskNetwork", "dropGroup", "TaskAborted", {"task": "keys[0]"}),
    _ExpectedEvent("TaskNetwork", "probe", "ProbeStarted", {"nodes": "nodes"}),
    _ExpectedEvent("TaskNetwork", "validateTask", "TaskSucceeded", {"task": "key"}),
    _ExpectedEvent("TaskNetwork", "acceptError", "TaskAborted", {"task": "key"}),
    _ExpectedEvent("TaskNetwork", "timeOutTask", "TaskTimedOut", {"task": "key"}),
    _ExpectedEvent("TaskNetwork", "validateGroup", "GroupValidated", {"tasks": "keys"}),
    _ExpectedEvent(
        "TaskNetwork",
        "requestDownload",
        "DownloadRequested",
        {"node": "account", "model": "model"},
    ),
)


def find_missing_event(receipt: Receipt, contract: Address, calldata: str) -> str | None:
    """Return the name of the event that a call failed to emit, or None if none is missing.

    No event is expected from a call that is not in `_EXPECTED_EVENTS`, such as an empty transfer
    of the account to itself.
    """
    expected_event = _build_expected_event_by_selector().get(calldata[:SELECTOR_DIGITS])
    if expected_event is None:
        return None
    expected_values = _build_expected_values(expected_event, calldata)
    events = [event for event in receipt.events if event.contract == contract]
    if any(
        _get_compared_values(expected_event, arguments) == expected_values
        for arguments in _decode_events(expected_event, events)
    ):
        return None
    return expected_event.event


class ContractCall(CallKind):
    """A contract call that emits the event declared for its function, if it succeeds."""

    @override
    def find_missing_event(self, receipt: Receipt, call: Intent) -> str | None:
        return find_missing_event(receipt, call.request.contract, call.request.calldata)


def _build_expected_values(expected_event: _ExpectedEvent, calldata: str) -> dict[str, object]:
    arguments = decode_arguments(expected_event.contract, expected_event.function, calldata)
    parameters = load_abi(expected_event.contract).functions[expected_event.function].inputs
    return {
        event_field: _normalize_value(_get_argument_at_path(parameters, arguments, input_name))
        for event_field, input_name in expected_event.input_by_event_field.items()
    }


def _get_argument_at_path(
    parameters: Sequence[Parameter], arguments: Mapping[str, Any], path: str
) -> object:
    """Return the argument, struct member or list item at a path, such as `report.root`."""
    parameter_name, _, member_name = path.partition(".")
    name = parameter_name.removesuffix("[0]")
    argument = arguments[name] if name == parameter_name else arguments[name][0]
    if not member_name:
        return argument
    (parameter,) = (parameter for parameter in parameters if parameter.name == name)
    member_names = [component.name for component in parameter.components]
    return argument[member_names.index(member_name)]


def _get_compared_values(
    expected_event: _ExpectedEvent, arguments: Mapping[str, object]
) -> dict[str, object]:
    """Return the event fields that must equal arguments of the call."""
    return {
        name: _normalize_value(arguments[name]) for name in expected_event.input_by_event_field
    }


def _decode_events(
    expected_event: _ExpectedEvent, events: Sequence[ReceiptLog]
) -> list[Mapping[str, object]]:
    """Decode the arguments of each well-formed log of the expected event."""
    event = get_contract_class(expected_event.contract).events[expected_event.event]()
    topic = load_abi(expected_event.contract).events[expected_event.event].digest
    # This import is cheap, because web3 has already loaded eth_abi.
    from eth_abi.exceptions import DecodingError  # noqa: PLC0415
    from web3.logs import DISCARD  # noqa: PLC0415

    decoded_arguments: list[Mapping[str, object]] = []
    for event_log in events:
        if event_log.topics[:1] == (topic,):
            with suppress(DecodingError, ValueError):
                decoded_logs = event.process_receipt(
                    _wrap_log_as_receipt(event_log), errors=DISCARD
                )
                decoded_arguments += [decoded_log["args"] for decoded_log in decoded_logs]
    return decoded_arguments


def _wrap_log_as_receipt(event: ReceiptLog) -> "TxReceipt":
    """Build a web3 receipt that contains only this log.

    All of its positions are 0.
    """
    log: Any = {
        "address": event.contract,
        "topics": [bytes.fromhex(topic[2:]) for topic in event.topics],
        "data": bytes.fromhex(event.data[2:]),
        **dict.fromkeys(("blockNumber", "transactionIndex", "logIndex"), 0),
        **dict.fromkeys(("blockHash", "transactionHash"), b""),
    }
    receipt: Any = {"logs": [log]}
    return cast("TxReceipt", receipt)


def _normalize_value(value: object) -> object:
    """Convert a web3 value for comparison: lower-case addresses, and tuples for lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_normalize_value, value))
    return value.lower() if isinstance(value, str) else value


@cache
def _build_expected_event_by_selector() -> dict[str, _ExpectedEvent]:
    return {
        load_abi(expected_event.contract)
        .functions[expected_event.function]
        .selector: expected_event
        for expected_event in _EXPECTED_EVENTS
    }
