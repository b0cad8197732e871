"""The relay's rules for closing a group of three, from its validate_task.go.

The module imports nothing of `oracle`: the product's interpretation of rows is compared with it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

# The state of a member before its group is closed. A, B and C are different results. E is an error
# report. T timed out while running. Q was cancelled in the queue. S lost its node by a slash.
RESULTS = "ABC"
FINISHED = RESULTS + "E"
SILENT = "TQS"
OUTCOMES = FINISHED + SILENT
ALL_GROUPS = tuple(product(OUTCOMES, repeat=3))

SCORE_BY_RANK = (10, 5, 2)
VALIDATED, REFUND, INVALIDATED = "TaskValidated", "TaskEndGroupRefund", "TaskEndInvalidated"
INCORRECT, GROUP_TIMEOUT = 3, 5


@dataclass(frozen=True)
class ClosedGroup:
    """The end of each member of a group, in order of elapsed time.

    `ends` are row types, abort reasons or None.

    `scores` are the scores that each member's pool gets, or None. `closes` is False if the relay's
    transaction fails, so that the group stays open.
    """

    ends: tuple[str | int | None, ...]
    scores: tuple[int | None, ...]
    closes: bool = True


def have_same_score(outcome: str, other_outcome: str) -> bool:
    """Return whether two outcomes are equal in status and result, as compareTaskScore does.

    Two error reports are equal.
    """
    return outcome == other_outcome


def close_group(outcomes: Sequence[str]) -> ClosedGroup:
    """Close a group as ValidateTaskGroup does; members are in order of elapsed time."""
    finished = [place for place, outcome in enumerate(outcomes) if outcome in FINISHED]
    ends: list[str | int | None] = [None] * len(outcomes)
    scores: list[int | None] = [None] * len(outcomes)
    if not finished:
        return ClosedGroup(tuple(ends), tuple(scores))
    abort = INCORRECT if len(finished) > 1 else GROUP_TIMEOUT
    for rank, place in enumerate(finished):
        ends[place], scores[place] = abort, SCORE_BY_RANK[rank]
    for place, outcome in enumerate(outcomes):
        if outcome == "T":
            scores[place] = 0
    closes = set_comparison_ends(outcomes, finished, ends)
    for place, end in enumerate(ends):
        if end == INVALIDATED:
            scores[place] = None
    if not closes:
        return ClosedGroup((None,) * len(outcomes), (None,) * len(outcomes), closes=False)
    return ClosedGroup(tuple(ends), tuple(scores))


def set_comparison_ends(
    outcomes: Sequence[str], finished: Sequence[int], ends: list[str | int | None]
) -> bool:
    """Set the ends that the comparison of results decides.

    Return False if the transaction fails.
    """
    pairs = [
        (first_index, two)
        for first_index, two in combinations(finished, 2)
        if have_same_score(outcomes[first_index], outcomes[two])
    ]
    if not pairs:
        return True
    first, second = pairs[0]
    if outcomes[first] != "E":
        ends[first], ends[second] = VALIDATED, REFUND
    for third in {*finished} - {first, second}:
        ends[third] = REFUND if (first, third) in pairs else INVALIDATED
    # SetTaskStatusEndGroupRefund requires a submitted result.
    return not any(
        end == REFUND and outcome == "E" for end, outcome in zip(ends, outcomes, strict=True)
    )


def can_identify_timeout(outcomes: Sequence[str]) -> bool:
    """Return whether the rows show who timed out.

    They do not if another member ended silently without a score of 0.
    """
    return not ({"Q", "S"} & {*outcomes} and "T" in outcomes)


CREATOR = "0x" + "cc" * 20
RELAY_ACCOUNT = "0x" + "ee" * 20
_SILENT_ENDS = {"T": (1, 1, RELAY_ACCOUNT), "Q": (7, 0, CREATOR), "S": (10, 1, RELAY_ACCOUNT)}


def make_node_address(number: int) -> str:
    return f"0x{number + 1:040x}"


def make_task_key(number: int) -> str:
    return f"0x{number + 1:064x}"


@dataclass
class Stream:
    """A relay's rows in the order of their ids: id, type, node, task, and args as text."""

    rows: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    next_id: int = 1

    def emit(self, kind: str, node: str, task: str, **args: object) -> None:
        self.rows.append((self.next_id, kind, node, task, json.dumps(args)))
        self.next_id += 1

    def abort(self, task: int, reason: int, status: int, issuer: str) -> None:
        args = {"abort_reason": reason, "last_status": status, "abort_issuer": issuer}
        self.emit("TaskEndAborted", issuer, make_task_key(task), **args)

    def play_group(
        self, nodes: Sequence[int], tasks: Sequence[int], outcomes: Sequence[str], end: ClosedGroup
    ) -> None:
        """Append a group's rows: starts, answers, silent ends and the closing rows."""
        members = list(zip(nodes, tasks, outcomes, strict=True))
        for node, task, outcome in members:
            if outcome != "Q":
                self.emit("TaskStarted", make_node_address(node), make_task_key(task))
        for node, task, outcome in members:
            self._answer(node, task, outcome)
        for _, task, outcome in members:
            if outcome in SILENT:
                self.abort(task, *_SILENT_ENDS[outcome])
        for member, closing in zip(members, end.ends, strict=True):
            self._close(*member, closing)

    def _answer(self, node: int, task: int, outcome: str) -> None:
        if outcome == "E":
            self.emit("TaskErrorReported", make_node_address(node), make_task_key(task))
        elif outcome in FINISHED:
            score = "0x" + outcome.lower() * 64
            self.emit("TaskScoreReady", make_node_address(node), make_task_key(task), score=score)

    def _close(self, node: int, task: int, outcome: str, closing: str | int | None) -> None:
        if isinstance(closing, str):
            self.emit(closing, make_node_address(node), make_task_key(task))
        elif closing is not None:
            self.abort(task, closing, 3 if outcome == "E" else 4, CREATOR)
