"""The section `[history]`: where final blocks are fetched, verified and decoded."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import Section


class HistorySection(Section):
    # `processes`: history is prepared by workers beside the daemon, and taken in by it in order;
    # they are started where 2,000 blocks or more are to be read, and end when they are not
    # needed. `inline`: in the daemon itself. What is stored is the same.
    executor: Literal["processes", "inline"] = "processes"
    # How many workers; by default one for every core but one, at least one. More than three
    # gain nothing on one chain: the daemon writes no faster.
    workers: int | None = Field(default=None, ge=1, le=64)
    # Where segments that are ready and not due survive a crash (256 MiB at most); by default
    # beside SQLite's file, and with PostgreSQL nowhere: they are prepared anew.
    stage: Path | None = None


def stage_of(told: HistorySection, database_url: str) -> Path | None:
    """Return the folder of staged segments; None: there is none."""
    if told.stage is not None:
        return told.stage
    scheme, _, file = database_url.partition(":///")
    return Path(f"{file}.segments") if scheme == "sqlite" and file else None


def worker_count(told: HistorySection) -> int:
    """Return how many workers prepare history; 0: none, the daemon does it."""
    if told.executor == "inline":
        return 0
    return told.workers or max(1, (os.cpu_count() or 1) - 1)
