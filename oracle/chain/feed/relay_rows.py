"""Decodes single rows of the Crynux relay's stream into events (profile `crynux-relay`).

See docs/explanation/feed.md#the-profile-crynux-relay. Validation groups consist of several rows;
`relay_groups` finds them.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import (
    AbortReason,
    DomainEvent,
    LastStatus,
    NodeJoined,
    NodeKickedOut,
    NodeQuit,
    NodeSlashed,
    NodeUpdated,
    TaskAborted,
    TaskErrorReported,
    TaskInvalidated,
    TaskRefunded,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address, TaskKey

# This string is part of the rules id. Increment its number if the same rows decode into different
# events.
DECODER_IDENTITY = "crynux-relay 2"

TIMEOUT, INCORRECT, GROUP_TIMEOUT, ERROR_REPORTED, CANCELLED = 1, 3, 5, 6, 7
CREATOR_TIMEOUT, UPLOAD_TIMEOUT = 8, 9
# The abort reason for each number that the relay uses; all other numbers become UNKNOWN.
_REASON_BY_NUMBER: Mapping[int, AbortReason] = {
    0: AbortReason.NONE,
    TIMEOUT: AbortReason.TIMEOUT,
    2: AbortReason.MODEL_DOWNLOAD_FAILED,
    INCORRECT: AbortReason.INCORRECT_RESULT,
    4: AbortReason.FEE_TOO_LOW,
    GROUP_TIMEOUT: AbortReason.GROUP_TIMEOUT,
    ERROR_REPORTED: AbortReason.ERROR_REPORTED,
    CANCELLED: AbortReason.CANCELLED,
    CREATOR_TIMEOUT: AbortReason.CREATOR_VALIDATION_TIMEOUT,
    UPLOAD_TIMEOUT: AbortReason.RESULT_UPLOAD_TIMEOUT,
}
_STATUS_BY_NUMBER: Mapping[int, LastStatus] = {
    0: LastStatus.QUEUED,
    1: LastStatus.STARTED,
    2: LastStatus.STARTED,
    3: LastStatus.ERROR_REPORTED,
    4: LastStatus.SUBMITTED,
    5: LastStatus.VALIDATED,
    6: LastStatus.VALIDATED,
}
_RUNNING_STATUSES = (1, 2)
_MAX_NESTING = 64
# This pattern matches a bracket outside of strings, or an entire string.
_BRACKET_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)

_NODE_EVENT_TYPES: Mapping[str, type[Any]] = {
    "NodeJoin": NodeJoined,
    "NodeQuit": NodeQuit,
    "NodeKickedOut": NodeKickedOut,
    "NodeSlashed": NodeSlashed,
}
_TASK_EVENT_TYPES: Mapping[str, type[Any]] = {
    "TaskStarted": TaskStarted,
    "TaskScoreReady": TaskSubmitted,
    "TaskErrorReported": TaskErrorReported,
    "TaskEndSuccess": TaskSucceeded,
    "TaskEndGroupSuccess": TaskSucceeded,
    "TaskEndGroupRefund": TaskRefunded,
    "TaskEndInvalidated": TaskInvalidated,
}
# Rows of these kinds are stored, but yield no event.
_IGNORED_KINDS = frozenset(
    {
        "DelegatorStaking",
        "DelegatorUnstaking",
        "DelegatedStakingSlashed",
        "NodeDelegatorShareChanged",
        "DownloadModel",
    }
)
KNOWN_KINDS = frozenset({*_NODE_EVENT_TYPES, *_TASK_EVENT_TYPES, *_IGNORED_KINDS}) | {
    "NodeStaking",
    "TaskValidated",
    "TaskEndAborted",
}


def decode_event(row: FeedRow, position: Position) -> DomainEvent | None:
    """Decode one row to an event at `position`, or None if its kind is ignored or unknown.

    Raises:
        ValueError: the row cannot be decoded; the message is one line.
    """
    time = row.time or 0
    if row.kind in _NODE_EVENT_TYPES:
        network_event = _NODE_EVENT_TYPES[row.kind](at=position, time=time, node=_parse_node(row))
        parse_row_arguments(row)
    elif row.kind in _TASK_EVENT_TYPES:
        network_event = _TASK_EVENT_TYPES[row.kind](
            at=position, time=time, task=parse_task_key(row), node=_parse_running_node(row)
        )
    elif row.kind == "TaskValidated":
        network_event = TaskValidated(position, time, parse_task_key(row))
        _parse_running_node(row)
    elif row.kind == "TaskEndAborted":
        network_event = _build_abort_event(row, position)
    elif row.kind == "NodeStaking":
        stake = _parse_decimal(parse_row_arguments(row), "staking_amount")
        network_event = NodeUpdated(position, time, _parse_node(row), stake=stake)
    else:
        return None
    event: DomainEvent = network_event
    return event


def parse_row_arguments(row: FeedRow) -> Mapping[str, Any]:
    """Parse the row's arguments.

    Raises ValueError if they are invalid. Arguments that name another task than the row are
    invalid.
    """
    if _exceeds_json_depth(row.args, _MAX_NESTING):
        raise ValueError(f"args: must not be nested deeper than {_MAX_NESTING} levels")
    try:
        arguments = json.loads(row.args)
    except (ValueError, RecursionError):
        raise ValueError("args: must be valid JSON") from None
    if not isinstance(arguments, dict):
        raise ValueError("args: must be a JSON object")  # noqa: TRY004 - the row is at fault
    task = arguments.get("task_id_commitment", row.task)
    if not isinstance(task, str) or task.lower() != row.task.lower():
        raise ValueError("args: task_id_commitment differs from the row's task")
    return arguments


def _exceeds_json_depth(text: str, max_depth: int) -> bool:
    """Return whether a JSON text is nested deeper than `max_depth`.

    Both arrays and objects count. The JSON parser is limited only by the remaining stack. Without
    this check, the stack depth of the caller would determine whether a row can be decoded.
    """
    if text.count("[") + text.count("{") <= max_depth:
        return False
    depth = 0
    for token in _BRACKET_PATTERN.finditer(text):
        bracket = token.group()
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > max_depth:
            return True
    return False


def parse_task_key(row: FeedRow) -> TaskKey:
    """Return the key of the row's task.

    Raises ValueError if the row has no valid key.
    """
    return TaskKey(_parse_hex(row.task, 32, "task_id_commitment"))


def parse_abort_row(row: FeedRow) -> tuple[int, int, str]:
    """Parse an abort row: its reason, the task's last status, and the issuer's address.

    The issuer is the address that aborted the task. Reason and status are the relay's numbers.

    Raises:
        ValueError: the arguments are invalid.
    """
    arguments = parse_row_arguments(row)
    issuer = arguments.get("abort_issuer", "")
    if not isinstance(issuer, str):
        raise ValueError("abort_issuer: must be a string")  # noqa: TRY004 - the row is at fault
    return (
        _parse_int(arguments, "abort_reason"),
        _parse_int(arguments, "last_status"),
        issuer.lower(),
    )


def is_execution_timeout(reason: int, status: int) -> bool:
    """Return whether an abort means that the node answered too late.

    The decision depends on the reason and the status of the abort.
    """
    return reason == TIMEOUT and status in _RUNNING_STATUSES


def _build_abort_event(row: FeedRow, position: Position) -> DomainEvent:
    """Build a timeout if the relay penalises the abort, otherwise an abort without blame.

    The node column of an abort's row is never read, because it contains the issuer of the abort.
    """
    reason, status, _ = parse_abort_row(row)
    time = row.time or 0
    task = parse_task_key(row)
    last_status = _STATUS_BY_NUMBER.get(status)
    if reason == UPLOAD_TIMEOUT or is_execution_timeout(reason, status):
        return TaskTimedOut(position, time, task, last_status=last_status)
    abort_reason = _REASON_BY_NUMBER.get(reason, AbortReason.UNKNOWN)
    return TaskAborted(position, time, task, reason=abort_reason, last_status=last_status)


def _parse_node(row: FeedRow) -> Address:
    return Address(_parse_hex(row.node, 20, "node_address"))


def _parse_running_node(row: FeedRow) -> Address:
    """Return the node that runs the task.

    The row and its arguments must name the same node.
    """
    node = _parse_node(row)
    selected_node = parse_row_arguments(row).get("selected_node", node)
    if not isinstance(selected_node, str) or selected_node.lower() != node:
        raise ValueError("selected_node: differs from the row's node")
    return node


def _parse_hex(text: str, byte_count: int, field_name: str) -> str:
    if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * byte_count}}}", text) is None:
        raise ValueError(f"{field_name}: must be 0x and {2 * byte_count} hex digits")
    return text.lower()


def _parse_int(arguments: Mapping[str, Any], field_name: str) -> int:
    raw_value = arguments.get(field_name)
    if type(raw_value) is not int:
        raise ValueError(f"{field_name}: must be a whole number")
    return raw_value


def _parse_decimal(arguments: Mapping[str, Any], field_name: str) -> int:
    raw_value = arguments.get(field_name)
    if not isinstance(raw_value, str) or re.fullmatch(r"[0-9]{1,77}", raw_value) is None:
        raise ValueError(f"{field_name}: must be a string of decimal digits")
    return int(raw_value)
