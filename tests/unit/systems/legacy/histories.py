"""A Hypothesis strategy for legal histories of a network with commit and disclosure."""

from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

NODES = [f"0x{n:040x}" for n in range(1, 6)]
TERMINALS = ["task_succeeded", "task_timed_out", "task_aborted", "task_invalidated"]
# Seconds between two blocks: mostly a few, sometimes past the end of a month.
STEPS = st.sampled_from([0, 1, 7, 60, 3_600, 86_400, 20 * 86_400, 70 * 86_400])


class Network:
    """Emits only legal events, as drawn."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[Event] = []
        self.block = 1
        self.time = draw(st.integers(0, 2**31))
        self.made = 0
        self.members: set[str] = set()
        self.tasks: dict[str, list[Event]] = {}

    def emit(self, name: str, **values: Any) -> None:
        where = {"block": self.block, "tx": 0, "log": len(self.lines), "time": self.time}
        self.lines.append({"type": name, **where, **values})

    def step(self) -> None:
        if self.draw(st.booleans()):
            self.block += 1
            self.time += self.draw(STEPS)
        deeds = [self.join, self.start]
        deeds += [self.leave] if self.members else []
        deeds += [self.answer] * 5 + [self.end] * 2 if self.tasks else []
        self.draw(st.sampled_from(deeds))()

    def join(self) -> None:
        away = [node for node in NODES if node not in self.members]
        if not away:
            return
        node = self.draw(st.sampled_from(away))
        self.members.add(node)
        gpu_fields = {
            "gpu_vram": self.draw(st.none() | st.integers(0, 48)),
            "timeout": self.draw(st.none() | st.integers(0, 400)),
        }
        known_fields = {key: value for key, value in gpu_fields.items() if value is not None}
        self.emit("node_joined", node=node, **known_fields)

    def leave(self) -> None:
        node = self.draw(st.sampled_from(sorted(self.members)))
        self.members.discard(node)
        event_type = self.draw(st.sampled_from(["node_quit", "node_slashed", "node_kicked_out"]))
        self.emit(event_type, node=node)

    def start(self) -> None:
        self.made += 1
        key = f"0x{self.made:064x}"
        count = self.draw(st.sampled_from([1, 2, 3, 3, 3, 3]))
        nodes = self.draw(st.permutations(NODES))[:count]
        self.tasks[key] = [{"node": node, "stage": 0} for node in nodes]
        for place, node in enumerate(nodes):
            self.emit("task_started", task=key, node=node, round=place)

    def answer(self) -> None:
        key = self.draw(st.sampled_from(sorted(self.tasks)))
        parts = [part for part in self.tasks[key] if part["stage"] < 2]
        if not parts:
            return
        part = self.draw(st.sampled_from(parts))
        if self.draw(st.integers(0, 4)) == 0:
            name, part["stage"] = "task_error_reported", 2
        else:
            name = ["result_committed", "result_disclosed"][part["stage"]]
            part["stage"] += 1
        self.emit(name, task=key, node=part["node"])

    def end(self) -> None:
        key = self.draw(st.sampled_from(sorted(self.tasks)))
        event_type = self.draw(st.sampled_from(TERMINALS))
        if self.draw(st.booleans()):
            self.emit(event_type, task=key)
            del self.tasks[key]
            return
        part = self.draw(st.sampled_from(self.tasks[key]))
        self.emit(event_type, task=key, node=part["node"])
        self.tasks[key].remove(part)
        if not self.tasks[key]:
            del self.tasks[key]


@st.composite
def histories(draw: Any, max_steps: int = 60) -> list[Event]:
    network = Network(draw)
    for _ in range(draw(st.integers(1, max_steps))):
        network.step()
    if not network.lines:
        network.join()
    return network.lines
