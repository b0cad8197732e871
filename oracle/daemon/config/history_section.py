"""The section `[history]`: where final blocks are fetched, verified and decoded."""

import os
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


def worker_count(told: HistorySection) -> int:
    """Return how many workers prepare history; 0: none, the daemon does it."""
    if told.executor == "inline":
        return 0
    return told.workers or max(1, len(os.sched_getaffinity(0)) - 1)
