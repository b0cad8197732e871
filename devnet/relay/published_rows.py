"""Defines the rows of a relay's stream (docs/reference/crynux-relay.md#rows)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from eth_utils.address import to_checksum_address

from oracle.domain.ids import Address, TaskKey

# Content of the column `task` in a row that concerns no task.
NO_TASK = ""


class TaskState(IntEnum):
    """The `last_status` values of aborted tasks from the stand-in relay."""

    QUEUED = 0
    STARTED = 1
    ERROR_REPORTED = 3
    SCORE_READY = 4
    VALIDATED = 5
    GROUP_VALIDATED = 6


class AbortCode(IntEnum):
    """The `abort_reason` values from the stand-in relay."""

    TIMEOUT = 1
    INCORRECT_RESULT = 3
    GROUP_TIMEOUT = 5
    ERROR_REPORTED = 6
    CANCELLED = 7
    CREATOR_VALIDATION_TIMEOUT = 8
    RESULT_UPLOAD_TIMEOUT = 9


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of the stream.

    `task` is empty if the row names no task. `node` is the column with that name. In the row of an
    aborted task, it holds the issuer.
    """

    id: int
    type: str
    node: str
    task: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Encode the row as the relay does.

        `args` is a string that contains JSON.
        """
        return {
            "id": self.id,
            "type": self.type,
            "node_address": self.node,
            "task_id_commitment": self.task,
            "args": json.dumps(self.args, separators=(",", ":")),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "PublishedRow":
        """Parse a row that `to_json` or a relay has written.

        Raises:
            ValueError: a field is missing or has the wrong type.
        """
        try:
            return cls(
                int(row["id"]),
                str(row["type"]),
                str(row["node_address"]),
                str(row["task_id_commitment"]),
                json.loads(row["args"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"malformed relay row: a field is missing or invalid: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class RowBody:
    """A row that has no id so far."""

    type: str
    node: str
    task: str
    args: Mapping[str, Any]

    def with_id(self, row_id: int) -> PublishedRow:
        return PublishedRow(row_id, self.type, self.node, self.task, self.args)


def to_relay_address(node: Address) -> str:
    """Convert an address to the relay's format, with the checksum of EIP-55."""
    return str(to_checksum_address(node))


def build_task_row(row_type: str, task: TaskKey, node: Address, **extra_args: object) -> RowBody:
    """Build the row of a task's start, answer, verdict or end.

    The row names the task's node.
    """
    node_text = to_relay_address(node)
    args = {"task_id_commitment": task, "selected_node": node_text, **extra_args}
    return RowBody(row_type, node_text, task, args)


def build_aborted_row(
    task: TaskKey, issuer: Address, status: TaskState, reason: AbortCode
) -> RowBody:
    """Build the row of an aborted task.

    The row names the issuer of the task, but not its node.
    """
    row_arguments = {
        "task_id_commitment": task,
        "abort_issuer": to_relay_address(issuer),
        "last_status": int(status),
        "abort_reason": int(reason),
    }
    return RowBody("TaskEndAborted", to_relay_address(issuer), task, row_arguments)


def build_node_row(row_type: str, node: Address, network: str, **extra_args: object) -> RowBody:
    """Build a row that names only a node.

    It is about a join, quit or stake.
    """
    node_text = to_relay_address(node)
    args = {"node_address": node_text, "network": network, **extra_args}
    return RowBody(row_type, node_text, NO_TASK, args)


def build_kickout_row(node: Address, task: TaskKey, network: str) -> RowBody:
    """Build the row of a kickout.

    The row names the task that caused the kickout.
    """
    node_text = to_relay_address(node)
    row_arguments = {"node_address": node_text, "task_id_commitment": task, "network": network}
    return RowBody("NodeKickedOut", node_text, task, row_arguments)


def hash_result(result: str) -> str:
    """Return a digest that serves as the `score` of a result, as for language models."""
    return "0x" + hashlib.sha256(result.encode()).hexdigest()
