"""Input files of `select` and `queue`: a history as JSON lines, and a task as JSON."""

import json
from pathlib import Path
from typing import Any

from oracle.domain.events.jsonl import event_to_json
from tests.support.histories import History

TB = 10**18


def write_events(folder: Path, history: History, name: str = "events.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{event_to_json(event)}\n" for event in history.events))
    return path


def write_task(folder: Path, name: str = "task.json", **task_fields: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(task_fields))
    return path
