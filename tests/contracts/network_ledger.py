"""The reference network's money, tasks and nodes, from its events alone."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.support.evm.chain import Receipt
from tests.support.evm.network import Standing, Status

STEPS = {
    "TaskQueued": Status.QUEUED,
    "TaskStarted": Status.STARTED,
    "TaskSubmitted": Status.SUBMITTED,
    "TaskErrorReported": Status.ERROR_REPORTED,
    "TaskCommitted": Status.COMMITTED,
    "TaskRevealed": Status.SUBMITTED,
    "TaskErrorRevealed": Status.ERROR_REPORTED,
    "TaskValidated": Status.VALIDATED,
}
ENDS = {
    "TaskSucceeded": Status.SUCCEEDED,
    "TaskRefunded": Status.REFUNDED,
    "TaskInvalidated": Status.INVALIDATED,
    "TaskAborted": Status.ABORTED,
    "TaskTimedOut": Status.TIMED_OUT,
}
MOVES = {"NodeJoined": Standing.ACTIVE, "NodePaused": Standing.PAUSED}
MOVES |= {"NodeResumed": Standing.ACTIVE}
LEAVES = {
    "NodeQuit": Standing.QUIT,
    "NodeSlashed": Standing.SLASHED,
    "NodeKickedOut": Standing.KICKED_OUT,
}


@dataclass
class Ledger:
    """Amounts in wei; `fees` of open tasks only; `stakes` of members,
    and of leavers under contest.
    """

    stakes: dict[str, int] = field(default_factory=dict)
    fees: dict[bytes, int] = field(default_factory=dict)
    owed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    tasks: dict[bytes, Status] = field(default_factory=dict)
    groups: dict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, Standing] = field(default_factory=dict)
    runs: dict[bytes, str] = field(default_factory=dict)
    group_of: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, receipt: Receipt) -> None:
        for event in receipt.events:
            if event.event in ("NodeContested", "NodeCleared", "AnswerShownLate", "ProbeStarted"):
                continue
            if "task" in event.args:
                self._task(event.event, event.args)
            elif "node" in event.args:
                self._node(event.event, event.args)
            elif event.event == "Credited":
                self.owed[event.args["account"]] += event.args["amount"]
            elif event.event == "Withdrawn":
                self.owed[event.args["account"]] -= event.args["amount"]

    def balance(self) -> int:
        return sum(self.stakes.values()) + sum(self.fees.values()) + sum(self.owed.values())

    def at(self, *statuses: Status) -> list[bytes]:
        """Return the tasks in this state, oldest first."""
        return [task for task, status in self.tasks.items() if status in statuses]

    def _task(self, event: str, args: dict[str, Any]) -> None:
        task = args["task"]
        if event == "TaskCreated":
            assert task not in self.tasks
            self.tasks[task], self.fees[task] = Status.CREATED, args["fee"]
            self.groups[args["group"]].append(task)
            self.group_of[task] = args["group"]
            return
        assert task in self.fees, f"{event} after the end"
        if event in ENDS:
            self.tasks[task] = ENDS[event]
            del self.fees[task]
        else:
            assert self.tasks[task] < STEPS[event]
            self.tasks[task] = STEPS[event]
        if event == "TaskStarted":
            assert self.nodes[args["node"]] is Standing.ACTIVE
            self.runs[task] = args["node"]
        assert args.get("node", "") in ("", self.runs.get(task, "0x" + "00" * 20))

    def _node(self, event: str, args: dict[str, Any]) -> None:
        node = args["node"]
        if event in LEAVES:
            node_tasks = [task for task in self.fees if self.runs.get(task) == node]
            assert not set(node_tasks) & set(self.at(Status.STARTED)), "left while busy"
            assert event != "NodeQuit" or not node_tasks, "quit before the judgement"
            self.nodes[node] = LEAVES[event]
        elif event in MOVES:
            assert self.nodes.get(node) is not MOVES[event]
            self.nodes[node] = MOVES[event]
        if event in ("StakeReturned", "StakeForfeited", "NodeSlashed"):
            assert self.stakes.pop(node) == args["amount"]
        elif "stake" in args and event not in LEAVES:
            self.stakes[node] = args["stake"]

    def members(self) -> list[str]:
        return [n for n, at in self.nodes.items() if at in (Standing.ACTIVE, Standing.PAUSED)]
