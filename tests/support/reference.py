"""A second, plain implementation of the rule set `crynux`, which uses nothing of `oracle`.

The input are the objects of a JSON-lines file, sorted by position. The output is that of `replay`,
with anomalies as positions only. Commit/disclose events and further events about nodes are not
supported; the second implementation in scoring.js has them all (`make conformance`).
"""

from collections import defaultdict
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Any

ONE = 10**18
Event = dict[str, Any]

_LEAVING = {"node_quit": "quit", "node_slashed": "slashed", "node_kicked_out": "kicked_out"}
_CHANGES = ("node_paused", "node_resumed", "node_pause_asked", "node_quit_asked")
# The supported events that name a node and nothing else.
NODE_ONLY_EVENTS = frozenset({*_LEAVING, *_CHANGES})
_ABOUT_MODELS = {"model_added", "download_requested"}
_TERMINALS = {
    "task_succeeded",
    "task_refunded",
    "task_invalidated",
    "task_aborted",
    "task_timed_out",
}


def compute_decay_factor(seconds: int) -> int:
    """Return exp(-seconds/1800) in units of 2^-128, computed bit by bit."""
    if seconds >= 2**21:
        return 0
    e = 2**128
    for k in range(21):
        if seconds // 2**k % 2 == 1:
            with localcontext() as context:
                context.prec = 60
                exact = Decimal(2**128) * (-Decimal(2**k) / Decimal(1800)).exp()
                factor = int(exact.to_integral_value(rounding=ROUND_FLOOR))
            e = e * factor // 2**128
    return e


def compute_reliability_at(node: Event, time: int) -> int:
    seconds = max(0, time - node["since"])
    base: int = node["base"]
    return base + (ONE - base) * (2**128 - compute_decay_factor(seconds)) // 2**128


def is_due(pool: list[int]) -> bool:
    return len(pool) == 50 and sum(pool) < 100


def format_decimal(number: int) -> str:
    return f"{number // ONE}.{str(number % ONE).rjust(18, '0')}"


