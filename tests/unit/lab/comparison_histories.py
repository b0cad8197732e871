"""Writes the short histories of docs/explanation/comparison.md into docs/comparison: JSON lines.

Run: python tests/unit/lab/comparison_histories.py. It needs only the standard library, and
writes the same bytes every time.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "comparison"
START = 1_800_000_000
BLOCK_SECONDS = 12
# Seconds from the start of a task to the answer of the fastest, the second and the third.
SPEEDS = (10, 20, 30)
TIMEOUT = 48
MODEL = "example/model"
# H after two timeouts in a row is below 0.1; half of the loss has healed after this time.
HALF_AN_HOUR = 1800


class History:
    """Consecutive events at block times that are multiples of the block length."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = START
        self._logs: dict[int, int] = {}
        self._groups = 0

    def emit(self, event: str, *, at: int | None = None, **fields: object) -> None:
        """Add an event; `at` is in seconds, by default now."""
        block = ((self.now if at is None else at) - START) // BLOCK_SECONDS
        log = self._logs.get(block, 0)
        self._logs[block] = log + 1
        place = {"block": block, "log": log, "time": START + block * BLOCK_SECONDS}
        self.lines.append(json.dumps({"type": event, **place, **fields}))

    def join(self, *names: str) -> None:
        """Let identical nodes join."""
        for name in names:
            self.emit(
                "node_joined",
                node=node(name),
                stake="400000000000000000000",
                gpu_name="NVIDIA GeForce RTX 4090",
                gpu_vram=24,
                version=[1, 2, 0],
                models=[MODEL],
            )

    def create(self, task: str, group: str | None = None) -> None:
        """Create a standard task, in a group if it is given."""
        event = "task_created"
        version = [1, 0, 0]
        requirements = {"fee": "1000", "min_vram": 8, "models": [MODEL], "version": version}
        self.emit(event, at=None, task=task, group=group, size=1, kind="sd", **requirements)

    def group(self, order: list[str], silent: tuple[str, ...] = ()) -> None:
        """Run a validation group: `order` by speed, fastest first; the silent nodes time out."""
        self._groups += 1
        members = [*order, *silent]
        tasks = {name: key(f"task {self._groups} {name}") for name in members}
        group = key(f"group {self._groups}")
        for name in members:
            self.create(task=tasks[name], group=group)
        for name in members:
            self.emit("task_started", task=tasks[name], node=node(name))
        for name, seconds in zip(order, SPEEDS, strict=False):
            self.emit("task_submitted", at=self.now + seconds, task=tasks[name], node=node(name))
        closing = self.now + TIMEOUT + BLOCK_SECONDS
        for name in silent:
            self.emit("task_timed_out", at=closing, task=tasks[name], node=node(name))
        ordered = [tasks[name] for name in members]
        self.emit("group_validated", at=closing, group=group, tasks=ordered)
        for name in order:
            self.emit("task_succeeded", at=closing, task=tasks[name])

    def single(self, name: str) -> None:
        """Run a task outside of any group, while all nodes are free."""
        self._groups += 1
        task = key(f"single {self._groups}")
        self.create(task=task)
        self.emit("task_started", task=task, node=node(name))
        done = self.now + BLOCK_SECONDS
        self.emit("task_submitted", at=done, task=task, node=node(name))
        self.emit("task_succeeded", at=done, task=task)

    def wait(self, seconds: int) -> None:
        """Advance the time."""
        self.now += seconds

    def text(self) -> str:
        """Return the file, sorted by position."""
        return "\n".join(sorted(self.lines, key=place)) + "\n"


def place(line: str) -> tuple[int, int]:
    """Return the position of an event, by which lines are sorted."""
    event = json.loads(line)
    return event["block"], event["log"]


def node(name: str) -> str:
    """Return the address that contains the name in hex."""
    return "0x" + name.encode().hex().rjust(40, "0")


def key(name: str) -> str:
    """Return the 32 bytes that contain the name."""
    return "0x" + name.encode().hex().rjust(64, "0")


