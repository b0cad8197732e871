"""Decodes single rows of the Crynux relay's stream into events: the profile `crynux-relay`.

See docs/explanation/feed.md#the-profile-crynux-relay. Validation groups take more than one row:
see `relay_groups`.
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

# Part of the rules id: raised whenever the same rows decode to different events.
IDENTITY = "crynux-relay 2"

TIMEOUT, INCORRECT, GROUP_TIMEOUT, ERROR_REPORTED, CANCELLED = 1, 3, 5, 6, 7
CREATOR_TIMEOUT, UPLOAD_TIMEOUT = 8, 9
# The relay's own reason numbers; all other numbers decode to UNKNOWN.
_REASONS: Mapping[int, AbortReason] = {
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
_STATUSES: Mapping[int, LastStatus] = {
    0: LastStatus.QUEUED,
    1: LastStatus.STARTED,
    2: LastStatus.STARTED,
    3: LastStatus.ERROR_REPORTED,
    4: LastStatus.SUBMITTED,
    5: LastStatus.VALIDATED,
    6: LastStatus.VALIDATED,
}
_RUNNING = (1, 2)
_MAX_NESTING = 64
# Brackets outside of strings, and whole strings.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)

_OF_NODES: Mapping[str, type[Any]] = {
    "NodeJoin": NodeJoined,
    "NodeQuit": NodeQuit,
    "NodeKickedOut": NodeKickedOut,
    "NodeSlashed": NodeSlashed,
}
_OF_RUNNERS: Mapping[str, type[Any]] = {
    "TaskStarted": TaskStarted,
    "TaskScoreReady": TaskSubmitted,
    "TaskErrorReported": TaskErrorReported,
    "TaskEndSuccess": TaskSucceeded,
    "TaskEndGroupSuccess": TaskSucceeded,
    "TaskEndGroupRefund": TaskRefunded,
    "TaskEndInvalidated": TaskInvalidated,
}
# Stored unchanged, without an event.
_SAY_NOTHING = frozenset(
    {
        "DelegatorStaking",
        "DelegatorUnstaking",
        "DelegatedStakingSlashed",
        "NodeDelegatorShareChanged",
        "DownloadModel",
    }
)
KNOWN = frozenset({*_OF_NODES, *_OF_RUNNERS, *_SAY_NOTHING}) | {
    "NodeStaking",
    "TaskValidated",
    "TaskEndAborted",
}


def event_of(row: FeedRow, at: Position) -> DomainEvent | None:
    """Return the event of one row at `position`, or None if its kind is ignored or unknown.

    Raises:
        ValueError: the row cannot be decoded; the message is one line.
    """
    time = row.time or 0
    if row.kind in _OF_NODES:
        said = _OF_NODES[row.kind](at=at, time=time, node=_node(row))
        arguments_of(row)
    elif row.kind in _OF_RUNNERS:
        said = _OF_RUNNERS[row.kind](at=at, time=time, task=task_of(row), node=_runner(row))
    elif row.kind == "TaskValidated":
        said = TaskValidated(at, time, task_of(row))
        _runner(row)
    elif row.kind == "TaskEndAborted":
        said = _aborted(row, at)
    elif row.kind == "NodeStaking":
        stake = _number_in_text(arguments_of(row), "staking_amount")
        said = NodeUpdated(at, time, _node(row), stake=stake)
    else:
        return None
    event: DomainEvent = said
    return event


def arguments_of(row: FeedRow) -> Mapping[str, Any]:
    """Return the row's arguments; raises ValueError if they are invalid or of another task."""
    if _is_nested_deeper(row.args, _MAX_NESTING):
        raise ValueError(f"args: nested deeper than {_MAX_NESTING}")
    try:
        said = json.loads(row.args)
    except (ValueError, RecursionError):
        raise ValueError("args: no JSON") from None
    if not isinstance(said, dict):
        raise ValueError("args: no object")  # noqa: TRY004 - the row is at fault
    task = said.get("task_id_commitment", row.task)
    if not isinstance(task, str) or task.lower() != row.task.lower():
        raise ValueError("args: of another task than the row")
    return said


def _is_nested_deeper(text: str, limit: int) -> bool:
    """Return whether a JSON text nests arrays and objects deeper than `max_depth`.

    The JSON parser itself is limited only by the remaining stack, so that the same row could be
    decoded by one caller and not by another.
    """
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _BRACKETS.finditer(text):
        mark = token.group()
        depth += (mark in "[{") - (mark in "]}")
        if depth > limit:
            return True
    return False


def task_of(row: FeedRow) -> TaskKey:
    """Return the key of the row's task; raises ValueError if the row has none."""
    return TaskKey(_hex(row.task, 32, "task_id_commitment"))


def abort_of(row: FeedRow) -> tuple[int, int, str]:
    """Return an abort's reason, the last status before it and the issuer, as relay numbers.

    Raises:
        ValueError: the arguments are invalid.
    """
    said = arguments_of(row)
    issuer = said.get("abort_issuer", "")
    if not isinstance(issuer, str):
        raise ValueError("abort_issuer: no text")  # noqa: TRY004 - the row is at fault
    return _number(said, "abort_reason"), _number(said, "last_status"), issuer.lower()


def is_execution_timeout(reason: int, status: int) -> bool:
    """Return whether the task ended because its node answered too late, by relay numbers."""
    return reason == TIMEOUT and status in _RUNNING


def _aborted(row: FeedRow, at: Position) -> DomainEvent:
    """Return a timeout if the relay penalises the abort, else an abort that blames no node.

    The row's node column is the issuer of the abort, and is never read.
    """
    reason, status, _ = abort_of(row)
    time, task, last = row.time or 0, task_of(row), _STATUSES.get(status)
    if reason == UPLOAD_TIMEOUT or is_execution_timeout(reason, status):
        return TaskTimedOut(at, time, task, last_status=last)
    why = _REASONS.get(reason, AbortReason.UNKNOWN)
    return TaskAborted(at, time, task, reason=why, last_status=last)


def _node(row: FeedRow) -> Address:
    return Address(_hex(row.node, 20, "node_address"))


def _runner(row: FeedRow) -> Address:
    """Return the node that runs the task; the row and its arguments must agree."""
    node = _node(row)
    said = arguments_of(row).get("selected_node", node)
    if not isinstance(said, str) or said.lower() != node:
        raise ValueError("selected_node: another than the row's")
    return node


def _hex(text: str, size: int, name: str) -> str:
    if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * size}}}", text) is None:
        raise ValueError(f"{name}: must be 0x and {2 * size} hex digits")
    return text.lower()


def _number(said: Mapping[str, Any], name: str) -> int:
    number = said.get(name)
    if type(number) is not int:
        raise ValueError(f"{name}: no whole number")
    return number


def _number_in_text(said: Mapping[str, Any], name: str) -> int:
    text = said.get(name)
    if not isinstance(text, str) or re.fullmatch(r"[0-9]{1,77}", text) is None:
        raise ValueError(f"{name}: no decimal text")
    return int(text)
