"""The legacy scores in plain Python over the lines of a file, independent of the product.

Written from docs/reference/sources.md#crynux-qos-of-2024 and docs/explanation/legacy.md#scores
for legal histories: events are not checked.
"""

from datetime import UTC, datetime
from typing import Any

ONE = 10**18
Event = dict[str, Any]


def digits(value: int | None) -> str | None:
    return None if value is None else f"{value // ONE}.{value % ONE:018d}"


class Reference:
    """Applies events in order; `settings` are those of the rule set's `legacy`,
    in units of 10^-18.
    """

    def __init__(self, settings: Event) -> None:
        self.settings = settings
        self.seconds: int | None = settings["window_seconds"]
        self.nodes: dict[str, Event] = {}
        self.tasks: dict[str, Event] = {}
        self.ended: list[Event] = []

    def window(self, time: int) -> int:
        if self.seconds:
            return time // self.seconds
        utc_time = datetime.fromtimestamp(time, UTC)
        return (utc_time.year - 1970) * 12 + utc_time.month - 1

    def window_start(self, window: int) -> int:
        if self.seconds:
            return window * self.seconds
        return int(datetime(1970 + window // 12, window % 12 + 1, 1, tzinfo=UTC).timestamp())

    def node(self, address: str) -> Event:
        fresh: Event = {"status": "unknown", "scores": [], "spans": [], "latest": 0}
        return self.nodes.setdefault(address, fresh)

    def read(self, event: Event) -> None:
        name = event["type"]
        if name == "node_joined":
            self.join(event)
        elif name in ("node_quit", "node_slashed", "node_kicked_out"):
            self.leave(event)
        elif name == "task_started":
            task = self.tasks.setdefault(event["task"], {"key": event["task"], "parts": []})
            self.node(event["node"])
            task["parts"].append(
                {"node": event["node"], "round": event["round"], "open": True, "said": {}}
            )
        else:
            self.part(event)

    def join(self, event: Event) -> None:
        node = self.node(event["node"])
        if node["status"] == "kicked_out" and node["was_due"]:
            node["scores"] = []
        node["status"] = "member"
        node["spans"].append([event["time"], None])
        node["latest"] = max(node["latest"], self.window(event["time"]))
        node.update({key: event[key] for key in ("gpu_vram", "timeout") if key in event})

    def leave(self, event: Event) -> None:
        node = self.node(event["node"])
        self.update_window(node, event["time"])
        node["was_due"] = self.is_low(node["here"])
        node["status"] = event["type"].removeprefix("node_")
        node["spans"][-1][1] = event["time"]
        node["latest"] = max(node["latest"], self.window(event["time"]))

    def part(self, event: Event) -> None:
        task = self.tasks[event["task"]]
        name = event["type"]
        position = (event["block"], event["tx"], event["log"])
        for part in task["parts"]:
            if event.get("node") in (None, part["node"]):
                if name in ("result_committed", "result_disclosed", "task_error_reported"):
                    part["said"][name] = position
                else:
                    part["open"] = False
        if not any(part["open"] for part in task["parts"]):
            self.end(task, event["time"])

    def end(self, task: Event, time: int) -> None:
        parts = task["parts"]
        rounds = [self.judged(parts, "result_committed"), self.judged(parts, "result_disclosed")]
        somebody = any(part["said"] for part in parts)
        for n, part in enumerate(parts):
            part["commitment"], part["disclosure"] = rounds[0][n], rounds[1][n]
            if somebody:
                node = self.node(part["node"])
                node["latest"] = max(node["latest"], self.window(time))
                score = rounds[0][n]["score"] + rounds[1][n]["score"]
                node["scores"].append((node["latest"], score))
        self.ended.append({"task": task["key"], "parts": parts, "scored": somebody})

    def judged(self, parts: list[Event], name: str) -> list[Event]:
        stands = [
            part["said"].get(name, part["said"].get("task_error_reported")) for part in parts
        ]
        round_scores = []
        for stand in stands:
            if stand is None:
                round_scores.append({"rank": None, "score": 0})
            else:
                rank = 1 + sum(
                    1 for other_stand in stands if other_stand is not None and other_stand < stand
                )
                round_scores.append({"rank": rank, "score": [10, 5, 2][rank - 1]})
        return round_scores

    # What is printed

    def shown_tasks(self) -> list[Event]:
        silent = {"rank": None, "score": None}
        describe_node = []
        for task in self.ended:
            nodes = []
            for part in task["parts"]:
                row = {"node": part["node"], "round": part["round"]}
                for name in ("commitment", "disclosure"):
                    row[name] = part[name] if task["scored"] else silent
                total = part["commitment"]["score"] + part["disclosure"]["score"]
                row["score"] = total if task["scored"] else None
                nodes.append(row)
            describe_node.append({"task": task["task"], "nodes": nodes, "scored": task["scored"]})
        return describe_node

    def shown_nodes(self, time: int) -> dict[str, Event]:
        for node in self.nodes.values():
            self.update_window(node, time)
        members = [node for node in self.nodes.values() if node["status"] == "member"]
        vram = max((node.get("gpu_vram", 0) for node in members), default=0)
        longest = max((node.get("timeout", 0) for node in members), default=0)
        best = max((node["mean"] or 0 for node in members), default=0)
        merits = 0
        for node in members:
            self.compare(node, (vram, longest, best))
            merits += node["Q"] * node["online"]
        return {address: self.describe_node(node, merits) for address, node in self.nodes.items()}

    def update_window(self, node: Event, time: int) -> None:
        node["now"] = max(node["latest"], self.window(time))
        scores = [score for window, score in node["scores"] if window == node["now"]]
        node["here"], window_start = scores, self.window_start(node["now"])
        node["mean"] = sum(scores) * ONE // len(scores) if scores else None
        node["online"] = sum(
            max(0, (time if end is None else end) - max(start, window_start))
            for start, end in node["spans"]
        )

    def compare(self, node: Event, maxima: tuple[int, int, int]) -> None:
        vram, longest, best = maxima
        min_timeout_seconds = self.settings["least_timeout_seconds"]
        node["R"] = node.get("gpu_vram", 0) * ONE // vram if vram else 0
        timeout = node.get("timeout")
        if timeout is None:
            node["P"] = 0
        elif longest <= min_timeout_seconds or timeout <= min_timeout_seconds:
            node["P"] = ONE
        else:
            node["P"] = (longest - timeout) * ONE // (longest - min_timeout_seconds)
        node["B"] = None
        if node["mean"] is not None:
            node["B"] = node["mean"] * ONE // best if best else 0
        weights = [self.settings[f"{name}_weight"] for name in ("vram", "timeout", "speed")]
        values = [node["R"], node["P"], node["B"] or 0]
        node["Q"] = sum(a * b // ONE for a, b in zip(weights, values, strict=True))

    def describe_node(self, node: Event, merits: int) -> Event:
        is_member = node["status"] == "member"
        row: Event = {name: digits(node[name]) if is_member else None for name in "RPBQ"}
        share = node["Q"] * node["online"] * ONE // (merits or 1) if is_member else None
        scores = node["here"]
        return {
            "window": node["now"],
            "tasks": len(scores),
            "node_score": digits(node["mean"]),
            "online_seconds": node["online"],
            **row,
            "incentive_share": digits(share),
            "task_scores": scores,
            "kickout_due": is_member and self.is_low(scores),
        }

    def is_low(self, scores: list[int]) -> bool:
        line: int = self.settings["kickout_below"]
        min_tasks: int = self.settings["kickout_tasks"]
        return sum(scores) * ONE < line * len(scores) and len(scores) >= min_tasks