class Reference:
    def __init__(self) -> None:
        self.nodes: dict[str, Event] = {}
        self.tasks: dict[str, Event] = defaultdict(dict)
        self.groups: list[Event] = []
        # The groups that were closed in the transaction of the last event.
        self.open: list[Event] = []
        self.odd: list[tuple[int, ...]] = []

    def run(self, events: list[Event], at: int) -> Event:
        last_time, last_place = 0, None
        for event in events:
            place = (event["block"], event.get("tx", 0))
            if place != last_place:
                self.settle()
            last_place = place
            if event["time"] < last_time:
                self.complain(event)
            last_time = event["time"]
            name = event["type"]
            if name == "group_validated":
                self.close(event)
            elif name.startswith("node_") or name in _ABOUT_MODELS:
                self.membership(event)
            else:
                self.task_event(event)
        self.settle()
        return {
            "nodes": [self.format_node(address, at) for address in sorted(self.nodes)],
            "groups": self.groups,
            "odd": self.odd,
        }

    def complain(self, event: Event) -> None:
        self.odd.append((event["block"], event.get("tx", 0), event["log"], event.get("sub", 0)))

    def node(self, address: str, time: int) -> Event:
        fresh = {"status": "unknown", "paused": False, "busy": 0, "pool": []}
        fresh |= {"wants": None, "gone": None, "disgraced": False}
        return self.nodes.setdefault(address, {**fresh, "base": ONE, "since": time})

    # Nodes

    def membership(self, event: Event) -> None:
        name = event["type"]
        address = event["node"]
        member = address in self.nodes and self.nodes[address]["status"] == "member"
        paused = member and self.nodes[address]["paused"]
        wants = self.nodes[address]["wants"] if member else None
        place = (event["block"], event.get("tx", 0))
        gone = address in self.nodes and self.nodes[address]["gone"] == place
        allowed = {
            "node_joined": not member or wants == "quit",
            "node_paused": member and not paused,
            "node_resumed": paused or wants == "pause",
            "node_pause_asked": member and not paused and wants is None,
            "node_quit_asked": member and wants != "quit",
            "node_slashed": member or gone,
            "node_kicked_out": member or gone,
            "node_updated": True,
            "model_added": True,
            "download_requested": True,
        }
        if not allowed.get(name, member):
            self.complain(event)
            return
        node = self.node(address, event["time"])
        if name == "node_joined":
            self.comes(node, event)
        elif name in _LEAVING:
            node["disgraced"] = name == "node_kicked_out" and member and is_due(node["pool"])
            node.update(status=_LEAVING[name], wants=None, gone=None)
        elif name in ("node_paused", "node_resumed"):
            node["paused"] = name == "node_paused"
            if wants == "pause":
                node["wants"] = None
        elif name in ("node_pause_asked", "node_quit_asked"):
            node["wants"] = "pause" if name == "node_pause_asked" else "quit"
            self.granted(node, event)

    def comes(self, node: Event, event: Event) -> None:
        """Let a node join; a new node has a reliability H of 1.

        A node that was kicked out for its scores starts again with H = 1 and an empty pool.
        """
        if node["disgraced"]:
            node["pool"] = []
        if node["disgraced"] or node["status"] == "unknown":
            node.update(base=ONE, since=event["time"])
        node.update(status="member", paused=False, disgraced=False, wants=None, gone=None)

    def granted(self, node: Event, event: Event) -> None:
        """Apply a node's pause or quit, which is granted once the node runs nothing."""
        if node["busy"] or node["wants"] is None:
            return
        if node["wants"] == "pause":
            node["paused"] = True
        else:
            node.update(status="quit", gone=(event["block"], event.get("tx", 0)))
        node["wants"] = None

    # Tasks

    def task_event(self, event: Event) -> None:
        name = event["type"]
        key = event["task"]
        task = self.tasks.get(key, {})
        if "end" in task or not self.allowed(name, task, event):
            self.complain(event)
            return
        task = self.tasks[key]
        position = (event["block"], event.get("tx", 0), event["log"], event.get("sub", 0))
        if name == "task_created":
            task.update(created=position, size=event.get("group_size"))
        elif name == "task_queued":
            task["queued"] = True
        elif name == "task_started":
            task.update(node=event["node"], started=event["time"], start_position=position)
            self.node(event["node"], event["time"])["busy"] += 1
        elif name in ("task_submitted", "task_error_reported"):
            if "stopped" not in task:
                task.update(stopped=event["time"], freed=event.get("frees", False))
                node = self.node(event["node"], event["time"])
                node["busy"] -= task["freed"]
                self.granted(node, event)
            task["failed"] = name == "task_error_reported"
        elif name == "task_validated":
            task["validated"] = True
        else:
            self.end(task, event)

    def allowed(self, name: str, task: Event, event: Event) -> bool:
        if name in ("task_submitted", "task_error_reported"):
            return task.get("node") == event["node"] and self.may_answer(name, task)
        if name == "task_created":
            return "created" not in task
        if name in ("task_queued", "task_started"):
            return "node" not in task
        if name == "task_validated":
            return "stopped" in task and "validated" not in task
        return name == "task_aborted" or "node" in task

    @staticmethod
    def may_answer(name: str, task: Event) -> bool:
        # An error after the submission: the committed answer is revealed to be an error.
        is_reveal = name == "task_error_reported" and "validated" not in task
        return "stopped" not in task or (is_reveal and not task["failed"])

    def end(self, task: Event, event: Event) -> None:
        if task:
            if event.get("node") not in (None, task.get("node")):
                self.complain(event)
            if event.get("last_status") not in (None, self.progress(task)):
                self.complain(event)
        task.update(end=event["type"], why=event.get("reason"))
        if "node" not in task:
            return
        node = self.node(task["node"], event["time"])
        node["busy"] -= not task.get("freed")
        h = compute_reliability_at(node, event["time"])
        if event["type"] == "task_timed_out":
            node.update(base=h * 3 // 10, since=event["time"])
        if event["type"] in ("task_succeeded", "task_refunded"):
            node.update(base=min(ONE, h + 15 * 10**16), since=event["time"])
        self.granted(node, event)

    def progress(self, task: Event) -> str:
        if "validated" in task:
            return "validated"
        if "stopped" in task:
            return "error_reported" if task["failed"] else "submitted"
        if "node" in task:
            return "started"
        return "queued" if "queued" in task else "created"

    # Groups

    def close(self, event: Event) -> None:
        """Close a group; its answers are judged at the end of the transaction."""
        keys = event["tasks"]
        if len(set(keys)) < len(keys):
            self.complain(event)
            return
        if any(row["task"] in keys for group in self.open for row in group["rows"]):
            self.settle()
        rows, runners = [], []
        for key in keys:
            task = self.tasks.get(key)
            if not task:
                self.complain(event)
            elif "scored" in task:
                self.complain(event)
                continue
            elif "stopped" in task and task.get("end") not in ("task_aborted", "task_timed_out"):
                came = task.get("created", task["start_position"])
                seconds = max(0, task["stopped"] - task["started"])
                runners.append((task["failed"], seconds, came, key))
            task = task or {}
            seconds = max(0, task["stopped"] - task["started"]) if "stopped" in task else None
            rows.append({"task": key, "node": task.get("node"), "elapsed": seconds})
        declared_sizes = [self.tasks[row["task"]].get("size") or 0 for row in rows]
        order = [runner[-1] for runner in sorted(runners)]
        self.open.append(
            {
                "event": event,
                "rows": rows,
                "order": order,
                "size": max([len(keys), *declared_sizes]),
            }
        )

    def settle(self) -> None:
        """Score the groups of a transaction by the transaction's verdicts on their answers."""
        for group in self.open:
            order = group["order"]
            ends = {key: self.tasks[key].get("end") for key in order}
            failed = [key for key in order if self.tasks[key].get("why") == "error_reported"]
            right = [
                key for key in order if ends[key] in (None, "task_succeeded", "task_refunded")
            ]
            if len(failed) * 2 > group["size"]:
                right = [key for key in order if key in right or key in failed]
            if len(order) * 2 <= group["size"]:
                right = []
            rows = [self.member(row, right, group["event"]) for row in group["rows"]]
            name = group["event"]["group"]
            self.groups.append({"group": name, "members": rows, "scored": bool(right)})
        self.open = []

    def member(self, row: Event, right: list[str], event: Event) -> Event:
        rank = right.index(row["task"]) + 1 if row["task"] in right else None
        row = {**row, "rank": rank, "score": None}
        if right and row["node"] is not None:
            row["score"] = [0, 10, 5, 2, 2][rank or 0]
            self.tasks[row["task"]]["scored"] = True
            pool = self.node(row["node"], event["time"])["pool"]
            pool.append(row["score"])
            del pool[:-50]
        return row

    # What is printed

    def format_node(self, address: str, at: int) -> Event:
        node = self.nodes[address]
        pool = node["pool"]
        h = compute_reliability_at(node, at)
        member = node["status"] == "member"
        long_term = sum(pool) * 10**17 // len(pool) if pool else ONE // 2
        status = node["status"]
        if member:
            status = "paused" if node["paused"] else "busy" if node["busy"] else "available"
        return {
            "node": address,
            "status": status,
            "task_scores": pool,
            "sum": sum(pool),
            "count": len(pool),
            "long_term": format_decimal(long_term),
            "reliability": format_decimal(h),
            "reliability_base": format_decimal(node["base"]),
            "reliability_since": node["since"],
            "qos": format_decimal(long_term * h // ONE) if member else None,
            "excluded": member and h < ONE // 10,
            "kickout_due": member and is_due(pool),
        }
