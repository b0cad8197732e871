"""The rows that a relay publishes, field for field (docs/reference/crynux-relay.md#rows)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from eth_utils.address import to_checksum_address

from oracle.domain.ids import Address, TaskKey

# Not tasks: the column of rows that name none.
NO_TASK = ""


class TaskState(IntEnum):
    """`last_status` of an aborted task, as far as a stand-in comes to it."""

    QUEUED = 0
    STARTED = 1
    ERROR_REPORTED = 3
    SCORE_READY = 4
    VALIDATED = 5
    GROUP_VALIDATED = 6


class AbortCode(IntEnum):
    """`abort_reason` of an aborted task, as far as a stand-in comes to it."""

    TIMEOUT = 1
    INCORRECT_RESULT = 3
    GROUP_TIMEOUT = 5
    ERROR_REPORTED = 6
    CANCELLED = 7
    CREATOR_VALIDATION_TIMEOUT = 8
    RESULT_UPLOAD_TIMEOUT = 9


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row of the stream; `task` is empty where it is about a node alone.

    `node` is the column of that name: of an aborted task its issuer, which is not the node.
    """

    id: int
    type: str
    node: str
    task: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as the relay does: `args` is JSON inside a text."""
        return {
            "id": self.id,
            "type": self.type,
            "node_address": self.node,
            "task_id_commitment": self.task,
            "args": json.dumps(self.args, separators=(",", ":")),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "PublishedRow":
        """Read what `to_json` wrote, or what a relay answered.

        Raises:
            ValueError: it is no such row.
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
            raise ValueError(f"no row of a relay: {error}") from None


@dataclass(frozen=True, slots=True)
class RowBody:
    """A row that has no id yet: what happened, in the relay's words."""

    type: str
    node: str
    task: str
    args: Mapping[str, Any]

    def numbered(self, number: int) -> PublishedRow:
        """Return the row with its id."""
        return PublishedRow(number, self.type, self.node, self.task, self.args)


def shown(node: Address) -> str:
    """Return an address as the relay writes it, with the capitals of EIP-55."""
    return str(to_checksum_address(node))


def of_task(kind: str, task: TaskKey, node: Address, **more: object) -> RowBody:
    """Return a row of a task that names its node: starts, answers, verdicts, ends."""
    named = shown(node)
    args = {"task_id_commitment": task, "selected_node": named, **more}
    return RowBody(kind, named, task, args)


def aborted(task: TaskKey, issuer: Address, status: TaskState, reason: AbortCode) -> RowBody:
    """Return the end of a task that came to nothing; its node is not named."""
    args = {
        "task_id_commitment": task,
        "abort_issuer": shown(issuer),
        "last_status": int(status),
        "abort_reason": int(reason),
    }
    return RowBody("TaskEndAborted", shown(issuer), task, args)


def of_node(kind: str, node: Address, network: str, **more: object) -> RowBody:
    """Return a row about a node alone: joins, quits, stakes."""
    named = shown(node)
    args = {"node_address": named, "network": network, **more}
    return RowBody(kind, named, NO_TASK, args)


def kicked_out(node: Address, task: TaskKey, network: str) -> RowBody:
    """Return the row of a kickout, with the task whose end caused it."""
    named = shown(node)
    args = {"node_address": named, "task_id_commitment": task, "network": network}
    return RowBody("NodeKickedOut", named, task, args)


def score_of(said: str) -> str:
    """Return what stands in `score` for a result: a digest, as of a language model."""
    return "0x" + hashlib.sha256(said.encode()).hexdigest()
