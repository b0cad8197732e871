"""The record of the recorded chain's driver, for assertions only."""

import gzip
import json
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

from tests.integration.traces.following import FOLDER

Row = dict[str, Any]

# The node was expected to answer, or its accepted result was never uploaded
# (docs/explanation/crynux.md#how-crynux-vss-reads).
_BLAMED = {"ParametersUploaded", "Validated", "GroupValidated"}
_OUTCOMES = {
    "EndSuccess": "succeeded",
    "EndGroupSuccess": "succeeded",
    "EndGroupRefund": "refunded",
    "EndInvalidated": "invalidated",
}
_WORDS = {"TaskFeeTooLow": "fee_too_low", "ModelDownloadFailed": "model_download_failed"}
_WORDS |= {"IncorrectResult": "incorrect_result", "Timeout": "timeout", "None": "none"}


@cache
def rows(kind: str) -> list[Row]:
    with gzip.open(FOLDER / "truth.jsonl.gz", "rt") as file:
        return [row for row in map(json.loads, file) if row["kind"] == kind]


class TrueTask(NamedTuple):
    """A task from its creation to its end, in the domain's terms."""

    node: str | None
    started: int | None
    stopped: int | None
    error: bool
    outcome: str
    ended: int
    end_block: int
    reason: str | None


def tasks() -> dict[str, TrueTask]:
    """Return every task by its key."""
    return {row["task_id_commitment"]: _task(row) for row in rows("task")}


def _task(row: Row) -> TrueTask:
    outcome = _OUTCOMES.get(row["outcome"], "aborted")
    if outcome == "aborted" and row["status_before_abort"] in _BLAMED:
        outcome = "timed_out"
    return TrueTask(
        row["node"] and row["node"].lower(),
        row["start_time"],
        row["submit_time"],
        row["submit_kind"] == "error",
        outcome,
        row["end_time"],
        row["end_block"],
        # The claims of a timeout are not stored.
        _WORDS[row["abort_reason"]] if outcome == "aborted" else None,
    )


class TrueMember(NamedTuple):
    """A member of a group; `elapsed` and `rank` only if it submitted or reported an error."""

    task: str
    node: str | None
    elapsed: int | None
    rank: int | None


def groups() -> dict[str, list[TrueMember]]:
    """The members of every group whose validation succeeded, in the order of the call.

    Ranks are recomputed for the answers that the validation confirmed, whatever became of them
    afterwards: by elapsed time, then by the order in which the tasks were created.
    """
    valid = (row for row in rows("group") if row["validate"] and row["validate"]["ok"])
    return {row["group_guid"]: _members(row) for row in valid}


def _is_confirmed(key: str) -> bool:
    """Return whether the group's validation put the task into the state of a right answer."""
    states = {step["state"] for step in _task_rows()[key]["history"]}
    return bool(states & {"GroupValidated", "EndGroupSuccess", "EndGroupRefund"})


@cache
def _task_rows() -> dict[str, Row]:
    return {row["task_id_commitment"]: row for row in rows("task")}


def _members(row: Row) -> list[TrueMember]:
    by_key = {member["task_id_commitment"]: member for member in row["members"]}
    answered = {
        key: (
            member["state_at_validation"] == "ErrorReported",
            member["time_cost"],
            member["sequence"],
        )
        for key, member in by_key.items()
        if member["state_at_validation"] in {"ScoreReady", "ErrorReported"}
    }
    confirmed = [key for key in answered if _is_confirmed(key)]
    ranks = {key: rank for rank, key in enumerate(sorted(confirmed, key=answered.__getitem__), 1)}
    return [
        TrueMember(
            key,
            by_key[key]["node"] and by_key[key]["node"].lower(),
            answered[key][1] if key in ranks else None,
            ranks.get(key),
        )
        for key in row["member_call_order"]
    ]


@cache
def statuses() -> dict[int, dict[str, str]]:
    """Return the status of every node after each block, by block;
    a node that never joined is `Quit`.
    """
    changes: dict[int, dict[str, str]] = defaultdict(dict)
    for row in rows("node_status"):
        changes[row["block"]][row["address"].lower()] = row["to"]
    standing = {row["address"].lower(): "Quit" for row in rows("node_final")}
    statuses_by_block = {}
    for block in range(rows("meta")[0]["blocks"] + 1):
        standing = {**standing, **changes[block]}
        statuses_by_block[block] = standing
    return statuses_by_block
