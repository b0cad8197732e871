"""Measure the detection of incidents, compared with a test of every end against all ends.

Run: .venv/bin/python benchmarks/incidents.py [--tasks 200000]
The traffic has 1,000 nodes, 100 applications, a burst of one application and an outage. The simple
detection gets the first 2,000 ends only, because its work grows with the square of their number.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.domain.blocks import Position  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.domain.incidents import IncidentDetector  # noqa: E402
from tests.support.task_traffic import (  # noqa: E402
    BEGIN,
    Attempt,
    Traffic,
    iter_starts_and_ends,
    make_application_address,
    make_numbered_node_address,
)
from tests.unit.domain.incidents.naive_incidents import find_incidents_naively  # noqa: E402

ROUNDS = 3
# Each task is created, started and ended. The detector handles only the end.
EVENTS_PER_TASK = 3
SIMPLE_ENDS = 2_000
TARGET_MICROSECONDS = 3.0

End = tuple[Position, int, Address, Address, bool]


def is_failing(attempt: Attempt) -> bool:
    """Return whether an attempt fails because of the simulated burst or outage."""
    if 2_000 <= attempt.seconds < 4_400:
        return attempt.application == 3
    return 6_000 <= attempt.seconds < 6_300 and attempt.chance < 0.7


def list_ends(tasks: int) -> list[End]:
    traffic = Traffic(tasks=tasks, nodes=1_000, applications=100, gap_seconds=0.1)
    return [
        (
            Position(seconds, 0, number),
            BEGIN + seconds,
            make_application_address(task_end.application),
            make_numbered_node_address(task_end.node),
            task_end.is_timeout,
        )
        for number, (seconds, task_end) in enumerate(iter_starts_and_ends(1, traffic, is_failing))
        if seconds >= task_end.seconds
    ]


def measure_detector(ends: list[End]) -> float:
    """Return the CPU time of the detector in microseconds per event."""
    detector = IncidentDetector()
    start = time.process_time()
    for position, end_time, creator, node, is_timeout in ends:
        detector.record_end(position, end_time, (creator, node), is_timeout=is_timeout)
    cpu_seconds = time.process_time() - start
    if detector.incident_count < 2:
        raise SystemExit("the burst and the outage were not found; measure with more tasks")
    return cpu_seconds / len(ends) / EVENTS_PER_TASK * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200_000)
    ends = list_ends(parser.parse_args().tasks)
    begin_benchmark("the fold of the events, and the rows in the database")
    detector_microseconds = min(measure_detector(ends) for _ in range(ROUNDS))
    simple_ends = ends[:SIMPLE_ENDS]
    start = time.process_time()
    find_incidents_naively(simple_ends)
    baseline_microseconds = (
        (time.process_time() - start) / len(simple_ends) / EVENTS_PER_TASK * 1e6
    )
    return finish_benchmark(
        [
            Outcome(
                "incidents: CPU time of one event",
                detector_microseconds,
                "µs",
                TARGET_MICROSECONDS,
                baseline_microseconds,
                f"the rule tested against all of {SIMPLE_ENDS:,} ends",
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