def build_alternating(every: int) -> History:
    """A node answers one task and not the next, for four hours."""
    history = History()
    history.join("fickle", "good", "fine")
    for number in range(4 * 3600 // every):
        history.wait(every)
        if number % 2:
            history.group(["good", "fine"], silent=("fickle",))
        else:
            history.group(["good", "fickle", "fine"])
    return history


def build_always_third() -> History:
    """Two nodes are always third; one of them was silent once."""
    history = History()
    history.join("good", "fine", "third", "almost")
    for number in range(55):
        history.wait(600)
        history.group(["good", "fine", "third"])
        history.wait(600)
        if number == 20:
            history.group(["good", "fine"], silent=("almost",))
        else:
            history.group(["good", "fine", "almost"])
    return history


def build_restarted() -> History:
    """A node has fifty scores with a mean of 2.9, and then does not answer once."""
    history = History()
    history.join("good", "fine", "middling")
    for number in range(50):
        history.wait(600)
        if number % 10 < 3:
            history.group(["good", "middling", "fine"])
        else:
            history.group(["good", "fine", "middling"])
    history.wait(7200)
    history.group(["good", "fine"], silent=("middling",))
    return history


def build_zero_mean() -> History:
    """A node does not answer in its first three groups, four hours apart;
    the network continues.
    """
    history = History()
    history.join("good", "fine", "unlucky")
    for _ in range(3):
        history.wait(4 * 3600)
        history.group(["good", "fine"], silent=("unlucky",))
    for _ in range(20):
        history.wait(3600)
        history.single("good")
    return history


def build_rejoining() -> History:
    """Two good nodes do not answer three times; one of them leaves,
    and joins again a block later.
    """
    history = History()
    history.join("good", "fine", "honest", "washer")
    for _ in range(5):
        history.wait(600)
        history.group(["good", "honest", "fine"])
        history.wait(600)
        history.group(["good", "washer", "fine"])
    for _ in range(3):
        history.wait(72)
        history.group(["good"], silent=("honest", "washer"))
    history.wait(72)
    history.emit("node_quit", node=node("washer"))
    history.wait(BLOCK_SECONDS)
    history.join("washer")
    history.wait(BLOCK_SECONDS)
    history.single("good")
    history.wait(HALF_AN_HOUR)
    history.single("good")
    return history


def build_instant_errors() -> History:
    """A node reports an error at once for every task; two others work."""
    history = History()
    history.join("good", "fine", "hasty")
    for number in range(20):
        history.wait(600)
        members = ["good", "fine", "hasty"]
        tasks = {name: key(f"task {number} {name}") for name in members}
        for name in members:
            history.create(task=tasks[name], group=key(f"group {number}"))
        for name in members:
            history.emit("task_started", task=tasks[name], node=node(name))
        history.emit("task_error_reported", task=tasks["hasty"], node=node("hasty"))
        for name, seconds in zip(("good", "fine"), (12, 24), strict=True):
            at = history.now + seconds
            history.emit("task_submitted", at=at, task=tasks[name], node=node(name))
        closing = history.now + TIMEOUT
        ordered = [tasks[name] for name in members]
        history.emit("group_validated", at=closing, group=key(f"group {number}"), tasks=ordered)
        for name in ("good", "fine"):
            history.emit("task_succeeded", at=closing, task=tasks[name])
        history.emit("task_aborted", at=closing, task=tasks["hasty"], reason="error_reported")
    return history


def build_dead_node() -> History:
    """A node never answers; two others work."""
    history = History()
    history.join("good", "fine", "dead")
    for _ in range(70):
        history.wait(72)
        history.group(["good", "fine"], silent=("dead",))
        history.wait(72)
        history.single("good")
    return history


HISTORIES = {
    "alternating": lambda: build_alternating(600),
    "alternating-often": lambda: build_alternating(72),
    "always-third": build_always_third,
    "restarted": build_restarted,
    "zero-mean": build_zero_mean,
    "washing": build_rejoining,
    "dead": build_dead_node,
    "instant-error": build_instant_errors,
}


def main() -> None:
    """Write all histories."""
    FOLDER.mkdir(exist_ok=True)
    for name, build_history in HISTORIES.items():
        (FOLDER / f"{name}.jsonl").write_text(build_history().text(), "utf-8")


if __name__ == "__main__":
    main()
